# SPDX-License-Identifier: Apache-2.0
"""Plots of rate against columns, and of shares of the copy rate, as SVG written by hand.

Colours have a middle lightness and nothing has a background, so that a plot can be read on a
light page and on a dark one.
"""

import math

TEXT = "#7d8590"
GRID = "#7d8590"
STYLES = {  # colour, dashes
    "softfold": ("#e0533d", ""),
    "onednn": ("#3b82f6", ""),
    "onednn_partial_sort": ("#3b82f6", ""),
    "xnnpack": ("#1f9d6b", ""),
    "pytorch": ("#c27c0e", ""),
    "onnxruntime": ("#a855f7", ""),
    "partial_sort": ("#1f9d6b", ""),
    "seed_safe": ("#9a8c7c", ""),
    "seed_online": ("#b0729a", ""),
    "cudnn": ("#3b82f6", ""),
    "cub": ("#1f9d6b", ""),
    "triton": ("#1f9d6b", ""),
    "torch_compile": ("#a855f7", ""),
    "quack": ("#0e9bb5", ""),
    "flashinfer": ("#d6457f", ""),
    "paper_naive": ("#9a8c7c", "4 2"),
    "paper_safe": ("#9a8c7c", ""),
    "paper_online": ("#b0729a", ""),
    "paper_safe_unfused": ("#9a8c7c", ""),
    "paper_safe_fused": ("#9a8c7c", "4 2"),
    "paper_online_fused": ("#b0729a", ""),
    "memcpy": (TEXT, "7 4"),
    "copy_kernel": (TEXT, "2 4"),
    "deep_copy": (TEXT, "7 4"),
    "softfold_cpu": ("#3b82f6", ""),
    "softfold_serial": ("#1f9d6b", ""),
    "copy_nontemporal": (TEXT, "2 4"),
    "one_read": (TEXT, "7 4"),
}
NAMES = {"onednn": "oneDNN", "onednn_partial_sort": "oneDNN + partial_sort", "xnnpack": "XNNPACK",
         "pytorch": "PyTorch", "onnxruntime": "ONNX Runtime", "seed_safe": "safe loop",
         "seed_online": "online loop", "memcpy": "memcpy (ceiling)",
         "copy_nontemporal": "non-temporal copy (ceiling)", "one_read": "one read (ceiling)",
         "softfold_cpu": "cpu backend", "softfold_serial": "Kokkos::Serial",
         "deep_copy": "deep_copy (ceiling)", "copy_kernel": "copy kernel (ceiling)",
         "cudnn": "cuDNN", "cub": "CUB", "triton": "Triton, one block", "torch_compile": "torch.compile",
         "flashinfer": "FlashInfer", "paper_naive": "paper: naive", "paper_safe": "paper: safe",
         "paper_online": "paper: online", "paper_safe_unfused": "paper: safe, then top-k",
         "paper_safe_fused": "paper: safe, fused", "paper_online_fused": "paper: online, fused"}
PANEL_WIDTH, PANEL_HEIGHT = 430, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 30, 44


class Panel:
    """One set of axes: a title and, for each contender, points (columns, rate)."""

    label_x, label_y = "columns", "10⁹ elements / s"

    def __init__(self, title, cases):
        self.title = title
        self.lines = {}
        for case in sorted(cases, key=self.x_of):
            for name in case.results:
                if name not in STYLES or (name == "one_read" and case.writes_matrix) or (
                        "differs" in case.results[name]):
                    continue
                self.lines.setdefault(name, []).append((self.x_of(case), self.y_of(case, name)))
        points = [p for line in self.lines.values() for p in line]
        self.low_x, self.high_x = (f(p[0] for p in points) for f in (min, max))
        if self.low_x == self.high_x:
            self.high_x *= 2
        self.ticks_y = self.ticks(points)

    @staticmethod
    def x_of(case):
        return case.cols

    @staticmethod
    def y_of(case, name):
        return case.rate(name)

    @staticmethod
    def ticks(points):
        """Whole steps of 1, 2, 5 times a power of ten around the rates."""
        return _steps(min(p[1] for p in points), max(p[1] for p in points))

    def up(self, rate):
        """Where a rate is between the lowest tick, 0, and the highest, 1."""
        return math.log(rate / self.ticks_y[0]) / math.log(self.ticks_y[-1] / self.ticks_y[0])

    def place(self, cols, rate):
        across = math.log(cols / self.low_x) / math.log(self.high_x / self.low_x)
        up = self.up(rate)
        width, height = PANEL_WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM
        return LEFT + across * width, TOP + (1 - up) * height

    def svg(self, x, y):
        bottom, right = PANEL_HEIGHT - BOTTOM, PANEL_WIDTH - RIGHT
        out = [f'<g transform="translate({x} {y})">',
               _text(LEFT, 18, self.title, weight="bold")]
        for rate in self.ticks_y:
            height = self.place(self.low_x, rate)[1]
            out += [_line(LEFT, height, right, height, 0.3),
                    _text(LEFT - 6, height + 4, f"{rate:g}", anchor="end")]
        for power in range(math.ceil(math.log2(self.low_x)), math.floor(math.log2(self.high_x)) + 1,
                           3 if self.high_x / self.low_x > 1 << 14 else 2):
            across = self.place(2**power, self.ticks_y[0])[0]
            out += [_line(across, TOP, across, bottom, 0.15),
                    _text(across, bottom + 16, _short(2**power), anchor="middle")]
        out += [_line(LEFT, bottom, right, bottom, 1),
                _text((LEFT + right) / 2, bottom + 34, self.label_x, anchor="middle"),
                f'<g transform="translate(12 {(TOP + bottom) / 2:.0f}) rotate(-90)">'
                + _text(0, 0, self.label_y, anchor="middle") + "</g>"]
        for name in _drawing_order(self.lines):
            points = [self.place(*p) for p in self.lines[name]]
            colour, dashes = STYLES[name]
            width = 2.6 if name == "softfold" else 1.6
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                       f'stroke-width="{width}" stroke-dasharray="{dashes}" '
                       'stroke-linejoin="round"/>')
            if not dashes:
                out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{width}" fill="{colour}"/>'
                        for a, b in points]
        return out + ["</g>"]


