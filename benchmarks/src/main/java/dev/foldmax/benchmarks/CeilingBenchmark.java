package dev.foldmax.benchmarks;

import java.util.concurrent.TimeUnit;
import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;

/**
 * What the machine can do: multiply-adds out of registers, and memory read and copied, each thread
 * its own. JMH's number of threads is the number of threads at work.
 */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MILLISECONDS)
@Fork(
    value = 3,
    jvmArgs = {
      "--add-modules=jdk.incubator.vector",
      "--enable-native-access=ALL-UNNAMED",
      "--sun-misc-unsafe-memory-access=allow",
      "-Xmx4g"
    })
public class CeilingBenchmark {
  /** Elements of a thread's array: far more than a cache holds. */
  static final int ARRAY = 1 << 25;

  private static final VectorSpecies<Float> F32 = FloatVector.SPECIES_PREFERRED;
  private static final VectorSpecies<Double> F64 = DoubleVector.SPECIES_PREFERRED;

  /** The sums that are under way at once: latency times rate, with something to spare. */
  private static final int CHAINS = 12;

  private static final int STEPS = 1 << 18;

  /** Elements of an array of which two fit into the first-level cache. */
  private static final int SMALL = 2048;

  private static final int SMALL_PASSES = 256;

  /** Adding it rounds a float of modest size to the nearest integer, in the low bits. */
  private static final float ROUNDER = 0x1.8p23f;

  private static final int MANTISSA_BITS = 23;

  private static final double LN2 = Math.log(2);

  // Taylor's coefficients of 2^f.
  private static final float C1 = (float) LN2;
  private static final float C2 = (float) (LN2 * LN2 / 2);
  private static final float C3 = (float) (Math.pow(LN2, 3) / 6);
  private static final float C4 = (float) (Math.pow(LN2, 4) / 24);
  private static final float C5 = (float) (Math.pow(LN2, 5) / 120);
  private static final float C6 = (float) (Math.pow(LN2, 6) / 720);

  /** Two arrays for each thread. */
  @State(Scope.Thread)
  public static class Arrays {
    final float[] source = RandomArrays.floats(1, ARRAY);
    final float[] target = new float[ARRAY];
  }

  /** A factor and a summand that keep sums finite, and that C2 cannot know. */
  @State(Scope.Thread)
  public static class Numbers {
    float factor = 0.5f;
    float summand = 1;
    double wideFactor = 0.5;
    double wideSummand = 1;
  }

  /** Two small arrays for each thread; numbers of about 1. */
  @State(Scope.Thread)
  public static class SmallArrays {
    final float[] source = RandomArrays.floats(1, SMALL);
    final float[] target = new float[SMALL];
  }

  /** The exponentials of a call of {@link #exp2}. */
  static double exponentials() {
    return (double) SMALL * SMALL_PASSES;
  }

  /** The floating-point operations of a call of {@link #fmaF32}. */
  static double flopsF32() {
    return 2.0 * CHAINS * STEPS * F32.length();
  }

  /** The floating-point operations of a call of {@link #fmaF64}. */
  static double flopsF64() {
    return 2.0 * CHAINS * STEPS * F64.length();
  }

  /** Multiply-adds in float32. */
  @Benchmark
  public float fmaF32(Numbers numbers) {
    FloatVector a = FloatVector.broadcast(F32, numbers.factor);
    FloatVector b = FloatVector.broadcast(F32, numbers.summand);
    FloatVector s0 = b;
    FloatVector s1 = b.add(1);
    FloatVector s2 = b.add(2);
    FloatVector s3 = b.add(3);
    FloatVector s4 = b.add(4);
    FloatVector s5 = b.add(5);
    FloatVector s6 = b.add(6);
    FloatVector s7 = b.add(7);
    FloatVector s8 = b.add(8);
    FloatVector s9 = b.add(9);
    FloatVector s10 = b.add(10);
    FloatVector s11 = b.add(11);
    for (int i = 0; i < STEPS; i++) {
      s0 = s0.fma(a, b);
      s1 = s1.fma(a, b);
      s2 = s2.fma(a, b);
      s3 = s3.fma(a, b);
      s4 = s4.fma(a, b);
      s5 = s5.fma(a, b);
      s6 = s6.fma(a, b);
      s7 = s7.fma(a, b);
      s8 = s8.fma(a, b);
      s9 = s9.fma(a, b);
      s10 = s10.fma(a, b);
      s11 = s11.fma(a, b);
    }
    FloatVector low = s0.add(s1).add(s2.add(s3)).add(s4.add(s5));
    FloatVector high = s6.add(s7).add(s8.add(s9)).add(s10.add(s11));
    return low.add(high).reduceLanes(VectorOperators.ADD);
  }

