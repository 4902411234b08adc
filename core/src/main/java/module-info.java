/** Online softmax and exact attention. */
module dev.foldmax {
  requires static jdk.incubator.vector;
  requires static org.jspecify;

  exports dev.foldmax;

  uses dev.foldmax.BackendProvider;
}
