#!/usr/bin/env python3
"""Measures Foldmax's CUDA backend beside PyTorch on one GPU, and writes docs/performance-gpu.md.

From the project's root, once the classes are compiled:

    ./mvnw -q -Dfoldmax.quick -pl benchmarks -am compile
    python3 benchmarks/gpu/compare.py --out docs

Needs PyTorch with CUDA, and a GPU that does nothing else meanwhile. Foldmax runs in a JVM of its
own; both sides hold the same random inputs. In each round the contenders of a group come in random
order; each is run for a while for heat alone (the board's clock depends on what it did last), then
timed by events on its stream. Every case of Foldmax's is checked against float64 once.
"""

import argparse
import datetime
import os
import queue
import random
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial

try:
    import torch
except ImportError:
    sys.exit("this needs PyTorch with CUDA, for instance by: pip install torch")

import cases
import checks
import peers
import report
from data import Data
from foldmax import Foldmax, first_calls

MODULES = ("benchmarks", "cuda", "core")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="benchmarks/target", help="where the two files go")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--heat", type=int, default=100, help="ms before each measurement")
    parser.add_argument("--measure", type=int, default=100, help="ms of each measurement")
    parser.add_argument("--only", default="", help="the cases in whose names this is found")
    parser.add_argument("--bars", action="store_true", help="only what has a bar")
    parser.add_argument("--list", action="store_true", help="names the cases, measures nothing")
    parser.add_argument("--no-costs", action="store_true", help="no launch costs, no first calls")
    parser.add_argument(
        "--compilers", type=int, default=os.cpu_count(), help="processes that compile kernels first"
    )
    parser.add_argument("--java", default="java", help="the command")
    parser.add_argument(
        "--class-path", default=os.pathsep.join(f"{module}/target/classes" for module in MODULES)
    )
    return parser.parse_args()


def chosen(options):
    for group in cases.groups():
        label = f"{group.section}: {group.entries[0].case.label()}"
        if re.search(options.only, label) and (group.bars or not options.bars):
            yield group


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def request(name, case):
    return {"case": name} | case.request()


