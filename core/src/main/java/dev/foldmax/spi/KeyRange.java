package dev.foldmax.spi;

import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * The keys that a part of an attention is over, be it finished or not.
 *
 * @param name what the part is called in messages, such as its file
 * @param definition which attention it is of, see {@link dev.foldmax.AttentionPartial#definition}
 * @param begin the first key
 * @param end one past the last key
 * @param total the keys of the whole
 */
public record KeyRange(
    String name, Map<String, String> definition, long begin, long end, long total) {
  /**
   * Checks that parts are of one attention and lie side by side.
   *
   * @param parts in any order, at least one
   * @param whole whether they must cover all keys
   * @return the places of the parts in the order of their keys
   * @throws IllegalArgumentException that names the part that does not fit, and why
   */
  public static int[] order(List<KeyRange> parts, boolean whole) {
    KeyRange first = parts.getFirst();
    for (KeyRange part : parts) {
      first.checkSameAttention(part);
    }
    int[] order =
        IntStream.range(0, parts.size())
            .boxed()
            .sorted(Comparator.comparingLong(i -> parts.get(i).begin()))
            .mapToInt(Integer::intValue)
            .toArray();
    long covered = whole ? 0 : parts.get(order[0]).begin();
    String owner = first.name();
    for (int i : order) {
      KeyRange part = parts.get(i);
      if (part.begin() > covered) {
        throw missing(covered, part.begin());
      }
      if (part.begin() < covered) {
        throw new IllegalArgumentException(
            "%s: has the keys %d..%d, of which %s has %d..%d already"
                .formatted(
                    part.name(),
                    part.begin(),
                    part.end(),
                    owner,
                    part.begin(),
                    Math.min(covered, part.end())));
      }
      covered = part.end();
      owner = part.name();
    }
    if (whole && covered < first.total()) {
      throw missing(covered, first.total());
    }
    return order;
  }

  private static IllegalArgumentException missing(long begin, long end) {
    return new IllegalArgumentException("the keys " + begin + ".." + end + " are in no part");
  }

  private void checkSameAttention(KeyRange other) {
    Set<String> names = new LinkedHashSet<>(definition.keySet());
    names.addAll(other.definition.keySet());
    for (String part : names) {
      checkSame(part, definition.get(part), other, other.definition.get(part));
    }
    checkSame("number of all keys", total, other, other.total);
  }

  /**
   * Checks that something is the same in this part and in another one.
   *
   * @throws IllegalArgumentException that names both
   */
  void checkSame(String what, @Nullable Object own, KeyRange other, @Nullable Object others) {
    if (!Objects.equals(own, others)) {
      throw new IllegalArgumentException(
          "%s: does not belong to %s: %s is %s, expected %s"
              .formatted(other.name, name, what, others, own));
    }
  }
}
