package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Phase;
import dev.foldmax.Rescale;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Launches attention_hopper.cu: many queries, F16 or BF16, on warp-group products of sm_90a. */
final class HopperPrefill implements AttentionKernel {
  private static final String SOURCE = "attention_hopper.cu";
  private static final String FORM = "FOLDMAX_FORM";
  private static final String REPAIR = "FOLDMAX_REPAIR";

  /** Hopper alone has these instructions, not its successors. */
  private static final int CAPABILITY = 90;

  private static final int MOST_DIM = 256;

  /** Columns of a tensor map's box, 128 bytes. */
  private static final int PANEL = 64;

  /** Queries of a warp group. */
  private static final int GROUP_QUERIES = 64;

  /**
   * Rows, positions and shifts are bounded to this on either side, so that sums of two fit an int:
   * the coordinates of a tensor map are ints.
   */
  static final long FAR = 1L << 30;

  /** Bytes of keys and values that heads which run together may have: they stay in the L2 cache. */
  private static final long BYTES_TOGETHER = 32 << 20;

  private static final int COUNTER_BYTES = 2 * Integer.BYTES;

  // The kernel's parameters, and where the fields of struct Plan lie.
  private static final int ARGUMENTS = 0;
  private static final int PLAN = 1;
  private static final long Q_MAP = 0;
  private static final long K_MAP = TensorMap.BYTES;
  private static final long V_MAP = 2 * TensorMap.BYTES;
  private static final long OUT_MAP = 3 * TensorMap.BYTES;
  private static final long SPANS = 4 * TensorMap.BYTES;
  private static final long COUNTERS = SPANS + 8;
  private static final long FLAGS = SPANS + 16;
  private static final long SPAN_COUNT = SPANS + 24;
  private static final long WORKS = SPANS + 28;
  private static final long HEAD_SPAN = SPANS + 32;
  private static final long QUERY_ROWS = SPANS + 36;
  private static final long PLAN_BYTES = 5 * TensorMap.BYTES - 64; // at a multiple of 64

  private static final long CAPPING = SPANS + 40;

  /** struct Span: as many ints. */
  private static final int SPAN_INTS = 16;

  // Capped scores: see struct Capping. With them tanh(y) / y is 1 + TANH_1 y^2 + TANH_2 y^4 to
  // 1.3e-7 of it where |y| is at most NEAR.
  private static final double NEAR = 0.2;
  private static final double TANH_1 = -0.33329698170387595;
  private static final double TANH_2 = 0.1303802734715892;

  /** The powers of 2 between which TANH_2 with its units is far from the ends of float32. */
  private static final double LEAST_FACTOR = 0x1p-100;

  private static final double MOST_FACTOR = 0x1p100;

  private static final double LOG2_E = 1 / Math.log(2);

  /** The largest soft cap, in base 2, under which weights of BF16 need no maximum. */
  private static final double MOST_BOUND = 80;

  /** enum class Form. */
  private enum Form {
    PRODUCTS(0),
    CAPPED(1),
    BOUNDED(2),
    SLOPED(3),
    SUMS(4),
    BIASED(5);

    private final int number;

    Form(int number) {
      this.number = number;
    }

    static Form of(AttentionCall call) {
      Attention attention = call.attention();
      boolean isCapped = attention.softCap() != 0;
      boolean isSloped = attention.alibiSlopes() != null;
      if (attention.bias() != null) {
        return BIASED;
      }
      if ((float) call.scale() < Float.MIN_NORMAL || (isCapped && isSloped)) {
        return SUMS;
      }
      if (isCapped) {
        boolean isBounded =
            call.q().dtype() == DType.BF16 && attention.softCap() * LOG2_E <= MOST_BOUND;
        return isBounded ? BOUNDED : CAPPED;
      }
      return isSloped ? SLOPED : PRODUCTS;
    }
  }

  private final Parameters parameters =
      Parameters.of(Arena.ofAuto(), AttentionArguments.LAYOUT.byteSize(), PLAN_BYTES);
  private final TensorMap maps = new TensorMap(Arena.ofAuto());
  private final Map<Map<String, Integer>, Code> codes = new HashMap<>();

