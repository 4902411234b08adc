package dev.foldmax.benchmarks.spark;

import dev.foldmax.SoftmaxState;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.expressions.Aggregator;

/**
 * The logsumexp as an Aggregator, the public API of Spark for aggregates of one's own: what
 * foldmax-spark would be without the planner's expressions.
 */
public final class LogSumExpAggregator
    extends Aggregator<Double, LogSumExpAggregator.State, Double> {
  private static final long serialVersionUID = 1;

  /** A state that Spark can encode. */
  public static final class State {
    private SoftmaxState state = new SoftmaxState(0);

    /** Called by Spark. */
    public State() {}

    /** The form in which Spark moves it. */
    public byte[] getBytes() {
      return state.toBytes();
    }

    /** The inverse of {@link #getBytes}. */
    public void setBytes(byte[] bytes) {
      state = SoftmaxState.fromBytes(bytes);
    }
  }

  @Override
  public State zero() {
    return new State();
  }

  @Override
  public State reduce(State buffer, Double score) {
    buffer.state.add(score);
    return buffer;
  }

  @Override
  public State merge(State buffer, State other) {
    buffer.state.merge(other.state);
    return buffer;
  }

  @Override
  public Double finish(State buffer) {
    return buffer.state.logSumExp();
  }

  @Override
  public Encoder<State> bufferEncoder() {
    return Encoders.bean(State.class);
  }

  @Override
  public Encoder<Double> outputEncoder() {
    return Encoders.DOUBLE();
  }
}
