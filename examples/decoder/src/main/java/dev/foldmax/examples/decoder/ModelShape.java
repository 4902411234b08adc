package dev.foldmax.examples.decoder;

/**
 * The sizes of a decoder.
 *
 * @param layers how many; those of odd number see a sliding window of keys only
 * @param hidden numbers that stand for a token between layers
 * @param heads query heads, a multiple of {@code keyHeads}
 * @param keyHeads key and value heads, each shared by a group of query heads
 * @param dim numbers of a head, even
 * @param inner width of the feed-forward layers
 * @param vocabulary how many tokens there are
 * @param window how many keys a token sees in a sliding layer, itself included
 */
record ModelShape(
    int layers,
    int hidden,
    int heads,
    int keyHeads,
    int dim,
    int inner,
    int vocabulary,
    int window) {
  /** Small enough to generate some hundred tokens a second, and large enough to need all parts. */
  static final ModelShape SMALL = new ModelShape(4, 256, 8, 2, 32, 512, 1000, 24);

  /** Numbers of one token's keys, or values, in a layer: a row of a cache. */
  int rowSize() {
    return keyHeads * dim;
  }

  boolean isSliding(int layer) {
    return layer % 2 == 1;
  }
}
