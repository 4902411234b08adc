package dev.foldmax.cli;

import java.util.Arrays;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Collectors;

/** What a tensor is to an attention. The name in lower case is that of the tensor in a file. */
enum Role {
  Q,
  K,
  V,
  BIAS,
  MASK,
  SINKS,
  SLOPES,
  K_SCALE,
  V_SCALE,
  EXPECTED;

  /** The name of the tensor in a .safetensors file, unless the user says another. */
  String tensorName() {
    return name().toLowerCase(Locale.ROOT);
  }

  /** The option that takes an .npy file instead. */
  String option() {
    return "--" + Choice.nameOf(this);
  }

  /** The role of a name in lower case. */
  static Optional<Role> named(String name) {
    return Arrays.stream(values()).filter(role -> role.tensorName().equals(name)).findFirst();
  }

  /** All names, for messages. */
  static String names() {
    return Arrays.stream(values()).map(Role::tensorName).collect(Collectors.joining(", "));
  }
}
