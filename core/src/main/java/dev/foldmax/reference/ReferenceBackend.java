package dev.foldmax.reference;

import dev.foldmax.Attention;
import dev.foldmax.AttentionPartial;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KernelChoice;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Sampling;
import dev.foldmax.ScoreFunction;
import dev.foldmax.ScoreTile;
import dev.foldmax.Sequence;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import dev.foldmax.spi.PartialCall;
import dev.foldmax.spi.PartialSet;
import dev.foldmax.spi.PartialStates;
import dev.foldmax.spi.Rows;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/** See {@link Backend#reference()}. */
public final class ReferenceBackend implements Backend {
  private volatile boolean closed;

  @Override
  public String name() {
    return "reference";
  }

  @Override
  public String description() {
    return "float64, scalar, one thread";
  }

  @Override
  public void softmax(Tensor x, Tensor out) {
    checkOpen();
    Rows.checkMap(x, out);
    for (long r = 0; r < Rows.count(x); r++) {
      checkInterrupt();
      double[] row = row(x, r);
      Denominator denominator = Denominator.of(row);
      for (int i = 0; i < row.length; i++) {
        row[i] = denominator.weight(row[i]);
      }
      write(row, out, r);
    }
  }

  @Override
  public void logSoftmax(Tensor x, Tensor out) {
    checkOpen();
    Rows.checkMap(x, out);
    for (long r = 0; r < Rows.count(x); r++) {
      checkInterrupt();
      double[] row = row(x, r);
      Denominator denominator = Denominator.of(row);
      for (int i = 0; i < row.length; i++) {
        row[i] = denominator.logWeight(row[i]);
      }
      write(row, out, r);
    }
  }

  @Override
  public void logSumExp(Tensor x, Tensor out) {
    checkOpen();
    Rows.checkReduction(x, out);
    for (long r = 0; r < Rows.count(x); r++) {
      checkInterrupt();
      out.setAt(Rows.elementOffset(out, r), Denominator.of(row(x, r)).logSumExp());
    }
  }

  @Override
  public void topK(Tensor x, Tensor values, Tensor indices, @Nullable Tensor probabilities) {
    checkOpen();
    Rows.checkTopK(x, values, indices, probabilities);
    for (long r = 0; r < Rows.count(x); r++) {
      checkInterrupt();
      double[] row = row(x, r);
      Denominator denominator = Denominator.of(row);
      int[] order = descending(row);
      for (int i = 0; i < values.shape(-1); i++) {
        double value = row[order[i]];
        values.setAt(Rows.offset(values, r) + i * values.stride(-1), value);
        indices.setLongAt(Rows.offset(indices, r) + i * indices.stride(-1), order[i]);
        if (probabilities != null) {
          probabilities.setAt(
              Rows.offset(probabilities, r) + i * probabilities.stride(-1),
              denominator.weight(value));
        }
      }
    }
  }

  /** The indices of a row, largest element first, NaN before all, ties by index. */
  private static int[] descending(double[] row) {
    return IntStream.range(0, row.length)
        .boxed()
        .sorted(
            Comparator.comparing((Integer i) -> !Double.isNaN(row[i]))
                .thenComparingDouble(i -> Double.isNaN(row[i]) ? 0 : 0.0 - row[i]))
        .mapToInt(Integer::intValue)
        .toArray();
  }

  @Override
  public void sample(Tensor logits, Sampling sampling, Tensor indices) {
    checkOpen();
    Rows.checkSample(logits, indices);
    for (long r = 0; r < Rows.count(logits); r++) {
      checkInterrupt();
      indices.setLongAt(
          Rows.elementOffset(indices, r), draw(row(logits, r), sampling, sampling.firstRow() + r));
    }
  }

  private static long draw(double[] row, Sampling sampling, long number) {
    double max = Double.NEGATIVE_INFINITY;
    for (double x : row) {
      if (Double.isNaN(x) || x == Double.POSITIVE_INFINITY) {
        return -1;
      }
      max = Math.max(max, x);
    }
    if (max == Double.NEGATIVE_INFINITY) {
      return -1;
    }
    int[] order = descending(row);
    if (sampling.temperature() == 0) {
      return order[0];
    }
    double[] scaled = new double[row.length];
    for (int i = 0; i < row.length; i++) {
      scaled[i] = (row[i] - max) / sampling.temperature();
    }
    int kept = row.length;
    if (sampling.topK() > 0) {
      kept = (int) Math.min(kept, sampling.topK());
    }
    if (sampling.topP() < 1) {
      kept = nucleus(scaled, order, kept, sampling.topP());
    }
    double least = Math.log(sampling.minP());
    long stream = Sampling.stream(sampling.seed(), number);
    double best = Double.NEGATIVE_INFINITY;
    long winner = -1;
    for (int i = 0; i < kept; i++) {
      double score = scaled[order[i]];
      if (score < least || score == Double.NEGATIVE_INFINITY) {
        break;
      }
      double exponential = -Math.log1p(-Sampling.uniform(stream, order[i]));
      double key = score - Math.log(exponential);
      if (key > best || (key == best && order[i] < winner)) {
        best = key;
        winner = order[i];
      }
    }
    return winner;
  }