class SharePanel(Panel):
    """The same with shares of the copy rate, on a linear scale."""

    label_y = "of the copy rate"

    @staticmethod
    def y_of(case, name):
        return case.seconds(case.ceiling) / case.seconds(name)

    @staticmethod
    def ticks(points):
        highest = max(p[1] for p in points)
        return [i / 5 for i in range(max(5, math.ceil(highest * 5)) + 1)]

    def up(self, rate):
        return rate / self.ticks_y[-1]


class TopkPanel(SharePanel):
    """Shares of one read at the copy rate, for each k."""

    label_x = "k"

    @staticmethod
    def x_of(case):
        return case.k


def _steps(low, high):
    steps = [m * 10.0**e for e in range(-4, 5) for m in (1, 2, 5)]
    first = max(i for i, s in enumerate(steps) if s <= low)
    last = min(i for i, s in enumerate(steps) if s >= high)
    return steps[first:max(last, first + 1) + 1]


def _short(count):
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if count >= unit:
            return f"{count // unit}{name}"
    return str(count)


def _text(x, y, text, anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
            f'fill="{TEXT}">{text}</text>')


def _line(x1, y1, x2, y2, opacity):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{GRID}" '
            f'stroke-opacity="{opacity}"/>')


def _drawing_order(names):
    """Ceilings first, this library last and so on top."""
    return sorted(names, key=lambda n: (n == "softfold", not STYLES[n][1]))


def _legend(names, width):
    out, x, y = [], LEFT, 18
    for name in names:
        label = NAMES.get(name, name)
        length = 48 + 7 * len(label)
        if x + length > width:
            x, y = LEFT, y + 20
        colour, dashes = STYLES[name]
        stroke = 2.6 if name == "softfold" else 1.6
        out += [f'<line x1="{x}" y1="{y - 4}" x2="{x + 24}" y2="{y - 4}" stroke="{colour}" '
                f'stroke-width="{stroke}" stroke-dasharray="{dashes}"/>',
                _text(x + 30, y, label)]
        x += length
    return out, y + 10


def figure(panels):
    """An SVG with the panels two in a row under one legend."""
    columns = min(2, len(panels))
    width = columns * PANEL_WIDTH
    present = {name for panel in panels for name in panel.lines}
    legend, top = _legend([n for n in STYLES if n in present], width)
    height = top + math.ceil(len(panels) / columns) * PANEL_HEIGHT
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">', *legend]
    for i, panel in enumerate(panels):
        out += panel.svg(i % columns * PANEL_WIDTH, top + i // columns * PANEL_HEIGHT)
    return "\n".join([*out, "</svg>"]) + "\n"


def _panels(cases, operations):
    panels = []
    for operation in operations:
        for threads in sorted({c.threads for c in cases}):
            for group, where in (("sweep-hot", "in cache"), ("sweep-streaming", "streaming")):
                chosen = [c for c in cases if c.group == group and c.operation == operation
                          and c.threads == threads]
                if chosen:
                    count = "1 thread" if threads == 1 else f"{threads} threads"
                    panels.append(Panel(f"{operation} f32, {where}, {count}", chosen))
    return panels


def _device_panels(cases):
    panels = {"": [], "-one-read": [], "-topk": []}
    with_copy = [c for c in cases if c.on_device and c.ceiling]
    for dtype in dict.fromkeys(c.dtype for c in with_copy):
        for suffix, group, operation in (("", "sweep", "softmax"),
                                         ("-one-read", "operations", "logsumexp")):
            chosen = [c for c in with_copy if c.group == group and c.operation == operation
                      and c.dtype == dtype]
            if chosen:
                panels[suffix].append(SharePanel(f"{operation} {dtype}", chosen))
    topk = [c for c in with_copy if c.group == "topk" and c.operation == "softmax_topk"
            and c.dtype == "f32" and c.rows > 1]
    for rows, cols in dict.fromkeys((c.rows, c.cols) for c in topk):
        panels["-topk"].append(TopkPanel(f"softmax + top-k f32, {rows} x {cols}",
                                         [c for c in topk if (c.rows, c.cols) == (rows, cols)]))
    return panels


def write_plots(cases, path):
    """Writes softmax to `path`, the operations of one read beside it, and for a device top-k;
    returns what it wrote."""
    on_host = [c for c in cases if not c.on_device]
    all_panels = _device_panels(cases)
    all_panels[""] += _panels(on_host, ["softmax"])
    all_panels["-one-read"] += _panels(on_host, ["logsumexp", "softmax_topk"])
    written = []
    for suffix, panels in all_panels.items():
        to = path.with_name(path.stem + suffix + path.suffix)
        if panels:
            to.write_text(figure(panels), encoding="utf-8")
            written.append(to)
    return written
