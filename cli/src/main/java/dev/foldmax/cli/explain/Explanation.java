package dev.foldmax.cli.explain;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * All that is said of a row.
 *
 * @param title what is explained, in a few words that may hold anything, such as a file's name
 * @param facts more of the same by name, such as the attention and the tensors
 * @param rowNoun such as {@code query}
 * @param keyNoun what a row has a score for, such as {@code key}
 * @param rowNumber its number among the rows of the head
 * @param row the row
 * @param trouble sentences on what keeps numbers from being numbers; empty for most rows
 * @param trace the fold; null where a score is NaN or +inf
 * @param weights null unless the row is {@link Row.Condition#ORDINARY}
 * @param withoutMaximum likewise empty
 * @param precisions the errors of ways to compute the row
 * @param comparisons computations of the row, bit by bit
 * @param head the rows around it
 * @param costs what dialects cost; null where that was not measured
 */
public record Explanation(
    String title,
    Map<String, String> facts,
    String rowNoun,
    String keyNoun,
    long rowNumber,
    Row row,
    List<String> trouble,
    @Nullable RowTrace trace,
    @Nullable Weights weights,
    List<WithoutMaximum> withoutMaximum,
    List<Precision> precisions,
    List<Comparison> comparisons,
    Head head,
    @Nullable Costs costs) {}
