package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;

import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.KeyValues;
import dev.foldmax.Tensor;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;

/**
 * A problem laid out in memory. Whatever does not belong to it (rows past a sequence's length,
 * pages of nobody, the surroundings of a view) is NaN, and must stay what it was in the outputs.
 */
final class Call {
  /** No attention gives this number, which every float type holds. */
  private static final double UNTOUCHED = -8192;

  private final Problem problem;
  private final boolean packed;
  private final int[] firstQuery; // (batch + 1); the row of each sequence's first query
  private final Tensor q;
  private final KeyValues keyValues;
  private final Memory.Block out;
  private final Memory.Block lse;

  private Call(Problem problem, Layout layout, Memory memory, boolean packed, long placement) {
    this.problem = problem;
    this.packed = packed;
    this.firstQuery = new int[problem.batch() + 1];
    firstQuery[0] = packed ? 2 : 0; // rows 0 and 1 belong to no sequence
    for (int b = 0; b < problem.batch(); b++) {
      firstQuery[b + 1] = packed ? firstQuery[b] + problem.queries(b) : 0;
    }
    DType lseType = problem.isFloat64() ? DType.F64 : DType.F32;
    this.q = memory.block(Double.NaN, problem.queryType(), queryShape(problem.dqk())).view();
    this.out = memory.block(UNTOUCHED, problem.outType(), queryShape(problem.dv()));
    long[] shape = queryShape(1);
    this.lse = memory.block(UNTOUCHED, lseType, Arrays.copyOf(shape, shape.length - 1));
    for (int b = 0; b < problem.batch(); b++) {
      for (int h = 0; h < problem.queryHeads(); h++) {
        put(q, problem.q(b, h), b, h);
      }
    }
    KeyValues laid = new Store(problem, layout, memory, placement).build();
    this.keyValues = packed ? laid.queryOffsets(Tensor.of(firstQuery, firstQuery.length)) : laid;
  }

  /** Laid out; queries are packed where sequences differ in their number. */
  static Call of(Problem problem, Layout layout, Memory memory) {
    return new Call(problem, layout, memory, !problem.hasOneQueryLength(), problem.seed());
  }

  /** Dense in heap arrays, or ragged where lengths differ. */
  static Call plain(Problem problem) {
    Layout layout =
        problem.firstKey() > 0
            ? Layout.RING
            : problem.hasOneKeyLength() ? Layout.DENSE : Layout.RAGGED;
    return of(problem, layout, Memory.HEAP);
  }

  /** With packed queries. */
  static Call packed(Problem problem, Layout layout, Memory memory) {
    return new Call(problem, layout, memory, true, problem.seed());
  }

  /** With pages elsewhere. */
  static Call placed(Problem problem, Layout layout, long placement) {
    return new Call(problem, layout, Memory.HEAP, !problem.hasOneQueryLength(), placement);
  }

  private long[] queryShape(int dim) {
    int batch = problem.batch();
    return packed
        ? new long[] {problem.queryHeads(), firstQuery[batch] + 1, dim}
        : new long[] {batch, problem.queryHeads(), batch == 0 ? 0 : problem.queries(0), dim};
  }

  private void put(Tensor tensor, double[] rows, int b, int h) {
    int dim = (int) tensor.shape(-1);
    for (int i = 0; i < problem.queries(b); i++) {
      long offset = offset(tensor, b, h, i);
      for (int d = 0; d < dim; d++) {
        tensor.setAt(offset + d * tensor.stride(-1), rows[i * dim + d]);
      }
    }
  }

  private long offset(Tensor tensor, int b, int h, int i) {
    return packed
        ? h * tensor.stride(0) + (firstQuery[b] + i) * tensor.stride(1)
        : b * tensor.stride(0) + h * tensor.stride(1) + i * tensor.stride(2);
  }

  Problem problem() {
    return problem;
  }

  Tensor q() {
    return q;
  }

  KeyValues keyValues() {
    return keyValues;
  }

  Tensor out() {
    return out.view();
  }

  Tensor lse() {
    return lse.view();
  }

  /** Runs the attention and reads its result, after a look at what should not have been written. */
  Outcome run(Backend backend) {
    out.whole().fill(UNTOUCHED);
    lse.whole().fill(UNTOUCHED);
    backend.attend(q, keyValues, problem.attention(), out.view(), lse.view());
    Outcome outcome = read(out.view(), lse.view());
    assertThat(out.count(UNTOUCHED))
        .as("elements around the output that were left alone")
        .isEqualTo(out.whole().elements() - outcome.out.length);
    assertThat(lse.count(UNTOUCHED))
        .as("elements around the logsumexp that were left alone")
        .isEqualTo(lse.whole().elements() - outcome.lse.length);
    return outcome;
  }

  /** Reads results of the shapes of {@link #out} and {@link #lse}. */
  Outcome read(Tensor outView, Tensor lseView) {
    int dv = problem.dv();
    Outcome outcome = new Outcome(new double[problem.rows() * dv], new double[problem.rows()]);
    int row = 0;
    for (int b = 0; b < problem.batch(); b++) {
      for (int h = 0; h < problem.queryHeads(); h++) {
        for (int i = 0; i < problem.queries(b); i++) {
          long offset = offset(outView, b, h, i);
          for (int d = 0; d < dv; d++) {
            outcome.out[row * dv + d] = outView.at(offset + d * outView.stride(-1));
          }
          outcome.lse[row++] = lseView.at(offset(lseView, b, h, i));
        }
      }
    }
    return outcome;
  }

