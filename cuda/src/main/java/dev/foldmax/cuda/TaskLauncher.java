package dev.foldmax.cuda;

import dev.foldmax.spi.AttentionCall;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.Map;

/**
 * Launches the prefill kernels that work by the tasks of task.cuh: a block for each, and after
 * that, on a small grid, those again whose outputs are not finite (repair.cuh). Belongs to one
 * backend, and to one thread at a time.
 */
final class TaskLauncher {
  private static final String ENTRY = "attend";
  private static final String SHAPE = "launchShape";

  /** Blocks of the second launch, which mostly find nothing to do. */
  private static final int REPAIRING_BLOCKS_OF_A_MULTIPROCESSOR = 2;

  // The kernel's parameters.
  private static final int ARGUMENTS = 0;
  private static final int NOTED = 1;
  private static final int TASKS = 2;
  private static final int REPAIR = 3;

  private final String source;
  private final Map<Map<String, Integer>, Compiled> compiled = new HashMap<>();
  private final Parameters parameters =
      Parameters.of(
          Arena.ofAuto(),
          AttentionArguments.LAYOUT.byteSize(),
          Long.BYTES,
          Long.BYTES,
          Integer.BYTES);

  /** A kernel, and struct LaunchShape of its source. */
  private record Compiled(Kernel kernel, int threads, int sharedBytes, int queries, int slices) {}

  /** For a source among the resources. */
  TaskLauncher(String source) {
    this.source = source;
  }

  private Compiled compile(AttentionLaunch launch, Map<String, Integer> macros) {
    int[] shape = launch.workplace().kernels().constants(source, SHAPE, macros, 4);
    return new Compiled(
        launch.kernel(source, ENTRY, macros), shape[0], shape[1], shape[2], shape[3]);
  }

  /**
   * Enqueues a call's work.
   *
   * @param macros what the kernel is compiled for; not to be changed later
   */
  void launch(AttentionLaunch launch, Map<String, Integer> macros) {
    Compiled code = compiled.computeIfAbsent(macros, absent -> compile(launch, absent));
    AttentionCall call = launch.call();
    long tasks =
        Math.ceilDiv(launch.mostQueries(), code.queries)
            * call.batch()
            * call.queryHeads()
            * code.slices;
    int blocks = Math.toIntExact(tasks);
    MemorySegment.copy(
        launch.arguments(), 0, parameters.get(ARGUMENTS), 0, AttentionArguments.LAYOUT.byteSize());
    parameters.set(NOTED, launch.scratch(tasks));
    parameters.set(TASKS, tasks);
    parameters.set(REPAIR, 0);
    launch(launch, code, blocks);
    parameters.set(REPAIR, 1);
    launch(
        launch,
        code,
        Math.min(blocks, REPAIRING_BLOCKS_OF_A_MULTIPROCESSOR * launch.device().multiprocessors()));
  }

  private void launch(AttentionLaunch launch, Compiled code, int blocks) {
    code.kernel.launch(launch.stream(), blocks, 1, 1, code.threads, code.sharedBytes, parameters);
  }
}
