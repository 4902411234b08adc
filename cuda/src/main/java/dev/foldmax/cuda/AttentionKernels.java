package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.foldmax.Attention;
import dev.foldmax.DType;
import dev.foldmax.KernelChoice;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Rescale;
import dev.foldmax.Sequence;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Chooses a family of kernels for a call, brings its tensors into form and launches. */
final class AttentionKernels {
  private static final List<Phase> PREFILL = List.of(Phase.PREFILL);
  private static final List<Phase> DECODE = List.of(Phase.DECODE);
  private static final List<Phase> BOTH = List.of(Phase.PREFILL, Phase.DECODE);

  private final Workplace workplace;
  private final List<AttentionKernel> prefill;
  private final List<AttentionKernel> decode;
  private final Map<Kind, AttentionKernel> chosen = new HashMap<>();

  /** Written for one call after the other. */
  private final AttentionArguments arguments =
      new AttentionArguments(Arena.ofAuto().allocate(AttentionArguments.LAYOUT));

  /**
   * With families in order of preference.
   *
   * @param prefill for many queries
   * @param decode for few
   */
  AttentionKernels(
      Workplace workplace, List<AttentionKernel> prefill, List<AttentionKernel> decode) {
    this.workplace = workplace;
    this.prefill = List.copyOf(prefill);
    this.decode = List.copyOf(decode);
  }

  private List<AttentionKernel> families(Phase phase) {
    return phase == Phase.DECODE ? decode : prefill;
  }

  /** Which families would serve a call, and why not the ones before them. */
  KernelChoice explain(AttentionCall call) {
    Optional<String> declined = declines(call);
    if (declined.isPresent()) {
      return new KernelChoice(null, List.of(new KernelChoice.Declined("cuda", declined.get())));
    }
    List<KernelChoice.Declined> reasons = new ArrayList<>();
    List<String> names = new ArrayList<>();
    for (Phase phase : phases(call)) {
      AttentionKernel chosen = null;
      for (AttentionKernel family : families(phase)) {
        String reason = family.declines(call, workplace.device());
        if (reason == null) {
          chosen = family;
          break;
        }
        reasons.add(new KernelChoice.Declined(family.name(), reason));
      }
      if (chosen == null) {
        return new KernelChoice(null, reasons);
      }
      names.add(chosen.name());
    }
    return new KernelChoice(String.join("; ", names), reasons);
  }

  /** What no family serves. */
  private static Optional<String> declines(AttentionCall call) {
    if (call.isFloat64()) {
      return Optional.of(Declines.FLOAT64);
    }
    if (call.attention().scoreFunction() != null) {
      return Optional.of(Declines.SCORE_FUNCTION);
    }
    Mask mask = call.attention().mask();
    if (has(Mask.Custom.class, mask)) {
      return Optional.of(Declines.MASK_FUNCTION);
    }
    return booleanMasks(mask) > AttentionArguments.MOST_MASKS
        ? Optional.of(Declines.MASKS)
        : Optional.empty();
  }

  /** The phases of a call's sequences; at least one. */
  private static List<Phase> phases(AttentionCall call) {
    boolean hasPrefill = false;
    boolean hasDecode = false;
    for (int b = 0; b < call.batch(); b++) {
      boolean decodes = call.phase(b) == Phase.DECODE;
      hasDecode |= decodes;
      hasPrefill |= !decodes;
    }
    return hasDecode ? hasPrefill ? BOTH : DECODE : PREFILL;
  }

  /** What a family's answer follows from, see {@link AttentionKernel#declines}. */
  private record Kind(
      Phase phase,
      DType q,
      DType k,
      DType v,
      boolean hasScales,
      int keyDim,
      int valueDim,
      @Nullable Rescale rescale) {
    static Kind of(AttentionCall call, Phase phase) {
      KeyValues keyValues = call.keyValues();
      return new Kind(
          phase,
          call.q().dtype(),
          keyValues.keys().dtype(),
          keyValues.values().dtype(),
          keyValues.keyScales() != null || keyValues.valueScales() != null,
          call.keyDim(),
          call.valueDim(),
          call.attention().rescale());
    }
  }

