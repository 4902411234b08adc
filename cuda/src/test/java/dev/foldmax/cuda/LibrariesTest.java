package dev.foldmax.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.foldmax.Availability;
import dev.foldmax.Backend;
import dev.foldmax.BackendUnavailableException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Where libraries are looked for, and what is said where they are not, or not good enough. */
class LibrariesTest {
  private static final int DRIVER_12_4 = 12_040;
  private static final int DRIVER_13_0 = 13_000;

  private static Device device(int capability) {
    return new Device(1, 0, "Some GPU", capability, 10, 100 << 10, 1 << 20, 8L << 30, true);
  }

  @Test
  void thePropertyAndTheVariableNameAFileOrAFolder(@TempDir Path folder) throws IOException {
    Path library = Files.createFile(folder.resolve("libnvrtc.so.12"));
    assertThat(
            NvrtcLibrary.candidates(
                DRIVER_13_0,
                Map.of("foldmax.nvrtc", "/some/lib.so")::get,
                Map.<String, String>of()::get))
        .containsExactly("/some/lib.so");
    assertThat(
            NvrtcLibrary.candidates(
                DRIVER_13_0,
                Map.<String, String>of()::get,
                Map.of("FOLDMAX_NVRTC", folder.toString())::get))
        .containsExactly(library.toString());
  }

  @Test
  void toolkitsAndPackagesOfPythonAreSearched(@TempDir Path folder) throws IOException {
    Path toolkit = folder.resolve("toolkit/targets/x86_64-linux/lib/libnvrtc.so.12");
    Path old =
        folder.resolve("venv/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
    Path recent =
        folder.resolve("venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
    for (Path file : new Path[] {toolkit, old, recent}) {
      Files.createDirectories(file.getParent());
      Files.createFile(file);
    }
    Map<String, String> variables =
        Map.of(
            "CUDA_HOME", folder.resolve("toolkit").toString(),
            "VIRTUAL_ENV", folder.resolve("venv").toString());
    assertThat(NvrtcLibrary.candidates(DRIVER_13_0, Map.<String, String>of()::get, variables::get))
        .startsWith("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
        .containsSubsequence(recent.toString(), toolkit.toString(), old.toString());
    assertThat(NvrtcLibrary.candidates(DRIVER_12_4, Map.<String, String>of()::get, variables::get))
        .doesNotContain("libnvrtc.so.13", recent.toString())
        .contains(toolkit.toString(), old.toString());
  }

  @Test
  void eachProblemHasItsSentence() {
    assertThat(DriverLibrary.absent()).contains("no NVIDIA driver", "libcuda.so.1", "12.0");
    assertThat(DriverLibrary.tooOld(11_080).orElseThrow())
        .contains("too old", "supports CUDA 11.8", "12.0 is needed");
    assertThat(DriverLibrary.tooOld(12_000)).isEmpty();
    assertThat(Devices.NONE).contains("no GPU");
    assertThat(Devices.unsuited(device(75)).orElseThrow()).contains("Some GPU", "7.5", "8.0");
    assertThat(Devices.unsuited(device(80))).isEmpty();
    Device virtual = new Device(0, 0, "vGPU", 90, 10, 100 << 10, 1 << 20, 8L << 30, false);
    assertThat(Devices.unsuited(virtual).orElseThrow()).contains("vGPU", "no memory pools");
    assertThat(NvrtcLibrary.problem(DRIVER_13_0, null))
        .contains(
            "no NVRTC", "cuda-nvrtc-13-0", "pip install nvidia-cuda-nvrtc)", "-Dfoldmax.nvrtc");
    assertThat(NvrtcLibrary.notThere("/some/lib.so"))
        .contains("no NVRTC", "/some/lib.so", "foldmax.nvrtc", "FOLDMAX_NVRTC");
    assertThat(NvrtcLibrary.problem(DRIVER_12_4, null))
        .contains("cuda-nvrtc-12-0", "pip install nvidia-cuda-nvrtc-cu12)");
    assertThat(NvrtcLibrary.problem(DRIVER_12_4, "NVRTC 13.0 (libnvrtc.so)"))
        .startsWith("NVRTC 13.0 (libnvrtc.so) is too new for the driver, which supports CUDA 12.4");
    assertThat(DevicePool.outOfMemory(device(90), 5_000_000, 123_456))
        .isEqualTo(
            "out of memory on cuda device 1 (Some GPU): asked for 5,000,000 bytes, 123,456 of"
                + " 8,589,934,592 are free");
  }

  @Test
  void codeIsForTheDeviceOrForTheDriverToCompile() {
    int[] known = {75, 80, 86, 89, 90, 100, 120};
    assertThat(Nvrtc.target(90, known))
        .isEqualTo(new KernelCompiler.Target("--gpu-architecture=sm_90a", false));
    assertThat(Nvrtc.target(86, known))
        .isEqualTo(new KernelCompiler.Target("--gpu-architecture=sm_86", false));
    assertThat(Nvrtc.target(110, known))
        .isEqualTo(new KernelCompiler.Target("--gpu-architecture=compute_100", true));
    assertThatExceptionOfType(CudaException.class)
        .isThrownBy(() -> Nvrtc.target(70, known))
        .withMessageContaining("sm_70");
  }

  /** On any machine: either it works, or opening says why not in the same words. */
  @Test
  void theProviderIsFoundAndNeverThrows() {
    Availability availability = Backend.availabilities().get("cuda");
    switch (availability) {
      case Availability.Available available -> {
        assertThat(available.description()).contains("compute capability", "NVRTC");
        assertThatExceptionOfType(BackendUnavailableException.class)
            .isThrownBy(() -> Backend.cuda(99))
            .withMessageContaining("no cuda device 99");
        assertThatExceptionOfType(BackendUnavailableException.class)
            .isThrownBy(() -> Backend.cuda(-1))
            .withMessageContaining("no cuda device -1");
      }
      case Availability.Absent absent ->
          assertThatExceptionOfType(BackendUnavailableException.class)
              .isThrownBy(() -> Backend.cuda(0))
              .withMessage(absent.reason());
      case Availability.Unusable unusable ->
          assertThatExceptionOfType(BackendUnavailableException.class)
              .isThrownBy(() -> Backend.cuda(0))
              .withMessage(unusable.reason());
    }
  }
}
