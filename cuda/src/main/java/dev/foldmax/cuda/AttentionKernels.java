package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.foldmax.Attention;
import dev.foldmax.KernelChoice;
import dev.foldmax.KeyValues;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Sequence;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Chooses a family of kernels for a call, brings its tensors into form and launches. */
final class AttentionKernels {
  private final Workplace workplace;
  private final List<AttentionKernel> prefill;
  private final List<AttentionKernel> decode;

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
    Masks masks = Masks.of(call.attention().mask());
    if (masks.hasFunction) {
      return Optional.of(Declines.MASK_FUNCTION);
    }
    return masks.dense.size() > AttentionArguments.MOST_MASKS
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
    return hasPrefill && hasDecode
        ? List.of(Phase.PREFILL, Phase.DECODE)
        : List.of(hasDecode ? Phase.DECODE : Phase.PREFILL);
  }

  private AttentionKernel choose(AttentionCall call, Phase phase) {
    for (AttentionKernel family : families(phase)) {
      if (family.declines(call, workplace.device()) == null) {
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
    try (Arena arena = Arena.ofConfined()) {
      AttentionArguments arguments =
          new AttentionArguments(arena.allocate(AttentionArguments.LAYOUT));
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
      setDefinition(arguments, call.attention(), staging);
      boolean keep = hasForeignRows(call);
      arguments.setOut(staging.writeMatrix(call.out(), keep));
      Tensor lse = call.lse();
      arguments.setLse(lse == null ? null : staging.write(lse, keep));
      List<Phase> phases = phases(call);
      long tables = sendTables(call, phases, arguments, arena);
      for (Phase phase : phases) {
        long mostQueries = mostQueries(call, phase);
        long mostKeys = mostKeys(call, phase);
        arguments.setSequences(tables, mostQueries, mostKeys);
        tables += call.batch() * AttentionArguments.SEQUENCE.byteSize();
        if (mostQueries > 0) {
          choose(call, phase)
              .launch(
                  new AttentionLaunch(
                      call, arguments.memory(), q, k, v, mostQueries, mostKeys, workplace));
        }
      }
    }
  }

  private static void setDefinition(
      AttentionArguments arguments, Attention attention, Staging staging) {
    for (Tensor mask : Masks.of(attention.mask()).dense) {
      arguments.addMask(staging.read(mask));
    }
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

  /**
   * Sends, side by side, the sequences as each phase is to see them (those of the other phase
   * without queries) and the block table.
   */
  private long sendTables(
      AttentionCall call, List<Phase> phases, AttentionArguments arguments, Arena arena) {
    long sequenceBytes = AttentionArguments.SEQUENCE.byteSize();
    KeyValues keyValues = call.keyValues();
    boolean hasTable = keyValues.layout().equals("paged");
    long pageSize = keyValues.keys().shape(2);
    long pages = hasTable ? Math.ceilDiv(mostKeys(call, null), pageSize) : 0;
    long tableAt = (long) phases.size() * call.batch() * sequenceBytes;
    MemorySegment block =
        arena.allocate(tableAt + call.batch() * pages * Integer.BYTES, Long.BYTES);
    long place = 0;
    for (Phase phase : phases) {
      for (int b = 0; b < call.batch(); b++) {
        long queries = call.phase(b) == phase ? call.sequence(b).queries() : 0;
        AttentionArguments.writeSequence(block, place, call, b, queries);
        place += sequenceBytes;
      }
    }
    for (int b = 0; b < call.batch() && hasTable; b++) {
      for (long p = 0; p < call.sequence(b).endKey(); p += pageSize) {
        long entry = tableAt + (b * pages + p / pageSize) * Integer.BYTES;
        block.set(JAVA_INT, entry, (int) keyValues.block(b, p));
      }
    }
    long address = workplace.send(block);
    if (hasTable) {
      arguments.setTable(address + tableAt, pages);
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

  /** The parts of a mask that are no intervals. */
  private static final class Masks {
    private final List<Tensor> dense = new ArrayList<>();
    private boolean hasFunction;

    static Masks of(Mask mask) {
      Masks masks = new Masks();
      masks.add(mask);
      return masks;
    }

    private void add(Mask mask) {
      switch (mask) {
        case Mask.Dense part -> dense.add(part.visible());
        case Mask.Custom custom -> hasFunction = true;
        case Mask.And and -> and.parts().forEach(this::add);
        case Mask.None none -> {}
        case Mask.Causal causal -> {}
        case Mask.Window window -> {}
        case Mask.Prefix prefix -> {}
      }
    }
  }
}
