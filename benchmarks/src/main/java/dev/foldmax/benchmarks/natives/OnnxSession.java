package dev.foldmax.benchmarks.natives;

import static dev.foldmax.benchmarks.natives.NativeFunctions.POINTER;

import dev.foldmax.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * A model with its inputs and outputs bound to memory once, so that a call only computes.
 *
 * <p>Not thread-safe.
 */
public final class OnnxSession implements AutoCloseable {
  private final Arena arena = Arena.ofShared();
  private final OnnxLibrary library;
  private final MemorySegment session;
  private final List<MemorySegment> tensors = new ArrayList<>();
  private final Values inputs;
  private final Values outputs;

  /**
   * A named tensor over native memory, which has to outlive the session.
   *
   * @param name in the model
   * @param data as large as the shape says
   * @param dtype the type of its elements
   * @param shape row-major; empty for a single number
   */
  @SuppressWarnings("ArrayRecordComponent") // handed on, never compared
  public record Binding(String name, MemorySegment data, DType dtype, long... shape) {}

  /** Names and values as the library takes them: arrays of pointers. */
  private record Values(MemorySegment names, MemorySegment tensors, long count) {}

  /** Opens a model for a number of threads, the calling one included. */
  public OnnxSession(
      OnnxLibrary library,
      OnnxModel model,
      int threads,
      List<Binding> inputs,
      List<Binding> outputs) {
    this.library = library;
    this.session = library.createSession(model.toBytes(), threads);
    this.inputs = bind(inputs);
    this.outputs = bind(outputs);
  }

  private Values bind(List<Binding> bindings) {
    MemorySegment names = arena.allocate(POINTER, bindings.size());
    MemorySegment values = arena.allocate(POINTER, bindings.size());
    for (int i = 0; i < bindings.size(); i++) {
      Binding binding = bindings.get(i);
      MemorySegment tensor = library.createTensor(binding.data(), binding.dtype(), binding.shape());
      tensors.add(tensor);
      names.setAtIndex(POINTER, i, arena.allocateFrom(binding.name()));
      values.setAtIndex(POINTER, i, tensor);
    }
    return new Values(names, values, bindings.size());
  }

  /** Computes the outputs from what the inputs' memory holds now. */
  public void run() {
    library.run(
        session,
        inputs.names,
        inputs.tensors,
        inputs.count,
        outputs.names,
        outputs.tensors,
        outputs.count);
  }

  @Override
  public void close() {
    tensors.forEach(library::releaseTensor);
    library.releaseSession(session);
    arena.close();
  }
}
