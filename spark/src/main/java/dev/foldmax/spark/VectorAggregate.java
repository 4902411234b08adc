package dev.foldmax.spark;

import static dev.foldmax.spark.ScalaLists.javaList;
import static dev.foldmax.spark.ScalaLists.scalaList;

import dev.foldmax.Attention;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ImplicitCastInputTypes;
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedImperativeAggregate;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.jspecify.annotations.Nullable;
import scala.collection.Iterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * {@code softmax_avg(score, vector)} and {@code attend(query, key, value [, scale])}.
 *
 * <p>Rules as of Spark's {@code vector_avg}: a row is ignored if an argument is NULL or a vector
 * has a NULL element; vectors that differ in dimension are an error; a group without rows gives
 * NULL, one of empty vectors an empty vector.
 */
final class VectorAggregate extends TypedImperativeAggregate<VectorState>
    implements ImplicitCastInputTypes, Serializable {
  private static final long serialVersionUID = 1;

  /** Where a row's score comes from. */
  enum Score {
    GIVEN("softmax_avg", 1),
    DOT_PRODUCT("attend", 2);

    private final String function;
    private final int value; // the index of the argument that is averaged

    Score(String function, int value) {
      this.function = function;
      this.value = value;
    }
  }

  private final Score kind;

  @SuppressWarnings("serial") // expressions are serializable, though their type does not say so
  private final List<Expression> arguments; // (score, value), or (query, key, value [, scale])

  private final int mutableOffset;
  private final int inputOffset;

  private transient @Nullable List<VectorReader> readers; // of each vector, in the arguments' order

  VectorAggregate(Score kind, List<Expression> arguments) {
    this(kind, arguments, 0, 0);
  }

  private VectorAggregate(
      Score kind, List<Expression> arguments, int mutableOffset, int inputOffset) {
    this.kind = kind;
    this.arguments = arguments;
    this.mutableOffset = mutableOffset;
    this.inputOffset = inputOffset;
  }

  @Override
  public VectorState createAggregationBuffer() {
    return new VectorState();
  }

  @Override
  public VectorState update(VectorState buffer, InternalRow row) {
    List<VectorReader> vectors = readers();
    Double score =
        kind == Score.GIVEN
            ? (Double) arguments.getFirst().eval(row)
            : dotProduct(vectors.get(0), vectors.get(1), row);
    double[] value = vectors.getLast().read(row);
    if (score != null && value != null) {
      buffer.add(kind.function, score, value);
    }
    return buffer;
  }

  private List<VectorReader> readers() {
    List<VectorReader> result = readers;
    if (result == null) {
      result =
          arguments.stream()
              .filter(argument -> argument.dataType() instanceof ArrayType)
              .map(VectorReader::new)
              .toList();
      readers = result;
    }
    return result;
  }

  /** The score of a key; null if something of it is NULL. */
  private @Nullable Double dotProduct(VectorReader queries, VectorReader keys, InternalRow row) {
    double[] query = queries.read(row);
    double[] key = keys.read(row);
    if (query == null || key == null) {
      return null;
    }
    VectorState.checkDimension(kind.function, query.length, key.length);
    if (arguments.size() == 3) {
      return Attention.standard().scaleFor(key.length) * dotProduct(query, key);
    }
    Double scale = (Double) arguments.get(3).eval(row);
    return scale == null ? null : Double.valueOf(scale * dotProduct(query, key));
  }

  /** In four sums: one would wait for each addition before it begins the next. */
  private static double dotProduct(double[] a, double[] b) {
    double sum0 = 0;
    double sum1 = 0;
    double sum2 = 0;
    double sum3 = 0;
    int i = 0;
    for (; i <= a.length - 4; i += 4) {
      sum0 += a[i] * b[i];
      sum1 += a[i + 1] * b[i + 1];
      sum2 += a[i + 2] * b[i + 2];
      sum3 += a[i + 3] * b[i + 3];
    }
    double sum = (sum0 + sum1) + (sum2 + sum3);
    for (; i < a.length; i++) {
      sum += a[i] * b[i];
    }
    return sum;
  }

  @Override
  public VectorState merge(VectorState buffer, VectorState other) {
    buffer.merge(kind.function, other);
    return buffer;
  }

  @Override
  public @Nullable Object eval(VectorState buffer) {
    double[] mean = buffer.mean();
    if (mean == null) {
      return null;
    }
    if (elementType().equals(DataTypes.DoubleType)) {
      return ArrayData.toArrayData(mean);
    }
    float[] floats = new float[mean.length];
    for (int i = 0; i < mean.length; i++) {
      floats[i] = (float) mean[i];
    }
    return ArrayData.toArrayData(floats);
  }

  @Override
  public byte[] serialize(VectorState buffer) {
    return buffer.toBytes();
  }

  @Override
  public VectorState deserialize(byte[] bytes) {
    return VectorState.fromBytes(bytes);
  }

  private DataType elementType() {
    return ((ArrayType) arguments.get(kind.value).dataType()).elementType();
  }

  @Override
  public DataType dataType() {
    return DataTypes.createArrayType(elementType(), false);
  }

  @Override
  public boolean nullable() {
    return true;
  }

  @Override
  public Seq<AbstractDataType> inputTypes() {
    List<AbstractDataType> types = new ArrayList<>();
    if (kind == Score.GIVEN) {
      types.add(DataTypes.DoubleType);
      types.add(VectorReader.TYPE);
    } else {
      types.addAll(List.of(VectorReader.TYPE, VectorReader.TYPE, VectorReader.TYPE));
      if (arguments.size() == 4) {
        types.add(DataTypes.DoubleType);
      }
    }
    return scalaList(types);
  }

  @Override
  public TypeCheckResult checkInputDataTypes() {
    return ImplicitCastInputTypes.super.checkInputDataTypes();
  }

  @Override
  public String prettyName() {
    return kind.function;
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
    return new VectorAggregate(kind, arguments, offset, inputOffset);
  }

  @Override
  public ImperativeAggregate withNewInputAggBufferOffset(int offset) {
    return new VectorAggregate(kind, arguments, mutableOffset, offset);
  }

  @Override
  public Seq<Expression> children() {
    return scalaList(arguments);
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> newChildren) {
    return new VectorAggregate(kind, javaList(newChildren), mutableOffset, inputOffset);
  }

  @Override
  public Iterator<Object> flatArguments() {
    return ScalaLists.<Object>scalaList(List.copyOf(arguments)).iterator();
  }

  @Override
  public int productArity() {
    return 4;
  }

  @Override
  public Object productElement(int index) {
    return switch (index) {
      case 0 -> kind;
      case 1 -> children();
      case 2 -> mutableOffset;
      default -> inputOffset;
    };
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof VectorAggregate;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof VectorAggregate aggregate
        && kind == aggregate.kind
        && arguments.equals(aggregate.arguments)
        && mutableOffset == aggregate.mutableOffset
        && inputOffset == aggregate.inputOffset;
  }

  @Override
  public int hashCode() {
    return Objects.hash(kind, arguments, mutableOffset, inputOffset);
  }
}
