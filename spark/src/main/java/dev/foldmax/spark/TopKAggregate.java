package dev.foldmax.spark;

import static dev.foldmax.spark.ScalaLists.listOf;

import java.io.Serializable;
import java.util.Comparator;
import java.util.Objects;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.ImplicitCastInputTypes;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedImperativeAggregate;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.TypeUtils;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.AnyDataType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.jspecify.annotations.Nullable;
import scala.collection.Iterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * {@code softmax_top_k(score, id, k)}: the k rows of the largest scores, with their softmax over
 * the whole group, in one pass (Milakov and Gimelshein, arXiv 1805.02867, section 4).
 *
 * <p>Ties go to the lower id. As in {@link dev.foldmax.Backend#topK}, NaN counts as larger than
 * every number and makes all probabilities NaN.
 */
final class TopKAggregate extends TypedImperativeAggregate<TopKState>
    implements ImplicitCastInputTypes, Serializable {
  private static final long serialVersionUID = 1;
  private static final String FUNCTION = "softmax_top_k";

  // Expressions are serializable, though their type does not say so.
  @SuppressWarnings("serial")
  private final Expression score;

  @SuppressWarnings("serial")
  private final Expression id;

  @SuppressWarnings("serial")
  private final Expression k;

  private final int mutableOffset;
  private final int inputOffset;

  private transient @Nullable IdType idType;
  private transient int limit; // k's value, 0 until it is asked for

  TopKAggregate(Expression score, Expression id, Expression k) {
    this(score, id, k, 0, 0);
  }

  private TopKAggregate(
      Expression score, Expression id, Expression k, int mutableOffset, int inputOffset) {
    this.score = score;
    this.id = id;
    this.k = k;
    this.mutableOffset = mutableOffset;
    this.inputOffset = inputOffset;
  }

  /** How ids are ordered, and how they become bytes: a row of Spark's with one column. */
  private static final class IdType {
    private final DataType type;
    private final Comparator<Object> order;
    private final UnsafeProjection projection;

    IdType(DataType type) {
      this.type = type;
      this.order = TypeUtils.getInterpretedOrdering(type);
      this.projection = UnsafeProjection.create(new DataType[] {type});
    }

    byte[] toBytes(Object value) {
      // A copy, for a projection writes all its rows into the same bytes.
      return projection.apply(new GenericInternalRow(new Object[] {value})).copy().getBytes();
    }

    Object fromBytes(byte[] bytes) {
      int fixed = UnsafeRow.calculateBitSetWidthInBytes(1) + Long.BYTES;
      if (bytes.length < fixed || bytes.length % Long.BYTES != 0) {
        throw new IllegalArgumentException("top-k state: an id of " + bytes.length + " bytes");
      }
      UnsafeRow row = new UnsafeRow(1);
      row.pointTo(bytes, bytes.length);
      return row.get(0, type);
    }
  }

  private IdType idType() {
    IdType result = idType;
    if (result == null) {
      result = new IdType(id.dataType());
      idType = result;
    }
    return result;
  }

  private int limit() {
    if (limit == 0) {
      limit = (Integer) k.eval(null);
    }
    return limit;
  }

  @Override
  public TopKState createAggregationBuffer() {
    return new TopKState(limit(), idType().order);
  }

  @Override
  public TopKState update(TopKState buffer, InternalRow row) {
    Double s = (Double) score.eval(row);
    Object value = id.eval(row);
    if (s == null || value == null) {
      return buffer;
    }
    if (buffer.mayEnter(s)) {
      buffer.add(new TopKState.Entry(s, InternalRow.copyValue(value)));
    } else {
      buffer.count(s);
    }
    return buffer;
  }

  @Override
  public TopKState merge(TopKState buffer, TopKState other) {
    buffer.merge(other);
    return buffer;
  }

  @Override
  public @Nullable Object eval(TopKState buffer) {
    if (buffer.isEmpty()) {
      return null;
    }
    return new GenericArrayData(
        buffer.entries().stream()
            .map(
                entry ->
                    new Object[] {entry.id(), entry.score(), buffer.probability(entry.score())})
            .map(GenericInternalRow::new)
            .toArray());
  }

  @Override
  public byte[] serialize(TopKState buffer) {
    return buffer.toBytes(idType()::toBytes);
  }

  @Override
  public TopKState deserialize(byte[] bytes) {
    return TopKState.fromBytes(bytes, limit(), idType().order, idType()::fromBytes);
  }

  @Override
  public DataType dataType() {
    return DataTypes.createArrayType(
        DataTypes.createStructType(
            new StructField[] {
              DataTypes.createStructField("id", id.dataType(), false),
              DataTypes.createStructField("score", DataTypes.DoubleType, false),
              DataTypes.createStructField("probability", DataTypes.DoubleType, false)
            }),
        false);
  }

  @Override
  public boolean nullable() {
    return true;
  }

  @Override
  public Seq<AbstractDataType> inputTypes() {
    return listOf(DataTypes.DoubleType, AnyDataType$.MODULE$, DataTypes.IntegerType);
  }

  @Override
  public TypeCheckResult checkInputDataTypes() {
    TypeCheckResult types = ImplicitCastInputTypes.super.checkInputDataTypes();
    if (types.isFailure()) {
      return types;
    }
    if (!k.foldable() || !(k.eval(null) instanceof Integer number) || number < 1) {
      return new TypeCheckResult.TypeCheckFailure(
          FUNCTION + ": k must be a constant whole number of at least 1, got " + k.sql());
    }
    return TypeUtils.checkForOrderingExpr(id.dataType(), FUNCTION);
  }

  @Override
  public String prettyName() {
    return FUNCTION;
  }

  @Override
  public int mutableAggBufferOffset() {
    return mutableOffset;
  }

  @Override
  public int inputAggBufferOffset() {
    return inputOffset;
  }

  @Override
  public ImperativeAggregate withNewMutableAggBufferOffset(int offset) {
    return new TopKAggregate(score, id, k, offset, inputOffset);
  }

  @Override
  public ImperativeAggregate withNewInputAggBufferOffset(int offset) {
    return new TopKAggregate(score, id, k, mutableOffset, offset);
  }

  @Override
  public Seq<Expression> children() {
    return listOf(score, id, k);
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> newChildren) {
    return new TopKAggregate(
        newChildren.apply(0),
        newChildren.apply(1),
        newChildren.apply(2),
        mutableOffset,
        inputOffset);
  }

  @Override
  public Iterator<Object> flatArguments() {
    return ScalaLists.<Object>listOf(score, id, k).iterator();
  }

  @Override
  public int productArity() {
    return 5;
  }

  @Override
  public Object productElement(int index) {
    return switch (index) {
      case 0 -> score;
      case 1 -> id;
      case 2 -> k;
      case 3 -> mutableOffset;
      default -> inputOffset;
    };
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof TopKAggregate;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof TopKAggregate aggregate
        && score.equals(aggregate.score)
        && id.equals(aggregate.id)
        && k.equals(aggregate.k)
        && mutableOffset == aggregate.mutableOffset
        && inputOffset == aggregate.inputOffset;
  }

  @Override
  public int hashCode() {
    return Objects.hash(score, id, k, mutableOffset, inputOffset);
  }
}
