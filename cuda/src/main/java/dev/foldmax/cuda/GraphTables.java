package dev.foldmax.cuda;

import dev.foldmax.Alignment;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * The tables of a graph's calls: memory of its own on the device, which is filled anew before a
 * launch if a tensor of lengths, offsets or a block table has changed since the last. For the
 * thread that has the stream.
 */
final class GraphTables {
  private static final long BLOCK_BYTES = 64 << 10;
  private static final long ALIGNMENT = 64;

  private final List<AttentionCall> calls = new ArrayList<>();
  private final List<Recorded> tables = new ArrayList<>();
  private final List<Block> blocks = new ArrayList<>();
  private final List<Snapshot> snapshots = new ArrayList<>();
  private boolean isFilled;

  /** All that a table follows from, but for what is in the tensors: layers of a model share it. */
  private record Source(
      CallTable table,
      Mask mask,
      Alignment alibiAlignment,
      Phase phase,
      String layout,
      long rows,
      List<Tensor> indices) {}

  /**
   * A table.
   *
   * @param call the number of the call that it is written from; -1 where it always says the same
   * @param bytes what the device has, or is to have
   */
  private record Recorded(int call, Source source, MemorySegment bytes, long address) {}

  /** Memory on the device, and what it is to hold. */
  private static final class Block {
    private final long address;
    private final MemorySegment bytes;
    private long taken;

    Block(long address, MemorySegment bytes) {
      this.address = address;
      this.bytes = bytes;
    }
  }

  /** A tensor of indices and what was in it at the last launch. */
  private static final class Snapshot {
    private final Tensor tensor;
    private MemorySegment bytes = MemorySegment.NULL;

    Snapshot(Tensor tensor) {
      this.tensor = tensor;
    }

    boolean isCurrent() {
      long size = bytes.byteSize();
      Tensor packed = tensor.isContiguous() ? tensor : tensor.copy();
      return size > 0 && MemorySegment.mismatch(packed.segment(), 0, size, bytes, 0, size) < 0;
    }

    void take() {
      bytes = tensor.copy().segment();
    }
  }

  /** The tensors of indices that a call reads; they lie on the host. */
  static List<Tensor> indices(AttentionCall call) {
    List<Tensor> indices = new ArrayList<>();
    AttentionCall.forEachInput(
        call.q(),
        call.keyValues(),
        call.attention(),
        (name, tensor) -> {
          if (tensor.dtype().isIndex() && tensor.elements() > 0) {
            indices.add(tensor);
          }
        });
    return indices;
  }

  /** Notes a call's table; its address, where each launch finds what is right then. */
  long add(AttentionCall call, CallTable table, Capture capture) {
    List<Tensor> indices = indices(call);
    Source source =
        new Source(
            table,
            call.attention().mask(),
            call.attention().alibiAlignment(),
            call.attention().phase(),
            call.keyValues().layout(),
            call.keyValues().keys().shape(2),
            indices);
    if (!indices.isEmpty()) {
      calls.add(call);
    }
    for (Tensor tensor : indices) {
      if (snapshots.stream().noneMatch(known -> known.tensor == tensor)) {
        snapshots.add(new Snapshot(tensor));
      }
    }
    long size = table.byteSize(call);
    Block block = blockWithRoom(size, capture);
    MemorySegment bytes = block.bytes.asSlice(block.taken, size);
    bytes.fill((byte) 0);
    table.write(call, bytes);
    for (Recorded known : tables) {
      if (known.source.equals(source) && known.bytes.mismatch(bytes) < 0) {
        return known.address;
      }
    }
    long address = block.address + block.taken;
    tables.add(new Recorded(indices.isEmpty() ? -1 : calls.size() - 1, source, bytes, address));
    block.taken += Math.ceilDiv(size, ALIGNMENT) * ALIGNMENT;
    return address;
  }

  private Block blockWithRoom(long size, Capture capture) {
    Block last = blocks.isEmpty() ? null : blocks.getLast();
    if (last != null && size <= last.bytes.byteSize() - last.taken) {
      return last;
    }
    long bytes = Math.max(size, BLOCK_BYTES);
    Block block = new Block(capture.allocate(bytes), Arena.ofAuto().allocate(bytes, ALIGNMENT));
    blocks.add(block);
    return block;
  }

  /**
   * Fills the tables for the launch that comes next.
   *
   * @throws IllegalArgumentException if a tensor of indices says what no call would take
   * @throws IllegalStateException if a sequence has another number of queries than when recorded
   */
  void refresh(CallTables sender) {
    if (isFilled && snapshots.stream().allMatch(Snapshot::isCurrent)) {
      return;
    }
    isFilled = false; // until all has gone up
    snapshots.forEach(Snapshot::take); // first: what changes meanwhile is seen by the next launch
    List<AttentionCall> current = new ArrayList<>();
    for (AttentionCall call : calls) {
      current.add(reread(call));
    }
    for (Recorded recorded : tables) {
      if (recorded.call >= 0) {
        recorded.bytes.fill((byte) 0);
        recorded.source.table.write(current.get(recorded.call), recorded.bytes);
      }
    }
    for (Block block : blocks) {
      sender.upload(block.bytes.asSlice(0, block.taken), block.address);
    }
    isFilled = true;
  }

  private static AttentionCall reread(AttentionCall call) {
    AttentionCall current = call.reread();
    for (int b = 0; b < call.batch(); b++) {
      long recorded = call.sequence(b).queries();
      long queries = current.sequence(b).queries();
      if (queries != recorded) {
        throw new IllegalStateException(
            "queryOffsets: sequence %d has %d queries and had %d when its call was recorded"
                .formatted(b, queries, recorded));
      }
    }
    return current;
  }
}
