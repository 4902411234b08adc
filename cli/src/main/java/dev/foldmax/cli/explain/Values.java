package dev.foldmax.cli.explain;

/** The values that a row's weights multiply, wherever they lie. */
public interface Values {
  /** The values of a row of a softmax: there are none. */
  Values NONE =
      new Values() {
        @Override
        public int dimension() {
          return 0;
        }

        @Override
        public void read(int key, double[] value) {}
      };

  /** The number of components of a value, at least 0. */
  int dimension();

  /**
   * Reads one value.
   *
   * @param key its index
   * @param value receives the components, an array of {@link #dimension}
   */
  void read(int key, double[] value);
}
