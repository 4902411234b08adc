package dev.foldmax.spi;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import dev.foldmax.Tensor;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CancellationException;

/**
 * SHA-256 digests of what tensors say: types, shapes and elements in row-major order, not where in
 * memory they lie. A thread that is interrupted meanwhile gets a {@link CancellationException} and
 * keeps its interrupt flag.
 */
public final class ContentDigest {
  private static final int CHUNK = 1 << 16;

  private final MessageDigest digest;
  private final byte[] buffer = new byte[CHUNK];

  private ContentDigest() {
    try {
      digest = MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }

  /** Of a tensor on the host, in hexadecimal digits. */
  public static String of(Tensor tensor) {
    ContentDigest content = new ContentDigest();
    content.add(tensor);
    return content.hex();
  }

  /** Of numbers. */
  public static String of(long... numbers) {
    ContentDigest content = new ContentDigest();
    content.add(numbers);
    return content.hex();
  }

  /** Of texts and tensors by name, whatever their order. */
  public static String of(Map<String, String> texts, Map<String, Tensor> tensors) {
    ContentDigest content = new ContentDigest();
    new TreeMap<>(texts)
        .forEach(
            (name, text) -> {
              content.add(name);
              content.add(text);
            });
    content.add(texts.size()); // or a text could pass for a tensor's name
    new TreeMap<>(tensors)
        .forEach(
            (name, tensor) -> {
              content.add(name);
              content.add(tensor);
            });
    return content.hex();
  }

  private String hex() {
    return HexFormat.of().formatHex(digest.digest());
  }

  /** With its length before it, so that no two lists of texts read the same. */
  private void add(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    add(bytes.length);
    digest.update(bytes);
  }

  private void add(long... numbers) {
    ByteBuffer bytes = ByteBuffer.allocate(numbers.length * Long.BYTES);
    for (long number : numbers) {
      bytes.putLong(number);
    }
    digest.update(bytes.flip());
  }

  private void add(Tensor tensor) {
    add(tensor.dtype().name());
    add(tensor.rank());
    add(tensor.shape());
    if (tensor.elements() > 0) {
      addElements(tensor);
    }
  }

  private void addElements(Tensor tensor) {
    if (tensor.isContiguous()) {
      long bytes = tensor.elements() * tensor.dtype().bytes();
      MemorySegment segment = tensor.segment();
      for (long at = 0; at < bytes; at += CHUNK) {
        if (Thread.currentThread().isInterrupted()) {
          throw new CancellationException("interrupted");
        }
        int n = (int) Math.min(CHUNK, bytes - at);
        MemorySegment.copy(segment, JAVA_BYTE, at, buffer, 0, n);
        digest.update(buffer, 0, n);
      }
      return;
    }
    for (long i = 0; i < tensor.shape(0); i++) {
      addElements(tensor.select(0, i));
    }
  }
}
