package dev.foldmax.cli;

import dev.foldmax.io.AtomicFile;
import java.awt.Color;
import java.awt.Font;
import java.awt.Graphics2D;
import java.awt.RenderingHints;
import java.awt.geom.Rectangle2D;
import java.awt.image.BufferedImage;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.text.NumberFormat;
import java.util.List;
import java.util.Locale;
import javax.imageio.ImageIO;
import org.jfree.chart.ChartFactory;
import org.jfree.chart.JFreeChart;
import org.jfree.chart.axis.CategoryAxis;
import org.jfree.chart.axis.NumberAxis;
import org.jfree.chart.labels.ItemLabelAnchor;
import org.jfree.chart.labels.ItemLabelPosition;
import org.jfree.chart.labels.StandardCategoryItemLabelGenerator;
import org.jfree.chart.plot.CategoryPlot;
import org.jfree.chart.plot.PlotOrientation;
import org.jfree.chart.renderer.category.BarRenderer;
import org.jfree.chart.renderer.category.StandardBarPainter;
import org.jfree.chart.ui.RectangleInsets;
import org.jfree.chart.ui.TextAnchor;
import org.jfree.data.category.DefaultCategoryDataset;
import org.jfree.svg.SVGGraphics2D;

/** Bars of how near each work comes to the ceiling that bounds it. */
final class BenchPicture {
  private static final int WIDTH = 900;
  private static final int MARGIN = 110;
  private static final int HEIGHT_OF_A_BAR = 30;
  private static final int PADDING = 10;

  /** Pixels of the PNG for each unit of the SVG. */
  private static final int SCALE = 2;

  private static final Color BARS = new Color(0x2f6f9f);

  private final JFreeChart chart;
  private final int height;

  BenchPicture(String title, List<BenchResult> results) {
    DefaultCategoryDataset shares = new DefaultCategoryDataset();
    for (BenchResult result : results) {
      if (result.ceiling() != null) {
        String label = result.backend() + ": " + result.work() + ", " + result.describeRate();
        shares.addValue(result.share(), "share", label);
      }
    }
    height = MARGIN + HEIGHT_OF_A_BAR * shares.getColumnCount();
    chart =
        ChartFactory.createBarChart(
            title,
            null,
            "share of the ceiling (arithmetic or memory) measured on the same machine",
            shares,
            PlotOrientation.HORIZONTAL,
            false,
            false,
            false);
    chart.setBackgroundPaint(Color.WHITE);
    chart.setPadding(new RectangleInsets(PADDING, PADDING, PADDING, PADDING));
    chart.getTitle().setFont(new Font(Font.SANS_SERIF, Font.BOLD, 16));
    CategoryPlot plot = chart.getCategoryPlot();
    plot.setBackgroundPaint(Color.WHITE);
    plot.setRangeGridlinePaint(Color.LIGHT_GRAY);
    plot.setOutlineVisible(false);
    CategoryAxis works = plot.getDomainAxis();
    works.setTickLabelFont(new Font(Font.SANS_SERIF, Font.PLAIN, 12));
    works.setMaximumCategoryLabelWidthRatio(0.6f);
    NumberAxis share = (NumberAxis) plot.getRangeAxis();
    share.setNumberFormatOverride(NumberFormat.getPercentInstance(Locale.ROOT));
    share.setRange(0, Math.max(1.05, 1.1 * largest(results)));
    share.setLabelFont(new Font(Font.SANS_SERIF, Font.PLAIN, 12));
    BarRenderer bars = (BarRenderer) plot.getRenderer();
    bars.setBarPainter(new StandardBarPainter());
    bars.setShadowVisible(false);
    bars.setSeriesPaint(0, BARS);
    bars.setDefaultItemLabelGenerator(
        new StandardCategoryItemLabelGenerator(
            "{2}", NumberFormat.getPercentInstance(Locale.ROOT)));
    bars.setDefaultItemLabelsVisible(true);
    bars.setDefaultPositiveItemLabelPosition(
        new ItemLabelPosition(ItemLabelAnchor.OUTSIDE3, TextAnchor.CENTER_LEFT));
  }

  private static double largest(List<BenchResult> results) {
    return results.stream()
        .mapToDouble(BenchResult::share)
        .filter(share -> !Double.isNaN(share))
        .max()
        .orElse(1);
  }

  /** Writes the picture in two formats. */
  void write(Path folder) throws IOException {
    AtomicFile.write(folder.resolve("bench.svg"), svg().getBytes(StandardCharsets.UTF_8));
    AtomicFile.write(folder.resolve("bench.png"), png());
  }

  /** As an SVG document. */
  String svg() {
    SVGGraphics2D graphics = new SVGGraphics2D(WIDTH, height);
    chart.draw(graphics, new Rectangle2D.Double(0, 0, WIDTH, height));
    return graphics.getSVGDocument();
  }

  /** As the bytes of a PNG file. */
  byte[] png() throws IOException {
    BufferedImage image =
        new BufferedImage(SCALE * WIDTH, SCALE * height, BufferedImage.TYPE_INT_RGB);
    Graphics2D graphics = image.createGraphics();
    graphics.scale(SCALE, SCALE);
    graphics.setRenderingHint(
        RenderingHints.KEY_TEXT_ANTIALIASING, RenderingHints.VALUE_TEXT_ANTIALIAS_ON);
    chart.draw(graphics, new Rectangle2D.Double(0, 0, WIDTH, height));
    graphics.dispose();
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    ImageIO.write(image, "png", bytes);
    return bytes.toByteArray();
  }
}
