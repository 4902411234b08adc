"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const page = document.getElementById("page");

  // JSON has no NaN and no infinities: they come as strings that Number reads.
  const num = (x) => (typeof x === "string" ? Number(x) : x);

  /** About six significant digits, as short as they go. */
  function text(x) {
    const n = num(x);
    if (n === null || n === undefined) return "";
    if (Number.isNaN(n)) return "NaN";
    if (!Number.isFinite(n)) return n > 0 ? "inf" : "-inf";
    if (Number.isInteger(n) && Math.abs(n) < 1e9) return String(n);
    const size = Math.abs(n);
    const short = size >= 1e-4 && size < 1e7 ? n.toPrecision(6) : n.toExponential(4);
    return short.includes("e") ? short : short.replace(/\.?0+$/, "");
  }

  const error = (x) => (Number.isNaN(num(x)) ? "not finite" : num(x) === 0 ? "0" : num(x).toExponential(1));

  function percent(x) {
    const p = 100 * num(x);
    return (p === 0 || p >= 0.01 ? String(Number(p.toPrecision(3))) : p.toExponential(1)) + " %";
  }

  const plural = (n, noun) => `${n} ${n === 1 ? noun : noun === "query" ? "queries" : noun + "s"}`;

  /** An element; strings become text, never markup. */
  function el(name, attributes, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === true) element.setAttribute(key, "");
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
    }
    element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
    return element;
  }

  function draw(name, attributes, content) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
    if (content !== undefined) element.textContent = content;
    return element;
  }

  /** A group with the pattern of what is hidden. */
  function hatching(id) {
    const pattern = draw("pattern", { id, width: 5, height: 5, patternUnits: "userSpaceOnUse" });
    pattern.append(draw("path", { class: "hatchLine", d: "M0 5L5 0" }));
    const group = draw("g");
    group.append(pattern);
    return group;
  }

  /** A number that keeps all of its digits for whoever copies them. */
  const value = (x, id) => el("data", { value: num(x), id, title: String(num(x)) }, text(x));

  function section(id, title, ...children) {
    const heading = el("h2", { id: `${id}-title` }, title);
    const element = el("section", { id, "aria-labelledby": `${id}-title` }, heading, ...children);
    page.append(element);
    return element;
  }

  /** The class of a column's cells: numbers, bars that a narrow page leaves out, or long texts. */
  const kind = (column) => (column.n ? "n" : column.bars ? "bars" : column.long ? "long" : null);

  function table(caption, columns, rows, classes) {
    const head = el("tr", {}, columns.map((c) => el("th", { scope: "col", class: kind(c) }, c.name)));
    const body = rows.map((row, i) =>
      el(
        "tr",
        { class: classes ? classes[i] : null },
        row.map((cell, j) =>
          j === 0
            ? el("th", { scope: "row" }, cell)
            : el("td", { class: kind(columns[j]) }, cell)
        )
      )
    );
    // A table that is too wide scrolls by itself, so it can be focused.
    return el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      el("table", {}, el("caption", {}, caption), el("thead", {}, head), el("tbody", {}, body))
    );
  }

  function bar(share) {
    const element = el("span", { class: "bar", "aria-hidden": "true" });
    element.style.width = `${100 * Math.max(0, Math.min(1, num(share)))}%`;
    return element;
  }

  /** Draws into a place as wide as it is, and again when that changes. */
  function responsive(place, paint) {
    let drawn = 0;
    new ResizeObserver(() => {
      const width = Math.floor(place.clientWidth);
      if (width > 0 && width !== drawn) {
        drawn = width;
        paint(width);
      }
    }).observe(place);
  }

  const row = data.row;
  const noun = row.noun;
  const keyNoun = row.keyNoun;
  const ordinary = row.condition === "ORDINARY";

  function header() {
    page.append(
      el("h1", {}, `${noun === "query" ? "Query" : "Row"} ${row.number} of ${data.title}`),
      el(
        "p",
        { class: "soft" },
        "How the online softmax takes this row in, tile by tile: it keeps a maximum m, a sum l and a weighted sum O, and corrects them whenever the maximum rises."
      )
    );
    const facts = el("dl", { class: "facts" });
    for (const [name, fact] of Object.entries(data.facts)) facts.append(el("dt", {}, name), el("dd", {}, fact));
    page.append(facts);
  }

  function condition() {
    if (row.condition === "EMPTY") {
      section(
        "condition",
        "Nothing is visible",
        el("p", {}, `This row sees none of its ${plural(row.keys, keyNoun)}. Its output is 0, and its logsumexp is ${text(row.logSumExp)}${num(row.sink) > -Infinity ? ", the sink's score" : ""}. There is no fold to show.`)
      ).classList.add("trouble");
    }
    if (data.row.trouble.length > 0) {
      const isWhole = row.condition === "NOT_A_NUMBER";
      section(
        "trouble",
        isWhole ? "This row is NaN" : "Not every number is finite",
        data.row.trouble.map((sentence) => el("p", {}, sentence)),
        isWhole ? el("p", { class: "soft" }, "There is no fold to show. Other rows do not suffer from it.") : null
      ).classList.add("trouble");
    }
  }

  function summary() {
    const trace = data.trace;
    const w = data.weights;
    const fact = (name, content, small) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, content, small ? el("small", {}, small) : null));
    const list = el(
      "dl",
      { class: "tiles" },
      fact(`${keyNoun}s seen`, text(row.visibleKeys), `of ${row.keys}, in tiles of ${trace.tile}`),
      fact(lazy ? "m, perhaps stale" : "m, the maximum", value(trace.max, "m")),
      fact("m rose", plural(trace.corrections, "time"), "each time l and O were corrected"),
      fact("l, the sum", value(trace.sum, "l")),
      fact("logsumexp", value(trace.logSumExp, "lse"), "m + ln l"),
      fact("entropy", value(w.entropy, "entropy"), `nats: as even over ${w.perplexity < 1000 ? w.perplexity.toPrecision(3) : Math.round(w.perplexity)} ${keyNoun}s`),
      w.shares.map((share, i) =>
        fact(`${100 * share} % of the weight`, w.keysThatHaveThem[i] < 0 ? `not in ${keyNoun}s alone` : plural(w.keysThatHaveThem[i], keyNoun))
      ),
      w.sink > 0 ? fact("the sink", percent(w.sink), "of the weight") : null
    );
    section("summary", "In short", list);
  }

  // ---- The tiles: a chart and a stepper that share a position. ----

  const steps = data.trace && ordinary ? data.trace.steps : null;
  const count = steps ? steps.begin.length : 0;
  const isSink = (t) => steps.begin[t] === steps.end[t];
  const rose = (t) => num(steps.maxBefore[t]) > -Infinity && num(steps.maxAfter[t]) > num(steps.maxBefore[t]);
  const lazy = steps !== null && num(data.trace.lazyThreshold) > 0;
  let current = 0;
  const watchers = [];

  function go(t) {
    current = Math.max(0, Math.min(count - 1, t));
    for (const watcher of watchers) watcher();
  }

  function keysOf(t) {
    if (isSink(t)) return "the sink";
    return steps.end[t] - steps.begin[t] === 1
      ? `${keyNoun} ${steps.begin[t]}`
      : `${keyNoun}s ${steps.begin[t]} to ${steps.end[t] - 1}`;
  }

  function ticks(low, high, n) {
    if (low === high) return [low];
    const raw = (high - low) / n;
    const unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((k) => k * unit).find((s) => s >= raw);
    const list = [];
    for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) list.push(Number((i * step).toPrecision(12)));
    return list;
  }

  function chart() {
    const place = el("div", {});
    const rises = [...Array(count).keys()].filter(rose);
    const anyHidden = steps.visible.includes(0);
    const where = rises.length > 20 ? "" : rises.length > 0 ? `, at ${rises.length === 1 ? "tile" : "tiles"} ${rises.map((t) => t + 1).join(", ")}` : "";
    section(
      "staircase",
      "The staircase of the maximum",
      el("p", {}, `The line is m, the running maximum; dots are each tile's own maximum. Where a dot rises ${lazy ? `more than tau, ${text(data.trace.lazyThreshold)}, ` : ""}above the line (a triangle), m rises and what was added before is multiplied by the correction c, from 1, which changes nothing, down to 0, which forgets it. ${anyHidden ? "Hatched tiles are hidden. " : ""}Click to step to a tile.`),
      place
    );
    const left = 56;
    const panels = [
      { name: "m, and each tile's maximum", height: 190 },
      { name: "correction c, where m rises", height: 64 },
      { name: "l, the sum so far", height: 64 },
      { name: "weight that the tile ends with", height: 64 },
    ];
    const head = 20;
    const height = panels.reduce((sum, p) => sum + p.height + head + 6, 0) + 22;
    responsive(place, (width) => {
      const inner = width - left - 8;
      const perBin = Math.ceil(count / Math.max(1, Math.floor(inner / 2)));
      const bins = Math.ceil(count / perBin);
      const x = (bin) => left + (bin * inner) / bins;
      const binned = (fold, start, get) => {
        const list = new Array(bins).fill(start);
        for (let t = 0; t < count; t++) {
          const b = Math.floor(t / perBin);
          list[b] = fold(list[b], get(t));
        }
        return list;
      };
      const last = (a, b) => b;
      const m = binned(last, NaN, (t) => num(steps.maxAfter[t]));
      const tops = binned(Math.max, -Infinity, (t) => num(steps.tileMax[t]));
      const c = binned((a, b) => a * b, 1, (t) => (rose(t) ? num(steps.correction[t]) : 1));
      const rise = binned((a, b) => a || b, false, rose);
      const l = binned(last, 0, (t) => num(steps.sumAfter[t]));
      const share = binned((a, b) => a + b, 0, (t) => num(steps.share[t]));
      const image = draw("svg", {
        class: "chart",
        width,
        height,
        viewBox: `0 0 ${width} ${height}`,
        role: "img",
        "aria-label": `Over ${plural(count, "tile")} the maximum rises ${plural(rises.length, "time")}${where}. It ends at ${text(data.trace.max)}, the sum l at ${text(data.trace.sum)}.`,
      });
      let top = 0;
      const scale = (low, high, panelTop, panelHeight) => (v) =>
        high === low ? panelTop + panelHeight / 2 : panelTop + panelHeight - ((v - low) / (high - low)) * panelHeight;
      const frame = (panel, low, high, n) => {
        image.append(draw("text", { x: left, y: top + 14, class: "strong" }, panel.name));
        const y = scale(low, high, top + head, panel.height);
        for (const tick of ticks(low, high, n)) {
          image.append(
            draw("line", { class: "grid", x1: left, x2: width - 8, y1: y(tick), y2: y(tick) }),
            draw("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, text(Number(tick.toPrecision(6))))
          );
        }
        return y;
      };
      // Tiles without a visible key, behind everything.
      const seen = binned((a, b) => a || b, false, (t) => steps.visible[t] > 0);
      let hidden = "";
      seen.forEach((some, b) => {
        if (!some) hidden += `M${x(b)} ${head}H${x(b + 1)}V${height - 20}H${x(b)}z`;
      });
      const shade = hatching("hatch-tiles");
      shade.append(draw("path", { fill: "url(#hatch-tiles)", d: hidden }));
      image.append(shade);
      const finite = [...m, ...tops].filter(Number.isFinite);
      // The first panel: m as steps, tile maxima as dots, rises as triangles.
      const low = Math.min(...finite);
      const high = Math.max(...finite);
      const pad = (high - low) * 0.06;
      const y1 = frame(panels[0], low - pad, high + pad, 5);
      let path = "";
      for (let b = 0; b < bins; b++) {
        if (!Number.isFinite(m[b])) continue;
        path += `${path === "" ? "M" : "L"}${x(b)} ${y1(m[b])}H${x(b + 1)}`;
      }
      const radius = Math.max(1, Math.min(3.5, inner / bins / 3));
      for (let b = 0; b < bins; b++) {
        if (!Number.isFinite(tops[b])) continue;
        const cx = (x(b) + x(b + 1)) / 2;
        image.append(
          rise[b]
            ? draw("path", { class: "riseMark", d: `M${cx - 5} ${y1(tops[b]) + 5}h10l-5 -9z` })
            : draw("circle", { class: "tileMax", cx, cy: y1(tops[b]), r: radius })
        );
      }
      image.append(draw("path", { class: "max", d: path }));
      top += panels[0].height + head + 6;
      const y2 = frame(panels[1], 0, 1, 2);
      for (let b = 0; b < bins; b++) {
        if (!rise[b]) continue;
        const cx = (x(b) + x(b + 1)) / 2;
        image.append(
          draw("line", { class: "cor", x1: cx, x2: cx, y1: y2(1), y2: y2(c[b]) }),
          draw("path", { class: "riseMark", d: `M${cx - 3.5} ${y2(c[b]) - 3.5}h7v7h-7z` })
        );
      }
      top += panels[1].height + head + 6;
      const y3 = frame(panels[2], 0, Math.max(...l) || 1, 2);
      image.append(draw("path", { class: "sum", d: l.map((v, b) => `${b === 0 ? "M" : "L"}${x(b)} ${y3(v)}H${x(b + 1)}`).join("") }));
      top += panels[2].height + head + 6;
      const y4 = frame(panels[3], 0, Math.max(...share) || 1, 2);
      for (let b = 0; b < bins; b++) {
        const width4 = Math.max(1, inner / bins - (inner / bins > 4 ? 1.5 : 0));
        image.append(draw("rect", { class: "share", x: x(b), width: width4, y: y4(share[b]), height: Math.max(0, y4(0) - y4(share[b])) }));
      }
      image.append(draw("text", { x: left, y: height - 4 }, "tile 1"), draw("text", { x: width - 8, y: height - 4, "text-anchor": "end" }, `tile ${count}`));
      const cursor = draw("rect", { class: "cursor", y: 0, height: height - 20 });
      image.prepend(cursor);
      const hit = draw("rect", { class: "hit", x: left, y: 0, width: inner, height });
      const pick = (event) => {
        const box = image.getBoundingClientRect();
        go(Math.floor(((event.clientX - box.left - left) / inner) * bins) * perBin);
      };
      hit.addEventListener("pointerdown", (event) => {
        hit.setPointerCapture(event.pointerId);
        pick(event);
      });
      hit.addEventListener("pointermove", (event) => {
        if (event.buttons === 1) pick(event);
      });
      image.append(hit);
      place.replaceChildren(image);
      const move = () => {
        const b = Math.floor(current / perBin);
        cursor.setAttribute("x", x(b) - 1);
        cursor.setAttribute("width", Math.max(3, inner / bins + 2));
      };
      watchers[0] = move;
      move();
    });
    watchers.push(() => {});
  }

  function stepper() {
    const button = (label, name, act) => {
      const b = el("button", { type: "button", "aria-label": name, title: name }, label);
      b.addEventListener("click", act);
      return b;
    };
    const nextRise = (direction) => {
      for (let t = current + direction; t >= 0 && t < count; t += direction) if (rose(t)) return t;
      return -1;
    };
    const first = button("|\u25c0", "First tile", () => go(0));
    const back = button("\u25c0 Back", "Back one tile", () => go(current - 1));
    const forward = button("Forward \u25b6", "Forward one tile", () => go(current + 1));
    const end = button("\u25b6|", "Last tile", () => go(count - 1));
    const riseBack = button("\u25c0 rise", "Back to the previous rise", () => go(nextRise(-1)));
    const riseForward = button("rise \u25b6", "Forward to the next rise", () => go(nextRise(1)));
    let timer = 0;
    const stop = () => {
      clearInterval(timer);
      timer = 0;
      play.textContent = "Play";
    };
    const play = button("Play", "Play, or pause", () => {
      if (timer) return stop();
      if (current === count - 1) go(0);
      play.textContent = "Pause";
      timer = setInterval(() => (current === count - 1 ? stop() : go(current + 1)), Math.max(60, Math.min(800, 20000 / count)));
    });
    play.removeAttribute("title");
    play.removeAttribute("aria-label"); // its text says what it does
    const slider = el("input", { type: "range", min: 1, max: count, value: 1, "aria-label": "Tile" });
    slider.addEventListener("input", () => go(Number(slider.value) - 1));
    const jump = el("input", { type: "number", min: 1, max: count, value: 1, id: "jump" });
    jump.addEventListener("change", () => go((Number(jump.value) || 1) - 1));
    const where = el("p", { class: "where", id: "where", role: "status" });
    const lines = el("ol", { class: "lines", id: "lines" });
    const finish = el("div", { id: "finish" });
    const box = section(
      "stepper",
      "Step through the five lines",
      el("p", {}, "Each tile of scores S, with values V, changes the state (m, l, O) by five lines. Left and right arrow keys step too; Home and End, here, go to the ends."),
      el("div", { class: "controls" }, first, back, play, forward, end, riseBack, riseForward, el("label", { for: "jump" }, "Go to tile"), jump),
      slider,
      where,
      lines,
      finish
    );
    document.addEventListener("keydown", (event) => {
      const target = event.target;
      const ownKeys = target instanceof Element && target.closest("input, .scroll, svg.map, summary");
      if (ownKeys || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
      const inside = target instanceof Element && box.contains(target);
      if (event.key === "ArrowRight") go(current + 1);
      else if (event.key === "ArrowLeft") go(current - 1);
      else if (inside && event.key === "Home") go(0);
      else if (inside && event.key === "End") go(count - 1);
      else return;
      event.preventDefault();
    });

    const line = (no, formula, ...numbers) =>
      el("li", {}, el("span", { class: "no" }, no), el("span", { class: "formula" }, formula), el("span", { class: "numbers" }, numbers));
    const n = (x) => text(x);
    const minus = (a, b) => `${n(a)} - ${num(b) < 0 ? `(${n(b)})` : n(b)}`;

    function weightsOf(t, max) {
      if (isSink(t)) return [el("div", {}, `exp(${minus(steps.tileMax[t], max)}) = `, value(steps.tileSum[t], "sum-p"), " of the sink, whose value is 0")];
      if (steps.visible[t] === 0) return [el("div", {}, "nothing is visible: sum(P) = ", value(0, "sum-p"))];
      const shown = steps.largest[t];
      const list = shown.map(([key, score]) => el("div", {}, `${keyNoun} ${key}: exp(${minus(score, max)}) = ${n(Math.exp(num(score) - num(max)))}`));
      const rest = steps.visible[t] - shown.length;
      if (rest > 0) {
        const sum = shown.reduce((total, [, score]) => total + Math.exp(num(score) - num(max)), 0);
        list.push(el("div", { class: "note" }, `and ${plural(rest, "smaller one")}, together ${n(Math.max(0, num(steps.tileSum[t]) - sum))}`));
      }
      list.push(el("div", {}, "sum(P) = ", value(steps.tileSum[t], "sum-p")));
      return list;
    }

    function outputs(t) {
      if (row.valueDimension === 0) return [el("div", { class: "note" }, "A row without values has no O.")];
      const list = steps.outputAfter[t].map((after, d) =>
        el("div", {}, `O[${d}] = ${n(steps.outputBefore[t][d])} \u00b7 ${n(steps.correction[t])} + ${num(steps.tileValues[t][d]) < 0 ? `(${n(steps.tileValues[t][d])})` : n(steps.tileValues[t][d])} = `, value(after, `o-${d}`))
      );
      const rest = row.valueDimension - list.length;
      if (rest > 0) list.push(el("div", { class: "note" }, `and ${rest} more ${rest === 1 ? "component" : "components"} likewise`));
      return list;
    }

    function remark(t) {
      const before = num(steps.maxBefore[t]);
      if (steps.visible[t] === 0) return "Nothing visible here: the state stays as it is.";
      if (before === -Infinity) return "The first maximum. Nothing was added before, so there is nothing to correct.";
      if (rose(t)) return `The maximum rises by ${n(num(steps.maxAfter[t]) - before)}: all that was added before is too large by 1/c.`;
      const above = num(steps.tileMax[t]) - before;
      if (above > 0) return `max(S) lies above m by ${n(above)}, no more than tau allows (${n(data.trace.lazyThreshold)}): the stale m stays.`;
      return "The maximum stays, so c is exactly 1.";
    }

    function show() {
      const t = current;
      const name = isSink(t) ? "The sink" : `Tile ${t + 1} of ${count}, ${keysOf(t)}`;
      where.textContent = `${name}${steps.visible[t] < steps.end[t] - steps.begin[t] ? ` (${steps.visible[t]} visible)` : ""}. ${remark(t)}`;
      const after = steps.maxAfter[t];
      lines.replaceChildren(
        line("1", "m' = max(m, max(S))", el("div", {}, `max(${n(steps.maxBefore[t])}, ${n(steps.tileMax[t])})${num(steps.tileMax[t]) > num(after) ? ", lazily," : ""} = `, value(after, "m-after"))),
        line("2", "c = exp(m - m')", el("div", {}, num(steps.maxBefore[t]) === num(after) ? "m stays: " : `exp(${minus(steps.maxBefore[t], after)}) = `, value(steps.correction[t], "c"))),
        line("3", "P = exp(S - m')", weightsOf(t, after)),
        line("4", "l = l c + sum(P)", el("div", {}, `${n(steps.sumBefore[t])} \u00b7 ${n(steps.correction[t])} + ${n(steps.tileSum[t])} = `, value(steps.sumAfter[t], "l-after"))),
        line("5", "O = O c + P V", outputs(t)),
        line("", "m = m'", el("div", { class: "note" }, `The tile ends with ${percent(steps.share[t])} of all weight.`))
      );
      finish.replaceChildren();
      if (t === count - 1) {
        const done = el("ol", { class: "lines" });
        done.append(line("", "logsumexp = m + ln l", el("div", {}, `${n(data.trace.max)} + ln ${n(data.trace.sum)} = `, value(data.trace.logSumExp, "final-lse"))));
        if (row.valueDimension > 0)
          done.append(line("", "output = O / l", data.trace.output.map((o, d) => el("div", {}, `${n(steps.outputAfter[t][d])} / ${n(data.trace.sum)} = `, value(o, `output-${d}`)))));
        finish.append(el("h3", {}, "And at the end"), done);
      }
      slider.value = t + 1;
      slider.setAttribute("aria-valuetext", name);
      jump.value = t + 1;
      back.disabled = first.disabled = t === 0;
      forward.disabled = end.disabled = t === count - 1;
      riseBack.disabled = nextRise(-1) < 0;
      riseForward.disabled = nextRise(1) < 0;
    }
    watchers.push(show);
    show();
  }

  function keys() {
    let total = 0;
    const most = data.weights.largest.length > 0 ? num(data.weights.largest[0].weight) : 1;
    const rows = data.weights.largest.map((key) => {
      total += num(key.weight);
      return [String(key.key), text(key.score), percent(key.weight), bar(num(key.weight) / most), percent(total)];
    });
    section(
      "keys",
      `The ${keyNoun}s that matter`,
      table(`The heaviest ${keyNoun}s of ${row.visibleKeys}`, [{ name: keyNoun }, { name: "score", n: true }, { name: "weight", n: true }, { name: "", bars: true }, { name: "so far, together", n: true }], rows)
    );
  }

  // ---- The rows around it. ----

  function head() {
    const h = data.head;
    const where = noun === "query" ? "head" : "tensor";
    const sampled = h.numbers.length < h.rows ? `${plural(h.numbers.length, noun)} of ${h.rows}, evenly spaced` : plural(h.rows, noun);
    const box = section("head", `The whole ${where}: where maxima rise`, el("p", {}, `${sampled}, ${plural(h.tiles, "tile")} each${h.tilesOfColumn > 1 ? `, ${h.tilesOfColumn} tiles a column` : ""}. A mark is a place where the maximum of a ${noun} rises; the larger, the more often.${h.rowsThatAreNaN > 0 ? ` ${h.rowsThatAreNaN} of them ${h.rowsThatAreNaN === 1 ? "is" : "are"} NaN.` : ""}`));
    if (h.visibleTiles > 0) map(box, h, where);
    dialects(box, h);
  }

  function map(box, h, where) {
    const rows = h.rises.length;
    const columns = h.rises[0].length;
    const most = Math.max(1, ...h.rises.flat());
    const place = el("div", {});
    const readout = el("p", { class: "readout", id: "readout", role: "status" }, "Point at a place, or focus the map and use the arrow keys.");
    const hatched = () => el("span", { "aria-hidden": "true" }, "\u25a8 ");
    box.append(place, readout, el("p", { class: "note" }, "\u25a0 m rises   \u25a1 it stays   ", hatched(), `hidden   \u25b6 the ${noun} shown above`));
    const totals = [];
    for (let c = 0; c < columns; c++) totals.push(h.rises.reduce((sum, r) => sum + Math.max(0, r[c]), 0));
    const tilesOf = (c) => {
      const from = c * h.tilesOfColumn + 1;
      const to = Math.min((c + 1) * h.tilesOfColumn, h.tiles);
      return from === to ? `tile ${from}` : `tiles ${from} to ${to}`;
    };
    box.append(
      el("details", {}, el("summary", {}, "The same as a table: rises by tile"), table(`Rises by tile, over ${sampledWords(h)}`, [{ name: "tiles" }, { name: "rises", n: true }], totals.map((sum, c) => [tilesOf(c), text(sum)])))
    );
    let atRow = Math.max(0, h.numbers.indexOf(row.number));
    let atColumn = 0;
    let mark = null;
    const say = () => {
      const rises = h.rises[atRow][atColumn];
      readout.textContent = `${noun} ${h.numbers[atRow]}, ${tilesOf(atColumn)}: ${rises === -2 ? `the ${noun} is NaN` : rises === -1 ? "hidden" : rises === 0 ? "the maximum stays" : `the maximum rises ${plural(rises, "time")}`}.`;
      if (mark) mark();
    };
    responsive(place, (width) => {
      const left = 64;
      const inner = width - left - 4;
      const w = Math.min(28, inner / columns);
      const hgt = Math.max(4, Math.min(24, 420 / rows));
      const top = 4;
      const height = top + rows * hgt + 20;
      const image = draw("svg", {
        class: "map",
        width,
        height,
        viewBox: `0 0 ${width} ${height}`,
        tabindex: 0,
        role: "img",
        "aria-label": `Map of rises, ${plural(rows, noun)} by ${plural(columns, "column")} of tiles. Arrow keys move, and the place is read out below.`,
      });
      image.append(hatching("hatch-map"));
      const gapX = w > 5 ? 1 : 0;
      const gapY = hgt >= 4 ? 1 : 0;
      const paths = { seen: "", hidden: "", rise: "" };
      h.rises.forEach((line, r) =>
        line.forEach((rises, c) => {
          const x = left + c * w;
          const y = top + r * hgt;
          const cell = `M${x.toFixed(2)} ${y.toFixed(2)}h${(w - gapX).toFixed(2)}v${(hgt - gapY).toFixed(2)}h-${(w - gapX).toFixed(2)}z`;
          if (rises < 0) paths.hidden += cell;
          else paths.seen += cell;
          if (rises > 0) {
            const part = Math.max(0.45, Math.sqrt(rises / most));
            const mw = Math.max(2, (w - gapX) * part);
            const mh = Math.max(2, (hgt - gapY) * part);
            paths.rise += `M${(x + (w - gapX - mw) / 2).toFixed(2)} ${(y + (hgt - gapY - mh) / 2).toFixed(2)}h${mw.toFixed(2)}v${mh.toFixed(2)}h-${mw.toFixed(2)}z`;
          }
        })
      );
      image.append(draw("path", { fill: "url(#hatch-map)", d: paths.hidden }), draw("path", { class: "cellSeen", d: paths.seen }), draw("path", { class: "cellRise", d: paths.rise }));
      const every = Math.ceil(rows / (height / 16));
      h.numbers.forEach((number, r) => {
        const chosen = number === row.number;
        const y = top + (r + 0.5) * hgt + 4;
        if (chosen) {
          image.append(draw("text", { x: left - 6, y, "text-anchor": "end", class: "strong" }, `\u25b6 ${number}`), draw("rect", { class: "chosen", x: left - 1, y: top + r * hgt - 0.5, width: columns * w + 1, height: hgt }));
        } else if (r % every === 0 && Math.abs(h.numbers.indexOf(row.number) - r) * hgt >= 14) {
          image.append(draw("text", { x: left - 6, y, "text-anchor": "end" }, String(number)));
        }
      });
      image.append(draw("text", { x: left, y: height - 4 }, "tile 1"));
      if (columns * w > 120) image.append(draw("text", { x: left + columns * w, y: height - 4, "text-anchor": "end" }, `tile ${h.tiles}`));
      const cell = draw("rect", { class: "cell", width: w, height: hgt, visibility: "hidden" });
      image.append(cell);
      mark = () => {
        cell.setAttribute("x", left + atColumn * w);
        cell.setAttribute("y", top + atRow * hgt);
        cell.setAttribute("visibility", "visible");
      };
      const point = (event) => {
        const area = image.getBoundingClientRect();
        const c = Math.floor((event.clientX - area.left - left) / w);
        const r = Math.floor((event.clientY - area.top - top) / hgt);
        if (c >= 0 && c < columns && r >= 0 && r < rows) {
          atColumn = c;
          atRow = r;
          say();
        }
      };
      image.addEventListener("pointermove", point);
      image.addEventListener("pointerdown", point);
      image.addEventListener("keydown", (event) => {
        const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
        if (!move) return;
        atRow = Math.max(0, Math.min(rows - 1, atRow + move[0]));
        atColumn = Math.max(0, Math.min(columns - 1, atColumn + move[1]));
        say();
        event.preventDefault();
      });
      place.replaceChildren(image);
    });
  }

  const sampledWords = (h) => (h.numbers.length < h.rows ? `${h.numbers.length} of ${h.rows} ${noun === "query" ? "queries" : "rows"}` : plural(h.rows, noun));

  function dialects(box, h) {
    const timed = h.dialects.some((d) => d.nanosecondsOfTile !== null);
    const columns = [{ name: "dialect" }, { name: "corrections", n: true }, { name: "multiplications", n: true }, { name: "", bars: true }];
    if (timed) columns.push({ name: "ns a tile", n: true }, { name: "" });
    const most = Math.max(1, ...h.dialects.map((d) => d.multiplications));
    const favoured = h.dialects.filter((d) => d.favoured).map((d) => d.dialect);
    const rows = h.dialects.map((d) => {
      const cells = [d.dialect, text(d.corrections), text(d.multiplications), bar(d.multiplications / most)];
      if (timed) cells.push(text(Number(num(d.nanosecondsOfTile).toPrecision(3))), d.favoured ? "\u2713 least" : "");
      return cells;
    });
    const parts = [
      el("h3", {}, "What the ways to rescale do"),
      el("p", {}, `A correction multiplies ${plural(h.multiplicationsOfCorrection, "number")}: l${h.multiplicationsOfCorrection > 1 ? ` and the ${h.multiplicationsOfCorrection - 1} components of O` : ""}. ALWAYS does it at every tile but a row's first, ON_NEW_MAX when the maximum rose, LAZY when it rose by more than tau in base 2. The results agree but for rounding. Weights of LAZY grow up to 2^tau, which the type that holds P must have room for: f16 ends at 65504, below 2^16.`),
      table(`Over ${sampledWords(h)} and ${plural(h.visibleTiles, "visible tile")}`, columns, rows, h.dialects.map((d) => (d.favoured ? "least" : null))),
      timed ? el("p", { id: "verdict" }, favoured.length === 1 ? `Least time on this data: ${favoured[0]}.` : `Least time on this data, not told apart: ${favoured.join("; ")}.`) : null,
      el("p", { class: "note" }, timed ? "Times were measured on this machine when this page was made: the test, the exponential and the multiplications alone, replayed on these tiles by one thread; dialects within 5 % are not told apart. Products, weights and memory, the same for all, are not in them." : "Times were not measured.")
    ];
    box.append(...parts.filter((part) => part !== null));
  }

  function without() {
    const words = {
      overflows: ["bad", "\u2717 overflows: the result is NaN, or 0 where it should not be"],
      vanishes: ["bad", "\u2717 nothing is left: 0 / 0"],
      "loses-keys": ["bad", "\u2717 loses keys that matter"],
      survives: ["good", "\u2713 comes out all the same"],
    };
    const key = (k) => `${keyNoun} ${k.key} (score ${text(k.score)}, weight ${percent(k.weight)})`;
    const rows = data.withoutMaximum.map((w) => [
      w.format.toLowerCase(),
      el("span", { class: words[w.outcome][0] }, words[w.outcome][1]),
      w.overflowing === 0 ? "none" : `${w.overflowing}: ${w.firstOverflowing.map(key).join("; ")}${w.overflowing > w.firstOverflowing.length ? "; ..." : ""}`,
      w.vanishing === 0 ? "none" : `${w.vanishing}, with ${percent(w.lostWeight)} of the weight; heaviest: ${key(w.heaviestVanishing)}`,
      text(w.subnormal),
      text(w.sum),
      error(w.largestError),
    ]);
    section(
      "without",
      "Without the maximum",
      el("p", {}, "What if nothing were subtracted before the exponential? exp(S) is held in f32 or f16; sums and products are in f32."),
      table("exp(S) as it stands", [{ name: "exp(S) in" }, { name: "result", long: true }, { name: "too large (inf)", long: true }, { name: "too small (0)", long: true }, { name: "subnormal", n: true }, { name: "sum", n: true }, { name: "largest error", n: true }], rows)
    );
  }

  function errors() {
    section(
      "errors",
      "How exact it is",
      el("p", {}, `Errors of the ${row.valueDimension > 0 ? "output's components" : "probabilities"} and of the logsumexp against the float64 reference. The f32 fold takes the scores that the CPU's kernels compute, tile after tile; P in bf16 or f16 is rounded where it multiplies V, and l is the sum of P before that rounding.`),
      table("Absolute errors", [{ name: "" }, { name: "largest", n: true }, { name: "root mean square", n: true }, { name: "logsumexp", n: true }], data.errors.map((e) => [e.name, error(e.largestError), error(e.rootMeanSquare), error(e.logSumExpError)]))
    );
  }

  function bits() {
    section(
      "bits",
      "The same bits?",
      el("p", {}, "Foldmax's kernels fold in an order that the positions of keys fix, so threads and other rows change no bit. Folding in parts and merging them is as exact, but rounds in another order."),
      table(
        "Two computations, bit by bit",
        [{ name: "one" }, { name: "the other" }, { name: "" }],
        data.comparisons.map((c) => [c.one, c.other, c.sameBits ? el("span", { class: "good" }, `\u2713 same bits in all ${c.numbers} numbers`) : `\u2260 ${c.differing} of ${c.numbers} numbers differ, by at most ${error(c.largestDifference)}`])
      )
    );
  }

  header();
  condition();
  if (steps) {
    summary();
    chart();
    stepper();
    keys();
  }
  head();
  if (ordinary) {
    without();
    errors();
    bits();
  }
  page.append(el("p", { class: "soft" }, `Made by foldmax explain. ${data.trace && ordinary ? `The fold above is in float64, in dialect ${data.trace.dialect}. ` : ""}Point at a number for all of its digits.`));
})();
