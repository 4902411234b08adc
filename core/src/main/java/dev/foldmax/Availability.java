package dev.foldmax;

/** Whether a backend can be opened on this machine. */
public sealed interface Availability {
  /**
   * It can be opened.
   *
   * @param description what it would run on
   */
  record Available(String description) implements Availability {}

  /**
   * What it runs on is not there, as on a machine without a GPU.
   *
   * @param reason a sentence
   */
  record Absent(String reason) implements Availability {}

  /**
   * What it runs on is there but fails, as a driver that is too old.
   *
   * @param reason a sentence that says what to do
   */
  record Unusable(String reason) implements Availability {}
}
