package dev.foldmax.spark;

import dev.foldmax.SoftmaxState;
import org.apache.spark.sql.errors.QueryExecutionErrors;
import org.jspecify.annotations.Nullable;

/**
 * The buffer of an aggregate over vectors: a {@link SoftmaxState}, once a first row has given the
 * dimension. Its bytes are those of the state, and none before that row.
 */
final class VectorState {
  private static final byte[] NO_ROW = {};

  private @Nullable SoftmaxState state;

  VectorState() {}

  /** Reads what {@link #toBytes} wrote, and refuses what no rows could have led to. */
  static VectorState fromBytes(byte[] bytes) {
    VectorState buffer = new VectorState();
    if (bytes.length > 0) {
      buffer.state = SoftmaxState.fromBytes(bytes);
    }
    return buffer;
  }

  byte[] toBytes() {
    return state == null ? NO_ROW : state.toBytes();
  }

  /**
   * Adds a row.
   *
   * @param function for the message, if the vector has not the dimension of those before it
   */
  void add(String function, double score, double[] vector) {
    if (state == null) {
      state = new SoftmaxState(vector.length);
    }
    checkDimension(function, state.dimension(), vector.length);
    state.add(score, vector);
  }

  /** Merges a buffer of other rows into this one, which may keep it. */
  void merge(String function, VectorState other) {
    if (other.state == null) {
      return;
    }
    if (state == null) {
      state = other.state;
      return;
    }
    checkDimension(function, state.dimension(), other.state.dimension());
    state.merge(other.state);
  }

  /** The error of Spark's own vector functions, unless the dimensions are equal. */
  static void checkDimension(String function, int expected, int actual) {
    if (expected != actual) {
      throw QueryExecutionErrors.vectorDimensionMismatchError(function, expected, actual);
    }
  }

  /** The softmax-weighted mean; null if no row has come. */
  double @Nullable [] mean() {
    return state == null ? null : state.output();
  }
}
