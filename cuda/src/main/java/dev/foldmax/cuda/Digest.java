package dev.foldmax.cuda;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/** A SHA-256 over parts, each with its length, so that no two lists of parts run together. */
final class Digest {
  static final int BYTES = 32;

  private final MessageDigest sha;

  Digest() {
    try {
      sha = MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new AssertionError("every JDK has SHA-256", e);
    }
  }

  Digest add(byte[] part) {
    sha.update((part.length + ":").getBytes(StandardCharsets.US_ASCII));
    sha.update(part);
    return this;
  }

  Digest add(String part) {
    return add(part.getBytes(StandardCharsets.UTF_8));
  }

  byte[] bytes() {
    return sha.digest();
  }

  String hex() {
    return HexFormat.of().formatHex(bytes());
  }
}
