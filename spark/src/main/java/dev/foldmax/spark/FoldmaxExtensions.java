package dev.foldmax.spark;

import org.apache.spark.sql.SparkSessionExtensions;
import scala.Tuple3;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Registers {@link FoldmaxFunctions} in every session of an application that was started with
 * {@code spark.sql.extensions=dev.foldmax.spark.FoldmaxExtensions}.
 */
public final class FoldmaxExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  /** Called by Spark, by the class's name. */
  public FoldmaxExtensions() {}

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    for (SqlFunction function : FoldmaxFunctions.all()) {
      extensions.injectFunction(new Tuple3<>(function.builtIn(), function.info(), function));
    }
    return BoxedUnit.UNIT;
  }
}