  /** Keys and values in a layout. */
  private static final class Store {
    private final Problem problem;
    private final Layout layout;
    private final Memory memory;
    private final int most;
    private final int[] offsets;
    private final int pagesOfSequence;
    private final int[] pages; // (batch, pagesOfSequence)
    private final int blocks;
    private final int rows;

    Store(Problem problem, Layout layout, Memory memory, long placement) {
      this.problem = problem;
      this.layout = layout;
      this.memory = memory;
      int batch = problem.batch();
      int longest = 0;
      offsets = new int[batch + 1];
      offsets[0] = 1; // row 0 belongs to no sequence
      for (int b = 0; b < batch; b++) {
        longest = Math.max(longest, problem.keys(b));
        offsets[b + 1] = offsets[b] + problem.keys(b);
      }
      most = longest;
      int pageSize = layout.pageSize();
      pagesOfSequence = pageSize == 0 ? 0 : Math.ceilDiv(most, pageSize) + 1;
      int pageCount = batch * pagesOfSequence + 2;
      pages = shuffled(pageCount, placement);
      blocks =
          switch (layout) {
            case RAGGED -> 1;
            case PAGED_1, PAGED_3, PAGED_16 -> pageCount;
            default -> batch;
          };
      rows =
          switch (layout) {
            case DENSE, RING_FULL -> most;
            case LENGTHS -> most + 3;
            case RAGGED -> offsets[batch] + 2;
            case PAGED_1, PAGED_3, PAGED_16 -> pageSize;
            case RING -> most + 5;
          };
    }

    private static int[] shuffled(int n, long seed) {
      int[] order = new int[n];
      Arrays.setAll(order, i -> i);
      SplittableRandom random = new SplittableRandom(seed);
      for (int i = n - 1; i > 0; i--) {
        int j = random.nextInt(i + 1);
        int swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
      }
      return order;
    }

    private int block(int b, int j) {
      return switch (layout) {
        case RAGGED -> 0;
        case PAGED_1, PAGED_3, PAGED_16 -> pages[b * pagesOfSequence + j / layout.pageSize()];
        default -> b;
      };
    }

    private int row(int b, int j) {
      return switch (layout) {
        case RAGGED -> offsets[b] + j;
        case PAGED_1, PAGED_3, PAGED_16 -> j % layout.pageSize();
        case RING, RING_FULL -> (int) ((problem.firstKey() + j) % rows);
        default -> j;
      };
    }

    KeyValues build() {
      Tensor keys = tensor(problem.dqk());
      Tensor values = tensor(problem.dv());
      boolean quantised = problem.keyType() == DType.I8;
      Tensor keyScales = quantised ? scales() : null;
      Tensor valueScales = quantised ? scales() : null;
      for (int b = 0; b < problem.batch(); b++) {
        for (int kh = 0; kh < problem.keyHeads(); kh++) {
          double[] k = problem.kOfKeyHead(b, kh);
          double[] v = problem.vOfKeyHead(b, kh);
          for (int j = 0; j < problem.keys(b); j++) {
            put(keys, keyScales, k, problem.keyScale(b, kh, j), b, kh, j);
            put(values, valueScales, v, problem.valueScale(b, kh, j), b, kh, j);
          }
        }
      }
      KeyValues laid = describe(keys, values);
      return quantised
          ? laid.scales(dropBlockIfRagged(keyScales), dropBlockIfRagged(valueScales))
          : laid;
    }

    private Tensor tensor(int dim) {
      double around = problem.keyType() == DType.I8 ? 127 : Double.NaN;
      return memory.block(around, problem.keyType(), blocks, problem.keyHeads(), rows, dim).view();
    }

    private Tensor scales() {
      return memory.block(Double.NaN, DType.F32, blocks, problem.keyHeads(), rows).view();
    }

    private void put(
        Tensor tensor,
        @Nullable Tensor scales,
        double[] numbers,
        double scale,
        int b,
        int kh,
        int j) {
      int dim = (int) tensor.shape(-1);
      int block = block(b, j);
      int row = row(b, j);
      for (int d = 0; d < dim; d++) {
        tensor.set(numbers[j * dim + d] / scale, block, kh, row, d);
      }
      if (scales != null) {
        scales.set(scale, block, kh, row);
      }
    }

    private Tensor dropBlockIfRagged(Tensor tensor) {
      return layout == Layout.RAGGED ? tensor.select(0, 0) : tensor;
    }

    private KeyValues describe(Tensor keys, Tensor values) {
      int batch = problem.batch();
      int[] lengths = new int[batch];
      Arrays.setAll(lengths, problem::keys);
      Tensor lengthTensor = Tensor.of(lengths, batch);
      return switch (layout) {
        case DENSE -> KeyValues.dense(keys, values);
        case LENGTHS -> KeyValues.dense(keys, values).lengths(lengthTensor);
        case RAGGED ->
            KeyValues.ragged(
                keys.select(0, 0), values.select(0, 0), Tensor.of(offsets, offsets.length));
        case PAGED_1, PAGED_3, PAGED_16 -> {
          int[] table = new int[batch * pagesOfSequence];
          for (int b = 0; b < batch; b++) {
            for (int n = 0; n < pagesOfSequence; n++) {
              boolean used = (long) n * layout.pageSize() < lengths[b];
              table[b * pagesOfSequence + n] = used ? pages[b * pagesOfSequence + n] : -1;
            }
          }
          yield KeyValues.paged(
              keys, values, Tensor.of(table, batch, pagesOfSequence), lengthTensor);
        }
        case RING, RING_FULL -> {
          long[] first = new long[batch];
          Arrays.fill(first, problem.firstKey());
          yield KeyValues.ring(keys, values, Tensor.of(first, batch), lengthTensor);
        }
      };
    }
  }
}
