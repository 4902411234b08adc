/** The {@code foldmax} command. */
module dev.foldmax.cli {
  requires dev.foldmax;
  requires dev.foldmax.io;
  requires info.picocli;
  requires static jdk.incubator.vector;
  requires jdk.management;
  requires static org.jspecify;
  requires java.desktop;
  requires org.jfree.jfreechart;
  requires org.jfree.svg;
  requires tools.jackson.core;

  // picocli reads annotations and sets fields by reflection.
  opens dev.foldmax.cli to
      info.picocli;
}