  private AttentionKernel choose(AttentionCall call, Phase phase) {
    Kind kind = Kind.of(call, phase);
    AttentionKernel known = chosen.get(kind);
    if (known != null) {
      return known;
    }
    for (AttentionKernel family : families(phase)) {
      if (family.declines(call, workplace.device()) == null) {
        chosen.put(kind, family);
        return family;
      }
    }
    throw new UnsupportedOperationException(explain(call).toString());
  }

  /** Enqueues a call's work. */
  void attend(AttentionCall call, Staging staging) {
    Optional<String> declined = declines(call);
    if (declined.isPresent()) {
      throw new UnsupportedOperationException("cuda: " + declined.get());
    }
    checkScale(call);
    if (call.queryHeads() == 0 || mostQueries(call, null) == 0) {
      return;
    }
    arguments.clear();
    arguments.setNumbers(call);
    Tensor q = staging.readMatrix(call.q());
    Tensor k = staging.readMatrix(call.keyValues().keys());
    Tensor v = staging.readMatrix(call.keyValues().values());
    arguments.setQ(q);
    arguments.setKeys(k);
    arguments.setValues(v);
    arguments.setScales(
        staging.readIfAny(call.keyValues().keyScales()),
        staging.readIfAny(call.keyValues().valueScales()));
    setDefinition(call.attention(), staging);
    boolean keep = hasForeignRows(call);
    arguments.setOut(staging.writeMatrix(call.out(), keep));
    Tensor lse = call.lse();
    arguments.setLse(lse == null ? null : staging.write(lse, keep));
    boolean lengthsMayChange = workplace.isCapturing() && !GraphTables.indices(call).isEmpty();
    List<Phase> phases = phases(call);
    long tables = sendTables(call, phases, lengthsMayChange);
    for (Phase phase : phases) {
      long mostQueries = mostQueries(call, phase);
      long mostKeys = lengthsMayChange ? room(call) : mostKeys(call, phase);
      arguments.setSequences(tables, mostQueries, mostKeys);
      tables += call.batch() * AttentionArguments.SEQUENCE.byteSize();
      if (mostQueries > 0) {
        choose(call, phase)
            .launch(
                new AttentionLaunch(
                    call,
                    arguments.memory(),
                    q,
                    k,
                    v,
                    mostQueries,
                    mostKeys,
                    lengthsMayChange,
                    workplace));
      }
    }
  }

  private void setDefinition(Attention attention, Staging staging) {
    addBooleanMasks(attention.mask(), staging);
    Tensor bias = attention.bias();
    if (bias != null) {
      arguments.setBias(staging.read(bias));
    }
    Tensor slopes = attention.alibiSlopes();
    if (slopes != null) {
      arguments.setSlopes(staging.read(slopes));
    }
    Tensor sinks = attention.sinks();
    if (sinks != null) {
      arguments.setSinks(staging.read(sinks));
    }
  }

  /** Whether some rows of the output belong to no sequence, and must be left alone. */
  private static boolean hasForeignRows(AttentionCall call) {
    if (call.keyValues().queryOffsets() == null) {
      return false;
    }
    long own = 0;
    for (int b = 0; b < call.batch(); b++) {
      own += call.sequence(b).queries();
    }
    return own != call.q().shape(2);
  }

  /** Sends a call's table; its address. */
  private long sendTables(AttentionCall call, List<Phase> phases, boolean lengthsMayChange) {
    long pages = 0;
    if (call.keyValues().layout().equals("paged")) {
      long most = lengthsMayChange ? room(call) : mostKeys(call, null);
      pages = Math.ceilDiv(most, call.keyValues().keys().shape(2));
    }
    SequenceTable table = new SequenceTable(phases, pages);
    long address = workplace.send(call, table);
    if (pages > 0) {
      arguments.setTable(address + table.blockTableAt(call), pages);
    }
    return address;
  }

  /** The page of a position as kernels are told it. */
  static int page(KeyValues keyValues, int b, long position) {
    long page = keyValues.block(b, position);
    if (page > Integer.MAX_VALUE) {
      throw new IllegalArgumentException(
          "blockTable: entry (%d, %d) is %d, and kernels number pages up to %d"
              .formatted(b, position / keyValues.keys().shape(2), page, Integer.MAX_VALUE));
    }
    return (int) page;
  }

