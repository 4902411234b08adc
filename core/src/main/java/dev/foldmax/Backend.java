package dev.foldmax;

import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;

/**
 * Where the work is done: the verbs of this library.
 *
 * <p>Every verb writes into tensors that the caller gives. An output must not share a byte with any
 * other tensor of the call, unless a verb says that it works in place: then the output may be that
 * input itself, the same elements at the same indices. Nor may it have an element at two indices,
 * by a stride of 0 or by dimensions that cross. Both are checked for strides of any kind, and
 * refused; views that interleave without sharing an element, such as the heads of one buffer, pass.
 * (Only where many dimensions do not nest can the check be too long and be left to the caller.)
 * Inputs and outputs may have any strides, lie on or off the heap, and differ in type as long as
 * each is floating (indices: I32 or I64). Arithmetic is in float32, or in float64 where x, q, keys,
 * values or a partial result is F64; results are rounded once to the output's type.
 *
 * <p>A row's bits depend on that row alone, not on the other rows of the call, the threads or the
 * order in which tasks finish. NaN in a row makes that row NaN and no other.
 *
 * <p>Tensors are read and written by the backend's threads too: memory of a confined {@link
 * java.lang.foreign.Arena} serves a backend of one thread, {@code Backend.cpu(1)} or the reference;
 * others need a shared, automatic or global arena, or the heap.
 *
 * <p>Backends are safe for use by several threads at once; calls are independent and block until
 * their result is complete. A call whose thread is interrupted stops between two pieces of its
 * work, on the CPU within a fraction of a second however long its rows are, with a {@link
 * java.util.concurrent.CancellationException}, leaving the interrupt flag set and the output
 * unspecified. Wrong arguments are {@link IllegalArgumentException}s that name the argument, its
 * shape and what was expected, thrown before anything is written. A verb after {@link #close} is an
 * {@link IllegalStateException}, as is one from inside a mask or score function that the same
 * backend is calling. What such a function throws, the verb throws.
 */
public interface Backend extends AutoCloseable {
  /**
   * The fastest backend of this machine: a GPU if a provider offers one, with the CPU for what it
   * declines; else the CPU on all cores; else, without the module {@code jdk.incubator.vector}, the
   * reference, with a warning to the system logger.
   */
  static Backend best() {
    return Backends.best();
  }

  /** The CPU backend on as many threads as the machine has cores. */
  static Backend cpu() {
    return cpu(Runtime.getRuntime().availableProcessors());
  }

  /**
   * The CPU backend on the Vector API. The calling thread is one of the threads; the others are
   * daemons of the backend that end at {@link #close}.
   *
   * @param threads at least 1
   * @throws BackendUnavailableException if the JVM was started without {@code --add-modules
   *     jdk.incubator.vector}
   */
  static Backend cpu(int threads) {
    return Backends.cpu(threads);
  }

  /**
   * The CPU backend on the caller's threads.
   *
   * @param executor runs the tasks beside the calling thread; never shut down by the backend
   * @param parallelism how many threads work at once, the calling one included; at least 1
   * @throws BackendUnavailableException as {@link #cpu(int)}
   */
  static Backend cpu(Executor executor, int parallelism) {
    return Backends.cpu(executor, parallelism);
  }

  /**
   * A CUDA device; needs the module foldmax-cuda.
   *
   * @param device its number, from 0
   * @throws BackendUnavailableException if there is no such module, driver or device
   */
  static Backend cuda(int device) {
    return Backends.provided("cuda", device);
  }

  /** Scalar, float64 throughout, obvious, slow: what the others are compared with. */
  static Backend reference() {
    return Backends.reference();
  }

  /** The backend's name: {@code reference}, {@code cpu}, {@code cuda}. */
  String name();

  /** What it runs on, in words: vector width and threads, or the device. */
  String description();

