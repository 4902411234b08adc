package dev.foldmax.spark;

import static dev.foldmax.spark.LocalSpark.row;
import static dev.foldmax.spark.LocalSpark.rows;
import static dev.foldmax.spark.LocalSpark.rowsWith;
import static dev.foldmax.spark.LocalSpark.view;
import static org.apache.spark.sql.functions.call_function;
import static org.apache.spark.sql.functions.col;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.SoftmaxState;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The SQL functions over tables in several partitions, against the same computed here. */
class FoldmaxFunctionsTest {
  private static final int DIM = 5;
  private static final int GROUPS = 300; // more than fit in a map of objects: see below

  private static final String OBJECT_GROUPS =
      "spark.sql.objectHashAggregate.sortBased.fallbackThreshold";
  private static final String NUMBER_ROWS = "spark.sql.TungstenAggregate.testFallbackStartsAt";

  private static final StructType TABLE =
      new StructType()
          .add("g", DataTypes.IntegerType)
          .add("id", DataTypes.LongType)
          .add("score", DataTypes.DoubleType)
          .add("x", DataTypes.DoubleType)
          .add("v", DataTypes.createArrayType(DataTypes.FloatType))
          .add("k", DataTypes.createArrayType(DataTypes.FloatType));

  /** What a group comes to: (score, x), (score, v) and (query . k, v). */
  private record Expected(SoftmaxState number, SoftmaxState vector, SoftmaxState attention) {
    Expected() {
      this(new SoftmaxState(1), new SoftmaxState(DIM), new SoftmaxState(DIM));
    }
  }

  private static final Map<Integer, Expected> EXPECTED = new HashMap<>();

  /** 8000 rows, half of them in group 0, in 7 partitions. */
  @BeforeAll
  static void makeTheTable() {
    SplittableRandom random = new SplittableRandom(1);
    List<Row> rows = new ArrayList<>();
    for (long id = 0; id < 8000; id++) {
      int group = id % 2 == 0 ? 0 : random.nextInt(1, GROUPS);
      double score = random.nextDouble(-30, 30);
      double x = random.nextDouble(-1, 1);
      double[] v = random.doubles(DIM, -1, 1).map(e -> (float) e).toArray();
      double[] k = random.doubles(DIM, -1, 1).map(e -> (float) e).toArray();
      rows.add(RowFactory.create(group, id, score, x, floats(v), floats(k)));

      Expected expected = EXPECTED.computeIfAbsent(group, _ -> new Expected());
      expected.number.add(score, new double[] {x});
      expected.vector.add(score, v);
      double dot = 0;
      for (int i = 0; i < DIM; i++) {
        dot += (i + 1) * k[i];
      }
      expected.attention.add(dot / Math.sqrt(DIM), v);
    }
    view("t", LocalSpark.session().createDataFrame(rows, TABLE).repartition(7));
  }

  private static Float[] floats(double[] vector) {
    Float[] floats = new Float[vector.length];
    for (int i = 0; i < vector.length; i++) {
      floats[i] = (float) vector[i];
    }
    return floats;
  }

  private static final String ALL =
      """
      SELECT g, log_sum_exp(score), softmax_avg(score, x), softmax_avg(score, v),
        attend(array(1F, 2F, 3F, 4F, 5F), k, v)
      FROM t GROUP BY g
      """;

  private static void check(List<Row> rows) {
    assertThat(rows).hasSize(GROUPS);
    for (Row row : rows) {
      Expected expected = EXPECTED.get(row.getInt(0));
      assertThat(row.getDouble(1)).isCloseTo(expected.number.logSumExp(), within(1e-12));
      assertThat(row.getDouble(2)).isCloseTo(expected.number.output()[0], within(1e-12));
      check(row.getList(3), expected.vector.output());
      check(row.getList(4), expected.attention.output());
    }
  }

  private static void check(List<Float> actual, double[] expected) {
    assertThat(actual).hasSize(expected.length);
    for (int i = 0; i < expected.length; i++) {
      assertThat(actual.get(i)).isCloseTo((float) expected[i], within(1e-7F));
    }
  }

  @Test
  void groupsAndSkewedGroups() {
    check(rows(ALL));
  }

  /** Each in its own plan: together, the numbers are objects as the vectors are. */
  @Test
  void numbersAreFoldedByGeneratedCode() {
    String sql = "SELECT g, log_sum_exp(score), softmax_avg(score, x) FROM t GROUP BY g";
    assertThat(LocalSpark.session().sql(sql).queryExecution().executedPlan().toString())
        .contains("HashAggregate")
        .doesNotContain("ObjectHashAggregate");
    for (Row row : rows(sql)) {
      Expected expected = EXPECTED.get(row.getInt(0));
      assertThat(row.getDouble(1)).isCloseTo(expected.number.logSumExp(), within(1e-12));
      assertThat(row.getDouble(2)).isCloseTo(expected.number.output()[0], within(1e-12));
    }
  }

