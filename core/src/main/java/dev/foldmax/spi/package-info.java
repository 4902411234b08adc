/**
 * For authors of backends: calls, checked once and brought into one form.
 *
 * <p>{@link dev.foldmax.spi.AttentionCall} is an attention whose arguments fit together, with every
 * tensor in four dimensions; {@link dev.foldmax.spi.Rows} checks and addresses rows.
 */
@NullMarked
package dev.foldmax.spi;

import org.jspecify.annotations.NullMarked;
