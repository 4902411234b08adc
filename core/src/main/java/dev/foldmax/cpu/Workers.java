package dev.foldmax.cpu;

import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.CancellationException;
import java.util.concurrent.Executor;
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

  private static final int MOST_THREADS = 1 << 14;

  /** Whose task the current thread is running, if any. */
  private static final ThreadLocal<@Nullable Workers> RUNNING = new ThreadLocal<>();

  private final int parallelism;
  private final @Nullable Executor executor;
  private final Thread[] threads;
  private final Account[] accounts; // (workers)
  private final Object turn = new Object();
  private volatile @Nullable Job current;

  /** Tasks that the call under way had done before this run. */
  private volatile long doneBefore;

  /** All tasks of the call under way; 0 where there is none. */
  private volatile long tasksOfCall;

  private volatile boolean closed;

  private Workers(int parallelism, @Nullable Executor executor) {
    if (parallelism < 1) {
      throw new IllegalArgumentException("threads: must be at least 1, got " + parallelism);
    }
    if (parallelism > MOST_THREADS) {
      throw new IllegalArgumentException(
          "threads: must be at most " + MOST_THREADS + ", got " + parallelism);
    }
    this.parallelism = parallelism;
    this.executor = executor;
    this.accounts = new Account[parallelism];
    Arrays.setAll(accounts, worker -> new Account());
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
    return new Workers(parallelism, Objects.requireNonNull(executor, "executor"));
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
    run(tasks, 0, tasks, task);
  }

  /**
   * The same as one of several runs of a call.
   *
   * @param before how many tasks the call's runs before this one had
   * @param all how many tasks the call's runs have in all
   */
  void run(long tasks, long before, long all, Task task) {
    synchronized (turn) {
      if (closed) {
        throw new IllegalStateException("the backend is closed");
      }
      if (Thread.currentThread().isInterrupted()) { // the helpers might leave it no task to stop at
        throw new CancellationException("interrupted");
      }
      Job job = new Job(this, tasks, task);
      int helpers = (int) Math.min(parallelism - 1L, tasks - 1);
      doneBefore = before;
      tasksOfCall = all;
      if (helpers > 0) {
        enlist(job, helpers);
      }
      job.work(0, true);
      current = null;
      job.awaitHelpers();
      tasksOfCall = 0;
      for (Account account : accounts) {
        account.done = 0;
      }
      job.rethrow();
    }
  }

  /** The account of a worker, for its tasks. */
  Account account(int worker) {
    return accounts[worker];
  }

  /** See {@link dev.foldmax.Backend#progress}. */
  double progress() {
    long all = tasksOfCall;
    if (all == 0) {
      return Double.NaN;
    }
    double done = doneBefore;
    for (Account account : accounts) {
      done += account.done + account.share;
    }
    return Math.min(1, done / all);
  }

  /**
   * What a worker has done of a run, for those who watch; and where a long task learns that it is
   * to stop. Written by the worker, and between runs by the caller.
   */
  static final class Account {
    private volatile long done;
    private volatile double share;
    private @Nullable Job job;

    /**
     * Says how far the task under way is, now and then: often enough for an interruption to be
     * answered within a fraction of a second.
     *
     * @param newShare from 0 to 1
     * @throws CancellationException if the call is to stop
     */
    void reach(double newShare) {
      share = newShare;
      Job current = job;
      if (current != null && current.isToStop()) {
        throw new CancellationException("interrupted");
      }
    }

    @SuppressWarnings("NonAtomicVolatileUpdate") // no other thread writes it meanwhile
    private void endTask() {
      share = 0;
      done++;
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
      } catch (RuntimeException | OutOfMemoryError e) {
        return; // rejected, or no thread to be had: the calling thread does the helpers' share
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

  /**
   * Refuses a call from inside a task, as from a user's mask or score function: it would wait for
   * itself, or work in the scratch of the task that it interrupts.
   */
  void checkNotInside() {
    if (RUNNING.get() == this) {
      throw new IllegalStateException(
          "a mask or score function must not call the backend that calls it");
    }
  }

  /** Ends the helpers once the call under way is done. */
  @Override
  public void close() {
    checkNotInside();
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
    private final Workers workers;
    private final Thread caller = Thread.currentThread();
    private final long tasks;

    /** Null once the call is over: a helper that comes late must not keep its tensors alive. */
    private volatile @Nullable Task task;

    private final AtomicLong next = new AtomicLong();

    /** Helpers inside {@link #join}; negative once the caller has seen that there are none left. */
    private final AtomicLong inside = new AtomicLong();

    private volatile @Nullable Throwable failure;

    Job(Workers workers, long tasks, Task task) {
      this.workers = workers;
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
      try {
        work(worker, false);
      } finally {
        inside.decrementAndGet();
      }
    }

    void work(int worker, boolean isCaller) {
      Task body = task;
      if (body == null) {
        return;
      }
      RUNNING.set(workers);
      Account account = workers.account(worker);
      account.job = this;
      try {
        work(body, worker, isCaller);
      } finally {
        account.job = null;
        RUNNING.set(null); // not remove(), after which the next set() would allocate
      }
    }

    private void work(Task body, int worker, boolean isCaller) {
      while (failure == null) {
        long index = next.getAndIncrement();
        if (index >= tasks) {
          return;
        }
        if (isCaller && Thread.currentThread().isInterrupted()) {
          failure = new CancellationException("interrupted");
          return;
        }
        try {
          body.run(index, worker);
        } catch (Throwable e) {
          fail(e);
        }
        workers.account(worker).endTask();
      }
    }

    /** Keeps the first failure: others may only have stopped because of it. */
    private void fail(Throwable e) {
      if (failure == null) {
        failure = e;
      }
    }

    boolean isToStop() {
      return failure != null || caller.isInterrupted();
    }

    void awaitHelpers() {
      while (!inside.compareAndSet(0, Long.MIN_VALUE)) {
        Thread.onSpinWait();
      }
      task = null;
    }

    void rethrow() {
      Throwable thrown = failure;
      if (thrown != null) {
        Job.<RuntimeException>throwAsIs(thrown);
      }
    }

    /** Also what is checked, which a user's function in another language may have thrown. */
    @SuppressWarnings("unchecked")
    private static <E extends Throwable> void throwAsIs(Throwable thrown) throws E {
      throw (E) thrown;
    }
  }
}