  /** Zeros on the device, which each launch leaves zero; 0 before the first. */
  private long counters;

  /** The two kernels of a variant, and struct HopperShape. */
  private record Code(
      Kernel kernel, Kernel repair, int threads, int sharedBytes, int queries, int keys) {}

  @Override
  public String name() {
    return "prefill on warp groups (wgmma, TMA)";
  }

  @Override
  public @Nullable String declines(AttentionCall call, Device device) {
    if (device.capability() != CAPABILITY) {
      return "needs compute capability 9.0, the device has " + device.capabilityWords();
    }
    KeyValues keyValues = call.keyValues();
    DType type = call.q().dtype();
    boolean is16Bit = type == DType.F16 || type == DType.BF16;
    if (!is16Bit || keyValues.keys().dtype() != type || keyValues.values().dtype() != type) {
      return "takes queries, keys and values all of F16 or all of BF16, not %s, %s and %s"
          .formatted(type, keyValues.keys().dtype(), keyValues.values().dtype());
    }
    if (keyValues.keyScales() != null || keyValues.valueScales() != null) {
      return "takes keys and values without scales";
    }
    if (!isServed(call.keyDim()) || !isServed(call.valueDim())) {
      return "takes head dimensions from 1 to %d, not Dqk %d and Dv %d"
          .formatted(MOST_DIM, call.keyDim(), call.valueDim());
    }
    Rescale rescale = call.attention().rescale();
    return rescale == null || rescale == Rescale.ALWAYS
        ? null
        : "rescales at every tile, which measured fastest, and has no dialect " + rescale;
  }

  private static boolean isServed(int dim) {
    return dim >= 1 && dim <= MOST_DIM;
  }

  @Override
  public void launch(AttentionLaunch launch) {
    AttentionCall call = launch.call();
    checkRows(call);
    int type = AttentionArguments.typeNumber(launch.q().dtype());
    Map<String, Integer> macros =
        Map.of(
            AttentionMacros.TYPE,
            type,
            AttentionMacros.KEY_DIM,
            Math.ceilDiv(call.keyDim(), PANEL) * PANEL,
            AttentionMacros.VALUE_DIM,
            Math.ceilDiv(call.valueDim(), PANEL) * PANEL,
            FORM,
            Form.of(call).number);
    Code code = codes.computeIfAbsent(macros, absent -> compile(launch, absent));
    MemorySegment.copy(
        launch.arguments(), 0, parameters.get(ARGUMENTS), 0, AttentionArguments.LAYOUT.byteSize());
    int works = writePlan(launch, code);
    int grid = Math.min(works, launch.device().multiprocessors());
    launch(launch, code.kernel, code, grid);
    launch(launch, code.repair, code, grid);
  }

  /**
   * Refuses tensors whose rows the kernel could not name. No other family can stand in, since it
   * has other bits.
   *
   * @throws IllegalArgumentException that names the argument
   */
  static void checkRows(AttentionCall call) {
    checkRows("q", "queries", call.q());
    checkRows("keyValues", "keys", call.keyValues().keys());
  }

  private static void checkRows(String argument, String what, Tensor tensor) {
    if (tensor.shape(2) > FAR) {
      throw new IllegalArgumentException(
          "%s: %s of %s have %d rows in a block, and this kernel takes at most %d: split the call"
              .formatted(argument, what, tensor, tensor.shape(2), FAR));
    }
  }

  private void launch(AttentionLaunch launch, Kernel kernel, Code code, int grid) {
    kernel.launch(launch.stream(), grid, 1, 1, code.threads, code.sharedBytes, parameters);
  }

  private static Code compile(AttentionLaunch launch, Map<String, Integer> macros) {
    Map<String, Integer> repairing = new HashMap<>(macros);
    repairing.put(REPAIR, 1);
    int[] shape = launch.workplace().kernels().constants(SOURCE, "hopperShape", macros, 4);
    return new Code(
        launch.kernel(SOURCE, "attend", macros),
        launch.kernel(SOURCE, "attend", Map.copyOf(repairing)),
        shape[0],
        shape[1],
        shape[2],
        shape[3]);
  }

