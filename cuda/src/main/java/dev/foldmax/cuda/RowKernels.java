package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.foldmax.DType;
import dev.foldmax.Sampling;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The kernels behind the verbs on rows and {@code merge}: each enqueues its work. Tensors that are
 * not rows are contiguous, on the device, and have one element for each row (or, for {@code topK},
 * k of them).
 *
 * <p>A row's kernel follows from its length, its type and the device alone, so that its bits do not
 * depend on the other rows. For the thread that has the stream.
 */
final class RowKernels {
  private static final String SOURCE = "rows.cu";
  private static final String REGISTERS_SOURCE = "rows_registers.cu";
  private static final String CLUSTER_SOURCE = "rows_cluster.cu";

  /** All verbs on rows of F64. */
  static final String F64_SOURCE = "rows_f64.cu";

  /** Threads of its blocks. */
  static final int F64_THREADS = 512;

  /** The least compute capability that has clusters of blocks. */
  private static final int CLUSTER_CAPABILITY = 90;

  /** What a thread reads at once. */
  private static final int PACK_BYTES = 16;

  private static final int WARP = 32;

  /** Threads of a block whose warps work for themselves. */
  private static final int SEVERAL_WARPS = 128;

  /** Elements of a chunk: CHUNK in rows.cuh. */
  private static final int CHUNK = 32768;

  /** Threads of a block that reads a chunk or writes a part. */
  private static final int CHUNK_THREADS = 256;

  /** What a block of the second reading writes: four packs a thread. */
  private static final int PART_BYTES = 4 * CHUNK_THREADS * PACK_BYTES;

  /** Longer rows are summed by blocks, shorter ones by warps. */
  private static final int SHORT_BYTES = 16 << 10;

  /** Blocks of a launch; rows beyond go to a further one. */
  private static final long MOST_BLOCKS = 1 << 30;

  /** Where a kernel of softmax or logSoftmax keeps a row while it reads it. */
  private sealed interface RowPlace {
    String source();

    Map<String, Integer> macros(DType type, boolean isLog);
  }

  private record MapKernel(RowPlace place, DType type, boolean isLog) {}

  /** A row in the registers of some threads, each with some packs. */
  private record InRegisters(int threads, int packs) implements RowPlace {
    @Override
    public String source() {
      return REGISTERS_SOURCE;
    }

    int bytes() {
      return threads * packs * PACK_BYTES;
    }

    int rowsOfABlock() {
      return threads == WARP ? SEVERAL_WARPS / WARP : 1;
    }

    int threadsOfABlock() {
      return threads * rowsOfABlock();
    }

    @Override
    public Map<String, Integer> macros(DType type, boolean isLog) {
      return Map.of(
          "FOLDMAX_TYPE",
          AttentionArguments.typeNumber(type),
          "FOLDMAX_THREADS",
          threads,
          "FOLDMAX_PACKS",
          packs,
          "FOLDMAX_LOG",
          isLog ? 1 : 0);
    }
  }

  private static final List<InRegisters> IN_REGISTERS =
      List.of(
          new InRegisters(WARP, 1),
          new InRegisters(WARP, 4),
          new InRegisters(128, 4),
          new InRegisters(256, 4),
          new InRegisters(512, 4),
          new InRegisters(512, 8),
          new InRegisters(1024, 8));

  /** A row in a cluster of blocks, each with some chunks in shared memory. */
  private record InCluster(int chunks, int blocks) implements RowPlace {
    @Override
    public String source() {
      return CLUSTER_SOURCE;
    }

    private static final int CHUNK_BYTES = 16 << 10;

    /** More than a block has beside its chunks: barriers and states. */
    private static final int OTHER_SHARED_BYTES = 1 << 10;

    private static final int CONSUMERS = 512;

    /** Up to so many chunks, registers hold two rows: IS_LATE in rows_cluster.cu. */
    private static final int MOST_CHUNKS_LATE = 4;

    int bytes() {
      return sharedBytes() * blocks;
    }

    int sharedBytes() {
      return chunks * CHUNK_BYTES;
    }

    /** Consumers, the producer warp, and with two rows in registers the messenger warp. */
    int threads() {
      return CONSUMERS + (chunks <= MOST_CHUNKS_LATE ? 2 : 1) * WARP;
    }

    boolean fits(Device device) {
      return device.capability() >= CLUSTER_CAPABILITY
          && sharedBytes() + OTHER_SHARED_BYTES <= device.sharedBytes();
    }

    @Override
    public Map<String, Integer> macros(DType type, boolean isLog) {
      return Map.of(
          "FOLDMAX_TYPE",
          AttentionArguments.typeNumber(type),
          "FOLDMAX_CHUNKS",
          chunks,
          "FOLDMAX_CLUSTER",
          blocks,
          "FOLDMAX_LOG",
          isLog ? 1 : 0);
    }
  }