  /**
   * Softmax of each row along the last dimension. A row of -inf alone gives zeros; a row with a NaN
   * or a +inf gives NaN.
   *
   * @param x floating, of any shape with at least one dimension
   * @param out floating, of the same shape; may be {@code x} itself
   */
  void softmax(Tensor x, Tensor out);

  /**
   * The logarithm of the softmax, {@code x - logSumExp(x)}, without the loss of going through the
   * softmax. A row of -inf alone gives -inf.
   *
   * @param x floating, of any shape with at least one dimension
   * @param out floating, of the same shape; may be {@code x} itself
   */
  void logSoftmax(Tensor x, Tensor out);

  /**
   * The natural logarithm of the sum of exponentials of each row, in one pass. A row of -inf alone,
   * or of length 0, gives -inf.
   *
   * @param x floating, of any shape with at least one dimension
   * @param out floating, of the shape of {@code x} without the last dimension
   */
  void logSumExp(Tensor x, Tensor out);

  /**
   * The k largest of each row, largest first, with their softmax probabilities over the whole row,
   * in the same pass as the sum (Milakov and Gimelshein, arXiv 1805.02867, section 4). Ties go to
   * the lower index. NaN counts as larger than every number, and makes all probabilities of its row
   * NaN.
   *
   * @param x floating, of shape (..., n)
   * @param values floating, of shape (..., k) with k at most n
   * @param indices I32 or I64, of the same shape
   * @param probabilities floating, of the same shape, or null
   */
  void topK(Tensor x, Tensor values, Tensor indices, @Nullable Tensor probabilities);

  /**
   * Draws one index from the softmax of each row; see {@link Sampling}. A row with a NaN or a +inf,
   * or without any logit above -inf, has no distribution and gives -1.
   *
   * @param logits floating, of shape (..., n)
   * @param indices I32 or I64, of the shape of {@code logits} without the last dimension
   */
  void sample(Tensor logits, Sampling sampling, Tensor indices);

  /**
   * Attention of queries over keys and values.
   *
   * @param q floating, (batch, query heads, queries, Dqk); dimensions may be left out as those of
   *     the keys; for packed queries (see {@link KeyValues#queryOffsets}) (query heads, total,
   *     Dqk). The number of query heads is a multiple of the key heads: query head h reads key head
   *     {@code h / (query heads / key heads)}
   * @param out floating, of the shape of q with Dv in place of Dqk; a query that sees no key gives
   *     0. With packed queries, rows that belong to no sequence are left alone
   * @param lse floating, of the shape of q without the last dimension, or null: the natural
   *     logarithm of each query's sum of exponentials, sinks included; -inf where it sees no key
   */
  void attend(Tensor q, KeyValues keyValues, Attention attention, Tensor out, @Nullable Tensor lse);

  /**
   * Whether the verbs on rows (softmax to sample) serve tensors of this one's type; a backend that
   * does not throws an {@link UnsupportedOperationException} with the reason.
   */
  default boolean servesRowsOf(Tensor x) {
    return true;
  }

  /** What this machine offers: for each backend, by name, whether it can be opened and why not. */
  static Map<String, Availability> availabilities() {
    return Backends.availabilities();
  }

  /**
   * Which kernel {@link #attend} would take, and why not the others.
   *
   * @throws IllegalArgumentException as {@link #attend} would
   */
  KernelChoice explain(Tensor q, KeyValues keyValues, Attention attention);

  /**
   * Merges attention results over disjoint sets of keys into the result over all of them: the
   * finished partial (output, lse) is the state (lse, 1, output). A partial whose lse is -inf is
   * ignored, whatever its output holds; one that is merged with such ones only keeps its bits.
   *
   * <p>A partial knows its own keys only. Masks and ALiBi count positions within the keys of the
   * call that they are given to, from 0, and align its last query with its last key unless told
   * otherwise: {@link Mask#causal()} over the first half of the keys is not the first half of a
   * causal mask over all. Give each part the mask that its keys have in the whole, for instance by
   * {@link Mask#of(MaskFunction)}, and a bias in place of ALiBi. Sinks go to one part only, for
   * each part that has them counts them once more. {@link #attendPartial} and {@link #finishPart}
   * give such parts with the positions of the whole.
   *
   * @param outputs at least one, floating, all of one shape (..., Dv)
   * @param lses as many, floating, all of the shape of the outputs without the last dimension
   * @param out floating, of the shape of an output; may be one of the outputs
   * @param lse floating, of the shape of an lse, or null; may be one of the lses
   */
  void merge(List<Tensor> outputs, List<Tensor> lses, Tensor out, @Nullable Tensor lse);

