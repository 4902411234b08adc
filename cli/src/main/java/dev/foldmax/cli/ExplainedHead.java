package dev.foldmax.cli;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.ScoreFunction;
import dev.foldmax.ScoreTile;
import dev.foldmax.Sequence;
import dev.foldmax.Tensor;
import dev.foldmax.cli.explain.Comparison;
import dev.foldmax.cli.explain.Row;
import dev.foldmax.cli.explain.Values;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The queries of one head of one sequence. */
final class ExplainedHead implements ExplainedRows {
  /** Work of a tenth of a second on a few cores. */
  private static final double MOST_OPERATIONS = 1e10;

  private final AttendJob head;

  /**
   * A head.
   *
   * @param head of one sequence and one query head
   */
  ExplainedHead(AttendJob head) {
    this.head = head;
    if (head.keys() > Integer.MAX_VALUE - 8) {
      throw new Failure("a row of " + head.keys() + " keys is too long to explain");
    }
  }

  @Override
  public String noun() {
    return "query";
  }

  @Override
  public String keyNoun() {
    return "key";
  }

  @Override
  public long rows() {
    return head.queries();
  }

  @Override
  public int keys() {
    return (int) head.keys();
  }

  @Override
  public int dimension() {
    return (int) head.v().shape(3);
  }

  @Override
  public boolean isFloat64() {
    return head.lse().dtype() == DType.F64;
  }

  @Override
  public double scoreOperations() {
    return (double) head.keys() * Math.max(1, head.q().shape(3));
  }

  @Override
  public double[] scores(Backend cpu, long query) {
    // One component of the values, or none, is as good as all: they are not looked at.
    Tensor v = head.v().slice(3, 0, Math.min(1, head.v().shape(3)));
    AttendJob narrow =
        new AttendJob(
            head.q(),
            head.k(),
            v,
            head.keyScales(),
            head.valueScales(),
            head.attention(),
            head.out(),
            head.lse());
    Tensor out = Tensor.allocate(DType.F64, 1, 1, 1, v.shape(3));
    return capture(cpu, narrow, query, out, Tensor.allocate(DType.F64, 1, 1, 1));
  }

  @Override
  public Row row(Backend cpu, long query) {
    double[] kernels = scores(cpu, query);
    float[] rounded = new float[kernels.length];
    for (int j = 0; j < rounded.length; j++) {
      rounded[j] = (float) kernels[j];
    }
    Tensor out = Tensor.allocate(DType.F64, 1, 1, 1, dimension());
    Tensor lse = Tensor.allocate(DType.F64, 1, 1, 1);
    try (Backend reference = Backend.reference()) {
      double[] scores = capture(reference, head, query, out, lse);
      Tensor sinks = head.attention().sinks();
      return new Row(
          scores,
          rounded,
          values(),
          sinks == null ? Double.NEGATIVE_INFINITY : sinks.get(0),
          out.toDoubleArray(),
          lse.at(0));
    }
  }

  /**
   * Attends with one query and writes down its scores on the way: the definition of a score stays
   * in one place, that of the backend.
   */
  private static double[] capture(
      Backend backend, AttendJob head, long query, Tensor out, Tensor lse) {
    double[] scores = new double[(int) head.keys()];
    Arrays.fill(scores, Double.NEGATIVE_INFINITY); // of keys that a kernel skips
    AttendJob row = Check.row(head, query, out, lse);
    ScoreFunction own = row.attention().scoreFunction();
    Attention recording =
        row.attention()
            .scoreFunction(
                tile -> {
                  if (own != null) {
                    own.apply(tile);
                  }
                  record(tile, scores);
                });
    new AttendJob(
            row.q(), row.k(), row.v(), row.keyScales(), row.valueScales(), recording, out, lse)
        .run(backend);
    Mask mask = head.attention().mask();
    Sequence sequence = head.sequence();
    for (int j = 0; j < scores.length; j++) {
      if (!mask.visible(sequence, 0, query, j)) {
        scores[j] = Double.NEGATIVE_INFINITY;
      }
    }
    return scores;
  }

  private static void record(ScoreTile tile, double[] scores) {
    for (int j = 0; j < tile.keys(); j++) {
      scores[Math.toIntExact(tile.keyBegin() + j)] = tile.get(0, j);
    }
  }

  private Values values() {
    return new Values() {
      private final Tensor v = head.v();
      private final @Nullable Tensor scales = head.valueScales();

      @Override
      public int dimension() {
        return ExplainedHead.this.dimension();
      }

      @Override
      public void read(int key, double[] value) {
        double scale = scales == null ? 1 : scales.get(0, 0, key);
        for (int d = 0; d < value.length; d++) {
          value[d] = scale * v.at(key * v.stride(2) + d * v.stride(3));
        }
      }
    };
  }

  @Override
  public double[] compute(Backend backend, long query) {
    return compute(backend, head, query);
  }

  private double[] compute(Backend backend, AttendJob job, long query) {
    DType type = head.lse().dtype();
    Tensor out = Tensor.allocate(type, 1, 1, 1, dimension());
    Tensor lse = Tensor.allocate(type, 1, 1, 1);
    Check.row(job, query, out, lse).run(backend);
    double[] numbers = Arrays.copyOf(out.toDoubleArray(), dimension() + 1);
    numbers[dimension()] = lse.at(0);
    return numbers;
  }

  @Override
  public @Nullable Comparison amongOthers(Backend cpu, long query) {
    // ALiBi is a bias to a query alone and a slope to a whole head: rounded in another order.
    boolean sameArithmetic = head.attention().alibiSlopes() == null;
    if (!sameArithmetic || rows() == 1 || head.operations() > MOST_OPERATIONS) {
      return null;
    }
    DType type = head.lse().dtype();
    Tensor out = Tensor.allocate(type, 1, 1, rows(), dimension());
    Tensor lse = Tensor.allocate(type, 1, 1, rows());
    AttendJob prefill =
        new AttendJob(
            head.q(),
            head.k(),
            head.v(),
            head.keyScales(),
            head.valueScales(),
            head.attention().phase(Phase.PREFILL),
            out,
            lse);
    prefill.run(cpu);
    double[] numbers =
        Arrays.copyOf(out.slice(2, query, query + 1).toDoubleArray(), dimension() + 1);
    numbers[dimension()] = lse.get(0, 0, query);
    return Comparison.of(
        "kernels for prompts, alone",
        compute(cpu, prefill, query),
        "among the " + rows() + " queries",
        numbers);
  }

  @Override
  public List<String> trouble(Row row) {
    List<String> sentences = new ArrayList<>(ExplainedTensor.badScores(keyNoun(), row));
    if (!sentences.isEmpty()) {
      return sentences;
    }
    double[] value = new double[dimension()];
    int bad = 0;
    for (int j = 0; j < row.keys(); j++) {
      if (row.score(j) == Double.NEGATIVE_INFINITY) {
        continue;
      }
      row.values().read(j, value);
      for (int d = 0; d < value.length; d++) {
        if (!Double.isFinite(value[d])) {
          bad++;
          if (bad == 1) {
            sentences.add(
                "Component "
                    + d
                    + " of the value of key "
                    + j
                    + " is "
                    + value[d]
                    + ", and the key is visible: so that component of the output is not finite.");
          }
        }
      }
    }
    if (bad > 1) {
      sentences.add(bad + " components of visible values are not finite; this is the first.");
    }
    return sentences;
  }
}
