#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables and plots from results of softfold_bench, peers.py and peers_gpu.py (JSON).

    report.py FILE...                    tables as text
    report.py FILE... --markdown OUT.md  the same as Markdown, into a file
    report.py FILE... --svg OUT.svg      plots; those of one-read operations in OUT-one-read.svg,
                                         on a GPU those of top-k in OUT-topk.svg

Several files of one machine are taken together: contenders of the same case are compared.
"""

import argparse
import pathlib
import sys

import plot
import results
import targets

GROUPS = {
    "shapes": "Softmax, from many short rows to one long one",
    "operations": "Other operations",
    "types": "Element types",
    "inputs": "Inputs",
    "sweep-hot": "By columns, in cache (at most 1 MiB in and out)",
    "sweep-streaming": "By columns, streaming (256 MiB of f32)",
    "sweep": "Softmax by columns, 256 MiB of input",
    "masks": "Softmax with half or one in a hundred of the bits of a mask set, beside one without",
    "few-rows": "Few long rows",
    "topk": "Softmax + top-k, normal input",
    "decode": "Attention of one query a head: microseconds, and keys and values read in a second",
    "prefill": "Attention of many queries: microseconds, and products in a second",
    "paper": "The comparison of Milakov and Gimelshein: 4000 rows",
}


MARK = "†"  # of a time of something else than the case says


def number(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


class Text:
    @staticmethod
    def heading(text):
        return f"{text}\n{'-' * len(text)}\n"

    @staticmethod
    def table(titles, rows):
        widths = [max(len(r[i]) for r in [titles, *rows]) for i in range(len(titles))]
        lines = []
        for row in [titles, *rows]:
            cells = [row[0].ljust(widths[0])]
            cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines) + "\n"


class Markdown:
    @staticmethod
    def heading(text):
        return f"## {text}\n"

    @staticmethod
    def table(titles, rows):
        lines = [titles, ["---"] + ["---:"] * (len(titles) - 1), *rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def machine_rows(head):
    rows = []
    for name, value in head["machine"].items():
        if name.endswith("_bytes") and isinstance(value, int):
            value = f"{value / 2**20:.4g} MiB"
        rows.append([name.removesuffix("_bytes"), str(value)])
    for contender in head["contenders"]:
        if "version" in contender:
            rows.append([contender["name"], contender["version"]])
        if "absent" in contender:
            rows.append([contender["name"], f"absent: {contender['absent']}"])
    return rows


def target_rows(evaluated):
    rows = []
    for target in evaluated:
        limit = f"{target.relation} {round(target.limit, 3)}"
        if not target.values:
            rows.append([target.name, limit, "not measured", "-", "-"])
            continue
        label, value, _, loaded = target.worst
        verdict = f"{target.met} of {len(target.values)}"
        if target.met < len(target.values):
            verdict += " MISSED"
        rows.append([target.name, limit, verdict, number(value),
                     label + (" (loaded)" if loaded else "")])
    return rows


def mark(case, evaluated):
    """What the targets say of one case."""
    verdicts = [target.met_by(value) for target in evaluated
                for _, value, keys, _ in target.values if case.key in keys]
    marks = [("met" if all(verdicts) else "MISSED")] if verdicts else []
    if case.loaded:
        marks.append("loaded")
    return " ".join(marks)


def microseconds(case, name):
    seconds = case.seconds(name)
    return "-" if seconds is None else f"{seconds * 1e6:.1f}" + MARK * ("differs" in case.results[name])


def remarks(cases):
    """What the marked figures of a table are of."""
    said = dict.fromkeys((name, r["differs"]) for c in cases for name, r in c.results.items()
                         if "differs" in r)
    return [f"{MARK} {name}: {text}.\n" for name, text in said]


def case_table(cases, evaluated, style):
    """And below it what figures with a mark are of."""
    names = []
    for case in cases:
        names += [n for n in case.results if n not in names and n != results.SUBJECT]
    order = {"ceiling": 0, "peer": 1}
    roles = {n: r["role"] for c in cases for n, r in c.results.items()}
    names.sort(key=lambda n: order.get(roles[n], 2))
    on_device = cases[0].on_device
    ratios = [("/ standard" if on_device else "/ oneDNN", lambda c: c.ratio(c.standard_peer)),
              ("/ peer", lambda c: c.ratio(c.quickest_peer)),
              ("/ copy" if on_device else "/ ceiling", lambda c: c.ratio(c.ceiling))]
    if cases[0].backend == "kokkos":
        on_host = [("/ cpu", ratios[0][1]), ("Serial / cpu", lambda c: c.serial_ratio),
                   ("/ Serial", lambda c: c.ratio(results.SERIAL))]
        ratios = ([] if on_device else on_host) + ratios[2:]
    in_microseconds = on_device or cases[0].attention
    if cases[0].attention:  # this library's rate in the place of the other operations' standard peer
        own = (cases[0].unit, lambda c: c.rate())
        ratios = [own, *(r for r in ratios if r[0] not in ("/ standard", "/ oneDNN"))]
    titles = ["case", results.SUBJECT, *names, *(title for title, _ in ratios), "targets"]
    rows = []
    for case in cases:
        cell = ((lambda name: microseconds(case, name)) if in_microseconds
                else (lambda name: number(case.rate(name), 3)))
        rows.append([case.label, *[cell(name) for name in (results.SUBJECT, *names)],
                     *(number(ratio(case)) for _, ratio in ratios), mark(case, evaluated)])
    return "\n".join([style.table(titles, rows), *remarks(cases)])


def plan_rows(cases):
    """Of each plan that was forced: the cases that can have it, those in which it is the quickest, and by
    5 % or more; the largest lead over the next, and where."""
    found = {}
    for case in cases:
        times = sorted((r["seconds"], n) for n, r in case.results.items() if r["role"] == "plan")
        for rank, (seconds, name) in enumerate(times):
            leads = found.setdefault(name.removeprefix(f"{results.SUBJECT} "), [])
            leads.append((times[1][0] / seconds, case.label) if rank == 0 and len(times) > 1 else None)
    rows = []
    for name, in_cases in found.items():
        leads = [lead for lead in in_cases if lead]
        lead, where = max(leads, default=(None, "-"))
        rows.append([name, str(len(in_cases)), str(len(leads)), str(sum(x >= 1.05 for x, _ in leads)),
                     number(lead), where])
    return rows


LEGENDS = {  # by what the first case of a table is: on a device, of the kokkos backend
    (False, False): "Below: billions of elements in a second (medians), then how many times as quick as "
           "oneDNN, the quickest peer and the ceiling this library is.\n",
    (True, False): "Below: microseconds of a call (medians, caches flushed before each), then how many "
          "times as quick this library is as the standard peer (cuDNN; CUB for logsumexp; for "
          "softmax + top-k the paper's safe softmax followed by its top-k), the quickest peer and "
          "a copy that moves as many bytes. A peer with a mark does less, or otherwise, as said below "
          "the table, and is not counted.\n",
    (False, True): "Below: billions of elements in a second (medians) of Kokkos' default execution "
                   "space, its ratio to the cpu backend on as many threads, that of Kokkos::Serial "
                   "to the cpu backend on one, and those of the default space to Kokkos::Serial "
                   "and to the ceiling.\n",
    (True, True): "Below: microseconds of a call (medians, caches flushed before each), then the "
                  "share of the copy rate.\n",
}


def kind(case):
    return case.on_device, case.backend == "kokkos"


def report(cases, heads, style):
    evaluated = targets.evaluate(cases)
    parts = []
    for head in heads:
        parts += [style.heading(f"Machine ({head['program']})"),
                  style.table(["", "value"], machine_rows(head))]
    loaded = [c for c in cases if c.loaded]
    if loaded:
        parts.append(f"WARNING: other work ran on the machine during {len(loaded)} of "
                     f"{len(cases)} cases. Their figures are not to be trusted.\n")
    parts += [style.heading("Targets"),
              style.table(["ratio", "target", "met", "worst", "where"], target_rows(evaluated))]
    if plans := plan_rows(cases):
        parts += [style.heading("Plans, each forced where a case can have it"),
                  style.table(["plan", "cases", "quickest", "by 5 %", "largest lead", "where"], plans)]
    kinds = {kind(c) for c in cases}
    parts += [text for which, text in LEGENDS.items() if which in kinds]
    for group in dict.fromkeys(c.group for c in cases):
        parts.append(style.heading(GROUPS.get(group, group)))
        members = [c for c in cases if c.group == group]
        for operation in dict.fromkeys(c.operation for c in members):
            for which in LEGENDS:
                chosen = [c for c in members if c.operation == operation and kind(c) == which]
                if chosen:
                    parts.append(case_table(chosen, evaluated, style))
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        cases, heads = results.read(arguments.files)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"report.py: {error}")
    if arguments.markdown:
        arguments.markdown.write_text("# Results\n\n" + report(cases, heads, Markdown),
                                      encoding="utf-8")
    if arguments.svg:
        for path in plot.write_plots(cases, arguments.svg):
            print(f"wrote {path}", file=sys.stderr)
    if not arguments.markdown and not arguments.svg:
        print(report(cases, heads, Text))


if __name__ == "__main__":
    main()
