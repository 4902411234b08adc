package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.foldmax.Phase;
import dev.foldmax.Rescale;
import dev.foldmax.spi.AttentionCall;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
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

  /** The parameters of both kernels: struct AttentionArguments and struct DecodePlan. */
  private static final long PLAN_BYTES = 40;

  private final Parameters parameters =
      Parameters.of(Arena.ofAuto(), AttentionArguments.LAYOUT.byteSize(), PLAN_BYTES);
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

  @Override
  public void launch(AttentionLaunch launch) {
    AttentionCall call = launch.call();
    long rows = launch.mostQueries() * call.group();
    int unitRows = unitRows(call, rows);
    Variant variant = variant(launch, unitRows);
    Kernels pair = kernels.computeIfAbsent(variant, key -> load(launch, key));
    long rowTiles = Math.ceilDiv(rows, (long) unitRows);
    long tiles = call.batch() * (long) call.keyHeads() * rowTiles;
    int levels = 0;
    long leastUnits = (long) (UNITS_OF_A_BLOCK * pair.residentBlocks);
    while (levels < pair.shape.mostLevels()
        && tiles * mostChunks(launch, levels + 1) >= leastUnits) {
      levels++;
    }
    long chunks = mostChunks(launch, levels);
    int units = Math.toIntExact(tiles * chunks);
    MemorySegment plan = parameters.get(1);
    long states = tiles * chunks * unitRows;
    plan.set(JAVA_LONG, 0, launch.scratch(states * variant.valueDim * Float.BYTES));
    plan.set(JAVA_LONG, 8, launch.scratch(states * 2 * Float.BYTES));
    plan.set(JAVA_INT, 16, Math.toIntExact(rowTiles));
    plan.set(JAVA_INT, 20, Math.toIntExact(chunks));
    plan.set(JAVA_INT, 24, levels);
    plan.set(JAVA_INT, 28, units);
    int rowWarps = chunks <= FEW_CHUNKS ? 1 : FOLD_WARPS;
    plan.set(JAVA_INT, 32, rowWarps);
    parameters.get(0).copyFrom(launch.arguments());
    prepare(parameters.get(0));
    Shape shape = pair.shape;
    int grid = Math.min(units, pair.residentBlocks);
    pair.decode.launch(
        launch.stream(), grid, 1, 1, shape.threads(), shape.sharedBytes(), parameters);
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

  /** The most chunks of a sequence: from the one with the first visible key to the last. */
  private static long mostChunks(AttentionLaunch launch, int levels) {
    AttentionCall call = launch.call();
    long most = 1;
    for (int b = 0; b < call.batch(); b++) {
      if (call.sequence(b).queries() > 0 && call.phase(b) == Phase.DECODE) {
        most = Math.max(most, launch.pieces(b, (long) CELL << levels));
      }
    }
    return most;
  }
}
