package dev.foldmax.spark;

import java.util.List;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Scala's immutable lists, which Spark's planner takes and gives. */
final class ScalaLists {
  private ScalaLists() {}

  @SafeVarargs
  @SuppressWarnings("varargs") // the array is read alone
  static <T> Seq<T> listOf(T... elements) {
    return scalaList(List.of(elements));
  }

  static <T> Seq<T> scalaList(List<T> elements) {
    return CollectionConverters.asScala(elements).toSeq();
  }

  static <T> List<T> javaList(Seq<T> elements) {
    return List.copyOf(CollectionConverters.asJava(elements));
  }
}
