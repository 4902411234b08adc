/**
 * For authors of backends: calls, checked once and brought into one form.
 *
 * <p>{@link dev.foldmax.spi.AttentionCall} is an attention whose arguments fit together, with every
 * tensor in four dimensions; {@link dev.foldmax.spi.Rows} checks and addresses rows. {@link
 * dev.foldmax.spi.PartialCall} is such a call over a range of its keys, {@link
 * dev.foldmax.spi.PartialStates} takes what comes out, and {@link dev.foldmax.spi.PartialSet} is
 * what arrives, checked and in order.
 */
@NullMarked
package dev.foldmax.spi;

import org.jspecify.annotations.NullMarked;
