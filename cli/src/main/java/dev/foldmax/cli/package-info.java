/** The {@code foldmax} command: a class for each subcommand, thin over the library. */
@NullMarked
package dev.foldmax.cli;

import org.jspecify.annotations.NullMarked;
