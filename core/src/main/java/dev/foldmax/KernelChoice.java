package dev.foldmax;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Which kernel a backend takes for a call, and why not the others.
 *
 * @param kernel the kernel's name, or null where the backend declines the call altogether
 * @param declined the kernels that were considered first, each with a sentence
 */
public record KernelChoice(@Nullable String kernel, List<Declined> declined) {
  public KernelChoice {
    declined = List.copyOf(declined);
  }

  /** Whether the backend serves the call. */
  public boolean isServed() {
    return kernel != null;
  }

  /**
   * A kernel that does not serve a call.
   *
   * @param kernel its name
   * @param reason a sentence
   */
  public record Declined(String kernel, String reason) {}
}
