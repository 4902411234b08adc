package dev.foldmax.cli;

import dev.foldmax.Attention;
import dev.foldmax.Backend;
import dev.foldmax.Rescale;
import dev.foldmax.Tensor;
import dev.foldmax.cli.explain.Comparison;
import dev.foldmax.cli.explain.Costs;
import dev.foldmax.cli.explain.Dialect;
import dev.foldmax.cli.explain.Errors;
import dev.foldmax.cli.explain.Explanation;
import dev.foldmax.cli.explain.ExplanationJson;
import dev.foldmax.cli.explain.Format;
import dev.foldmax.cli.explain.Head;
import dev.foldmax.cli.explain.Page;
import dev.foldmax.cli.explain.Precision;
import dev.foldmax.cli.explain.Row;
import dev.foldmax.cli.explain.RowTrace;
import dev.foldmax.cli.explain.Weights;
import dev.foldmax.cli.explain.WithoutMaximum;
import dev.foldmax.io.AtomicFile;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import picocli.CommandLine.TypeConversionException;

/** Shows the online softmax at work on one row of the user's own data. */
@Command(
    name = "explain",
    sortOptions = false,
    description = {
      "Shows the online softmax at work on one query of an attention, or on one row of a tensor: how"
          + " the maximum rises tile by tile, what each correction does, which keys matter, what the"
          + " ways to rescale cost, what happens without the maximum, and how exact it all is. Prints"
          + " a summary; --html writes a page to step through, which needs no network.",
      "",
      "Input: as for foldmax attend. An .npy FILE, or a .safetensors FILE with --row, is a tensor"
          + " whose rows, along the last axis, get a softmax.",
      ""
    },
    footer = {
      "",
      "The fold that is shown is in float64, over tiles of --tile keys; --rescale and --tau choose its"
          + " dialect. Kernels have tiles of their own.",
      "",
      "Examples:",
      "  foldmax explain sample.safetensors --causal --html page.html",
      "  foldmax explain sample.safetensors --head 3 --query most-rises --tile 16",
      "  foldmax explain logits.npy --row 0 --html page.html",
      "  foldmax explain outputs.safetensors --tensor logits --row -1 --json"
    })
final class ExplainCommand implements Callable<Integer> {
  /** More than this would make a page of many megabytes. */
  private static final int MOST_TILES = 4096;

  /** Tiles that a short row is cut into at least, so that there is something to see. */
  private static final int FEW_TILES = 16;

  private static final int LARGEST_DEFAULT_TILE = 128;

  /** Rows of the map of rises. */
  private static final int MOST_ROWS = 96;

  /** Multiply-adds that the scores of the map's rows may take: about a second. */
  private static final double MOST_OPERATIONS = 1e9;

  /** What does not only make sense for an attention. */
  private static final Set<String> OPTIONS_OF_ROWS =
      Set.of(
          "--tensor",
          "--rescale",
          "--tau",
          "--row",
          "--tile",
          "--splits",
          "--no-timing",
          "--html",
          "--json",
          CommonOptions.VERBOSE);

  /** Threads that are compared with one: keys are cut for as many. */
  private static final int THREADS = 4;

  @Spec private CommandSpec spec;
  @Mixin private TensorOptions tensors;
  @Mixin private AttentionOptions options;

  @Option(
      names = "--batch",
      paramLabel = "N",
      description = "The sequence, from 0; a negative number counts from the end.")
  private long batch;

  @Option(
      names = "--head",
      paramLabel = "N",
      description = "The query head, from 0; a negative number counts from the end.")
  private long head;

  @Option(
      names = "--query",
      paramLabel = "N",
      converter = RowChoice.Converter.class,
      description =
          "The query, from 0, or from the end where it is negative; or most-rises, the one whose"
              + " maximum rises most often. The last one without this.")
  private @Nullable RowChoice query;

  @Option(
      names = "--row",
      paramLabel = "N",
      converter = RowChoice.Converter.class,
      description =
          "Explains the softmax of a row of FILE's tensor, as --query chooses; --tensor NAME says"
              + " which tensor of a .safetensors FILE.")
  private @Nullable RowChoice row;