  private static final List<InCluster> IN_CLUSTERS =
      List.of(
          new InCluster(4, 4),
          new InCluster(4, 8),
          new InCluster(5, 8),
          new InCluster(6, 8),
          new InCluster(8, 8));

  /** struct RowArguments. */
  private static final long BYTES = 72;

  private final Workplace workplace;
  private final SelectionKernels selection;
  private final MergeKernel merge;
  private final Parameters parameters = Parameters.of(Arena.ofAuto(), BYTES);

  /** Kernels of softmax and logSoftmax: to find one by its macros takes as long as its launch. */
  private final Map<MapKernel, Kernel> maps = new HashMap<>();

  /** How many blocks or clusters of a persistent kernel the device holds at once. */
  private final Map<Kernel, Integer> resident = new HashMap<>();

  RowKernels(Workplace workplace) {
    this.workplace = workplace;
    this.selection = new SelectionKernels(workplace);
    this.merge = new MergeKernel(workplace);
  }

  /** {@link dev.foldmax.Backend#softmax(Tensor, Tensor)}; {@code out} may be {@code x}. */
  void softmax(DeviceRows x, DeviceRows out) {
    map(false, x, out);
  }

  /** {@link dev.foldmax.Backend#logSoftmax(Tensor, Tensor)}; {@code out} may be {@code x}. */
  void logSoftmax(DeviceRows x, DeviceRows out) {
    map(true, x, out);
  }

  private void map(boolean isLog, DeviceRows x, DeviceRows out) {
    if (x.type() == DType.F64) {
      launchF64(isLog ? "logSoftmax" : "softmax", x, out);
      return;
    }
    if (out.type() == DType.F64) {
      mapInTwoReadings(isLog, x, out);
      return;
    }
    long bytes = x.columns() * x.type().bytes();
    for (InRegisters kind : IN_REGISTERS) {
      if (bytes <= kind.bytes()) {
        mapInRegisters(isLog, kind, x, out);
        return;
      }
    }
    for (InCluster kind : IN_CLUSTERS) {
      if (bytes <= kind.bytes() && kind.fits(workplace.device())) {
        mapInClusters(isLog, kind, x, out);
        return;
      }
    }
    mapInTwoReadings(isLog, x, out);
  }

  private void launchF64(String verb, DeviceRows x, DeviceRows out) {
    setX(x, 0, x.rows());
    setOut(out, 0);
    Kernel kernel = kernel(F64_SOURCE, verb, Map.of());
    launch(kernel, Math.min(x.rows(), MOST_BLOCKS), F64_THREADS, 0);
  }

  private void mapInRegisters(boolean isLog, InRegisters kind, DeviceRows x, DeviceRows out) {
    Kernel kernel = kernel(kind, x.type(), isLog);
    long rowsOfALaunch = MOST_BLOCKS * kind.rowsOfABlock();
    for (long row = 0; row < x.rows(); row += rowsOfALaunch) {
      long rows = Math.min(rowsOfALaunch, x.rows() - row);
      setX(x, row, rows);
      setOut(out, row);
      launch(kernel, Math.ceilDiv(rows, kind.rowsOfABlock()), kind.threadsOfABlock(), 0);
    }
  }

  private void mapInClusters(boolean isLog, InCluster kind, DeviceRows x, DeviceRows out) {
    Kernel kernel = kernel(kind, x.type(), isLog);
    int clusters =
        resident.computeIfAbsent(
            kernel, each -> each.residentClusters(kind.blocks, kind.threads(), kind.sharedBytes()));
    setX(x, 0, x.rows());
    setOut(out, 0);
    launch(kernel, Math.min(clusters, x.rows()) * kind.blocks, kind.threads(), kind.sharedBytes());
  }

  private void mapInTwoReadings(boolean isLog, DeviceRows x, DeviceRows out) {
    long chunks = Math.ceilDiv(x.columns(), CHUNK);
    long parts = Math.ceilDiv(x.columns() * x.type().bytes(), PART_BYTES);
    long rowsOfALaunch = Math.clamp(MOST_BLOCKS / parts, 1, x.rows());
    long states = workplace.scratch(rowsOfALaunch * Float.BYTES * 2);
    long partials = workplace.scratch(rowsOfALaunch * chunks * Float.BYTES * 2);
    for (long row = 0; row < x.rows(); row += rowsOfALaunch) {
      long rows = Math.min(rowsOfALaunch, x.rows() - row);
      setX(x, row, rows);
      setPartials(partials, states, chunks);
      sumChunks(x, rows * chunks);
      setNoOut();
      mergePartials(x, rows);
      setOut(out, row);
      launch(
          kernel(SOURCE, isLog ? "finishLogSoftmax" : "finishSoftmax", macros(x.type())),
          rows * parts,
          CHUNK_THREADS,
          0);
    }
  }

