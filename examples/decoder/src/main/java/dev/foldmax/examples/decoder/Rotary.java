package dev.foldmax.examples.decoder;

/**
 * Rotary position embedding (Su et al., arXiv 2104.09864): turns components i and i + dim / 2 of a
 * head by an angle that grows with the token's position.
 */
record Rotary(int dim) {
  private static final double BASE = 10_000;

  /**
   * Turns each head of each row in place.
   *
   * @param x (rows, heads, dim)
   * @param firstPosition of the first row; the others follow
   */
  void turn(float[] x, int heads, int firstPosition) {
    int half = dim / 2;
    for (int head = 0; head < x.length / dim; head++) {
      int position = firstPosition + head / heads;
      int at = head * dim;
      for (int i = 0; i < half; i++) {
        double angle = position * Math.pow(BASE, -2.0 * i / dim);
        float cosine = (float) Math.cos(angle);
        float sine = (float) Math.sin(angle);
        float a = x[at + i];
        float b = x[at + i + half];
        x[at + i] = a * cosine - b * sine;
        x[at + i + half] = a * sine + b * cosine;
      }
    }
  }
}
