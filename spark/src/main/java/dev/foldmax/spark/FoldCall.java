package dev.foldmax.spark;

import static dev.foldmax.spark.ScalaLists.javaList;
import static dev.foldmax.spark.ScalaLists.listOf;
import static dev.foldmax.spark.ScalaLists.scalaList;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.Block;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.EmptyBlock$;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.FalseLiteral$;
import org.apache.spark.sql.catalyst.expressions.codegen.JavaCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * A call of a method of {@link SoftmaxFold} over columns that hold no NULL.
 *
 * <p>Spark's own StaticInvoke passes arguments through fields of the generated class: with it
 * {@code log_sum_exp} over a Parquet column took 1.6 times the time of {@code avg}, with this 1.0
 * to 1.3.
 */
final class FoldCall extends Expression implements java.io.Serializable {
  private static final long serialVersionUID = 1;

  private final String method;

  @SuppressWarnings("serial") // expressions are serializable, though their type does not say so
  private final Seq<Expression> arguments;

  private FoldCall(String method, Seq<Expression> arguments) {
    this.method = method;
    this.arguments = arguments;
  }

  static FoldCall of(String method, Expression... arguments) {
    return new FoldCall(method, listOf(arguments));
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode result) {
    Block code = EmptyBlock$.MODULE$;
    // Texts around the results, one more than there are results.
    List<String> texts = new ArrayList<>(List.of("\ndouble "));
    List<JavaCode> results = new ArrayList<>(List.of(result.value()));
    String separator = " = " + SoftmaxFold.class.getName() + "." + method + "(";
    for (Expression argument : javaList(arguments)) {
      ExprCode argumentCode = argument.genCode(context);
      code = code.$plus(argumentCode.code());
      texts.add(separator);
      results.add(argumentCode.value());
      separator = ", ";
    }
    texts.add(");\n");
    code = code.$plus(new CodeBlock(scalaList(texts), scalaList(results)));
    return result.copy(code, FalseLiteral$.MODULE$, result.value());
  }

  /** Where Spark has fallen back from generated code. */
  @Override
  public Object eval(InternalRow row) {
    Object[] values = javaList(arguments).stream().map(argument -> argument.eval(row)).toArray();
    try {
      return function().invoke(null, values);
    } catch (IllegalAccessException | InvocationTargetException e) {
      throw new IllegalStateException(method + " of " + Arrays.toString(values), e);
    }
  }

  private Method function() {
    return Arrays.stream(SoftmaxFold.class.getMethods())
        .filter(candidate -> candidate.getName().equals(method))
        .findAny()
        .orElseThrow();
  }

  @Override
  public boolean nullable() {
    return false;
  }

  @Override
  public DataType dataType() {
    return DataTypes.DoubleType;
  }

  @Override
  public Seq<Expression> children() {
    return arguments;
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> newChildren) {
    return new FoldCall(method, newChildren);
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int index) {
    return index == 0 ? method : arguments;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof FoldCall;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof FoldCall call
        && method.equals(call.method)
        && arguments.equals(call.arguments);
  }

  @Override
  public int hashCode() {
    return 31 * method.hashCode() + arguments.hashCode();
  }
}
