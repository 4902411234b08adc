package dev.foldmax.cpu;

import dev.foldmax.AttentionPartial;
import dev.foldmax.AttentionPartial.Piece;
import dev.foldmax.DType;
import dev.foldmax.KernelChoice;
import dev.foldmax.KeyValues;
import dev.foldmax.Phase;
import dev.foldmax.Tensor;
import dev.foldmax.spi.AttentionCall;
import dev.foldmax.spi.PartialCall;
import dev.foldmax.spi.PartialSet;
import dev.foldmax.spi.PartialStates;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * Cuts an attention into tasks and hands them to the workers. A task is a block of rows and a split
 * of its keys; where a block has several splits they leave partial states, which a second round
 * folds. How far keys are split depends on the call and the number of threads, and changes no bit:
 * splits are aligned subtrees of the fold, see {@link TileEngine}.
 */
final class AttentionKernels {
  /**
   * To be raised with every change by which the same keys give other states: of tiles and cells, of
   * the order of sums, of exponentials. States of different versions are not merged.
   */
  private static final int FOLD_VERSION = 1;

  /** Between the names of families in a fold. */
  private static final String JOINED = " and ";

  /** Tasks a thread should find, so that uneven ones even out. */
  private static final int TASKS_PER_THREAD = 4;

  /**
   * Blocks of prefill a thread should find: under a causal mask they are uneven. Blocks are made
   * smaller for it down to LEAST_QUERIES, below which loading a tile of keys weighs too much.
   */
  private static final int EVEN_BLOCKS_PER_THREAD = 16;

  private static final int LEAST_QUERIES = 128;

  /**
   * The engines. {@link #FLOAT_PREFILL} and {@link #FLOAT_KEYS} give the same bits and are chosen
   * by what costs less. {@link #FLOAT_DIMS} gives others: it is taken for decoding where no two
   * query heads share a key head, where it was measured 1.03 to 1.3 times as fast as FLOAT_KEYS.
   * With two query heads to a key head or more FLOAT_KEYS was within a tenth of it, or faster.
   */
  private enum Family {
    FLOAT_PREFILL("float32 A"),
    FLOAT_KEYS("float32 A"),
    FLOAT_DIMS("float32 B"),
    DOUBLE("float64");

    /** The same for families that give the same bits; see docs/numerics.md. */
    private final String bits;

    Family(String bits) {
      this.bits = bits;
    }

    /** Rows up to which FLOAT_KEYS was measured faster than a panel that they do not fill. */
    static final int MOST_KEY_ROWS = 16;

    static Family of(AttentionCall call, int b) {
      if (call.isFloat64()) {
        return DOUBLE;
      }
      if (call.group() == 1 && call.phase(b) == Phase.DECODE) {
        return FLOAT_DIMS;
      }
      return call.sequence(b).queries() * call.group() <= MOST_KEY_ROWS
          ? FLOAT_KEYS
          : FLOAT_PREFILL;
    }
  }

  /** A worker's engines, made when they are first needed. */
  private static final class Engines {
    private final Map<Family, TileEngine> made = new EnumMap<>(Family.class);
    private final Workers.Account account;

    Engines(Workers.Account account) {
      this.account = account;
    }

    TileEngine of(Family family) {
      TileEngine engine = made.get(family);
      if (engine == null) {
        engine =
            switch (family) {
              case FLOAT_PREFILL -> new FloatPrefill();
              case FLOAT_KEYS -> new FloatKeyLanes();
              case FLOAT_DIMS -> new FloatDimLanes();
              case DOUBLE -> new DoubleAttention();
            };
        engine.setAccount(account);
        made.put(family, engine);
      }
      return engine;
    }
  }

  private final Workers workers;
  private final Engines[] engines; // (workers)
  private final Partials partials = new Partials();

  AttentionKernels(Workers workers) {
    this.workers = workers;
    this.engines = new Engines[workers.parallelism()];
    Arrays.setAll(engines, worker -> new Engines(workers.account(worker)));
  }

