package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.foldmax.DType;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Launches select.cu and sample.cu: the verbs topK and sample; for rows of F64 those of
 * rows_f64.cu. For the thread that has the stream.
 */
final class SelectionKernels {
  private static final String SELECT = "select.cu";
  private static final String SAMPLE = "sample.cu";

  /** Threads of a block that selects while it sums, and the most that it keeps in a warp. */
  private static final int SUMMING_THREADS = 256;

  private static final int FEW = 8;
  private static final int SEVERAL = 32;

  /** Threads of a block that selects any number: SELECTORS in selection.cuh. */
  private static final int SELECTORS = 512;

  /** The most elements that such a block sorts in shared memory: LISTED in selection.cuh. */
  private static final int LISTED = 4096;

  /** Device memory that one launch may ask for to sort more. */
  private static final long SPACE_BYTES = 256L << 20;

  /** The most blocks of a launch; these go on to further rows. */
  private static final long MOST_BLOCKS = 1 << 30;

  /** Rows have to be shorter, since 32 bits hold an index. */
  private static final long LENGTHS = 1L << 32;

  /** struct SelectArguments. */
  private static final long SELECT_BYTES = 112;

  /** struct SampleArguments. */
  private static final long SAMPLE_BYTES = 120;

  private final Workplace workplace;
  private final Parameters selection = Parameters.of(Arena.ofAuto(), SELECT_BYTES);
  private final Parameters draw = Parameters.of(Arena.ofAuto(), SAMPLE_BYTES);

  SelectionKernels(Workplace workplace) {
    this.workplace = workplace;
  }

  /** See {@link RowKernels#topK}. */
  void topK(DeviceRows x, Tensor values, Tensor indices, @Nullable Tensor probabilities) {
    checkLength(x);
    int k = Math.toIntExact(values.shape(-1));
    String entry = k <= FEW ? "topK_8" : k <= SEVERAL ? "topK_32" : "topK";
    MemorySegment arguments = selection.get(0);
    arguments.set(JAVA_LONG, 0, x.address());
    arguments.set(JAVA_LONG, 8, x.rows());
    arguments.set(JAVA_LONG, 16, x.columns());
    arguments.set(JAVA_LONG, 24, x.stride());
    arguments.set(JAVA_LONG, 32, values.deviceAddress());
    arguments.set(JAVA_LONG, 40, k);
    arguments.set(JAVA_LONG, 48, indices.deviceAddress());
    arguments.set(JAVA_LONG, 56, k);
    arguments.set(JAVA_LONG, 64, probabilities == null ? 0 : probabilities.deviceAddress());
    arguments.set(JAVA_LONG, 72, k);
    arguments.set(JAVA_INT, 96, AttentionArguments.typeNumber(values.dtype()));
    arguments.set(
        JAVA_INT,
        100,
        probabilities == null ? 0 : AttentionArguments.typeNumber(probabilities.dtype()));
    arguments.set(JAVA_INT, 104, indices.dtype() == DType.I64 ? 1 : 0);
    arguments.set(JAVA_INT, 108, k);
    if (x.type() == DType.F64) {
      launchF64("topK", setSpace(arguments, 80, sortedF64(x), x.rows()), selection);
      return;
    }
    long blocks = setSpace(arguments, 80, k > LISTED ? powerOf2From(k) : 0, x.rows());
    launch(SELECT, entry, x, blocks, k <= SEVERAL ? SUMMING_THREADS : SELECTORS, selection);
  }

  /** See {@link RowKernels#sample}. */
  void sample(DeviceRows logits, Sampling sampling, Tensor indices) {
    checkLength(logits);
    double temperature = sampling.temperature();
    MemorySegment arguments = draw.get(0);
    arguments.set(JAVA_LONG, 0, logits.address());
    arguments.set(JAVA_LONG, 8, logits.rows());
    arguments.set(JAVA_LONG, 16, logits.columns());
    arguments.set(JAVA_LONG, 24, logits.stride());
    arguments.set(JAVA_LONG, 32, indices.deviceAddress());
    arguments.set(JAVA_LONG, 40, 1);
    arguments.set(JAVA_DOUBLE, 64, temperature);
    arguments.set(JAVA_DOUBLE, 72, sampling.topP());
    arguments.set(JAVA_DOUBLE, 80, Math.log(sampling.minP()));
    arguments.set(JAVA_LONG, 88, sampling.topK());
    arguments.set(JAVA_LONG, 96, sampling.seed());
    arguments.set(JAVA_LONG, 104, sampling.firstRow());
    arguments.set(JAVA_INT, 112, indices.dtype() == DType.I64 ? 1 : 0);
    long k = sampling.topK() < logits.columns() ? sampling.topK() : 0;
    if (logits.type() == DType.F64) {
      boolean isSorted = temperature > 0 && (k > 0 || sampling.topP() < 1);
      long space = isSorted ? sortedF64(logits) : 0;
      launchF64("sample", setSpace(arguments, 48, space, logits.rows()), draw);
      return;
    }
    boolean hasNucleus = sampling.topP() < 1 && k == 0 && temperature > 0;
    long blocks = setSpace(arguments, 48, k > LISTED ? powerOf2From(k) : 0, logits.rows());
    launch(SAMPLE, hasNucleus ? "sampleNucleus" : "sample", logits, blocks, SELECTORS, draw);
  }

  private static void checkLength(DeviceRows x) {
    if (x.columns() >= LENGTHS) {
      throw new UnsupportedOperationException("cuda: " + Declines.LONG_ROWS);
    }
  }

  private static long powerOf2From(long count) {
    return count <= 2 ? 2 : Long.highestOneBit(2 * count - 1);
  }

  /** The numbers that a block needs to sort a row of F64. */
  private static long sortedF64(DeviceRows x) {
    return 3 * powerOf2From(x.columns());
  }

  /**
   * Gives blocks the space to sort in.
   *
   * @param each how many numbers of 64 bits a block needs
   * @return how many blocks there are space and rows for
   */
  private long setSpace(MemorySegment arguments, long place, long each, long rows) {
    long blocks = Math.min(rows, MOST_BLOCKS);
    long space = 0;
    if (each > 0) {
      blocks = Math.clamp(SPACE_BYTES / (each * Long.BYTES), 1, blocks);
      space = workplace.scratch(blocks * each * Long.BYTES);
    }
    arguments.set(JAVA_LONG, place, space);
    arguments.set(JAVA_LONG, place + 8, each);
    return blocks;
  }

  private void launchF64(String entry, long blocks, Parameters parameters) {
    workplace
        .kernels()
        .get(RowKernels.F64_SOURCE, entry, Map.of())
        .launch(
            workplace.stream(),
            Math.toIntExact(blocks),
            1,
            1,
            RowKernels.F64_THREADS,
            0,
            parameters);
  }

  private void launch(
      String source, String entry, DeviceRows x, long blocks, int threads, Parameters parameters) {
    workplace
        .kernels()
        .get(source, entry, RowKernels.macros(x.type()))
        .launch(workplace.stream(), Math.toIntExact(blocks), 1, 1, threads, 0, parameters);
  }
}
