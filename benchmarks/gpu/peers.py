"""PyTorch's side of the GPU benchmark."""

import statistics
from itertools import count

import cases
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {
    cases.CUDNN: SDPBackend.CUDNN_ATTENTION,
    cases.FLASH: SDPBackend.FLASH_ATTENTION,
    cases.EFFICIENT: SDPBackend.EFFICIENT_ATTENTION,
}

TRIALS = 3
LEAST_REPETITIONS = 5
MOST_REPETITIONS = 2000


def microseconds(call, repetitions):
    """How long the device takes for each of a number of calls, by events between them."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repetitions + 1)]
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    marks[-1].synchronize()
    return [1000 * a.elapsed_time(b) for a, b in zip(marks, marks[1:])]


def repetitions(millis, estimate):
    return int(min(max(1000 * millis / estimate, LEAST_REPETITIONS), MOST_REPETITIONS))


class Prepared:
    """Ready to be timed: one call after the other, or as a graph with a call for each input."""

    def __init__(self, calls, in_graph):
        for call in calls:
            call()
        torch.cuda.synchronize()
        self.calls_at_once = len(calls) if in_graph else 1
        self.turns = count()
        self.calls = calls
        self.graph = graph_of(calls) if in_graph else None

    def repeat(self):
        if self.graph:
            self.graph.replay()
        else:
            self.calls[next(self.turns) % len(self.calls)]()

    def time(self, heat, measure):
        """The median of a call, in microseconds, after a while of the same."""
        estimate = statistics.median(microseconds(self.repeat, TRIALS))
        microseconds(self.repeat, repetitions(heat, estimate))
        times = microseconds(self.repeat, repetitions(measure, estimate))
        return statistics.median(times) / self.calls_at_once


def graph_of(calls):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def prepare(case, who, data):
    """A case as PyTorch does it fastest."""
    if isinstance(case, cases.Copy):
        source = torch.zeros(case.bytes, dtype=torch.uint8, device="cuda")
        target = torch.empty_like(source)
        return Prepared([lambda: target.copy_(source)], False)
    if isinstance(case, cases.Rows):
        return Prepared([rows(case, data)], False)
    inputs = [
        (data.queries(case, n), data.cache(case, n, False), data.cache(case, n, True))
        for n in range(case.sets)
    ]
    forms = attention_forms(case, inputs, BACKENDS[who])
    return forms[0] if len(forms) == 1 else min(forms, key=lambda form: form.time(20, 20))


def rows(case, data):
    x = data.rows(case, 0)
    if case.verb == "softmax":
        out = torch.empty_like(x)
        return lambda: torch.softmax(x, -1, out=out)
    if case.verb == "logsumexp":
        return lambda: torch.logsumexp(x, -1)
    return lambda: torch.softmax(x, -1).topk(8, dim=-1)


def attention_forms(case, inputs, backend):
    """The ways to ask for grouped heads that are served, or the only way there is."""
    grouped = case.heads != case.key_heads
    shapings = [lambda q, k, v: (q, k, v)]
    if grouped and case.queries == 1:
        # The heads of a group as queries of their key head.
        packed = (case.batch, case.key_heads, case.heads // case.key_heads, case.dim)
        shapings.append(lambda q, k, v: (q.view(packed), k, v))
    forms = []
    refusal = None
    for shaping in shapings:
        calls = []
        for each in inputs:
            q, k, v = shaping(*each)
            calls.append(attention(q, k, v, case.causal, q.shape[1] != k.shape[1], backend))
        try:
            forms.append(Prepared(calls, case.in_graph))
        except RuntimeError as error:
            refusal = error
    if not forms:
        raise refusal
    return forms


def attention(q, k, v, causal, grouped, backend):
    def call():
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(
                q, k, v, is_causal=causal, enable_gqa=grouped
            )

    return call