  /** One call at a time: engines and partials belong to the backend. */
  synchronized void attend(AttentionCall call) {
    if (call.queryHeads() == 0) {
      return; // no row, and a group of no heads cannot be cut into blocks
    }
    Grid grid = new Grid(call, mostKeys(call));
    if (grid.splits == 1) {
      workers.run(
          grid.blocks(),
          (block, worker) -> {
            TileEngine engine = grid.start(block, worker);
            engine.foldKeys(Long.MIN_VALUE, Long.MAX_VALUE);
            finish(engine, Long.MIN_VALUE, Long.MAX_VALUE);
          });
      return;
    }
    partials.reserve(
        Math.toIntExact(grid.blocks() * grid.splits), grid.partialSize, call.isFloat64());
    long tasks = grid.blocks() * grid.splits;
    workers.run(
        tasks,
        (task, worker) -> {
          TileEngine engine = grid.start(task / grid.splits, worker);
          long split = task % grid.splits;
          engine.foldKeys(split * grid.splitKeys, (split + 1) * grid.splitKeys);
          engine.save(partials, task);
        });
    workers.run(
        grid.blocks(),
        tasks, // beside which these are nothing
        tasks,
        (block, worker) -> {
          TileEngine engine = grid.start(block, worker);
          engine.foldPartials(partials, block * grid.splits, grid.splits);
          finish(engine, Long.MIN_VALUE, Long.MAX_VALUE);
        });
  }

  private static void finish(TileEngine engine, long from, long to) {
    if (!engine.finish()) {
      engine.refoldCarefully(from, to);
      engine.finish();
    }
  }

  private static long mostKeys(AttentionCall call) {
    long most = 0;
    for (int b = 0; b < call.batch(); b++) {
      most = Math.max(most, call.sequence(b).endKey());
    }
    return most;
  }

  /** Folds a range of keys as far as it goes, piece by piece. */
  synchronized void attendPartial(PartialCall partial, PartialStates states) {
    AttentionCall call = partial.attention();
    if (call.queryHeads() == 0) {
      return;
    }
    Grid grid = new Grid(call, partial.keyEnd() - partial.keyBegin());
    PieceTasks tasks = new PieceTasks(states.pieces(), grid);
    partials.reserve(Math.toIntExact(tasks.count()), grid.partialSize, call.isFloat64());
    workers.run(
        tasks.count(),
        (task, worker) -> {
          int n = tasks.piece(task);
          Piece piece = states.pieces().get(n);
          TileEngine engine = grid.start(tasks.block(task, n), worker);
          engine.foldKeys(tasks.begin(task, n), tasks.end(task, n));
          if (tasks.splits(n) > 1) {
            engine.save(partials, task);
          } else {
            engine.keepStates(states, n);
            finish(engine, piece.begin(), piece.end());
          }
        });
    workers.run(
        grid.blocks() * states.pieces().size(),
        (index, worker) -> {
          int n = (int) (index / grid.blocks());
          if (tasks.splits(n) > 1) {
            Piece piece = states.pieces().get(n);
            long block = index % grid.blocks();
            TileEngine engine = grid.start(block, worker);
            engine.foldPartials(partials, tasks.first(n, block), tasks.splits(n));
            engine.keepStates(states, n);
            finish(engine, piece.begin(), piece.end());
          }
        });
  }

  /** Whose arithmetic a call's states are in. */
  synchronized AttentionPartial.Fold fold(AttentionCall call, String backend) {
    Set<Family> families = EnumSet.noneOf(Family.class);
    for (int b = 0; b < call.batch(); b++) {
      families.add(Family.of(call, b));
    }
    return fold(families, backend, TileEngine.scoreUnit(call));
  }

  /** What this version of the kernels has where another fold has the same families. */
  synchronized AttentionPartial.Fold likeFold(AttentionPartial.Fold other, String backend) {
    List<String> named = List.of(other.family().split(JOINED, -1));
    Set<Family> families = EnumSet.allOf(Family.class);
    families.removeIf(family -> !named.contains(family.bits));
    return fold(families, backend, other.unit());
  }

  private AttentionPartial.Fold fold(Set<Family> families, String backend, double unit) {
    SortedSet<String> names = new TreeSet<>();
    int cell = 1;
    for (Family family : families) {
      names.add(family.bits);
      cell = Math.max(cell, engines[0].of(family).cellKeys());
    }
    return new AttentionPartial.Fold(
        backend, String.join(JOINED, names), FOLD_VERSION, cell, Species.F32.vectorBitSize(), unit);
  }