  /**
   * Side by side, the sequences as each phase is to see them (those of the other phase without
   * queries) and the block table.
   *
   * @param pages columns of the block table
   */
  private record SequenceTable(List<Phase> phases, long pages) implements CallTable {
    long blockTableAt(AttentionCall call) {
      return (long) phases.size() * call.batch() * AttentionArguments.SEQUENCE.byteSize();
    }

    @Override
    public long byteSize(AttentionCall call) {
      return blockTableAt(call) + call.batch() * pages * Integer.BYTES;
    }

    @Override
    public void write(AttentionCall call, MemorySegment target) {
      long place = 0;
      for (int i = 0; i < phases.size(); i++) {
        for (int b = 0; b < call.batch(); b++) {
          long queries = call.phase(b) == phases.get(i) ? call.sequence(b).queries() : 0;
          AttentionArguments.writeSequence(target, place, call, b, queries);
          place += AttentionArguments.SEQUENCE.byteSize();
        }
      }
      KeyValues keyValues = call.keyValues();
      long pageSize = keyValues.keys().shape(2);
      for (int b = 0; b < call.batch() && pages > 0; b++) {
        for (long p = 0; p < call.sequence(b).endKey(); p += pageSize) {
          target.set(JAVA_INT, place + p / pageSize * Integer.BYTES, page(keyValues, b, p));
        }
        place += pages * Integer.BYTES;
      }
    }
  }

  /** How many keys a sequence could have at most, in the tensors that a call has. */
  private static long room(AttentionCall call) {
    long[] room = {call.keyValues().keys().shape(2)};
    call.keyValues()
        .forEachTensor(
            (name, tensor) -> {
              if (name.equals("blockTable")) {
                room[0] *= tensor.shape(1);
              }
            });
    return room[0];
  }

  /** The most queries of a sequence of a phase, or of any where it is null. */
  private static long mostQueries(AttentionCall call, @Nullable Phase phase) {
    long most = 0;
    for (int b = 0; b < call.batch(); b++) {
      if (phase == null || call.phase(b) == phase) {
        most = Math.max(most, call.sequence(b).queries());
      }
    }
    return most;
  }

  private static long mostKeys(AttentionCall call, @Nullable Phase phase) {
    long most = 0;
    for (int b = 0; b < call.batch(); b++) {
      Sequence sequence = call.sequence(b);
      if (phase == null || call.phase(b) == phase) {
        most = Math.max(most, sequence.endKey() - sequence.firstKey());
      }
    }
    return most;
  }

  /** In float32, the scale has to be a float32 number too. */
  private static void checkScale(AttentionCall call) {
    float scale = (float) call.scale();
    if (Float.isInfinite(scale) || (scale == 0 && call.scale() != 0)) {
      throw new IllegalArgumentException(
          "scale: "
              + call.scale()
              + " is beyond float32, in which inputs other than F64 are computed");
    }
  }

  private void addBooleanMasks(Mask mask, Staging staging) {
    if (mask instanceof Mask.Dense dense) {
      arguments.addMask(staging.read(dense.visible()));
    } else if (mask instanceof Mask.And and) {
      for (int i = 0; i < and.parts().size(); i++) {
        addBooleanMasks(and.parts().get(i), staging);
      }
    }
  }

  private static int booleanMasks(Mask mask) {
    int count = mask instanceof Mask.Dense ? 1 : 0;
    if (mask instanceof Mask.And and) {
      for (int i = 0; i < and.parts().size(); i++) {
        count += booleanMasks(and.parts().get(i));
      }
    }
    return count;
  }

  /** Whether a mask is, or has as a part, one of a kind. */
  private static boolean has(Class<? extends Mask> kind, Mask mask) {
    if (mask instanceof Mask.And and) {
      for (int i = 0; i < and.parts().size(); i++) {
        if (has(kind, and.parts().get(i))) {
          return true;
        }
      }
    }
    return kind.isInstance(mask);
  }
}
