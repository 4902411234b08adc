package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.foldmax.Alignment;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Sequence;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import org.jspecify.annotations.Nullable;

/**
 * The structures of arguments.cuh, byte for byte, and how a call fills them. That header says what
 * the fields mean; it asserts the sizes that stand here.
 */
final class AttentionArguments {
  static final int MOST_MASKS = 4;

  static final StructLayout MATRIX =
      MemoryLayout.structLayout(
          JAVA_LONG.withName("data"),
          JAVA_LONG.withName("block"),
          JAVA_LONG.withName("head"),
          JAVA_LONG.withName("row"),
          JAVA_INT.withName("type"),
          JAVA_INT.withName("pad"));

  static final StructLayout BROADCAST =
      MemoryLayout.structLayout(
          JAVA_LONG.withName("data"),
          JAVA_LONG.withName("sequence"),
          JAVA_LONG.withName("head"),
          JAVA_LONG.withName("query"),
          JAVA_LONG.withName("key"),
          JAVA_INT.withName("type"),
          JAVA_INT.withName("pad"));

  static final StructLayout SEQUENCE =
      MemoryLayout.structLayout(
          JAVA_LONG.withName("queryBlock"),
          JAVA_LONG.withName("queryRow"),
          JAVA_LONG.withName("queries"),
          JAVA_LONG.withName("firstKey"),
          JAVA_LONG.withName("endKey"),
          JAVA_LONG.withName("keyBlock"),
          JAVA_LONG.withName("keyRow"),
          JAVA_LONG.withName("beginShift"),
          JAVA_LONG.withName("endShift"),
          MemoryLayout.sequenceLayout(2, JAVA_LONG).withName("prefix"),
          MemoryLayout.sequenceLayout(2, JAVA_LONG).withName("prefixShift"),
          JAVA_LONG.withName("alibiShift"));

  static final StructLayout LAYOUT =
      MemoryLayout.structLayout(
          MATRIX.withName("q"),
          MATRIX.withName("k"),
          MATRIX.withName("v"),
          MATRIX.withName("out"),
          BROADCAST.withName("lse"),
          BROADCAST.withName("keyScale"),
          BROADCAST.withName("valueScale"),
          JAVA_LONG.withName("sequences"),
          JAVA_LONG.withName("table"),
          JAVA_LONG.withName("tableStride"),
          JAVA_LONG.withName("rows"),
          JAVA_INT.withName("layout"),
          JAVA_INT.withName("batch"),
          JAVA_INT.withName("queryHeads"),
          JAVA_INT.withName("keyHeads"),
          JAVA_INT.withName("keyDim"),
          JAVA_INT.withName("valueDim"),
          JAVA_LONG.withName("mostQueries"),
          JAVA_LONG.withName("mostKeys"),
          MemoryLayout.sequenceLayout(MOST_MASKS, BROADCAST).withName("masks"),
          JAVA_INT.withName("maskCount"),
          JAVA_INT.withName("pad"),
          BROADCAST.withName("bias"),
          BROADCAST.withName("slope"),
          BROADCAST.withName("sink"),
          JAVA_FLOAT.withName("scale"),
          JAVA_FLOAT.withName("softCap"),
          JAVA_FLOAT.withName("tau"),
          JAVA_INT.withName("pad2"));

  /** Numbers of enum Layout. */
  private static final int STRAIGHT = 0;

  private static final int PAGED = 1;
  private static final int RING = 2;

  private final MemorySegment memory;

  /** Writes to memory of the size of {@link #LAYOUT}. */
  AttentionArguments(MemorySegment memory) {
    this.memory = memory;
  }

  /** Makes all of it zero: no tensors, no masks. */
  void clear() {
    memory.fill((byte) 0);
  }

  MemorySegment memory() {
    return memory;
  }

  /** The number of a type in enum Type. */
  static int typeNumber(DType type) {
    return switch (type) {
      case F32 -> 0;
      case F16 -> 1;
      case BF16 -> 2;
      case I8 -> 3;
      case F64 -> 4;
      case BOOL -> 5;
      case I32, I64 ->
          throw new IllegalArgumentException("type: kernels of attention have no " + type);
    };
  }

  /** The place of a field, such as {@code "bias"}. */
  static long offset(String field) {
    return LAYOUT.byteOffset(PathElement.groupElement(field));
  }

  // Places in a matrix and in a broadcast tensor: looked up once, which takes longer than a launch.
  static final long MATRIX_DATA = matrixField("data");
  static final long MATRIX_BLOCK = matrixField("block");
  static final long MATRIX_HEAD = matrixField("head");
  static final long MATRIX_ROW = matrixField("row");
  static final long MATRIX_TYPE = matrixField("type");
  private static final long BROADCAST_DATA = broadcastField("data");
  private static final long BROADCAST_TYPE = broadcastField("type");
  private static final long BROADCAST_SEQUENCE = broadcastField("sequence");
  private static final long BROADCAST_HEAD = broadcastField("head");
  private static final long BROADCAST_QUERY = broadcastField("query");
  private static final long BROADCAST_KEY = broadcastField("key");

