package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import dev.foldmax.spi.DeviceMemory;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The bytes that kernels are given: against arguments.cuh itself, and against calls. */
class AttentionArgumentsTest {
  private static final Map<String, StructLayout> STRUCTURES = new LinkedHashMap<>();

  static {
    STRUCTURES.put("Matrix", AttentionArguments.MATRIX);
    STRUCTURES.put("Broadcast", AttentionArguments.BROADCAST);
    STRUCTURES.put("Sequence", AttentionArguments.SEQUENCE);
    STRUCTURES.put("AttentionArguments", AttentionArguments.LAYOUT);
  }

  /** A C++ compiler's own offsets of the header's fields. */
  @Test
  void everyFieldLiesWhereTheHeaderPutsIt(@TempDir Path folder) throws Exception {
    StringBuilder program = new StringBuilder("#include <cstddef>\n#include <cstdio>\n");
    program.append(KernelSource.load("arguments.cuh").text());
    program.append("int main() {\n");
    StringBuilder expected = new StringBuilder();
    STRUCTURES.forEach(
        (name, layout) -> {
          program.append("printf(\"%s %%zu\\n\", sizeof(%1$s));\n".formatted(name));
          expected.append("%s %d\n".formatted(name, layout.byteSize()));
          for (MemoryLayout member : layout.memberLayouts()) {
            String field = member.name().orElseThrow();
            program.append(
                "printf(\"%1$s.%2$s %%zu\\n\", offsetof(%1$s, %2$s));\n".formatted(name, field));
            expected.append(
                "%s.%s %d\n"
                    .formatted(name, field, layout.byteOffset(PathElement.groupElement(field))));
          }
        });
    program.append("}\n");
    Path source = folder.resolve("offsets.cpp");
    Files.writeString(source, program);
    Path binary = folder.resolve("offsets");
    run("c++", "-std=c++17", "-w", "-o", binary.toString(), source.toString());
    assertThat(run(binary.toString())).isEqualTo(expected.toString());
  }

  private static String run(String... command) throws IOException, InterruptedException {
    Process process;
    try {
      process = new ProcessBuilder(command).redirectErrorStream(true).start();
    } catch (IOException e) {
      return Assumptions.abort(command[0] + " is not installed");
    }
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
    assertThat(process.exitValue()).as(output).isZero();
    return output;
  }

  /** Memory of no device, of which nothing but the address is used. */
  private record Imagined(long address) implements DeviceMemory {
    @Override
    public String device() {
      return "no device";
    }

    @Override
    public long byteSize() {
      return Long.MAX_VALUE;
    }
  }

  private static Tensor at(long address, DType dtype, long... shape) {
    return Tensor.on(new Imagined(address), dtype, shape);
  }

  private static long field(MemorySegment memory, String field, String inner) {
    StructLayout layout =
        inner.equals("block") || inner.equals("row")
            ? AttentionArguments.MATRIX
            : AttentionArguments.BROADCAST;
    return memory.get(
        JAVA_LONG,
        AttentionArguments.offset(field) + layout.byteOffset(PathElement.groupElement(inner)));
  }

  @Test
  void tensorsAreAddressesAndStrides() {
    try (Arena arena = Arena.ofConfined()) {
      AttentionArguments arguments =
          new AttentionArguments(arena.allocate(AttentionArguments.LAYOUT));
      MemorySegment memory = arguments.memory();
      arguments.setQ(at(0x1000, DType.BF16, 2, 5, 7, 64).permute(0, 2, 1, 3));
      assertThat(memory.get(JAVA_LONG, 0)).isEqualTo(0x1000);
      assertThat(field(memory, "q", "block")).isEqualTo(5 * 7 * 64);
      assertThat(field(memory, "q", "row")).isEqualTo(7 * 64);
      assertThat(memory.get(JAVA_INT, 32)).isEqualTo(2);

      arguments.setBias(at(0x2000, DType.F32, 5, 1, 9));
      assertThat(field(memory, "bias", "sequence")).isZero();
      assertThat(field(memory, "bias", "head")).isEqualTo(9);
      assertThat(field(memory, "bias", "query")).isZero();
      assertThat(field(memory, "bias", "key")).isEqualTo(1);

      arguments.setSlopes(at(0x3000, DType.F64, 2, 5));
      assertThat(field(memory, "slope", "sequence")).isEqualTo(5);
      assertThat(field(memory, "slope", "head")).isEqualTo(1);
      arguments.setSlopes(at(0x3000, DType.F64, 5));
      assertThat(field(memory, "slope", "sequence")).isZero();

      arguments.setSinks(at(0x4000, DType.F16, 5));
      assertThat(field(memory, "sink", "data")).isEqualTo(0x4000);
      assertThat(field(memory, "sink", "head")).isEqualTo(1);

      arguments.setLse(null);
      assertThat(field(memory, "lse", "data")).isZero();
      arguments.setLse(at(0x5000, DType.F32, 2, 5, 7));
      assertThat(field(memory, "lse", "sequence")).isEqualTo(35);
      assertThat(field(memory, "lse", "head")).isEqualTo(7);
      assertThat(field(memory, "lse", "query")).isEqualTo(1);

      arguments.addMask(at(0x6000, DType.BOOL, 7, 9));
      arguments.addMask(at(0x7000, DType.BOOL, 9));
      assertThat(memory.get(JAVA_INT, AttentionArguments.offset("maskCount"))).isEqualTo(2);
      assertThat(field(memory, "masks", "query")).isEqualTo(9);
      assertThat(memory.get(JAVA_LONG, AttentionArguments.offset("masks") + 48)).isEqualTo(0x7000);
    }
  }

