package dev.foldmax.benchmarks;

import java.awt.BasicStroke;
import java.awt.Color;
import java.awt.Font;
import java.awt.Shape;
import java.awt.geom.Ellipse2D;
import java.awt.geom.Path2D;
import java.awt.geom.Rectangle2D;
import java.text.DecimalFormat;
import java.text.DecimalFormatSymbols;
import java.util.List;
import java.util.Locale;
import java.util.function.ToDoubleFunction;
import org.jfree.chart.JFreeChart;
import org.jfree.chart.axis.LogAxis;
import org.jfree.chart.axis.NumberTickUnit;
import org.jfree.chart.plot.XYPlot;
import org.jfree.chart.renderer.xy.XYLineAndShapeRenderer;
import org.jfree.chart.ui.RectangleInsets;
import org.jfree.data.xy.XYSeries;
import org.jfree.data.xy.XYSeriesCollection;
import org.jfree.svg.SVGGraphics2D;

/** Lines over length, both axes logarithmic. Whose they are shows by color, dashes and marks. */
final class LengthPlot {
  private static final int WIDTH = 720;
  private static final int HEIGHT = 420;
  private static final int PADDING = 12;
  private static final float MARK = 8;

  // Distinct also for those who see few colors (after Okabe and Ito).
  private static final Color[] COLORS = {
    new Color(0x0072b2), new Color(0xd55e00), new Color(0x009e73), new Color(0xcc79a7)
  };
  private static final float[][] DASHES = {null, {8, 4}, {2, 4}, {10, 3, 2, 3}};

  private LengthPlot() {}

  /** An SVG document of one quantity. */
  static String draw(
      LengthSeries series,
      String quantity,
      double smallest,
      ToDoubleFunction<LengthSeries.Point> value) {
    XYSeriesCollection lines = new XYSeriesCollection();
    series
        .points()
        .forEach(
            (who, points) -> {
              XYSeries line = new XYSeries(who);
              for (LengthSeries.Point point : points) {
                line.add(point.length(), Math.max(value.applyAsDouble(point), smallest));
              }
              lines.addSeries(line);
            });
    LogAxis lengths = axis("length (queries and keys)");
    lengths.setBase(2);
    lengths.setTickUnit(new NumberTickUnit(1));
    LogAxis values = axis(quantity);
    values.setTickUnit(new NumberTickUnit(1));
    XYLineAndShapeRenderer renderer = new XYLineAndShapeRenderer();
    for (int i = 0; i < lines.getSeriesCount(); i++) {
      int style = i % COLORS.length;
      renderer.setSeriesPaint(i, COLORS[style]);
      renderer.setSeriesStroke(
          i,
          new BasicStroke(2, BasicStroke.CAP_ROUND, BasicStroke.JOIN_ROUND, 1, DASHES[style], 0));
      renderer.setSeriesShape(i, marks().get(style));
    }
    XYPlot plot = new XYPlot(lines, lengths, values, renderer);
    plot.setBackgroundPaint(Color.WHITE);
    plot.setDomainGridlinePaint(Color.LIGHT_GRAY);
    plot.setRangeGridlinePaint(Color.LIGHT_GRAY);
    JFreeChart chart =
        new JFreeChart(
            quantity + ": " + series.work(), new Font(Font.SANS_SERIF, Font.BOLD, 14), plot, true);
    chart.setBackgroundPaint(Color.WHITE);
    chart.setPadding(new RectangleInsets(PADDING, PADDING, PADDING, PADDING));
    SVGGraphics2D graphics = new SVGGraphics2D(WIDTH, HEIGHT);
    chart.draw(graphics, new Rectangle2D.Double(0, 0, WIDTH, HEIGHT));
    return graphics.getSVGDocument() + "\n";
  }

  private static LogAxis axis(String label) {
    LogAxis axis = new LogAxis(label);
    axis.setNumberFormatOverride(
        new DecimalFormat("0.###", DecimalFormatSymbols.getInstance(Locale.ROOT)));
    return axis;
  }

  private static List<Shape> marks() {
    Path2D triangle = new Path2D.Float();
    triangle.moveTo(0, -MARK / 2);
    triangle.lineTo(MARK / 2, MARK / 2);
    triangle.lineTo(-MARK / 2, MARK / 2);
    triangle.closePath();
    Path2D diamond = new Path2D.Float();
    diamond.moveTo(0, -MARK / 2);
    diamond.lineTo(MARK / 2, 0);
    diamond.lineTo(0, MARK / 2);
    diamond.lineTo(-MARK / 2, 0);
    diamond.closePath();
    return List.of(
        new Ellipse2D.Float(-MARK / 2, -MARK / 2, MARK, MARK),
        new Rectangle2D.Float(-MARK / 2, -MARK / 2, MARK, MARK),
        triangle,
        diamond);
  }
}
