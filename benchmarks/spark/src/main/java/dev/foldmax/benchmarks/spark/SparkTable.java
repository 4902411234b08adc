package dev.foldmax.benchmarks.spark;

import static org.apache.spark.sql.functions.udaf;

import dev.foldmax.Tensor;
import dev.foldmax.spark.DatasetAttention;
import dev.foldmax.spark.FoldmaxFunctions;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * Times queries over Parquet tables in one JVM, in turns, and prints a table of them in Markdown:
 * Foldmax's aggregates, Spark's own over the same columns as the floor, the two passes that plain
 * SQL needs, and an Aggregator of the public API.
 */
public final class SparkTable {
  private static final int NUMBERS = 8_000_000;
  private static final int VECTORS = 200_000;
  private static final int DIM = 128;
  private static final int GROUPS = 1000;
  private static final int QUERIES = 64;

  /** Some queries over one table, the first of which is the floor. */
  private record Contest(String title, int rows, List<Contender> contenders) {}

  private record Contender(String name, Runnable work) {}

  private final SparkSession spark;

  private SparkTable(SparkSession spark) {
    this.spark = spark;
  }

  /**
   * Measures and prints.
   *
   * @param args rounds that count (15 by default), rounds before them (8), and which table is
   *     wanted, from 0 (all)
   */
  public static void main(String[] args) throws Exception {
    int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 15;
    int warmUp = args.length > 1 ? Integer.parseInt(args[1]) : 8;
    Path folder = Files.createTempDirectory("foldmax-spark-benchmark");
    SparkSession spark =
        SparkSession.builder()
            .master("local[1]")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.ui.enabled", false)
            .config("spark.sql.shuffle.partitions", 2)
            .config("spark.sql.warehouse.dir", folder.resolve("warehouse").toString())
            .getOrCreate();
    spark.sparkContext().setLogLevel("ERROR");
    try {
      SparkTable table = new SparkTable(spark);
      table.makeTables(folder);
      table.check();
      List<Contest> contests = table.contests();
      if (args.length > 2) {
        contests = List.of(contests.get(Integer.parseInt(args[2])));
      }
      for (Contest contest : contests) {
        print(contest, warmUp, rounds, System.out);
      }
    } finally {
      spark.stop();
      delete(folder);
    }
  }

  private void makeTables(Path folder) {
    String numbers = folder.resolve("numbers").toString();
    spark
        .range(0, NUMBERS, 1, 2)
        .selectExpr("cast(pmod(hash(id), " + GROUPS + ") AS int) AS g", "3 * randn(7) AS x")
        .write()
        .parquet(numbers);
    spark.read().parquet(numbers).createOrReplaceTempView("numbers");
    String vectors = folder.resolve("vectors").toString();
    String series = "transform(sequence(1, " + DIM + "), i -> cast(%s(id * i) AS float)) AS %s";
    spark
        .range(0, VECTORS, 1, 2)
        .selectExpr(
            "cast(pmod(hash(id), " + GROUPS + ") AS int) AS g",
            "3 * randn(7) AS x",
            series.formatted("sin", "k"),
            series.formatted("cos", "v"))
        .write()
        .parquet(vectors);
    spark.read().parquet(vectors).createOrReplaceTempView("vectors");
    FoldmaxFunctions.register(spark);
    spark.udf().register("aggregator", udaf(new LogSumExpAggregator(), Encoders.DOUBLE()));
  }

  /** That what is timed is one and the same number. */
  private void check() {
    Row row =
        spark.sql("SELECT log_sum_exp(x), aggregator(x), ln(sum(exp(x))) FROM numbers").head();
    for (int i = 1; i < 3; i++) {
      if (!(Math.abs(row.getDouble(0) - row.getDouble(i)) < 1e-9)) {
        throw new IllegalStateException("different results: " + row);
      }
    }
  }