  /**
   * Attention over some of the keys, not finished: for keys that lie on several machines, or come
   * one after the other. {@link #finish} makes the result of all partials, with the bits of {@link
   * #attend} where they are cut at cells.
   *
   * <p>Positions, masks, ALiBi, bias and sinks are those of the whole attention. Keys outside of
   * the range are not read, and need not be here: see {@link KeyValues#slice}. Cuts may lie
   * anywhere; those at multiples of {@link AttentionPartial.Fold#cellKeys} change no bit.
   *
   * @param arena where the states lie, two numbers and Dv more for each query and piece; {@link
   *     Arena#ofAuto} leaves them to the garbage collector
   * @param q as for {@link #attend}, all of it
   * @param keyBegin the first key, inclusive
   * @param keyEnd one past the last key; more than {@code keyBegin}
   * @throws UnsupportedOperationException if this backend has no partials, see {@link
   *     #servesPartials}
   */
  default AttentionPartial attendPartial(
      Arena arena, Tensor q, KeyValues keyValues, Attention attention, long keyBegin, long keyEnd) {
    throw Backends.noPartials(this);
  }

  /**
   * The result of an attention from its partials, in any order. Together they must cover all keys,
   * each once. Sinks are added here, once.
   *
   * @param partials of {@link #attendPartial} of a backend of the same {@link #name}
   * @param out floating, of the shape that {@link #attend} would be given; rows that belong to no
   *     sequence become 0
   * @param lse floating, of the shape of q without the last dimension, or null
   * @throws IllegalArgumentException if partials are of different attentions, or keys are missing
   *     or doubled
   */
  default void finish(List<AttentionPartial> partials, Tensor out, @Nullable Tensor lse) {
    throw Backends.noPartials(this);
  }

  /**
   * As {@link #finish} of partials that lie side by side but need not cover all keys: what {@link
   * #merge} takes, and other systems give. Sinks are counted where the first key is, so that they
   * are in one of an attention's parts.
   */
  default void finishPart(List<AttentionPartial> partials, Tensor out, @Nullable Tensor lse) {
    throw Backends.noPartials(this);
  }

  /** Whether {@link #attendPartial}, {@link #finish} and {@link #finishPart} are served. */
  default boolean servesPartials() {
    return false;
  }

  /**
   * A new tensor, row-major, in the memory that this backend works in: the device's, or on a host
   * backend memory outside of the heap. It lives as long as the arena. Its elements are
   * unspecified.
   *
   * @param arena closing it frees the memory (on a device once the work that was asked for so far
   *     is done); {@link Arena#ofAuto} leaves that to the garbage collector
   */
  default Tensor allocate(Arena arena, DType dtype, long... shape) {
    return Backends.allocate(arena, dtype, shape);
  }

  /**
   * A copy of a tensor, row-major, in the memory that this backend works in: where tensors are to
   * lie that are used by many calls, such as a cache of keys and values.
   *
   * @param arena as for {@link #allocate}
   * @param tensor on the host
   */
  default Tensor upload(Arena arena, Tensor tensor) {
    Tensor copy = allocate(arena, tensor.dtype(), tensor.shape());
    copy(tensor, copy);
    return copy;
  }

  /** A copy of a tensor in a new one on the host, complete on return. */
  default Tensor download(Tensor tensor) {
    Tensor copy = Tensor.allocate(tensor.dtype(), tensor.shape());
    copy(tensor, copy);
    return copy;
  }

