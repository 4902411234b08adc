package dev.foldmax.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * The session of this JVM's tests: two cores, four attempts for a task, the functions registered.
 */
final class LocalSpark {
  /** How many rows a sorter takes before it must spill. */
  static final int ROWS_BEFORE_SPILL = 500;

  private static final SparkSession SESSION = start();

  private LocalSpark() {}

  private static SparkSession start() {
    Path warehouse;
    try {
      warehouse = Files.createTempDirectory("foldmax-spark");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    warehouse.toFile().deleteOnExit();
    SparkSession spark =
        SparkSession.builder()
            .master("local[2,4]")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.ui.enabled", false)
            .config("spark.sql.shuffle.partitions", 3)
            .config("spark.sql.warehouse.dir", warehouse.toString())
            .config("spark.shuffle.spill.numElementsForceSpillThreshold", ROWS_BEFORE_SPILL)
            .getOrCreate();
    FoldmaxFunctions.register(spark);
    return spark;
  }

  static SparkSession session() {
    return SESSION;
  }

  /** The rows of a query. */
  static List<Row> rows(String sql) {
    return SESSION.sql(sql).collectAsList();
  }

  /** The only row of a query. */
  static Row row(String sql) {
    List<Row> rows = rows(sql);
    if (rows.size() != 1) {
      throw new AssertionError(sql + ": " + rows);
    }
    return rows.getFirst();
  }

  /** The rows of a query that runs under other settings. */
  static List<Row> rowsWith(String sql, String... settings) {
    for (int i = 0; i < settings.length; i += 2) {
      SESSION.conf().set(settings[i], settings[i + 1]);
    }
    try {
      return rows(sql);
    } finally {
      for (int i = 0; i < settings.length; i += 2) {
        SESSION.conf().unset(settings[i]);
      }
    }
  }

  /** The bytes that tasks spilled while something ran. */
  static long spilled(Runnable action) throws Exception {
    AtomicLong bytes = new AtomicLong();
    SparkListener listener =
        new SparkListener() {
          @Override
          public void onTaskEnd(SparkListenerTaskEnd end) {
            bytes.addAndGet(end.taskMetrics().memoryBytesSpilled());
          }
        };
    SESSION.sparkContext().addSparkListener(listener);
    try {
      action.run();
      SESSION.sparkContext().listenerBus().waitUntilEmpty();
    } finally {
      SESSION.sparkContext().removeSparkListener(listener);
    }
    return bytes.get();
  }

  /** A view of a table, by its name. */
  static Dataset<Row> view(String name, Dataset<Row> table) {
    table.createOrReplaceTempView(name);
    return table;
  }
}
