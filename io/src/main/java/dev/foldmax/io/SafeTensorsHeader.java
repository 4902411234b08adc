package dev.foldmax.io;

import dev.foldmax.DType;
import dev.foldmax.io.SafeTensors.Entry;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.Reader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JacksonException;
import tools.jackson.core.JsonGenerator;
import tools.jackson.core.JsonParser;
import tools.jackson.core.JsonToken;
import tools.jackson.core.ObjectReadContext;
import tools.jackson.core.ObjectWriteContext;
import tools.jackson.core.StreamReadConstraints;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.core.TokenStreamFactory;
import tools.jackson.core.json.JsonFactory;

/**
 * The header of a {@code .safetensors} file: 8 bytes of length, little-endian, then JSON, padded
 * with spaces.
 *
 * <pre>{@code
 * {"__metadata__": {"format": "pt"},
 *  "q": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
 * }</pre>
 *
 * @param entries by name, in the header's order
 * @param metadata the texts under {@code __metadata__}
 * @param dataOffset where in the file the data begins
 */
record SafeTensorsHeader(
    Map<String, Entry> entries, Map<String, String> metadata, long dataOffset) {
  /** The limit of the reference implementation. */
  private static final int MAX_BYTES = 100_000_000;

  private static final String METADATA = "__metadata__";
  private static final String DTYPE = "dtype";
  private static final String SHAPE = "shape";
  private static final String OFFSETS = "data_offsets";

  /** Headers nest three deep; unknown fields of an entry are skipped and may go a little deeper. */
  private static final int MAX_DEPTH = 16;

  private static final JsonFactory JSON =
      JsonFactory.builder()
          .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
          // Names are the file's own: a table of them that outlives the parser gains nothing.
          .disable(TokenStreamFactory.Feature.CANONICALIZE_PROPERTY_NAMES)
          .streamReadConstraints(
              StreamReadConstraints.builder()
                  .maxNestingDepth(MAX_DEPTH)
                  .maxNameLength(MAX_BYTES)
                  .maxStringLength(MAX_BYTES)
                  .build())
          .build();

  /** Reads and checks the header of a file. */
  static SafeTensorsHeader read(MappedFile file) throws FormatException {
    if (file.size() < Long.BYTES) {
      throw file.error(
          "is truncated: "
              + file.size()
              + " bytes are too few for a .safetensors file, which begins with 8 bytes of length");
    }
    ByteBuffer prefix = ByteBuffer.wrap(file.bytes(0, Long.BYTES)).order(ByteOrder.LITTLE_ENDIAN);
    long length = prefix.getLong();
    if (length < 0 || length > MAX_BYTES) {
      throw file.error(notThisFormat(file, Long.toUnsignedString(length)));
    }
    if (length > file.size() - Long.BYTES) {
      throw file.error(
          "is truncated: its header should have "
              + length
              + " bytes, the file has "
              + file.size()
              + " in all");
    }
    byte[] json = file.bytes(Long.BYTES, length);
    if (length == 0 || json[0] != '{') {
      throw file.error("header does not begin with {");
    }
    return new Parser(file, json).parse();
  }

  private static String notThisFormat(MappedFile file, String length) {
    if (file.isZip()) {
      return "is a zip archive, such as .npz or .pt, not a .safetensors file";
    }
    if (NpyHeader.isMagicOf(file)) {
      return "is a .npy file, not a .safetensors file";
    }
    return "header length " + length + " is beyond the limit of " + MAX_BYTES + " bytes";
  }

  /** Encodes a header: its length and the JSON, padded so that what follows is aligned. */
  static byte[] encode(List<Entry> entries, Map<String, String> metadata) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (JsonGenerator json = JSON.createGenerator(ObjectWriteContext.empty(), bytes)) {
      json.writeStartObject();
      if (!metadata.isEmpty()) {
        json.writeObjectPropertyStart(METADATA);
        new TreeMap<>(metadata)
            .forEach(
                (name, text) -> {
                  json.writeName(encodable("metadata", name));
                  json.writeString(encodable("metadata", text));
                });
        json.writeEndObject();
      }
      for (Entry entry : entries) {
        if (entry.name().equals(METADATA)) {
          throw new IllegalArgumentException("tensors: " + METADATA + " is no name for a tensor");
        }
        if (entry.shape().size() > MappedFile.MAX_RANK) {
          throw new IllegalArgumentException(
              "tensors: "
                  + entry.name()
                  + " has "
                  + entry.shape().size()
                  + " dimensions, more than "
                  + MappedFile.MAX_RANK);
        }
        json.writeObjectPropertyStart(encodable("tensors", entry.name()));
        json.writeStringProperty(DTYPE, entry.dtype());
        json.writeName(SHAPE);
        writeNumbers(json, entry.shape());
        json.writeName(OFFSETS);
        writeNumbers(json, List.of(entry.begin(), entry.end()));
        json.writeEndObject();
      }
      json.writeEndObject();
    }
    while (bytes.size() % Long.BYTES != 0) {
      bytes.write(' ');
    }
    if (bytes.size() > MAX_BYTES) {
      throw new IllegalArgumentException(
          "tensors and metadata: need a header of "
              + bytes.size()
              + " bytes, more than the format's "
              + MAX_BYTES);
    }
    return ByteBuffer.allocate(Long.BYTES + bytes.size())
        .order(ByteOrder.LITTLE_ENDIAN)
        .putLong(bytes.size())
        .put(bytes.toByteArray())
        .array();
  }

  private static void writeNumbers(JsonGenerator json, List<Long> numbers) {
    json.writeStartArray();
    numbers.forEach(json::writeNumber);
    json.writeEndArray();
  }

  private static String encodable(String argument, String text) {
    if (!isUnicode(text)) {
      throw new IllegalArgumentException(
          FormatException.oneLine(argument + ": half a surrogate pair in \"" + text + "\""));
    }
    return text;
  }

  /** Whether UTF-8 has the text: a JSON escape or a Java string may hold half a surrogate pair. */
  private static boolean isUnicode(String text) {
    return StandardCharsets.UTF_8.newEncoder().canEncode(text);
  }

  /** One pass over the JSON, then the checks of offsets across tensors. */
  private static final class Parser {
    private final MappedFile file;
    private final byte[] bytes;
    private final long dataOffset;
    private final Map<String, Entry> entries = new LinkedHashMap<>();
    private final Map<String, String> metadata = new LinkedHashMap<>();

    Parser(MappedFile file, byte[] bytes) {
      this.file = file;
      this.bytes = bytes;
      this.dataOffset = Long.BYTES + (long) bytes.length;
    }

    SafeTensorsHeader parse() throws FormatException {
      // Jackson's own decoder of UTF-8 lets some malformed sequences pass.
      Reader text =
          new InputStreamReader(
              new ByteArrayInputStream(bytes), StandardCharsets.UTF_8.newDecoder());
      try (JsonParser json = JSON.createParser(ObjectReadContext.empty(), text)) {
        json.nextToken();
        for (String name = json.nextName(); name != null; name = json.nextName()) {
          if (name.equals(METADATA)) {
            readMetadata(json);
          } else {
            entries.put(name, readEntry(json, name));
          }
        }
        if (json.nextToken() != null) {
          throw file.error("header has more after its closing brace");
        }
      } catch (JacksonException e) {
        throw e.getCause() instanceof CharacterCodingException
            ? file.error("header is not UTF-8", e)
            : file.error("bad JSON header: " + e.getOriginalMessage(), e);
      }
      checkOffsets();
      return new SafeTensorsHeader(entries, metadata, dataOffset);
    }

    private void readMetadata(JsonParser json) throws FormatException {
      JsonToken token = json.nextToken();
      if (token == JsonToken.VALUE_NULL) {
        return; // As the reference implementation has it.
      }
      if (token != JsonToken.START_OBJECT) {
        throw file.error(METADATA + " is not an object");
      }
      for (String name = json.nextName(); name != null; name = json.nextName()) {
        String text = json.nextToken() == JsonToken.VALUE_STRING ? json.getString() : null;
        // Jackson refuses half a surrogate pair in a name, not in a value.
        if (text == null || !isUnicode(text)) {
          throw file.error(METADATA + ": the value of \"" + name + "\" is not a text");
        }
        metadata.put(name, text);
      }
    }

    private Entry readEntry(JsonParser json, String name) throws FormatException {
      String what = "tensor \"" + name + "\"";
      if (json.nextToken() != JsonToken.START_OBJECT) {
        throw file.error(what + " is not described by an object");
      }
      String dtype = null;
      List<Long> shape = null;
      List<Long> offsets = null;
      for (String field = json.nextName(); field != null; field = json.nextName()) {
        json.nextToken();
        switch (field) {
          case DTYPE ->
              dtype = json.currentToken() == JsonToken.VALUE_STRING ? json.getString() : null;
          case SHAPE -> shape = readNumbers(json, MappedFile.MAX_RANK);
          case OFFSETS -> offsets = readNumbers(json, 2);
          default -> json.skipChildren();
        }
      }
      if (dtype == null) {
        throw file.error(what + " has no text as its " + DTYPE);
      }
      if (shape == null) {
        throw file.error(
            what + " has no list of at most " + MappedFile.MAX_RANK + " integers as its " + SHAPE);
      }
      if (offsets == null || offsets.size() != 2) {
        throw file.error(what + " has no list of 2 integers as its " + OFFSETS);
      }
      Entry entry = new Entry(name, dtype, shape, offsets.get(0), offsets.get(1));
      checkEntry(what, entry);
      return entry;
    }

    /** Reads a list of integers, or returns null if it is something else or longer. */
    private static @Nullable List<Long> readNumbers(JsonParser json, int limit) {
      if (json.currentToken() != JsonToken.START_ARRAY) {
        json.skipChildren();
        return null;
      }
      List<Long> numbers = new ArrayList<>();
      boolean valid = true;
      while (json.nextToken() != JsonToken.END_ARRAY) {
        valid &= json.currentToken() == JsonToken.VALUE_NUMBER_INT && numbers.size() < limit;
        if (valid) {
          numbers.add(json.getLongValue());
        }
        json.skipChildren();
      }
      return valid ? numbers : null;
    }

    private void checkEntry(String what, Entry entry) throws FormatException {
      long begin = entry.begin();
      long end = entry.end();
      if (begin < 0 || end < begin) {
        throw file.error(what + " begins at offset " + begin + " and ends at " + end);
      }
      long dataBytes = file.size() - dataOffset;
      if (end > dataBytes) {
        throw file.error(
            what
                + " ends at offset "
                + end
                + ", beyond the file's "
                + dataBytes
                + " bytes of data");
      }
      // How wide an element of another type is, we need not know: nobody gets to read it.
      DType type = entry.type().orElse(null);
      long expected = file.byteSize(what, entry.shape(), type == null ? 1 : type.bytes());
      if (type != null && end - begin != expected) {
        throw file.error(
            what
                + " of dtype "
                + type
                + " and shape "
                + entry.shape()
                + " needs "
                + expected
                + " bytes, its offsets leave "
                + (end - begin));
      }
    }

    /** Tensors cover the data: sorted by place, each begins where the one before ends. */
    private void checkOffsets() throws FormatException {
      List<Entry> sorted = new ArrayList<>(entries.values());
      sorted.sort(Comparator.comparingLong(Entry::begin).thenComparingLong(Entry::end));
      long end = 0;
      String before = "the start of the data";
      for (Entry entry : sorted) {
        String what = "tensor \"" + entry.name() + "\"";
        if (entry.begin() < end) {
          throw file.error(what + " overlaps " + before);
        }
        if (entry.begin() > end) {
          throw file.error(
              "data has a hole of "
                  + (entry.begin() - end)
                  + " bytes between "
                  + before
                  + " and "
                  + what);
        }
        end = entry.end();
        before = what;
      }
      long dataBytes = file.size() - dataOffset;
      if (end != dataBytes) {
        throw file.error(
            "has " + (dataBytes - end) + " bytes of data that belong to no tensor, at its end");
      }
    }
  }
}
