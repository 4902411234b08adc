package dev.foldmax.spark;

import static dev.foldmax.spark.ScalaLists.javaList;
import static dev.foldmax.spark.ScalaLists.scalaList;

import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.errors.QueryCompilationErrors;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/** A function's name and description, and how a call of it becomes an expression. */
final class SqlFunction extends AbstractFunction1<Seq<Expression>, Expression> {
  private final String name;
  private final String usage;
  private final List<Integer> numbersOfArguments;
  private final Function<List<Expression>, Expression> expression;

  SqlFunction(
      String name,
      String usage,
      List<Integer> numbersOfArguments,
      Function<List<Expression>, Expression> expression) {
    this.name = name;
    this.usage = usage;
    this.numbersOfArguments = numbersOfArguments;
    this.expression = expression;
  }

  /** The name as an extension of Spark gives it: among the functions that are built in. */
  FunctionIdentifier builtIn() {
    return new FunctionIdentifier(name);
  }

  /** The name among the temporary functions of a session. */
  FunctionIdentifier temporary() {
    return new FunctionIdentifier(
        name,
        Option.apply(CatalogManager.SESSION_NAMESPACE()),
        Option.apply(CatalogManager.SYSTEM_CATALOG_NAME()));
  }

  /** What DESCRIBE FUNCTION shows. */
  ExpressionInfo info() {
    return new ExpressionInfo(
        FoldmaxFunctions.class.getName(),
        null,
        name,
        usage,
        "",
        "",
        "",
        "agg_funcs",
        "",
        "",
        "java_udf");
  }

  @Override
  public Expression apply(Seq<Expression> arguments) {
    List<Expression> list = javaList(arguments);
    if (!numbersOfArguments.contains(list.size())) {
      // Unchecked, as Scala throws it: Spark makes an error in the query's text of it.
      Platform.throwException(
          QueryCompilationErrors.wrongNumArgsError(
              name, scalaList(List.<Object>copyOf(numbersOfArguments)), list.size(), "", "", ""));
    }
    return expression.apply(list);
  }
}
