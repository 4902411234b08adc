"""Measurements as a page for people and as JSON."""

import json
import os
import statistics
from dataclasses import dataclass

import cases

GUIDE = """\
- *Foldmax* is the CUDA backend, called from Java on tensors of the device. *cuDNN*,
  *FlashAttention-2* and *memory-efficient* are what PyTorch's `scaled_dot_product_attention` takes
  when told to; grouped decoding by `enable_gqa` or with the heads of a group as queries of their
  key head, whichever is faster. *PyTorch* is `softmax`, `logsumexp`, and `softmax` then `topk`.
  *copy* is PyTorch's copy of 1 GiB to another place on the device.
- A time is the median over the rounds of the medians of the rounds, by events on the stream of
  whoever computes. Decode is replayed from a CUDA graph on both sides, with a call for each of
  several inputs that together do not fit the L2 cache. *Times cuDNN* (and so on) is the median of
  the rounds' ratios, above 1 where Foldmax is faster, then the lowest and the highest round.
- Prefill counts `4 B H Lq Lk D` operations, of visible keys only. Decode counts the bytes of keys
  and values once; rows those of the input once, and softmax those of the output too; a copy those
  read and written. Reading alone may be faster than a copy.
- B is sequences, H query heads (and key heads after a slash), L the length, D the head dimension.
- Before it is timed, each case of Foldmax's is checked: samples of its output, into memory that
  held NaN, against float64."""

COST_BARS = (
    ("a decode of 64 keys, from Java until it is enqueued", "decode.call", 5.0),
    ("a softmax of 8 rows, likewise", "softmax.call", 5.0),
    ("a launch of a graph", "graph.launch", 5.0),
    ("a softmax of 8 rows (one kernel), in a graph of 200", "softmax.inGraph", 2.5),
    ("a decode of 64 keys, in a graph of 200", "decode.inGraph", None),
)


@dataclass
class Run:
    command: str
    machine: dict
    costs: dict | None
    results: list


@dataclass(frozen=True)
class Ratio:
    median: float
    least: float
    most: float

    def range(self):
        return f"{self.least:.2f} to {self.most:.2f}"


def median(contender):
    return statistics.median(contender.times)


def rate(contender):
    """In the unit of the case."""
    work_per_microsecond = contender.entry.case.work / median(contender)
    return work_per_microsecond / (1e6 if contender.entry.case.unit == "TFLOP/s" else 1e3)


def ratio(ours, theirs):
    """Of their rates, round by round."""
    factor = ours.entry.case.work / theirs.entry.case.work
    ratios = [factor * b / a for a, b in zip(ours.times, theirs.times)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def measured(bar, contenders):
    """The ratio of a bar and the entry it is against, or None if something is missing."""
    by_entry = {contender.entry: contender for contender in contenders}
    ours = by_entry.get(bar.entry)
    others = [by_entry[entry] for entry in bar.against if entry in by_entry]
    if ours is None or not others:
        return None
    best = max(others, key=rate)
    return ratio(ours, best), best


def is_wrong(contender):
    return contender.error is not None and not contender.error <= 1


def verdict(value, must, aim):
    return "met, and the aim" if value >= aim else "met" if value >= must else "missed"


def summary(group, contenders):
    """A line of progress."""
    parts = [
        f"{c.entry.who if c.entry.who != cases.FOLDMAX else c.entry.case.label()} "
        f"{median(c):.1f} us {rate(c):.0f} {c.entry.case.unit}"
        + (f" error {c.error:.2f}" if c.error is not None else "")
        for c in contenders
    ]
    for bar in group.bars:
        found = measured(bar, contenders)
        if found:
            value = found[0].median
            parts.append(f"{bar.work} {value:.3f}: {verdict(value, bar.must, bar.aim)}")
    return "; ".join(parts)


def write(run, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "performance-gpu.md"), "w", encoding="utf-8") as page:
        page.write("\n".join(lines(run)) + "\n")
    with open(os.path.join(folder, "performance-gpu.json"), "w", encoding="utf-8") as page:
        page.write(document(run))


def lines(run):
    yield "# Performance on a GPU"
    yield ""
    yield "Written by this command, on a machine that should do nothing else meanwhile:"
    yield ""
    yield "    ./mvnw -q -Dfoldmax.quick -pl benchmarks -am compile"
    yield "    " + run.command
    yield ""
    yield "| | |"
    yield "|---|---|"
    for name, value in run.machine.items():
        yield f"| {name} | {value} |"
    yield ""
    yield "## How to read it"
    yield ""
    yield GUIDE
    yield ""
    yield from bars(run)
    yield from losses(run)
    if run.costs:
        yield from launch_costs(run.costs)
    sections = dict.fromkeys(group.section for group, _ in run.results)
    for section in sections:
        yield from table(section, [r for r in run.results if r[0].section == section])


