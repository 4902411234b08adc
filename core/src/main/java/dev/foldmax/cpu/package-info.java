/**
 * The CPU backend on the Vector API. Read {@code Workers}, then {@code AttentionTask}, the five
 * lines over tiles, then the leaf kernels that it calls.
 */
@NullMarked
package dev.foldmax.cpu;

import org.jspecify.annotations.NullMarked;
