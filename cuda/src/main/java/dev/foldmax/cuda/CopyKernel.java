package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Map;

/** Launches copy.cu: copies between tensors of one device. */
final class CopyKernel implements AutoCloseable {
  private static final String SOURCE = "copy.cu";
  private static final int MOST_DIMENSIONS = 8;
  private static final int THREADS = 256;
  private static final int ROWS_OF_A_BLOCK = THREADS / 32;

  /** Where a grid is large enough, since threads go on to the next element. */
  private static final int BLOCKS_OF_A_MULTIPROCESSOR = 16;

  /** Rows shorter than this are copied element by element. */
  private static final int LEAST_ROW_BYTES = 64;

  /** struct CopyArguments. */
  private static final long BYTES = 240;

  private static final long SIZES = 32;
  private static final long SOURCE_STRIDES = SIZES + MOST_DIMENSIONS * Long.BYTES;
  private static final long TARGET_STRIDES = SOURCE_STRIDES + MOST_DIMENSIONS * Long.BYTES;
  private static final long DIMENSIONS = TARGET_STRIDES + MOST_DIMENSIONS * Long.BYTES;

  private final Workplace workplace;
  private final Arena arena = Arena.ofShared();
  private final Parameters parameters;

  CopyKernel(Workplace workplace) {
    this.workplace = workplace;
    this.parameters = Parameters.of(arena, BYTES);
  }

  /**
   * Enqueues a copy, each element rounded once.
   *
   * @param source on the device
   * @param target of the same shape, on the device
   */
  void copy(Tensor source, Tensor target) {
    if (source.elements() == 0) {
      return;
    }
    Dimensions all = Dimensions.of(source, target);
    boolean byRows =
        source.dtype() == target.dtype()
            && all.count > 0
            && all.sourceStrides[all.count - 1] == 1
            && all.targetStrides[all.count - 1] == 1
            && all.sizes[all.count - 1] * source.dtype().bytes() >= LEAST_ROW_BYTES;
    MemorySegment arguments = parameters.get(0);
    arguments.set(JAVA_LONG, 0, source.deviceAddress());
    arguments.set(JAVA_LONG, 8, target.deviceAddress());
    arguments.set(JAVA_INT, DIMENSIONS + 4, typeNumber(source.dtype()));
    arguments.set(JAVA_INT, DIMENSIONS + 8, typeNumber(target.dtype()));
    if (byRows) {
      copyRows(arguments, all, source.dtype().bytes());
    } else {
      write(arguments, all, all.count, 1);
      long elements = source.elements();
      arguments.set(JAVA_LONG, 16, elements);
      launch("copyElements", Math.ceilDiv(elements, THREADS));
    }
  }

  private void copyRows(MemorySegment arguments, Dimensions all, int elementBytes) {
    int leading = all.count - 1;
    long rows = 1;
    for (int i = 0; i < leading; i++) {
      rows *= all.sizes[i];
    }
    write(arguments, all, leading, elementBytes);
    arguments.set(JAVA_LONG, 16, rows);
    arguments.set(JAVA_LONG, 24, all.sizes[leading] * elementBytes);
    launch("copyRows", Math.ceilDiv(rows, ROWS_OF_A_BLOCK));
  }

  private static void write(MemorySegment arguments, Dimensions all, int count, int factor) {
    for (int i = 0; i < count; i++) {
      long place = (long) i * Long.BYTES;
      arguments.set(JAVA_LONG, SIZES + place, all.sizes[i]);
      arguments.set(JAVA_LONG, SOURCE_STRIDES + place, factor * all.sourceStrides[i]);
      arguments.set(JAVA_LONG, TARGET_STRIDES + place, factor * all.targetStrides[i]);
    }
    arguments.set(JAVA_INT, DIMENSIONS, count);
  }

  private void launch(String entry, long blocks) {
    long most = (long) BLOCKS_OF_A_MULTIPROCESSOR * workplace.device().multiprocessors();
    workplace
        .kernels()
        .get(SOURCE, entry, Map.of())
        .launch(workplace.stream(), (int) Math.min(blocks, most), 1, 1, THREADS, 0, parameters);
  }

  private static int typeNumber(DType type) {
    return switch (type) {
      case I32 -> 6;
      case I64 -> 7;
      default -> AttentionArguments.typeNumber(type);
    };
  }

  @Override
  public void close() {
    arena.close();
  }

  /** The dimensions of a copy, with those joined that lie without gaps in both tensors. */
  private static final class Dimensions {
    private final long[] sizes = new long[MOST_DIMENSIONS];
    private final long[] sourceStrides = new long[MOST_DIMENSIONS];
    private final long[] targetStrides = new long[MOST_DIMENSIONS];
    private int count;

    static Dimensions of(Tensor source, Tensor target) {
      Dimensions all = new Dimensions();
      for (int axis = 0; axis < source.rank(); axis++) {
        if (source.shape(axis) != 1) {
          all.add(source.shape(axis), source.stride(axis), target.stride(axis));
        }
      }
      return all;
    }

    private void add(long size, long sourceStride, long targetStride) {
      int last = count - 1;
      if (count > 0
          && sourceStrides[last] == size * sourceStride
          && targetStrides[last] == size * targetStride) {
        sizes[last] *= size;
        sourceStrides[last] = sourceStride;
        targetStrides[last] = targetStride;
        return;
      }
      if (count == MOST_DIMENSIONS) {
        throw new IllegalArgumentException(
            "copy: at most " + MOST_DIMENSIONS + " dimensions that cannot be joined");
      }
      sizes[count] = size;
      sourceStrides[count] = sourceStride;
      targetStrides[count] = targetStride;
      count++;
    }
  }
}
