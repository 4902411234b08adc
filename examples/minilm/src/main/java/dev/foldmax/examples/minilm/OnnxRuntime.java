package dev.foldmax.examples.minilm;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import dev.foldmax.Tensor;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** ONNX Runtime with the original model: what the encoder is compared with. */
final class OnnxRuntime implements AutoCloseable {
  private static final String LAST_HIDDEN_STATE = "last_hidden_state";

  private static final OrtEnvironment ENVIRONMENT = OrtEnvironment.getEnvironment();

  private final OrtSession session;

  private OnnxRuntime(byte[] file) throws OrtException {
    session = ENVIRONMENT.createSession(file);
  }

  /** Opens an ONNX file. */
  static OnnxRuntime open(byte[] file) throws OrtException {
    return new OnnxRuntime(file);
  }

  /** The version of ONNX Runtime. */
  static String version() {
    return ENVIRONMENT.getVersion();
  }

  /** Runs the model for its own output: the hidden state of each token, (batch, length, hidden). */
  float[] lastHiddenState(TokenBatch tokens) throws OrtException {
    return run(tokens, List.of(LAST_HIDDEN_STATE)).getFirst().toFloatArray();
  }

  /** Runs the model and returns the named outputs in that order, all of them F32. */
  List<Tensor> run(TokenBatch tokens, List<String> outputs) throws OrtException {
    long[] mask = new long[tokens.ids().length]; // (batch, length): 1 for a real token
    for (int i = 0; i < mask.length; i++) {
      mask[i] = tokens.isReal(i / tokens.length(), i % tokens.length()) ? 1 : 0;
    }
    long[] segments = new long[tokens.ids().length]; // (batch, length): all in the first
    try (OnnxTensor inputIds = tensor(tokens.ids(), tokens);
        OnnxTensor attentionMask = tensor(mask, tokens);
        OnnxTensor tokenTypeIds = tensor(segments, tokens);
        OrtSession.Result result =
            session.run(
                Map.of(
                    "input_ids", inputIds,
                    "attention_mask", attentionMask,
                    "token_type_ids", tokenTypeIds))) {
      List<Tensor> tensors = new ArrayList<>();
      for (String name : outputs) {
        OnnxTensor output = (OnnxTensor) result.get(name).orElseThrow();
        float[] values = new float[Math.toIntExact(output.getInfo().getNumElements())];
        output.getFloatBuffer().get(values);
        tensors.add(Tensor.of(values, output.getInfo().getShape()));
      }
      return tensors;
    }
  }

  private OnnxTensor tensor(long[] values, TokenBatch tokens) throws OrtException {
    long[] shape = {tokens.batch(), tokens.length()};
    return OnnxTensor.createTensor(ENVIRONMENT, LongBuffer.wrap(values), shape);
  }

  @Override
  public void close() throws OrtException {
    session.close();
  }
}
