"""Whether what Foldmax computed is right: samples of outputs, beside float64."""

import cases
import torch
from data import TYPES

SAMPLED_ROWS = 256

# The root mean square of errors over that of results: a few times what rounding to the type does.
MOST_ERROR = {"bf16": 5e-3, "f16": 7e-4, "f32": 2e-5}


def error(case, file, data):
    """How far samples are from float64, relative to what is allowed: above 1 is wrong."""
    device = data.blocks["f32"].device
    samples = Samples(file, device)
    check = attention_error if isinstance(case, cases.Attention) else rows_error
    worst = check(case, samples, data)
    assert samples.is_at_end(), f"{case.label()}: more samples than expected"
    return worst


class Samples:
    """The tensors of a file that GpuBenchmark wrote, one after the other."""

    def __init__(self, file, device):
        with open(file, "rb") as stream:
            self.bytes = torch.frombuffer(bytearray(stream.read()), dtype=torch.uint8)
        self.place = 0
        self.device = device

    def next(self, type, *shape):
        size = torch.empty(0, dtype=type).element_size() * torch.Size(shape).numel()
        part = self.bytes[self.place : self.place + size]
        self.place += size
        return part.clone().view(type).view(shape).to(self.device)

    def is_at_end(self):
        return self.place == self.bytes.numel()


def relative(ours, exact, most):
    """NaN where ours is, so that it never passes."""
    difference = (ours.double() - exact).square().mean().sqrt()
    return (difference / exact.square().mean().sqrt() / most).item()


def attention_error(case, samples, data):
    q = data.queries(case, 0)
    k, v = (data.cache(case, 0, values) for values in (False, True))
    worst = 0
    for b, h in ((0, 0), (-1, -1)):
        ours = samples.next(TYPES[case.type], case.queries, case.dim)
        key_head = 0 if h == 0 else -1
        chosen = torch.linspace(0, case.queries - 1, min(SAMPLED_ROWS, case.queries)).long()
        chosen = chosen.to(q.device)
        exact = exact_rows(
            case, h % case.heads, chosen, q[b, h][chosen], k[b, key_head], v[b, key_head]
        )
        worst = worse(worst, relative(ours[chosen], exact, MOST_ERROR[case.type]))
    return worst


def exact_rows(case, head, rows, q, k, v):
    scores = q.double() @ k.double().T / case.dim**0.5
    if case.soft_cap:
        scores = case.soft_cap * torch.tanh(scores / case.soft_cap)
    i = (rows + case.keys - case.queries)[:, None]
    j = torch.arange(case.keys, device=q.device)[None, :]
    if case.alibi:
        scores = scores - 2 ** (-8 * (head + 1) / case.heads) * (i - j).abs()
    if case.causal:
        scores = scores.masked_fill(j > i, float("-inf"))
    if case.window:
        scores = scores.masked_fill(j <= i - case.window, float("-inf"))
    if case.sinks:
        sink = torch.full_like(scores[:, :1], head / case.heads)
        scores = torch.cat([scores, sink], -1)
    return torch.softmax(scores, -1)[:, : case.keys] @ v.double()


def rows_error(case, samples, data):
    x = data.rows(case, 0)
    ends = [x[:1], x[-1:]]
    if case.verb == "logsumexp":
        return worst_of(
            (samples.next(torch.float32, 1), torch.logsumexp(end.double(), -1), "f32")
            for end in ends
        )
    if case.verb == "softmax":
        return worst_of(
            (
                samples.next(TYPES[case.type], 1, case.columns),
                torch.softmax(end.double(), -1),
                case.type,
            )
            for end in ends
        )
    values = [samples.next(TYPES[case.type], 1, 8) for _ in ends]
    indices = [samples.next(torch.int64, 1, 8) for _ in ends]
    probabilities = [samples.next(torch.float32, 1, 8) for _ in ends]
    for end, value, index in zip(ends, values, indices):
        largest = end.topk(8, dim=-1).values
        if not (torch.equal(value, largest) and torch.equal(end.gather(-1, index), largest)):
            return float("inf")
    return worst_of(
        (probability, torch.softmax(end.double(), -1).gather(-1, index), "f32")
        for end, index, probability in zip(ends, indices, probabilities)
    )


def worst_of(triples):
    worst = 0
    for ours, exact, type in triples:
        worst = worse(worst, relative(ours, exact, MOST_ERROR[type]))
    return worst


def worse(a, b):
    """The larger, NaN above all."""
    return b if b != b or b > a else a
