package dev.foldmax.benchmarks.gpu;

import dev.foldmax.Backend;
import dev.foldmax.cuda.CudaBackend;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Foldmax's side of the GPU benchmark: does what the lines of its standard input ask for, and
 * answers each with one line, {@code ok} and values or {@code error} and a reason.
 *
 * <ul>
 *   <li>{@code describe}: the device
 *   <li>{@code prepare case=NAME ...}: makes the tensors of a case and calls it; what else it takes
 *       is read by {@link AttentionWork} and {@link RowWork}
 *   <li>{@code time case=NAME heat=MS measure=MS}: microseconds of a call
 *   <li>{@code samples case=NAME file=PATH}: writes parts of its outputs
 *   <li>{@code release case=NAME}
 *   <li>{@code costs}: see {@link LaunchCosts}
 * </ul>
 */
public final class GpuBenchmark {
  private final CudaBackend backend;
  private final RandomData data;
  private final Map<String, Prepared> cases = new HashMap<>();

  private GpuBenchmark(CudaBackend backend, RandomData data) {
    this.backend = backend;
    this.data = data;
  }

  /**
   * Serves until the input ends.
   *
   * @param args the folder with random data, see {@link RandomData}
   */
  public static void main(String[] args) throws IOException {
    PrintStream replies = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    try (CudaBackend backend = (CudaBackend) Backend.cuda(0);
        Arena arena = Arena.ofShared()) {
      GpuBenchmark benchmark =
          new GpuBenchmark(backend, new RandomData(backend, arena, Path.of(args[0])));
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        replies.println(benchmark.answer(line));
      }
      benchmark.cases.values().forEach(Prepared::close);
    }
  }

  private String answer(String line) {
    try {
      String answer = serve(Request.of(line));
      return answer.isEmpty() ? "ok" : "ok " + answer;
    } catch (IOException | RuntimeException e) {
      e.printStackTrace();
      return "error " + e.toString().replaceAll("\\s+", " ");
    }
  }

  private String serve(Request request) throws IOException {
    return switch (request.verb()) {
      case "describe" -> backend.description();
      case "prepare" -> prepare(request);
      case "time" -> {
        Prepared.Times times =
            find(request).time(request.number("heat"), request.number("measure"));
        yield String.format(
            Locale.ROOT,
            "median=%.3f least=%.3f most=%.3f repetitions=%d",
            times.median(),
            times.least(),
            times.most(),
            times.repetitions());
      }
      case "samples" -> {
        find(request).writeSamples(Path.of(request.text("file")));
        yield "";
      }
      case "release" -> {
        find(request).close();
        cases.remove(request.text("case"));
        yield "";
      }
      case "costs" ->
          LaunchCosts.measure(backend).entrySet().stream()
              .map(cost -> String.format(Locale.ROOT, "%s=%.3f", cost.getKey(), cost.getValue()))
              .collect(Collectors.joining(" "));
      default -> throw new IllegalArgumentException("no such verb: " + request.verb());
    };
  }

  private String prepare(Request request) {
    Work work =
        request.has("heads")
            ? new AttentionWork(backend, data, request)
            : new RowWork(backend, data, request);
    Prepared prepared = new Prepared(backend, work, request.has("graph"));
    cases.put(request.text("case"), prepared);
    return work.kernel();
  }

  private Prepared find(Request request) {
    Prepared prepared = cases.get(request.text("case"));
    if (prepared == null) {
      throw new IllegalArgumentException("case: not prepared: " + request.text("case"));
    }
    return prepared;
  }
}
