package dev.foldmax.benchmarks;

import java.time.LocalDate;

/**
 * What a report says of its origin.
 *
 * @param machine where
 * @param date when
 * @param command the arguments of {@link Table}
 * @param schedule how long each benchmark was measured
 */
record Run(Machine machine, LocalDate date, String command, Schedule schedule) {}