  /** How many of the first {@code kept} in order it takes to reach a share p of their sum. */
  private static int nucleus(double[] scaled, int[] order, int kept, double p) {
    double sum = 0;
    for (int i = 0; i < kept; i++) {
      sum += Math.exp(scaled[order[i]]);
    }
    double reached = 0;
    for (int i = 0; i < kept; i++) {
      reached += Math.exp(scaled[order[i]]);
      if (reached >= p * sum) {
        return i + 1;
      }
    }
    return kept;
  }

  @Override
  public void attend(
      Tensor q, KeyValues keyValues, Attention attention, Tensor out, @Nullable Tensor lse) {
    checkOpen();
    AttentionCall call = AttentionCall.of(q, keyValues, attention, out, lse);
    for (int b = 0; b < call.batch(); b++) {
      for (int head = 0; head < call.queryHeads(); head++) {
        for (long i = 0; i < call.sequence(b).queries(); i++) {
          checkInterrupt();
          attendRow(call, b, head, i);
        }
      }
    }
  }

  private static void attendRow(AttentionCall call, int b, int head, long query) {
    Sequence sequence = call.sequence(b);
    double[] scores = scores(call, b, head, query, sequence.firstKey(), sequence.endKey());
    double sink = call.sink(head);
    double[] withSink = Arrays.copyOf(scores, scores.length + 1);
    withSink[scores.length] = sink;
    Denominator denominator = Denominator.of(withSink);
    double lse = denominator.logSumExp();
    double[] output = new double[call.valueDim()];
    for (int j = 0; j < scores.length; j++) {
      if (scores[j] == Double.NEGATIVE_INFINITY) {
        continue;
      }
      double p = denominator.weight(scores[j]);
      for (int d = 0; d < output.length; d++) {
        output[d] += p * value(call, b, head, sequence.firstKey() + j, d);
      }
    }
    long row = call.firstQueryRow(b) + query;
    for (int d = 0; d < output.length; d++) {
      call.out().set(Double.isNaN(lse) ? lse : output[d], call.queryBlock(b), head, row, d);
    }
    Tensor lseOut = call.lse();
    if (lseOut != null) {
      lseOut.set(lse, call.queryBlock(b), head, row);
    }
  }

  /** A query's scores of some keys, natural, -inf where hidden; index 0 is the first of them. */
  private static double[] scores(
      AttentionCall call, int b, int head, long query, long keyBegin, long keyEnd) {
    Attention attention = call.attention();
    Sequence sequence = call.sequence(b);
    Mask mask = attention.mask();
    double[] scores = new double[Math.toIntExact(keyEnd - keyBegin)];
    for (int j = 0; j < scores.length; j++) {
      long key = keyBegin + j;
      double dot = 0;
      for (int d = 0; d < call.keyDim(); d++) {
        dot +=
            call.q().get(call.queryBlock(b), head, call.firstQueryRow(b) + query, d)
                * key(call, b, head, key, d);
      }
      double s = call.scale() * dot;
      if (attention.softCap() > 0) {
        s = attention.softCap() * Math.tanh(s / attention.softCap());
      }
      Tensor bias = attention.bias();
      if (bias != null) {
        double added = bias.at(bias.broadcastOffset(b, head, query, key - sequence.firstKey()));
        s = added == Double.NEGATIVE_INFINITY ? added : s + added;
      }
      if (attention.alibiSlopes() != null) {
        s -= call.alibiSlope(b, head) * Math.abs(query + call.alibiOffset(b) - key);
      }
      scores[j] = s;
    }
    ScoreFunction function = attention.scoreFunction();
    if (function != null && scores.length > 0) {
      function.apply(new Row(b, head, query, keyBegin, scores));
    }
    for (int j = 0; j < scores.length; j++) {
      if (!mask.visible(sequence, head, query, keyBegin + j)) {
        scores[j] = Double.NEGATIVE_INFINITY;
      }
    }
    return scores;
  }

  private static double key(AttentionCall call, int b, int head, long key, long d) {
    KeyValues kv = call.keyValues();
    return element(kv, kv.keys(), kv.keyScales(), b, head / call.group(), key, d);
  }

  private static double value(AttentionCall call, int b, int head, long key, long d) {
    KeyValues kv = call.keyValues();
    return element(kv, kv.values(), kv.valueScales(), b, head / call.group(), key, d);
  }

