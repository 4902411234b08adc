#!/usr/bin/env python3
"""Measures time and memory of causal attention against length on one GPU, as lengths-gpu.json.

From the project's root, once the classes are compiled:

    ./mvnw -q -Dfoldmax.quick -pl benchmarks -am compile
    python3 benchmarks/gpu/lengths.py --out docs/plots

dev.foldmax.benchmarks.Lengths draws what it writes: see README.md beside the folder. Memory is what
a contender takes beyond inputs and output: PyTorch's by its allocator's peak, Foldmax's by what the
device has less of, in steps of the driver's pages.
"""

import argparse
import datetime
import json
import math
import os
import random
import sys
import tempfile

try:
    import torch
except ImportError:
    sys.exit("this needs PyTorch with CUDA, for instance by: pip install torch")

import cases
import compare
import peers
from data import Data
from foldmax import Foldmax

HEADS = 16
DIM = 128
SCORES = "PyTorch, scores in memory"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="benchmarks/target", help="where the file goes")
    parser.add_argument("--lengths", default="1024,2048,4096,8192,16384,32768,65536,131072")
    parser.add_argument("--heat", type=int, default=50, help="ms before each measurement")
    parser.add_argument("--measure", type=int, default=50, help="ms of each measurement")
    parser.add_argument("--java", default="java", help="the command")
    parser.add_argument(
        "--class-path",
        default=os.pathsep.join(f"{module}/target/classes" for module in compare.MODULES),
    )
    return parser.parse_args()


def case_of(length):
    return cases.Attention("bf16", 1, HEADS, length, DIM, causal=True)


def tensor_bytes(case):
    return case.batch * case.heads * case.keys * case.dim * cases.BYTES[case.type]


def with_scores(case, data):
    """Attention as the formula has it: every score in memory."""
    q, k, v = (
        data.queries(case, 0),
        data.cache(case, 0, False),
        data.cache(case, 0, True),
    )
    hidden = torch.ones(case.keys, case.keys, dtype=torch.bool, device="cuda").triu(1)

    def call():
        scores = (q @ k.transpose(-1, -2)).mul_(1 / math.sqrt(case.dim))
        return torch.softmax(scores.masked_fill_(hidden, -math.inf), -1) @ v

    return peers.Prepared([call], False)


def of_peer(who, case, data, options):
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    prepared = with_scores(case, data) if who == SCORES else peers.prepare(case, who, data)
    seconds = 1e-6 * prepared.time(options.heat, options.measure)
    extra = torch.cuda.max_memory_allocated() - before - 4 * tensor_bytes(case)
    return seconds, max(0, extra)


def of_foldmax(start, case, options):
    """In a process of its own, for one keeps what it has allocated for the next call."""
    foldmax = start()
    torch.cuda.empty_cache()
    before = torch.cuda.mem_get_info()[0]
    foldmax.ask("prepare", **compare.request("length", case))
    answer = foldmax.numbers("time", case="length", heat=options.heat, measure=options.measure)
    extra = before - torch.cuda.mem_get_info()[0] - 4 * tensor_bytes(case)
    foldmax.close()
    return 1e-6 * answer["median"], max(0, extra)


def main():
    options = arguments()
    random.seed(1)
    whos = (cases.FOLDMAX, cases.CUDNN, cases.FLASH, SCORES)
    points = {who: [] for who in whos}
    with tempfile.TemporaryDirectory() as folder:
        data = Data("cuda", folder)

        def start():
            return Foldmax(options.java, options.class_path, folder)

        foldmax = start()
        description = foldmax.description
        foldmax.close()
        for who in whos:
            for length in map(int, options.lengths.split(",")):
                case = case_of(length)
                try:
                    if who == cases.FOLDMAX:
                        seconds, extra = of_foldmax(start, case, options)
                    else:
                        seconds, extra = of_peer(who, case, data, options)
                except RuntimeError as error:
                    print(f"{who} fails at {length}: {str(error)[:100]}", file=sys.stderr)
                    break
                points[who].append({"length": length, "seconds": seconds, "bytes": extra})
                print(f"{who} {length}: {1e3 * seconds:.3f} ms, {extra >> 20} MiB", file=sys.stderr)
        series = {
            "work": f"causal attention, H {HEADS} D {DIM} bf16",
            "machine": f"{description}, PyTorch {torch.__version__}, "
            + datetime.date.today().isoformat(),
            "command": "python3 benchmarks/gpu/lengths.py --out docs/plots",
            "points": points,
        }
    with open(os.path.join(options.out, "lengths-gpu.json"), "w") as file:
        json.dump(series, file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    main()
