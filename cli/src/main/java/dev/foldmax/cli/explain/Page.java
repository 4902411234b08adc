package dev.foldmax.cli.explain;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An explanation as one page of HTML that needs nothing else: a template with its style, its script
 * and the explanation as JSON. The page forbids itself any request, and any script but its own.
 */
public final class Page {
  private static final Pattern PLACE = Pattern.compile("\\{\\{(\\w+)}}");

  private Page() {}

  /**
   * Renders a page.
   *
   * @param explanation what it is about
   * @param json the same as {@link ExplanationJson}, whose strings may hold anything
   */
  public static String of(Explanation explanation, String json) throws IOException {
    String script = resource("explain.js");
    Matcher places = PLACE.matcher(resource("explain.html"));
    StringBuilder page = new StringBuilder();
    while (places.find()) {
      String content =
          switch (places.group(1)) {
            case "title" -> escape(explanation.title());
            case "style" -> resource("explain.css");
            case "scriptHash" -> sha256(script);
            case "script" -> script;
            case "data" -> insideScript(json);
            default -> throw new IllegalStateException("no content for " + places.group());
          };
      places.appendReplacement(page, Matcher.quoteReplacement(content));
    }
    return places.appendTail(page).toString();
  }

  private static String resource(String name) throws IOException {
    try (InputStream in = Page.class.getResourceAsStream(name)) {
      if (in == null) {
        throw new IllegalStateException("the resource " + name + " is missing");
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  /** Text as HTML. */
  private static String escape(String text) {
    return text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace("\"", "&quot;");
  }

  /**
   * JSON that cannot end the element that it stands in, nor start a comment in it: these characters
   * occur in strings only, where an escape means the same.
   */
  private static String insideScript(String json) {
    return json.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026");
  }

  private static String sha256(String script) {
    try {
      byte[] hash =
          MessageDigest.getInstance("SHA-256").digest(script.getBytes(StandardCharsets.UTF_8));
      return Base64.getEncoder().encodeToString(hash);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e); // every JDK has it
    }
  }
}
