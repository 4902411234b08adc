package dev.foldmax.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class FloatKeysTest {
  private static final int V = FloatKeys.V;

  @Test
  void widensEveryByteAndScalesItByItsKey() {
    int dims = 256;
    float[] columns = new float[dims / 4 * V];
    for (int i = 0; i < columns.length; i++) {
      int first = i / V * 4;
      columns[i] =
          Float.intBitsToFloat(
              ((first + 3) << 24) | ((first + 2) << 16) | ((first + 1) << 8) | first);
    }
    float[] scales = new float[V];
    for (int key = 0; key < V; key++) {
      scales[key] = 0.1f * (key + 1);
    }
    float[] wide = new float[dims * V];
    FloatKeys.widenBytes(columns, dims, scales, wide, 0);
    for (int d = 0; d < dims; d++) {
      for (int key = 0; key < V; key++) {
        assertThat(wide[d * V + key]).as("byte %x", d).isEqualTo((byte) d * scales[key]);
      }
    }
  }
}
