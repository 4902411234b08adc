package dev.foldmax.spark;

import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.max;
import static org.apache.spark.sql.functions.min;
import static org.apache.spark.sql.functions.pmod;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.SoftmaxState;
import dev.foldmax.Tensor;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.stream.StreamSupport;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.jspecify.annotations.Nullable;
import scala.Tuple2;

/**
 * Attention of a batch of queries over keys and values that are the rows of a {@link Dataset}, one
 * key with its value a row.
 *
 * <p>The queries are broadcast. Each partition folds its rows with the CPU kernel, on the one
 * thread of its task and in bounded memory, and gives one partial result: a {@link SoftmaxState}
 * for each query. Partial results merge in a tree, {@value #FAN_IN} at a time and always in the
 * same order, and the last ones on the driver. Keys are not shuffled.
 *
 * <pre>{@code
 * Tensor queries = Tensor.of(q, 64, 128); // (queries, Dqk)
 * DatasetAttention.Result result =
 *     DatasetAttention.over(spark.read().parquet("passages"), "key", "value").attend(queries);
 * }</pre>
 *
 * <p>Arithmetic is that of the CPU backend in float32; partial results merge in float64. Results
 * differ between ways to partition the same rows as sums in another order do. {@link #reproducible}
 * makes them the same to the bit, for a shuffle.
 *
 * <p>Rows are ignored and dimensions checked as by {@link FoldmaxFunctions}: a row counts if
 * neither vector, nor an element of one, is NULL. A key that a query is not to see is left out by
 * {@link Dataset#filter}. Immutable.
 *
 * <p>Executors need the module {@code jdk.incubator.vector}, which Spark's launchers add by
 * themselves.
 */
public final class DatasetAttention {
  /** How many partial results merge into one in a step of the tree. */
  static final int FAN_IN = 32;

  private static final int MAX_TASKS = 1000; // of a step
  private static final String POSITION = "foldmax_position";

  private final Dataset<Row> rows;
  private final String key;
  private final String value;
  private final @Nullable Double scale;
  private final @Nullable Cells cells;

  /** Which rows make a cell, the unit that one task folds in a fixed order. */
  private record Cells(String position, long rows) {}

  private DatasetAttention(
      Dataset<Row> rows, String key, String value, @Nullable Double scale, @Nullable Cells cells) {
    this.rows = rows;
    this.key = key;
    this.value = value;
    this.scale = scale;
    this.cells = cells;
  }

  /**
   * Attention over the rows of a table, with the scale {@code 1 / sqrt(Dqk)}.
   *
   * @param key the column of keys, {@code array<float>}; other numbers are cast
   * @param value the column of values, likewise
   */
  public static DatasetAttention over(Dataset<Row> rows, String key, String value) {
    return new DatasetAttention(rows, key, value, null, null);
  }

  /** The same with another scale of the scores. */
  public DatasetAttention scale(double factor) {
    return new DatasetAttention(rows, key, value, factor, cells);
  }

  /**
   * The same with results that do not depend on how the rows are partitioned or in which order they
   * lie: the same bits for the same rows, queries and cell, on machines of the same vector width.
   * Rows are shuffled so that each cell of positions lies in one partition, and sorted.
   *
   * @param position a column of whole numbers, different ones in all rows; rows where it is NULL
   *     are ignored
   * @param cell how many consecutive positions make a cell, at least 1: large enough that a partial
   *     result for each cell is little, small enough that there are more cells than tasks; 2^16 to
   *     2^20 is usual
   */
  public DatasetAttention reproducible(String position, long cell) {
    if (cell < 1) {
      throw new IllegalArgumentException("cell: must be at least 1, got " + cell);
    }
    return new DatasetAttention(rows, key, value, scale, new Cells(position, cell));
  }

  /**
   * The result of a batch of queries.
   *
   * @param output F64, (queries, Dv)
   * @param lse F64, (queries): the natural logarithm of each query's sum of exponentials
   */
  public record Result(Tensor output, Tensor lse) {}

  /**
   * Runs the attention; an action of Spark.
   *
   * @param queries on the host, floating, (queries, Dqk), at least one
   * @throws IllegalArgumentException if no row counts: what dimension the values have is not known
   */
  public Result attend(Tensor queries) {
    if (queries.rank() != 2 || queries.shape(0) == 0) {
      throw new IllegalArgumentException(
          "queries: expected (queries, dim) with at least one query, got " + queries);
    }
    int count = Math.toIntExact(queries.shape(0));
    int keyDim = Math.toIntExact(queries.shape(1));
    Dataset<Row> table = rows.select(vector(key), vector(value), position());
    long partials = 0; // an upper bound
    if (cells != null) {
      table = table.filter(col(POSITION).isNotNull());
      Row range = table.agg(min(POSITION), max(POSITION)).head();
      if (!range.isNullAt(0)) {
        partials =
            Math.floorDiv(range.getLong(1), cells.rows)
                - Math.floorDiv(range.getLong(0), cells.rows)
                + 1;
      }
      Column cell = col(POSITION).minus(pmod(col(POSITION), lit(cells.rows)));
      table = table.repartition(cell).sortWithinPartitions(POSITION);
    }
    JavaRDD<InternalRow> input = table.queryExecution().toRdd().toJavaRDD();
    if (cells == null) {
      partials = input.getNumPartitions();
    }
    Broadcast<float[]> broadcast =
        JavaSparkContext.fromSparkContext(rows.sparkSession().sparkContext())
            .broadcast(queries.toFloatArray());
    try {
      double factor = scale != null ? scale : Attention.standard().scaleFor(keyDim);
      PartitionFold fold =
          new PartitionFold(broadcast, count, keyDim, factor, cells == null ? 0 : cells.rows);
      return merge(input.mapPartitionsWithIndex(fold, false), partials, count);
    } finally {
      broadcast.destroy();
    }
  }

