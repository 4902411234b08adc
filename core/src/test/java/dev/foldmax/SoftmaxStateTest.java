package dev.foldmax;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.within;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class SoftmaxStateTest {
  private static final double NEGATIVE_INFINITY = Double.NEGATIVE_INFINITY;
  private static final int DIMENSION = 3;

  /** Scores with their values, and what two passes over them give. */
  private static final class Keys {
    private final double[] scores;
    private final double[] values;

    Keys(double[] scores, double[] values) {
      this.scores = scores;
      this.values = values;
    }

    static Keys random(long seed, int n, double spread) {
      Random random = new Random(seed);
      double[] scores = new double[n];
      double[] values = new double[n * DIMENSION];
      Arrays.setAll(
          scores, i -> random.nextInt(8) == 0 ? NEGATIVE_INFINITY : spread * random.nextGaussian());
      Arrays.setAll(values, i -> random.nextGaussian());
      return new Keys(scores, values);
    }

    Keys range(int from, int to) {
      return new Keys(
          Arrays.copyOfRange(scores, from, to),
          Arrays.copyOfRange(values, from * DIMENSION, to * DIMENSION));
    }

    double logSumExp() {
      double max = Arrays.stream(scores).max().orElse(NEGATIVE_INFINITY);
      return max == NEGATIVE_INFINITY
          ? max
          : max + Math.log(Arrays.stream(scores).map(s -> Math.exp(s - max)).sum());
    }

    double[] output() {
      double lse = logSumExp();
      double[] output = new double[DIMENSION];
      for (int j = 0; j < scores.length; j++) {
        for (int d = 0; d < DIMENSION && scores[j] != NEGATIVE_INFINITY; d++) {
          output[d] += Math.exp(scores[j] - lse) * values[j * DIMENSION + d];
        }
      }
      return output;
    }

    /** The keys' state, built in tiles of the given size. */
    SoftmaxState state(Rescale rescale, double tau, int tile) {
      SoftmaxState state = new SoftmaxState(DIMENSION, rescale, tau);
      for (int j = 0; j < scores.length; j += tile) {
        Keys part = range(j, Math.min(scores.length, j + tile));
        state.addTile(part.scores, part.values);
      }
      return state;
    }
  }

  private static void assertAgrees(SoftmaxState state, Keys keys) {
    double lse = keys.logSumExp();
    if (lse == NEGATIVE_INFINITY) {
      assertThat(state.logSumExp()).isEqualTo(lse);
    } else {
      assertThat(state.logSumExp()).isCloseTo(lse, within(1e-12 * (1 + Math.abs(lse))));
    }
    assertThat(state.output()).containsExactly(keys.output(), within(1e-12));
  }

  @ParameterizedTest
  @EnumSource(Rescale.class)
  void agreesWithTwoPassesWhateverTheTile(Rescale rescale) {
    for (int n : new int[] {0, 1, 2, 3, 7, 64, 501}) {
      for (double spread : new double[] {1, 30, 1e5}) {
        Keys keys = Keys.random(n, n, spread);
        for (int tile : new int[] {1, 2, 16, 64, 1000}) {
          assertAgrees(keys.state(rescale, 8, tile), keys);
        }
        SoftmaxState oneByOne = new SoftmaxState(DIMENSION, rescale, 8);
        for (int j = 0; j < n; j++) {
          oneByOne.add(keys.scores[j], keys.range(j, j + 1).values);
        }
        assertAgrees(oneByOne, keys);
      }
    }
  }

  @Test
  void aLazyMaximumIsStaleByAtMostTau() {
    for (double tau : new double[] {0, 1, 8, 64}) {
      SoftmaxState state = new SoftmaxState(0, Rescale.LAZY, tau);
      double max = NEGATIVE_INFINITY;
      for (int j = 0; j < 400; j++) {
        double score = 0.3 * j;
        state.add(score);
        max = Math.max(max, score);
        assertThat(max - state.max()).isBetween(0.0, tau * Math.log(2) + 1e-9);
      }
      double expected = 0.3 * 399 - Math.log1p(-Math.exp(-0.3));
      assertThat(state.logSumExp()).isCloseTo(expected, within(1e-10));
    }
  }

  @Test
  void otherDialectsKeepTheTrueMaximum() {
    for (Rescale rescale : new Rescale[] {Rescale.ALWAYS, Rescale.ON_NEW_MAX}) {
      SoftmaxState state = new SoftmaxState(0, rescale, 8);
      for (double score : new double[] {-3, 1, 1.5, 0}) {
        state.add(score);
      }
      assertThat(state.max()).isEqualTo(1.5);
    }
  }

  @Test
  void anEmptyStateGivesZerosAndMinusInfinity() {
    SoftmaxState state = new SoftmaxState(2);
    for (int pass = 0; pass < 2; pass++) {
      assertThat(state.isEmpty()).isTrue();
      assertThat(state.logSumExp()).isEqualTo(NEGATIVE_INFINITY);
      assertThat(state.output()).containsExactly(0, 0);
      state.add(NEGATIVE_INFINITY, new double[] {Double.NaN, Double.POSITIVE_INFINITY});
    }
    state.add(3, new double[] {5, 6});
    assertThat(state.isEmpty()).isFalse();
    state.reset();
    assertThat(state.toBytes()).isEqualTo(new SoftmaxState(2).toBytes());
  }

  @Test
  void aScoreOfMinusInfinityHidesItsValueAnywhere() {
    for (int at = 0; at < 3; at++) {
      double[] scores = {1, 2, 3};
      double[] values = {10, 20, 30};
      scores[at] = NEGATIVE_INFINITY;
      values[at] = Double.NaN;
      SoftmaxState state = new SoftmaxState(1);
      state.addTile(scores, values);
      assertThat(state.output()[0]).as("hidden key %s", at).isFinite();
    }
  }

  @ParameterizedTest
  @EnumSource(Rescale.class)
  void nanAndInfinityMakeTheWholeOutputNan(Rescale rescale) {
    for (double poison : new double[] {Double.NaN, Double.POSITIVE_INFINITY}) {
      for (int at = 0; at < 4; at++) {
        double[] scores = {1, NEGATIVE_INFINITY, 700, -5};
        scores[at] = poison;
        SoftmaxState tile = new SoftmaxState(1, rescale, 8);
        tile.addTile(scores, new double[] {1, 2, 3, 4});
        SoftmaxState single = new SoftmaxState(1, rescale, 8);
        for (int j = 0; j < 4; j++) {
          single.add(scores[j], new double[] {j});
        }
        SoftmaxState merged = new SoftmaxState(1, rescale, 8);
        merged.add(10, new double[] {1});
        merged.merge(tile);
        for (SoftmaxState state : new SoftmaxState[] {tile, single, merged}) {
          assertThat(state.isEmpty()).isFalse();
          assertThat(state.output()[0]).isNaN();
          assertThat(state.logSumExp()).isNaN();
        }
      }
    }
  }

  @Test
  void lowestFiniteScoresAreOrdinaryNumbers() {
    for (double lowest : new double[] {-Float.MAX_VALUE, -Double.MAX_VALUE}) {
      SoftmaxState state = new SoftmaxState(1);
      for (int j = 0; j < 4; j++) {
        state.add(lowest, new double[] {j});
      }
      assertThat(state.output()).containsExactly(1.5);
      assertThat(state.logSumExp()).isEqualTo(lowest);
    }
  }

  @ParameterizedTest
  @EnumSource(Rescale.class)
  void mergeAgreesWithAddingAll(Rescale rescale) {
    Keys keys = Keys.random(5, 300, 20);
    for (int cut : new int[] {0, 1, 37, 150, 299, 300}) {
      SoftmaxState left = keys.range(0, cut).state(rescale, 8, 16);
      SoftmaxState right = keys.range(cut, 300).state(rescale, 8, 16);
      SoftmaxState swapped = SoftmaxState.fromBytes(right.toBytes());
      swapped.merge(left);
      left.merge(right);
      assertAgrees(left, keys);
      assertAgrees(swapped, keys);
    }
  }

  @Test
  void mergeIsAssociativeUpToRounding() {
    Keys keys = Keys.random(6, 300, 20);
    SoftmaxState leftFirst = keys.range(0, 100).state(Rescale.LAZY, 8, 16);
    leftFirst.merge(keys.range(100, 200).state(Rescale.ALWAYS, 8, 16));
    leftFirst.merge(keys.range(200, 300).state(Rescale.ON_NEW_MAX, 8, 16));
    SoftmaxState tail = keys.range(100, 200).state(Rescale.ALWAYS, 8, 16);
    tail.merge(keys.range(200, 300).state(Rescale.ON_NEW_MAX, 8, 16));
    SoftmaxState rightFirst = keys.range(0, 100).state(Rescale.LAZY, 8, 16);
    rightFirst.merge(tail);
    assertAgrees(leftFirst, keys);
    assertAgrees(rightFirst, keys);
  }

  @Test
  void mergingAnEmptyStateChangesNoBit() {
    SoftmaxState state = Keys.random(7, 50, 3).state(Rescale.LAZY, 8, 16);
    byte[] before = state.toBytes();
    state.merge(new SoftmaxState(DIMENSION));
    assertThat(state.toBytes()).isEqualTo(before);
    SoftmaxState empty = new SoftmaxState(DIMENSION);
    empty.merge(state);
    assertThat(empty.toBytes()).isEqualTo(before);
    SoftmaxState two = new SoftmaxState(DIMENSION);
    two.merge(new SoftmaxState(DIMENSION));
    assertThat(two.toBytes()).isEqualTo(new SoftmaxState(DIMENSION).toBytes());
  }

  @Test
  void mergingIntoAnEmptyStateKeepsANegativeZero() {
    byte[] bytes = bytes(1.0, 2.0, -0.0, 0.0, 1.0);
    SoftmaxState empty = new SoftmaxState(DIMENSION);
    empty.merge(SoftmaxState.fromBytes(bytes));
    assertThat(empty.toBytes()).isEqualTo(bytes);
  }

  private static byte[] bytes(double m, double l, double... o) {
    ByteBuffer buffer =
        ByteBuffer.allocate(28 + 8 * o.length)
            .order(ByteOrder.LITTLE_ENDIAN)
            .put((byte) 'F')
            .put((byte) 'M')
            .put((byte) 'A')
            .put((byte) 'X')
            .putInt(1)
            .putInt(o.length)
            .putDouble(m)
            .putDouble(l);
    for (double x : o) {
      buffer.putDouble(x);
    }
    return buffer.array();
  }

  @Test
  void bytesHaveTheDocumentedForm() {
    SoftmaxState state = new SoftmaxState(2);
    state.add(1.5, new double[] {3, -4});
    assertThat(state.toBytes()).isEqualTo(bytes(1.5, 1, 3, -4));
    assertThat(new SoftmaxState(0).toBytes()).isEqualTo(bytes(NEGATIVE_INFINITY, 0));
  }

  @Test
  void bytesGoRoundTrip() {
    for (int n : new int[] {0, 1, 50}) {
      SoftmaxState state = Keys.random(n, n, 5).state(Rescale.LAZY, 8, 16);
      SoftmaxState back = SoftmaxState.fromBytes(state.toBytes());
      assertThat(back.toBytes()).isEqualTo(state.toBytes());
      assertThat(back.dimension()).isEqualTo(DIMENSION);
      assertThat(back.logSumExp()).isEqualTo(state.logSumExp());
      assertThat(back.output()).isEqualTo(state.output());
    }
    SoftmaxState nan = new SoftmaxState(1);
    nan.add(Double.NaN, new double[] {1});
    assertThat(SoftmaxState.fromBytes(nan.toBytes()).logSumExp()).isNaN();
  }

  @Test
  void statesThatNoKeysLeadToAreRefused() {
    assertRefused(new byte[0], "0 bytes are too few");
    assertRefused(Arrays.copyOf(bytes(0, 1), 27), "27 bytes are too few");
    assertRefused(Arrays.copyOf(bytes(0, 1, 1), 35), "do not fit dimension 1");
    assertRefused(Arrays.copyOf(bytes(0, 1, 1), 37), "do not fit dimension 1");
    assertRefused(bytes(Double.NaN, 1, 1), "maximum NaN");
    assertRefused(bytes(0, -1, 1), "sum -1.0");
    assertRefused(bytes(0, 0, 0), "maximum 0.0 but no weight");
    assertRefused(bytes(NEGATIVE_INFINITY, 0, 1), "values but no weight");
    assertRefused(bytes(NEGATIVE_INFINITY, 1, 1), "weight 1.0 but no maximum");
    byte[] magic = bytes(0, 1);
    magic[0] = 'f';
    assertRefused(magic, "does not begin with FMAX");
    byte[] version = bytes(0, 1);
    version[4] = 2;
    assertRefused(version, "version 2 is not known");
    byte[] dimension = bytes(0, 1);
    Arrays.fill(dimension, 8, 12, (byte) 0xff);
    assertRefused(dimension, "do not fit dimension -1");
    byte[] huge = bytes(0, 1);
    huge[11] = 0x7f;
    assertRefused(huge, "do not fit dimension");
  }

  private static void assertRefused(byte[] bytes, String why) {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> SoftmaxState.validate(bytes))
        .withMessageStartingWith("state: ")
        .withMessageContaining(why);
    assertThatIllegalArgumentException().isThrownBy(() -> SoftmaxState.fromBytes(bytes));
  }

  /**
   * Whatever passes validation behaves like a state; whatever does not is refused in a sentence.
   */
  @Test
  void mutatedBytesAreEitherRefusedOrUsable() {
    Random random = new Random(8);
    int refused = 0;
    for (int i = 0; i < 20_000; i++) {
      byte[] bytes = Keys.random(i, random.nextInt(4), 5).state(Rescale.LAZY, 8, 2).toBytes();
      for (int flips = 1 + random.nextInt(3); flips > 0; flips--) {
        bytes[random.nextInt(bytes.length)] ^= (byte) (1 << random.nextInt(8));
      }
      if (random.nextInt(4) == 0) {
        bytes = Arrays.copyOf(bytes, random.nextInt(bytes.length + 9));
      }
      try {
        SoftmaxState state = SoftmaxState.fromBytes(bytes);
        assertThat(state.toBytes()).isEqualTo(bytes);
        state.add(1, new double[state.dimension()]);
        state.merge(SoftmaxState.fromBytes(bytes));
        assertThat(state.isEmpty()).isFalse();
      } catch (IllegalArgumentException e) {
        assertThat(e).hasMessageStartingWith("state: ");
        refused++;
      }
    }
    assertThat(refused).isBetween(1000, 19_000);
  }

  @Test
  void wrongArgumentsAreNamed() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> new SoftmaxState(-1))
        .withMessage("dimension: must be at least 0, got -1");
    for (double tau : new double[] {-1, 65, Double.NaN}) {
      assertThatIllegalArgumentException()
          .isThrownBy(() -> new SoftmaxState(1, Rescale.LAZY, tau))
          .withMessageContaining("tau: must lie in 0 to 64.0, got " + tau);
    }
    SoftmaxState state = new SoftmaxState(2);
    assertThatIllegalArgumentException()
        .isThrownBy(() -> state.add(1))
        .withMessage("value: expected 2 numbers, got 0");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> state.addTile(new double[2], new double[3]))
        .withMessage("values: expected 4 numbers, got 3");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> state.merge(new SoftmaxState(3)))
        .withMessage("other: expected 2 numbers, got 3");
    assertThat(state.isEmpty()).isTrue();
  }

  @Test
  void printsItself() {
    SoftmaxState state = new SoftmaxState(1);
    state.add(2, new double[] {3});
    assertThat(state).hasToString("SoftmaxState[m=2.0, l=1.0, O=[3.0]]");
    assertThat(state.sum()).isEqualTo(1);
    assertThat(new SoftmaxState(9).toString()).doesNotContain("O=");
  }

  @Test
  void aFinishedResultIsAState() {
    SoftmaxState whole = new SoftmaxState(2);
    whole.addTile(new double[] {0.5, -1, 3}, new double[] {1, 2, 3, 4, 5, 6});
    SoftmaxState first = new SoftmaxState(2);
    first.addTile(new double[] {0.5, -1}, new double[] {1, 2, 3, 4});
    SoftmaxState last = new SoftmaxState(2);
    last.add(3, new double[] {5, 6});

    SoftmaxState merged = SoftmaxState.of(first.output(), first.logSumExp());
    merged.merge(SoftmaxState.of(last.output(), last.logSumExp()));

    assertThat(merged.output()).containsExactly(whole.output(), within(1e-15));
    assertThat(merged.logSumExp()).isCloseTo(whole.logSumExp(), within(1e-15));
    assertThat(SoftmaxState.of(new double[] {Double.NaN}, Double.NEGATIVE_INFINITY).isEmpty())
        .isTrue();
  }

  @Test
  void aFinishedResultOfNanIsTheStateOfSuchAKey() {
    for (double poison : new double[] {Double.NaN, Double.POSITIVE_INFINITY}) {
      for (double output : new double[] {Double.NaN, 1}) {
        SoftmaxState state = SoftmaxState.of(new double[] {output}, poison);
        SoftmaxState added = new SoftmaxState(1);
        added.add(poison, new double[] {1});
        assertThat(state).hasToString(added.toString());

        SoftmaxState back = SoftmaxState.fromBytes(state.toBytes());
        assertThat(back.toBytes()).isEqualTo(state.toBytes());
        SoftmaxState merged = new SoftmaxState(1);
        merged.add(3, new double[] {5});
        merged.merge(back);
        back.add(4, new double[] {6});
        for (SoftmaxState after : new SoftmaxState[] {merged, back}) {
          assertThat(after.output()).containsExactly(Double.NaN);
          assertThat(after.logSumExp()).isNaN();
          assertThat(SoftmaxState.fromBytes(after.toBytes()).sum()).isNaN();
        }
      }
    }
  }
}
