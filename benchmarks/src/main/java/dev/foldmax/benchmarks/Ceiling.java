package dev.foldmax.benchmarks;

/** What bounds a benchmark: a rate of the machine's, measured by {@link CeilingBenchmark}. */
enum Ceiling {
  /** Multiply-adds in float32. */
  FMA_F32("fmaF32", "GFLOP/s", "FMA peak, float32", CeilingBenchmark.flopsF32()),
  /** Multiply-adds in float64. */
  FMA_F64("fmaF64", "GFLOP/s", "FMA peak, float64", CeilingBenchmark.flopsF64()),
  /** Memory read. */
  READ("read", "GB/s", "memory, read", (double) CeilingBenchmark.ARRAY * Float.BYTES),
  /** Memory read and written in order; both count. */
  COPY("copy", "GB/s", "memory, copy", 2.0 * CeilingBenchmark.ARRAY * Float.BYTES),
  /** Powers of two out of the first-level cache: what a softmax in cache is bound by. */
  EXP2("exp2", "G/s", "exp2 in L1", CeilingBenchmark.exponentials());

  private final String method;
  private final String unit;
  private final String label;
  private final double work;

  Ceiling(String method, String unit, String label, double work) {
    this.method = method;
    this.unit = unit;
    this.label = label;
    this.work = work;
  }

  /** The method of {@link CeilingBenchmark}. */
  String method() {
    return method;
  }

  /** The unit of the rate. */
  String unit() {
    return unit;
  }

  /** As the tables name it. */
  String label() {
    return label;
  }

  /** The operations or bytes of a call by one thread. */
  double work() {
    return work;
  }
}
