package dev.foldmax.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.SplittableRandom;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Attention over a Parquet table in Spark, against the reference on the same numbers. */
class DatasetAttentionTest {
  private static final int ROWS = 5000;
  private static final int KEY_DIM = 24;
  private static final int VALUE_DIM = 17;
  private static final int QUERIES = 3;

  private static final StructType TABLE =
      new StructType()
          .add("position", DataTypes.LongType)
          .add("k", DataTypes.createArrayType(DataTypes.FloatType))
          .add("v", DataTypes.createArrayType(DataTypes.FloatType));

  @TempDir private static Path folder;
  private static Dataset<Row> table;
  private static Tensor queries;
  private static Tensor output;
  private static Tensor lse;

  @BeforeAll
  static void makeTheTableAndTheAnswer() {
    SplittableRandom random = new SplittableRandom(3);
    float[] q = random(random, QUERIES * KEY_DIM);
    float[] k = random(random, ROWS * KEY_DIM);
    float[] v = random(random, ROWS * VALUE_DIM);
    List<Row> rows = new ArrayList<>();
    for (int i = 0; i < ROWS; i++) {
      long position = i - 1000L; // positions need not begin at 0
      rows.add(RowFactory.create(position, part(k, i, KEY_DIM), part(v, i, VALUE_DIM)));
    }
    String path = folder.resolve("kv").toString();
    LocalSpark.session().createDataFrame(rows, TABLE).repartition(4).write().parquet(path);
    table = LocalSpark.session().read().parquet(path);

    queries = Tensor.of(q, QUERIES, KEY_DIM);
    output = Tensor.allocate(DType.F64, 1, 1, QUERIES, VALUE_DIM);
    lse = Tensor.allocate(DType.F64, 1, 1, QUERIES);
    try (Backend reference = Backend.reference()) {
      reference.attend(
          queries.reshape(1, 1, QUERIES, KEY_DIM),
          KeyValues.dense(Tensor.of(k, 1, 1, ROWS, KEY_DIM), Tensor.of(v, 1, 1, ROWS, VALUE_DIM)),
          Attention.standard(),
          output,
          lse);
    }
  }

  private static float[] random(SplittableRandom random, int n) {
    float[] numbers = new float[n];
    for (int i = 0; i < n; i++) {
      numbers[i] = (float) random.nextDouble(-2, 2);
    }
    return numbers;
  }

  private static List<Float> part(float[] matrix, int row, int dim) {
    List<Float> part = new ArrayList<>();
    for (int i = 0; i < dim; i++) {
      part.add(matrix[row * dim + i]);
    }
    return part;
  }

  private static DatasetAttention over(Dataset<Row> rows) {
    return DatasetAttention.over(rows, "k", "v");
  }

  private static void check(DatasetAttention.Result result) {
    assertThat(result.output().shape()).containsExactly(QUERIES, VALUE_DIM);
    assertThat(result.output().toDoubleArray())
        .usingComparatorWithPrecision(1e-6)
        .containsExactly(output.toDoubleArray());
    assertThat(result.lse().toDoubleArray())
        .usingComparatorWithPrecision(1e-5)
        .containsExactly(lse.toDoubleArray());
  }

  @Test
  void anyNumberOfPartitionsGivesTheAnswer() {
    check(over(table).attend(queries));
    check(over(table.coalesce(1)).attend(queries));
    // Two levels of the tree, and partitions without rows.
    int many = DatasetAttention.FAN_IN + 3;
    check(over(table.repartitionByRange(many, table.col("position"))).attend(queries));
    check(
        over(table.filter("position < 10").union(table.filter("position >= 10"))).attend(queries));
  }

  @Test
  void reproducibleResultsAreTheSameToTheBit() {
    DatasetAttention.Result first = over(table).reproducible("position", 64).attend(queries);
    check(first);

    for (Dataset<Row> rows :
        List.of(table.coalesce(1), table.repartition(5), table.orderBy(table.col("k")))) {
      DatasetAttention.Result again = over(rows).reproducible("position", 64).attend(queries);
      assertThat(again.output().toDoubleArray()).isEqualTo(first.output().toDoubleArray());
      assertThat(again.lse().toDoubleArray()).isEqualTo(first.lse().toDoubleArray());
    }
    check(over(table).reproducible("position", 1_000_000).attend(queries));
  }

  @Test
  void aScaleOfZeroGivesTheMean() {
    DatasetAttention.Result result = over(table).scale(0).attend(queries);

    Row mean = table.selectExpr("vector_avg(v)").head();
    for (int i = 0; i < VALUE_DIM; i++) {
      assertThat(result.output().get(1, i))
          .isCloseTo(mean.<Float>getList(0).get(i).doubleValue(), within(1e-5));
    }
    assertThat(result.lse().get(0)).isCloseTo(Math.log(ROWS), within(1e-6));
  }

  @Test
  void rowsWithNullAreIgnored() {
    Dataset<Row> nulls =
        LocalSpark.session()
            .createDataFrame(
                List.of(
                    RowFactory.create(90_000L, null, part(new float[VALUE_DIM], 0, VALUE_DIM)),
                    RowFactory.create(90_001L, part(new float[KEY_DIM], 0, KEY_DIM), null),
                    RowFactory.create(
                        90_002L,
                        Collections.nCopies(KEY_DIM, (Float) null),
                        part(new float[VALUE_DIM], 0, VALUE_DIM))),
                TABLE);

    check(over(table.union(nulls)).attend(queries));
    check(over(table.union(nulls)).reproducible("position", 512).attend(queries));
    assertThatIllegalArgumentException()
        .isThrownBy(() -> over(nulls).attend(queries))
        .withMessageContaining("no");
    assertThatIllegalArgumentException()
        .isThrownBy(
            () -> over(nulls.filter("false")).reproducible("position", 512).attend(queries));
  }

  @Test
  void wrongArgumentsAreRefused() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> over(table).attend(queries.reshape(QUERIES * KEY_DIM)))
        .withMessageContaining("queries: expected (queries, dim)");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> over(table).reproducible("position", 0))
        .withMessage("cell: must be at least 1, got 0");
    assertThatThrownBy(() -> over(table).attend(Tensor.of(new float[5], 1, 5)))
        .hasStackTraceContaining("VECTOR_DIMENSION_MISMATCH");
    assertThatThrownBy(() -> over(table.union(table)).reproducible("position", 512).attend(queries))
        .hasStackTraceContaining("position: expected different ones");
  }
}
