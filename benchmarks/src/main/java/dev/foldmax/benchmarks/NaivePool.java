package dev.foldmax.benchmarks;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;

/** Runs numbered tasks on the calling thread and on those of a JDK pool. */
final class NaivePool implements AutoCloseable {
  /** A piece of work. */
  @FunctionalInterface
  interface Task {
    /**
     * Runs one task.
     *
     * @param index which, from 0
     * @param worker the thread's number, from 0: no two tasks of a number run at once
     */
    void run(int index, int worker);
  }

  private final int threads;
  private final ExecutorService executor;

  /** A pool of {@code threads} threads, the calling one included. */
  NaivePool(int threads) {
    this.threads = threads;
    this.executor =
        Executors.newFixedThreadPool(
            Math.max(1, threads - 1), Thread.ofPlatform().daemon().name("naive-", 1).factory());
  }

  int threads() {
    return threads;
  }

  /** Runs tasks 0 to {@code tasks - 1}, taken from a counter; returns when all are done. */
  void run(int tasks, Task task) {
    AtomicInteger next = new AtomicInteger();
    List<Future<?>> helpers = new ArrayList<>(threads);
    for (int i = 1; i < Math.min(threads, tasks); i++) {
      int worker = i;
      helpers.add(executor.submit(() -> drain(next, tasks, task, worker)));
    }
    drain(next, tasks, task, 0);
    for (Future<?> helper : helpers) {
      try {
        helper.get();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException("interrupted while waiting for a helper", e);
      } catch (ExecutionException e) {
        throw new IllegalStateException("a task failed", e.getCause());
      }
    }
  }

  /** Runs {@code body} for ranges of {@code items} items, several ranges a thread. */
  void runRanges(int items, Range body) {
    int size = Math.max(1, items / (8 * threads));
    run(
        Math.ceilDiv(items, size),
        (index, worker) -> body.run(index * size, Math.min(items, (index + 1) * size), worker));
  }

  /** Work on items {@code begin} to {@code end - 1}. */
  @FunctionalInterface
  interface Range {
    /** Runs it on the thread of number {@code worker}. */
    void run(int begin, int end, int worker);
  }

  private static void drain(AtomicInteger next, int tasks, Task task, int worker) {
    for (int i = next.getAndIncrement(); i < tasks; i = next.getAndIncrement()) {
      task.run(i, worker);
    }
  }

  @Override
  public void close() {
    executor.shutdown();
  }
}
