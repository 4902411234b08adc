package dev.foldmax.cli;

import dev.foldmax.Alignment;
import dev.foldmax.Attention;
import dev.foldmax.Mask;
import dev.foldmax.Phase;
import dev.foldmax.Rescale;
import dev.foldmax.Tensor;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import picocli.CommandLine.TypeConversionException;

/** What to compute, apart from tensors. */
final class AttentionOptions {
  private static final String CAUSAL = "--causal";

  @Spec(Spec.Target.MIXEE)
  private CommandSpec spec;

  @Option(
      names = CAUSAL,
      arity = "0..1",
      paramLabel = "ALIGNMENT",
      fallbackValue = "bottom-right",
      preprocessor = OptionalValue.class,
      converter = Choice.OfAlignment.class,
      completionCandidates = Choice.OfAlignment.class,
      description = {
        "A query sees the keys up to its own position. bottom-right (without a value): the last"
            + " query stands at the last key; top-left: the first query stands at the first key,"
            + " which then holds for --window and --slopes too."
      })
  private @Nullable Alignment causal;

  @Option(
      names = "--window",
      paramLabel = "L,R",
      converter = WindowConverter.class,
      description = "A query sees L keys before its own position to R after it; inf for no bound.")
  private @Nullable Window window;

  @Option(
      names = "--prefix",
      paramLabel = "N",
      description = "Prefix-LM: causal, and every query sees the first N keys.")
  private @Nullable Long prefix;

  @Option(
      names = "--scale",
      paramLabel = "X",
      description = "The factor of q.k; 1/sqrt(head dimension) without it.")
  private @Nullable Double scale;

  @Option(
      names = "--softcap",
      paramLabel = "X",
      description = "Bounds scores to -X..X: X tanh(score / X).")
  private @Nullable Double softCap;

  @Option(
      names = "--rescale",
      paramLabel = "WHEN",
      converter = Choice.OfRescale.class,
      completionCandidates = Choice.OfRescale.class,
      description =
          "always, on-new-max or lazy: when a running sum is corrected for a new maximum. The"
              + " results agree but for rounding.")
  private @Nullable Rescale rescale;

  @Option(
      names = "--tau",
      paramLabel = "X",
      description = "The threshold of --rescale lazy, in base 2 (8); by itself it chooses lazy.")
  private @Nullable Double tau;

  @Option(
      names = "--phase",
      paramLabel = "PHASE",
      converter = Choice.OfPhase.class,
      completionCandidates = Choice.OfPhase.class,
      description = "auto (decode for at most 16 queries), prefill or decode.")
  private Phase phase = Phase.AUTO;

  /** What {@code --window} takes. */
  record Window(long left, long right) {
    @Override
    public String toString() {
      return bound(left) + "," + bound(right);
    }

    private static String bound(long bound) {
      return bound == Mask.UNBOUNDED ? "inf" : Long.toString(bound);
    }
  }

  /** Reads {@code 4096,0} and {@code inf,128}. */
  static final class WindowConverter implements ITypeConverter<Window> {
    @Override
    public Window convert(String value) {
      String[] bounds = value.split(",", -1);
      if (bounds.length != 2) {
        throw wrong(value);
      }
      return new Window(bound(bounds[0], value), bound(bounds[1], value));
    }

    private static long bound(String bound, String value) {
      String text = bound.strip();
      if (text.equals("inf")) {
        return Mask.UNBOUNDED;
      }
      try {
        long number = Long.parseLong(text);
        if (number >= 0) {
          return number;
        }
      } catch (NumberFormatException e) {
        throw wrong(value);
      }
      throw wrong(value);
    }

    private static TypeConversionException wrong(String value) {
      return new TypeConversionException(
          "expected two numbers of keys, such as 4096,0 or inf,128, got '" + value + "'");
    }
  }

