package dev.foldmax.contract;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.core.importer.ImportOption.DoNotIncludeTests;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;
import dev.foldmax.BackendProvider;
import java.io.IOException;
import java.io.InputStream;
import java.lang.module.ModuleDescriptor;
import java.net.URI;
import java.net.URL;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The arrows between modules point one way: to core. */
@AnalyzeClasses(packages = "dev.foldmax", importOptions = DoNotIncludeTests.class)
class ArrowsTest {
  private static final String[] EXPORTED = {"dev.foldmax", "dev.foldmax.spi"};
  private static final String[] HIDDEN = {"dev.foldmax.cpu..", "dev.foldmax.reference.."};
  private static final String[] CORE = concat(EXPORTED, HIDDEN);

  @ArchTest
  static final ArchRule coreNeedsNothingButTheJdk =
      classes()
          .that()
          .resideInAnyPackage(CORE)
          .should()
          .onlyDependOnClassesThat()
          .resideInAnyPackage(concat(CORE, "java..", "jdk.incubator.vector..", "org.jspecify.."));

  @ArchTest
  static final ArchRule ioKnowsCoreAlone =
      noClasses()
          .that()
          .resideInAPackage("dev.foldmax.io..")
          .should()
          .dependOnClassesThat()
          .resideInAnyPackage("dev.foldmax.cuda..", "dev.foldmax.spark..", "dev.foldmax.cli..");

  @ArchTest
  static final ArchRule cudaKnowsCoreAlone =
      noClasses()
          .that()
          .resideInAPackage("dev.foldmax.cuda..")
          .should()
          .dependOnClassesThat()
          .resideInAnyPackage("dev.foldmax.io..", "dev.foldmax.spark..", "dev.foldmax.cli..");

  @ArchTest
  static final ArchRule nothingPointsBackToTheCommandLine =
      noClasses()
          .that()
          .resideOutsideOfPackage("dev.foldmax.cli..")
          .should()
          .dependOnClassesThat()
          .resideInAPackage("dev.foldmax.cli..");

  @ArchTest
  static final ArchRule kernelsStayInsideCore =
      noClasses()
          .that()
          .resideOutsideOfPackages(CORE)
          .should()
          .dependOnClassesThat()
          .resideInAnyPackage(HIDDEN);

  @Test
  void coreExportsItsApiAlone() throws IOException {
    ModuleDescriptor core = descriptor(BackendProvider.class);

    assertThat(core.exports())
        .noneMatch(ModuleDescriptor.Exports::isQualified)
        .extracting(ModuleDescriptor.Exports::source)
        .containsExactlyInAnyOrder(EXPORTED);
    assertThat(core.opens()).isEmpty();
  }

  /** Reads the module's descriptor beside the class, as tests run on the class path. */
  private static ModuleDescriptor descriptor(Class<?> type) throws IOException {
    String file = type.getName().replace('.', '/') + ".class";
    URL location = type.getClassLoader().getResource(file);
    String root = location.toString().substring(0, location.toString().length() - file.length());
    try (InputStream in = URI.create(root + "module-info.class").toURL().openStream()) {
      return ModuleDescriptor.read(in);
    }
  }

  private static String[] concat(String[] first, String... second) {
    return Stream.of(first, second).flatMap(Stream::of).toArray(String[]::new);
  }
}
