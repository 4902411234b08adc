/**
 * What {@code foldmax explain} finds out about a row and its head, as plain numbers, and the two
 * forms in which it tells: a page and lines of text. The analysis knows neither files nor the
 * command line.
 */
@NullMarked
package dev.foldmax.cli.explain;

import org.jspecify.annotations.NullMarked;