  @Test
  void numbersAreTheCalls() {
    Tensor q = Tensor.allocate(DType.F32, 2, 6, 3, 16);
    Tensor k = Tensor.allocate(DType.F32, 2, 2, 10, 16);
    Tensor v = Tensor.allocate(DType.F32, 2, 2, 10, 24);
    AttentionCall call =
        AttentionCall.withoutOutput(
            q,
            KeyValues.ring(k, v, Tensor.of(new int[] {100, 7}, 2), Tensor.of(new int[] {10, 4}, 2)),
            Attention.causal().softCap(30).lazyRescale(5).alibi(Tensor.of(new float[6], 6)));
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment memory = arena.allocate(AttentionArguments.LAYOUT);
      new AttentionArguments(memory).setNumbers(call);
      assertThat(List.of("layout", "batch", "queryHeads", "keyHeads", "keyDim", "valueDim"))
          .extracting(name -> memory.get(JAVA_INT, AttentionArguments.offset(name)))
          .containsExactly(2, 2, 6, 2, 16, 24);
      assertThat(memory.get(JAVA_LONG, AttentionArguments.offset("rows"))).isEqualTo(10);
      assertThat(List.of("scale", "softCap", "tau"))
          .extracting(name -> memory.get(JAVA_FLOAT, AttentionArguments.offset(name)))
          .containsExactly(0.25f, 30f, 5f);

      MemorySegment sequence = arena.allocate(AttentionArguments.SEQUENCE);
      AttentionArguments.writeSequence(sequence, 0, call, 1, 3);
      long far = SequenceBounds.FAR;
      assertThat(sequence.toArray(JAVA_LONG))
          .containsExactly(1, 0, 3, 7, 11, 1, 0, -far, 9, far, far, -far, -far, 8);
    }
  }

  @Test
  void packedAndRaggedSequencesSayWhereTheyBegin() {
    Tensor k = Tensor.allocate(DType.F32, 1, 20, 8);
    AttentionCall call =
        AttentionCall.withoutOutput(
            Tensor.allocate(DType.F32, 1, 9, 8),
            KeyValues.ragged(k, k, Tensor.of(new int[] {2, 5, 19}, 3))
                .queryOffsets(Tensor.of(new int[] {1, 4, 8}, 3)),
            Attention.standard());
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment sequence = arena.allocate(AttentionArguments.SEQUENCE);
      AttentionArguments.writeSequence(sequence, 0, call, 1, 0);
      assertThat(sequence.toArray(JAVA_LONG)).startsWith(0, 4, 0, 0, 14, 0, 5);
    }
  }

  private static AttentionCall ragged(Tensor q, Tensor k, long... offsets) {
    Tensor where = Tensor.of(offsets, offsets.length);
    return AttentionCall.withoutOutput(
        q, KeyValues.ragged(k, k, where).queryOffsets(where), Attention.standard());
  }

  /** Rows are 64-bit numbers all the way; the one kernel that has fewer bits says so. */
  @Test
  void rowsPastThirtyBitsAreNeverCutOff() {
    long many = 1L << 33;
    Tensor x = at(0x1000, DType.BF16, 1, many, 8);
    AttentionCall call = ragged(x, x, 0, many - 40, many);
    long[] fields = AttentionArguments.sequenceFields(call, 1, 40);
    assertThat(fields).startsWith(0, many - 40, 40, 0, 40, 0, many - 40);
    assertThatIllegalArgumentException()
        .isThrownBy(() -> HopperPrefill.checkRows(call))
        .withMessageStartingWith("q: queries of ")
        .withMessageContaining("8589934592 rows")
        .withMessageContaining("at most 1073741824");

    Tensor most = at(0x1000, DType.BF16, 1, HopperPrefill.FAR, 8);
    HopperPrefill.checkRows(ragged(most, most, 0, 40, HopperPrefill.FAR));
    Tensor oneMore = at(0x1000, DType.BF16, 1, HopperPrefill.FAR + 1, 8);
    assertThatIllegalArgumentException()
        .isThrownBy(() -> HopperPrefill.checkRows(ragged(most, oneMore, 0, 40)))
        .withMessageStartingWith("keyValues: keys of ")
        .withMessageContaining("1073741825 rows");
  }

  @Test
  void pagesThatKernelsCannotNameAreRefused() {
    long pages = (1L << 31) + 5;
    Tensor pool = at(0x1000, DType.F16, pages, 1, 16, 8);
    Tensor table = Tensor.of(new long[] {Integer.MAX_VALUE, pages - 1}, 1, 2);
    KeyValues keyValues = KeyValues.paged(pool, pool, table, Tensor.of(new int[] {32}, 1));
    assertThat(AttentionKernels.page(keyValues, 0, 15)).isEqualTo(Integer.MAX_VALUE);
    assertThatIllegalArgumentException()
        .isThrownBy(() -> AttentionKernels.page(keyValues, 0, 16))
        .withMessageStartingWith("blockTable: entry (0, 1) is 2147483652");
  }
}
