package dev.foldmax.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.foldmax.Alignment;
import dev.foldmax.Backend;
import dev.foldmax.DType;
import dev.foldmax.Phase;
import dev.foldmax.Rescale;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.stream.Stream;
import jdk.incubator.vector.VectorShape;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** At the vector width that the property foldmax.vectorBits asks for, else the machine's widest. */
class CpuContractTest extends BackendContract {
  @Override
  public Backend open(int threads) {
    assumeWidth();
    return Backend.cpu(threads);
  }

  @Override
  public Backend open(Executor executor, int parallelism) {
    assumeWidth();
    return Backend.cpu(executor, parallelism);
  }

  /**
   * A token decoded alone gets the bits that it gets in the middle of a prompt: by default where
   * query heads share key heads, and on request where each has its own.
   */
  @TestFactory
  Stream<DynamicTest> decodedAsPrefilled() {
    List<DynamicTest> tests = new ArrayList<>();
    int[][] heads = {{1, 1}, {2, 1}, {3, 1}, {8, 2}, {7, 1}, {8, 1}, {20, 1}};
    int[][] dims = {{16, 16}, {20, 24}, {128, 128}, {33, 5}, {130, 64}, {8, 8}, {1, 1}};
    for (int n = 0; n < 2 * heads.length; n++) {
      int[] head = heads[n % heads.length];
      int[] dim = dims[n % dims.length];
      DType[] types = AttentionLaws.TYPES.get(n % AttentionLaws.TYPES.size());
      Problem problem =
          Problem.seeded(n)
              .types(types[0], types[1], types[2])
              .heads(head[0], head[1])
              .lengths(250, 250)
              .dims(dim[0], dim[1]);
      problem =
          switch (n % 3) {
            case 0 -> problem.causal();
            case 1 -> problem.window(60, 0).softCap(5).sinks();
            default -> problem.causal().alibi(false, Alignment.BOTTOM_RIGHT);
          };
      if (n % 3 == 2) {
        problem = problem.rescale(List.of(Rescale.values()).get(n % Rescale.values().length));
      }
      if (problem.group() == 1) {
        problem = problem.phase(Phase.PREFILL);
      }
      Problem prompt = problem;
      tests.add(dynamicTest(prompt.toString(), () -> decodedAsPrefilled(prompt)));
    }
    Problem cells = Problem.seeded(99).heads(4, 1).lengths(20, 13_000 / thrift()).dims(8).causal();
    tests.add(dynamicTest(cells.toString(), () -> decodedAsPrefilled(cells)));
    return tests.stream();
  }

  private void decodedAsPrefilled(Problem prompt) {
    int queries = prompt.queries(0);
    int keys = prompt.keys(0);
    Outcome whole = run(Call.plain(prompt));
    try (Backend several = open(3)) {
      for (int tokens : new int[] {1, 2, 5}) {
        for (int i = 0; i + tokens <= queries; i += 1 + queries / 7) {
          Problem part = prompt.part(i, i + tokens, keys - queries + i + tokens);
          Layout layout = List.of(Layout.values()).get(i % Layout.values().length);
          Outcome alone = run(several, Call.of(part, layout, Memory.HEAP));
          for (int h = 0; h < prompt.queryHeads(); h++) {
            assertThat(
                    alone
                        .rows(h * tokens, (h + 1) * tokens)
                        .differenceFrom(whole.rows(h * queries + i, h * queries + i + tokens)))
                .as("tokens %d to %d of head %d, %s", i, i + tokens, h, layout)
                .isEqualTo("none");
          }
        }
      }
    }
  }

  private static void assumeWidth() {
    int widest = VectorShape.preferredShape().vectorBitSize();
    int asked = Integer.getInteger("foldmax.vectorBits", widest);
    Assumptions.assumeTrue(
        asked <= widest,
        () -> "this machine has vectors of %d bits, not %d".formatted(widest, asked));
  }
}