  @Option(
      names = "--tile",
      paramLabel = "N",
      description =
          "Keys of a tile; without this a power of two, at most 128 unless rows are long.")
  private @Nullable Integer tile;

  @Option(
      names = "--splits",
      paramLabel = "A,B",
      converter = SplitsConverter.class,
      description = "Into how many parts the keys are cut, to compare results bit by bit (2,8).")
  private Splits splits = new Splits(2, 8);

  @Option(
      names = "--no-timing",
      description =
          "Does not measure what the dialects cost, so that the same input gives the same page.")
  private boolean noTiming;

  @Option(
      names = "--html",
      paramLabel = "FILE",
      description = "Writes the page, one file that ends in .html.")
  private @Nullable Path html;

  @Mixin private CommonOptions common;

  /** What {@code --splits} takes. */
  record Splits(int one, int other) {}

  /** Reads {@code 2,8}. */
  static final class SplitsConverter implements ITypeConverter<Splits> {
    @Override
    public Splits convert(String value) {
      String[] parts = value.split(",", -1);
      try {
        if (parts.length == 2) {
          Splits splits = new Splits(Integer.parseInt(parts[0]), Integer.parseInt(parts[1]));
          if (splits.one() >= 1 && splits.other() >= 1) {
            return splits;
          }
        }
      } catch (NumberFormatException e) {
        throw wrong(value);
      }
      throw wrong(value);
    }

    private static TypeConversionException wrong(String value) {
      return new TypeConversionException(
          "expected two numbers of parts, such as 2,8, got '" + value + "'");
    }
  }

  @Override
  public Integer call() throws IOException {
    boolean isTensor = isTensor();
    validate(isTensor);
    try (InputFiles files = new InputFiles();
        Backend cpu = Backend.cpu()) {
      Report report = new Report("foldmax explain " + tensors.title());
      Explanation explanation =
          isTensor ? explainTensor(files, cpu, report) : explainAttention(files, cpu, report);
      Map<String, @Nullable Object> json = ExplanationJson.of(explanation);
      if (html != null) {
        byte[] page = Page.of(explanation, Json.write(json)).getBytes(StandardCharsets.UTF_8);
        AtomicFile.write(html, page);
        report.line("wrote", html.toString());
      }
      report.field("written", html == null ? List.of() : List.of(html.toString()));
      json.forEach(report::field);
      PrintWriter out = spec.commandLine().getOut();
      report.print(out, common.json);
      if (!common.json) {
        ExplainText.of(explanation).forEach(out::println);
        out.flush();
      }
    }
    return 0;
  }

  /** Whether FILE is a tensor whose rows get a softmax. */
  private boolean isTensor() {
    Path file = tensors.file();
    return row != null || (file != null && InputFiles.isNpy(file) && !tensors.hasOptions());
  }

  private void validate(boolean isTensor) {
    options.validate();
    if (isTensor) {
      for (OptionSpec matched : spec.commandLine().getParseResult().matchedOptions()) {
        if (!OPTIONS_OF_ROWS.contains(matched.longestName())) {
          throw wrong(matched.longestName() + " is for an attention and conflicts with rows");
        }
      }
      if (tensors.file() == null) {
        throw wrong("--row needs a FILE whose tensor has rows");
      }
    } else {
      if (tensors.hasExpected()) {
        throw wrong("--expected: foldmax explain compares with the reference");
      }
      tensors.validate(false);
    }
    if (tile != null && tile < 1) {
      throw wrong("--tile: expected at least 1, got " + tile);
    }
    if (html != null) {
      if (!html.toString().toLowerCase(Locale.ROOT).endsWith(".html")) {
        throw wrong("--html: expected a file that ends in .html, got " + html);
      }
      OutputFile page = new OutputFile("--html", html);
      page.refuseInputs(spec.commandLine(), tensors.paths());
      page.checkPlace();
    }
  }

  private ParameterException wrong(String message) {
    return new ParameterException(spec.commandLine(), message);
  }

