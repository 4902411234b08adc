package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.foldmax.Phase;
import dev.foldmax.Sequence;
import dev.foldmax.spi.AttentionCall;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * How many units of work each sequence of a decoding call has, as split.cuh defines them: one for
 * each tile of rows and each chunk, of which there is at least one, from the first key that a query
 * sees to the last, or where lengths may change, as many as there may come to be.
 */
final class DecodeWork {
  private final AttentionLaunch launch;
  private final int cell;
  private final long[] tiles;

  /**
   * Looks through the sequences of a call that decode.
   *
   * @param unitRows of a tile
   * @param cell the keys of a chunk of level 0; each level has twice as many
   */
  DecodeWork(AttentionLaunch launch, int unitRows, int cell) {
    this.launch = launch;
    this.cell = cell;
    AttentionCall call = launch.call();
    tiles = new long[call.batch()];
    for (int b = 0; b < call.batch(); b++) {
      Sequence sequence = call.sequence(b);
      if (sequence.queries() > 0 && call.phase(b) == Phase.DECODE) {
        long tilesOfHead = Math.ceilDiv(sequence.queries() * call.group(), (long) unitRows);
        tiles[b] = call.keyHeads() * tilesOfHead;
      }
    }
  }

  private long chunks(int b, int levels) {
    return tiles[b] == 0 ? 1 : Math.max(launch.pieces(b, (long) cell << levels), 1);
  }

  /** The units of all sequences. */
  long units(int levels) {
    long units = 0;
    for (int b = 0; b < tiles.length; b++) {
      units += tiles[b] * chunks(b, levels);
    }
    return units;
  }

  /** The chunks of the sequence that has the most. */
  long mostChunks(int levels) {
    long most = 0;
    for (int b = 0; b < tiles.length; b++) {
      if (tiles[b] > 0) {
        most = Math.max(most, chunks(b, levels));
      }
    }
    return most;
  }

  /** Whether all sequences have as many units. */
  boolean isEven(int levels) {
    long first = tiles[0] * chunks(0, levels);
    for (int b = 1; b < tiles.length; b++) {
      if (tiles[b] * chunks(b, levels) != first) {
        return false;
      }
    }
    return true;
  }

  /** The units before those of each sequence, and of all: as int32. */
  MemorySegment firstUnits(int levels, Arena arena) {
    MemorySegment first = arena.allocate(JAVA_INT, tiles.length + 1L);
    int units = 0;
    for (int b = 0; b < tiles.length; b++) {
      units += Math.toIntExact(tiles[b] * chunks(b, levels));
      first.setAtIndex(JAVA_INT, b + 1L, units);
    }
    return first;
  }
}
