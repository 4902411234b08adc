package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Compiling and loading on a device. */
class KernelsTest {
  private static final int NEWEST = 13_000;

  /** NVRTC needs no device. */
  private static Nvrtc nvrtc() {
    NvrtcLibrary.Found found = NvrtcLibrary.found(NEWEST);
    Assumptions.assumeTrue(found.nvrtc() != null, found.problem());
    return found.nvrtc();
  }

  @Test
  void codeIsCompiledOnceAndKeptOnDisk(@TempDir Path folder) throws Exception {
    Gpu.assume();
    Nvrtc nvrtc = nvrtc();
    for (int round = 0; round < 2; round++) {
      try (Context context = new Context(Device.of(0));
          Kernels kernels = new Kernels(context, nvrtc, new CodeCache(folder))) {
        Kernel rows = kernels.get("copy.cu", "copyRows", Map.of());
        assertThat(kernels.get("copy.cu", "copyRows", Map.of())).isSameAs(rows);
        assertThat(kernels.get("copy.cu", "copyElements", Map.of())).isNotSameAs(rows);
        assertThat(rows.registers()).isPositive();
        assertThat(rows.residentBlocks(256, 0)).isPositive();
      }
      try (Stream<Path> files = Files.list(folder)) {
        assertThat(files).hasSize(1);
      }
    }
  }

  @Test
  void codeThatDoesNotLoadIsAnError(@TempDir Path folder) throws Exception {
    Gpu.assume();
    Nvrtc nvrtc = nvrtc();
    try (Context context = new Context(Device.of(0));
        Kernels kernels = new Kernels(context, nvrtc, new CodeCache(folder))) {
      assertThatExceptionOfType(CudaException.class)
          .isThrownBy(() -> kernels.get("copy.cu", "noSuchKernel", Map.of()))
          .withMessageContaining("noSuchKernel")
          .withMessageContaining("CUDA_ERROR_NOT_FOUND");
    }
  }

  @Test
  void theCompilersLogIsInTheError() {
    Nvrtc nvrtc = nvrtc();
    KernelSource broken =
        new KernelSource("broken.cu", "__global__ void f() { int x = y; }", Map.of());
    assertThatExceptionOfType(CudaException.class)
        .isThrownBy(() -> nvrtc.compile(broken, nvrtc.target(90), List.of()))
        .withMessageContaining("broken.cu")
        .withMessageContaining("identifier \"y\" is undefined");
  }

  @Test
  void olderArchitecturesGiveCodeThatTheDriverCompiles() {
    Nvrtc nvrtc = nvrtc();
    KernelSource source = KernelSource.load("copy.cu");
    byte[] ptx = nvrtc.compile(source, nvrtc.target(999), List.of("--std=c++17"));
    assertThat(new String(ptx, StandardCharsets.US_ASCII)).contains(".entry copyRows");
  }
}
