/**
 * Tensors in {@code .npy} and {@code .safetensors} files, memory-mapped.
 *
 * <p>{@link dev.foldmax.io.NpyFile} holds one tensor, {@link dev.foldmax.io.SafeTensors} holds
 * named ones. Both map the whole file, of any size, and hand out views of it: opening costs the
 * reading of a header, and a tensor's elements are read from disk when a kernel touches them. Views
 * are valid until the file is closed.
 *
 * <pre>{@code
 * try (SafeTensors file = SafeTensors.open(Path.of("sample.safetensors"))) {
 *   Tensor q = file.tensor("q");
 * }
 * }</pre>
 *
 * <p>Files may come from anyone. One that breaks its format gives a {@link
 * dev.foldmax.io.FormatException} whose message is one line, and no number in it makes a reader
 * allocate more than the file has. Writing is atomic; it streams through one buffer, or, for
 * results that are computed in place, maps the new file ({@link dev.foldmax.io.MappedOutput}).
 */
@NullMarked
package dev.foldmax.io;

import org.jspecify.annotations.NullMarked;