  private static double element(
      KeyValues kv, Tensor rows, @Nullable Tensor scales, int b, int keyHead, long key, long d) {
    long block = kv.block(b, key);
    long row = kv.row(b, key);
    double element = rows.get(block, keyHead, row, d);
    return scales == null ? element : element * scales.get(block, keyHead, row);
  }

  private AttentionPartial.Fold fold() {
    return new AttentionPartial.Fold(name(), "two passes", 1, 0, 0, 1); // scores are natural
  }

  /** Float64, one state a row, whichever keys: the reference has no cells. */
  @Override
  public AttentionPartial attendPartial(
      Arena arena, Tensor q, KeyValues keyValues, Attention attention, long keyBegin, long keyEnd) {
    checkOpen();
    PartialCall call = PartialCall.of(q, keyValues, attention, keyBegin, keyEnd);
    PartialStates states = new PartialStates(call, fold(), DType.F64, arena);
    AttentionCall whole = call.attention();
    for (int b = 0; b < whole.batch(); b++) {
      for (int head = 0; head < whole.queryHeads(); head++) {
        for (long i = 0; i < whole.sequence(b).queries(); i++) {
          checkInterrupt();
          partialRow(call, states, b, head, i);
        }
      }
    }
    return states.partial(q.shape());
  }

  private static void partialRow(
      PartialCall call, PartialStates states, int b, int head, long query) {
    AttentionCall whole = call.attention();
    Sequence sequence = whole.sequence(b);
    long begin = Math.max(call.keyBegin(), sequence.firstKey());
    long end = Math.max(begin, Math.min(call.keyEnd(), sequence.endKey()));
    double[] scores = scores(whole, b, head, query, begin, end);
    Denominator denominator = Denominator.of(scores);
    double[] weighted = new double[whole.valueDim()];
    for (int j = 0; j < scores.length; j++) {
      if (scores[j] != Double.NEGATIVE_INFINITY) {
        double weight = Math.exp(scores[j] - denominator.max());
        for (int d = 0; d < weighted.length; d++) {
          weighted[d] += weight * value(whole, b, head, begin + j, d);
        }
      }
    }
    long row = states.row(b, head, query);
    states.set(0, row, denominator.max(), denominator.sum());
    for (int d = 0; d < weighted.length; d++) {
      states.outputs().setAt(states.outputOffset(0, row) + d, weighted[d]);
    }
  }

  @Override
  public void finish(List<AttentionPartial> partials, Tensor out, @Nullable Tensor lse) {
    finish(partials, out, lse, true);
  }

  @Override
  public void finishPart(List<AttentionPartial> partials, Tensor out, @Nullable Tensor lse) {
    finish(partials, out, lse, false);
  }

  @Override
  public boolean servesPartials() {
    return true;
  }

  private void finish(
      List<AttentionPartial> partials, Tensor out, @Nullable Tensor lse, boolean whole) {
    checkOpen();
    PartialSet set = PartialSet.of(partials, i -> "partials[" + i + "]", whole);
    set.checkFinish(fold(), out, lse);
    for (long r = 0; r < set.rows(); r++) {
      checkInterrupt();
      finishRow(set, r, out, lse);
    }
  }

  /** Takes every state to the largest maximum, adds them up and divides. */
  private static void finishRow(PartialSet set, long row, Tensor out, @Nullable Tensor lse) {
    double sink = set.sink(row);
    double max = sink;
    for (PartialSet.State state : set.states()) {
      max = Math.max(max, state.max(row));
    }
    double shift = max == Double.NEGATIVE_INFINITY ? 0 : max;
    double sum = Math.exp(sink - shift);
    double[] output = new double[set.valueDim()];
    for (PartialSet.State state : set.states()) {
      // A state of no visible key adds nothing. Any other does though its weight is 0: NaN and
      // infinity stay in the sums, as in a single call.
      if (state.max(row) != Double.NEGATIVE_INFINITY) {
        double correction = Math.exp(state.max(row) - shift);
        sum += state.sum(row) * correction;
        for (int d = 0; d < output.length; d++) {
          Tensor weighted = state.partial().outputs();
          output[d] += weighted.at(state.outputOffset(row) + d * weighted.stride(-1)) * correction;
        }
      }
    }
    double total = sum == 0 ? Double.NEGATIVE_INFINITY : max + Math.log(sum);
    for (int d = 0; d < output.length; d++) {
      output[d] = Double.isNaN(total) ? total : sum == 0 ? 0 : output[d] / sum;
    }
    write(output, out, row);
    if (lse != null) {
      lse.setAt(Rows.elementOffset(lse, row), total);
    }
  }

  @Override
  public KernelChoice explain(Tensor q, KeyValues keyValues, Attention attention) {
    checkOpen();
    AttentionCall.withoutOutput(q, keyValues, attention);
    return new KernelChoice("reference: two passes, float64, scalar", List.of());
  }

