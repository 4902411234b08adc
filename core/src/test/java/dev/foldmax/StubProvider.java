package dev.foldmax;

import org.jspecify.annotations.Nullable;

/** Offers whatever backend a test puts here; absent otherwise. */
public final class StubProvider implements BackendProvider {
  static volatile Availability availability = new Availability.Absent("a test");
  static volatile @Nullable Backend backend;

  /** For the service loader. */
  public StubProvider() {}

  @Override
  public String name() {
    return "stub";
  }

  @Override
  public Availability availability() {
    return availability;
  }

  @Override
  public Backend open(int device) {
    Backend opened = backend;
    if (opened == null) {
      throw new BackendUnavailableException("no stub");
    }
    return opened;
  }
}