  @Test
  void moreGroupsThanAMapOfObjectsTakesAndSpilledSorters() throws Exception {
    assertThat(GROUPS).isGreaterThan(128); // the threshold's default
    long spilled = LocalSpark.spilled(() -> check(rowsWith(ALL, OBJECT_GROUPS, "10")));

    assertThat(spilled).isPositive();
  }

  @Test
  void numbersInMoreGroupsThanTheMapOfRowsTakes() {
    for (Row row :
        rowsWith("SELECT g, log_sum_exp(score) FROM t GROUP BY g", NUMBER_ROWS, "5,10")) {
      assertThat(row.getDouble(1))
          .isCloseTo(EXPECTED.get(row.getInt(0)).number.logSumExp(), within(1e-12));
    }
  }

  @Test
  void withoutGeneratedCode() {
    check(
        rowsWith(
            ALL,
            "spark.sql.codegen.wholeStage",
            "false",
            "spark.sql.codegen.factoryMode",
            "NO_CODEGEN"));
    Row numbers =
        rowsWith(
                "SELECT log_sum_exp(score), softmax_avg(score, x) FROM t WHERE g = 0",
                "spark.sql.codegen.wholeStage",
                "false",
                "spark.sql.codegen.factoryMode",
                "NO_CODEGEN")
            .getFirst();
    assertThat(numbers.getDouble(0)).isCloseTo(EXPECTED.get(0).number.logSumExp(), within(1e-12));
  }

  @Test
  void sortedAggregates() {
    check(rowsWith(ALL, "spark.sql.execution.useObjectHashAggregateExec", "false"));
  }

  @Test
  void aTaskThatFailsIsRetried() {
    LocalSpark.session()
        .udf()
        .register(
            "fails_once",
            (Double x) -> {
              TaskContext task = TaskContext.get();
              if (task.attemptNumber() == 0 && task.partitionId() == 1) {
                throw new IllegalStateException("the first attempt");
              }
              return x;
            },
            DataTypes.DoubleType);

    Row row =
        row("SELECT log_sum_exp(fails_once(score)), softmax_avg(score, v) FROM t WHERE g = 0");

    assertThat(row.getDouble(0)).isCloseTo(EXPECTED.get(0).number.logSumExp(), within(1e-12));
    check(row.getList(1), EXPECTED.get(0).vector.output());
  }

  @Test
  void theLargestWithTheirProbabilities() {
    List<Row> top = row("SELECT softmax_top_k(score, id, 3) FROM t WHERE g = 0").getList(0);
    List<Row> sorted = rows("SELECT id, score FROM t WHERE g = 0 ORDER BY score DESC, id LIMIT 3");

    assertThat(top).hasSize(3);
    SoftmaxState all = EXPECTED.get(0).number;
    for (int i = 0; i < 3; i++) {
      assertThat(top.get(i).getLong(0)).isEqualTo(sorted.get(i).getLong(0));
      double score = sorted.get(i).getDouble(1);
      assertThat(top.get(i).getDouble(1)).isEqualTo(score);
      assertThat(top.get(i).getDouble(2))
          .isCloseTo(Math.exp(score - all.logSumExp()), within(1e-14));
    }
    // Ids of any type that has an order, spilled and merged.
    assertThat(
            rowsWith(
                "SELECT g, softmax_top_k(score, struct(cast(id AS string), id), 2) FROM t GROUP BY g",
                OBJECT_GROUPS,
                "10"))
        .hasSize(GROUPS)
        .allSatisfy(
            row -> {
              List<Row> two = row.getList(1);
              assertThat(two.getFirst().getDouble(1)).isGreaterThan(two.getLast().getDouble(1));
              Row id = two.getFirst().getStruct(0);
              assertThat(id.getString(0)).isEqualTo(Long.toString(id.getLong(1)));
            });
  }

  @Test
  void asWindowsAndFilters() {
    List<Row> running =
        rows(
            """
            SELECT x, log_sum_exp(ln(x)) OVER (ORDER BY x), softmax_avg(0, array(x)) OVER (ORDER BY x)
            FROM VALUES (1D), (2D), (3D) AS t(x)
            """);
    assertThat(running.getLast().getDouble(1)).isCloseTo(Math.log(6), within(1e-14));
    assertThat(running.get(1).getList(2)).isEqualTo(List.of(1.5));

    Row filtered =
        row(
            "SELECT log_sum_exp(x) FILTER (WHERE x < 2), log_sum_exp(DISTINCT x) FROM VALUES (1D), (1D), (2D) AS t(x)");
    assertThat(filtered.getDouble(0)).isCloseTo(1 + Math.log(2), within(1e-15));
    assertThat(filtered.getDouble(1)).isCloseTo(Math.log(Math.exp(1) + Math.exp(2)), within(1e-14));
  }