  /** Multiply-adds in float64. */
  @Benchmark
  public double fmaF64(Numbers numbers) {
    DoubleVector a = DoubleVector.broadcast(F64, numbers.wideFactor);
    DoubleVector b = DoubleVector.broadcast(F64, numbers.wideSummand);
    DoubleVector s0 = b;
    DoubleVector s1 = b.add(1);
    DoubleVector s2 = b.add(2);
    DoubleVector s3 = b.add(3);
    DoubleVector s4 = b.add(4);
    DoubleVector s5 = b.add(5);
    DoubleVector s6 = b.add(6);
    DoubleVector s7 = b.add(7);
    DoubleVector s8 = b.add(8);
    DoubleVector s9 = b.add(9);
    DoubleVector s10 = b.add(10);
    DoubleVector s11 = b.add(11);
    for (int i = 0; i < STEPS; i++) {
      s0 = s0.fma(a, b);
      s1 = s1.fma(a, b);
      s2 = s2.fma(a, b);
      s3 = s3.fma(a, b);
      s4 = s4.fma(a, b);
      s5 = s5.fma(a, b);
      s6 = s6.fma(a, b);
      s7 = s7.fma(a, b);
      s8 = s8.fma(a, b);
      s9 = s9.fma(a, b);
      s10 = s10.fma(a, b);
      s11 = s11.fma(a, b);
    }
    DoubleVector low = s0.add(s1).add(s2.add(s3)).add(s4.add(s5));
    DoubleVector high = s6.add(s7).add(s8.add(s9)).add(s10.add(s11));
    return low.add(high).reduceLanes(VectorOperators.ADD);
  }

  /**
   * Reads an array and adds it up so that it must be read: four parts at once, each in order. One
   * part alone was seen to be read at two thirds of that rate where pages are small, because the
   * hardware's prefetching ends with each page.
   */
  @Benchmark
  public float read(Arrays arrays) {
    float[] x = arrays.source;
    int part = ARRAY / 4;
    FloatVector s0 = FloatVector.zero(F32);
    FloatVector s1 = s0;
    FloatVector s2 = s0;
    FloatVector s3 = s0;
    for (int i = 0; i <= part - F32.length(); i += F32.length()) {
      s0 = FloatVector.fromArray(F32, x, i).add(s0);
      s1 = FloatVector.fromArray(F32, x, i + part).add(s1);
      s2 = FloatVector.fromArray(F32, x, i + 2 * part).add(s2);
      s3 = FloatVector.fromArray(F32, x, i + 3 * part).add(s3);
    }
    return s0.add(s1).add(s2.add(s3)).reduceLanes(VectorOperators.ADD);
  }

  /** Copies an array as the JDK does. */
  @Benchmark
  public float[] copy(Arrays arrays) {
    System.arraycopy(arrays.source, 0, arrays.target, 0, ARRAY);
    return arrays.target;
  }

  /**
   * Powers of two as a softmax takes them, over and over the same array: rounding, a polynomial of
   * degree 6 on the rest, the integer added to the exponent.
   */
  @Benchmark
  public float[] exp2(SmallArrays arrays) {
    for (int pass = 0; pass < SMALL_PASSES; pass++) {
      exp2(arrays.source, arrays.target);
    }
    return arrays.target;
  }

  private static void exp2(float[] source, float[] target) {
    FloatVector rounder = FloatVector.broadcast(F32, ROUNDER);
    for (int i = 0; i <= SMALL - F32.length(); i += F32.length()) {
      FloatVector x = FloatVector.fromArray(F32, source, i);
      FloatVector rounded = x.add(rounder);
      FloatVector rest = x.sub(rounded.sub(rounder));
      FloatVector power =
          FloatVector.broadcast(F32, C6)
              .fma(rest, FloatVector.broadcast(F32, C5))
              .fma(rest, FloatVector.broadcast(F32, C4))
              .fma(rest, FloatVector.broadcast(F32, C3))
              .fma(rest, FloatVector.broadcast(F32, C2))
              .fma(rest, FloatVector.broadcast(F32, C1))
              .fma(rest, FloatVector.broadcast(F32, 1));
      power
          .reinterpretAsInts()
          .add(rounded.reinterpretAsInts().lanewise(VectorOperators.LSHL, MANTISSA_BITS))
          .reinterpretAsFloats()
          .intoArray(target, i);
    }
  }
}
