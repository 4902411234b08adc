/** all-MiniLM-L6-v2, a sentence encoder, on Foldmax's attention. */
module dev.foldmax.examples.minilm {
  requires ai.djl.tokenizers;
  requires com.google.protobuf;
  requires com.microsoft.onnxruntime;
  requires dev.foldmax;
  requires dev.foldmax.io;
  requires org.tribuo.util.onnx;
  requires static org.jspecify;

  // For ai.djl.tokenizers, which as an automatic module cannot say that it needs them.
  requires com.google.gson;
  requires org.slf4j;
}
