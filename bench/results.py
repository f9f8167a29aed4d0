# SPDX-License-Identifier: Apache-2.0
"""Reads results of softfold_bench, peers.py and peers_gpu.py."""

import json
import math

SUBJECT = "softfold"
CPU, SERIAL = "softfold_cpu", "softfold_serial"  # beside the kokkos backend on a host
COPIES = ("memcpy", "deep_copy", "copy_kernel")
ELEMENT_BYTES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2}
FORMER_NAMES = {"scan": "one_read"}  # of contenders, in results from before
STANDARD_PEERS = {  # the first that took part; another operation: the first list
    "softmax": ("onednn", "cudnn", CPU),
    "logsumexp": ("onednn", "cub", CPU),
    "softmax_topk": ("onednn_partial_sort", "paper_safe_unfused", "pytorch", CPU),
    "topk": ("onednn", "pytorch", CPU),
    "sample": ("pytorch", CPU),
    "masked_softmax": ("pytorch", CPU),
    "scan": ("pytorch", CPU),
    "attention": ("sdpa_flash", "sdpa_efficient", "sdpa_math", "pytorch", CPU),
}
DRAWS = {"sample": {}, "sample_top_k_p": {"top_k": 50, "top_p": 0.95}, "sample_top_p": {"top_p": 0.95},
         "sample_min_p": {"min_p": 0.05}}  # the filters of draws, as softfold_bench has them


def attention_inputs(case, x):
    """Q, K and V of a record of attention, [batches, heads, tokens, dim], of the elements of its input."""
    a = case["attention"]
    shapes = [(a["batches"], heads, tokens, a["dim"]) for heads, tokens in
              ((a["heads"], a["queries"]), (a["key_heads"], a["keys"]), (a["key_heads"], a["keys"]))]
    x, begin, tensors = x.reshape(-1), 0, []
    for shape in shapes:
        tensors.append(x[begin:begin + math.prod(shape)].reshape(shape))
        begin += math.prod(shape)
    return tensors