  /** {@link dev.foldmax.Backend#logSumExp(Tensor, Tensor)}. */
  void logSumExp(DeviceRows x, Tensor out) {
    DeviceRows results = new DeviceRows(out.deviceAddress(), out.dtype(), x.rows(), 1, 1);
    if (x.type() == DType.F64) {
      launchF64("logSumExp", x, results);
      return;
    }
    if (x.columns() * x.type().bytes() <= SHORT_BYTES) {
      sumShortRows(x, results);
      return;
    }
    long chunks = Math.ceilDiv(x.columns(), CHUNK);
    long rowsOfALaunch = Math.clamp(MOST_BLOCKS / chunks, 1, x.rows());
    long partials = chunks == 1 ? 0 : workplace.scratch(rowsOfALaunch * chunks * Float.BYTES * 2);
    for (long row = 0; row < x.rows(); row += rowsOfALaunch) {
      long rows = Math.min(rowsOfALaunch, x.rows() - row);
      setX(x, row, rows);
      setOut(results, row);
      setPartials(partials, 0, chunks);
      sumChunks(x, rows * chunks);
      if (chunks > 1) {
        mergePartials(x, rows);
      }
    }
  }

  private void sumShortRows(DeviceRows x, DeviceRows results) {
    Kernel kernel = kernel(SOURCE, "logSumExpOfShortRows", macros(x.type()));
    int blocks = resident.computeIfAbsent(kernel, each -> each.residentBlocks(SEVERAL_WARPS, 0));
    setX(x, 0, x.rows());
    setOut(results, 0);
    launch(
        kernel, Math.min(blocks, Math.ceilDiv(x.rows(), SEVERAL_WARPS / WARP)), SEVERAL_WARPS, 0);
  }

  private void sumChunks(DeviceRows x, long blocks) {
    launch(kernel(SOURCE, "logSumExpOfChunks", macros(x.type())), blocks, CHUNK_THREADS, 0);
  }

  private void mergePartials(DeviceRows x, long rows) {
    launch(
        kernel(SOURCE, "logSumExpOfPartials", macros(x.type())),
        Math.ceilDiv(rows, SEVERAL_WARPS / WARP),
        SEVERAL_WARPS,
        0);
  }

  /** {@link dev.foldmax.Backend#topK(Tensor, Tensor, Tensor, Tensor)}. */
  void topK(DeviceRows x, Tensor values, Tensor indices, @Nullable Tensor probabilities) {
    selection.topK(x, values, indices, probabilities);
  }

  /** {@link dev.foldmax.Backend#sample(Tensor, Sampling, Tensor)}. */
  void sample(DeviceRows logits, Sampling sampling, Tensor indices) {
    selection.sample(logits, sampling, indices);
  }

  /**
   * {@link dev.foldmax.Backend#merge}; {@code out} and {@code lse} may be among the inputs, and
   * {@code lse} is null where it is not wanted.
   */
  void merge(List<DeviceRows> outputs, List<Tensor> lses, DeviceRows out, @Nullable Tensor lse) {
    merge.merge(outputs, lses, out, lse);
  }

  /** The macros of a kernel that reads rows of a type, which is not F64. */
  static Map<String, Integer> macros(DType type) {
    return Map.of("FOLDMAX_TYPE", AttentionArguments.typeNumber(type));
  }

  private Kernel kernel(RowPlace place, DType type, boolean isLog) {
    MapKernel key = new MapKernel(place, type, isLog);
    Kernel known = maps.get(key);
    if (known != null) {
      return known;
    }
    Kernel kernel = kernel(place.source(), "softmax", place.macros(type, isLog));
    maps.put(key, kernel);
    return kernel;
  }

  private Kernel kernel(String source, String entry, Map<String, Integer> macros) {
    return workplace.kernels().get(source, entry, macros);
  }

  private void setX(DeviceRows x, long row, long rows) {
    MemorySegment arguments = parameters.get(0);
    arguments.set(JAVA_LONG, 0, x.addressOf(row));
    arguments.set(JAVA_LONG, 32, rows);
    arguments.set(JAVA_LONG, 40, x.columns());
    arguments.set(JAVA_LONG, 48, x.stride());
  }

  private void setOut(DeviceRows out, long row) {
    MemorySegment arguments = parameters.get(0);
    arguments.set(JAVA_LONG, 8, out.addressOf(row));
    arguments.set(JAVA_LONG, 56, out.stride());
    arguments.set(JAVA_INT, 64, AttentionArguments.typeNumber(out.type()));
  }

  private void setNoOut() {
    parameters.get(0).set(JAVA_LONG, 8, 0);
  }

  private void setPartials(long partials, long states, long chunks) {
    MemorySegment arguments = parameters.get(0);
    arguments.set(JAVA_LONG, 16, partials);
    arguments.set(JAVA_LONG, 24, states);
    arguments.set(JAVA_INT, 68, Math.toIntExact(chunks));
  }

  private void launch(Kernel kernel, long blocks, int threads, int sharedBytes) {
    kernel.launch(
        workplace.stream(), Math.toIntExact(blocks), 1, 1, threads, sharedBytes, parameters);
  }
}
