package dev.foldmax.cpu;

import java.util.concurrent.CancellationException;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * Runs numbered tasks on the calling thread and some helpers. Tasks are taken from a counter in
 * order; which thread runs which task is nobody's business, since no result depends on it.
 */
final class Workers implements AutoCloseable {
  /** A piece of work. */
  @FunctionalInterface
  interface Task {
    /**
     * Runs one task.
     *
     * @param index which, from 0
     * @param worker the thread's number, below the parallelism: no two tasks of a number run at
     *     once
     */
    void run(long index, int worker);
  }

  /** How long an idle helper spins before it parks: longer than a task, shorter than a wink. */
  private static final long SPIN_NANOS = 50_000;

  private final int parallelism;
  private final @Nullable Executor executor;
  private final Thread[] threads;
  private final Object turn = new Object();
  private volatile @Nullable Job current;
  private volatile boolean closed;

  private Workers(int parallelism, @Nullable Executor executor) {
    if (parallelism < 1) {
      throw new IllegalArgumentException("threads: must be at least 1, got " + parallelism);
    }
    this.parallelism = parallelism;
    this.executor = executor;
    this.threads = new Thread[executor == null ? parallelism - 1 : 0];
    for (int i = 0; i < threads.length; i++) {
      int worker = i + 1;
      threads[i] =
          Thread.ofPlatform().daemon().name("foldmax-" + worker).unstarted(() -> loop(worker));
    }
    for (Thread thread : threads) {
      thread.start();
    }
  }

  /** The calling thread and {@code parallelism - 1} daemons. */
  static Workers ofThreads(int parallelism) {
    return new Workers(parallelism, null);
  }

  /** The calling thread and up to {@code parallelism - 1} threads of an executor. */
  static Workers ofExecutor(Executor executor, int parallelism) {
    return new Workers(parallelism, executor);
  }

  int parallelism() {
    return parallelism;
  }

  /**
   * Runs tasks 0 to {@code tasks - 1} and returns when all are done. Calls from several threads
   * take turns. What a task throws is thrown here once the tasks under way have ended; the others
   * are dropped.
   */
  void run(long tasks, Task task) {
    synchronized (turn) {
      if (closed) {
        throw new IllegalStateException("the backend is closed");
      }
      if (Thread.currentThread().isInterrupted()) { // the helpers might leave it no task to stop at
        throw new CancellationException("interrupted");
      }
      Job job = new Job(tasks, task);
      int helpers = (int) Math.min(parallelism - 1L, tasks - 1);
      if (helpers > 0) {
        enlist(job, helpers);
      }
      job.work(0, true);
      current = null;
      job.awaitHelpers();
      job.rethrow();
    }
  }

  private void enlist(Job job, int helpers) {
    if (executor == null) {
      current = job;
      for (int i = 0; i < helpers; i++) {
        LockSupport.unpark(threads[i]);
      }
      return;
    }
    for (int i = 1; i <= helpers; i++) {
      int worker = i;
      try {
        executor.execute(() -> job.join(worker));
      } catch (RejectedExecutionException e) {
        return; // fewer helpers: the calling thread does their share
      }
    }
  }

  private void loop(int worker) {
    Job last = null;
    long idleSince = System.nanoTime();
    while (!closed) {
      Job job = current;
      if (job != null && job != last) {
        last = job;
        job.join(worker);
        idleSince = System.nanoTime();
      } else if (System.nanoTime() - idleSince < SPIN_NANOS) {
        Thread.onSpinWait();
      } else {
        LockSupport.park(this);
        idleSince = System.nanoTime();
      }
    }
  }

  /** Ends the helpers once the call under way is done. */
  @Override
  public void close() {
    synchronized (turn) {
      closed = true;
      for (Thread thread : threads) {
        LockSupport.unpark(thread);
      }
    }
  }

  boolean isClosed() {
    return closed;
  }

  /** One call's tasks. */
  private static final class Job {
    private final long tasks;
    private final Task task;
    private final AtomicLong next = new AtomicLong();

    /** Helpers inside {@link #join}; negative once the caller has seen that there are none left. */
    private final AtomicLong inside = new AtomicLong();

    private volatile @Nullable Throwable failure;

    Job(long tasks, Task task) {
      this.tasks = tasks;
      this.task = task;
    }

    /** A helper's part: a job that its caller has left is not entered any more. */
    void join(int worker) {
      long seen;
      do {
        seen = inside.get();
        if (seen < 0) {
          return;
        }
      } while (!inside.compareAndSet(seen, seen + 1));
      work(worker, false);
      inside.decrementAndGet();
    }

    void work(int worker, boolean isCaller) {
      long index;
      while ((index = next.getAndIncrement()) < tasks) {
        if (failure != null) {
          return;
        }
        if (isCaller && Thread.currentThread().isInterrupted()) {
          failure = new CancellationException("interrupted");
          return;
        }
        try {
          task.run(index, worker);
        } catch (Throwable e) {
          failure = e;
          return;
        }
      }
    }

    void awaitHelpers() {
      while (!inside.compareAndSet(0, Long.MIN_VALUE)) {
        Thread.onSpinWait();
      }
    }

    void rethrow() {
      Throwable thrown = failure;
      if (thrown instanceof RuntimeException e) {
        throw e;
      }
      if (thrown instanceof Error e) {
        throw e;
      }
    }
  }
}