  /** Writes struct Plan; returns how many works there are. */
  private int writePlan(AttentionLaunch launch, Code code) {
    AttentionCall call = launch.call();
    Workplace workplace = launch.workplace();
    MemorySegment plan = parameters.get(PLAN);
    encode(plan.asSlice(Q_MAP, TensorMap.BYTES), launch.q(), GROUP_QUERIES);
    encode(plan.asSlice(K_MAP, TensorMap.BYTES), launch.k(), code.keys);
    encode(plan.asSlice(V_MAP, TensorMap.BYTES), launch.v(), code.keys);
    encodeOut(plan.asSlice(OUT_MAP, TensorMap.BYTES), launch);
    if (counters == 0) {
      counters = workplace.lastingZeros(COUNTER_BYTES);
    }
    SpanTable spans = new SpanTable(code.queries, code.keys);
    int count = 0;
    int works = 0;
    for (int b = 0; b < call.batch(); b++) {
      if (isPrefill(call, b)) {
        count++;
        works = Math.addExact(works, spans.works(call, b));
      }
    }
    plan.set(JAVA_LONG, SPANS, workplace.send(call, spans));
    plan.set(JAVA_LONG, COUNTERS, counters);
    plan.set(JAVA_LONG, FLAGS, launch.scratch((long) works * (code.threads / 32)));
    plan.set(JAVA_INT, SPAN_COUNT, count);
    plan.set(JAVA_INT, WORKS, works);
    plan.set(JAVA_INT, HEAD_SPAN, headsTogether(launch));
    plan.set(JAVA_INT, QUERY_ROWS, Math.toIntExact(launch.q().shape(2)));
    if (call.attention().softCap() != 0) {
      writeCapping(plan.asSlice(CAPPING), call.scale(), AttentionArguments.softCap(call));
    }
    return works;
  }

  private static boolean isPrefill(AttentionCall call, int b) {
    return call.phase(b) == Phase.PREFILL && call.sequence(b).queries() > 0;
  }

  private static void writeCapping(MemorySegment capping, double scale, double softCap) {
    double ratio = scale / softCap;
    double square = ratio * ratio;
    double factor2 = TANH_2 * LOG2_E * scale * square * square;
    boolean isHeld = factor2 > LEAST_FACTOR && factor2 < MOST_FACTOR;
    capping.set(JAVA_FLOAT, 0, isHeld ? (float) (TANH_1 * LOG2_E * scale * square) : 0);
    capping.set(JAVA_FLOAT, 4, isHeld ? (float) factor2 : 0);
    capping.set(JAVA_FLOAT, 8, isHeld ? (float) (NEAR / ratio) : -1);
    capping.set(JAVA_FLOAT, 12, (float) Math.clamp(ratio, Float.MIN_NORMAL, 0x1p126f));
    capping.set(JAVA_FLOAT, 16, (float) (softCap * LOG2_E));
  }

  private static int headsTogether(AttentionLaunch launch) {
    AttentionCall call = launch.call();
    long bytes = launch.mostKeys() * (call.keyDim() + call.valueDim()) * launch.k().dtype().bytes();
    long keyHeads = Math.max(1, BYTES_TOGETHER / Math.max(bytes, 1));
    return (int) Math.min(call.queryHeads(), keyHeads * call.group());
  }

  /**
   * struct Span for each sequence, the ones with the most pairs first, and one more that ends them.
   *
   * @param queries of a work
   * @param keys of a tile
   */
  private record SpanTable(int queries, int keys) implements CallTable {
    @Override
    public long byteSize(AttentionCall call) {
      return (call.batch() + 1L) * SPAN_INTS * Integer.BYTES;
    }

    @Override
    public void write(AttentionCall call, MemorySegment target) {
      List<Integer> order = new ArrayList<>();
      for (int b = 0; b < call.batch(); b++) {
        if (isPrefill(call, b)) {
          order.add(b);
        }
      }
      order.sort(Comparator.comparingLong(b -> -pairs(call, b)));
      int works = 0;
      for (int i = 0; i < order.size(); i++) {
        writeSpan(target, i, works, call, order.get(i));
        works += works(call, order.get(i));
      }
      target.setAtIndex(JAVA_INT, (long) order.size() * SPAN_INTS, works);
    }