  private Explanation explainAttention(InputFiles files, Backend cpu, Report report)
      throws IOException {
    AttendInputs inputs = tensors.read(files, null);
    Attention attention = options.attention(inputs);
    for (Role role : Role.values()) {
      Tensor tensor = inputs.tensor(role);
      if (tensor != null && role != Role.EXPECTED) {
        report.line(role.tensorName(), Quantity.tensor(tensor));
        report.field(role.tensorName(), Report.json(tensor));
      }
    }
    Tensor q = inputs.view(Role.Q);
    options.describe(report, attention, q.shape(3));
    if (q.shape(0) == 0 || q.shape(1) == 0) {
      throw new Failure(
          tensors.title() + ": there is no head to explain, q is " + Quantity.tensor(q));
    }
    if (inputs.view(Role.V).shape(3) == 0) {
      throw new Failure(
          tensors.title()
              + ": there is no output to explain, v is "
              + Quantity.tensor(inputs.view(Role.V)));
    }
    long b = RowChoice.resolve("batch", batch, q.shape(0));
    long h = RowChoice.resolve("head", head, q.shape(1));
    report.line("head", "batch " + b + ", head " + h);
    report.field("batch", b);
    report.field("headNumber", h);
    // Results go elsewhere, row by row; these only have the shapes that a job has.
    Tensor out = Tensor.of(new float[1], 1).expand(q.shape(0), q.shape(1), q.shape(2), 1);
    Tensor lse = Tensor.allocate(inputs.lseType(), 1).expand(q.shape(0), q.shape(1), q.shape(2));
    AttendJob job =
        new AttendJob(
            q,
            inputs.view(Role.K),
            inputs.view(Role.V),
            inputs.scales(Role.K_SCALE),
            inputs.scales(Role.V_SCALE),
            attention,
            out,
            lse);
    return explain(
        new ExplainedHead(job.part(b, b + 1, h, h + 1)),
        query == null ? RowChoice.LAST : query,
        dialect(attention),
        cpu,
        report);
  }

  private Explanation explainTensor(InputFiles files, Backend cpu, Report report)
      throws IOException {
    Source source = files.sole(Objects.requireNonNull(tensors.file()), tensors.soleTensor());
    Tensor x = source.tensor();
    if (!x.dtype().isFloating() || x.rank() == 0) {
      throw source.expected("F64, F32, F16 or BF16 with at least one dimension");
    }
    report.line("x", Quantity.tensor(x));
    report.field("x", Report.json(x));
    return explain(
        new ExplainedTensor(x),
        row == null ? RowChoice.LAST : row,
        dialect(options.definition()),
        cpu,
        report);
  }

  private static Dialect dialect(Attention attention) {
    Rescale rescale = attention.rescale();
    return new Dialect(rescale == null ? Rescale.ON_NEW_MAX : rescale, attention.tau());
  }

  private Explanation explain(
      ExplainedRows rows, RowChoice choice, Dialect dialect, Backend cpu, Report report) {
    if (rows.rows() == 0) {
      throw new Failure(tensors.title() + ": there is no " + rows.noun() + " to explain");
    }
    int keysOfTile = keysOfTile(rows.keys());
    long asked =
        choice.mostRises() ? 0 : RowChoice.resolve(rows.noun(), choice.number(), rows.rows());
    Head all = head(rows, asked, keysOfTile, cpu);
    long chosen = choice.mostRises() ? all.mostRises() : asked;
    Row one = rows.row(cpu, chosen);
    report.line(
        rows.noun(),
        String.format(
            Locale.ROOT,
            "%d (of 0 to %d), which sees %d of %d %ss, in tiles of %d",
            chosen,
            rows.rows() - 1,
            one.visibleKeys(),
            one.keys(),
            rows.keyNoun(),
            keysOfTile));
    boolean ordinary = one.condition() == Row.Condition.ORDINARY;
    return new Explanation(
        tensors.title(),
        report.lines(),
        rows.noun(),
        rows.keyNoun(),
        chosen,
        one,
        rows.trouble(one),
        one.condition() == Row.Condition.NOT_A_NUMBER
            ? null
            : RowTrace.of(one, keysOfTile, dialect.rescale(), dialect.tau()),
        ordinary ? Weights.of(one) : null,
        ordinary
            ? List.of(WithoutMaximum.of(one, Format.F32), WithoutMaximum.of(one, Format.F16))
            : List.of(),
        ordinary ? precisions(rows, chosen, one, keysOfTile, cpu) : List.of(),
        ordinary ? comparisons(rows, chosen, one, keysOfTile, cpu) : List.of(),
        all,
        noTiming || all.visibleTiles() == 0 ? null : Costs.measure(all));
  }

