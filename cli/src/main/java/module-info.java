/** The {@code foldmax} command. */
module dev.foldmax.cli {
  requires dev.foldmax;
  requires dev.foldmax.io;
  requires info.picocli;
  requires static org.jspecify;

  // picocli reads annotations and sets fields by reflection.
  opens dev.foldmax.cli to
      info.picocli;
}