  @Test
  void fromJava() {
    Row row =
        LocalSpark.session()
            .table("t")
            .filter(col("g").equalTo(0))
            .agg(call_function("log_sum_exp", col("score")))
            .head();
    assertThat(row.getDouble(0)).isCloseTo(EXPECTED.get(0).number.logSumExp(), within(1e-12));
  }

  /** A table of one group: the type and the rows as SQL has them. */
  private static Row over(String rows) {
    return row(
        "SELECT log_sum_exp(s), softmax_avg(s, x), softmax_avg(s, v), softmax_top_k(s, x, 2),"
            + " attend(array(s), array(1D), v) FROM VALUES "
            + rows
            + " AS t(s, x, v)");
  }

  @Test
  void oneRow() {
    Row row = over("(2D, 7D, array(3F, NULL)), (2D, 7D, array(3F, 4F))");

    assertThat(row.getDouble(0)).isCloseTo(2 + Math.log(2), within(1e-15));
    assertThat(row.getDouble(1)).isEqualTo(7);
    assertThat(row.getList(2)).isEqualTo(List.of(3F, 4F));
    assertThat(row.getList(4)).isEqualTo(List.of(3F, 4F));
  }

  @ParameterizedTest
  @ValueSource(strings = {"WHERE false", "WHERE s IS NULL", "WHERE v IS NULL OR v[1] IS NULL"})
  void groupsWithoutARowThatCountsAreNullAsThoseOfVectorAvg(String where) {
    String table =
        " FROM VALUES (1D, array(1F, NULL)), (1D, NULL), (NULL, array(1F, 2F)) AS t(s, v) " + where;
    Row row =
        row(
            "SELECT softmax_avg(s, v), attend(v, v, array(s, s)), softmax_top_k(s, v, 1), vector_avg(if(s IS NULL, NULL, v))"
                + table);
    for (int i : where.contains("v[1]") ? new int[] {0, 1, 3} : new int[] {0, 1, 2, 3}) {
      assertThat(row.isNullAt(i)).as("column " + i).isTrue();
    }
    Row numbers =
        row(
            "SELECT log_sum_exp(s), softmax_avg(s, 1), softmax_avg(1, s) FROM VALUES (CAST(NULL AS double)), (NULL) AS t(s)");
    for (int i = 0; i < 3; i++) {
      assertThat(numbers.isNullAt(i)).as("column " + i).isTrue();
    }
  }

  @Test
  void rowsOfWhichAnythingIsNullAreIgnored() {
    Row row =
        over(
            """
            (1D, 5D, array(1F, 2F)), (NULL, 6D, array(3F, 4F)), (9D, NULL, array(1F, 2F)),
            (1D, 5D, array(1F, 2F)), (NULL, NULL, NULL)
            """);

    assertThat(row.getDouble(1)).isEqualTo(5);
    assertThat(row.getList(2)).isEqualTo(List.of(1F, 2F));
    assertThat(row.getList(3)).hasSize(2);
  }

  @Test
  void scoresOfMinusInfinityContributeNothing() {
    Row masked =
        over(
            "(double('-inf'), 5D, array(float('NaN'), 2F)), (double('-inf'), double('NaN'), array(1F, 2F))");
    assertThat(masked.getDouble(0)).isEqualTo(Double.NEGATIVE_INFINITY);
    assertThat(masked.getDouble(1)).isZero();
    assertThat(masked.getList(2)).isEqualTo(List.of(0F, 0F));
    List<Row> top = masked.getList(3);
    assertThat(top).hasSize(2).allSatisfy(entry -> assertThat(entry.getDouble(2)).isZero());

    Row one =
        over("(double('-inf'), double('NaN'), array(float('NaN'), 2F)), (1D, 3D, array(1F, 2F))");
    assertThat(one.getDouble(0)).isEqualTo(1);
    assertThat(one.getDouble(1)).isEqualTo(3);
    assertThat(one.getList(2)).isEqualTo(List.of(1F, 2F));
  }