  private int keysOfTile(int keys) {
    if (tile != null) {
      if (Math.ceilDiv(keys, tile) > MOST_TILES) {
        throw wrong(
            "--tile: a row of "
                + keys
                + " keys would have more than "
                + MOST_TILES
                + " tiles, so expected at least "
                + Math.ceilDiv(keys, MOST_TILES)
                + ", got "
                + tile);
      }
      return tile;
    }
    int chosen = LARGEST_DEFAULT_TILE;
    while (chosen > 1 && Math.ceilDiv(keys, chosen) < FEW_TILES) {
      chosen /= 2;
    }
    while (Math.ceilDiv(keys, chosen) > MOST_TILES) {
      chosen *= 2;
    }
    return chosen;
  }

  /**
   * The maxima of the tiles of all rows, or of evenly spaced ones with the one that was asked for.
   */
  private Head head(ExplainedRows rows, long asked, int keysOfTile, Backend cpu) {
    double affordable = MOST_OPERATIONS / Math.max(1, rows.scoreOperations());
    long most = (long) Math.clamp(affordable, 1, MOST_ROWS);
    TreeSet<Long> numbers = new TreeSet<>();
    long count = Math.min(most, rows.rows());
    for (long i = 1; i < count; i++) {
      numbers.add(i * rows.rows() / count);
    }
    numbers.add(count == 1 ? asked : 0);
    numbers.add(asked);
    double[][] maxima = new double[numbers.size()][];
    int done = 0;
    try (Progress progress =
        Progress.start(
            "explain", Progress.Work.UNCOUNTED, Progress.Form.AUTO, spec.commandLine().getErr())) {
      for (long number : numbers) {
        maxima[done] = Head.tileMaxima(rows.scores(cpu, number), keysOfTile);
        done++;
        progress.reach((double) done / maxima.length);
      }
    }
    return new Head(rows.rows(), List.copyOf(numbers), maxima, rows.dimension());
  }

  private static List<Precision> precisions(
      ExplainedRows rows, long number, Row row, int keysOfTile, Backend cpu) {
    double[] numbers = rows.compute(cpu, number);
    List<Precision> precisions = new ArrayList<>();
    precisions.add(
        new Precision(
            "CPU kernels, in " + (rows.isFloat64() ? "f64" : "f32"),
            Errors.of(row, i -> numbers[i], numbers[numbers.length - 1])));
    precisions.addAll(Precision.of(row, keysOfTile));
    return precisions;
  }

  private List<Comparison> comparisons(
      ExplainedRows rows, long number, Row row, int keysOfTile, Backend cpu) {
    List<Comparison> comparisons = new ArrayList<>();
    try (Backend one = Backend.cpu(1);
        Backend several = Backend.cpu(THREADS)) {
      double[] first = rows.compute(one, number);
      comparisons.add(
          Comparison.of("CPU kernels, first run", first, "second run", rows.compute(one, number)));
      comparisons.add(
          Comparison.of(
              "CPU kernels, 1 thread", first, THREADS + " threads", rows.compute(several, number)));
    }
    Comparison others = rows.amongOthers(cpu, number);
    if (others != null) {
      comparisons.add(others);
    }
    comparisons.add(Comparison.ofParts(row, keysOfTile, 1, splits.one()));
    comparisons.add(Comparison.ofParts(row, keysOfTile, splits.one(), splits.other()));
    return comparisons;
  }
}
