# SPDX-License-Identifier: Apache-2.0
"""The speed to reach, as ratios of one run: each target is a name, a limit and its values."""

import operator

import results

SCALING_COLUMNS = (128256, 1048576)


RELATIONS = {">=": operator.ge, ">": operator.gt, "<=": operator.le}


class Target:
    def __init__(self, name, limit, values, relation=">="):
        self.name = name
        self.limit = limit
        self.relation = relation
        self.values = values  # [(label, value, keys of the cases, loaded)]

    def met_by(self, value):
        return RELATIONS[self.relation](value, self.limit)

    @property
    def met(self):
        return sum(self.met_by(v) for _, v, _, _ in self.values)

    @property
    def worst(self):
        worst = max if self.relation == "<=" else min
        return worst(self.values, key=lambda v: v[1])


def _within(name, limit, cases, contender, relation=">="):
    """Ratio of this library to a contender of the same case."""
    values = []
    for case in cases:
        ratio = case.ratio(contender(case))
        if ratio is not None:
            values.append((case.label, ratio, [case.key], case.loaded))
    return Target(name, limit, values, relation)


def _microseconds(name, limit, cases):
    """Time of a call of this library."""
    return Target(name, limit, [(c.label, c.seconds(results.SUBJECT) * 1e6, [c.key], c.loaded)
                                for c in cases if c.rate()], "<=")


def _between(name, limit, pairs):
    """Ratio of this library's rates in two cases."""
    values = []
    for case, base in pairs:
        if case.rate() and base.rate():
            values.append((case.label, case.rate() / base.rate(), [case.key],
                           case.loaded or base.loaded))
    return Target(name, limit, values)


def _pairs(cases, bases, same):
    """Each case with the base that has the same properties."""
    index = {tuple(getattr(b, p) for p in same): b for b in bases}
    keys = [(c, tuple(getattr(c, p) for p in same)) for c in cases]
    return [(c, index[key]) for c, key in keys if key in index]


def _evaluate_cpu(cases):
    f32 = [c for c in cases if c.dtype == "f32"]
    shapes = [c for c in f32 if c.group == "shapes"]
    streaming = [c for c in f32 if c.regime == "streaming" and c.input == "normal"]
    softmax = [c for c in streaming if c.operation == "softmax"]
    logsumexp = [c for c in streaming if c.operation == "logsumexp"]
    topk = [c for c in streaming if c.operation == "softmax_topk" and c.k <= 64]
    long_rows = [c for c in shapes if c.rows == 1 and c.cols in SCALING_COLUMNS]
    types = [c for c in cases if c.group == "types" and c.input == "normal"]
    base_types = [c for c in types if c.dtype == "f32"]
    large_base = {(c.operation, c.rows, c.cols, c.k, c.threads)
                  for c in base_types if c.regime == "streaming"}
    small_types = [c for c in types if c.dtype in ("f16", "bf16")
                   and (c.operation, c.rows, c.cols, c.k, c.threads) in large_base]
    return [
        _within("softmax / oneDNN, every shape", 1.8, shapes, lambda c: "onednn"),
        _within("softmax / quickest peer, every shape", 1.0, shapes, lambda c: c.quickest_peer,
                ">"),
        _within("softmax / memcpy, streaming", 0.65, softmax, lambda c: "memcpy"),
        _within("logsumexp / one read, streaming", 0.65, logsumexp, lambda c: "one_read"),
        _within("softmax_topk k <= 64 / one read, streaming", 0.6, topk, lambda c: "one_read"),
        _within("softmax_topk k <= 64 / oneDNN + partial_sort, streaming", 10, topk,
                lambda c: "onednn_partial_sort"),
        _between("one long row: 2 threads / 1 thread", 1.8,
                 _pairs([c for c in long_rows if c.threads == 2],
                        [c for c in long_rows if c.threads == 1], ["cols"])),
        _between("f16, bf16 / f32 in elements, streaming", 1.0,
                 _pairs(small_types, base_types,
                        ["operation", "rows", "cols", "k", "threads"])),
    ]


def _neighbours(name, limit, cases):
    """Bytes per second of each case of a sweep against the slower and the quicker neighbour."""
    values = []
    for dtype in dict.fromkeys(c.dtype for c in cases):
        line = sorted((c for c in cases if c.dtype == dtype and c.rate()), key=lambda c: c.cols)
        for i, case in enumerate(line):
            beside = [line[j].rate() for j in (i - 1, i + 1) if 0 <= j < len(line)]
            if beside:
                values.append((case.label, case.rate() / max(beside), [case.key], case.loaded))
    return Target(name, limit, values)


