package dev.foldmax.io;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Random;

/** Seeded damage to good files, most of it in or near the header. */
final class Mutations {
  private static final String[] NUMBERS = {
    "0",
    "1",
    "2",
    "-1",
    "-0",
    "00",
    "1.0",
    "1e3",
    "127",
    "128",
    "255",
    "65536",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "-9223372036854775808",
    "99999999999999999999999999",
    "0x10",
    "1L",
    "NaN"
  };

  private static final String[] TOKENS = {
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    ":",
    "\"",
    "'",
    "\\",
    "\n",
    "\u0000",
    "null",
    "true",
    "False",
    "\"dtype\":\"F32\",",
    "\"shape\":[]",
    "\"__metadata__\":",
    "'descr': '>f8',",
    "'shape': (),",
    "F64",
    "BF16",
    "I8",
    "BOOL",
    "F8_E4M3",
    ">f2",
    "|b1",
    "|O",
    "[[[[[[[[[[[[[[[[[[[[",
    "\\ud800"
  };

  private final Random random;
  private final int headerEnd;
  private final int lengthOffset;
  private final int lengthBytes;

  /**
   * For a kind of file.
   *
   * @param headerEnd one past the last byte of the header
   * @param lengthOffset where the header's length stands
   * @param lengthBytes how many bytes the length has
   */
  Mutations(Random random, int headerEnd, int lengthOffset, int lengthBytes) {
    this.random = random;
    this.headerEnd = headerEnd;
    this.lengthOffset = lengthOffset;
    this.lengthBytes = lengthBytes;
  }

  /** A damaged copy. */
  byte[] mutate(byte[] good) {
    byte[] bytes = good.clone();
    int times = random.nextInt(3) == 0 ? 3 : 1;
    for (int i = 0; i < times && bytes.length > headerEnd / 2; i++) {
      int before = bytes.length;
      bytes = mutateOnce(bytes);
      // Half of the time what was put in or taken out is made part of the header, so that the
      // damage reaches the parser rather than shift the data.
      if (bytes.length != before
          && bytes.length >= lengthOffset + Long.BYTES
          && random.nextBoolean()) {
        addToLength(bytes, bytes.length - before);
      }
    }
    return bytes;
  }

  private byte[] mutateOnce(byte[] bytes) {
    int at = place(bytes);
    return switch (random.nextInt(9)) {
      case 0 -> flipBits(bytes);
      case 1 -> Arrays.copyOf(bytes, random.nextInt(bytes.length));
      case 2 -> replace(bytes, at, 0, randomBytes());
      case 3 -> replace(bytes, at, random.nextInt(Math.min(16, bytes.length - at) + 1));
      case 4 -> swapChunks(bytes);
      case 5 -> {
        int length = random.nextInt(Math.min(80, bytes.length - at) + 1);
        yield replace(bytes, place(bytes), 0, Arrays.copyOfRange(bytes, at, at + length));
      }
      case 6 -> editLength(bytes);
      case 7 -> replace(bytes, at, random.nextInt(2), ascii(TOKENS));
      default -> editNumber(bytes, at);
    };
  }

  /** An index into the file, two times of three into its header. */
  private int place(byte[] bytes) {
    if (bytes.length > headerEnd && random.nextInt(3) == 0) {
      return headerEnd + random.nextInt(bytes.length - headerEnd);
    }
    return random.nextInt(Math.min(bytes.length, headerEnd));
  }

  private byte[] flipBits(byte[] bytes) {
    int flips = 1 + random.nextInt(4);
    for (int i = 0; i < flips; i++) {
      bytes[place(bytes)] ^= (byte) (1 << random.nextInt(8));
    }
    return bytes;
  }

  private byte[] randomBytes() {
    byte[] bytes = new byte[1 + random.nextInt(8)];
    random.nextBytes(bytes);
    return bytes;
  }

  private byte[] swapChunks(byte[] bytes) {
    int length = 1 + random.nextInt(16);
    int a = place(bytes);
    int b = place(bytes);
    if (Math.max(a, b) + length <= bytes.length) {
      byte[] original = bytes.clone();
      System.arraycopy(original, a, bytes, b, length);
      System.arraycopy(original, b, bytes, a, length);
    }
    return bytes;
  }

  private byte[] editLength(byte[] bytes) {
    ByteBuffer buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    if (bytes.length < lengthOffset + Long.BYTES) {
      return bytes;
    }
    switch (random.nextInt(3)) {
      case 0 -> addToLength(bytes, random.nextInt(33) - 16);
      case 1 -> buffer.put(lengthOffset + random.nextInt(lengthBytes), (byte) random.nextInt());
      default -> {
        for (int i = 0; i < lengthBytes; i++) {
          buffer.put(lengthOffset + i, (byte) -random.nextInt(2));
        }
      }
    }
    return bytes;
  }

  private void addToLength(byte[] bytes, int added) {
    ByteBuffer buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    switch (lengthBytes) {
      case Short.BYTES ->
          buffer.putShort(lengthOffset, (short) (buffer.getShort(lengthOffset) + added));
      case Integer.BYTES -> buffer.putInt(lengthOffset, buffer.getInt(lengthOffset) + added);
      default -> buffer.putLong(lengthOffset, buffer.getLong(lengthOffset) + added);
    }
  }

  /** Replaces the next number of the header. */
  private byte[] editNumber(byte[] bytes, int from) {
    int begin = from;
    while (begin < bytes.length && !isDigit(bytes[begin])) {
      begin++;
    }
    int end = begin;
    while (end < bytes.length && isDigit(bytes[end])) {
      end++;
    }
    return replace(bytes, begin, end - begin, ascii(NUMBERS));
  }

  private static boolean isDigit(byte b) {
    return b >= '0' && b <= '9';
  }

  private byte[] ascii(String... choices) {
    return choices[random.nextInt(choices.length)].getBytes(StandardCharsets.US_ASCII);
  }

  private static byte[] replace(byte[] bytes, int at, int length, byte... replacement) {
    int removed = Math.min(length, bytes.length - at);
    byte[] result = new byte[bytes.length - removed + replacement.length];
    System.arraycopy(bytes, 0, result, 0, at);
    System.arraycopy(replacement, 0, result, at, replacement.length);
    int rest = at + removed;
    System.arraycopy(bytes, rest, result, at + replacement.length, bytes.length - rest);
    return result;
  }
}
