package dev.foldmax.benchmarks.gpu;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Rescale;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Attention of a shape. */
final class AttentionWork implements Work {
  /** The factor of each row of keys and values of I8. */
  private static final double SCALE_OF_I8 = 0.02;

  /** The distance of pages that follow one another, odd: the number of pages is a power of 2. */
  private static final long PAGE_STEP = 40_503;

  private final Backend backend;
  private final Arena arena = Arena.ofShared();
  private final Attention attention;
  private final List<Tensor> queries = new ArrayList<>();
  private final List<KeyValues> keyValues = new ArrayList<>();
  private final Tensor out;

  AttentionWork(Backend backend, RandomData data, Request request) {
    this.backend = backend;
    Shape shape = Shape.of(request);
    attention = attention(backend, arena, request, shape.heads);
    int sets = request.number("sets", 1);
    for (int set = 0; set < sets; set++) {
      queries.add(
          data.tensor(
              arena, 3 * set, shape.type, shape.batch, shape.heads, shape.queries, shape.dim));
      keyValues.add(keyValues(backend, arena, data, 3 * set + 1, shape));
    }
    out =
        backend.allocate(
            arena, shape.type, shape.batch, shape.heads, shape.queries, shape.valueDim);
  }

  private record Shape(
      int batch,
      int heads,
      int keyHeads,
      int queries,
      int keys,
      int dim,
      int valueDim,
      int page,
      DType type,
      DType cacheType) {
    static Shape of(Request request) {
      DType type = request.constant(DType.class, "type");
      int heads = request.number("heads");
      int keys = request.number("keys");
      int dim = request.number("dim");
      return new Shape(
          request.number("batch"),
          heads,
          request.number("keyHeads", heads),
          request.number("queries", keys),
          keys,
          dim,
          request.number("valueDim", dim),
          request.number("page", 0),
          type,
          request.has("cacheType") ? request.constant(DType.class, "cacheType") : type);
    }
  }

  private static Attention attention(Backend backend, Arena arena, Request request, int heads) {
    Mask mask = request.text("mask", "none").equals("causal") ? Mask.causal() : Mask.none();
    if (request.has("window")) { // so many keys, a query's own included
      mask = mask.and(Mask.window(request.number("window") - 1, 0));
    }
    Attention attention = Attention.standard().mask(mask).softCap(request.number("softCap", 0));
    if (request.has("rescale")) {
      attention = attention.rescale(request.constant(Rescale.class, "rescale"));
    }
    if (request.has("sinks")) {
      float[] sinks = new float[heads];
      for (int h = 0; h < heads; h++) {
        sinks[h] = (float) h / heads;
      }
      attention = attention.sinks(backend.upload(arena, Tensor.of(sinks, heads)));
    }
    if (request.has("alibi")) {
      float[] slopes = new float[heads];
      for (int h = 0; h < heads; h++) {
        slopes[h] = (float) Math.pow(2, -8.0 * (h + 1) / heads);
      }
      attention = attention.alibi(backend.upload(arena, Tensor.of(slopes, heads)));
    }
    return attention;
  }

  private static KeyValues keyValues(
      Backend backend, Arena arena, RandomData data, int number, Shape shape) {
    long batch = shape.batch;
    long length = shape.keys;
    if (shape.page > 0) {
      batch = (long) shape.batch * shape.keys / shape.page;
      length = shape.page;
    }
    Tensor keys =
        data.tensor(arena, number, shape.cacheType, batch, shape.keyHeads, length, shape.dim);
    Tensor values =
        data.tensor(
            arena, number + 1, shape.cacheType, batch, shape.keyHeads, length, shape.valueDim);
    KeyValues all =
        shape.page > 0 ? paged(keys, values, shape, batch) : KeyValues.dense(keys, values);
    if (shape.cacheType != DType.I8) {
      return all;
    }
    Tensor scales = Tensor.allocate(DType.F32, batch, shape.keyHeads, length);
    scales.fill(SCALE_OF_I8);
    Tensor uploaded = backend.upload(arena, scales);
    return all.scales(uploaded, uploaded);
  }

  private static KeyValues paged(Tensor keys, Tensor values, Shape shape, long pages) {
    int[] table = new int[Math.toIntExact(pages)];
    for (int n = 0; n < pages; n++) {
      table[n] = (int) (n * PAGE_STEP % pages);
    }
    int[] lengths = new int[shape.batch];
    Arrays.fill(lengths, shape.keys);
    return KeyValues.paged(
        keys,
        values,
        Tensor.of(table, shape.batch, pages / shape.batch),
        Tensor.of(lengths, shape.batch));
  }

  @Override
  public int sets() {
    return queries.size();
  }

  @Override
  public void call(int set) {
    backend.attend(queries.get(set), keyValues.get(set), attention, out, null);
  }

  @Override
  public String kernel() {
    return String.valueOf(
        backend.explain(queries.getFirst(), keyValues.getFirst(), attention).kernel());
  }

  @Override
  public List<Tensor> outputs() {
    return List.of(out);
  }

  /** The first head and the last. */
  @Override
  public List<Tensor> samples() {
    Tensor last = out.select(0, out.shape(0) - 1);
    return List.of(out.select(0, 0).select(0, 0), last.select(0, last.shape(0) - 1));
  }

  @Override
  public void close() {
    arena.close();
  }
}
