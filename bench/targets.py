# SPDX-License-Identifier: Apache-2.0
"""The speed to reach, as ratios of one run: each target is a name, a limit and its values."""

SCALING_COLUMNS = (128256, 1048576)


class Target:
    def __init__(self, name, limit, values, above=False):
        self.name = name
        self.limit = limit
        self.above = above  # the value must be above the limit, not at it
        self.values = values  # [(label, ratio, keys of the cases, loaded)]

    def met_by(self, value):
        return value > self.limit if self.above else value >= self.limit

    @property
    def met(self):
        return sum(self.met_by(v) for _, v, _, _ in self.values)

    @property
    def worst(self):
        return min(self.values, key=lambda v: v[1])


def _within(name, limit, cases, contender, above=False):
    """Ratio of this library to a contender of the same case."""
    values = []
    for case in cases:
        ratio = case.ratio(contender(case))
        if ratio is not None:
            values.append((case.label, ratio, [case.key], case.loaded))
    return Target(name, limit, values, above)


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


def evaluate(cases):
    """All targets, also those that no case speaks to."""
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
                above=True),
        _within("softmax / memcpy, streaming", 0.65, softmax, lambda c: "memcpy"),
        _within("logsumexp / scan, streaming", 0.65, logsumexp, lambda c: "scan"),
        _within("softmax_topk k <= 64 / scan, streaming", 0.6, topk, lambda c: "scan"),
        _within("softmax_topk k <= 64 / oneDNN + partial_sort, streaming", 10, topk,
                lambda c: "onednn_partial_sort"),
        _between("one long row: 2 threads / 1 thread", 1.8,
                 _pairs([c for c in long_rows if c.threads == 2],
                        [c for c in long_rows if c.threads == 1], ["cols"])),
        _between("f16, bf16 / f32 in elements, streaming", 1.0,
                 _pairs(small_types, base_types,
                        ["operation", "rows", "cols", "k", "threads"])),
    ]