  @Override
  public void merge(List<Tensor> outputs, List<Tensor> lses, Tensor out, @Nullable Tensor lse) {
    checkOpen();
    Rows.checkMerge(outputs, lses, out, lse);
    for (long r = 0; r < Rows.count(out); r++) {
      checkInterrupt();
      double[] partial = new double[lses.size()];
      for (int i = 0; i < partial.length; i++) {
        partial[i] = lses.get(i).at(Rows.elementOffset(lses.get(i), r));
      }
      int[] present =
          IntStream.range(0, partial.length)
              .filter(i -> partial[i] != Double.NEGATIVE_INFINITY)
              .toArray();
      Denominator denominator = Denominator.of(partial);
      double total = denominator.logSumExp();
      double[] merged = new double[(int) out.shape(-1)];
      if (present.length == 1) { // every bit of it: 0 + x would lose the sign of a zero
        total = partial[present[0]];
        merged = row(outputs.get(present[0]), r);
      } else {
        for (int i : present) {
          double weight = denominator.weight(partial[i]);
          double[] output = row(outputs.get(i), r);
          for (int d = 0; d < merged.length; d++) {
            merged[d] += weight * output[d];
          }
        }
      }
      write(merged, out, r);
      if (lse != null) {
        lse.setAt(Rows.elementOffset(lse, r), total);
      }
    }
  }

  @Override
  public void close() {
    closed = true;
  }

  private static void checkInterrupt() {
    if (Thread.currentThread().isInterrupted()) {
      throw new CancellationException("interrupted");
    }
  }

  private void checkOpen() {
    if (closed) {
      throw new IllegalStateException("the backend is closed");
    }
  }

  /**
   * What a softmax divides by: {@code sum * exp(max)}, kept apart since {@code max + ln(sum)} is
   * max alone where the scores are as large as 1e17. A NaN or +inf makes the sum NaN.
   */
  private record Denominator(double max, double sum) {
    static Denominator of(double[] x) {
      double max = Double.NEGATIVE_INFINITY;
      for (double element : x) {
        if (Double.isNaN(element) || element == Double.POSITIVE_INFINITY) {
          return new Denominator(0, Double.NaN);
        }
        max = Math.max(max, element);
      }
      double sum = 0;
      for (int i = 0; i < x.length && max != Double.NEGATIVE_INFINITY; i++) {
        sum += Math.exp(x[i] - max);
      }
      return new Denominator(max, sum);
    }

    /** -inf for nothing but -inf. */
    double logSumExp() {
      return sum == 0 ? Double.NEGATIVE_INFINITY : max + Math.log(sum);
    }

    /** The share of a score; exactly 0 for -inf, unless its row is NaN altogether. */
    double weight(double score) {
      if (score == Double.NEGATIVE_INFINITY) {
        return Double.isNaN(sum) ? sum : 0;
      }
      return Math.exp(score - max) / sum;
    }

    /** The logarithm of {@link #weight}. */
    double logWeight(double score) {
      if (score == Double.NEGATIVE_INFINITY) {
        return Double.isNaN(sum) ? sum : score;
      }
      return score - max - Math.log(sum);
    }
  }

  private static double[] row(Tensor x, long r) {
    double[] row = new double[Math.toIntExact(x.shape(-1))];
    long offset = Rows.offset(x, r);
    for (int i = 0; i < row.length; i++) {
      row[i] = x.at(offset + i * x.stride(-1));
    }
    return row;
  }

  private static void write(double[] row, Tensor out, long r) {
    long offset = Rows.offset(out, r);
    for (int i = 0; i < row.length; i++) {
      out.setAt(offset + i * out.stride(-1), row[i]);
    }
  }

  /** One row of scores, as a score function sees it. */
  private static final class Row implements ScoreTile {
    private final int batch;
    private final int head;
    private final long query;
    private final long keyBegin;
    private final double[] scores;

    Row(int batch, int head, long query, long keyBegin, double[] scores) {
      this.batch = batch;
      this.head = head;
      this.query = query;
      this.keyBegin = keyBegin;
      this.scores = scores;
    }

    @Override
    public int batch() {
      return batch;
    }

    @Override
    public int queries() {
      return 1;
    }

    @Override
    public int keys() {
      return scores.length;
    }

    @Override
    public int head(int i) {
      return head;
    }

    @Override
    public long query(int i) {
      return query;
    }

    @Override
    public long keyBegin() {
      return keyBegin;
    }

    @Override
    public double get(int i, int j) {
      return scores[j];
    }

    @Override
    public void set(int i, int j, double score) {
      scores[j] = score;
    }
  }

  @Override
  public String toString() {
    return name() + ": " + description();
  }
}