def _evaluate_gpu(cases):
    def group(name, operation=None, **properties):
        return [c for c in cases if c.group == name and operation in (None, c.operation)
                and all(getattr(c, p) == v for p, v in properties.items())]

    def copy(case):
        return case.ceiling

    sweep = group("sweep")
    long_topk = [c for c in group("topk", "softmax_topk")
                 if c.rows >= 1000 and 25000 <= c.cols <= 1 << 19]
    same = ["operation", "dtype", "rows", "cols", "k"]
    one_row = group("few-rows", "softmax", rows=1)
    return [
        *(_within(f"softmax {dtype}, 512 <= columns <= 512 Ki / copy", 0.95,
                  [c for c in sweep if c.dtype == dtype and c.cols >= 512], copy)
          for dtype in ("f32", "bf16", "f16")),
        _within("softmax, 128 <= columns < 512 / copy", 0.9,
                [c for c in sweep if c.cols < 512], copy),
        _neighbours("softmax: bytes/s / those of the columns next to it", 0.8, sweep),
        *(_microseconds(f"softmax, 1 x {cols}, microseconds", limit,
                        [c for c in one_row if c.cols == cols])
          for cols, limit in ((128256, 6), (1048576, 10), (16777216, 60))),
        _within("logsumexp / one read at copy rate", 0.95,
                group("operations", "logsumexp"), copy),
        _within("softmax_topk k <= 64 / one read at copy rate", 0.9,
                [c for c in long_topk if c.k <= 64], copy),
        _within("softmax_topk k = 256 / one read at copy rate", 0.75,
                [c for c in long_topk if c.k == 256], copy),
        _within("softmax_topk k = 1024 / one read at copy rate", 0.5,
                [c for c in long_topk if c.k == 1024], copy),
        _microseconds("softmax_topk k = 5, 1 x 128256, microseconds", 10,
                      group("topk", "softmax_topk", rows=1, cols=128256, k=5)),
        _between("softmax_topk: logits, ascending, equal / normal in elements/s", 1 / 1.5,
                 _pairs(group("inputs"), group("topk"), same)),
        _within("softmax_topk k = 5, 4000 x 25000 / safe softmax then top-k of the paper", 5,
                group("paper", "softmax_topk", cols=25000), lambda c: "paper_safe_unfused"),
        _within("softmax of 64 MiB and more, 256 <= columns <= 256 Ki / quack", 1.0,
                [c for c in cases if c.operation == "softmax" and c.input_bytes >= 1 << 26
                 and 256 <= c.cols <= 1 << 18], lambda c: "quack"),
        _within("every case / quickest peer", 1.0, cases, lambda c: c.quickest_peer, ">"),
    ]


def _evaluate_kokkos(cases):
    on_device = [c for c in cases if c.on_device]
    on_host = [c for c in cases if not c.on_device]
    if on_device:
        return [_within("softmax, 1 Ki <= columns <= 64 Ki / copy", 0.85,
                        [c for c in on_device if c.group == "sweep" and 1024 <= c.cols <= 65536],
                        lambda c: c.ceiling)]
    alone = [c for c in on_host if c.threads == 1]
    serial = [(c.label, c.serial_ratio, [c.key], c.loaded) for c in alone if c.serial_ratio]
    long_rows = [c for c in on_host if c.rows == 1 and c.cols in SCALING_COLUMNS
                 and c.operation == "softmax" and c.threads == 2]
    return [
        Target("Kokkos::Serial / cpu backend, 1 thread", 0.5, serial),
        _within("all threads / cpu backend on as many", 0.5,
                [c for c in on_host if c.threads > 1], lambda c: results.CPU),
        _within("one long row: 2 threads / Kokkos::Serial", 1.8, long_rows,
                lambda c: results.SERIAL),
    ]


def evaluate(cases):
    """All targets, also those that no case speaks to."""
    kokkos = [c for c in cases if c.backend == "kokkos"]
    on_device = [c for c in cases if c.on_device and c not in kokkos]
    on_host = [c for c in cases if not c.on_device and c not in kokkos]
    return ((_evaluate_kokkos(kokkos) if kokkos else [])
            + (_evaluate_gpu(on_device) if on_device else [])
            + (_evaluate_cpu(on_host) if on_host else []))
