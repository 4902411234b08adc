package dev.foldmax.spark;

import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.types.ArrayType;

/**
 * The SQL aggregates of Foldmax.
 *
 * <table>
 * <caption>Functions</caption>
 * <tr><th>function<th>result
 * <tr><td>{@code log_sum_exp(x)}<td>double: the natural logarithm of the sum of exponentials
 * <tr><td>{@code softmax_avg(score, value)}<td>double: the mean of the values, weighted by the
 *     softmax of the scores
 * <tr><td>{@code softmax_avg(score, vector)}<td>the same of {@code array<float>} or
 *     {@code array<double>}, in the vector's type
 * <tr><td>{@code attend(query, key, value [, scale])}<td>attention: {@code softmax_avg(scale *
 *     dot(query, key), value)}; the scale is 1 / sqrt(dimension) by default
 * <tr><td>{@code softmax_top_k(score, id, k)}<td>{@code array<struct<id, score, probability>>}: the
 *     k largest scores, largest first, with their softmax over the whole group
 * </table>
 *
 * <p>Arithmetic is in float64. A row is ignored if an argument of it is NULL, or an element of a
 * vector, as by Spark's {@code vector_avg}. A group without other rows gives NULL. Vectors of a
 * group that differ in dimension are the error VECTOR_DIMENSION_MISMATCH. Otherwise the edge rules
 * are those of {@link dev.foldmax.SoftmaxState}: a score of -inf contributes nothing, and where
 * there is no other, the logsumexp is -inf and the mean 0; a score of NaN or +inf makes the result
 * NaN.
 *
 * <p>The order in which Spark folds rows and merges partial results is not fixed, so the last bits
 * may differ from run to run, as those of {@code sum} over doubles do.
 */
public final class FoldmaxFunctions {
  private static final List<SqlFunction> ALL =
      List.of(
          new SqlFunction(
              "log_sum_exp",
              "_FUNC_(x) - The natural logarithm of the sum of exponentials of x.",
              List.of(1),
              arguments -> NumberAggregate.logSumExp(arguments.get(0))),
          new SqlFunction(
              "softmax_avg",
              "_FUNC_(score, value) - The mean of numbers or of vectors, weighted by the softmax of"
                  + " the scores.",
              List.of(2),
              arguments ->
                  arguments.get(1).dataType() instanceof ArrayType
                      ? new VectorAggregate(VectorAggregate.Score.GIVEN, arguments)
                      : NumberAggregate.softmaxAvg(arguments.get(0), arguments.get(1))),
          new SqlFunction(
              "attend",
              "_FUNC_(query, key, value [, scale]) - Attention: the mean of the values, weighted by"
                  + " the softmax of scale * dot(query, key). The scale is 1 / sqrt(dimension) by"
                  + " default.",
              List.of(3, 4),
              arguments -> new VectorAggregate(VectorAggregate.Score.DOT_PRODUCT, arguments)),
          new SqlFunction(
              "softmax_top_k",
              "_FUNC_(score, id, k) - The k largest scores of a group, largest first, as an array of"
                  + " structs (id, score, probability).",
              List.of(3),
              arguments ->
                  new TopKAggregate(arguments.get(0), arguments.get(1), arguments.get(2))));

  private FoldmaxFunctions() {}

  /** Registers the functions in a session, whose SQL then knows them. */
  public static void register(SparkSession spark) {
    if (!(spark instanceof org.apache.spark.sql.classic.SparkSession session)) {
      throw new UnsupportedOperationException(
          "spark: functions can be registered on the driver alone; on the server of Spark Connect"
              + " set spark.sql.extensions="
              + FoldmaxExtensions.class.getName());
    }
    FunctionRegistry registry = session.sessionState().functionRegistry();
    for (SqlFunction function : ALL) {
      registry.registerFunction(function.temporary(), function.info(), function);
    }
  }

  static List<SqlFunction> all() {
    return ALL;
  }
}