  /** Merges states to the end. */
  synchronized void finish(PartialSet set, Tensor out, @Nullable Tensor lse) {
    long rows = set.rows();
    long tasks = Math.min(rows, (long) workers.parallelism() * TASKS_PER_THREAD);
    workers.run(
        tasks,
        (task, worker) -> {
          StateFold<?> fold =
              set.dtype() == DType.F64 ? new StateFold.OfDoubles(set) : new StateFold.OfFloats(set);
          long end = rows * (task + 1) / tasks;
          for (long row = rows * task / tasks; row < end; row++) {
            fold.foldRow(row, out, lse);
          }
        });
  }

  /**
   * The tasks of a partial: each a piece of the keys, a block of rows, and a split of the piece.
   */
  private final class PieceTasks {
    private final List<Piece> pieces;
    private final Grid grid;
    private final int[] splits; // (pieces)
    private final long[] firstTask; // (pieces + 1)

    PieceTasks(List<Piece> pieces, Grid grid) {
      this.pieces = pieces;
      this.grid = grid;
      splits = new int[pieces.size()];
      firstTask = new long[pieces.size() + 1];
      for (int n = 0; n < pieces.size(); n++) {
        Piece piece = pieces.get(n);
        // Either less than a split, or several: both are powers of two of cells, but for the last.
        splits[n] =
            workers.parallelism() == 1
                ? 1
                : (int) Math.ceilDiv(piece.end() - piece.begin(), grid.splitKeys);
        firstTask[n + 1] = firstTask[n] + grid.blocks() * splits[n];
      }
    }

    long count() {
      return firstTask[pieces.size()];
    }

    int piece(long task) {
      int n = 0;
      while (firstTask[n + 1] <= task) {
        n++;
      }
      return n;
    }

    int splits(int n) {
      return splits[n];
    }

    long block(long task, int n) {
      return (task - firstTask[n]) / splits[n];
    }

    /** The first task of a piece and a block. */
    long first(int n, long block) {
      return firstTask[n] + block * splits[n];
    }

    long begin(long task, int n) {
      return pieces.get(n).begin() + (task - firstTask[n]) % splits[n] * grid.splitKeys;
    }

    long end(long task, int n) {
      long end = pieces.get(n).end();
      long begin = begin(task, n);
      return splits[n] == 1 || end - begin <= grid.splitKeys ? end : begin + grid.splitKeys;
    }
  }

  /** The tasks of a call. */
  private final class Grid {
    private final AttentionCall call;
    private final Elements keyElements;
    private final Elements valueElements;
    private final Family[] families; // (batch)
    private final long[] firstBlock; // (batch + 1)
    private final int[] headsPerBlock; // (batch)
    private final int[] queriesPerBlock; // (batch)
    private final int splits;
    private final long splitKeys;
    private final int partialSize;

    /** Tasks for a call over so many keys. */
    Grid(AttentionCall call, long mostKeys) {
      this.call = call;
      KeyValues kv = call.keyValues();
      keyElements = Elements.of(kv.keys());
      valueElements = Elements.of(kv.values());
      int batch = call.batch();
      families = new Family[batch];
      firstBlock = new long[batch + 1];
      headsPerBlock = new int[batch];
      queriesPerBlock = new int[batch];
      int cell = 1;
      int largestPartial = 0;
      for (int b = 0; b < batch; b++) {
        families[b] = Family.of(call, b);
        TileEngine engine = engines[0].of(families[b]);
        int maxRows = engine.maxRows(call, b);
        long queries = call.sequence(b).queries();
        // Heads of a group share their keys while they are read: worth it for few queries.
        boolean shared = queries <= Phase.MAX_DECODE_QUERIES;
        headsPerBlock[b] = shared ? Math.min(call.group(), maxRows) : 1;
        queriesPerBlock[b] = Math.clamp(queries, 1, Math.max(1, maxRows / headsPerBlock[b]));
        long blocks = blocksOf(b, queries);
        while (families[b] == Family.FLOAT_PREFILL
            && blocks < (long) EVEN_BLOCKS_PER_THREAD * workers.parallelism()
            && queriesPerBlock[b] >= 2 * LEAST_QUERIES) {
          queriesPerBlock[b] = Math.ceilDiv(queriesPerBlock[b], 2);
          blocks = blocksOf(b, queries);
        }
        firstBlock[b + 1] = firstBlock[b] + blocks;
        cell = Math.max(cell, engine.cellKeys());
        largestPartial =
            Math.max(
                largestPartial, engine.partialSize(call, headsPerBlock[b] * queriesPerBlock[b]));
      }
      partialSize = largestPartial;
      // A split is a power of two of cells; the families' cells are powers of two of each other's.
      long size = cell;
      long wanted = (long) workers.parallelism() * TASKS_PER_THREAD;
      long most = Math.max(1, firstBlock[batch] == 0 ? 1 : wanted / firstBlock[batch]);
      while (Math.ceilDiv(mostKeys, size) > most) {
        size *= 2;
      }
      splitKeys = size;
      splits = workers.parallelism() == 1 ? 1 : (int) Math.max(1, Math.ceilDiv(mostKeys, size));
    }

