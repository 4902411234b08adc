package dev.foldmax.spark;

import dev.foldmax.Tensor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;

/**
 * What {@link ClusterTest} submits to a cluster: the functions and attention over a Dataset on
 * workers that know no Foldmax but by the jars of the submission.
 */
public final class ClusterProgram {
  static final int ROWS = 6000;

  private ClusterProgram() {}

  /** Keys, values and scores of some rows, the same wherever they are computed. */
  static final String TABLE =
      "SELECT id, sin(id) * 20 AS score, array(float(sin(id)), float(cos(id))) AS k,"
          + " array(float(id % 10), float(1)) AS v FROM range(0, "
          + ROWS
          + ", 1, 6)";

  /** What is asked of that table. */
  static final String QUERY =
      "SELECT log_sum_exp(score), softmax_avg(score, id), softmax_avg(score, v),"
          + " attend(array(1F, 2F), k, v), softmax_top_k(score, id, 2) FROM t";

  /**
   * Writes, a line each, the executors that took part, the row that answers the query, and the
   * attention; and ends one executor in between.
   *
   * @param args the file to write
   */
  public static void main(String[] args) throws Exception {
    SparkSession spark = SparkSession.builder().getOrCreate();
    String lost = args[0] + ".lost"; // a Path is not serializable
    List<String> executors =
        spark
            .range(0, 100, 1, 20)
            .mapPartitions(
                (MapPartitionsFunction<Long, String>)
                    _ -> {
                      Thread.sleep(200); // so that one executor does not take all
                      return List.of(SparkEnv.get().executorId()).iterator();
                    },
                Encoders.STRING())
            .distinct()
            .collectAsList();
    spark
        .udf()
        .register(
            "halts_once",
            (Double x) -> {
              // The file tells the second attempt, on another executor, from the first.
              if (TaskContext.get().partitionId() == 3 && Files.notExists(Path.of(lost))) {
                Files.createFile(Path.of(lost));
                Runtime.getRuntime().halt(1);
              }
              return x;
            },
            DataTypes.DoubleType);
    spark.sql(TABLE).createOrReplaceTempView("t");
    List<String> lines = new ArrayList<>();
    lines.add(Integer.toString(executors.size()));
    lines.add(
        spark
            .sql(QUERY.replace("log_sum_exp(score)", "log_sum_exp(halts_once(score))"))
            .head()
            .json());
    DatasetAttention.Result result =
        DatasetAttention.over(spark.table("t"), "k", "v")
            .reproducible("id", 256)
            .attend(Tensor.of(new float[] {1, 2, -1, 0}, 2, 2));
    lines.add(Arrays.toString(result.output().toDoubleArray()));
    lines.add(Arrays.toString(result.lse().toDoubleArray()));
    Files.write(Path.of(args[0]), lines);
    spark.stop();
  }
}
