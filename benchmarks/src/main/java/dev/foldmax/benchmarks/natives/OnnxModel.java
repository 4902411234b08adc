package dev.foldmax.benchmarks.natives;

import dev.foldmax.DType;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/**
 * An ONNX model of a few operators, as the bytes of a {@code ModelProto}. Field numbers are those
 * of onnx.proto.
 */
public final class OnnxModel {
  private static final int IR_VERSION = 10;
  private static final int OPSET = 23;

  /** The domain of ONNX Runtime's own operators. */
  public static final String MICROSOFT = "com.microsoft";

  private final Proto graph = new Proto().text(2, "graph");

  /** Declares an input of the model. */
  public OnnxModel input(String name, DType dtype, long... shape) {
    graph.message(11, valueInfo(name, dtype, shape));
    return this;
  }

  /** Declares an output of the model. */
  public OnnxModel output(String name, DType dtype, long... shape) {
    graph.message(12, valueInfo(name, dtype, shape));
    return this;
  }

  /**
   * Adds an operator.
   *
   * @param domain empty for ONNX's own
   * @param inputs names; an empty one leaves an optional input out
   * @param attributes each a Long or a {@code List<Long>}
   */
  public OnnxModel node(
      String operator,
      String domain,
      List<String> inputs,
      List<String> outputs,
      Map<String, Object> attributes) {
    Proto node = new Proto();
    inputs.forEach(name -> node.text(1, name));
    outputs.forEach(name -> node.text(2, name));
    node.text(4, operator).text(7, domain);
    attributes.forEach((name, value) -> node.message(5, attribute(name, value)));
    graph.message(1, node);
    return this;
  }

  private static Proto attribute(String name, Object value) {
    Proto attribute = new Proto().text(1, name);
    switch (value) {
      case Long number -> attribute.number(3, number).number(20, 2);
      case List<?> numbers -> {
        numbers.forEach(number -> attribute.number(8, (Long) number));
        attribute.number(20, 7);
      }
      default -> throw new IllegalArgumentException("attribute " + name + ": " + value);
    }
    return attribute;
  }

  private static Proto valueInfo(String name, DType dtype, long... shape) {
    Proto dimensions = new Proto();
    for (long size : shape) {
      dimensions.message(1, new Proto().number(1, size));
    }
    Proto tensor = new Proto().number(1, elementType(dtype)).message(2, dimensions);
    return new Proto().text(1, name).message(2, new Proto().message(1, tensor));
  }

  /** As {@code TensorProto.DataType} numbers them. */
  static int elementType(DType dtype) {
    return switch (dtype) {
      case F32 -> 1;
      case I32 -> 6;
      case I64 -> 7;
      case F16 -> 10;
      case F64 -> 11;
      case BF16 -> 16;
      case I8, BOOL -> throw new IllegalArgumentException("dtype: " + dtype);
    };
  }

  /** The model's bytes. */
  byte[] toBytes() {
    return new Proto()
        .number(1, IR_VERSION)
        .message(7, graph)
        .message(8, new Proto().text(1, "").number(2, OPSET))
        .message(8, new Proto().text(1, MICROSOFT).number(2, 1))
        .bytes();
  }

  /** A protocol-buffer message: fields, each a key (number and wire type) before its value. */
  private static final class Proto {
    private static final int VARINT = 0;
    private static final int LENGTH_DELIMITED = 2;

    private final ByteArrayOutputStream out = new ByteArrayOutputStream();

    Proto number(int field, long value) {
      return varint((long) field << 3 | VARINT).varint(value);
    }

    Proto text(int field, String value) {
      return delimited(field, value.getBytes(StandardCharsets.UTF_8));
    }

    Proto message(int field, Proto value) {
      return delimited(field, value.bytes());
    }

    private Proto delimited(int field, byte[] value) {
      varint((long) field << 3 | LENGTH_DELIMITED).varint(value.length);
      out.writeBytes(value);
      return this;
    }

    /** Seven bits a byte, the lowest first; the top bit says that more follow. */
    private Proto varint(long value) {
      long rest = value;
      for (; rest >>> 7 != 0; rest >>>= 7) {
        out.write((int) ((rest & 0x7f) | 0x80));
      }
      out.write((int) rest);
      return this;
    }

    byte[] bytes() {
      return out.toByteArray();
    }
  }
}
