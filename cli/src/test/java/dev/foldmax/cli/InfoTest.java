package dev.foldmax.cli;

import static dev.foldmax.cli.Cli.run;
import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;

/** {@code foldmax info}. */
class InfoTest {
  @Test
  void showsTheMachine() {
    assertThat(run("info").succeeded().out())
        .startsWith("foldmax ")
        .containsPattern("JDK +" + System.getProperty("java.version"))
        .containsPattern("vectors +(128|256|512) bits")
        .containsPattern("cores +" + Runtime.getRuntime().availableProcessors())
        .containsPattern("memory +[0-9.]+ GiB, Java heap up to [0-9.]+ [MG]iB")
        .containsPattern("cuda +(available|absent|unusable): .+")
        .containsPattern("cpu +available: Vector API")
        .containsPattern("reference +available: float64");
  }

  @Test
  void printsJson() {
    JsonNode json = run("info", "--json").succeeded().json();

    assertThat(json.at("/jdk/version").asString()).startsWith(System.getProperty("java.version"));
    assertThat(json.at("/vectorBits").asInt()).isIn(128, 256, 512);
    assertThat(json.at("/cores").asInt()).isEqualTo(Runtime.getRuntime().availableProcessors());
    assertThat(json.at("/memoryBytes").asLong()).isGreaterThan(1L << 28);
    assertThat(json.at("/maxHeapBytes").asLong()).isEqualTo(Runtime.getRuntime().maxMemory());
    for (JsonNode backend : json.at("/backends")) {
      boolean available = backend.at("/status").asString().equals("available");
      assertThat(backend.at(available ? "/description" : "/reason").asString()).isNotBlank();
    }
    assertThat(json.at("/backends").findValuesAsString("name"))
        .contains("cuda", "cpu", "reference");
  }
}
