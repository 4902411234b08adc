package dev.foldmax.cli;

import dev.foldmax.Backend;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Where the work is done, how often, and what is told meanwhile. */
final class BackendOptions {
  /** What {@code --backend} takes. */
  enum Name {
    AUTO,
    CPU,
    CUDA,
    REFERENCE
  }

  @Spec(Spec.Target.MIXEE)
  private CommandSpec spec;

  @Option(
      names = "--backend",
      paramLabel = "NAME",
      converter = Choice.OfBackend.class,
      completionCandidates = Choice.OfBackend.class,
      description = "auto (a GPU if there is one, else the CPU), cpu, cuda or reference.")
  private Name backend = Name.AUTO;

  private static final String WARM_UP = "foldmax.warmUp";

  @Option(
      names = "--threads",
      paramLabel = "N",
      description = "Threads of the CPU backend, which this chooses; all cores without it.")
  private @Nullable Integer threads;

  @Option(
      names = "--repeat",
      paramLabel = "SECONDS",
      description =
          "How long to repeat the job, for its time in a warm JVM; 0 to run it once. Without this a"
              + " quick job is repeated until its times settle, 1 to 6 seconds.")
  private @Nullable Double repeatSeconds;

  @Option(
      names = "--progress",
      paramLabel = "FORM",
      converter = Choice.OfProgress.class,
      completionCandidates = Choice.OfProgress.class,
      description =
          "How to tell of the progress of a long job on the standard error stream: auto (a bar on a"
              + " terminal, else nothing), lines (one every 10 s) or none.")
  private Progress.Form progress = Progress.Form.AUTO;

  /** Refuses options that contradict each other. */
  void validate() {
    if (repeatSeconds != null && !(repeatSeconds >= 0)) {
      throw new ParameterException(
          spec.commandLine(), "--repeat: expected at least 0, got " + repeatSeconds);
    }
    if (threads == null) {
      return;
    }
    if (threads < 1) {
      throw new ParameterException(
          spec.commandLine(), "--threads: expected at least 1, got " + threads);
    }
    if (backend == Name.CUDA || backend == Name.REFERENCE) {
      throw new ParameterException(
          spec.commandLine(),
          "--threads is for the CPU backend and conflicts with --backend "
              + Choice.nameOf(backend));
    }
  }

  /** How to tell of progress. */
  Progress.Form progress() {
    return progress;
  }

  /** How long to repeat the job; null to repeat a quick one until its times settle. */
  @Nullable Double repeatSeconds() {
    return repeatSeconds;
  }

  /**
   * Opens the backend; its caller closes it. A job that is repeated is worth compiling for, so its
   * kernels are vectors from the first call: the warm-up that small calls get otherwise answers the
   * first ones sooner, in plain loops, but competes with them for cores, and a time measured before
   * it has ended would be that of the plain loops.
   */
  Backend open() {
    if (!Objects.equals(repeatSeconds, 0.0) && System.getProperty(WARM_UP) == null) {
      System.setProperty(WARM_UP, "false");
    }
    if (threads != null) {
      return Backend.cpu(threads);
    }
    return switch (backend) {
      case AUTO -> Backend.best();
      case CPU -> Backend.cpu();
      case CUDA -> Backend.cuda(0);
      case REFERENCE -> Backend.reference();
    };
  }
}
