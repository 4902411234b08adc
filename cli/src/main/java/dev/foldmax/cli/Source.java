package dev.foldmax.cli;

import dev.foldmax.Tensor;

/**
 * A tensor and where it came from, so that messages can name both.
 *
 * @param origin the file, and the tensor in it where it has several
 * @param name what the tensor is to the command, such as q
 * @param tensor as the file has it
 */
record Source(String origin, String name, Tensor tensor) {
  /** A failure that names the file, the tensor, its shape and what was expected. */
  Failure expected(String expectation) {
    return new Failure(
        origin + ": " + name + " is " + Quantity.tensor(tensor) + ", expected " + expectation);
  }

  /** The tensor with its name, for messages about another one. */
  String describe() {
    return name + " " + Quantity.tensor(tensor);
  }
}
