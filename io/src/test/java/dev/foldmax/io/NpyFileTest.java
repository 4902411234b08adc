package dev.foldmax.io;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.foldmax.DType;
import dev.foldmax.Tensor;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class NpyFileTest {
  private static final String GOOD =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }        \n";

  @TempDir Path folder;

  @ParameterizedTest
  @EnumSource(names = "BF16", mode = EnumSource.Mode.EXCLUDE)
  void readsBackWhatItWrites(DType dtype) throws IOException {
    Random random = new Random(1);
    Stream<Tensor> tensors =
        Stream.concat(
            Samples.shapes().map(shape -> Samples.random(random, dtype, shape)),
            Samples.strided(random, dtype));
    for (Tensor tensor : (Iterable<Tensor>) tensors::iterator) {
      Path path = folder.resolve("a.npy");
      NpyFile.write(path, tensor);
      try (NpyFile file = NpyFile.open(path)) {
        assertThat(file.tensor()).hasToString(tensor.toString());
        assertThat(Samples.bits(file.tensor())).isEqualTo(Samples.bits(tensor));
        assertThat(file.tensor().segment().isReadOnly()).isTrue();
        assertThat(file.tensor().isContiguous()).isTrue();
      }
    }
  }

  @Test
  void writesBf16AsF4() throws IOException {
    Random random = new Random(2);
    Stream<Tensor> tensors =
        Stream.concat(
            Samples.shapes().map(shape -> Samples.random(random, DType.BF16, shape)),
            Samples.strided(random, DType.BF16));
    for (Tensor tensor : (Iterable<Tensor>) tensors::iterator) {
      Path path = folder.resolve("a.npy");
      NpyFile.write(path, tensor);
      try (NpyFile file = NpyFile.open(path)) {
        long[] widened =
            Arrays.stream(Samples.bits(tensor)).map(bits -> (int) (bits << 16)).toArray();
        assertThat(file.tensor().dtype()).isEqualTo(DType.F32);
        assertThat(file.tensor().shape()).isEqualTo(tensor.shape());
        assertThat(Samples.bits(file.tensor())).isEqualTo(widened);
      }
    }
  }

  @Test
  void writesTheBytesOfTheSpecification() throws IOException {
    Path path = folder.resolve("a.npy");
    NpyFile.write(path, Tensor.of(new int[] {1, -2}, 2));

    String header = "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }";
    byte[] file = Files.readAllBytes(path);
    assertThat(file)
        .isEqualTo(
            Samples.npy(
                1,
                header + " ".repeat(128 - 10 - 1 - header.length()) + "\n",
                new byte[] {1, 0, 0, 0, -2, -1, -1, -1}));
  }

  @Test
  void writesTrueAsOne() throws IOException {
    Path path = folder.resolve("a.npy");
    NpyFile.write(path, Tensor.of(new byte[] {0, 1, 2, -1}, DType.BOOL, 4));

    byte[] file = Files.readAllBytes(path);
    assertThat(Arrays.copyOfRange(file, file.length - 4, file.length)).containsExactly(0, 1, 1, 1);
  }

  /** The files of NumPy; {@code make_fixtures.py} says what each holds. */
  @ParameterizedTest
  @CsvSource(
      delimiter = ';',
      value = {
        "c-f2.npy; F16(2, 3)",
        "c-f4-big-endian.npy; F32(2, 3)",
        "fortran-f8.npy; F64(2, 3, 4)",
        "fortran-i4-big-endian.npy; I32(3, 5)",
        "scalar-i8.npy; I64()",
        "vector-b1.npy; BOOL(5)",
        "empty-i1.npy; I8(0, 4)",
        "version-2.npy; F32(2, 3)",
        "version-3.npy; F32(2, 3)"
      })
  void readsNumPysFiles(String name, String description) throws IOException {
    try (NpyFile file = NpyFile.open(Samples.fixture(folder, name))) {
      assertThat(file.tensor()).hasToString(description);
      boolean isBool = file.tensor().dtype() == DType.BOOL;
      double[] values = file.tensor().toDoubleArray();
      for (int i = 0; i < values.length; i++) {
        assertThat(values[i]).isEqualTo(isBool ? (i == 2 ? 0 : 1) : i - 2);
      }
    }
  }

  @ParameterizedTest
  @CsvSource({
    "<f2,F16",
    "<f4,F32",
    "<f8,F64",
    "<i4,I32",
    "<i8,I64",
    "|i1,I8",
    "|b1,BOOL",
    "<i1,I8"
  })
  void readsEveryTypeInBothByteOrders(String descr, DType dtype) throws IOException {
    Tensor expected = Samples.random(new Random(3), dtype, 3, 4);
    byte[] little = expected.segment().toArray(ValueLayout.JAVA_BYTE);
    byte[] big = little.clone();
    for (int i = 0; i < big.length; i++) {
      int inElement = i % dtype.bytes();
      big[i] = little[i - inElement + dtype.bytes() - 1 - inElement];
    }
    for (boolean swapped : new boolean[] {false, true}) {
      String header =
          "{'descr': '"
              + (swapped ? descr.replace('<', '>') : descr)
              + "', 'fortran_order': False, 'shape': (3, 4), }\n";
      Path path =
          Files.write(folder.resolve("a.npy"), Samples.npy(1, header, swapped ? big : little));
      try (NpyFile file = NpyFile.open(path)) {
        assertThat(file.tensor().dtype()).isEqualTo(dtype);
        assertThat(Samples.bits(file.tensor())).isEqualTo(Samples.bits(expected));
      }
    }
  }

  @Test
  void fortranOrderIsAViewOfTheMapping() throws IOException {
    String header = "{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3), }\n";
    try (NpyFile file = open(Samples.npy(1, header, new byte[] {1, 2, 3, 4, 5, 6}))) {
      assertThat(file.tensor().toFloatArray()).containsExactly(1, 3, 5, 2, 4, 6);
      assertThat(file.tensor().stride(0)).isEqualTo(1);
      assertThat(file.tensor().stride(1)).isEqualTo(2);
      assertThat(file.tensor().segment().isReadOnly()).isTrue();
    }
  }

  /** Headers that NumPy would read to the same array. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
        "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}",
        "\n { 'shape' :\t( 2 , 3 , ) , 'descr' : '<f4' , 'fortran_order' : False }  \n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }\n"
      })
  void readsOtherSpellings(String header) throws IOException {
    for (int major = 1; major <= 3; major++) {
      // Headers of odd lengths leave the elements unaligned.
      for (String padding : new String[] {"", " ", "  ", "   "}) {
        try (NpyFile file = open(Samples.npy(major, header + padding, floats(1, 2, 3, 4, 5, 6)))) {
          assertThat(file.tensor()).hasToString("F32(2, 3)");
          assertThat(file.tensor().toFloatArray()).containsExactly(1, 2, 3, 4, 5, 6);
        }
      }
    }
  }

  @Test
  void ignoresBytesAfterTheArray() throws IOException {
    try (NpyFile file = open(Samples.npy(1, GOOD, floats(1, 2, 3, 4, 5, 6, 7, 8)))) {
      assertThat(file.tensor().toFloatArray()).containsExactly(1, 2, 3, 4, 5, 6);
    }
  }

  @Test
  void writesOverTheFileThatItReads() throws IOException {
    Path path = folder.resolve("a.npy");
    NpyFile.write(path, Tensor.of(new float[] {1, 2, 3, 4, 5, 6}, 2, 3));
    try (NpyFile file = NpyFile.open(path)) {
      NpyFile.write(path, file.tensor().permute(1, 0));
      assertThat(file.tensor().toFloatArray()).containsExactly(1, 2, 3, 4, 5, 6);
    }
    try (NpyFile file = NpyFile.open(path)) {
      assertThat(file.tensor().toFloatArray()).containsExactly(1, 4, 2, 5, 3, 6);
    }
  }

  @Test
  void memoryIsGoneAfterClose() throws IOException {
    NpyFile file = open(Samples.npy(1, GOOD, floats(1, 2, 3, 4, 5, 6)));
    Tensor tensor = file.tensor();
    file.close();
    file.close();
    assertThatThrownBy(() -> tensor.get(0, 0)).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void bigEndianCopiesOutliveTheFile() throws IOException {
    byte[] data = {0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3};
    NpyFile file =
        open(Samples.npy(1, "{'descr': '>i4', 'fortran_order': False, 'shape': (3,)}", data));
    file.close();
    assertThat(file.tensor().toLongArray()).containsExactly(1, 2, 3);
  }

  static Stream<Arguments> refused() {
    return Stream.of(
        refused("{'fortran_order': False, 'shape': (2, 3), }", "header has no 'descr'"),
        refused("{'descr': '<f4', 'shape': (2, 3), }", "header has no 'fortran_order'"),
        refused("{'descr': '<f4', 'fortran_order': False}", "header has no 'shape'"),
        refused("{}", "header has no 'descr'"),
        refused("", "header: expected { at character 0, where it ends"),
        refused("[]", "header: expected { at character 0, got ["),
        refused(GOOD + "x", "expected nothing more at character 68, got x"),
        refused("{'descr': '<f4', ", "expected a string in quotes at character 17, where it ends"),
        refused("{'descr': '<f4' 'shape': ()}", "expected } at character 16, got '"),
        refused("{'descr' '<f4'}", "expected : at character 9, got '"),
        refused("{,}", "expected a string in quotes at character 1, got ,"),
        refused("{descr: '<f4'}", "expected a string in quotes at character 1, got d"),
        refused("{'descr: 3}", "expected a string in quotes at character 1, got '"),
        refused("{'desc\\x72': '<f4'}", "expected a string without escapes at character 1"),
        refused(
            GOOD.replace(", }", ", 'more': 1}"),
            "header has a key 'more' beside 'descr', 'fortran_order' and 'shape'"),
        refused(GOOD.replace(", }", ", 'shape': (2, 3)}"), "header has 'shape' twice"),
        refused(GOOD.replace(", }", ", 'descr': '<f4'}"), "header has 'descr' twice"),
        refused(
            GOOD.replace(", }", ", 'fortran_order': True}"), "header has 'fortran_order' twice"),
        refused(GOOD.replace("False", "0"), "expected True or False at character 34, got 0"),
        refused(GOOD.replace("False", "None"), "expected True or False at character 34, got N"),
        refused(GOOD.replace("False", "Falsehood"), "expected } at character 39, got h"),
        refused(GOOD.replace("(2, 3)", "(6)"), "expected a comma at character 52, got )"),
        refused(GOOD.replace("(2, 3)", "6"), "expected ( at character 50, got 6"),
        refused(GOOD.replace("(2, 3)", "[2, 3]"), "expected ( at character 50, got ["),
        refused(GOOD.replace("(2, 3)", "(2, 3"), "expected an integer at character 57, got }"),
        refused(GOOD.replace("(2, 3)", "(2, x)"), "expected an integer at character 54, got x"),
        refused(GOOD.replace("(2, 3)", "(2, -)"), "expected an integer at character 54, got -"),
        refused(GOOD.replace("(2, 3)", "(2, 03)"), "expected an integer at character 54, got 0"),
        refused(GOOD.replace("(2, 3)", "(2, +3)"), "expected an integer at character 54, got +"),
        refused(GOOD.replace("(2, 3)", "(2, 0x3)"), "expected ) at character 55, got x"),
        refused(GOOD.replace("(2, 3)", "(2, 3.0)"), "expected ) at character 55, got ."),
        refused(GOOD.replace("(2, 3)", "((2, 3),)"), "expected an integer at character 51, got ("),
        refused(GOOD.replace("(2, 3)", "(-2, 3)"), "has a negative size in its shape [-2, 3]"),
        refused(
            GOOD.replace("(2, 3)", "(9223372036854775808,)"),
            "has a size of 9223372036854775808 in its shape, beyond 64 bits"),
        refused(
            GOOD.replace("(2, 3)", "(4611686018427387904, 4)"),
            "array has more bytes than 64 bits can count: shape [4611686018427387904, 4]"),
        refused(
            GOOD.replace("(2, 3)", "(0, 4611686018427387904, 4)"),
            "array has more bytes than 64 bits can count: shape [0, 4611686018427387904, 4]"),
        refused(
            GOOD.replace("(2, 3)", "(1099511627776, 1048576)"),
            "is truncated: <f4 of shape [1099511627776, 1048576] needs 4611686018427387904 bytes,"
                + " the file has 24 after its header"),
        refused(
            GOOD.replace("(2, 3)", "(2, 4)"),
            "is truncated: <f4 of shape [2, 4] needs 32 bytes, the file has 24 after its header"),
        refused(
            GOOD.replace("(2, 3)", "(" + "1, ".repeat(65) + ")"),
            "array has 65 dimensions, more than 64"),
        refused(GOOD.replace("'<f4'", "[('a', '<f4')]"), "has a structured dtype"),
        refused(GOOD.replace("'<f4'", "('<f4', (2,))"), "has a structured dtype"),
        refused(GOOD.replace("<f4", "|O"), "has dtype '|O', which holds pickled Python objects"),
        refused(GOOD.replace("<f4", "<V2"), "has dtype '<V2', raw bytes, as bfloat16 is saved"),
        refused(
            GOOD.replace("<f4", "<c8"), "has dtype '<c8'; f2, f4, f8, i1, i4, i8 and b1 are read"),
        refused(
            GOOD.replace("<f4", "|u1"),
            "has dtype '|u1', unsigned bytes: save a mask of 0 and 1 with astype(bool), numbers with astype('f4'); "),
        refused(GOOD.replace("<f4", "<f16"), "has dtype '<f16'; "),
        refused(GOOD.replace("<f4", "f4"), "has dtype 'f4'; "),
        refused(GOOD.replace("<f4", "=f4"), "has dtype '=f4'; "),
        refused(GOOD.replace("<f4", "|f4"), "has dtype '|f4'; "),
        refused(GOOD.replace("<f4", ""), "has dtype ''; "));
  }

  private static Arguments refused(String header, String problem) {
    return Arguments.of(header, problem);
  }

  @ParameterizedTest
  @MethodSource("refused")
  void saysWhatIsWrongWithAHeader(String header, String problem) throws IOException {
    for (int major = 1; major <= 3; major++) {
      assertRefused(Samples.npy(major, header, floats(1, 2, 3, 4, 5, 6)), problem);
    }
  }

  @Test
  void saysWhatIsWrongAroundTheHeader() throws IOException {
    byte[] good = Samples.npy(1, GOOD, floats(1, 2, 3, 4, 5, 6));
    assertRefused(new byte[0], "is not a .npy file: it does not begin with \\x93NUMPY");
    assertRefused("hello".getBytes(StandardCharsets.US_ASCII), "is not a .npy file");
    assertRefused(Arrays.copyOf(good, 7), "is truncated within its version");
    assertRefused(Arrays.copyOf(good, 9), "is truncated within its header's length");
    assertRefused(
        Arrays.copyOf(good, 60),
        "is truncated: its header should have 68 bytes, the file has 60 in all");
    assertRefused(with(good, 6, 4), "is of version 4.0; 1.0, 2.0 and 3.0 are read");
    assertRefused(with(good, 6, 0), "is of version 0.0; ");
    assertRefused(with(good, 6, 200), "is of version 200.0; ");
    assertRefused(with(good, 7, 1), "is of version 1.1; ");
    assertRefused(
        Samples.npy(1, GOOD.replace("(2, 3)", "(" + "9".repeat(60_000) + ",)")),
        "has a size of 9999");
    assertRefused(
        with(Samples.npy(2, GOOD), 11, 255),
        "header of 4278190148 bytes is beyond the limit of 65535");
    byte[] notUtf8 = Samples.npy(3, GOOD.replace("shape", "sh pe"));
    assertRefused(
        with(notUtf8, new String(notUtf8, StandardCharsets.ISO_8859_1).indexOf("sh pe") + 2, 0xff),
        "header is not UTF-8");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = ';',
      value = {
        "archive.npz; is a zip archive, such as .npz: unzip it, or save each array with numpy.save",
        "objects.npy; has dtype '|O', which holds pickled Python objects",
        "complex.npy; has dtype '<c8'; ",
        "structured.npy; has a structured dtype",
        "bfloat16.npy; raw bytes, as bfloat16 is saved: use .safetensors for it"
      })
  void refusesNumPysOtherFiles(String name, String problem) throws IOException {
    assertRefused(Files.readAllBytes(Samples.fixture(folder, name)), problem);
  }

  @Test
  void refusesEveryTruncation() throws IOException {
    byte[] good = Samples.npy(1, GOOD, floats(1, 2, 3, 4, 5, 6));
    for (int length = 0; length < good.length; length++) {
      assertRefused(
          Arrays.copyOf(good, length), length < 6 ? "is not a .npy file" : "is truncated");
    }
  }

  @Test
  void refusesWhatIsNoFile() throws IOException {
    assertThatThrownBy(() -> NpyFile.open(folder))
        .isInstanceOf(FormatException.class)
        .hasMessage(folder + ": is not a regular file");
    assertThatThrownBy(() -> NpyFile.open(folder.resolve("none")))
        .isInstanceOf(NoSuchFileException.class);
  }

  @Test
  void refusesToWriteMoreDimensionsThanItReads() {
    long[] shape = new long[65];
    Arrays.fill(shape, 1);
    assertThatThrownBy(() -> NpyFile.write(folder.resolve("a.npy"), Tensor.of(new int[1], shape)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("tensor: has 65 dimensions, more than 64");
  }

  @Test
  void leavesTheOldFileWhenATensorFails() throws IOException {
    Path path = folder.resolve("a.npy");
    NpyFile.write(path, Tensor.of(new float[] {1}, 1));
    byte[] before = Files.readAllBytes(path);
    Tensor gone = Samples.inClosedArena();

    assertThatThrownBy(() -> NpyFile.write(path, gone)).isInstanceOf(IllegalStateException.class);

    assertThat(path).hasBinaryContent(before);
    assertThat(folder).isDirectoryNotContaining(file -> !file.equals(path));
  }

  private NpyFile open(byte[] bytes) throws IOException {
    return NpyFile.open(Files.write(folder.resolve("bytes.npy"), bytes));
  }

  private void assertRefused(byte[] bytes, String problem) throws IOException {
    Path path = Files.write(folder.resolve("bad.npy"), bytes);
    assertThatThrownBy(() -> NpyFile.open(path).close())
        .isInstanceOf(FormatException.class)
        .hasMessageStartingWith(path + ": ")
        .hasMessageContaining(problem)
        .hasMessageNotContainingAny("\n", "\r");
  }

  private static byte[] with(byte[] bytes, int index, int value) {
    byte[] changed = bytes.clone();
    changed[index] = (byte) value;
    return changed;
  }

  private static byte[] floats(float... values) {
    ByteBuffer bytes =
        ByteBuffer.allocate(values.length * Float.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    for (float value : values) {
      bytes.putFloat(value);
    }
    return bytes.array();
  }
}
