package dev.foldmax.cli;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Mask;
import dev.foldmax.Sequence;
import dev.foldmax.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.LongStream;
import org.jspecify.annotations.Nullable;

/**
 * Compares an attention's result with the reference backend's, and with an expected result if there
 * is one: all rows, or, where the scalar reference would take more than a few seconds, a seeded
 * sample of them.
 *
 * <p>A row passes when no element is off by more than its {@link Magnitudes#tolerance}, or, against
 * an expected result that has errors of its own, twice that; and when elements that are not finite
 * are so on both sides.
 */
final class Check {
  /** Products of the reference that take it a few seconds. */
  private static final double MOST_PRODUCTS = 5e7;

  private static final int FEWEST_ROWS = 4;
  private static final long SEED = 0x5eed;

  private final AttendJob job;
  private final @Nullable Tensor expected;
  private final long[] rows;
  private final Errors output = new Errors(true);
  private final Errors logSumExp = new Errors(false);
  private final Errors expectedOutput = new Errors(true);

  /**
   * Prepares a check.
   *
   * @param job with its result
   * @param expected (batch, query heads, queries, Dv), or null
   */
  Check(AttendJob job, @Nullable Tensor expected) {
    this(job, expected, MOST_PRODUCTS);
  }

  /** The same with another limit to what the reference computes. */
  Check(AttendJob job, @Nullable Tensor expected, double mostProducts) {
    this.job = job;
    this.expected = expected;
    this.rows = chooseRows(job, mostProducts);
  }

  /** Numbers of rows in the order of (batch, head, query), ascending. */
  private static long[] chooseRows(AttendJob job, double mostProducts) {
    long all = job.lse().elements();
    double productsOfRow = (double) job.keys() * (job.q().shape(3) + job.v().shape(3) + 1);
    long affordable = (long) Math.max(FEWEST_ROWS, mostProducts / productsOfRow);
    if (all <= affordable) {
      return LongStream.range(0, all).toArray();
    }
    // The last row is always there: in a causal attention it is the longest.
    return LongStream.concat(
            LongStream.of(all - 1),
            new SplittableRandom(SEED).longs(0, all).limit(affordable * 4).distinct())
        .distinct()
        .limit(affordable)
        .sorted()
        .toArray();
  }

  /** Compares, telling how far it is. */
  Check run(Progress progress) {
    try (Backend reference = Backend.reference()) {
      for (int i = 0; i < rows.length; ) {
        long head = rows[i] / job.queries();
        int end = i;
        while (end < rows.length && rows[end] / job.queries() == head) {
          end++;
        }
        compareHead(reference, head, Arrays.copyOfRange(rows, i, end));
        i = end;
        progress.reach((double) i / rows.length);
      }
    }
    return this;
  }

  /** Compares rows of one head of one sequence. */
  private void compareHead(Backend reference, long number, long[] headRows) {
    long batch = number / job.heads();
    long head = number % job.heads();
    AttendJob part = job.part(batch, batch + 1, head, head + 1);
    Magnitudes magnitudes = new Magnitudes(part);
    boolean whole = headRows.length == job.queries();
    long valueDim = job.v().shape(3);
    Tensor out = Tensor.allocate(DType.F64, 1, 1, whole ? job.queries() : 1, valueDim);
    Tensor lse = Tensor.allocate(DType.F64, 1, 1, whole ? job.queries() : 1);
    if (whole) {
      part.into(out, lse).run(reference);
    }
    for (long row : headRows) {
      long query = row % job.queries();
      if (!whole) {
        row(part, query, out, lse).run(reference);
      }
      long at = whole ? query : 0;
      double wantedLse = lse.get(0, 0, at);
      double tolerance = magnitudes.tolerance(query, wantedLse, job.out().dtype());
      for (long d = 0; d < valueDim; d++) {
        output.add(part.out().get(0, 0, query, d), out.get(0, 0, at, d), tolerance);
      }
      logSumExp.add(
          part.lse().get(0, 0, query), wantedLse, magnitudes.lseTolerance(query, wantedLse));
      if (expected != null) {
        DType coarser = coarser(job.out().dtype(), expected.dtype());
        double twice = 2 * magnitudes.tolerance(query, wantedLse, coarser);
        for (long d = 0; d < valueDim; d++) {
          expectedOutput.add(
              part.out().get(0, 0, query, d), expected.get(batch, head, query, d), twice);
        }
      }
    }
  }

  private static DType coarser(DType one, DType other) {
    return Magnitudes.ulp(1, one) > Magnitudes.ulp(1, other) ? one : other;
  }

  /**
   * One row of a head as an attention of its own. Alone, the query would be taken for the last of
   * its sequence, so mask and ALiBi are asked on its behalf.
   */
  static AttendJob row(AttendJob head, long query, Tensor out, Tensor lse) {
    Attention whole = head.attention();
    Sequence sequence = head.sequence();
    Mask mask = whole.mask();
    Tensor bias = whole.bias();
    Attention attention =
        whole
            .mask(Mask.of((alone, h, i, key) -> mask.visible(sequence, 0, query, key)))
            .bias(bias == null ? null : AttendJob.range(bias, -2, query, query + 1));
    Tensor slopes = whole.alibiSlopes();
    if (slopes != null) {
      double slope = slopes.at(0);
      long position = query + whole.alibiAlignment().offset(sequence.queries(), sequence.endKey());
      attention =
          attention
              .alibi(null)
              .scoreFunction(
                  tile -> {
                    for (int j = 0; j < tile.keys(); j++) {
                      long distance = Math.abs(position - (tile.keyBegin() + j));
                      tile.set(0, j, tile.get(0, j) - slope * distance);
                    }
                  });
    }
    return new AttendJob(
        head.q().slice(2, query, query + 1),
        head.k(),
        head.v(),
        head.keyScales(),
        head.valueScales(),
        attention,
        out,
        lse);
  }

  /** What is not within its tolerance, in words; empty for a check that passed. */
  List<String> failures() {
    List<String> failures = new ArrayList<>();
    addFailure(failures, "the output differs from the reference's", output);
    addFailure(failures, "the logsumexp differs from the reference's", logSumExp);
    addFailure(failures, "the output differs from the expected one", expectedOutput);
    return failures;
  }

  private static void addFailure(List<String> failures, String what, Errors errors) {
    if (!errors.passed()) {
      failures.add(what + ", " + errors.summary());
    }
  }

  /** How many rows were compared. */
  long rows() {
    return rows.length;
  }

  /** Whether these are all rows. */
  boolean isComplete() {
    return rows.length == job.lse().elements();
  }

  /** The output against the reference's. */
  Errors output() {
    return output;
  }

  /** The logsumexp against the reference's. */
  Errors logSumExp() {
    return logSumExp;
  }

  /** The output against the expected one, or null without one. */
  @Nullable Errors expectedOutput() {
    return expected == null ? null : expectedOutput;
  }
}
