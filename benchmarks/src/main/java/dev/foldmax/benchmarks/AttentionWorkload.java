package dev.foldmax.benchmarks;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Tensor;
import dev.foldmax.benchmarks.NaiveAttention.Extras;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.SplittableRandom;

/** An {@link AttentionCase} with its tensors, ready to be computed in either way. */
final class AttentionWorkload implements AutoCloseable {
  private static final float SOFT_CAP = 20;

  private final AttentionCase shape;
  private final Backend backend;
  private final NaivePool pool;
  private final Arena arena = Arena.ofShared();
  private final Tensor q;
  private final KeyValues keyValues;
  private final Attention attention;
  private final Tensor out;
  private final Tensor naiveOut;
  private final Runnable naive;

  AttentionWorkload(AttentionCase shape, int threads) {
    this.shape = shape;
    this.backend = Backend.cpu(threads);
    this.pool = new NaivePool(threads);
    int elements = shape.heads() * shape.queries() * shape.dim();
    if (shape.storage() == Storage.F64) {
      double[] queries = RandomArrays.doubles(1, elements);
      double[] k = RandomArrays.doubles(2, stored());
      double[] v = RandomArrays.doubles(3, stored());
      double[] result = new double[elements];
      q = Tensor.of(queries, shape.heads(), shape.queries(), shape.dim());
      keyValues =
          KeyValues.dense(
              Tensor.of(k, shape.keyHeads(), shape.keys(), shape.dim()),
              Tensor.of(v, shape.keyHeads(), shape.keys(), shape.dim()));
      attention = definition(noExtras());
      naiveOut = Tensor.of(result, shape.heads(), shape.queries(), shape.dim());
      NaiveDouble plain = new NaiveDouble(shape, pool, queries, k, v);
      naive = () -> plain.attend(result);
    } else {
      float[] queries = RandomArrays.floats(1, elements);
      float[] result = new float[elements];
      StoredRows k = store(2);
      StoredRows v = store(3);
      Extras extras = extras();
      q = Tensor.of(queries, shape.heads(), shape.queries(), shape.dim());
      keyValues = withScales(KeyValues.dense(ofKeys(k), ofKeys(v)), k, v);
      attention = definition(extras);
      naiveOut = Tensor.of(result, shape.heads(), shape.queries(), shape.dim());
      NaiveAttention plain = new NaiveAttention(shape, pool, queries, k, v, extras);
      naive = () -> plain.attend(result);
    }
    out = Tensor.allocate(q.dtype(), q.shape());
  }

  /** The number of elements of keys, or of values. */
  private int stored() {
    return shape.keyHeads() * shape.keys() * shape.dim();
  }

  private Tensor ofKeys(StoredRows rows) {
    return rows.tensor(shape.keyHeads(), shape.keys(), shape.dim());
  }

  private StoredRows store(long seed) {
    int n = stored();
    return switch (shape.storage()) {
      case F32 -> new StoredRows.Floats(RandomArrays.floats(seed, n));
      case F32_NATIVE -> {
        MemorySegment segment = arena.allocate((long) n * Float.BYTES, 64);
        segment.copyFrom(MemorySegment.ofArray(RandomArrays.floats(seed, n)));
        yield new StoredRows.NativeFloats(segment);
      }
      case BF16 -> StoredRows.BrainFloats.of(RandomArrays.floats(seed, n));
      case F16 -> StoredRows.Halves.of(RandomArrays.floats(seed, n));
      case I8 -> {
        float[] scales = RandomArrays.floats(seed + 100, shape.keyHeads() * shape.keys());
        for (int i = 0; i < scales.length; i++) {
          scales[i] = (1 + scales[i] / 10) * RandomArrays.BYTE_SCALE;
        }
        yield new StoredRows.Bytes(RandomArrays.bytes(seed, n), scales);
      }
      case F64 -> throw new IllegalStateException("float64 has a naive version of its own");
    };
  }

  private KeyValues withScales(KeyValues dense, StoredRows k, StoredRows v) {
    if (k instanceof StoredRows.Bytes keys && v instanceof StoredRows.Bytes values) {
      return dense.scales(
          Tensor.of(keys.scales(), shape.keyHeads(), shape.keys()),
          Tensor.of(values.scales(), shape.keyHeads(), shape.keys()));
    }
    return dense;
  }

  private static Extras noExtras() {
    return new Extras(null, null, null, 0);
  }

  private Extras extras() {
    int pairs = shape.queries() * shape.keys();
    return switch (shape.variant()) {
      case FULL, CAUSAL, WINDOW -> noExtras();
      case BIAS -> new Extras(RandomArrays.floats(4, shape.heads() * pairs), null, null, 0);
      case BOOLEAN -> {
        SplittableRandom random = new SplittableRandom(5);
        boolean[] visible = new boolean[pairs];
        for (int i = 0; i < pairs; i++) {
          visible[i] = random.nextInt(8) != 0;
        }
        yield new Extras(null, visible, null, 0);
      }
      case ALIBI -> {
        float[] slopes = new float[shape.heads()];
        for (int h = 0; h < slopes.length; h++) {
          slopes[h] = (float) Math.pow(2, -8.0 * (h + 1) / slopes.length);
        }
        yield new Extras(null, null, slopes, 0);
      }
      case SOFT_CAP -> new Extras(null, null, null, SOFT_CAP);
    };
  }

  private Attention definition(Extras extras) {
    Attention definition =
        switch (shape.variant()) {
          case CAUSAL -> Attention.causal();
          case WINDOW -> Attention.standard().mask(Mask.window(AttentionCase.WINDOW - 1, 0));
          case FULL, BOOLEAN, BIAS, SOFT_CAP, ALIBI -> Attention.standard();
        };
    float[] bias = extras.bias();
    if (bias != null) {
      definition = definition.bias(Tensor.of(bias, shape.heads(), shape.queries(), shape.keys()));
    }
    boolean[] visible = extras.visible();
    if (visible != null) {
      definition = definition.mask(Mask.of(Tensor.of(visible, shape.queries(), shape.keys())));
    }
    float[] slopes = extras.slopes();
    if (slopes != null) {
      definition = definition.alibi(Tensor.of(slopes, slopes.length));
    }
    return extras.softCap() == 0 ? definition : definition.softCap(extras.softCap());
  }

  /** Computes it by the CPU backend, into the same tensor at each call. */
  Tensor foldmax() {
    backend.attend(q, keyValues, attention, out, null);
    return out;
  }

  /** Computes it by the naive version, into the same tensor at each call. */
  Tensor naive() {
    naive.run();
    return naiveOut;
  }

  /** Computes it by the reference, into a new float64 tensor. */
  Tensor reference() {
    Tensor exact = Tensor.allocate(DType.F64, q.shape());
    try (Backend reference = Backend.reference()) {
      reference.attend(q, keyValues, attention, exact, null);
    }
    return exact;
  }

  @Override
  public void close() {
    backend.close();
    pool.close();
    arena.close();
  }
}
