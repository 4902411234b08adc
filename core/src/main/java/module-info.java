/** Online softmax and exact attention. */
module dev.foldmax {
  requires static jdk.incubator.vector;
  requires static transitive org.jspecify;

  exports dev.foldmax;
  exports dev.foldmax.spi;

  uses dev.foldmax.BackendProvider;
}
