package dev.foldmax.spark;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.SoftmaxState;
import dev.foldmax.spark.TopKState.Entry;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Comparator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class TopKStateTest {
  private static final Comparator<Object> IDS = Comparator.comparing(String.class::cast);

  private static TopKState state(int k, double... scores) {
    TopKState state = new TopKState(k, IDS);
    IntStream.range(0, scores.length).forEach(i -> state.add(new Entry(scores[i], "id" + i)));
    return state;
  }

  private static byte[] bytes(TopKState state) {
    return state.toBytes(id -> ((String) id).getBytes(UTF_8));
  }

  private static TopKState fromBytes(byte[] bytes) {
    return TopKState.fromBytes(bytes, 3, IDS, id -> new String(id, UTF_8));
  }

  @Test
  void theLargestComeFirstAndTiesByTheLowerId() {
    assertThat(state(3, 1, 0.0, 2, -0.0, 2).entries())
        .extracting(Entry::id)
        .containsExactly("id2", "id4", "id0");
    assertThat(state(3, 0.0, -0.0).entries()).extracting(Entry::id).containsExactly("id0", "id1");
    assertThat(state(3, -0.0, 0.0).entries()).extracting(Entry::id).containsExactly("id0", "id1");
  }

  @Test
  void nanCountsAsLargestAndMakesProbabilitiesNan() {
    TopKState state = state(2, 1, Double.NaN, Double.NEGATIVE_INFINITY);

    assertThat(state.entries()).extracting(Entry::id).containsExactly("id1", "id0");
    assertThat(state.probability(1)).isNaN();
    assertThat(state.mayEnter(0)).isFalse();
    assertThat(state.mayEnter(Double.NaN)).isTrue();
  }

  @Test
  void probabilitiesCountWhatIsNotAmongTheBest() {
    TopKState state = state(1, Math.log(1), Math.log(2), Math.log(3));
    state.count(Math.log(4));

    assertThat(state.probability(Math.log(3))).isCloseTo(0.3, within(1e-15));
  }

  @Test
  void bytesKeepTheState() {
    TopKState state = state(3, 1, 5, 2, 4);

    TopKState copy = fromBytes(bytes(state));
    copy.merge(state(3, 6, 0));

    assertThat(fromBytes(bytes(copy)).entries())
        .containsExactly(new Entry(6, "id0"), new Entry(5, "id1"), new Entry(4, "id3"));
    assertThat(copy.probability(6)).isEqualTo(fromBytes(bytes(copy)).probability(6));
    assertThat(fromBytes(bytes(state(3))).isEmpty()).isTrue();
  }

  @Test
  void bytesThatAreNotAStateAreRefused() {
    byte[] good = bytes(state(3, 1, 2));

    for (int length = 0; length < good.length; length++) {
      byte[] cut = Arrays.copyOf(good, length);
      assertThatIllegalArgumentException().isThrownBy(() -> fromBytes(cut));
    }
    byte[] longer = Arrays.copyOf(good, good.length + 1);
    assertThatIllegalArgumentException()
        .isThrownBy(() -> fromBytes(longer))
        .withMessage("top-k state: 1 bytes too many");
    byte[] other = good.clone();
    other[4] = 2;
    assertThatIllegalArgumentException()
        .isThrownBy(() -> fromBytes(other))
        .withMessageContaining("version 2");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> fromBytes(bytes(state(4, 1, 2, 3, 4))))
        .withMessageContaining("4 entries, expected 0 to 3");
  }

  @Test
  void entriesThatTheirRowsCannotHaveAreRefused() {
    for (double score : new double[] {2.5, Double.POSITIVE_INFINITY, Double.NaN}) {
      byte[] bytes = bytes(state(3, 1, 2));
      int at = 2 * Integer.BYTES + Integer.BYTES + new SoftmaxState(0).toBytes().length;
      ByteBuffer.wrap(bytes)
          .order(ByteOrder.LITTLE_ENDIAN)
          .putDouble(at + Integer.BYTES, score); // of the first entry
      assertThatIllegalArgumentException()
          .isThrownBy(() -> fromBytes(bytes))
          .withMessageStartingWith("top-k state: an entry of score " + score)
          .withMessageContaining("maximum 2.0 and sum 1.3");
    }
    for (double score :
        new double[] {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY}) {
      TopKState state = state(3, score, score, 1);
      assertThat(fromBytes(bytes(state)).entries()).isEqualTo(state.entries());
    }
  }

  @Test
  void keepsAtLeastOneRow() {
    for (int k : new int[] {0, -1}) {
      assertThatIllegalArgumentException()
          .isThrownBy(() -> new TopKState(k, IDS))
          .withMessage("k: must be at least 1, got " + k);
    }
  }
}