    private long blocksOf(int b, long queries) {
      return Math.ceilDiv(queries, queriesPerBlock[b]) * headBlocks(b) * call.keyHeads();
    }

    private int headBlocks(int b) {
      return Math.ceilDiv(call.group(), headsPerBlock[b]);
    }

    long blocks() {
      return firstBlock[firstBlock.length - 1];
    }

    /** The engine of a worker, set to a block; under a causal mask the longest come first. */
    TileEngine start(long block, int worker) {
      int b = sequenceOf(block);
      TileEngine engine = engines[worker].of(families[b]);
      long inSequence = block - firstBlock[b];
      long queries = call.sequence(b).queries();
      long queryBlocks = Math.ceilDiv(queries, queriesPerBlock[b]);
      long queryBlock = queryBlocks - 1 - inSequence % queryBlocks;
      long headBlock = inSequence / queryBlocks;
      int headBlocks = headBlocks(b);
      int firstInGroup = (int) (headBlock % headBlocks) * headsPerBlock[b];
      int head = (int) (headBlock / headBlocks) * call.group() + firstInGroup;
      long firstQuery = queryBlock * queriesPerBlock[b];
      engine.setCall(call, keyElements, valueElements);
      engine.start(
          b,
          head,
          Math.min(headsPerBlock[b], call.group() - firstInGroup),
          firstQuery,
          (int) Math.min(queriesPerBlock[b], queries - firstQuery));
      return engine;
    }

    private int sequenceOf(long block) {
      int low = 0;
      int high = families.length - 1;
      while (low < high) {
        int middle = (low + high + 1) >>> 1;
        if (firstBlock[middle] <= block) {
          low = middle;
        } else {
          high = middle - 1;
        }
      }
      return low;
    }
  }

  private static KernelChoice.Declined declinedDims(AttentionCall call) {
    return new KernelChoice.Declined(
        "decode f32, lanes are dimensions",
        call.group() > 1
            ? "it serves one query head to a key head; here " + call.group()
            : "it serves the phase DECODE, by default that of at most "
                + Phase.MAX_DECODE_QUERIES
                + " queries a sequence; here the phase is PREFILL, with "
                + call.sequence(0).queries()
                + " queries");
  }

  synchronized KernelChoice explain(AttentionCall call) {
    List<KernelChoice.Declined> declined = new ArrayList<>();
    if (call.batch() == 0) {
      return new KernelChoice("cpu: nothing to do", declined);
    }
    Family chosen = Family.of(call, 0);
    long rows = call.sequence(0).queries() * call.group();
    String sameBits = "it serves at %s %d rows to a key head, with the same bits; here %d";
    String keys = "decode f32, lanes are keys";
    String prefill = "prefill f32, lanes are queries";
    switch (chosen) {
      case FLOAT_PREFILL -> {
        declined.add(
            new KernelChoice.Declined(
                keys, sameBits.formatted("most", Family.MOST_KEY_ROWS, rows)));
        declined.add(declinedDims(call));
      }
      case FLOAT_KEYS -> {
        declined.add(
            new KernelChoice.Declined(
                prefill, sameBits.formatted("least", Family.MOST_KEY_ROWS + 1, rows)));
        declined.add(declinedDims(call));
      }
      case FLOAT_DIMS ->
          declined.add(
              new KernelChoice.Declined(
                  prefill + "; " + keys,
                  "the phase is DECODE and each key head has one query head: another kernel is"
                      + " faster then, with other bits"));
      case DOUBLE ->
          declined.add(new KernelChoice.Declined("every kernel of float32", "an input is F64"));
    }
    return new KernelChoice("cpu: " + engines[0].of(chosen).describe(), declined);
  }
}
