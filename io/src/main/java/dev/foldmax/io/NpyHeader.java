package dev.foldmax.io;

import dev.foldmax.DType;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The header of a {@code .npy} file: a magic string, a version, a length, and a Python dictionary
 * of three entries, padded with spaces.
 *
 * <pre>{@code
 * {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 * }</pre>
 *
 * @param dtype the type of the elements
 * @param bigEndian whether their bytes are to be swapped
 * @param fortranOrder whether the first index varies fastest
 * @param shape the sizes of the dimensions; none for a scalar
 * @param dataOffset where in the file the elements begin; the file has all of them
 */
record NpyHeader(
    DType dtype, boolean bigEndian, boolean fortranOrder, List<Long> shape, long dataOffset) {
  private static final int[] MAGIC = {0x93, 'N', 'U', 'M', 'P', 'Y'};

  /** Where the header's length stands, after the magic string and two bytes of version. */
  private static final int LENGTH_OFFSET = MAGIC.length + 2;

  /**
   * The longest header of version 1.0. Later versions allow more, for the names of a structured
   * type's fields, and those are not read here.
   */
  private static final int MAX_BYTES = 65_535;

  private static final int ALIGNMENT = 64;

  static boolean isMagicOf(MappedFile file) {
    return file.startsWith(MAGIC);
  }

  /** Reads and checks the header of a file. */
  static NpyHeader read(MappedFile file) throws FormatException {
    if (file.isZip()) {
      throw file.error(
          "is a zip archive, such as .npz: unzip it, or save each array with numpy.save");
    }
    if (!isMagicOf(file)) {
      throw file.error("is not a .npy file: it does not begin with \\x93NUMPY");
    }
    if (file.size() < LENGTH_OFFSET) {
      throw file.error("is truncated within its version");
    }
    ByteBuffer version = ByteBuffer.wrap(file.bytes(MAGIC.length, 2));
    int major = version.get();
    int minor = version.get();
    if (major < 1 || major > 3 || minor != 0) {
      throw file.error(
          "is of version " + (major & 0xff) + "." + (minor & 0xff) + "; 1.0, 2.0 and 3.0 are read");
    }
    int lengthBytes = major == 1 ? Short.BYTES : Integer.BYTES;
    int textOffset = LENGTH_OFFSET + lengthBytes;
    if (file.size() < textOffset) {
      throw file.error("is truncated within its header's length");
    }
    ByteBuffer prefix =
        ByteBuffer.wrap(file.bytes(LENGTH_OFFSET, lengthBytes)).order(ByteOrder.LITTLE_ENDIAN);
    long length =
        major == 1
            ? Short.toUnsignedLong(prefix.getShort())
            : Integer.toUnsignedLong(prefix.getInt());
    if (length > MAX_BYTES) {
      throw file.error("header of " + length + " bytes is beyond the limit of " + MAX_BYTES);
    }
    if (length > file.size() - textOffset) {
      throw file.error(
          "is truncated: its header should have "
              + length
              + " bytes, the file has "
              + file.size()
              + " in all");
    }
    Charset charset = major == 3 ? StandardCharsets.UTF_8 : StandardCharsets.ISO_8859_1;
    String text;
    try {
      ByteBuffer bytes = ByteBuffer.wrap(file.bytes(textOffset, length));
      text = charset.newDecoder().decode(bytes).toString();
    } catch (CharacterCodingException e) {
      throw file.error("header is not UTF-8", e);
    }
    return new Parser(file, text).parse(textOffset + length);
  }

  /** Encodes a header of version 1.0, magic string and all, padded as NumPy pads it. */
  static byte[] encode(DType dtype, long... shape) {
    if (shape.length > MappedFile.MAX_RANK) {
      throw new IllegalArgumentException(
          "tensor: has " + shape.length + " dimensions, more than " + MappedFile.MAX_RANK);
    }
    String sizes = Arrays.stream(shape).mapToObj(Long::toString).collect(Collectors.joining(", "));
    String dictionary =
        "{'descr': '"
            + descr(dtype)
            + "', 'fortran_order': False, 'shape': ("
            + sizes
            + (shape.length == 1 ? ",), }" : "), }");
    int unpadded = LENGTH_OFFSET + Short.BYTES + dictionary.length() + 1;
    int padding = Math.floorMod(-unpadded, ALIGNMENT);
    ByteBuffer header = ByteBuffer.allocate(unpadded + padding).order(ByteOrder.LITTLE_ENDIAN);
    for (int b : MAGIC) {
      header.put((byte) b);
    }
    return header
        .put((byte) 1)
        .put((byte) 0)
        .putShort((short) (dictionary.length() + padding + 1))
        .put(dictionary.getBytes(StandardCharsets.US_ASCII))
        .put(" ".repeat(padding).getBytes(StandardCharsets.US_ASCII))
        .put((byte) '\n')
        .array();
  }

  private static String descr(DType dtype) {
    return switch (dtype) {
      case F64 -> "<f8";
      case F32, BF16 -> "<f4";
      case F16 -> "<f2";
      case I8 -> "|i1";
      case BOOL -> "|b1";
      case I32 -> "<i4";
      case I64 -> "<i8";
    };
  }

  /** Reads what NumPy writes of Python's syntax, and nothing else of it. */
  private static final class Parser {
    /** In decimal and without leading zeros. Python 2 wrote its long integers as 3L. */
    private static final Pattern INTEGER = Pattern.compile("(-?(?:0|[1-9][0-9]*+))(?![0-9])L?");

    private final MappedFile file;
    private final String text;
    private int position;

    private @Nullable String descr;
    private @Nullable Boolean fortranOrder;
    private @Nullable List<Long> shape;

    Parser(MappedFile file, String text) {
      this.file = file;
      this.text = text;
    }

    NpyHeader parse(long dataOffset) throws FormatException {
      expect('{');
      while (!accept('}')) {
        readEntry();
        if (!accept(',')) {
          expect('}');
          break;
        }
      }
      skipSpace();
      if (position < text.length()) {
        throw syntax("nothing more");
      }
      if (descr == null || fortranOrder == null || shape == null) {
        String missing = descr == null ? "descr" : fortranOrder == null ? "fortran_order" : "shape";
        throw file.error("header has no '" + missing + "'");
      }
      boolean bigEndian = descr.startsWith(">");
      DType dtype = dtype(descr);
      long needed = file.byteSize("array", shape, dtype.bytes());
      long present = file.size() - dataOffset;
      if (needed > present) {
        throw file.error(
            "is truncated: "
                + descr
                + " of shape "
                + shape
                + " needs "
                + needed
                + " bytes, the file has "
                + present
                + " after its header");
      }
      return new NpyHeader(dtype, bigEndian && dtype.bytes() > 1, fortranOrder, shape, dataOffset);
    }

    private void readEntry() throws FormatException {
      String key = readString();
      expect(':');
      boolean repeated;
      switch (key) {
        case "descr" -> {
          repeated = descr != null;
          descr = readDescr();
        }
        case "fortran_order" -> {
          repeated = fortranOrder != null;
          fortranOrder = readBoolean();
        }
        case "shape" -> {
          repeated = shape != null;
          shape = readTuple();
        }
        default ->
            throw file.error(
                "header has a key '" + key + "' beside 'descr', 'fortran_order' and 'shape'");
      }
      if (repeated) {
        throw file.error("header has '" + key + "' twice");
      }
    }

    private String readDescr() throws FormatException {
      skipSpace();
      if (position < text.length() && "[({".indexOf(text.charAt(position)) >= 0) {
        throw file.error("has a structured dtype; arrays of plain numbers are read");
      }
      return readString();
    }

    private DType dtype(String descr) throws FormatException {
      String kind = descr.isEmpty() ? "" : descr.substring(1);
      char order = descr.isEmpty() ? ' ' : descr.charAt(0);
      DType dtype =
          switch (kind) {
            case "f2" -> DType.F16;
            case "f4" -> DType.F32;
            case "f8" -> DType.F64;
            case "i1" -> DType.I8;
            case "i4" -> DType.I32;
            case "i8" -> DType.I64;
            case "b1" -> DType.BOOL;
            default -> null;
          };
      if (dtype != null && (order == '<' || order == '>' || (order == '|' && dtype.bytes() == 1))) {
        return dtype;
      }
      String hint =
          switch (kind) {
            case "O" -> ", which holds pickled Python objects";
            case "u1" ->
                ", unsigned bytes: save a mask of 0 and 1 with astype(bool), numbers with astype('f4')";
            case "V2" -> ", raw bytes, as bfloat16 is saved: use .safetensors for it";
            default -> "";
          };
      throw file.error(
          "has dtype '" + descr + "'" + hint + "; f2, f4, f8, i1, i4, i8 and b1 are read");
    }

    private boolean readBoolean() throws FormatException {
      skipSpace();
      for (boolean value : new boolean[] {false, true}) {
        String word = value ? "True" : "False";
        if (text.startsWith(word, position)) {
          position += word.length();
          return value;
        }
      }
      throw syntax("True or False");
    }

    private List<Long> readTuple() throws FormatException {
      List<Long> sizes = new ArrayList<>();
      expect('(');
      while (!accept(')')) {
        sizes.add(readInteger());
        if (!accept(',')) {
          // (3) is a number in Python, (3,) is a tuple.
          if (sizes.size() == 1) {
            throw syntax("a comma");
          }
          expect(')');
          break;
        }
      }
      return sizes;
    }

    private long readInteger() throws FormatException {
      skipSpace();
      Matcher integer = INTEGER.matcher(text).region(position, text.length());
      if (!integer.lookingAt()) {
        throw syntax("an integer");
      }
      position = integer.end();
      try {
        return Long.parseLong(integer.group(1));
      } catch (NumberFormatException e) {
        throw file.error("has a size of " + integer.group(1) + " in its shape, beyond 64 bits", e);
      }
    }

    private String readString() throws FormatException {
      skipSpace();
      char quote = position < text.length() ? text.charAt(position) : ' ';
      int end = text.indexOf(quote, position + 1);
      if ((quote != '\'' && quote != '"') || end < 0) {
        throw syntax("a string in quotes");
      }
      String string = text.substring(position + 1, end);
      if (string.indexOf('\\') >= 0) {
        throw syntax("a string without escapes");
      }
      position = end + 1;
      return string;
    }

    private boolean accept(char c) {
      skipSpace();
      if (position < text.length() && text.charAt(position) == c) {
        position++;
        return true;
      }
      return false;
    }

    private void expect(char c) throws FormatException {
      if (!accept(c)) {
        throw syntax(Character.toString(c));
      }
    }

    private void skipSpace() {
      while (position < text.length() && " \t\r\n".indexOf(text.charAt(position)) >= 0) {
        position++;
      }
    }

    private FormatException syntax(String expected) {
      return file.error(
          "header: expected "
              + expected
              + " at character "
              + position
              + (position < text.length() ? ", got " + text.charAt(position) : ", where it ends"));
    }
  }
}
