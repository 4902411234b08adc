package dev.foldmax.cpu;

import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Phase;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;

/**
 * Decides whether {@link FloatPrefill} works in vectors or, at the beginning of a JVM, in plain
 * loops. Until C2 has compiled it, vector code runs in the interpreter, where each operation is a
 * call that boxes its result: the first attention of a JVM over 8 heads of 128 queries and keys, D
 * 64, took 346 ms in that way and takes 108 in plain loops (Zen 4, 2 threads, median of 7 JVMs).
 *
 * <p>So small calls go through plain loops, which give the same bits, while a daemon thread folds
 * made-up tensors in vectors until these are the faster ones, or some seconds have passed. It
 * starts at the first small call, runs once in a JVM, and ends by itself. Large calls go through
 * vectors from the beginning: they pay for the compilation many times over. With the system
 * property {@code foldmax.warmUp=false} there is no such thread, and no plain loop.
 */
final class PrefillWarmUp {
  /**
   * Multiply-adds of a call that is worth compiling for: some hundred milliseconds of plain loops.
   */
  private static final double LARGE = 1e8;

  /** Until the first call, which is being compiled too, is likely to be over. */
  private static final long DELAY_NANOS = 100_000_000L;

  private static final long MOST_NANOS = 5_000_000_000L;
  private static final int QUERIES = 128;
  private static final int KEYS = 400;
  private static final int DIMS = 64;

  /** Whether vectors are used for every call. */
  private static volatile boolean warm = "false".equals(System.getProperty("foldmax.warmUp"));

  private static boolean started;

  private PrefillWarmUp() {}

  /** Whether to take plain loops for a block of a call. */
  static boolean wantsPlain(AttentionCall call, int b) {
    if (warm) {
      return false;
    }
    double pairs = (double) call.sequence(b).queries() * call.sequence(b).endKey();
    double heads = (double) call.batch() * call.queryHeads();
    if (heads * pairs * (call.keyDim() + call.valueDim()) > LARGE) {
      return false;
    }
    start();
    return true;
  }

  private static synchronized void start() {
    if (!started) {
      started = true;
      try {
        Thread.ofPlatform()
            .daemon()
            .name("warm-up of foldmax")
            .inheritInheritableThreadLocals(false)
            .start(PrefillWarmUp::run);
      } catch (OutOfMemoryError e) {
        warm = true; // no thread to be had
      }
    }
  }

  private static void run() {
    try {
      LockSupport.parkNanos(DELAY_NANOS);
      AttentionCall call = madeUp();
      FloatPrefill plain = new FloatPrefill(FloatPrefill.Loops.PLAIN);
      FloatPrefill vectors = new FloatPrefill(FloatPrefill.Loops.VECTORS);
      long end = System.nanoTime() + MOST_NANOS;
      boolean faster = false;
      while (!faster && System.nanoTime() < end) {
        faster = 2 * fold(vectors, call) < fold(plain, call);
      }
    } finally {
      warm = true;
    }
  }

  /** The nanoseconds that a block takes. */
  private static long fold(FloatPrefill engine, AttentionCall call) {
    long begin = System.nanoTime();
    KeyValues kv = call.keyValues();
    engine.setCall(call, Elements.of(kv.keys()), Elements.of(kv.values()));
    engine.start(0, 0, 1, 0, QUERIES);
    engine.foldKeys(Long.MIN_VALUE, Long.MAX_VALUE);
    engine.finish();
    return System.nanoTime() - begin;
  }

  /** Causal, over several tiles, and with numbers that raise the maximum now and then. */
  private static AttentionCall madeUp() {
    Random random = new Random(1);
    Tensor q = gaussian(random, QUERIES);
    Tensor keys = gaussian(random, KEYS);
    Tensor values = gaussian(random, KEYS);
    Tensor out = Tensor.allocate(DType.F32, 1, 1, QUERIES, DIMS);
    Attention causal = Attention.causal().phase(Phase.PREFILL);
    return AttentionCall.of(q, KeyValues.dense(keys, values), causal, out, null);
  }

  private static Tensor gaussian(Random random, int rows) {
    float[] x = new float[rows * DIMS];
    for (int i = 0; i < x.length; i++) {
      x[i] = (float) random.nextGaussian();
    }
    return Tensor.of(x, 1, 1, rows, DIMS);
  }
}
