package dev.foldmax.spark;

import static dev.foldmax.spark.ScalaLists.listOf;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.TypeCollection;
import org.apache.spark.unsafe.bitset.BitSetMethods;
import org.jspecify.annotations.Nullable;

/**
 * Reads an expression of type {@code array<float>} or {@code array<double>} as float64, row by row,
 * into an array of its own. Not thread-safe.
 */
final class VectorReader {
  /** Arrays of other numbers are cast to the first of these. */
  static final AbstractDataType TYPE =
      TypeCollection.apply(
          listOf(
              DataTypes.createArrayType(DataTypes.DoubleType),
              DataTypes.createArrayType(DataTypes.FloatType)));

  private final Expression vector;
  private final boolean ofFloats;
  private final boolean containsNull;
  private double[] elements = {};

  VectorReader(Expression vector) {
    ArrayType type = (ArrayType) vector.dataType();
    this.vector = vector;
    this.ofFloats = type.elementType().equals(DataTypes.FloatType);
    this.containsNull = type.containsNull();
  }

  /** The row's elements, valid until the next call; null if the vector or an element is NULL. */
  double @Nullable [] read(InternalRow row) {
    ArrayData array = (ArrayData) vector.eval(row);
    if (array == null || (containsNull && hasNull(array))) {
      return null;
    }
    if (!ofFloats) {
      return array.toDoubleArray();
    }
    float[] floats = array.toFloatArray();
    if (elements.length != floats.length) {
      elements = new double[floats.length];
    }
    for (int i = 0; i < floats.length; i++) {
      elements[i] = floats[i];
    }
    return elements;
  }

  /** Whether an element is NULL. */
  static boolean hasNull(ArrayData array) {
    if (array instanceof UnsafeArrayData row) { // 64 elements at a time
      long nullBits = row.getBaseOffset() + Long.BYTES;
      long words = (row.numElements() + 63L) / 64;
      return BitSetMethods.anySet(row.getBaseObject(), nullBits, words);
    }
    for (int i = 0; i < array.numElements(); i++) {
      if (array.isNullAt(i)) {
        return true;
      }
    }
    return false;
  }
}
