package dev.foldmax.contract;

import dev.foldmax.Alignment;
import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Rescale;
import dev.foldmax.ScoreFunction;
import dev.foldmax.Tensor;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;

/**
 * An attention to test: its data as plain numbers made from a seed, and its definition twice, as
 * the library takes it and as rules that {@link Twin} follows. Set sizes and types first, then the
 * definition. It prints as what was asked, to name the test.
 */
final class Problem {
  /** A mask's rule, over a key's position. */
  @FunctionalInterface
  interface Rule {
    boolean sees(int b, int h, long i, long key);
  }

  /** An additive term, over a key's index. */
  @FunctionalInterface
  interface Additive {
    double at(int b, int h, int i, int j);
  }

  private final long seed;
  private int batch = 1;
  private int queryHeads = 1;
  private int keyHeads = 1;
  private int dqk = 16;
  private int dv = 16;
  private int[] queries = {1};
  private int[] keys = {1};
  private long firstKey;
  private DType queryType = DType.F32;
  private DType keyType = DType.F32;
  private DType outType = DType.F32;
  private double magnitude = 1;

  private Attention attention = Attention.standard();
  private final StringBuilder definition = new StringBuilder();
  private Rule rule = (b, h, i, key) -> true;
  private Additive bias = (b, h, i, j) -> 0;
  private double @Nullable [] slopes;
  private Alignment alibiAlignment = Alignment.BOTTOM_RIGHT;
  private double @Nullable [] sinks;
  private ScoreFunction.Elementwise function = (s, b, h, i, key) -> s;

  // (sequence, head) of rows; made on first use
  private double @Nullable [][][] q;
  private double @Nullable [][][] k;
  private double @Nullable [][][] v;
  private double @Nullable [][][] keyScales;
  private double @Nullable [][][] valueScales;

  private Problem(long seed) {
    this.seed = seed;
  }

  static Problem seeded(long seed) {
    return new Problem(seed);
  }

  // Sizes and types

  Problem heads(int newQueryHeads, int newKeyHeads) {
    queryHeads = newQueryHeads;
    keyHeads = newKeyHeads;
    return this;
  }

  Problem dims(int newDqk, int newDv) {
    dqk = newDqk;
    dv = newDv;
    return this;
  }

  Problem dims(int both) {
    return dims(both, both);
  }

  /** Sequences of one length. */
  Problem lengths(int sequences, int newQueries, int newKeys) {
    int[] allQueries = new int[sequences];
    int[] allKeys = new int[sequences];
    Arrays.fill(allQueries, newQueries);
    Arrays.fill(allKeys, newKeys);
    return ragged(allQueries, allKeys);
  }

  /** One sequence. */
  Problem lengths(int newQueries, int newKeys) {
    return lengths(1, newQueries, newKeys);
  }

  /** Sequences of different lengths. */
  Problem ragged(int[] newQueries, int[] newKeys) {
    batch = newQueries.length;
    queries = newQueries.clone();
    keys = newKeys.clone();
    return this;
  }

  /** The position of each sequence's first key, for rings. */
  Problem firstKey(long position) {
    firstKey = position;
    return this;
  }

  /** Queries, keys and outputs of one type. */
  Problem type(DType all) {
    return types(all, all, all);
  }

  Problem types(DType ofQueries, DType ofKeys, DType ofOutput) {
    queryType = ofQueries;
    keyType = ofKeys;
    outType = ofOutput;
    return this;
  }

  /** Standard deviation of the queries' elements; scores have about the same. */
  Problem magnitude(double deviation) {
    magnitude = deviation;
    return this;
  }

  // Definition

  private Problem define(String text, Attention newAttention) {
    definition.append(", ").append(text);
    attention = newAttention;
    return this;
  }

  private Problem mask(String text, Mask mask, Rule newRule) {
    Rule before = rule;
    rule = (b, h, i, key) -> before.sees(b, h, i, key) && newRule.sees(b, h, i, key);
    return define(text, attention.mask(attention.mask().and(mask)));
  }

  private long position(int b, long i, Alignment alignment) {
    return alignment == Alignment.TOP_LEFT ? i : i + firstKey + keys[b] - queries[b];
  }

  Problem causal() {
    return causal(Alignment.BOTTOM_RIGHT);
  }

  Problem causal(Alignment alignment) {
    return mask(
        "causal " + alignment,
        Mask.causal(alignment),
        (b, h, i, key) -> key <= position(b, i, alignment));
  }

