package dev.foldmax.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.execution.HiveResult;
import org.junit.jupiter.api.Test;
import scala.jdk.javaapi.CollectionConverters;

/** The SQL of README.md, and what the page says that it prints. */
class SparkReadmeTest {
  private static final String PROMPT = "    spark-sql> ";
  private static final String CONTINUED = "             > ";

  @Test
  void theSessionPrintsWhatThePageShows() throws Exception {
    List<String> lines = Files.readAllLines(Path.of("README.md"));
    int statements = 0;
    for (int i = 0; i < lines.size(); i++) {
      if (!lines.get(i).startsWith(PROMPT)) {
        continue;
      }
      StringBuilder sql = new StringBuilder(lines.get(i).substring(PROMPT.length()));
      while (lines.get(i + 1).startsWith(CONTINUED)) {
        i++;
        sql.append('\n').append(lines.get(i).substring(CONTINUED.length()));
      }
      List<String> shown = new ArrayList<>();
      while (lines.get(i + 1).startsWith("    ")) {
        i++;
        shown.add(lines.get(i).strip());
      }
      assertThat(sql.charAt(sql.length() - 1)).isEqualTo(';');
      assertThat(printed(sql.substring(0, sql.length() - 1))).isEqualTo(shown);
      statements++;
    }
    assertThat(statements).isEqualTo(3);
  }

  /** As spark-sql prints it. */
  private static List<String> printed(String sql) {
    Dataset<Row> result = LocalSpark.session().sql(sql);
    return CollectionConverters.asJava(
        HiveResult.hiveResultString(result.queryExecution().executedPlan()));
  }

  @Test
  void theRetrievalQueryRuns() throws Exception {
    LocalSpark.session()
        .sql(
            "SELECT id AS query_id, transform(sequence(1, 384), i -> float(sin(id * i))) AS embedding FROM range(3)")
        .createOrReplaceTempView("queries");
    LocalSpark.session()
        .sql(
            "SELECT id AS passage_id, transform(sequence(1, 384), i -> float(cos(id * i))) AS embedding FROM range(50)")
        .createOrReplaceTempView("passages");
    String page = Files.readString(Path.of("README.md"));
    int begin = page.indexOf("    SELECT q.query_id");
    String sql = page.substring(begin, page.indexOf("\n\n", begin));

    List<Row> rows = LocalSpark.rows(sql);

    assertThat(rows).hasSize(3);
    assertThat(rows.getFirst().getList(1)).hasSize(384);
    assertThat(rows.getFirst().getList(2)).hasSize(5);
  }
}
