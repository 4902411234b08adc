package dev.foldmax.benchmarks;

import java.time.LocalDate;
import java.util.List;

/**
 * What a report says of its origin.
 *
 * @param machine where
 * @param date when
 * @param profiles of Maven that the command needs
 * @param arguments of {@link Table}
 * @param schedule how long each benchmark was measured
 * @param bars what speeds were meant
 */
record Run(
    Machine machine,
    LocalDate date,
    String profiles,
    String arguments,
    Schedule schedule,
    List<Bar> bars) {}