  Problem window(long left, long right) {
    return window(left, right, Alignment.BOTTOM_RIGHT);
  }

  Problem window(long left, long right, Alignment alignment) {
    return mask(
        "window %s, %s %s"
            .formatted(
                left == Mask.UNBOUNDED ? "inf" : left,
                right == Mask.UNBOUNDED ? "inf" : right,
                alignment),
        Mask.window(left, right, alignment),
        (b, h, i, key) -> {
          long at = position(b, i, alignment);
          return (left == Mask.UNBOUNDED || key >= at - left)
              && (right == Mask.UNBOUNDED || key <= at + right);
        });
  }

  Problem prefix(int... lengths) {
    return mask(
        "prefix " + Arrays.toString(lengths),
        Mask.prefix(Tensor.of(lengths, lengths.length)),
        (b, h, i, key) ->
            key < lengths[lengths.length == 1 ? 0 : b]
                || key <= position(b, i, Alignment.BOTTOM_RIGHT));
  }

  /** A seeded boolean mask, full on the axes that are given (of "bhqk") and broadcast on others. */
  Problem booleanMask(String axes, double shown) {
    int[] shape = shape(axes);
    SplittableRandom random = new SplittableRandom(seed + 101);
    boolean[] open = new boolean[product(shape)];
    for (int i = 0; i < open.length; i++) {
      open[i] = random.nextDouble() < shown;
    }
    return booleanMask("tensor mask " + axes, open, shape);
  }

  /** A boolean mask of one's own, of shape (queries, keys). */
  Problem booleanMask(boolean[] open) {
    return booleanMask("tensor mask", open, shape("qk"));
  }

  private Problem booleanMask(String text, boolean[] open, int[] shape) {
    return mask(
        text,
        Mask.of(Tensor.of(open, broadcast(shape))),
        (b, h, i, key) -> open[offset(shape, b, h, (int) i, (int) (key - firstKey))]);
  }

  /** A mask of the user's own: stripes that differ by head. */
  Problem stripes() {
    Rule stripes = (b, h, i, key) -> (i + 2 * key + h) % 5 != 0;
    return mask("stripes", Mask.of((s, h, i, key) -> stripes.sees(s.batch(), h, i, key)), stripes);
  }

  Problem softCap(double cap) {
    return define("soft cap " + cap, attention.softCap(cap));
  }

  Problem scale(double scale) {
    return define("scale " + scale, attention.scale(scale));
  }

  /** A seeded bias, full on the axes that are given (of "bhqk") and broadcast on the others. */
  Problem bias(String axes, DType type) {
    SplittableRandom random = new SplittableRandom(seed + 102);
    int[] shape = shape(axes);
    double[] numbers = new double[product(shape)];
    for (int i = 0; i < numbers.length; i++) {
      numbers[i] = Twin.round(random.nextGaussian(), type);
    }
    return bias("bias " + axes, numbers, shape, type);
  }

  /** A bias of one's own, float32, of shape (queries, keys). */
  Problem bias(String text, double[] numbers) {
    return bias(text, numbers, shape("qk"), DType.F32);
  }

  private Problem bias(String text, double[] numbers, int[] shape, DType type) {
    bias = (b, h, i, j) -> numbers[offset(shape, b, h, i, j)];
    Tensor tensor = Tensor.of(numbers, broadcast(shape)).to(type);
    return define(text, attention.bias(tensor));
  }

  /** ALiBi with a slope for each head, or for each head of each sequence. */
  Problem alibi(boolean bySequence, Alignment alignment) {
    double[] all = new double[bySequence ? batch * queryHeads : queryHeads];
    for (int i = 0; i < all.length; i++) {
      all[i] = Math.scalb(1.0, -1 - i % 8);
    }
    slopes = all;
    alibiAlignment = alignment;
    Tensor tensor = bySequence ? Tensor.of(all, batch, queryHeads) : Tensor.of(all, queryHeads);
    return define(
        "ALiBi %s%s".formatted(alignment, bySequence ? " by sequence" : ""),
        attention.alibi(tensor.to(DType.F32), alignment));
  }

  /** Seeded sinks. */
  Problem sinks() {
    SplittableRandom random = new SplittableRandom(seed + 103);
    double[] all = new double[queryHeads];
    Arrays.setAll(all, h -> (float) (2 * random.nextGaussian()));
    return sinks(all);
  }

  Problem sinks(double... all) {
    sinks = Arrays.stream(all).map(x -> (float) x).toArray();
    return define("sinks", attention.sinks(Tensor.of(all, all.length).to(DType.F32)));
  }

