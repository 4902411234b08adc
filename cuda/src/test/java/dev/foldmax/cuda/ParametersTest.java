package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.Test;

/** What the driver is pointed to is a copy of what was set. */
class ParametersTest {
  @Test
  void copiesAreCompleteAndAligned() {
    try (Arena arena = Arena.ofConfined()) {
      Parameters parameters = Parameters.of(arena, 100, 8, 4, 4);
      parameters.get(0).fill((byte) 7);
      parameters.set(1, 1L << 40);
      parameters.set(2, -3);
      parameters.set(3, 0.5f);
      MemorySegment pointers = arena.allocate(JAVA_LONG, Parameters.MOST);
      MemorySegment target = arena.allocate(Parameters.MOST_BYTES, Parameters.ALIGNMENT);
      assertThat(parameters.copyTo(pointers, target)).isEqualTo(128 + 3 * 64);
      parameters.set(1, 0L); // changes the copy no more
      long[] places = new long[4];
      for (int i = 0; i < places.length; i++) {
        places[i] = pointers.getAtIndex(JAVA_LONG, i) - target.address();
        assertThat(places[i] % Parameters.ALIGNMENT).isZero();
      }
      assertThat(places[0]).isZero();
      assertThat(target.asSlice(0, 100).mismatch(parameters.get(0))).isEqualTo(-1);
      assertThat(target.get(JAVA_LONG, places[1])).isEqualTo(1L << 40);
      assertThat(target.get(JAVA_INT, places[2])).isEqualTo(-3);
      assertThat(target.get(JAVA_FLOAT, places[3])).isEqualTo(0.5f);
    }
  }

  @Test
  void moreThanDevicesTakeIsRefused() {
    try (Arena arena = Arena.ofConfined()) {
      assertThatIllegalArgumentException().isThrownBy(() -> Parameters.of(arena, 5000));
      assertThatIllegalArgumentException()
          .isThrownBy(() -> Parameters.of(arena, new long[Parameters.MOST + 1]));
    }
  }
}
