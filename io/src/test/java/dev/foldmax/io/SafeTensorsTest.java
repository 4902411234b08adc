package dev.foldmax.io;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class SafeTensorsTest {
  @TempDir Path folder;

  @Test
  void readsBackWhatItWrites() throws IOException {
    Random random = new Random(1);
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    for (DType dtype : DType.values()) {
      Stream.concat(
              Samples.shapes().map(shape -> Samples.random(random, dtype, shape)),
              Samples.strided(random, dtype))
          .forEach(tensor -> tensors.put("tensor " + tensors.size(), tensor));
    }
    tensors.put("", Tensor.of(new int[] {1}, 1));
    tensors.put("x".repeat(100_000), Tensor.of(new int[] {2}, 1));
    Map<String, String> metadata = Map.of("format", "pt", "", "", "é \"\\\n\u0000😀", "\t😀");
    Path path = folder.resolve("a.safetensors");

    SafeTensors.write(path, tensors, metadata);

    try (SafeTensors file = SafeTensors.open(path)) {
      assertThat(file.metadata()).isEqualTo(metadata);
      assertThat(file.names()).isEqualTo(tensors.keySet());
      tensors.forEach(
          (name, tensor) -> {
            Tensor read = file.tensor(name);
            assertThat(read).hasToString(tensor.toString());
            assertThat(Samples.bits(read)).isEqualTo(Samples.bits(tensor));
            assertThat(read.segment().isReadOnly()).isTrue();
            assertThat(read.isContiguous()).isTrue();
            assertThat(read.segment().address() % read.dtype().bytes()).isZero();
          });
    }
  }

  @Test
  void writesTheBytesOfTheFormat() throws IOException {
    Path path = folder.resolve("a.safetensors");
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    tensors.put("b", Tensor.of(new byte[] {7, 8}, DType.I8, 2));
    tensors.put("z", Tensor.of(new int[] {1}));
    tensors.put("a", Tensor.of(new int[] {-1}, 1, 1));

    SafeTensors.write(path, tensors, Map.of("y", "1", "x", "2"));

    String header =
        "{\"__metadata__\":{\"x\":\"2\",\"y\":\"1\"},"
            + "\"a\":{\"dtype\":\"I32\",\"shape\":[1,1],\"data_offsets\":[0,4]},"
            + "\"z\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[4,8]},"
            + "\"b\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[8,10]}}";
    String padding = " ".repeat(Math.floorMod(-header.length(), 8));
    assertThat(path)
        .hasBinaryContent(
            Samples.safetensors(header + padding, new byte[] {-1, -1, -1, -1, 1, 0, 0, 0, 7, 8}));
  }

  @Test
  void writesAFileWithoutTensors() throws IOException {
    Path path = folder.resolve("a.safetensors");
    SafeTensors.write(path, Map.of(), Map.of());

    assertThat(path).hasBinaryContent(Samples.safetensors("{}      "));
    try (SafeTensors file = SafeTensors.open(path)) {
      assertThat(file.names()).isEmpty();
      assertThat(file.metadata()).isEmpty();
    }
  }

  /** A file of the reference implementation; {@code make_fixtures.py} says what it holds. */
  @Test
  void readsTheReferenceImplementationsFile() throws IOException {
    try (SafeTensors file = SafeTensors.open(Samples.fixture(folder, "all-types.safetensors"))) {
      assertThat(file.metadata()).isEqualTo(Map.of("format", "np", "note", "line\nbreak"));
      assertThat(file.entries().stream().map(SafeTensors.Entry::name))
          .isEqualTo(List.copyOf(file.names()));
      Map<String, String> expected =
          Map.of(
              "f64", "F64(2, 3)",
              "f32", "F32(2, 3)",
              "f16", "F16(5)",
              "bf16", "BF16(3, 1, 2)",
              "i8", "I8(7)",
              "bool", "BOOL(3)",
              "i32", "I32()",
              "i64", "I64(0, 4)",
              "naïve \"name\"\n", "F32(1)");
      expected.forEach(
          (name, description) -> {
            Tensor tensor = file.tensor(name);
            assertThat(tensor).hasToString(description);
            double[] values = tensor.toDoubleArray();
            for (int i = 0; i < values.length; i++) {
              assertThat(values[i]).isEqualTo(name.equals("bool") ? (i == 2 ? 0 : 1) : i - 2);
            }
          });
    }
  }

  @Test
  void listsTensorsOfOtherTypesAndRefusesThemAlone() throws IOException {
    try (SafeTensors file = SafeTensors.open(Samples.fixture(folder, "all-types.safetensors"))) {
      for (String name : List.of("u8", "i16", "f8")) {
        assertThat(file.has(name)).isTrue();
        assertThatThrownBy(() -> file.tensor(name))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessageContaining("tensor \"" + name + "\" is of dtype ")
            .hasMessageContaining("; Foldmax reads [F64, F32, F16, BF16, I8, BOOL, I32, I64]");
      }
      assertThat(file.entries())
          .contains(new SafeTensors.Entry("f8", "F8_E4M3", List.of(3L), 108, 111))
          .filteredOn(entry -> entry.type().isEmpty())
          .extracting(SafeTensors.Entry::dtype)
          .containsExactlyInAnyOrder("U8", "I16", "F8_E4M3");
    }
  }

  @Test
  void namesWhatItHasWhenAskedForSomethingElse() throws IOException {
    try (SafeTensors file = open(Samples.safetensors(entry("q", "I8", "1", 0, 1), (byte) 1))) {
      assertThat(file.has("k")).isFalse();
      assertThatThrownBy(() -> file.tensor("k"))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageEndingWith(": tensor \"k\" is not there; the file has 1, first [q]");
    }
  }

  @Test
  void readsTensorsUnalignedAndInAnyOrder() throws IOException {
    // The header ends at an odd offset, wide types lie behind narrow ones, names go backwards.
    String header =
        "{\"c\":{\"data_offsets\":[3,11],\"shape\":[1],\"dtype\":\"F64\"},"
            + "\"b\":{\"dtype\":\"F16\",\"shape\":[1,1],\"data_offsets\":[1,3]},"
            + "\"a\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]},"
            + "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[3,3]}}";
    String padding = header.length() % 2 == 0 ? " " : "";
    byte[] data = {1, 0, 0x3c, 0, 0, 0, 0, 0, 0, 0, 0x40};
    try (SafeTensors file = open(Samples.safetensors(header + padding, data))) {
      assertThat(file.names()).containsExactly("c", "b", "a", "empty");
      assertThat(file.tensor("a").toFloatArray()).containsExactly(1);
      assertThat(file.tensor("b").toFloatArray()).containsExactly(1);
      assertThat(file.tensor("c").toFloatArray()).containsExactly(2);
      assertThat(file.tensor("empty").shape()).containsExactly(0, 9);
      assertThat(file.tensor("c").segment().address() % 8).isNotZero();
    }
  }

  @Test
  void skipsUnknownFieldsOfAnEntry() throws IOException {
    String header =
        entry("q", "I8", "1", 0, 1).replace("\"dtype\"", "\"more\":{\"a\":[1,{}]},\"dtype\"");
    try (SafeTensors file = open(Samples.safetensors(header, (byte) 5))) {
      assertThat(file.tensor("q").toFloatArray()).containsExactly(5);
    }
  }

  @Test
  void readsNoMetadataFromNull() throws IOException {
    try (SafeTensors file = open(Samples.safetensors("{\"__metadata__\":null}"))) {
      assertThat(file.metadata()).isEmpty();
    }
  }

  @Test
  void handsOutNothingThatCanBeChanged() throws IOException {
    String header = "{\"__metadata__\":{\"a\":\"b\"}," + entry("q", "I8", "1", 0, 1).substring(1);
    try (SafeTensors file = open(Samples.safetensors(header, (byte) 5))) {
      assertThatThrownBy(() -> file.names().clear())
          .isInstanceOf(UnsupportedOperationException.class);
      assertThatThrownBy(() -> file.entries().clear())
          .isInstanceOf(UnsupportedOperationException.class);
      assertThatThrownBy(() -> file.metadata().clear())
          .isInstanceOf(UnsupportedOperationException.class);
    }
  }

  @Test
  void memoryIsGoneAfterClose() throws IOException {
    SafeTensors file = open(Samples.safetensors(entry("q", "I8", "1", 0, 1), (byte) 5));
    Tensor tensor = file.tensor("q");
    file.close();
    file.close();
    assertThatThrownBy(() -> tensor.get(0)).isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> file.tensor("q"))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageEndingWith(": is closed");
  }

  @Test
  void writesOverTheFileThatItReads() throws IOException {
    Path path = folder.resolve("a.safetensors");
    SafeTensors.write(path, Map.of("a", Tensor.of(new float[] {1, 2, 3, 4}, 2, 2)), Map.of());
    try (SafeTensors file = SafeTensors.open(path)) {
      SafeTensors.write(path, Map.of("b", file.tensor("a").permute(1, 0)), Map.of());
      assertThat(file.tensor("a").toFloatArray()).containsExactly(1, 2, 3, 4);
    }
    try (SafeTensors file = SafeTensors.open(path)) {
      assertThat(file.tensor("b").toFloatArray()).containsExactly(1, 3, 2, 4);
    }
  }

  static Stream<Arguments> refused() {
    String twice = entry("q", "I8", "1", 0, 1).replace("}}", "}") + ",";
    return Stream.of(
        refused("", "header does not begin with {"),
        refused(" {}", "header does not begin with {"),
        refused("[]", "header does not begin with {"),
        refused("\ufeff{}", "header does not begin with {"),
        refused("{", "bad JSON header: Unexpected end-of-input"),
        refused("{}}", "bad JSON header: "),
        refused("{}{}", "header has more after its closing brace"),
        refused("{}\u0000", "bad JSON header: "),
        refused("{'q':1}", "bad JSON header: "),
        refused("{\"q\":NaN}", "bad JSON header: "),
        refused("{\"q\":1}", "tensor \"q\" is not described by an object"),
        refused("{\"q\":null}", "tensor \"q\" is not described by an object"),
        refused("{\"q\":{}}", "tensor \"q\" has no text as its dtype"),
        refused("{\"q\":" + "{\"q\":".repeat(100_000), "bad JSON header: Document nesting depth"),
        refused(
            "{\"q\":{\"more\":" + "[".repeat(100_000), "bad JSON header: Document nesting depth"),
        refused(
            twice + entry("q", "I8", "1", 0, 1).substring(1),
            "bad JSON header: Duplicate Object property \"q\""),
        refused(
            entry("q", "I8", "1", 0, 1).replace("\"shape\"", "\"dtype\":\"I8\",\"shape\""),
            "bad JSON header: Duplicate Object property \"dtype\""),
        refused(
            "{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}",
            "bad JSON header: Duplicate Object property \"a\""),
        refused("{\"__metadata__\":[]}", "__metadata__ is not an object"),
        refused("{\"__metadata__\":{\"a\":1}}", "__metadata__: the value of \"a\" is not a text"),
        refused("{\"__metadata__\":{\"a\":{}}}", "__metadata__: the value of \"a\" is not a text"),
        refused("{\"\\ud800\":{}}", "bad JSON header: "),
        refused("{\"\\udc00\":{}}", "bad JSON header: "),
        refused("{\"\\udc00\\ud800\":{}}", "bad JSON header: "),
        refused(
            "{\"__metadata__\":{\"a\":\"\\ud800\"}}",
            "__metadata__: the value of \"a\" is not a text"),
        refused(
            "{\"__metadata__\":{\"a\":\"\\udc00\"}}",
            "__metadata__: the value of \"a\" is not a text"),
        refused("{\"__metadata__\":{\"\\udc00\":\"\"}}", "bad JSON header: "),
        refused("{\"__metadata__\":{\"\\ud800\\ud800\":\"\"}}", "bad JSON header: "),
        refused(
            entry("q", "I8", "1", 0, 1).replace("\"I8\"", "8"),
            "tensor \"q\" has no text as its dtype"),
        refused(
            entry("q", "I8", "1", 0, 1).replace("shape", "size"),
            "tensor \"q\" has no list of at most 64 integers as its shape"),
        refused(
            entry("q", "I8", "1.0", 0, 1),
            "tensor \"q\" has no list of at most 64 integers as its shape"),
        refused(
            entry("q", "I8", "[1]", 0, 1),
            "tensor \"q\" has no list of at most 64 integers as its shape"),
        refused(
            entry("q", "I8", "1,".repeat(64) + "1", 0, 1),
            "tensor \"q\" has no list of at most 64 integers as its shape"),
        refused(
            entry("q", "I8", "1", 0, 1).replace("[0,1]", "[0]"),
            "tensor \"q\" has no list of 2 integers as its data_offsets"),
        refused(
            entry("q", "I8", "1", 0, 1).replace("[0,1]", "[0,1,1]"),
            "tensor \"q\" has no list of 2 integers as its data_offsets"),
        refused(
            entry("q", "I8", "1", 0, 1).replace("[0,1]", "{\"0\":1}"),
            "tensor \"q\" has no list of 2 integers as its data_offsets"),
        refused(entry("q", "I8", "-1", 0, 1), "tensor \"q\" has a negative size in its shape [-1]"),
        refused(entry("q", "I8", "9223372036854775808", 0, 1), "bad JSON header: Numeric value"),
        refused(
            entry("q", "I8", "4294967296,4294967296", 0, 1),
            "tensor \"q\" has more bytes than 64 bits can count: shape [4294967296, 4294967296]"),
        refused(
            entry("q", "F64", "0,2305843009213693952", 0, 0),
            "tensor \"q\" has more bytes than 64 bits can count: shape [0, 2305843009213693952]"),
        refused(
            entry("q", "F8_E4M3", "4294967296,4294967296", 0, 1),
            "tensor \"q\" has more bytes than 64 bits can count"),
        refused(
            entry("q", "F32", "1", 0, 1),
            "tensor \"q\" of dtype F32 and shape [1] needs 4 bytes, its offsets leave 1"),
        refused(entry("q", "I8", "1", -1, 0), "tensor \"q\" begins at offset -1 and ends at 0"),
        refused(entry("q", "I8", "1", 1, 0), "tensor \"q\" begins at offset 1 and ends at 0"),
        refused(
            entry("q", "I8", "9", 0, 9),
            "tensor \"q\" ends at offset 9, beyond the file's 1 bytes of data"),
        refused(
            entry("q", "I8", "9223372036854775807", 0, Long.MAX_VALUE),
            "tensor \"q\" ends at offset 9223372036854775807, beyond the file's 1 bytes of data"),
        refused(
            twice + entry("k", "BOOL", "1", 0, 1).substring(1),
            "tensor \"k\" overlaps tensor \"q\""),
        refused(
            twice + entry("k", "U16", "1", 0, 1).substring(1),
            "tensor \"k\" overlaps tensor \"q\""),
        refused(
            entry("q", "I8", "0", 1, 1),
            "data has a hole of 1 bytes between the start of the data and tensor \"q\""),
        refused(
            entry("q", "I8", "0", 0, 0),
            "has 1 bytes of data that belong to no tensor, at its end"),
        refused("{}", "has 1 bytes of data that belong to no tensor, at its end"));
  }

  private static Arguments refused(String header, String problem) {
    return Arguments.of(header, problem);
  }

  @ParameterizedTest
  @MethodSource("refused")
  void saysWhatIsWrongWithAHeader(String header, String problem) throws IOException {
    assertRefused(Samples.safetensors(header, (byte) 1), problem);
  }

  @Test
  void saysWhatIsWrongAroundTheHeader() throws IOException {
    byte[] good = Samples.safetensors(entry("q", "I8", "1", 0, 1), (byte) 1);
    assertRefused(new byte[0], "is truncated: 0 bytes are too few");
    assertRefused(Arrays.copyOf(good, 7), "is truncated: 7 bytes are too few");
    assertRefused(
        Arrays.copyOf(good, 20),
        "is truncated: its header should have " + (good.length - 9) + " bytes, the file has 20");
    byte[] huge = {-1, -1, -1, -1, -1, -1, -1, -1, '{', '}'};
    assertRefused(
        huge, "header length 18446744073709551615 is beyond the limit of 100000000 bytes");
    byte[] beyond = {0x01, (byte) 0xe1, (byte) 0xf5, 0x05, 0, 0, 0, 0, '{', '}'};
    assertRefused(beyond, "header length 100000001 is beyond the limit of 100000000 bytes");
  }

  @Test
  void namesTheFormatsThatItIsNot() throws IOException {
    assertRefused(
        Files.readAllBytes(Samples.fixture(folder, "c-f2.npy")),
        "is a .npy file, not a .safetensors file");
    assertRefused(
        Files.readAllBytes(Samples.fixture(folder, "archive.npz")),
        "is a zip archive, such as .npz or .pt, not a .safetensors file");
  }

  /** Jackson's own decoder lets some of these pass. */
  @Test
  void refusesWhatIsNotUtf8() throws IOException {
    int[][] malformed = {
      {0xff},
      {0x80},
      {0xc3, 0x28},
      {0xc0, 0xaf},
      {0xe0, 0x80, 0xaf},
      {0xed, 0xa0, 0x80},
      {0xf5, 0x80, 0x80, 0x80},
      {0xf4, 0x90, 0x80, 0x80},
      {0xe2, 0x82}
    };
    String[] places = {
      "{\"@\":{}}", "{\"__metadata__\":{\"a\":\"@\"}}", "{\"q\":{\"dtype\":\"@\"}}", "{}@"
    };
    for (int[] sequence : malformed) {
      StringBuilder text = new StringBuilder();
      Arrays.stream(sequence).forEach(b -> text.append((char) b));
      for (String place : places) {
        byte[] header = place.replace("@", text).getBytes(StandardCharsets.ISO_8859_1);
        assertRefused(Samples.safetensors(header), "header is not UTF-8");
      }
    }
  }

  @Test
  void refusesEveryTruncation() throws IOException {
    byte[] good = Files.readAllBytes(Samples.fixture(folder, "all-types.safetensors"));
    for (int length = 0; length < good.length; length++) {
      assertRefused(Arrays.copyOf(good, length), "");
    }
  }

  @Test
  void keepsMessagesToOneShortLine() throws IOException {
    String name = "a\\n\\u001b[31m\\u2028\\u202e" + "x".repeat(10_000);
    Path path = Files.write(folder.resolve("a"), Samples.safetensors("{\"" + name + "\":1}"));
    assertThatThrownBy(() -> SafeTensors.open(path).close())
        .hasMessageContaining("a\\u000a\\u001b[31m\\u2028\\u202exxx")
        .hasMessageEndingWith("xxx...")
        .satisfies(e -> assertThat(e.getMessage()).hasSizeLessThan(1100));
  }

  @Test
  void refusesWhatIsNoFile() {
    assertThatThrownBy(() -> SafeTensors.open(folder))
        .isInstanceOf(FormatException.class)
        .hasMessage(folder + ": is not a regular file");
    assertThatThrownBy(() -> SafeTensors.open(folder.resolve("none")))
        .isInstanceOf(NoSuchFileException.class);
  }

  @Test
  void refusesToWriteWhatItWouldNotRead() {
    Tensor one = Tensor.of(new int[1], 1);
    assertNotWritten(
        Map.of("__metadata__", one), Map.of(), "tensors: __metadata__ is no name for a tensor");
    assertNotWritten(Map.of("\ud800", one), Map.of(), "tensors: half a surrogate pair in");
    assertNotWritten(Map.of(), Map.of("\udc00", ""), "metadata: half a surrogate pair in");
    assertNotWritten(Map.of(), Map.of("", "\udc00"), "metadata: half a surrogate pair in");
    long[] shape = new long[65];
    Arrays.fill(shape, 1);
    assertNotWritten(
        Map.of("q", one.reshape(shape)), Map.of(), "tensors: q has 65 dimensions, more than 64");
    assertThat(folder).isEmptyDirectory();
  }

  private void assertNotWritten(
      Map<String, Tensor> tensors, Map<String, String> metadata, String problem) {
    assertThatThrownBy(() -> SafeTensors.write(folder.resolve("a"), tensors, metadata))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining(problem);
  }

  @Test
  void leavesTheOldFileWhenATensorFails() throws IOException {
    Path path = folder.resolve("a.safetensors");
    Tensor good = Tensor.of(new double[] {1, 2}, 2);
    SafeTensors.write(path, Map.of("a", good), Map.of());
    byte[] before = Files.readAllBytes(path);
    Tensor gone = Samples.inClosedArena();

    assertThatThrownBy(() -> SafeTensors.write(path, Map.of("a", good, "b", gone), Map.of()))
        .isInstanceOf(IllegalStateException.class);

    assertThat(path).hasBinaryContent(before);
    assertThat(folder).isDirectoryNotContaining(file -> !file.equals(path));
  }

  private SafeTensors open(byte[] bytes) throws IOException {
    return SafeTensors.open(Files.write(folder.resolve("bytes.safetensors"), bytes));
  }

  private void assertRefused(byte[] bytes, String problem) throws IOException {
    Path path = Files.write(folder.resolve("bad.safetensors"), bytes);
    assertThatThrownBy(() -> SafeTensors.open(path).close())
        .isInstanceOf(FormatException.class)
        .hasMessageStartingWith(path + ": ")
        .hasMessageContaining(problem)
        .hasMessageNotContainingAny("\n", "\r");
  }

  private static String entry(String name, String dtype, String shape, long begin, long end) {
    return String.format(
        "{\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%d,%d]}}",
        name, dtype, shape, begin, end);
  }
}