    /** How many works a sequence makes. */
    int works(AttentionCall call, int b) {
      long blocks = Math.ceilDiv(call.sequence(b).queries(), (long) queries);
      return Math.toIntExact(blocks * call.queryHeads());
    }

    /** Of queries and keys: long works are to begin early. */
    private static long pairs(AttentionCall call, int b) {
      return call.sequence(b).queries() * (call.sequence(b).endKey() - call.sequence(b).firstKey());
    }

    private void writeSpan(
        MemorySegment spans, int index, int firstWork, AttentionCall call, int b) {
      long[] fields = AttentionArguments.sequenceFields(call, b, call.sequence(b).queries());
      forgetLaps(fields, call.keyValues(), keys);
      long at = (long) index * SPAN_INTS;
      spans.setAtIndex(JAVA_INT, at, firstWork);
      spans.setAtIndex(JAVA_INT, at + 1, b);
      for (int i = 0; i < fields.length; i++) {
        spans.setAtIndex(JAVA_INT, at + 2 + i, (int) Math.clamp(fields[i], -FAR, FAR));
      }
    }
  }

  /**
   * Brings positions of an old ring near 0: by full laps, so that they lie where they lay, and by
   * full tiles, so that they fold as they folded.
   */
  private static void forgetLaps(long[] fields, KeyValues keyValues, int tile) {
    long firstKey = fields[AttentionArguments.FIRST_KEY];
    if (keyValues.layout().equals("ring")) {
      long period = keyValues.keys().shape(2) * tile;
      long past = firstKey / period * period;
      for (int position : AttentionArguments.POSITIONS) {
        fields[position] -= past;
      }
    }
    if (fields[AttentionArguments.END_KEY] >= FAR) {
      throw new IllegalArgumentException(
          "keyValues: positions from %d to %d are too far apart for this kernel"
              .formatted(firstKey, fields[AttentionArguments.END_KEY]));
    }
  }

  private void encode(MemorySegment map, Tensor t, int rows) {
    encode(
        map,
        t.dtype(),
        t.deviceAddress(),
        new long[] {t.shape(3), t.shape(2), t.shape(1), t.shape(0)},
        new long[] {t.stride(2), t.stride(1), t.stride(0)},
        rows);
  }

  /** The output's map, from the arguments: unless copied by map, it is left as it is. */
  private void encodeOut(MemorySegment map, AttentionLaunch launch) {
    MemorySegment arguments = launch.arguments();
    long out = AttentionArguments.OUT;
    DType type = launch.q().dtype();
    int outType = arguments.get(JAVA_INT, out + AttentionArguments.MATRIX_TYPE);
    if (outType == AttentionArguments.typeNumber(type)) {
      AttentionCall call = launch.call();
      encode(
          map,
          type,
          arguments.get(JAVA_LONG, out + AttentionArguments.MATRIX_DATA),
          new long[] {
            call.valueDim(), launch.q().shape(2), launch.q().shape(1), launch.q().shape(0)
          },
          new long[] {
            arguments.get(JAVA_LONG, out + AttentionArguments.MATRIX_ROW),
            arguments.get(JAVA_LONG, out + AttentionArguments.MATRIX_HEAD),
            arguments.get(JAVA_LONG, out + AttentionArguments.MATRIX_BLOCK)
          },
          GROUP_QUERIES);
    }
  }

  /**
   * Writes a map as hopper.cuh wants it.
   *
   * @param sizes columns, rows, heads, blocks
   * @param strides in elements, of rows, heads, blocks
   * @param boxRows the rows of a box
   */
  private void encode(
      MemorySegment map, DType type, long address, long[] sizes, long[] strides, int boxRows) {
    long columns = sizes[0];
    boolean fillsPanels = columns % PANEL == 0;
    int panels = fillsPanels ? (int) (columns / PANEL) : 1;
    maps.encode(
        map,
        type,
        address,
        new long[] {fillsPanels ? PANEL : columns, sizes[1], panels, sizes[2], sizes[3]},
        new long[] {
          strides[0] * type.bytes(),
          (long) PANEL * type.bytes(),
          strides[1] * type.bytes(),
          strides[2] * type.bytes()
        },
        new int[] {PANEL, boxRows, panels, 1, 1});
  }
}
