/** A small decoder with grouped query heads on Foldmax's attention, with a choice of KV caches. */
module dev.foldmax.examples.decoder {
  requires dev.foldmax;
  requires static org.jspecify;
}
