package dev.foldmax.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The launches of a stream since anything else was enqueued there. They wait here for the end of
 * the call, to go together: the driver takes some 3 microseconds for each launch, and less than
 * that for a small graph, even if the parameters of its kernels change. So a chain of kernels that
 * comes again and again gets graphs, whose parameters are set to those of the call where they
 * differ, and which are used in turn, since some may not have started yet. For the thread that has
 * the stream.
 */
final class LaunchQueue implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger("dev.foldmax.cuda");

  /** Launches that wait. A call has one to three. */
  private static final int MOST_LAUNCHES = 4;

  /** Chains with graphs, and the graphs of each. */
  private static final int MOST_CHAINS = 64;

  private static final int MOST_GRAPHS = 32;

  /** Making a graph takes as long as many launches: one after so many uses of its chain each. */
  private static final int USES_OF_A_GRAPH = 16;

  private final Context context;
  private final long stream;
  private final Arena arena = Arena.ofShared();
  private final DependentLaunch dependent = new DependentLaunch(arena);
  private final Launch[] launches = new Launch[MOST_LAUNCHES];
  private final List<Chain> chains = new ArrayList<>(); // least recently used first
  private int count;
  private boolean isImmediate;
  private boolean hasGraphs = true; // until the driver says otherwise

  LaunchQueue(Context context, long stream) {
    this.context = context;
    this.stream = stream;
    for (int i = 0; i < MOST_LAUNCHES; i++) {
      launches[i] = new Launch(arena);
    }
  }

  /** A launch, with memory for its parameters and CUDA_KERNEL_NODE_PARAMS that refers to it. */
  private static final class Launch {
    private static final long NODE_BYTES = 72;
    private static final long GRID = 8;
    private static final long BLOCK = 20;
    private static final long SHARED = 32;
    private static final long PARAMETERS = 40;

    private final MemorySegment node;
    private final MemorySegment pointers;
    private final MemorySegment values;
    private long kernel;
    private int gridX;
    private int gridY;
    private int gridZ;
    private int threads;
    private int sharedBytes;
    private boolean isDependent;
    private long size; // of the values

    Launch(Arena arena) {
      node = arena.allocate(NODE_BYTES, Long.BYTES);
      pointers = arena.allocate(ADDRESS, Parameters.MOST);
      values = arena.allocate(Parameters.MOST_BYTES, Parameters.ALIGNMENT);
      node.set(ADDRESS, PARAMETERS, pointers);
    }

    MemorySegment node() {
      node.set(JAVA_LONG, 0, kernel);
      node.set(JAVA_INT, GRID, gridX);
      node.set(JAVA_INT, GRID + 4, gridY);
      node.set(JAVA_INT, GRID + 8, gridZ);
      node.set(JAVA_INT, BLOCK, threads);
      node.set(JAVA_INT, BLOCK + 4, 1);
      node.set(JAVA_INT, BLOCK + 8, 1);
      node.set(JAVA_INT, SHARED, sharedBytes);
      return node;
    }
  }

  /** Kernels that are launched one after the other. */
  private static final class Chain {
    private final long[] kernels;
    private final boolean[] dependent;
    private final List<Graph> graphs = new ArrayList<>();
    private int turn;
    private int uses;

    Chain(long[] kernels, boolean[] dependent) {
      this.kernels = kernels;
      this.dependent = dependent;
    }
  }

  /** A chain as a graph, and what its parameters are. */
  private static final class Graph {
    private final long source; // whose nodes the executable's are known by
    private final long executable;
    private final Node[] nodes;

    Graph(long source, Node[] nodes) {
      this.source = source;
      this.executable = CudaDriver.graphInstantiate(source);
      this.nodes = nodes;
    }

    /** Sets the parameters to those of launches, for when it is launched next. */
    void take(Launch[] launches) {
      for (int i = 0; i < nodes.length; i++) {
        if (!nodes[i].isOf(launches[i])) {
          CudaDriver.graphExecKernelNodeSetParams(executable, nodes[i].handle, launches[i].node());
          nodes[i].take(launches[i]);
        }
      }
    }

    void release() {
      CudaDriver.graphExecDestroy(executable);
      CudaDriver.graphDestroy(source);
    }
  }

  private static final class Node {
    private final long handle;
    private int gridX;
    private int gridY;
    private int gridZ;
    private int threads;
    private int sharedBytes;
    private MemorySegment values = MemorySegment.NULL;

    Node(long handle) {
      this.handle = handle;
    }

    boolean isOf(Launch launch) {
      return gridX == launch.gridX
          && gridY == launch.gridY
          && gridZ == launch.gridZ
          && threads == launch.threads
          && sharedBytes == launch.sharedBytes
          && values.byteSize() == launch.size
          && MemorySegment.mismatch(values, 0, launch.size, launch.values, 0, launch.size) < 0;
    }

    void take(Launch launch) {
      gridX = launch.gridX;
      gridY = launch.gridY;
      gridZ = launch.gridZ;
      threads = launch.threads;
      sharedBytes = launch.sharedBytes;
      if (values.byteSize() != launch.size) {
        values = MemorySegment.ofArray(new long[Math.toIntExact(launch.size / Long.BYTES)]);
      }
      MemorySegment.copy(launch.values, 0, values, 0, launch.size);
    }
  }

  /** Lets each launch go at once, as long as the stream is recorded. */
  void setImmediate(boolean immediate) {
    flush();
    isImmediate = immediate;
  }

  /**
   * Adds a launch.
   *
   * @param isDependent see {@link Kernel#launchDependent}
   * @param parameters free to be written again on return
   */
  void add(
      long kernel,
      int gridX,
      int gridY,
      int gridZ,
      int threads,
      int sharedBytes,
      boolean isDependent,
      Parameters parameters) {
    if (count == MOST_LAUNCHES) {
      flush();
    }
    Launch launch = launches[count];
    count++;
    launch.kernel = kernel;
    launch.gridX = gridX;
    launch.gridY = gridY;
    launch.gridZ = gridZ;
    launch.threads = threads;
    launch.sharedBytes = sharedBytes;
    launch.isDependent = isDependent;
    launch.size = parameters.copyTo(launch.pointers, launch.values);
    if (isImmediate) {
      flush();
    }
  }

  /** Enqueues what waits. */
  void flush() {
    if (count == 0) {
      return;
    }
    context.makeCurrent();
    try {
      Graph graph = isImmediate || !hasGraphs ? null : graph();
      if (graph == null) {
        launchEach(stream);
      } else {
        CudaDriver.graphLaunch(graph.executable, stream);
      }
    } finally {
      count = 0;
    }
  }

  private void launchEach(long target) {
    for (int i = 0; i < count; i++) {
      launch(launches[i], target);
    }
  }

  private void launch(Launch launch, long target) {
    if (launch.isDependent) {
      CudaDriver.launchKernelEx(
          dependent.config(launch.gridX, launch.threads, launch.sharedBytes, target),
          launch.kernel,
          launch.pointers);
    } else {
      CudaDriver.launchKernel(
          launch.kernel,
          launch.gridX,
          launch.gridY,
          launch.gridZ,
          launch.threads,
          launch.sharedBytes,
          target,
          launch.pointers);
    }
  }

  /** A graph of what waits, or null where each launch is to go by itself. */
  private @Nullable Graph graph() {
    Chain chain = chain();
    chain.uses++;
    try {
      if (chain.graphs.size() < Math.min(MOST_GRAPHS, chain.uses / USES_OF_A_GRAPH)) {
        chain.graphs.add(make());
        return chain.graphs.getLast();
      }
      if (chain.graphs.isEmpty()) {
        return null;
      }
      chain.turn = (chain.turn + 1) % chain.graphs.size();
      Graph graph = chain.graphs.get(chain.turn);
      graph.take(launches);
      return graph;
    } catch (CudaException e) { // a driver that cannot: nothing was enqueued
      hasGraphs = false;
      LOG.log(System.Logger.Level.DEBUG, "launches go without graphs", e);
      return null;
    }
  }

  private Chain chain() {
    int last = chains.size() - 1;
    for (int i = last; i >= 0; i--) {
      Chain known = chains.get(i);
      if (isOf(known)) {
        if (i < last) {
          chains.add(chains.remove(i));
        }
        return known;
      }
    }
    if (chains.size() == MOST_CHAINS) {
      release(chains.removeFirst());
    }
    long[] kernels = new long[count];
    boolean[] isDependent = new boolean[count];
    for (int i = 0; i < count; i++) {
      kernels[i] = launches[i].kernel;
      isDependent[i] = launches[i].isDependent;
    }
    Chain chain = new Chain(kernels, isDependent);
    chains.add(chain);
    return chain;
  }

  private boolean isOf(Chain chain) {
    if (chain.kernels.length != count) {
      return false;
    }
    for (int i = 0; i < count; i++) {
      if (chain.kernels[i] != launches[i].kernel || chain.dependent[i] != launches[i].isDependent) {
        return false;
      }
    }
    return true;
  }

  /** Makes a graph by recording what waits, on a stream beside. */
  private Graph make() {
    Node[] nodes = new Node[count];
    long source;
    try (Stream aside = new Stream(context)) {
      CudaDriver.streamBeginCapture(aside.handle());
      try {
        for (int i = 0; i < count; i++) {
          launch(launches[i], aside.handle());
          nodes[i] = new Node(CudaDriver.streamGetLastCaptured(aside.handle()));
          nodes[i].take(launches[i]);
        }
      } finally {
        source = CudaDriver.streamEndCapture(aside.handle());
      }
    }
    return new Graph(source, nodes);
  }

  private static void release(Chain chain) {
    chain.graphs.forEach(Graph::release);
    chain.graphs.clear();
  }

  /** Releases the graphs; what was enqueued still runs. */
  @Override
  public void close() {
    context.makeCurrent();
    chains.forEach(LaunchQueue::release);
    chains.clear();
    arena.close();
  }
}