  /** A score function that looks at every argument. */
  Problem scoreFunction() {
    function = (s, b, h, i, key) -> s * (1 + 0.125 * (h % 3)) - 0.25 * ((i + key + b) % 4);
    return define("score function", attention.scoreFunction(ScoreFunction.elementwise(function)));
  }

  Problem rescale(Rescale rescale) {
    return define("rescale " + rescale, attention.rescale(rescale));
  }

  Problem lazy(double tau) {
    return define("lazy " + tau, attention.lazyRescale(tau));
  }

  Problem phase(Phase phase) {
    return define("phase " + phase, attention.phase(phase));
  }

  // Data

  private double[][][] make(
      int salt, int heads, int[] rows, int dim, DType type, double deviation) {
    double[][][] made = new double[batch][heads][];
    for (int b = 0; b < batch; b++) {
      for (int h = 0; h < heads; h++) {
        SplittableRandom random =
            new SplittableRandom(seed * 1_000_003 + salt * 10_007L + b * 97L + h);
        double[] numbers = new double[rows[b] * dim];
        for (int i = 0; i < numbers.length; i++) {
          double x = deviation * random.nextGaussian();
          numbers[i] =
              type == DType.I8 ? Math.clamp(Math.rint(40 * x), -127, 127) : Twin.round(x, type);
        }
        made[b][h] = numbers;
      }
    }
    return made;
  }

  private double[][][] makeScales(int salt) {
    double[][][] made = make(salt, keyHeads, keys, 1, DType.F32, 1);
    for (double[][] sequence : made) {
      for (double[] head : sequence) {
        for (int j = 0; j < head.length; j++) {
          head[j] = (float) ((1 + Math.abs(head[j])) / 64);
        }
      }
    }
    return made;
  }

  private static void multiply(double[][][] rows, double[][][] scales, int dim) {
    for (int b = 0; b < rows.length; b++) {
      for (int h = 0; h < rows[b].length; h++) {
        for (int i = 0; i < rows[b][h].length; i++) {
          rows[b][h][i] *= scales[b][h][i / dim];
        }
      }
    }
  }

  private void make() {
    if (q != null) {
      return;
    }
    q = make(1, queryHeads, queries, dqk, queryType, magnitude);
    k = make(2, keyHeads, keys, dqk, keyType, 1);
    v = make(3, keyHeads, keys, dv, keyType, 1);
    if (keyType == DType.I8) {
      keyScales = makeScales(4);
      valueScales = makeScales(5);
      multiply(k, keyScales, dqk);
      multiply(v, valueScales, dv);
    }
  }

  /** The queries of a sequence and head, (queries, Dqk). */
  double[] q(int b, int h) {
    make();
    return q[b][h];
  }

  /** The keys that a query head reads, (keys, Dqk). */
  double[] k(int b, int h) {
    return kOfKeyHead(b, h / group());
  }

  /** The values that a query head reads, (keys, Dv). */
  double[] v(int b, int h) {
    return vOfKeyHead(b, h / group());
  }

  double[] kOfKeyHead(int b, int kh) {
    make();
    return k[b][kh];
  }

  double[] vOfKeyHead(int b, int kh) {
    make();
    return v[b][kh];
  }

  /** The factor of a key's stored numbers, 1 unless quantised. */
  double keyScale(int b, int kh, int j) {
    make();
    return keyScales == null ? 1 : keyScales[b][kh][j];
  }

  /** The factor of a value's stored numbers, 1 unless quantised. */
  double valueScale(int b, int kh, int j) {
    make();
    return valueScales == null ? 1 : valueScales[b][kh][j];
  }

  /** Sets all queries, and all keys, and all values to one number each. */
  Problem constant(double ofQueries, double ofKeys, double ofValues) {
    make();
    fill(q, ofQueries);
    fill(k, ofKeys);
    fill(v, ofValues);
    return this;
  }

  private static void fill(double[][][] all, double number) {
    for (double[][] sequence : all) {
      for (double[] head : sequence) {
        Arrays.fill(head, number);
      }
    }
  }

  // Parts, with the same numbers. The definition goes along as it is, so it has to suit the part.

