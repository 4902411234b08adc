package dev.foldmax.benchmarks;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Tensor;
import dev.foldmax.benchmarks.NaiveAttention.Extras;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;

/** The tensors of an {@link AttentionCase}. */
final class AttentionInputs implements Inputs {
  private static final float SOFT_CAP = 20;

  private final AttentionCase shape;
  private final Tensor q;
  private final KeyValues keyValues;
  private final Extras extras;
  private final Attention attention;

  AttentionInputs(AttentionCase shape) {
    this.shape = shape;
    this.q = tensor(1, shape.queryType(), queryShape(shape.dim()));
    this.keyValues = keyValues();
    this.extras = extras();
    this.attention = definition();
  }

  AttentionCase shape() {
    return shape;
  }

  /** (batch, heads, queries, dim), or if ragged (heads, batch * queries, dim). */
  Tensor q() {
    return q;
  }

  /** Keys and values in the case's layout; if dense (batch, keyHeads, keys, dim). */
  KeyValues keys() {
    return keyValues;
  }

  /** What the variant adds to the scores. */
  Extras additions() {
    return extras;
  }

  private long[] queryShape(long dim) {
    return shape.layout() == Layout.RAGGED
        ? new long[] {shape.heads(), (long) shape.batch() * shape.queries(), dim}
        : new long[] {shape.batch(), shape.heads(), shape.queries(), dim};
  }

  private static Tensor tensor(long seed, DType dtype, long... dimensions) {
    int n = Math.toIntExact(elements(dimensions));
    return switch (dtype) {
      case F64 -> Tensor.of(RandomArrays.doubles(seed, n), dimensions);
      case F32 -> Tensor.of(RandomArrays.floats(seed, n), dimensions);
      case F16, BF16 -> Tensor.of(RandomArrays.floats(seed, n), dimensions).to(dtype);
      case I8 -> Tensor.of(RandomArrays.bytes(seed, n), DType.I8, dimensions);
      case BOOL, I32, I64 -> throw new IllegalArgumentException("dtype: " + dtype);
    };
  }

  private static long elements(long... dimensions) {
    long n = 1;
    for (long size : dimensions) {
      n *= size;
    }
    return n;
  }

  private KeyValues keyValues() {
    KeyValues rows =
        switch (shape.layout()) {
          case DENSE -> KeyValues.dense(stored(2, shape.dim()), stored(3, shape.valueDim()));
          case RAGGED ->
              KeyValues.ragged(
                      stored(2, shape.dim()), stored(3, shape.valueDim()), offsets(shape.keys()))
                  .queryOffsets(offsets(shape.queries()));
          case PAGED -> paged(stored(2, shape.dim()), stored(3, shape.valueDim()));
        };
    return shape.storage() == Storage.I8
        ? rows.scales(scales(102, rows.keys()), scales(103, rows.values()))
        : rows;
  }

  private Tensor stored(long seed, long dim) {
    long heads = shape.keyHeads();
    Tensor onHeap =
        tensor(
            seed,
            shape.storage().dtype(),
            switch (shape.layout()) {
              case DENSE -> new long[] {shape.batch(), heads, shape.keys(), dim};
              case RAGGED -> new long[] {heads, (long) shape.batch() * shape.keys(), dim};
              case PAGED ->
                  new long[] {
                    (long) shape.batch() * pagesOfSequence(), heads, AttentionCase.PAGE, dim
                  };
            });
    if (shape.storage() != Storage.F32_NATIVE) {
      return onHeap;
    }
    return NativeCopy.of(onHeap, Arena.ofAuto());
  }

  private int pagesOfSequence() {
    return Math.ceilDiv(shape.keys(), AttentionCase.PAGE);
  }

  /** 0, length, 2 * length and so on, one more than there are sequences. */
  private Tensor offsets(int length) {
    int[] offsets = new int[shape.batch() + 1];
    for (int b = 0; b < offsets.length; b++) {
      offsets[b] = b * length;
    }
    return Tensor.of(offsets, offsets.length);
  }

  private KeyValues paged(Tensor keys, Tensor values) {
    int[] pages = new int[shape.batch() * pagesOfSequence()];
    SplittableRandom random = new SplittableRandom(6);
    for (int i = 0; i < pages.length; i++) { // shuffled from inside out
      int j = random.nextInt(i + 1);
      pages[i] = pages[j];
      pages[j] = i;
    }
    int[] lengths = new int[shape.batch()];
    Arrays.fill(lengths, shape.keys());
    return KeyValues.paged(
        keys,
        values,
        Tensor.of(pages, shape.batch(), pagesOfSequence()),
        Tensor.of(lengths, lengths.length));
  }

  /** One factor for each row of {@code rows}, around that which gives variance 1. */
  private static Tensor scales(long seed, Tensor rows) {
    float[] scales = RandomArrays.floats(seed, Math.toIntExact(rows.elements() / rows.shape(3)));
    for (int i = 0; i < scales.length; i++) {
      scales[i] = (1 + scales[i] / 10) * RandomArrays.BYTE_SCALE;
    }
    return Tensor.of(scales, rows.shape(0), rows.shape(1), rows.shape(2));
  }

  private Extras extras() {
    int pairs = shape.queries() * shape.keys();
    return switch (shape.variant()) {
      case FULL, PREFILLED, CAUSAL, WINDOW -> new Extras(null, null, null, 0);
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

  private Attention definition() {
    Attention definition =
        switch (shape.variant()) {
          case CAUSAL -> Attention.causal();
          case PREFILLED -> Attention.standard().phase(Phase.PREFILL);
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

  @Override
  public List<Tensor> outputs() {
    return List.of(Tensor.allocate(shape.queryType(), queryShape(shape.valueDim())));
  }

  @Override
  public void compute(Backend backend, List<Tensor> outputs) {
    backend.attend(q, keyValues, attention, outputs.getFirst(), null);
  }
}