def bars(run):
    yield "## Bars"
    yield ""
    yield "| work | case | against | must | aim | measured | lowest to highest | |"
    yield "|---|---|---|---:|---:|---:|---:|---|"
    for group, contenders in run.results:
        for bar in group.bars:
            found = measured(bar, contenders)
            start = f"| {bar.work} | {bar.entry.case.label()} |"
            if found is None:
                yield f"{start} | {bar.must:.2f} | {bar.aim:.2f} | | | failed |"
                continue
            result, best = found
            wrong = any(is_wrong(c) for c in contenders if c.entry == bar.entry)
            end = "wrong" if wrong else verdict(result.median, bar.must, bar.aim)
            whom = best.entry.case.label() if best.entry.who == cases.FOLDMAX else best.entry.who
            yield (
                f"{start} {whom} | {bar.must:.2f} | {bar.aim:.2f} | {result.median:.2f} "
                f"| {result.range()} | {end} |"
            )
    yield ""


def pairs(contenders):
    """Each case of Foldmax's with the peers that did the same work."""
    for ours in contenders:
        if ours.entry.who == cases.FOLDMAX:
            work = ours.entry.case.work
            yield (
                ours,
                [
                    c
                    for c in contenders
                    if c.entry.who not in (cases.FOLDMAX, cases.COPY) and c.entry.case.work == work
                ],
            )


def losses(run):
    yield "## Where others are faster"
    yield ""
    lost = False
    for _, contenders in run.results:
        for ours, others in pairs(contenders):
            for other in others:
                result = ratio(ours, other)
                if result.median < 1:
                    lost = True
                    yield (
                        f"- {ours.entry.case.label()}: {result.median:.2f} times "
                        f"{other.entry.who} ({result.range()})."
                    )
    if not lost:
        yield "Nowhere in these tables."
    yield ""


def launch_costs(costs):
    yield "## What a call costs beside its work"
    yield ""
    yield "| what | microseconds | must be below | |"
    yield "|---|---:|---:|---|"
    for words, name, must in COST_BARS:
        value = costs["launch"][name]
        if must is None:
            yield f"| {words} | {value:.2f} | | |"
        else:
            yield f"| {words} | {value:.2f} | {must} | {'met' if value < must else 'missed'} |"
    yield ""
    yield "A fresh JVM's first causal attention over 512 keys, in milliseconds:"
    yield ""
    yield "| its code is | opening the device | first call | second call | process, in all |"
    yield "|---|---:|---:|---:|---:|"
    for state, times in costs["first"].items():
        yield (
            f"| {state} | {times['open']:.0f} | {times['first']:.0f} | {times['second']:.2f} "
            f"| {times['process']:.0f} |"
        )
    yield ""


def table(section, results):
    whom = dict.fromkeys(
        contender.entry.who
        for _, contenders in results
        for _, others in pairs(contenders)
        for contender in others
    )
    has_copy = any(c.entry.who == cases.COPY for _, contenders in results for c in contenders)
    yield f"## {section}"
    yield ""
    head, rule = "| case | Foldmax, µs | Foldmax |", "|---|---:|---:|"
    if has_copy:
        head, rule = head + " share of copy |", rule + "---:|"
    for who in whom:
        head += f" {who}, µs | times {who} | lowest to highest |"
        rule += "---:|---:|---:|"
    yield head
    yield rule
    seen = set()
    for _, contenders in results:
        copy = next((c for c in contenders if c.entry.who == cases.COPY), None)
        for ours, others in pairs(contenders):
            if ours.entry in seen:
                continue
            seen.add(ours.entry)
            case = ours.entry.case
            label = case.label() + (" (wrong)" if is_wrong(ours) else "")
            row = f"| {label} | {median(ours):.1f} | {rate(ours):.0f} {case.unit} |"
            if has_copy:
                row += f" {100 * ratio(ours, copy).median:.0f} % |" if copy else " |"
            by_who = {other.entry.who: other for other in others}
            for who in whom:
                if who in by_who:
                    result = ratio(ours, by_who[who])
                    row += f" {median(by_who[who]):.1f} | {result.median:.2f} | {result.range()} |"
                else:
                    row += " | | |"
            yield row
    yield ""


def document(run):
    return json.dumps(
        {
            "command": run.command,
            "machine": run.machine,
            "costs": run.costs,
            "bars": [
                {
                    "work": bar.work,
                    "case": bar.entry.case.label(),
                    "must": bar.must,
                    "aim": bar.aim,
                    "against": [f"{e.who}: {e.case.label()}" for e in bar.against],
                    "measured": found[0].median if found else None,
                }
                for group, contenders in run.results
                for bar in group.bars
                for found in [measured(bar, contenders)]
            ],
            "lines": [
                {
                    "section": group.section,
                    "case": contender.entry.case.label(),
                    "who": contender.entry.who,
                    "kernel": contender.kernel,
                    "work": contender.entry.case.work,
                    "error": contender.error,
                    "microseconds": contender.times,
                }
                for group, contenders in run.results
                for contender in contenders
            ],
        },
        indent=1,
    )