  /** Some queries over some keys, from the first one on. */
  Problem part(int fromQuery, int toQuery, int toKey) {
    make();
    Problem part = copy();
    part.queries = new int[batch];
    part.keys = new int[batch];
    Arrays.fill(part.queries, toQuery - fromQuery);
    Arrays.fill(part.keys, toKey);
    part.q = cut(q, fromQuery * dqk, toQuery * dqk);
    part.k = cut(k, 0, toKey * dqk);
    part.v = cut(v, 0, toKey * dv);
    part.keyScales = keyScales == null ? null : cut(keyScales, 0, toKey);
    part.valueScales = valueScales == null ? null : cut(valueScales, 0, toKey);
    part.rebind();
    return part;
  }

  /** The same queries over a range of the keys. */
  Problem keyRange(int from, int to) {
    make();
    Problem part = copy();
    Arrays.fill(part.keys, to - from);
    part.k = cut(k, from * dqk, to * dqk);
    part.v = cut(v, from * dv, to * dv);
    part.keyScales = keyScales == null ? null : cut(keyScales, from, to);
    part.valueScales = valueScales == null ? null : cut(valueScales, from, to);
    part.rebind();
    return part;
  }

  /** One sequence alone. */
  Problem sequence(int b) {
    make();
    Problem part = copy();
    part.batch = 1;
    part.queries = new int[] {queries[b]};
    part.keys = new int[] {keys[b]};
    part.q = new double[][][] {q[b]};
    part.k = new double[][][] {k[b]};
    part.v = new double[][][] {v[b]};
    part.keyScales = keyScales == null ? null : new double[][][] {keyScales[b]};
    part.valueScales = valueScales == null ? null : new double[][][] {valueScales[b]};
    part.rebind();
    return part;
  }

  /** One query head with the key head that it reads. */
  Problem head(int h) {
    return heads(h, 1, h / group());
  }

  /** One key head with the query heads that read it. */
  Problem keyHead(int kh) {
    return heads(kh * group(), group(), kh);
  }

  private Problem heads(int first, int count, int keyHead) {
    make();
    Problem part = copy();
    part.queryHeads = count;
    part.keyHeads = 1;
    part.q = pick(q, first, count);
    part.k = pick(k, keyHead, 1);
    part.v = pick(v, keyHead, 1);
    part.keyScales = keyScales == null ? null : pick(keyScales, keyHead, 1);
    part.valueScales = valueScales == null ? null : pick(valueScales, keyHead, 1);
    part.rebind();
    return part;
  }

  /** The queries in another order. */
  Problem queryOrder(int... order) {
    make();
    Problem part = copy();
    part.q = new double[batch][queryHeads][order.length * dqk];
    for (int b = 0; b < batch; b++) {
      for (int h = 0; h < queryHeads; h++) {
        for (int i = 0; i < order.length; i++) {
          System.arraycopy(q[b][h], order[i] * dqk, part.q[b][h], i * dqk, dqk);
        }
      }
    }
    part.queries = new int[batch];
    Arrays.fill(part.queries, order.length);
    part.rebind();
    return part;
  }

  private Problem copy() {
    Problem copy = new Problem(seed);
    copy.batch = batch;
    copy.queryHeads = queryHeads;
    copy.keyHeads = keyHeads;
    copy.dqk = dqk;
    copy.dv = dv;
    copy.queries = queries.clone();
    copy.keys = keys.clone();
    copy.firstKey = firstKey;
    copy.types(queryType, keyType, outType);
    copy.attention = attention;
    copy.definition.append(definition);
    copy.q = q;
    copy.k = k;
    copy.v = v;
    copy.keyScales = keyScales;
    copy.valueScales = valueScales;
    copy.sinks = sinks;
    return copy;
  }

  /** Parts are compared with the whole, bit by bit, and never with the twin. */
  private void rebind() {
    rule =
        (b, h, i, key) -> {
          throw new IllegalStateException("a part has no rules of its own");
        };
  }

  private static double[][][] cut(double[][][] all, int from, int to) {
    double[][][] cut = new double[all.length][][];
    for (int b = 0; b < all.length; b++) {
      cut[b] = new double[all[b].length][];
      for (int h = 0; h < all[b].length; h++) {
        cut[b][h] = Arrays.copyOfRange(all[b][h], from, to);
      }
    }
    return cut;
  }

  private static double[][][] pick(double[][][] all, int first, int count) {
    double[][][] picked = new double[all.length][][];
    for (int b = 0; b < all.length; b++) {
      picked[b] = Arrays.copyOfRange(all[b], first, first + count);
    }
    return picked;
  }

  // What the twin and the call read

  int batch() {
    return batch;
  }

