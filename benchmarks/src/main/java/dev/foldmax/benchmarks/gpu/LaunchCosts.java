package dev.foldmax.benchmarks.gpu;

import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import dev.foldmax.cuda.CudaBackend;
import dev.foldmax.cuda.CudaGraph;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.Map;

/** What a call costs beside its work: calls that have next to none. */
final class LaunchCosts {
  private static final int HEADS = 8;
  private static final int KEY_HEADS = 2;
  private static final int KEYS = 64;
  private static final int DIM = 64;

  /** Calls that a stream takes without a wait for the device. */
  private static final int BURST = 100;

  private static final int BURSTS = 400;

  /** Calls of a graph. */
  private static final int CALLS = 200;

  /** For the JVM to compile what a call does; the first ten thousand calls take longer. */
  private static final double WARM_UP_NANOS = 1.5e9;

  private static final double NANOS_PER_MICRO = 1000;

  private LaunchCosts() {}

  /** Microseconds, by what they are of. */
  static Map<String, Double> measure(CudaBackend backend) {
    try (Arena arena = Arena.ofShared()) {
      Tensor q = random(backend, arena, 1, HEADS, 1, DIM);
      KeyValues keyValues =
          KeyValues.dense(
              random(backend, arena, 1, KEY_HEADS, KEYS, DIM),
              random(backend, arena, 1, KEY_HEADS, KEYS, DIM));
      Tensor out = backend.allocate(arena, DType.BF16, 1, HEADS, 1, DIM);
      Attention attention = Attention.standard();
      Runnable decode = () -> backend.attend(q, keyValues, attention, out, null);
      Runnable softmax = () -> backend.softmax(q, out);
      Map<String, Double> micros = new LinkedHashMap<>();
      micros.put("decode.call", ofHost(backend, decode));
      micros.put("softmax.call", ofHost(backend, softmax));
      try (CudaGraph graph = backend.capture(decode)) {
        micros.put("graph.launch", ofHost(backend, graph::launch));
      }
      micros.put("decode.inGraph", ofDevice(backend, decode));
      micros.put("softmax.inGraph", ofDevice(backend, softmax));
      return micros;
    }
  }

  private static Tensor random(CudaBackend backend, Arena arena, long... shape) {
    Tensor tensor = Tensor.allocate(DType.BF16, shape);
    for (long i = 0; i < tensor.elements(); i++) {
      tensor.setAt(i, Math.sin((double) i));
    }
    return backend.upload(arena, tensor);
  }

  /** How long the calling thread takes to enqueue a call, once warm: the median of bursts. */
  private static double ofHost(CudaBackend backend, Runnable call) {
    for (long start = System.nanoTime(); System.nanoTime() - start < WARM_UP_NANOS; ) {
      burst(backend, call);
    }
    double[] bursts = new double[BURSTS];
    for (int burst = 0; burst < BURSTS; burst++) {
      bursts[burst] = burst(backend, call);
    }
    return Prepared.Times.of(bursts, 1).median();
  }

  /** Microseconds of a call. */
  private static double burst(CudaBackend backend, Runnable call) {
    backend.synchronize();
    long start = System.nanoTime();
    for (int i = 0; i < BURST; i++) {
      call.run();
    }
    return (System.nanoTime() - start) / NANOS_PER_MICRO / BURST;
  }

  /** How long the device takes for one of many calls in a graph. */
  private static double ofDevice(CudaBackend backend, Runnable call) {
    Runnable calls =
        () -> {
          for (int i = 0; i < CALLS; i++) {
            call.run();
          }
        };
    try (CudaGraph graph = backend.capture(calls)) {
      graph.launch();
      return Prepared.Times.of(backend.time(graph::launch, BURST), CALLS).median();
    }
  }
}
