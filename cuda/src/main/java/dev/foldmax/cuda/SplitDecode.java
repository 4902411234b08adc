package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.foldmax.Rescale;
import dev.foldmax.spi.AttentionCall;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.util.HashMap;
import java.util.Map;

/**
 * Launches the kernels that split.cuh describes: the keys of few queries are cut among blocks, and
 * a second kernel folds what these leave. How finely they are cut follows from the load and changes
 * no bit.
 */
abstract class SplitDecode implements AttentionKernel {
  /** The keys of a cell: CELL of split.cuh. */
  private static final int CELL = 256;

  private static final int FOLD_WARPS = 8;

  /** Chunks of a row up to which a warp of the second kernel folds them alone. */
  private static final int FEW_CHUNKS = 16;

  /** Units for each block that fits on the device, down to which chunks may grow. */
  private static final double UNITS_OF_A_BLOCK = 1.875;

  /** The largest head dimension whose tiles fit in shared memory. */
  static final int MOST_DIM = 256;

  /** Struct DecodePlan. */
  private static final StructLayout PLAN =
      MemoryLayout.structLayout(
          JAVA_LONG.withName("outputs"),
          JAVA_LONG.withName("sums"),
          JAVA_LONG.withName("firstUnits"),
          JAVA_INT.withName("sequenceUnits"),
          JAVA_INT.withName("units"),
          JAVA_INT.withName("levels"),
          JAVA_INT.withName("rowWarps"));

  private static final long OUTPUTS = offset("outputs");
  private static final long SUMS = offset("sums");
  private static final long FIRST_UNITS = offset("firstUnits");
  private static final long SEQUENCE_UNITS = offset("sequenceUnits");
  private static final long UNITS = offset("units");
  private static final long LEVELS = offset("levels");
  private static final long ROW_WARPS = offset("rowWarps");

  private final Parameters parameters =
      Parameters.of(Arena.ofAuto(), AttentionArguments.LAYOUT.byteSize(), PLAN.byteSize());
  private final Map<Variant, Kernels> kernels = new HashMap<>();

  /** What a pair of kernels is compiled for; the codes of types mean what each source says. */
  record Variant(
      int keyType,
      int valueType,
      int keyDim,
      int valueDim,
      int rows,
      int stages,
      int scores,
      int rescale) {}

  /** How a variant's kernel is launched. */
  record Shape(int threads, int sharedBytes, int mostLevels) {}

  private record Kernels(Kernel decode, Kernel fold, Shape shape, int residentBlocks) {}

  /** The source in the resources. */
  abstract String source();

  abstract Map<String, Integer> macros(Variant variant);

  abstract Shape shape(Variant variant);

  /** The rows of a unit where a key head has so many in all. */
  abstract int unitRows(AttentionCall call, long rows);

  abstract Variant variant(AttentionLaunch launch, int unitRows);

  /** FOLDMAX_RESCALE of an attention; a product by 1 is skipped in any case. */
  static int rescale(AttentionCall call) {
    return call.attention().rescale() == Rescale.LAZY ? 2 : 0;
  }

  private static long offset(String field) {
    return PLAN.byteOffset(PathElement.groupElement(field));
  }

  @Override
  public void launch(AttentionLaunch launch) {
    AttentionCall call = launch.call();
    int unitRows = unitRows(call, launch.mostQueries() * call.group());
    Variant variant = variant(launch, unitRows);
    Kernels pair = kernels.computeIfAbsent(variant, key -> load(launch, key));
    DecodeWork work = new DecodeWork(launch, unitRows, CELL);
    long leastUnits = (long) (UNITS_OF_A_BLOCK * pair.residentBlocks);
    int levels = 0;
    while (levels < pair.shape.mostLevels() && work.units(levels + 1) >= leastUnits) {
      levels++;
    }
    int units = Math.toIntExact(work.units(levels));
    int rowWarps = work.mostChunks(levels) <= FEW_CHUNKS ? 1 : FOLD_WARPS;
    MemorySegment plan = parameters.get(1);
    long states = (long) units * unitRows;
    plan.set(JAVA_LONG, OUTPUTS, launch.scratch(states * variant.valueDim * Float.BYTES));
    plan.set(JAVA_LONG, SUMS, launch.scratch(states * 2 * Float.BYTES));
    plan.set(JAVA_LONG, FIRST_UNITS, 0);
    plan.set(JAVA_INT, SEQUENCE_UNITS, units / call.batch());
    plan.set(JAVA_INT, UNITS, units);
    plan.set(JAVA_INT, LEVELS, levels);
    plan.set(JAVA_INT, ROW_WARPS, rowWarps);
    if (!work.isEven(levels)) {
      try (Arena arena = Arena.ofConfined()) {
        plan.set(JAVA_LONG, FIRST_UNITS, launch.workplace().send(work.firstUnits(levels, arena)));
      }
    }
    parameters.get(0).copyFrom(launch.arguments());
    prepare(parameters.get(0));
    Shape shape = pair.shape;
    int grid = Math.min(units, pair.residentBlocks);
    pair.decode.launchDependent(
        launch.stream(), grid, shape.threads(), shape.sharedBytes(), parameters);
    long outputRows = launch.mostQueries() * call.queryHeads() * call.batch();
    pair.fold.launchDependent(
        launch.stream(),
        Math.toIntExact(Math.ceilDiv(outputRows * rowWarps, FOLD_WARPS)),
        FOLD_WARPS * 32,
        0,
        parameters);
  }

  /** Changes the arguments where a family has to. */
  void prepare(MemorySegment arguments) {}

  private Kernels load(AttentionLaunch launch, Variant variant) {
    Map<String, Integer> macros = macros(variant);
    Shape shape = shape(variant);
    Kernel decode = launch.kernel(source(), "decode", macros);
    Kernel fold = launch.kernel(source(), "foldChunks", macros);
    int resident = decode.residentBlocks(shape.threads(), shape.sharedBytes());
    return new Kernels(decode, fold, shape, resident);
  }
}
