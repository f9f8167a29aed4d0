#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures in the documents, from the results in bench/results: nothing is typed by hand.

    figures.py          writes docs/figures.md, and what stands in documents between the lines
                        <!-- figures: NAME --> and <!-- end -->
    figures.py --check  fails, naming each, if one of them is not what the results say

A new result is a file in bench/results, and a line in RUNS if it is of another machine.
"""
import argparse
import json
import pathlib
import re
import statistics
import sys

import results

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "figures.md"

NAMES = {"onednn": "oneDNN", "onednn_partial_sort": "oneDNN then std::partial_sort", "xnnpack": "XNNPACK",
         "partial_sort": "std::partial_sort", "seed_safe": "a plain loop", "seed_online": "a plain loop",
         "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "llama_cpp": "llama.cpp's samplers",
         "cudnn": "cuDNN", "cub": "CUB", "pytorch": "PyTorch", "torch_compile": "torch.compile",
         "triton": "Triton", "quack": "quack", "flashinfer": "FlashInfer",
         "memcpy": "memcpy", "copy_kernel": "a copy", "deep_copy": "a copy",
         "one_read": "one read", "sdpa_flash": "FlashAttention of PyTorch", "sdpa_cudnn": "cuDNN by PyTorch",
         "sdpa_efficient": "memory-efficient attention of PyTorch", "sdpa_math": "PyTorch, unfused",
         "paper_naive": "Milakov and Gimelshein's naive kernel",
         "paper_safe": "Milakov and Gimelshein's safe kernel",
         "paper_online": "Milakov and Gimelshein's online kernel",
         "paper_safe_unfused": "Milakov and Gimelshein's two kernels",
         "paper_safe_fused": "Milakov and Gimelshein's kernel of two reads",
         "paper_online_fused": "Milakov and Gimelshein's kernel of one read"}

# Cases that stand for the others: operation, type, rows, columns, k, threads (0: a device).
EPYC = [("softmax", "f32", 65536, 16, 0, 1), ("softmax", "f32", 64, 4096, 0, 1),
        ("softmax", "f32", 4096, 1024, 0, 1), ("softmax", "f32", 100000, 1000, 0, 1),
        ("softmax", "f32", 4000, 25000, 0, 1), ("softmax", "f32", 1, 1048576, 0, 2),
        ("logsumexp", "f32", 4000, 25000, 0, 1), ("softmax_topk", "f32", 4000, 25000, 5, 1),
        ("softmax_topk", "f32", 4000, 25000, 64, 1)]
H100 = [("softmax", "f32", 131072, 512, 0, 0), ("softmax", "bf16", 32768, 4096, 0, 0),
        ("softmax", "f32", 1335, 50257, 0, 0), ("softmax", "f32", 512, 131072, 0, 0),
        ("softmax", "f32", 128, 524288, 0, 0), ("softmax", "bf16", 1046, 128256, 0, 0),
        ("softmax", "f32", 32, 128256, 0, 0), ("softmax", "f32", 1, 128256, 0, 0),
        ("softmax", "f32", 1, 1048576, 0, 0), ("logsumexp", "bf16", 1046, 128256, 0, 0),
        ("softmax_topk", "f32", 65536, 128, 8, 0), ("softmax_topk", "f32", 16384, 4096, 5, 0),
        ("softmax_topk", "f32", 4000, 25000, 5, 0), ("softmax_topk", "f32", 4000, 25000, 64, 0),
        ("softmax_topk", "f32", 1024, 128256, 5, 0), ("softmax_topk", "f32", 16384, 4096, 1024, 0),
        ("softmax_topk", "f32", 1024, 128256, 1024, 0)]

# A machine's results: a name, a title, files of one report, cases that are shown; None: all.
RUNS = [
    ("epyc", "The cpu backend on an AMD EPYC (Zen 5)", ["amd-epyc-2"], EPYC),
    ("zen4", "The cpu backend on an AMD EPYC (Zen 4), beside Python's peers in part of the cases",
     ["amd-epyc-zen4-2", "amd-epyc-zen4-2-decode", "amd-epyc-zen4-2-python-1", "amd-epyc-zen4-2-python-2"], []),
    ("intel", "The cpu backend on an Intel Xeon of 16 processors, beside Python's peers on one thread",
     ["intel-xeon-16", "intel-xeon-16-python-1"], []),
    ("h100", "The cuda backend on an NVIDIA H100", ["nvidia-h100"], H100),
    ("h100-attention", "Attention on an NVIDIA H100", ["nvidia-h100-attention"], None),
    ("h200-attention", "Attention on an NVIDIA H200, a later state", ["nvidia-h200-attention"], None),
    ("h100-masks", "Masks on an NVIDIA H100", ["nvidia-h100-masks"], []),
    ("h100-gradients", "Gradients on an NVIDIA H100, a later state", ["nvidia-h100-gradients"], []),
    ("h200", "The cuda backend on an NVIDIA H200, a later state",
     ["nvidia-h200", "nvidia-h200-sweep"], H100),
    ("kokkos-host", "The kokkos backend on an AMD EPYC (Zen 4)",
     ["kokkos-amd-epyc-2-1t", "kokkos-amd-epyc-2-2t"], []),
    ("kokkos-h200", "The kokkos backend on an NVIDIA H200", ["kokkos-nvidia-h200"], []),
]
# The README's: a run and one of its cases each.
SHOWN = [("epyc", EPYC[2]), ("epyc", EPYC[4]), ("epyc", EPYC[7]),
         ("h100", H100[1]), ("h100", H100[2]), ("h100", H100[7]), ("h100", H100[12])]


def grouped(number):
    return f"{number:,}" if number >= 10000 else str(number)


def table(titles, rows, left=1):
    lines = [titles, ["---"] * left + ["---:"] * (len(titles) - left), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def ratio(value):
    return "-" if value is None else f"{value:.2f}"


class Run:
    def __init__(self, name, title, files, cases):
        self.name, self.title, self.files, self.shown = name, title, files, cases
        self.cases, self.heads = results.read([FOLDER / f"{file}.json" for file in files])
        self.is_kokkos = self.heads[0]["machine"]["backend"] == "kokkos"

    def case(self, operation, dtype, rows, cols, k, threads):
        found = [c for c in self.cases
                 if (c.operation, c.dtype, c.rows, c.cols, c.k, c.threads) == (
                     operation, dtype, rows, cols, k, threads) and c.input == "normal"]
        if not found:
            raise ValueError(f"{self.name}: no case {operation} {dtype} {rows} x {cols}, k {k}")
        return found[0]

    def by_peer(self, case):
        """How many times as quick as the quickest peer; of kokkos as the cpu backend."""
        if self.is_kokkos:
            return case.ratio(results.CPU) if case.threads != 1 else case.serial_ratio
        return case.ratio(case.quickest_peer)

    def compared(self):
        return [c for c in self.cases if self.by_peer(c) is not None]

    def ahead(self):
        return sum(self.by_peer(c) > 1 for c in self.compared())

    def ahead_of(self, peer):
        """In how many of the cases that the peer takes as they are, and of how many."""
        ratios = [c.ratio(peer) for c in self.cases
                  if peer in c.results and "differs" not in c.results[peer]]
        return sum(r > 1 for r in ratios), len(ratios)

    def head(self):
        """What it ran on, and when."""
        machine = self.heads[0]["machine"]
        dates = sorted({head["machine"]["date"][:10] for head in self.heads if "date" in head["machine"]})
        took_part = {name for case in self.cases for name in case.results}
        versions = dict.fromkeys(" ".join([NAMES[c["name"]], *c.get("version", "").split(",")[:1]]).strip()
                                 for head in self.heads for c in head["contenders"]
                                 if c.get("role", "peer") == "peer" and c["name"] in took_part & NAMES.keys())
        loaded = sum(c.loaded for c in self.cases)
        return (f"{machine['device']}, {machine['isa']}; {' and '.join(dates)}."
                + (f" Peers: {', '.join(versions)}." if versions else "")
                + (f" Other work ran on the machine during {loaded} of {len(self.cases)} cases."
                   if loaded else "")
                + " From " + ", ".join(f"[{f}.json](../bench/results/{f}.json)" for f in self.files) + ".")

    def summary(self):
        """By operation and group of cases: against the quickest peer, and against the ceiling."""
        rows = []
        for group, operation in dict.fromkeys((c.group, c.operation) for c in self.cases):
            members = [c for c in self.cases if (c.group, c.operation) == (group, operation)]
            peers = [r for r in map(self.by_peer, members) if r is not None]
            ceilings = [r for r in (c.ratio(c.ceiling) for c in members) if r is not None]
            spread = [[ratio(f(values)) if values else "-" for f in (min, statistics.median, max)]
                      for values in (peers, ceilings)]
            rows.append([f"{operation}, {group}", len(members),
                         f"{sum(r > 1 for r in peers)} of {len(peers)}"
                         if peers and not self.is_kokkos else "-",
                         *spread[0], *spread[1]])
        peer = "the cpu backend" if self.is_kokkos else "quickest peer"
        return table(["operation, group", "cases", "ahead", f"/ {peer}: lowest", "median", "highest",
                      "/ ceiling: lowest", "median", "highest"], rows)

    def line(self, case):
        peer = case.quickest_peer
        return [f"{case.operation}, {case.dtype}" + (f", k {case.k}" if case.k else ""),
                case.shape if case.attention else f"{grouped(case.rows)} x {grouped(case.cols)}",
                *([] if case.on_device else [case.threads]), f"{case.seconds(results.SUBJECT) * 1e6:,.1f}",
                f"{ratio(case.ratio(peer))}x {NAMES[peer]}" if peer else "-",
                f"{ratio(case.ratio(case.ceiling))} of {NAMES[case.ceiling]}" if case.ceiling else "-"]

    def chosen(self):
        cases = self.cases if self.shown is None else [self.case(*key) for key in self.shown]
        if not cases:
            return ""  # its report has them
        threads = [] if cases[0].on_device else ["threads"]
        size = "shape" if cases[0].attention else "rows x columns"
        return table(["work", size, *threads, "microseconds", "beside the quickest peer",
                      "beside the ceiling"], [self.line(c) for c in cases], 2)


RUN = {}


def run(name):
    if not RUN:
        RUN.update((r[0], Run(*r)) for r in RUNS)
    return RUN[name]


# ---- What stands in documents, by name.

def shown_cases():
    rows = []
    for name, key in SHOWN:
        case = run(name).case(*key)
        line = run(name).line(case)
        machine = run(name).heads[0]["machine"]["device"]
        where = machine if case.on_device else (
            f"{machine}, {case.threads} thread" + ("s" if case.threads > 1 else ""))
        rows.append([where, *line[:2], *line[-3:]])
    return table(["machine", "work", "rows x columns", "microseconds", "beside the quickest peer",
                  "beside the ceiling"], rows, 3)


def ahead_of_peers():
    def count(name):
        return f"in {run(name).ahead()} of {len(run(name).compared())} cases"
    alone = [f"{NAMES[peer]} in {ahead} of {cases}" for peer in ("quack", "flashinfer")
             for ahead, cases in [run("h100").ahead_of(peer)] if cases]
    return (f"The quickest of the peers that took part is behind {count('epyc')} on the EPYC,\n"
            f"{count('h100')} on the H100, and {count('h100-attention')} of attention there."
            + (f"\nOf the cases that each takes as they are, behind on the H100: {', '.join(alone)}."
               if alone else ""))


def python_calls():
    document = json.loads((FOLDER / "python.json").read_text())
    return "\n".join(["| elements | call | ns | above the C call, ns |", "| --- | --- | --- | --- |",
                      *document["overhead"]])


BLOCKS = {"shown": shown_cases, "ahead": ahead_of_peers, "python-calls": python_calls}
DOCUMENTS = ["README.md", *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").glob("*.md")
                                  if p != PAGE)]


INTRODUCTION = """# Figures

