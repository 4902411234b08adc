/**
 * The definition, spelled out: float64, scalar, two passes over materialised scores, no tile and no
 * running state, so that it shares no idea with what it is compared to.
 */
@NullMarked
package dev.foldmax.reference;

import org.jspecify.annotations.NullMarked;