  private Column vector(String column) {
    return col(column).cast(DataTypes.createArrayType(DataTypes.FloatType));
  }

  private Column position() {
    return (cells == null ? lit(null) : col(cells.position)).cast(DataTypes.LongType).as(POSITION);
  }

  /** Merges partial results in the order of their numbers, the last ones on the driver. */
  private static Result merge(JavaRDD<Tuple2<Long, byte[][]>> numbered, long partials, int count) {
    JavaPairRDD<Long, byte[][]> level = JavaPairRDD.fromJavaRDD(numbered);
    for (long n = partials; n > FAN_IN; n = Math.ceilDiv(n, (long) FAN_IN)) {
      int tasks = (int) Math.min(Math.ceilDiv(n, (long) FAN_IN), MAX_TASKS);
      level =
          level
              .mapToPair(partial -> new Tuple2<>(Math.floorDiv(partial._1, FAN_IN), partial))
              .groupByKey(tasks)
              .mapValues(DatasetAttention::mergeInOrder);
    }
    List<Tuple2<Long, byte[][]>> last = level.collect();
    if (last.isEmpty()) {
      throw new IllegalArgumentException(
          "rows: none has a key and a value, so the dimension of the values is not known");
    }
    double[] lses = new double[count];
    double[] outputs = {};
    byte[][] states = mergeInOrder(last);
    for (int i = 0; i < count; i++) {
      SoftmaxState state = SoftmaxState.fromBytes(states[i]);
      if (i == 0) {
        outputs = new double[Math.multiplyExact(count, state.dimension())];
      }
      System.arraycopy(state.output(), 0, outputs, i * state.dimension(), state.dimension());
      lses[i] = state.logSumExp();
    }
    return new Result(Tensor.of(outputs, count, outputs.length / count), Tensor.of(lses, count));
  }

  private static byte[][] mergeInOrder(Iterable<Tuple2<Long, byte[][]>> partials) {
    return KeyFold.merge(
        StreamSupport.stream(partials.spliterator(), false)
            .sorted(Comparator.comparing(Tuple2::_1))
            .map(Tuple2::_2)
            .toList());
  }

  /** What a task does with its partition: gives numbered partial results. */
  private static final class PartitionFold
      implements Function2<Integer, Iterator<InternalRow>, Iterator<Tuple2<Long, byte[][]>>> {
    private static final long serialVersionUID = 1;

    private final Broadcast<float[]> queries;
    private final int count;
    private final int keyDim;
    private final double scale;
    private final long cell; // how many positions; 0 if a partition is folded as it lies

    PartitionFold(Broadcast<float[]> queries, int count, int keyDim, double scale, long cell) {
      this.queries = queries;
      this.count = count;
      this.keyDim = keyDim;
      this.scale = scale;
      this.cell = cell;
    }

    @Override
    public Iterator<Tuple2<Long, byte[][]>> call(Integer partition, Iterator<InternalRow> rows) {
      List<Tuple2<Long, byte[][]>> partials = new ArrayList<>();
      try (Backend backend = Backend.cpu(1)) { // the task has one core
        KeyFold fold = new KeyFold(backend, scale, queries.value(), count, keyDim);
        long number = partition;
        long last = Long.MIN_VALUE;
        while (rows.hasNext()) {
          InternalRow row = rows.next();
          ArrayData key = vector(row, 0);
          ArrayData value = vector(row, 1);
          if (key == null || value == null) {
            continue;
          }
          if (cell > 0) {
            long position = row.getLong(2);
            if (!fold.isEmpty() && position == last) {
              throw new IllegalArgumentException(
                  "position: expected different ones, but two rows have " + position);
            }
            last = position;
            long cellNumber = Math.floorDiv(position, cell);
            if (cellNumber != number && !fold.isEmpty()) {
              partials.add(new Tuple2<>(number, fold.finish()));
            }
            number = cellNumber;
          }
          fold.add(key, value);
        }
        if (!fold.isEmpty()) {
          partials.add(new Tuple2<>(number, fold.finish()));
        }
      }
      return partials.iterator();
    }

    private static @Nullable ArrayData vector(InternalRow row, int column) {
      if (row.isNullAt(column)) {
        return null;
      }
      ArrayData vector = row.getArray(column);
      return VectorReader.hasNull(vector) ? null : vector;
    }
  }
}