  @ParameterizedTest
  @ValueSource(strings = {"NaN", "inf"})
  void scoresOfNanAndInfinityMakeNan(String score) {
    Row row = over("(double('" + score + "'), 5D, array(1F)), (1D, 3D, array(2F))");

    assertThat(row.getDouble(0)).isNaN();
    assertThat(row.getDouble(1)).isNaN();
    assertThat(row.getList(2)).isEqualTo(List.of(Float.NaN));
    List<Row> top = row.getList(3);
    assertThat(top.getFirst().getDouble(0)).isEqualTo(5);
    assertThat(top).allSatisfy(entry -> assertThat(entry.getDouble(2)).isNaN());
  }

  @Test
  void dimensionsThatDifferAreTheErrorOfVectorAvg() {
    String table = " FROM VALUES (array(1F, 2F)), (array(1F)) AS t(v)";
    assertThatThrownBy(() -> rows("SELECT vector_avg(v)" + table))
        .hasStackTraceContaining("VECTOR_DIMENSION_MISMATCH");
    assertThatThrownBy(() -> rows("SELECT softmax_avg(1, v)" + table))
        .hasStackTraceContaining("VECTOR_DIMENSION_MISMATCH")
        .hasStackTraceContaining("softmax_avg");
    assertThatThrownBy(() -> rows("SELECT attend(v, array(1F, 2F), v)" + table))
        .hasStackTraceContaining("VECTOR_DIMENSION_MISMATCH")
        .hasStackTraceContaining("attend");
  }

  @Test
  void emptyVectorsGiveAnEmptyVector() {
    Row row =
        row(
            "SELECT softmax_avg(1, v), vector_avg(v), attend(v, v, array(1F)) FROM VALUES (CAST(array() AS array<float>)) AS t(v)");

    assertThat(row.getList(0)).isEmpty();
    assertThat(row.getList(1)).isEmpty();
    assertThat(row.getList(2)).isEqualTo(List.of(1F));
  }

  @Test
  void typesOfResults() {
    StructType types =
        LocalSpark.session()
            .sql(
                """
                SELECT log_sum_exp(1), softmax_avg(1.5, 2), softmax_avg(1, array(1F)),
                  softmax_avg(1L, array(1D)), softmax_avg(1, array(1.5)), attend(array(1F), array(1D), array(1F), 2),
                  softmax_top_k(1, 'a', 1)
                """)
            .schema();

    assertThat(types.fields())
        .extracting(field -> field.dataType().sql())
        .containsExactly(
            "DOUBLE",
            "DOUBLE",
            "ARRAY<FLOAT>",
            "ARRAY<DOUBLE>",
            "ARRAY<DOUBLE>",
            "ARRAY<FLOAT>",
            "ARRAY<STRUCT<id: STRING NOT NULL, score: DOUBLE NOT NULL, probability: DOUBLE NOT NULL>>");
    assertThat(types.fieldNames()[5]).isEqualTo("attend(array(1.0), array(1.0), array(1.0), 2)");
  }

  @Test
  void scalesOfAttention() {
    String query =
        "SELECT attend(array(2F), k, v, %s) FROM VALUES (array(0F), array(0F)), (array(1F), array(1F)) AS t(k, v)";

    assertThat(row(query.formatted("0")).getList(0)).isEqualTo(List.of(0.5F));
    double weight = 1 / (1 + Math.exp(-2 * 0.25));
    assertThat(row(query.formatted("0.25")).getList(0)).isEqualTo(List.of((float) weight));
    assertThat(row(query.formatted("NULL")).isNullAt(0)).isTrue();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "log_sum_exp('a', 1)",
        "softmax_avg(1)",
        "attend(array(1F), array(1F))",
        "log_sum_exp(array(1F))",
        "softmax_avg(1, array('a'))",
        "softmax_top_k(1, 2, 0)",
        "softmax_top_k(1, 2, NULL)",
        "softmax_top_k(1, map('a', 1), 1)",
        "softmax_top_k(1, 2, id)"
      })
  void wrongArgumentsAreErrorsOfTheQuery(String call) {
    assertThatThrownBy(() -> LocalSpark.session().sql("SELECT " + call + " FROM t").schema())
        .isInstanceOf(org.apache.spark.sql.AnalysisException.class)
        .hasMessageMatching("(?s)\\[(WRONG_NUM_ARGS|DATATYPE_MISMATCH)\\..*");
  }

  @Test
  void theyAreDescribed() {
    assertThat(rows("DESCRIBE FUNCTION attend").toString()).contains("query, key, value");
  }

  @Test
  void typedDatasetsFeedThemToo() {
    double lse =
        LocalSpark.session()
            .range(4)
            .map((MapFunction<Long, Double>) i -> Math.log((double) i + 1), Encoders.DOUBLE())
            .toDF("x")
            .agg(call_function("log_sum_exp", col("x")))
            .head()
            .getDouble(0);

    assertThat(lse).isCloseTo(Math.log(10), within(1e-15));
  }
}
