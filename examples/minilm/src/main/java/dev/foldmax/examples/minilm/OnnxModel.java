package dev.foldmax.examples.minilm;

import ai.onnx.proto.OnnxMl.GraphProto;
import ai.onnx.proto.OnnxMl.ModelProto;
import ai.onnx.proto.OnnxMl.NodeProto;
import ai.onnx.proto.OnnxMl.TensorProto;
import ai.onnx.proto.OnnxMl.ValueInfoProto;
import com.google.protobuf.CodedInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;

/** The ONNX file of all-MiniLM-L6-v2: a graph of nodes between named tensors. */
final class OnnxModel {
  private static final String RESOURCE = "all-minilm-l6-v2.onnx";

  private final byte[] file;
  private final ModelProto model;
  private final Map<String, TensorProto> constants;
  private final Map<String, NodeProto> nodes;

  private OnnxModel(byte[] file) throws IOException {
    this.file = file;
    CodedInputStream in = CodedInputStream.newInstance(file);
    // Tensors stay views of the file's bytes until they are asked for.
    in.enableAliasing(true);
    model = ModelProto.parseFrom(in);
    GraphProto graph = model.getGraph();
    constants =
        graph.getInitializerList().stream()
            .collect(Collectors.toMap(TensorProto::getName, Function.identity()));
    nodes =
        graph.getNodeList().stream()
            .collect(Collectors.toMap(NodeProto::getName, Function.identity()));
  }

  /** Reads the model on the class path, some 90 MB. */
  static OnnxModel load() throws IOException {
    try (InputStream in = OnnxModel.class.getClassLoader().getResourceAsStream(RESOURCE)) {
      if (in == null) {
        throw new FileNotFoundException(RESOURCE + " is not on the class path");
      }
      return new OnnxModel(in.readAllBytes());
    }
  }

  /** The file as it was read; not a copy. */
  byte[] file() {
    return file;
  }

  /** The file with more outputs: tensors that would otherwise stay inside the graph. */
  byte[] fileWithOutputs(List<String> tensors) {
    ModelProto.Builder builder = model.toBuilder();
    for (String tensor : tensors) {
      builder.getGraphBuilder().addOutput(ValueInfoProto.newBuilder().setName(tensor));
    }
    return builder.build().toByteArray();
  }

  /**
   * A parameter of one of the model's parts, row-major.
   *
   * @param part the path that its nodes' names begin with, such as {@code
   *     /encoder/layer.0/output/dense}; the names of parameters have dots for its slashes
   * @param name such as {@code bias}
   */
  float[] parameter(String part, String name) {
    return weight(part.substring(1).replace('/', '.') + "." + name);
  }

  /** A float32 weight by the name of its tensor, row-major. */
  float[] weight(String tensor) {
    TensorProto constant = constants.get(tensor);
    if (constant == null || constant.getDataType() != TensorProto.DataType.FLOAT.getNumber()) {
      throw new IllegalArgumentException("the model has no float32 weight " + tensor);
    }
    float[] weight = new float[constant.getRawData().size() / Float.BYTES];
    constant
        .getRawData()
        .asReadOnlyByteBuffer()
        .order(ByteOrder.LITTLE_ENDIAN)
        .asFloatBuffer()
        .get(weight);
    return weight;
  }

  /** The name of one of the tensors that a node reads. */
  String input(String node, int index) {
    return node(node).getInput(index);
  }

  /** The name of the tensor that a node makes. */
  String output(String node) {
    return node(node).getOutput(0);
  }

  private NodeProto node(String name) {
    NodeProto node = nodes.get(name);
    if (node == null) {
      throw new IllegalArgumentException("the model has no node " + name);
    }
    return node;
  }
}