  private static long matrixField(String field) {
    return MATRIX.byteOffset(PathElement.groupElement(field));
  }

  private static long broadcastField(String field) {
    return BROADCAST.byteOffset(PathElement.groupElement(field));
  }

  private static final long Q = offset("q");
  private static final long K = offset("k");
  private static final long V = offset("v");
  static final long OUT = offset("out");
  private static final long LSE = offset("lse");
  private static final long KEY_SCALE = offset("keyScale");
  private static final long VALUE_SCALE = offset("valueScale");
  private static final long SEQUENCES = offset("sequences");
  private static final long TABLE = offset("table");
  private static final long TABLE_STRIDE = offset("tableStride");
  private static final long ROWS = offset("rows");
  private static final long LAYOUT_NUMBER = offset("layout");
  private static final long BATCH = offset("batch");
  private static final long QUERY_HEADS = offset("queryHeads");
  private static final long KEY_HEADS = offset("keyHeads");
  private static final long KEY_DIM = offset("keyDim");
  private static final long VALUE_DIM = offset("valueDim");
  private static final long MOST_QUERIES = offset("mostQueries");
  private static final long MOST_KEYS = offset("mostKeys");
  private static final long MASKS = offset("masks");
  private static final long MASK_COUNT = offset("maskCount");
  private static final long BIAS = offset("bias");
  private static final long SLOPE = offset("slope");
  private static final long SINK = offset("sink");
  private static final long SCALE = offset("scale");
  private static final long SOFT_CAP = offset("softCap");
  private static final long TAU = offset("tau");

  /** Writes all but the tensors. */
  void setNumbers(AttentionCall call) {
    KeyValues keyValues = call.keyValues();
    memory.set(JAVA_INT, LAYOUT_NUMBER, layoutNumber(keyValues));
    memory.set(JAVA_LONG, ROWS, keyValues.keys().shape(2));
    memory.set(JAVA_INT, BATCH, call.batch());
    memory.set(JAVA_INT, QUERY_HEADS, call.queryHeads());
    memory.set(JAVA_INT, KEY_HEADS, call.keyHeads());
    memory.set(JAVA_INT, KEY_DIM, call.keyDim());
    memory.set(JAVA_INT, VALUE_DIM, call.valueDim());
    memory.set(JAVA_FLOAT, SCALE, (float) call.scale());
    memory.set(JAVA_FLOAT, SOFT_CAP, softCap(call));
    memory.set(JAVA_FLOAT, TAU, (float) call.attention().tau());
  }

  /**
   * The soft cap as a normal float32, with room for a factor of log2(e): beyond either end it makes
   * no difference to float32 scores below 1e37. 0 for none.
   */
  static float softCap(AttentionCall call) {
    double cap = call.attention().softCap();
    return cap == 0 ? 0 : (float) Math.clamp(cap, Float.MIN_NORMAL, 0x1p126);
  }

  private static int layoutNumber(KeyValues keyValues) {
    return switch (keyValues.layout()) {
      case "paged" -> PAGED;
      case "ring" -> RING;
      default -> STRAIGHT;
    };
  }

  /** Writes where the sequences lie on the device, and how long the longest is. */
  void setSequences(long sequences, long mostQueries, long mostKeys) {
    memory.set(JAVA_LONG, SEQUENCES, sequences);
    memory.set(JAVA_LONG, MOST_QUERIES, mostQueries);
    memory.set(JAVA_LONG, MOST_KEYS, mostKeys);
  }

  /** Writes where the block table lies on the device, if there is one. */
  void setTable(long table, long stride) {
    memory.set(JAVA_LONG, TABLE, table);
    memory.set(JAVA_LONG, TABLE_STRIDE, stride);
  }

  void setQ(Tensor q) {
    setMatrix(Q, q);
  }

  void setKeys(Tensor k) {
    setMatrix(K, k);
  }

  void setValues(Tensor v) {
    setMatrix(V, v);
  }

  void setOut(Tensor out) {
    setMatrix(OUT, out);
  }

  /** Takes (block, query head, query), or null. */
  void setLse(@Nullable Tensor lse) {
    setTriple(LSE, lse);
  }

  /** Takes (block, key head, row), or null, of both. */
  void setScales(@Nullable Tensor keyScales, @Nullable Tensor valueScales) {
    setTriple(KEY_SCALE, keyScales);
    setTriple(VALUE_SCALE, valueScales);
  }