  private List<Contest> contests() {
    String twoPasses =
        "SELECT max(m) + ln(sum(exp(x - m))) FROM numbers CROSS JOIN (SELECT max(x) AS m FROM numbers)";
    String groupedTwoPasses =
        "SELECT n.g, max(m) + ln(sum(exp(x - m))) FROM numbers n"
            + " JOIN (SELECT g, max(x) AS m FROM numbers GROUP BY g) s ON n.g = s.g GROUP BY n.g";
    String window =
        "SELECT g, max(m) + ln(sum(exp(x - m))) FROM"
            + " (SELECT g, x, max(x) OVER (PARTITION BY g) AS m FROM numbers) GROUP BY g";
    return List.of(
        new Contest(
            "one group of " + NUMBERS + " numbers",
            NUMBERS,
            List.of(
                sql("`avg(x)`", "SELECT avg(x) FROM numbers"),
                sql("`log_sum_exp(x)`", "SELECT log_sum_exp(x) FROM numbers"),
                sql("`softmax_avg(x, x)`", "SELECT softmax_avg(x, x) FROM numbers"),
                sql("two passes, by a join", twoPasses),
                sql("an Aggregator of the public API", "SELECT aggregator(x) FROM numbers"))),
        new Contest(
            GROUPS + " groups of " + NUMBERS + " numbers",
            NUMBERS,
            List.of(
                sql("`avg(x)`", "SELECT g, avg(x) FROM numbers GROUP BY g"),
                sql("`log_sum_exp(x)`", "SELECT g, log_sum_exp(x) FROM numbers GROUP BY g"),
                sql("`softmax_avg(x, x)`", "SELECT g, softmax_avg(x, x) FROM numbers GROUP BY g"),
                sql("two passes, by a join", groupedTwoPasses),
                sql("two passes, by a window", window),
                sql(
                    "an Aggregator of the public API",
                    "SELECT g, aggregator(x) FROM numbers GROUP BY g"))),
        new Contest(
            "one group of " + VECTORS + " vectors of " + DIM,
            VECTORS,
            List.of(
                sql("`vector_avg(v)`", "SELECT vector_avg(v) FROM vectors"),
                sql("`softmax_avg(x, v)`", "SELECT softmax_avg(x, v) FROM vectors"),
                sql("`attend(k, k, v)`", "SELECT attend(k, k, v) FROM vectors"),
                sql(
                    "both columns: `vector_avg(k), vector_avg(v)`",
                    "SELECT vector_avg(k), vector_avg(v) FROM vectors"),
                new Contender("DatasetAttention, " + QUERIES + " queries", this::attend))),
        new Contest(
            GROUPS + " groups of " + VECTORS + " vectors of " + DIM,
            VECTORS,
            List.of(
                sql("`vector_avg(v)`", "SELECT g, vector_avg(v) FROM vectors GROUP BY g"),
                sql("`softmax_avg(x, v)`", "SELECT g, softmax_avg(x, v) FROM vectors GROUP BY g"),
                sql("`attend(k, k, v)`", "SELECT g, attend(k, k, v) FROM vectors GROUP BY g"))));
  }

  private Contender sql(String name, String sql) {
    return new Contender(name, () -> spark.sql(sql).collectAsList());
  }

  private void attend() {
    float[] q = new float[QUERIES * DIM];
    SplittableRandom random = new SplittableRandom(1);
    for (int i = 0; i < q.length; i++) {
      q[i] = (float) random.nextDouble(-1, 1);
    }
    DatasetAttention.over(spark.table("vectors"), "k", "v").attend(Tensor.of(q, QUERIES, DIM));
  }

  private static void print(Contest contest, int warmUp, int rounds, PrintStream out) {
    List<List<Double>> seconds = new ArrayList<>();
    contest.contenders.forEach(_ -> seconds.add(new ArrayList<>()));
    for (int round = -warmUp; round < rounds; round++) {
      for (int i = 0; i < seconds.size(); i++) {
        long start = System.nanoTime();
        contest.contenders.get(i).work.run();
        if (round >= 0) {
          seconds.get(i).add((System.nanoTime() - start) * 1e-9);
        }
      }
    }
    out.printf("%n| %s | ms | ns a row | times the first line | its quartiles |%n", contest.title);
    out.println("|---|---:|---:|---:|---:|");
    for (int i = 0; i < seconds.size(); i++) {
      List<Double> ratios = new ArrayList<>();
      for (int round = 0; round < rounds; round++) {
        ratios.add(seconds.get(i).get(round) / seconds.getFirst().get(round));
      }
      double median = quantile(seconds.get(i), 0.5);
      out.printf(
          "| %s | %.0f | %.1f | %.2f | %.2f to %.2f |%n",
          contest.contenders.get(i).name,
          median * 1e3,
          median / contest.rows * 1e9,
          quantile(ratios, 0.5),
          quantile(ratios, 0.25),
          quantile(ratios, 0.75));
    }
  }

  private static double quantile(List<Double> numbers, double part) {
    return numbers.stream().sorted().toList().get((int) Math.round(part * (numbers.size() - 1)));
  }

  private static void delete(Path folder) throws java.io.IOException {
    try (Stream<Path> paths = Files.walk(folder)) {
      for (Path path : paths.toList().reversed()) {
        Files.delete(path);
      }
    }
  }
}
