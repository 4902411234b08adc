package dev.foldmax.examples.decoder;

import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Random;

/**
 * Pages of a pool, in any order, and a table that lists those of the sequence. An engine shares the
 * pool between sequences; here there is one, whose pages come shuffled.
 */
final class PagedCache extends KvCache {
  /** Tokens of a page. */
  static final int PAGE = 16;

  private final int pages;
  private final float[][] keys; // (layers)(pages, PAGE, key heads, dim)
  private final float[][] values;
  private final Deque<Integer> free = new ArrayDeque<>();
  private final int[] table; // (pages of the sequence)
  private int held; // how many entries of the table are pages of ours

  PagedCache(ModelShape shape, int capacity, long seed) {
    super(shape);
    pages = Math.ceilDiv(capacity, PAGE);
    keys = new float[shape.layers()][pages * PAGE * shape.rowSize()];
    values = new float[shape.layers()][pages * PAGE * shape.rowSize()];
    table = new int[pages];
    List<Integer> shuffled = new ArrayList<>();
    for (int page = 0; page < pages; page++) {
      shuffled.add(page);
    }
    Collections.shuffle(shuffled, new Random(seed));
    free.addAll(shuffled);
  }

  @Override
  KeyValues write(int layer, Tensor newKeys, Tensor newValues) {
    int end = endOf(newKeys, pages * PAGE);
    while (held < Math.ceilDiv(end, PAGE)) {
      table[held++] = free.remove();
    }
    return KeyValues.paged(
        write(keys[layer], newKeys),
        write(values[layer], newValues),
        Tensor.of(table, 1, table.length),
        Tensor.of(new int[] {end}, 1));
  }

  private Tensor write(float[] array, Tensor rows) {
    Tensor pool = Tensor.of(array, pages, PAGE, shape().keyHeads(), shape().dim());
    for (int row = 0; row < rows.shape(0); row++) {
      int position = length() + row;
      Tensor page = pool.select(0, table[position / PAGE]);
      page.select(0, position % PAGE).copyFrom(rows.select(0, row));
    }
    return pool.permute(0, 2, 1, 3);
  }
}
