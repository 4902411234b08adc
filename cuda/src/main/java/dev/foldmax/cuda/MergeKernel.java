package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Launches merge.cu. For the thread that has the stream. */
final class MergeKernel {
  private static final String SOURCE = "merge.cu";
  private static final int THREADS = 128;
  private static final int ROWS_OF_A_BLOCK = THREADS / 32;

  /** The most blocks of a launch; rows beyond go to a further one. */
  private static final long MOST_BLOCKS = 1 << 30;

  /** struct Partial. */
  private static final long PARTIAL_BYTES = 40;

  /** struct MergeArguments. */
  private static final long BYTES = 72;

  private final Workplace workplace;
  private final Parameters parameters = Parameters.of(Arena.ofAuto(), BYTES);

  MergeKernel(Workplace workplace) {
    this.workplace = workplace;
  }

  /** See {@link RowKernels#merge}. */
  void merge(List<DeviceRows> outputs, List<Tensor> lses, DeviceRows out, @Nullable Tensor lse) {
    if (out.rows() == 0) {
      return;
    }
    boolean isDouble =
        outputs.stream().anyMatch(output -> output.type() == DType.F64)
            || lses.stream().anyMatch(part -> part.dtype() == DType.F64);
    Kernel kernel = workplace.kernels().get(SOURCE, isDouble ? "merge_f64" : "merge_f32", Map.of());
    long rowsOfALaunch = MOST_BLOCKS * ROWS_OF_A_BLOCK;
    for (long row = 0; row < out.rows(); row += rowsOfALaunch) {
      long rows = Math.min(rowsOfALaunch, out.rows() - row);
      MemorySegment arguments = parameters.get(0);
      arguments.set(JAVA_LONG, 0, sendPartials(outputs, lses, row));
      arguments.set(JAVA_LONG, 8, out.addressOf(row));
      arguments.set(JAVA_LONG, 16, lse == null ? 0 : addressOf(lse, row));
      arguments.set(JAVA_LONG, 24, out.stride());
      arguments.set(JAVA_LONG, 32, 1);
      arguments.set(JAVA_LONG, 40, rows);
      arguments.set(JAVA_LONG, 48, out.columns());
      arguments.set(JAVA_INT, 56, AttentionArguments.typeNumber(out.type()));
      arguments.set(JAVA_INT, 60, lse == null ? 0 : AttentionArguments.typeNumber(lse.dtype()));
      arguments.set(JAVA_INT, 64, outputs.size());
      int blocks = Math.toIntExact(Math.ceilDiv(rows, ROWS_OF_A_BLOCK));
      kernel.launch(workplace.stream(), blocks, 1, 1, THREADS, 0, parameters);
    }
  }

  private long sendPartials(List<DeviceRows> outputs, List<Tensor> lses, long row) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment table = arena.allocate(outputs.size() * PARTIAL_BYTES, Long.BYTES);
      for (int i = 0; i < outputs.size(); i++) {
        DeviceRows output = outputs.get(i);
        Tensor lse = lses.get(i);
        MemorySegment partial = table.asSlice(i * PARTIAL_BYTES, PARTIAL_BYTES);
        partial.set(JAVA_LONG, 0, output.addressOf(row));
        partial.set(JAVA_LONG, 8, addressOf(lse, row));
        partial.set(JAVA_LONG, 16, output.stride());
        partial.set(JAVA_LONG, 24, 1);
        partial.set(JAVA_INT, 32, AttentionArguments.typeNumber(output.type()));
        partial.set(JAVA_INT, 36, AttentionArguments.typeNumber(lse.dtype()));
      }
      return workplace.send(table);
    }
  }

  private static long addressOf(Tensor packed, long element) {
    return packed.deviceAddress() + element * packed.dtype().bytes();
  }
}
