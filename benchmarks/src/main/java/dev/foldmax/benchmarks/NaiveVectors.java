package dev.foldmax.benchmarks;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/** The float32 loops of the naive versions: whole vectors, then a scalar rest. */
final class NaiveVectors {
  static final VectorSpecies<Float> F32 = FloatVector.SPECIES_PREFERRED;
  static final int V = F32.length();

  private NaiveVectors() {}

  /** The dot product of {@code n} elements from {@code aBegin} and {@code bBegin} on. */
  static float dot(float[] a, int aBegin, float[] b, int bBegin, int n) {
    FloatVector s0 = FloatVector.zero(F32);
    FloatVector s1 = FloatVector.zero(F32);
    FloatVector s2 = FloatVector.zero(F32);
    FloatVector s3 = FloatVector.zero(F32);
    int i = 0;
    for (; i <= n - 4 * V; i += 4 * V) {
      int ai = aBegin + i;
      int bi = bBegin + i;
      s0 = FloatVector.fromArray(F32, a, ai).fma(FloatVector.fromArray(F32, b, bi), s0);
      s1 = FloatVector.fromArray(F32, a, ai + V).fma(FloatVector.fromArray(F32, b, bi + V), s1);
      s2 =
          FloatVector.fromArray(F32, a, ai + 2 * V)
              .fma(FloatVector.fromArray(F32, b, bi + 2 * V), s2);
      s3 =
          FloatVector.fromArray(F32, a, ai + 3 * V)
              .fma(FloatVector.fromArray(F32, b, bi + 3 * V), s3);
    }
    for (; i <= n - V; i += V) {
      s0 =
          FloatVector.fromArray(F32, a, aBegin + i)
              .fma(FloatVector.fromArray(F32, b, bBegin + i), s0);
    }
    float sum = s0.add(s1).add(s2.add(s3)).reduceLanes(VectorOperators.ADD);
    for (; i < n; i++) {
      sum = Math.fma(a[aBegin + i], b[bBegin + i], sum);
    }
    return sum;
  }

  /** {@code y += a * x} over {@code n} elements. */
  static void axpy(float a, float[] x, int xBegin, float[] y, int yBegin, int n) {
    FloatVector factor = FloatVector.broadcast(F32, a);
    int i = 0;
    for (; i <= n - V; i += V) {
      FloatVector.fromArray(F32, x, xBegin + i)
          .fma(factor, FloatVector.fromArray(F32, y, yBegin + i))
          .intoArray(y, yBegin + i);
    }
    for (; i < n; i++) {
      y[yBegin + i] = Math.fma(a, x[xBegin + i], y[yBegin + i]);
    }
  }

  /** The largest of the elements {@code begin} to {@code end - 1}; -inf of none. */
  static float max(float[] x, int begin, int end) {
    FloatVector m0 = FloatVector.broadcast(F32, Float.NEGATIVE_INFINITY);
    FloatVector m1 = m0;
    FloatVector m2 = m0;
    FloatVector m3 = m0;
    int i = begin;
    for (; i <= end - 4 * V; i += 4 * V) {
      m0 = m0.max(FloatVector.fromArray(F32, x, i));
      m1 = m1.max(FloatVector.fromArray(F32, x, i + V));
      m2 = m2.max(FloatVector.fromArray(F32, x, i + 2 * V));
      m3 = m3.max(FloatVector.fromArray(F32, x, i + 3 * V));
    }
    for (; i <= end - V; i += V) {
      m0 = m0.max(FloatVector.fromArray(F32, x, i));
    }
    float max = m0.max(m1).max(m2.max(m3)).reduceLanes(VectorOperators.MAX);
    for (; i < end; i++) {
      max = Math.max(max, x[i]);
    }
    return max;
  }

  /** Writes {@code exp(x - max)} to {@code out}, which may be x itself, and returns the sum. */
  static float exponentials(float[] x, int begin, int end, float max, float[] out, int outBegin) {
    FloatVector s0 = FloatVector.zero(F32);
    FloatVector s1 = FloatVector.zero(F32);
    int shift = outBegin - begin;
    int i = begin;
    for (; i <= end - 2 * V; i += 2 * V) {
      FloatVector e0 = exp(FloatVector.fromArray(F32, x, i), max);
      FloatVector e1 = exp(FloatVector.fromArray(F32, x, i + V), max);
      e0.intoArray(out, i + shift);
      e1.intoArray(out, i + V + shift);
      s0 = s0.add(e0);
      s1 = s1.add(e1);
    }
    for (; i < end; i += V) {
      VectorMask<Float> mask = F32.indexInRange(i, end);
      FloatVector e = exp(FloatVector.fromArray(F32, x, i, mask), max);
      e.intoArray(out, i + shift, mask);
      s0 = s0.add(e, mask);
    }
    return s0.add(s1).reduceLanes(VectorOperators.ADD);
  }

  /** The sum of {@code exp(x - max)}. */
  static float sumOfExponentials(float[] x, int begin, int end, float max) {
    FloatVector s0 = FloatVector.zero(F32);
    FloatVector s1 = FloatVector.zero(F32);
    int i = begin;
    for (; i <= end - 2 * V; i += 2 * V) {
      s0 = s0.add(exp(FloatVector.fromArray(F32, x, i), max));
      s1 = s1.add(exp(FloatVector.fromArray(F32, x, i + V), max));
    }
    for (; i < end; i += V) {
      VectorMask<Float> mask = F32.indexInRange(i, end);
      s0 = s0.add(exp(FloatVector.fromArray(F32, x, i, mask), max), mask);
    }
    return s0.add(s1).reduceLanes(VectorOperators.ADD);
  }

  private static FloatVector exp(FloatVector x, float max) {
    return x.sub(max).lanewise(VectorOperators.EXP);
  }

  /** Writes {@code x * factor + summand} to {@code out}, which may be x itself. */
  static void affine(
      float[] x, int begin, int end, float factor, float summand, float[] out, int outBegin) {
    FloatVector a = FloatVector.broadcast(F32, factor);
    FloatVector b = FloatVector.broadcast(F32, summand);
    int shift = outBegin - begin;
    int i = begin;
    for (; i <= end - V; i += V) {
      FloatVector.fromArray(F32, x, i).fma(a, b).intoArray(out, i + shift);
    }
    for (; i < end; i++) {
      out[i + shift] = Math.fma(x[i], factor, summand);
    }
  }

  /** {@code cap * tanh(x / cap)} in place. */
  static void softCap(float[] x, int begin, int end, float cap) {
    float inverse = 1 / cap;
    int i = begin;
    for (; i <= end - V; i += V) {
      FloatVector.fromArray(F32, x, i)
          .mul(inverse)
          .lanewise(VectorOperators.TANH)
          .mul(cap)
          .intoArray(x, i);
    }
    for (; i < end; i++) {
      x[i] = cap * (float) Math.tanh(x[i] * inverse);
    }
  }
}
