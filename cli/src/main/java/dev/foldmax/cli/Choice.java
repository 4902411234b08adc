package dev.foldmax.cli;

import dev.foldmax.Alignment;
import dev.foldmax.Phase;
import dev.foldmax.Rescale;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/**
 * Enum constants as users type them: {@code ON_NEW_MAX} is {@code on-new-max}. Iterated over, their
 * names, for the completion of the shell.
 */
abstract class Choice<E extends Enum<E>> implements ITypeConverter<E>, Iterable<String> {
  private final Class<E> type;

  private Choice(Class<E> type) {
    this.type = type;
  }

  static String nameOf(Enum<?> constant) {
    return constant.name().toLowerCase(Locale.ROOT).replace('_', '-');
  }

  @Override
  public E convert(String value) {
    for (E constant : type.getEnumConstants()) {
      if (nameOf(constant).equals(value)) {
        return constant;
      }
    }
    throw new TypeConversionException("expected " + alternatives() + ", got '" + value + "'");
  }

  @Override
  public Iterator<String> iterator() {
    return names().iterator();
  }

  private List<String> names() {
    return Arrays.stream(type.getEnumConstants()).map(Choice::nameOf).toList();
  }

  /** Such as {@code a, b or c}. */
  private String alternatives() {
    List<String> names = names();
    int last = names.size() - 1;
    return last == 0
        ? names.getFirst()
        : String.join(", ", names.subList(0, last)) + " or " + names.get(last);
  }

  /** For {@code --causal}. */
  static final class OfAlignment extends Choice<Alignment> {
    OfAlignment() {
      super(Alignment.class);
    }
  }

  /** For {@code --rescale}. */
  static final class OfRescale extends Choice<Rescale> {
    OfRescale() {
      super(Rescale.class);
    }
  }

  /** For {@code --phase}. */
  static final class OfPhase extends Choice<Phase> {
    OfPhase() {
      super(Phase.class);
    }
  }

  /** For {@code --layout}. */
  static final class OfLayout extends Choice<Layout> {
    OfLayout() {
      super(Layout.class);
    }

    /** Takes the names with s for sequence, too. */
    @Override
    public Layout convert(String value) {
      return super.convert(
          switch (value) {
            case "bhsd" -> "bhld";
            case "bshd" -> "blhd";
            default -> value;
          });
    }
  }

  /** For {@code --backend}. */
  static final class OfBackend extends Choice<BackendOptions.Name> {
    OfBackend() {
      super(BackendOptions.Name.class);
    }
  }

  /** For {@code --backend} of bench. */
  static final class OfBenchBackend extends Choice<BenchCommand.Name> {
    OfBenchBackend() {
      super(BenchCommand.Name.class);
    }
  }

  /** For {@code --progress}. */
  static final class OfProgress extends Choice<Progress.Form> {
    OfProgress() {
      super(Progress.Form.class);
    }
  }
}
