package dev.foldmax.benchmarks;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.management.ManagementFactory;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.management.JMException;
import javax.management.ObjectName;

/**
 * The program whose memory {@link MemoryTest} measures: attention over many keys in native memory.
 * Keys are zero, so that each query's output is the mean of the values that it sees; values are
 * their position modulo a small number, so that the mean is easy to tell.
 */
final class LongAttention {
  static final int KEYS = 131_072;
  static final int THREADS = 2;

  private static final int WINDOW = 256;
  private static final int PERIOD = 64;

  /** What is computed, in float32. */
  enum Work {
    /** As many queries as keys, each with a window. */
    PREFILL(1, 1, KEYS, 32, WINDOW),
    /** The last queries of a long prompt. */
    CHUNK(2, 1, 128, 128, KEYS),
    /** One query. */
    DECODE(8, 2, 1, 128, KEYS);

    private final int heads;
    private final int keyHeads;
    private final int queries;
    private final int dim;
    private final int window;

    Work(int heads, int keyHeads, int queries, int dim, int window) {
      this.heads = heads;
      this.keyHeads = keyHeads;
      this.queries = queries;
      this.dim = dim;
      this.window = window;
    }
  }

  private LongAttention() {}

  /** Prints the bytes of scratch that a backend keeps for each thread, and the largest error. */
  public static void main(String[] args) throws JMException {
    Work work = Work.valueOf(args[0]);
    long before = bytesOfFloatArrays();
    try (Arena arena = Arena.ofShared();
        Backend backend = Backend.cpu(THREADS)) {
      double error = largestError(backend, work, arena);
      System.out.println((bytesOfFloatArrays() - before) / THREADS);
      System.out.println(error);
    }
  }

  /** What live arrays of floats, and arrays of such arrays, take of the heap. */
  private static long bytesOfFloatArrays() throws JMException {
    String histogram =
        (String)
            ManagementFactory.getPlatformMBeanServer()
                .invoke(
                    new ObjectName("com.sun.management:type=DiagnosticCommand"),
                    "gcClassHistogram",
                    new Object[] {new String[0]},
                    new String[] {String[].class.getName()});
    // Each line has a number, instances, bytes and the class.
    Matcher line = Pattern.compile("\\d+: +\\d+ +(\\d+) +\\[+F\\b").matcher(histogram);
    long bytes = 0;
    while (line.find()) {
      bytes += Long.parseLong(line.group(1));
    }
    return bytes;
  }

  private static double largestError(Backend backend, Work work, Arena arena) {
    Tensor q = NativeCopy.allocate(arena, DType.F32, work.heads, work.queries, work.dim);
    Tensor k = NativeCopy.allocate(arena, DType.F32, work.keyHeads, KEYS, work.dim);
    Tensor v = NativeCopy.allocate(arena, DType.F32, work.keyHeads, KEYS, work.dim);
    Tensor out = NativeCopy.allocate(arena, DType.F32, work.heads, work.queries, work.dim);
    MemorySegment values = v.segment();
    for (long i = 0; i < v.elements(); i++) {
      values.setAtIndex(ValueLayout.JAVA_FLOAT, i, (int) (i / work.dim % KEYS % PERIOD));
    }
    Mask mask = Mask.window(work.window - 1, 0);
    backend.attend(q, KeyValues.dense(k, v), Attention.standard().mask(mask), out, null);
    double largest = 0;
    for (int i = 0; i < work.queries; i++) {
      int end = KEYS - work.queries + i + 1;
      int begin = Math.max(0, end - work.window);
      double mean = (sumBelow(end) - sumBelow(begin)) / (end - begin);
      double error = Math.abs(out.get(work.heads - 1, i, work.dim - 1) - mean);
      largest = Double.isNaN(error) ? error : Math.max(largest, error);
    }
    return largest;
  }

  /** The sum of the values of the first {@code count} keys. */
  private static double sumBelow(int count) {
    int rest = count % PERIOD;
    int whole = count / PERIOD;
    return whole * (PERIOD * (PERIOD - 1) / 2.0) + rest * (rest - 1) / 2.0;
  }
}
