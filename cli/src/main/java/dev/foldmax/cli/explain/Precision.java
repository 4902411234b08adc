package dev.foldmax.cli.explain;

import java.util.ArrayList;
import java.util.List;

/**
 * The error of one way to compute a row.
 *
 * @param name in words
 * @param errors against the reference
 */
public record Precision(String name, Errors errors) {
  /**
   * Folds a row in float32, with weights of 32 and of 16 bits.
   *
   * @param row of which no score is NaN or +inf
   * @param tile keys of a tile
   */
  public static List<Precision> of(Row row, int tile) {
    List<Precision> list = new ArrayList<>();
    list.add(new Precision("fold in f32", FloatFold.of(row, tile, Format.F32, 1).errors()));
    list.add(new Precision("weights P in bf16", FloatFold.of(row, tile, Format.BF16, 1).errors()));
    list.add(new Precision("weights P in f16", FloatFold.of(row, tile, Format.F16, 1).errors()));
    return list;
  }
}
