package dev.foldmax.examples.minilm;

import ai.onnxruntime.OrtException;
import dev.foldmax.Tensor;
import java.util.List;

/**
 * What goes into and comes out of the attention of one layer, as ONNX Runtime computes it inside
 * the original model: all F32, (batch, heads, length, dim), of all tokens, padding included. The
 * model's own scale is 1/sqrt(dim), applied to the scores, and its mask adds float32's lowest value
 * to the scores of padded keys.
 *
 * @param q the queries, unscaled
 * @param k the keys
 * @param v the values
 * @param output the weighted means of the values
 */
record AttentionTensors(Tensor q, Tensor k, Tensor v, Tensor output) {
  /**
   * Runs the model with the inner tensors of one layer as outputs.
   *
   * @param layer counted from 0
   */
  static AttentionTensors of(OnnxModel model, int layer, TokenBatch tokens) throws OrtException {
    String part = "/encoder/layer." + layer + "/attention/self";
    String scores = part + "/MatMul"; // q k^T
    String average = part + "/MatMul_1"; // softmax(...) v
    List<String> names =
        List.of(
            model.input(scores, 0), // q: (batch, heads, length, dim)
            model.input(scores, 1), // k, transposed: (batch, heads, dim, length)
            model.input(average, 1), // v: (batch, heads, length, dim)
            model.output(average)); // (batch, heads, length, dim)
    try (OnnxRuntime runtime = OnnxRuntime.open(model.fileWithOutputs(names))) {
      List<Tensor> tensors = runtime.run(tokens, names);
      return new AttentionTensors(
          tensors.get(0),
          tensors.get(1).permute(0, 1, 3, 2).copy(),
          tensors.get(2),
          tensors.get(3));
    }
  }
}
