package dev.foldmax.cli;

import com.sun.management.OperatingSystemMXBean;
import dev.foldmax.Availability;
import dev.foldmax.Backend;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import jdk.incubator.vector.FloatVector;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** What this machine offers. */
@Command(
    name = "info",
    description =
        "Shows the JDK, the machine, and each backend: whether it works here, and if not, why.",
    footer = {"", "Examples:", "  foldmax info", "  foldmax info --json"})
final class InfoCommand implements Runnable {
  private static final String VECTOR_MODULE = "jdk.incubator.vector";

  @Spec private CommandSpec spec;
  @Mixin private CommonOptions common;

  @Override
  public void run() {
    Report report = new Report("foldmax " + Main.Version.current());
    report.field("foldmax", Main.Version.current());
    jdk(report);
    machine(report);
    backends(report);
    report.print(spec.commandLine().getOut(), common.json);
  }

  private static void jdk(Report report) {
    String version = System.getProperty("java.runtime.version");
    String vendor = System.getProperty("java.vendor");
    String home = System.getProperty("java.home");
    report.line("JDK", version + ", " + vendor + ", in " + home);
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("version", version);
    json.put("vendor", vendor);
    json.put("home", home);
    report.field("jdk", json);
  }

  private static void machine(Report report) {
    String system = System.getProperty("os.name");
    String architecture = System.getProperty("os.arch");
    report.line("system", system + ", " + architecture);
    report.field("os", system);
    report.field("arch", architecture);

    boolean vectors = ModuleLayer.boot().findModule(VECTOR_MODULE).isPresent();
    int bits = vectors ? widestVector() : 0;
    report.line(
        "vectors", vectors ? bits + " bits" : "none without --add-modules " + VECTOR_MODULE);
    report.field("vectorBits", vectors ? bits : null);

    int cores = Runtime.getRuntime().availableProcessors();
    report.line("cores", Integer.toString(cores));
    report.field("cores", cores);

    long memory =
        ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getTotalMemorySize();
    long heap = Runtime.getRuntime().maxMemory();
    report.line("memory", Quantity.bytes(memory) + ", Java heap up to " + Quantity.bytes(heap));
    report.field("memoryBytes", memory);
    report.field("maxHeapBytes", heap);
  }

  /** A method of its own, so that nothing touches the module where it is absent. */
  private static int widestVector() {
    return FloatVector.SPECIES_PREFERRED.vectorBitSize();
  }

  private static void backends(Report report) {
    List<Map<String, Object>> json = new ArrayList<>();
    Backend.availabilities()
        .forEach(
            (name, availability) -> {
              String status =
                  switch (availability) {
                    case Availability.Available available -> "available";
                    case Availability.Absent absent -> "absent";
                    case Availability.Unusable unusable -> "unusable";
                  };
              String detail =
                  switch (availability) {
                    case Availability.Available available -> available.description();
                    case Availability.Absent absent -> absent.reason();
                    case Availability.Unusable unusable -> unusable.reason();
                  };
              report.line(name, status + ": " + detail);
              Map<String, Object> backend = new LinkedHashMap<>();
              backend.put("name", name);
              backend.put("status", status);
              backend.put(
                  availability instanceof Availability.Available ? "description" : "reason",
                  detail);
              json.add(backend);
            });
    report.field("backends", json);
  }
}