  int queryHeads() {
    return queryHeads;
  }

  int keyHeads() {
    return keyHeads;
  }

  int group() {
    return queryHeads / keyHeads;
  }

  int dqk() {
    return dqk;
  }

  int dv() {
    return dv;
  }

  int queries(int b) {
    return queries[b];
  }

  int keys(int b) {
    return keys[b];
  }

  int keysAtMost() {
    return Arrays.stream(keys).max().orElse(0);
  }

  long firstKey() {
    return firstKey;
  }

  DType queryType() {
    return queryType;
  }

  DType keyType() {
    return keyType;
  }

  DType outType() {
    return outType;
  }

  long seed() {
    return seed;
  }

  boolean isFloat64() {
    return queryType == DType.F64 || keyType == DType.F64;
  }

  Attention attention() {
    return attention;
  }

  /** The number of (sequence, head, query). */
  int rows() {
    return queryHeads * Arrays.stream(queries).sum();
  }

  /** Multiply-adds of the scores and the outputs. */
  long work() {
    long pairs = 0;
    for (int b = 0; b < batch; b++) {
      pairs += (long) queries[b] * keys[b];
    }
    return pairs * queryHeads * (dqk + dv);
  }

  boolean hasOneKeyLength() {
    return Arrays.stream(keys).distinct().count() <= 1;
  }

  boolean hasOneQueryLength() {
    return Arrays.stream(queries).distinct().count() <= 1;
  }

  double scale() {
    return attention.scaleFor(dqk);
  }

  double softCap() {
    return attention.softCap();
  }

  double bias(int b, int h, int i, int j) {
    return bias.at(b, h, i, j);
  }

  double slope(int b, int h) {
    return slopes == null ? 0 : slopes[slopes.length == queryHeads ? h : b * queryHeads + h];
  }

  /** How far a key lies from a query's position, for ALiBi. */
  long distance(int b, int i, int j) {
    return position(b, i, alibiAlignment) - (firstKey + j);
  }

  double sink(int h) {
    return sinks == null ? Double.NEGATIVE_INFINITY : sinks[h];
  }

  ScoreFunction.Elementwise function() {
    return function;
  }

  boolean sees(int b, int h, int i, int j) {
    return rule.sees(b, h, i, firstKey + j);
  }

  /** The largest magnitude of a value. */
  double maxValue() {
    make();
    return Arrays.stream(v)
        .flatMap(Arrays::stream)
        .flatMapToDouble(Arrays::stream)
        .map(Math::abs)
        .max()
        .orElse(0);
  }

  // Broadcast shapes

  private int[] shape(String axes) {
    int[] full = {batch, queryHeads, Arrays.stream(queries).max().orElse(0), keysAtMost()};
    int[] shape = new int[4];
    for (int i = 0; i < 4; i++) {
      shape[i] = axes.indexOf("bhqk".charAt(i)) >= 0 ? full[i] : 1;
    }
    return shape;
  }

  private static int offset(int[] shape, int b, int h, int i, int j) {
    int offset = shape[0] == 1 ? 0 : b;
    offset = offset * shape[1] + (shape[1] == 1 ? 0 : h);
    offset = offset * shape[2] + (shape[2] == 1 ? 0 : i);
    return offset * shape[3] + (shape[3] == 1 ? 0 : j);
  }

  private static int product(int[] shape) {
    return Arrays.stream(shape).reduce(1, (x, y) -> x * y);
  }

  /** The shape, for odd seeds without its leading ones, as a user might give it. */
  private long[] broadcast(int[] shape) {
    int from = 0;
    while (seed % 2 != 0 && from < 3 && shape[from] == 1) {
      from++;
    }
    return Arrays.stream(shape, from, 4).asLongStream().toArray();
  }

  @Override
  public String toString() {
    String lengths =
        hasOneQueryLength() && hasOneKeyLength() && batch > 0
            ? "%d x (%d, %d)".formatted(batch, queries[0], keys[0])
            : "%s, %s".formatted(Arrays.toString(queries), Arrays.toString(keys));
    String types =
        queryType == keyType && keyType == outType
            ? queryType.toString()
            : "%s %s %s".formatted(queryType, keyType, outType);
    return "%s %s, heads %d/%d, dims %d/%d%s%s, seed %d"
        .formatted(
            types,
            lengths,
            queryHeads,
            keyHeads,
            dqk,
            dv,
            firstKey == 0 ? "" : ", first key " + firstKey,
            definition,
            seed);
  }
}