def compile_kernels(groups, start, compilers):
    """Calls every case of Foldmax's once, in processes side by side that share its cache of code.

    Cases that may share code go to one process, so that nothing is compiled twice.
    """
    jobs = {}
    for group in groups:
        for entry in group.entries:
            if entry.who == cases.FOLDMAX:
                jobs.setdefault(code_key(entry.case), {})[entry.case] = None
    waiting = queue.SimpleQueue()
    for job in jobs.values():
        waiting.put(list(job))

    def work():
        foldmax = None
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                break
            foldmax = foldmax or start()
            for case in job:
                try:
                    foldmax.ask("prepare", **(request("once", case) | {"sets": 1}))
                    foldmax.ask("release", case="once")
                except RuntimeError as error:
                    say("fails:", error)
                    foldmax.close()
                    foldmax = start()
        if foldmax:
            foldmax.close()

    threads = [threading.Thread(target=work) for _ in range(min(compilers, len(jobs)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def code_key(case):
    if isinstance(case, cases.Rows):
        return case.verb, case.type
    is_general = bool(case.soft_cap or case.alibi)
    rows = case.queries * case.heads // case.key_heads if case.is_decode else 0
    return case.type, case.cache, case.dim, case.rescale, is_general, rows


class Contender:
    """An entry of a group, prepared on its side, and its times."""

    def __init__(self, entry, foldmax, data, name):
        self.entry = entry
        self.foldmax = foldmax if entry.who == cases.FOLDMAX else None
        self.name = name
        self.times = []
        self.error = None
        if self.foldmax:
            self.kernel = foldmax.ask("prepare", **request(name, entry.case))
        else:
            self.kernel = ""
            self.peer = peers.prepare(entry.case, entry.who, data)

    def check(self, data, folder):
        if self.foldmax:
            file = os.path.join(folder, "samples.bin")
            self.foldmax.ask("samples", case=self.name, file=file)
            self.error = checks.error(self.entry.case, file, data)
            if not self.error <= 1:
                say(f"WRONG: {self.entry.case.label()}: error {self.error:.2f} of what is allowed")

    def time(self, heat, measure):
        if self.foldmax:
            answer = self.foldmax.numbers("time", case=self.name, heat=heat, measure=measure)
            self.times.append(answer["median"])
        else:
            self.times.append(self.peer.time(heat, measure))

    def release(self):
        if self.foldmax:
            self.foldmax.ask("release", case=self.name)
        else:
            self.peer = None


def measure(group, foldmax, data, folder, options):
    """The contenders of a group, with their times; those that fail are left out."""
    contenders = []

    def attempt(entry, action):
        try:
            action()
            return True
        except RuntimeError as error:
            say(f"fails: {entry.who}: {entry.case.label()}: {str(error)[:300]}")
            return False

    def add(entry, name):
        contender = Contender(entry, foldmax, data, name)
        contender.check(data, folder)
        contenders.append(contender)

    for number, entry in enumerate(group.entries):
        attempt(entry, partial(add, entry, f"case{number}"))
    for _ in range(options.rounds):
        for contender in random.sample(contenders, len(contenders)):
            if not attempt(
                contender.entry, partial(contender.time, options.heat, options.measure)
            ):
                contenders.remove(contender)
    for contender in contenders:
        attempt(contender.entry, contender.release)
    torch.cuda.empty_cache()
    return contenders


def launch_costs(foldmax, options):
    costs = foldmax.numbers("costs")
    with tempfile.TemporaryDirectory() as cache:
        first = {}
        for state in ("compiled", "from disk"):
            start = time.monotonic()
            calls = first_calls(options.java, options.class_path, cache)
            first[state] = calls | {"process": 1000 * (time.monotonic() - start)}
    return {"launch": costs, "first": first}


def command_output(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return (done.stdout or done.stderr).strip().splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "unknown"


def machine(foldmax, options):
    query = "--query-gpu=driver_version,power.limit,clocks.max.sm"
    return {
        "device": foldmax.description,
        "driver, power limit, clock": command_output("nvidia-smi", query, "--format=csv,noheader"),
        "PyTorch": f"{torch.__version__}, cuDNN {torch.backends.cudnn.version()}",
        "JDK": command_output(options.java, "-version"),
        "date": datetime.date.today().isoformat(),
        "schedule": f"rounds {options.rounds}, in each and for each contender "
        f"{options.heat} ms of heat and {options.measure} ms measured",
    }


def command(options):
    """As it is to be repeated, whatever the places of this machine."""
    words = ["python3", "benchmarks/gpu/compare.py"]
    words += ["--rounds", options.rounds, "--heat", options.heat, "--measure", options.measure]
    words += ["--only", options.only] if options.only else []
    words += ["--bars"] * options.bars + ["--no-costs"] * options.no_costs + ["--out", "docs"]
    return shlex.join(map(str, words))


def main():
    options = arguments()
    groups = list(chosen(options))
    if options.list:
        for group in groups:
            for entry in group.entries:
                print(f"{group.section}: {entry.case.label()}: {entry.who}")
        return
    random.seed(1)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        data = Data("cuda", folder)

        def start():
            return Foldmax(options.java, options.class_path, folder)

        compile_kernels(groups, start, options.compilers)
        say(f"kernels compiled after {time.monotonic() - began:.0f} s")
        foldmax = start()
        run = report.Run(
            command=command(options),
            machine=machine(foldmax, options),
            costs=None if options.no_costs else launch_costs(foldmax, options),
            results=[],
        )
        for number, group in enumerate(groups):
            if foldmax.failed:
                foldmax.close()
                foldmax = start()
            result = group, measure(group, foldmax, data, folder, options)
            run.results.append(result)
            seconds = time.monotonic() - began
            say(f"{number + 1} of {len(groups)}, {seconds:.0f} s:", report.summary(*result))
            report.write(run, options.out)
        foldmax.close()


if __name__ == "__main__":
    main()