class Case:
    """What was computed, and the seconds that each contender took for it."""

    def __init__(self, record, backend=None):
        self.backend = backend
        self.group = record["group"]
        self.operation = record["operation"]
        self.dtype = record["dtype"]
        self.rows = record["rows"]
        self.cols = record["cols"]
        self.k = record["k"]
        self.input = record["input"]
        self.threads = record["threads"]
        self.attention = record.get("attention")  # sizes; beside them flops, bytes of keys and values
        self.flops, self.key_value_bytes = record.get("flops"), record.get("bytes")
        self.regime = record["regime"]
        self.loaded = record["loaded"]
        self.results = {}
        self.add(record)

    def add(self, record):
        """Takes in the contenders of another record of the same case: each with the seconds that
        this library took beside it, which a result may itself say."""
        self.loaded = self.loaded or record["loaded"]
        beside = next((r["seconds"] for r in record["results"] if r["name"] == SUBJECT), None)
        for result in record["results"]:
            name = FORMER_NAMES.get(result["name"], result["name"])
            if name != SUBJECT or SUBJECT not in self.results:
                self.results[name] = {"beside": beside, **result, "name": name}

    @property
    def key(self):
        return (self.group, self.operation, self.dtype, self.rows, self.cols, self.k, self.input,
                self.threads, *(self.attention or {}).values())

    @property
    def on_device(self):
        return self.threads == 0

    @property
    def input_bytes(self):
        return self.rows * self.cols * ELEMENT_BYTES[self.dtype]

    @property
    def writes_matrix(self):
        return self.operation in ("softmax", "log_softmax", "masked_softmax", "sparse_softmax",
                                  "scan")

    @property
    def is_decode(self):
        """Attention of one query a head: reading the keys and values is what it costs."""
        return self.attention is not None and self.attention["queries"] == 1

    @property
    def shape(self):
        """Of attention batches x heads (those of the keys behind /) x queries x keys x dim; of packed
        sequences how many, and all their keys."""
        if not self.attention:
            return f"{self.rows} x {self.cols}"
        a = self.attention
        heads = f"{a['heads']}" + (f"/{a['key_heads']}" if a["key_heads"] != a["heads"] else "")
        sequences = f"{a['sequences']} of " if "sequences" in a else ""
        return (f"{sequences}{a['batches']} x {heads} x {a['queries']} x {a['keys']} x {a['dim']}"
                + (", causal" if a["causal"] else ""))

    @property
    def unit(self):
        if not self.attention:
            return "Gelem/s"
        if self.is_decode:
            return "GB/s"
        return "TFLOP/s" if self.on_device else "GFLOP/s"

    @property
    def label(self):
        parts = [self.operation, self.dtype, self.shape]
        if self.k:
            parts.append(f"k {self.k}")
        if self.input != "normal":
            parts.append(self.input)
        if not self.on_device:
            parts.append("1 thread" if self.threads == 1 else f"{self.threads} threads")
        return ", ".join(parts)

    def seconds(self, name):
        """Median seconds of a call, or None if the contender does not do this case."""
        return self.results[name]["seconds"] if name in self.results else None

    def rate(self, name=SUBJECT):
        """In a second, or None: of attention the products or, of one query, keys and values read, else
        elements; in `unit`."""
        seconds = self.seconds(name)
        if not seconds:
            return None
        if self.is_decode:
            return self.key_value_bytes / seconds / 1e9
        if self.attention:
            return self.flops / seconds / (1e12 if self.on_device else 1e9)
        return self.rows * self.cols / seconds / 1e9

    def ratio(self, name):
        """How many times as quick as `name` this library is, or None."""
        if not name or name not in self.results or not self.seconds(SUBJECT):
            return None
        own = self.results[name]["beside"] or self.seconds(SUBJECT)
        return self.seconds(name) / own

    @property
    def serial_ratio(self):
        """How many times as quick as the cpu backend on one thread Kokkos::Serial is, or None."""
        if self.threads != 1:
            return None
        own, other = (self.seconds(SERIAL if SERIAL in self.results else SUBJECT),
                      self.seconds(CPU))
        return other / own if own and other else None

    @property
    def quickest_peer(self):
        """Of those that do what the case says: "differs" has what another does instead."""
        peers = [r for r in self.results.values() if r["role"] == "peer" and "differs" not in r]
        if not peers:
            return None
        return min(peers, key=lambda r: self.ratio(r["name"]) or r["seconds"])["name"]

    @property
    def ceiling(self):
        """What the machine allows: a copy where a matrix is written, else one read. On a device
        the quicker of two copies, which where no matrix is written copy half of the input: as
        many bytes as one read. None of attention of several queries, which products bind."""
        if not self.on_device:
            return "memcpy" if self.writes_matrix else "one_read"
        copies = [n for n in COPIES if n in self.results]
        return min(copies, key=self.seconds) if copies else None

    @property
    def standard_peer(self):
        """The peer that most users would take."""
        names = STANDARD_PEERS.get(self.operation, STANDARD_PEERS["softmax"])
        return next((n for n in names if n in self.results), None)


def read(paths):
    """The cases of all files, in order and each once, and the files' heads."""
    cases, heads = {}, []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        if document.get("format") != 1:
            raise ValueError(f"{path}: not a result of softfold_bench or peers.py")
        heads.append(document)
        for record in document["cases"]:
            case = Case(record, document["machine"].get("backend"))
            if case.key in cases:
                cases[case.key].add(record)
            else:
                cases[case.key] = case
    return list(cases.values()), heads


def write(path, document):
    """One line for each case, as softfold_bench writes it."""
    head = json.dumps({k: v for k, v in document.items() if k != "cases"}, indent=1,
                      ensure_ascii=False)
    lines = ",\n  ".join(json.dumps(c, separators=(",", ":")) for c in document["cases"])
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{head[:-2]},\n "cases": [\n  {lines}\n ]\n}}\n')