  /**
   * Copies elements, each rounded once if the types differ. Where one of the tensors lies on the
   * host, the copy is complete on return.
   *
   * @param source on the host, or of this backend's device
   * @param target of the same shape, likewise; must not overlap the source
   */
  default void copy(Tensor source, Tensor target) {
    target.copyFrom(source);
  }

  /**
   * Waits until everything that was asked for is done. Calls whose tensors all lie on a device
   * return before their work is done, in the order of which it is done; a call with a tensor on the
   * host is complete on return, as is every call of a host backend.
   */
  default void synchronize() {}

  /**
   * How much of the call under way is done, for another thread to watch: a share from 0 to 1 that
   * is counted in pieces of work, not in time. NaN where no call is under way, or this backend
   * cannot tell. Of calls by several threads it is the one whose turn it is.
   */
  default double progress() {
    return Double.NaN;
  }

  /** {@link #softmax(Tensor, Tensor)} into a new tensor of the type of {@code x}. */
  default Tensor softmax(Tensor x) {
    Tensor out = Tensor.allocate(x.dtype(), x.shape());
    softmax(x, out);
    return out;
  }

  /** {@link #logSoftmax(Tensor, Tensor)} into a new tensor of the type of {@code x}. */
  default Tensor logSoftmax(Tensor x) {
    Tensor out = Tensor.allocate(x.dtype(), x.shape());
    logSoftmax(x, out);
    return out;
  }

  /** {@link #logSumExp(Tensor, Tensor)} into a new tensor: F64 for F64 input, else F32. */
  default Tensor logSumExp(Tensor x) {
    Tensor out =
        Tensor.allocate(
            x.dtype() == DType.F64 ? DType.F64 : DType.F32, Backends.withoutLast("x", x));
    logSumExp(x, out);
    return out;
  }

  /** {@link #topK(Tensor, Tensor, Tensor, Tensor)} into new tensors. */
  default TopK topK(Tensor x, int k) {
    long[] shape = Arrays.copyOf(Backends.withoutLast("x", x), x.rank());
    if (k < 0 || k > x.shape(-1)) {
      throw new IllegalArgumentException(
          "k: expected 0 to " + x.shape(-1) + ", the last dimension of x " + x + ", got " + k);
    }
    shape[x.rank() - 1] = k;
    TopK result =
        new TopK(
            Tensor.allocate(x.dtype(), shape),
            Tensor.allocate(DType.I64, shape),
            Tensor.allocate(x.dtype() == DType.F64 ? DType.F64 : DType.F32, shape));
    topK(x, result.values(), result.indices(), result.probabilities());
    return result;
  }

  /** {@link #sample(Tensor, Sampling, Tensor)} into a new I64 tensor. */
  default Tensor sample(Tensor logits, Sampling sampling) {
    Tensor indices = Tensor.allocate(DType.I64, Backends.withoutLast("logits", logits));
    sample(logits, sampling, indices);
    return indices;
  }

  /**
   * {@link #attend(Tensor, KeyValues, Attention, Tensor, Tensor)} into a new tensor of q's type.
   */
  default Tensor attend(Tensor q, KeyValues keyValues, Attention attention) {
    if (q.rank() == 0) {
      throw new IllegalArgumentException("q: expected (batch, heads, queries, dim), got " + q);
    }
    long[] shape = q.shape();
    shape[shape.length - 1] = keyValues.values().shape(-1);
    Tensor out = Tensor.allocate(q.dtype(), shape);
    attend(q, keyValues, attention, out, null);
    return out;
  }

  /** Attention over dense keys and values into a new tensor of q's type. */
  default Tensor attend(Tensor q, Tensor k, Tensor v, Attention attention) {
    return attend(q, KeyValues.dense(k, v), attention);
  }

  /** Releases threads and memory. Calls under way on other threads complete first. */
  @Override
  void close();
}
