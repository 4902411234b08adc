package dev.foldmax.contract;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * A model of one operator, written in the protocol-buffer form of onnx.proto. Only the fields that
 * such a model needs; their numbers stand beside the messages they belong to.
 */
final class OnnxModel {
  static final int FLOAT = 1;
  static final int INT64 = 7;
  static final int BOOL = 9;

  private static final int IR_VERSION = 10;

  private final String operator;
  private final int opset;
  private final Message node = new Message(); // NodeProto
  private final List<Message> inputs = new ArrayList<>(); // ValueInfoProto
  private final List<Message> outputs = new ArrayList<>();

  OnnxModel(String operator, int opset) {
    this.operator = operator;
    this.opset = opset;
  }

  /** An input; an empty name leaves an optional one out. */
  OnnxModel input(String name, int type, long... shape) {
    node.text(1, name);
    if (!name.isEmpty()) {
      inputs.add(valueInfo(name, type, shape));
    }
    return this;
  }

  OnnxModel output(String name, int type, long... shape) {
    node.text(2, name);
    outputs.add(valueInfo(name, type, shape));
    return this;
  }

  OnnxModel attribute(String name, float value) {
    node.message(5, new Message().text(1, name).float32(2, value).number(20, 1));
    return this;
  }

  OnnxModel attribute(String name, long value) {
    node.message(5, new Message().text(1, name).number(3, value).number(20, 2));
    return this;
  }

  /** A list of one integer. */
  OnnxModel attributeList(String name, long value) {
    node.message(5, new Message().text(1, name).number(8, value).number(20, 7));
    return this;
  }

  private static Message valueInfo(String name, int type, long... shape) {
    Message dimensions = new Message(); // TensorShapeProto
    for (long size : shape) {
      dimensions.message(1, new Message().number(1, size));
    }
    Message tensor = new Message().number(1, type).message(2, dimensions); // TypeProto.Tensor
    return new Message().text(1, name).message(2, new Message().message(1, tensor));
  }

  /** The model's bytes. */
  byte[] toBytes() {
    node.text(4, operator);
    Message graph = new Message().message(1, node).text(2, operator); // GraphProto
    inputs.forEach(input -> graph.message(11, input));
    outputs.forEach(output -> graph.message(12, output));
    Message operators = new Message().text(1, "").number(2, opset); // OperatorSetIdProto
    return new Message() // ModelProto
        .number(1, IR_VERSION)
        .message(7, graph)
        .message(8, operators)
        .toBytes();
  }

  /** The wire format: fields as (number, wire type) with a varint, 4 bytes or a length. */
  private static final class Message {
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

    private void varint(long value) {
      long rest = value;
      while ((rest & ~0x7fL) != 0) {
        bytes.write((int) (rest & 0x7f) | 0x80);
        rest >>>= 7;
      }
      bytes.write((int) rest);
    }

    Message number(int field, long value) {
      varint(field << 3);
      varint(value);
      return this;
    }

    Message float32(int field, float value) {
      varint(field << 3 | 5);
      bytes.writeBytes(
          ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putFloat(value).array());
      return this;
    }

    Message text(int field, String value) {
      return lengthDelimited(field, value.getBytes(StandardCharsets.UTF_8));
    }

    Message message(int field, Message value) {
      return lengthDelimited(field, value.toBytes());
    }

    private Message lengthDelimited(int field, byte[] value) {
      varint(field << 3 | 2);
      varint(value.length);
      bytes.writeBytes(value);
      return this;
    }

    byte[] toBytes() {
      return bytes.toByteArray();
    }
  }
}