Written by `bench/figures.py` from the results in [bench/results](../bench/results), whose reports have every
case. How they were measured, and what the peers and ceilings are, is in [benchmarks.md](benchmarks.md) and
[benchmarks-gpu.md](benchmarks-gpu.md).

A ratio is how many times as quick this library is: above 1 it is ahead. *Ahead* counts the cases in which the
quickest of the peers that took part is behind. The ceiling is a copy of as many bytes where a matrix is
written, else one read. Kokkos stands beside the cpu backend on as many threads (`Kokkos::Serial` on one), on a GPU beside
the ceiling alone. Where a peer does something else than a case says, as quack and FlashInfer do in some, it is
[marked](benchmarks-gpu.md#what-is-compared) in the report and not counted.
"""


def page():
    parts = [INTRODUCTION]
    for name, title, _, _ in RUNS:
        one = run(name)
        parts += [f"## {title}\n", one.head() + "\n"]
        parts += [text + "\n" for text in (one.summary(), one.chosen()) if text]
    return "\n".join(parts)


def with_blocks(text, where):
    def written(found):
        if found[1] not in BLOCKS:
            raise ValueError(f"{where}: no figures are named {found[1]}")
        return f"<!-- figures: {found[1]} -->\n\n{BLOCKS[found[1]]()}\n\n<!-- end -->"
    return re.sub(r"<!-- figures: ([\w-]+) -->\n.*?<!-- end -->", written, text, flags=re.S)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    try:
        files = {PAGE: page()}
        for name in DOCUMENTS:
            path = ROOT / name
            files[path] = with_blocks(path.read_text(encoding="utf-8"), name)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"figures.py: {error}")
    for path, text in files.items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.relative_to(ROOT).as_posix())
        if not check:
            path.write_text(text, encoding="utf-8")
    if check and stale:
        sys.exit(f"figures.py: not what bench/results says: {', '.join(stale)}; run bench/figures.py")
    print(f"{len(files)} documents, {len(stale)} {'stale' if check else 'written'}")


if __name__ == "__main__":
    main()
