"""What is measured, what each case is held against, and how fast it is meant to be.

A group is measured together: its entries take turns in each round, so that they meet the board in
the same state. An entry is a case and who computes it; a bar is the ratio of the rate of one entry
to the best rate of others.
"""

from dataclasses import dataclass, field

BYTES = {"bf16": 2, "f16": 2, "f32": 4, "i8": 1}

# Inputs of a case are repeated from other places until they are this large, which is several
# times the L2 cache, so that none is still there when its turn comes again.
BEYOND_CACHE = 200 << 20

MOST_SETS = 8

# A sequence of hidden size 2048, and as many tokens in all as fill the device.
TOKENS = 16384
HIDDEN = 2048

FOLDMAX = "Foldmax"
CUDNN = "cuDNN"
FLASH = "FlashAttention-2"
EFFICIENT = "memory-efficient"
TORCH = "PyTorch"
COPY = "copy"


@dataclass(frozen=True)
class Attention:
    """Attention of a shape; key_heads, queries, cache as heads, keys, type unless given."""

    type: str
    batch: int
    heads: int
    keys: int
    dim: int
    key_heads: int = 0
    queries: int = 0
    causal: bool = False
    window: int = 0
    soft_cap: int = 0
    sinks: bool = False
    alibi: bool = False
    rescale: str = ""
    page: int = 0
    cache: str = ""
    in_graph: bool = False

    def __post_init__(self):
        object.__setattr__(self, "key_heads", self.key_heads or self.heads)
        object.__setattr__(self, "queries", self.queries or self.keys)
        object.__setattr__(self, "cache", self.cache or self.type)

    @property
    def is_decode(self):
        return self.queries < self.keys

    @property
    def cache_bytes(self):
        return 2 * self.batch * self.key_heads * self.keys * self.dim * BYTES[self.cache]

    @property
    def sets(self):
        return 1 if not self.is_decode else min(MOST_SETS, -(-BEYOND_CACHE // self.cache_bytes))

    @property
    def visible_pairs(self):
        """Of queries and keys, for one head of one sequence."""
        if not (self.causal or self.window):
            return self.queries * self.keys
        first = self.keys - self.queries
        width = self.window or self.keys
        return sum(min(first + i + 1, width) for i in range(self.queries))

    @property
    def work(self):
        """Bytes of keys and values where they are read for few queries, else operations."""
        if self.is_decode:
            return self.cache_bytes
        return 4 * self.batch * self.heads * self.visible_pairs * self.dim

    @property
    def unit(self):
        return "GB/s" if self.is_decode else "TFLOP/s"

    def label(self):
        heads = f"{self.heads}/{self.key_heads}" if self.key_heads != self.heads else self.heads
        shape = f"B {self.batch} H {heads} "
        shape += f"Lq {self.queries} Lk {self.keys}" if self.is_decode else f"L {self.keys}"
        words = [shape, f"D {self.dim}", self.type]
        if self.cache != self.type:
            words.append(f"{self.cache} K V")
        if not self.is_decode:
            words.append("causal" if self.causal else "full")
        if self.window:
            words.append(f"window {self.window}")
        if self.soft_cap:
            words.append(f"soft cap {self.soft_cap}")
        words += ["sinks"] * self.sinks + ["ALiBi"] * self.alibi
        if self.rescale:
            words.append(f"rescale {self.rescale.lower()}")
        if self.page:
            words.append(f"paged {self.page}")
        return " ".join(words)

    def request(self):
        """For GpuBenchmark."""
        values = {
            "type": self.type,
            "batch": self.batch,
            "heads": self.heads,
            "keyHeads": self.key_heads,
            "queries": self.queries,
            "keys": self.keys,
            "dim": self.dim,
            "sets": self.sets,
        }
        optional = {
            "mask": "causal" if self.causal else "",
            "window": self.window,
            "softCap": self.soft_cap,
            "sinks": int(self.sinks),
            "alibi": int(self.alibi),
            "rescale": self.rescale,
            "page": self.page,
            "cacheType": self.cache if self.cache != self.type else "",
            "graph": int(self.in_graph),
        }
        return values | {name: value for name, value in optional.items() if value}


@dataclass(frozen=True)
class Rows:
    """A verb on rows: softmax, logsumexp, or topk (8 of them, with their probabilities)."""

    verb: str
    type: str
    rows: int
    columns: int
    sets: int = 1
    in_graph: bool = False

    @property
    def work(self):
        read = self.rows * self.columns * BYTES[self.type]
        return 2 * read if self.verb == "softmax" else read

    unit = "GB/s"

    def label(self):
        names = {"topk": "softmax with top 8"}
        return f"{names.get(self.verb, self.verb)} {self.rows} x {self.columns} {self.type}"

    def request(self):
        return {
            "verb": self.verb,
            "type": self.type,
            "rows": self.rows,
            "columns": self.columns,
        }


@dataclass(frozen=True)
class Copy:
    """A copy within the device: what memory can do."""

    bytes: int = 1 << 30
    sets: int = 1
    in_graph: bool = False
    unit = "GB/s"

    @property
    def work(self):
        return 2 * self.bytes

    def label(self):
        return f"copy of {self.bytes >> 20} MiB on the device"


@dataclass(frozen=True)
class Entry:
    case: Attention | Rows | Copy
    who: str


@dataclass(frozen=True)
class Bar:
    """The rate of an entry, over the best of others, has to be `must`, and is meant to be `aim`."""

    work: str
    must: float
    aim: float
    entry: Entry
    against: tuple


@dataclass
class Group:
    section: str
    entries: list = field(default_factory=list)
    bars: list = field(default_factory=list)

    def add(self, case, who=FOLDMAX):
        entry = Entry(case, who)
        if entry not in self.entries:
            self.entries.append(entry)
        return entry

    def bar(self, work, must, aim, entry, *against):
        self.bars.append(Bar(work, must, aim, entry, against))


def prefill(length, dim, causal, **more):
    """TOKENS tokens of HIDDEN."""
    more = {"type": "bf16", "batch": TOKENS // length, "heads": HIDDEN // dim} | more
    return Attention(keys=length, dim=dim, causal=causal, **more)


def decode(batch, keys, **more):
    more = {"type": "bf16", "heads": 32, "key_heads": 8, "dim": 128, "queries": 1} | more
    return Attention(batch=batch, keys=keys, in_graph=True, **more)


ROW_SHAPES = ((65536, 4096), (8192, 32768), (4096, 131072), (1024, 262144), (16, 16777216))
KILOBYTE = 1024


def _prefill_groups():
    bars = {
        128: ((1.00, 1.08), (1.05, 1.15), (2048, 8192, 16384)),
        64: ((1.00, 1.15), (1.00, 1.10), (2048, 8192, 16384)),
        256: ((0.80, 1.00), (0.80, 1.00), (8192, 16384)),
    }
    for dim, (full, causal, lengths) in bars.items():
        for length in lengths:
            for masked, (must, aim) in ((False, full), (True, causal)):
                group = Group("Prefill")
                case = prefill(length, dim, masked)
                ours = group.add(case)
                cudnn = group.add(case, CUDNN)
                group.add(case, FLASH)
                group.bar("prefill", must, aim, ours, cudnn)
                yield group


def _variant_groups():
    plain = prefill(8192, 128, True)
    for more in (
        {"window": 4096},
        {"window": 1024},
        {"soft_cap": 50},
        {"sinks": True},
        {"alibi": True},
        {"key_heads": 4},
    ):
        group = Group("Prefill, other definitions")
        ours = group.add(prefill(8192, 128, True, **more))
        group.bar("rate on the visible part", 0.8, 0.95, ours, group.add(plain))
        yield group


def _general_groups():
    for dim in (128, 64):
        for causal in (False, True):
            group = Group("Prefill, general kernel (mma.sync)")
            case = prefill(8192, dim, causal)
            ours = group.add(prefill(8192, dim, causal, rescale="ON_NEW_MAX"))
            group.bar("prefill, general kernel", 0.85, 1.0, ours, group.add(case, FLASH))
            yield group


def _other_prefill_groups():
    shapes = [prefill(512, 128, causal) for causal in (False, True)]
    shapes += [prefill(8192, 128, True, type="f16"), prefill(8192, 64, False, type="f16")]
    shapes += [prefill(8192, 96, True, heads=16), prefill(8192, 192, True, heads=10)]
    for case in shapes:
        group = Group("Prefill, other shapes")
        for who in (FOLDMAX, CUDNN, FLASH):
            group.add(case, who)
        yield group
    for dim in (64, 128):
        group = Group("Prefill, other shapes")
        for who in (FOLDMAX, EFFICIENT):
            group.add(prefill(2048, dim, False, type="f32"), who)
        yield group


def _decode_groups():
    for batch, keys in ((1, 8192), (1, 131072), (16, 8192), (64, 8192)):
        group = Group("Decode")
        case = decode(batch, keys)
        ours = group.add(case)
        peers = [group.add(case, who) for who in (CUDNN, FLASH)]
        group.bar("decode", 0.95, 1.05, ours, *peers)
        if batch == 64:
            copy = group.add(Copy(), COPY)
            group.bar("decode, share of copy bandwidth", 0.95, 1.0, ours, copy)
        if batch >= 16:
            paged = group.add(decode(batch, keys, page=16))
            group.bar("paged over dense decode", 0.9, 1.0, paged, ours)
        yield group
    shapes = [decode(1, 32768), decode(16, 8192, type="f16"), decode(16, 8192, queries=4)]
    shapes += [decode(16, 8192, dim=64), decode(16, 8192, dim=256)]
    for case in shapes:
        group = Group("Decode, other shapes")
        for who in (FOLDMAX, CUDNN, FLASH):
            if case.queries == 1 or who != FLASH:
                group.add(case, who)
        yield group
    group = Group("Decode, other shapes")
    group.add(decode(16, 8192, type="f32"))
    group.add(decode(16, 8192, cache="i8"))
    group.add(Copy(), COPY)
    yield group


def _row_groups():
    for kind in ("f32", "bf16"):
        for rows, columns in ROW_SHAPES:
            group = Group("Rows")
            copy = group.add(Copy(), COPY)
            case = Rows("logsumexp", kind, rows, columns)
            ours = group.add(case)
            group.add(case, TORCH)
            must, aim = (0.95, 1.03) if kind == "f32" else (0.90, 0.98)
            group.bar("logsumexp, share of copy bandwidth", must, aim, ours, copy)
            yield group

            group = Group("Rows")
            copy = group.add(Copy(), COPY)
            case = Rows("softmax", kind, rows, columns)
            ours = group.add(case)
            theirs = group.add(case, TORCH)
            row_bytes = columns * BYTES[kind]
            if row_bytes <= 128 * KILOBYTE:
                group.bar("softmax, share of copy bandwidth", 0.95, 0.98, ours, copy)
            elif row_bytes <= 1024 * KILOBYTE:
                group.bar("softmax, share of copy bandwidth", 0.90, 0.94, ours, copy)
            else:
                group.bar("softmax of long rows", 7, 9, ours, theirs)
            yield group
    for kind, must, aim in (("f32", 13, 15), ("bf16", 11, 14)):
        group = Group("Rows")
        case = Rows("topk", kind, 4096, 131072)
        ours = group.add(case)
        group.bar("softmax with top 8", must, aim, ours, group.add(case, TORCH))
        group.add(Copy(), COPY)
        yield group


def groups():
    """All, in the order of the tables."""
    for part in (
        _prefill_groups,
        _variant_groups,
        _general_groups,
        _decode_groups,
        _row_groups,
        _other_prefill_groups,
    ):
        yield from part()
