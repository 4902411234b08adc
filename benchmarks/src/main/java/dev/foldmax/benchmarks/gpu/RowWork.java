package dev.foldmax.benchmarks.gpu;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;

/** A verb on rows of a shape. */
final class RowWork implements Work {
  private static final int K = 8;

  private final Backend backend;
  private final Arena arena = Arena.ofShared();
  private final String verb;
  private final List<Tensor> inputs = new ArrayList<>();
  private final List<Tensor> outputs = new ArrayList<>();

  RowWork(Backend backend, RandomData data, Request request) {
    this.backend = backend;
    verb = request.text("verb");
    DType type = request.constant(DType.class, "type");
    long rows = request.number("rows");
    long columns = request.number("columns");
    for (int set = 0; set < request.number("sets", 1); set++) {
      inputs.add(data.tensor(arena, 3 * set, type, rows, columns));
    }
    switch (verb) {
      case "softmax" -> add(type, rows, columns);
      case "logsumexp" -> add(DType.F32, rows);
      case "topk" -> {
        add(type, rows, K);
        add(DType.I64, rows, K);
        add(DType.F32, rows, K);
      }
      default -> throw new IllegalArgumentException("verb: no such one: " + verb);
    }
  }

  private void add(DType dtype, long... shape) {
    outputs.add(backend.allocate(arena, dtype, shape));
  }

  @Override
  public int sets() {
    return inputs.size();
  }

  @Override
  public void call(int set) {
    Tensor x = inputs.get(set);
    Tensor out = outputs.getFirst();
    switch (verb) {
      case "softmax" -> backend.softmax(x, out);
      case "logsumexp" -> backend.logSumExp(x, out);
      default -> backend.topK(x, out, outputs.get(1), outputs.get(2));
    }
  }

  @Override
  public String kernel() {
    return "";
  }

  @Override
  public List<Tensor> outputs() {
    return outputs;
  }

  /** The first row of each and the last. */
  @Override
  public List<Tensor> samples() {
    List<Tensor> samples = new ArrayList<>();
    for (Tensor output : outputs) {
      samples.add(output.slice(0, 0, 1));
      samples.add(output.slice(0, output.shape(0) - 1, output.shape(0)));
    }
    return samples;
  }

  @Override
  public void close() {
    arena.close();
  }
}