  /** Refuses options that contradict each other or are out of range. */
  void validate() {
    if (prefix != null && causal != null) {
      throw wrong("--prefix is causal by itself and conflicts with --causal");
    }
    if (prefix != null && prefix < 0) {
      throw wrong("--prefix: expected at least 0, got " + prefix);
    }
    if (tau != null && rescale != null && rescale != Rescale.LAZY) {
      throw wrong("--tau is for lazy and conflicts with --rescale " + Choice.nameOf(rescale));
    }
    if (scale != null && !Double.isFinite(scale)) {
      throw wrong("--scale: expected a finite number, got " + scale);
    }
    if (softCap != null && !(softCap > 0 && Double.isFinite(softCap))) {
      throw wrong("--softcap: expected a positive number, got " + softCap);
    }
    if (tau != null && !(tau >= 0 && tau <= Attention.MAX_TAU)) {
      throw wrong(
          "--tau: weights grow up to 2^tau, so expected 0 to "
              + Quantity.number(Attention.MAX_TAU)
              + ", got "
              + tau);
    }
  }

  /** For {@code --causal top-left FILE}, where the alignment is taken for the file. */
  static String causalHint(CommandLine command) {
    List<String> words = command.getParseResult().originalArgs();
    for (Alignment alignment : Alignment.values()) {
      int stray = words.indexOf(Choice.nameOf(alignment));
      if (stray > 0 && words.get(stray - 1).equals(CAUSAL)) {
        return "; --causal takes a value only after '=', as --causal=" + words.get(stray);
      }
    }
    return "";
  }

  private ParameterException wrong(String message) {
    return new ParameterException(spec.commandLine(), message);
  }

  /** What needs no tensor. */
  Attention definition() {
    Attention attention = Attention.standard().mask(intervals()).phase(phase);
    if (scale != null) {
      attention = attention.scale(scale);
    }
    if (softCap != null) {
      attention = attention.softCap(softCap);
    }
    if (tau != null) {
      attention = attention.lazyRescale(tau);
    } else if (rescale != null) {
      attention = attention.rescale(rescale);
    }
    return attention;
  }

  private Alignment alignment() {
    return causal == null ? Alignment.BOTTOM_RIGHT : causal;
  }

  private Mask intervals() {
    Mask mask = Mask.none();
    if (causal != null) {
      mask = mask.and(Mask.causal(causal));
    }
    if (window != null) {
      mask = mask.and(Mask.window(window.left(), window.right(), alignment()));
    }
    if (prefix != null) {
      mask = mask.and(Mask.prefix(prefix));
    }
    return mask;
  }

  /** The whole description, with the tensors of the files. */
  Attention attention(AttendInputs inputs) {
    Attention attention = definition();
    Tensor mask = inputs.tensor(Role.MASK);
    return attention
        .mask(mask == null ? attention.mask() : attention.mask().and(Mask.of(mask)))
        .bias(inputs.tensor(Role.BIAS))
        .alibi(inputs.tensor(Role.SLOPES), alignment())
        .sinks(inputs.tensor(Role.SINKS));
  }

  /**
   * Reports the attention.
   *
   * @param keyDim the head dimension of q and k
   */
  void describe(Report report, Attention attention, long keyDim) {
    List<String> words = new ArrayList<>();
    Map<String, @Nullable Object> json = new LinkedHashMap<>();
    double factor = attention.scaleFor(keyDim);
    words.add("scale " + Quantity.significant(factor));
    json.put("scale", factor);
    if (softCap != null) {
      words.add("soft cap " + Quantity.number(softCap));
      json.put("softCap", softCap);
    }
    if (causal != null) {
      words.add("causal " + Choice.nameOf(causal));
      json.put("causal", Choice.nameOf(causal));
    }
    if (window != null) {
      words.add("window " + window);
      json.put("window", window.toString());
    }
    if (prefix != null) {
      words.add("prefix " + prefix);
      json.put("prefix", prefix);
    }
    if (attention.rescale() != null) {
      String lazy =
          attention.rescale() == Rescale.LAZY ? ", tau " + Quantity.number(attention.tau()) : "";
      words.add("rescale " + Choice.nameOf(attention.rescale()) + lazy);
      json.put("rescale", Choice.nameOf(attention.rescale()));
      json.put("tau", attention.rescale() == Rescale.LAZY ? attention.tau() : null);
    }
    json.put("phase", Choice.nameOf(attention.phase()));
    report.line("attention", String.join(", ", words));
    report.field("attention", json);
  }
}