  /** Adds a boolean mask that broadcasts to (batch, query heads, queries, keys). */
  void addMask(Tensor mask) {
    int count = memory.get(JAVA_INT, MASK_COUNT);
    setBroadcast(MASKS + count * BROADCAST.byteSize(), mask);
    memory.set(JAVA_INT, MASK_COUNT, count + 1);
  }

  /** Takes a bias that broadcasts to (batch, query heads, queries, keys). */
  void setBias(Tensor bias) {
    setBroadcast(BIAS, bias);
  }

  /** Takes slopes of shape (query heads) or (batch, query heads). */
  void setSlopes(Tensor slopes) {
    setTensor(SLOPE, slopes);
    setStrides(SLOPE, stride(slopes, 2), stride(slopes, 1), 0, 0);
  }

  /** Takes sinks of shape (query heads). */
  void setSinks(Tensor sinks) {
    setTensor(SINK, sinks);
    setStrides(SINK, 0, stride(sinks, 1), 0, 0);
  }

  private void setMatrix(long place, Tensor matrix) {
    memory.set(JAVA_LONG, place + MATRIX_DATA, matrix.deviceAddress());
    memory.set(JAVA_LONG, place + MATRIX_BLOCK, matrix.stride(0));
    memory.set(JAVA_LONG, place + MATRIX_HEAD, matrix.stride(1));
    memory.set(JAVA_LONG, place + MATRIX_ROW, matrix.stride(2));
    memory.set(JAVA_INT, place + MATRIX_TYPE, typeNumber(matrix.dtype()));
  }

  private void setTriple(long place, @Nullable Tensor tensor) {
    if (tensor != null) {
      setTensor(place, tensor);
      setStrides(place, tensor.stride(0), tensor.stride(1), tensor.stride(2), 0);
    }
  }

  private void setBroadcast(long place, Tensor tensor) {
    setTensor(place, tensor);
    setStrides(place, stride(tensor, 4), stride(tensor, 3), stride(tensor, 2), stride(tensor, 1));
  }

  /** The stride of a dimension counted from the end, 0 where it is missing or has one element. */
  private static long stride(Tensor tensor, int fromEnd) {
    return tensor.rank() < fromEnd || tensor.shape(-fromEnd) == 1 ? 0 : tensor.stride(-fromEnd);
  }

  private void setTensor(long place, Tensor tensor) {
    memory.set(JAVA_LONG, place + BROADCAST_DATA, tensor.deviceAddress());
    memory.set(JAVA_INT, place + BROADCAST_TYPE, typeNumber(tensor.dtype()));
  }

  private void setStrides(long place, long sequence, long head, long query, long key) {
    memory.set(JAVA_LONG, place + BROADCAST_SEQUENCE, sequence);
    memory.set(JAVA_LONG, place + BROADCAST_HEAD, head);
    memory.set(JAVA_LONG, place + BROADCAST_QUERY, query);
    memory.set(JAVA_LONG, place + BROADCAST_KEY, key);
  }

  /** Places in {@link #sequenceFields}. */
  static final int FIRST_KEY = 3;

  static final int END_KEY = 4;

  /** The places of what moves when positions are counted from elsewhere. */
  static final int[] POSITIONS = {FIRST_KEY, END_KEY, 7, 8, 9, 10, 11, 12, 13};

  /**
   * Writes struct Sequence.
   *
   * @param place where, in bytes
   * @param b the sequence's index in the batch
   * @param queries how many of its queries a launch is to see: all, or none
   */
  static void writeSequence(
      MemorySegment target, long place, AttentionCall call, int b, long queries) {
    long[] fields = sequenceFields(call, b, queries);
    MemorySegment.copy(fields, 0, target, JAVA_LONG, place, fields.length);
  }

  /** The fields of struct Sequence in order; parameters as {@link #writeSequence} has them. */
  static long[] sequenceFields(AttentionCall call, int b, long queries) {
    Sequence sequence = call.sequence(b);
    KeyValues keyValues = call.keyValues();
    boolean hasTable = keyValues.layout().equals("paged");
    SequenceBounds bounds = SequenceBounds.of(call.attention().mask(), sequence);
    return new long[] {
      call.queryBlock(b),
      call.firstQueryRow(b),
      queries,
      sequence.firstKey(),
      sequence.endKey(),
      hasTable ? 0 : keyValues.block(b, 0),
      keyValues.layout().equals("ragged") ? keyValues.row(b, 0) : 0,
      bounds.begin(),
      bounds.end(),
      bounds.prefix(Alignment.BOTTOM_RIGHT),
      bounds.prefix(Alignment.TOP_LEFT),
      bounds.prefixShift(Alignment.BOTTOM_RIGHT),
      bounds.prefixShift(Alignment.TOP_LEFT),
      call.alibiOffset(b)
    };
  }
}
