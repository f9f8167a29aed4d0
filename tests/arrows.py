#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks which way includes go between the rooms of the tree: down only.

    arrows.py ROOT

Fails, naming file, line and rule, if a file includes one of a room that its own may not know, if
files include each other in a circle, or if a room has no rule.
"""
import pathlib
import re
import sys

# Rooms, and the rooms whose files theirs may include beside their own. A folder's rule is that of
# the longest name here; ".": the files of the folder itself.
GPU_KERNELS = ["backends/gpu/state", "backends/gpu/row", "backends/gpu/plan", "backends/gpu/."]
RULES = {
    "include": [],
    "core": ["include"],
    "backends/gpu/.": ["core", "include", "backends/gpu/plan", "backends/gpu/sampling"],
    "backends/gpu/plan": ["core", "include"],
    "backends/gpu/state": ["core", "include", "backends/gpu/."],
    "backends/gpu/row": ["core", "include", "backends/gpu/state", "backends/gpu/."],
    "backends/gpu/group": ["core", "include", *GPU_KERNELS],
    "backends/gpu/job": ["core", "include", "backends/gpu/group", *GPU_KERNELS],
    "backends/gpu/reduce": ["core", "include", "backends/gpu/group", *GPU_KERNELS],
    "backends/gpu/map": ["core", "include", "backends/gpu/group", "backends/gpu/job",
                         "backends/gpu/reduce", *GPU_KERNELS],
    "backends/gpu/topk": ["core", "include", "backends/gpu/group", *GPU_KERNELS],
    "backends/gpu/scan": ["core", "include", "backends/gpu/group", *GPU_KERNELS],
    "backends/gpu/attention": ["core", "include", "backends/gpu/group", *GPU_KERNELS],
    "backends/gpu/reproducible": ["core", "include", "backends/gpu/group", "backends/gpu/job",
                                 "backends/gpu/map", *GPU_KERNELS],
    "backends/gpu/sampling": ["core", "include", "backends/gpu/group", "backends/gpu/job",
                             "backends/gpu/reproducible", "backends/gpu/topk", *GPU_KERNELS],
    "backends/cuda": ["core", "include", "backends/gpu"],
    "backends/hip": ["core", "include", "backends/gpu"],
    "backends/host/.": ["core", "include", "backends/host/plan", "backends/host/kernels"],
    "backends/host/plan": ["core", "include", "backends/host/kernels", "backends/host/."],
    "backends/host/kernels": ["core", "include"],
    "backends/host/isa": ["core", "include", "backends/host/kernels"],
    "backends/host/row": ["core", "include", "backends/host/kernels", "backends/host/plan",
                          "backends/host/."],
    "backends/host/reduce": ["core", "include", "backends/host/row", "backends/host/kernels",
                             "backends/host/plan", "backends/host/."],
    "backends/host/map": ["core", "include", "backends/host/row", "backends/host/reduce",
                          "backends/host/kernels", "backends/host/plan", "backends/host/."],
    "backends/host/topk": ["core", "include", "backends/host/row", "backends/host/kernels",
                           "backends/host/plan", "backends/host/."],
    "backends/host/reproducible": ["core", "include", "backends/host/row", "backends/host/kernels",
                                   "backends/host/plan", "backends/host/."],
    "backends/host/edit": ["core", "include", "backends/host/row", "backends/host/kernels",
                           "backends/host/plan", "backends/host/."],
    "backends/host/attention": ["core", "include", "backends/host/row", "backends/host/kernels",
                                "backends/host/plan", "backends/host/."],
    "backends/host/scan": ["core", "include", "backends/host/row", "backends/host/kernels",
                           "backends/host/plan", "backends/host/."],
    "backends/host/sampling": ["core", "include", "backends/host/topk",
                               "backends/host/reproducible", "backends/host/row",
                               "backends/host/kernels", "backends/host/plan", "backends/host/."],
    "backends/cpu": ["core", "include", "backends/host"],
    "backends/kokkos": ["core", "include", "backends/host", "backends/gpu"],
}
# The seams: what makes a translation unit of rooms, and what is another folder's by name.
SEAMS = {
    "backends/gpu/rows.inl": ["backends/gpu"],
    "backends/gpu/softmax.inl": ["backends/gpu"],
    "backends/gpu/gradients.inl": ["backends/gpu"],
    "backends/gpu/topk.inl": ["backends/gpu"],
    "backends/gpu/combine.inl": ["backends/gpu"],
    "backends/gpu/edit.inl": ["backends/gpu"],
    "backends/gpu/reproducible.inl": ["backends/gpu"],
    "backends/gpu/exact_states.inl": ["backends/gpu"],
    "backends/gpu/sample.inl": ["backends/gpu"],
    "backends/gpu/sample_parts.inl": ["backends/gpu"],
    "backends/gpu/verify.inl": ["backends/gpu"],
    "backends/gpu/scan.inl": ["backends/gpu"],
    "backends/gpu/attention.inl": ["backends/gpu"],
}
CONTRACT = {"device.hpp", "handles.hpp", "launch.hpp"}  # gpu/contract.hpp and gpu/runtime.hpp have them


def room_of(path):
    """The rule's name for a file, or None."""
    folder = path.rsplit("/", 1)[0]
    if f"{folder}/." in RULES:
        return f"{folder}/."
    names = [room for room in RULES if folder == room or folder.startswith(f"{room}/")]
    return max(names, key=len, default=None)


def within(path, room):
    if room.endswith("/."):
        return path.rsplit("/", 1)[0] == room[:-2]
    return path.startswith(f"{room}/")


def target_of(root, path, name):
    """The file of this tree that an include of `name` in `path` means, or None."""
    for folder in (pathlib.PurePosixPath(path).parent, pathlib.PurePosixPath("."),
                   pathlib.PurePosixPath("include"), pathlib.PurePosixPath("backends")):
        candidate = str(folder / name)
        if (root / candidate).is_file():
            return candidate
    return None


def main():
    root = pathlib.Path(sys.argv[1])
    faults, includes, arrows = [], {}, 0
    for top in ("include", "core", "backends"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in (".hpp", ".h", ".cpp", ".inl", ".cu", ".hip", ".c"):
                continue
            path = file.relative_to(root).as_posix()
            room = room_of(path)
            if room is None:
                faults.append(f"{path}: no rule for its folder")
                continue
            may = SEAMS.get(path, RULES[room])
            for number, line in enumerate(file.read_text().splitlines(), 1):
                found = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
                if not found:
                    continue
                target = target_of(root, path, found[1])
                if target is None:
                    if found[1] in CONTRACT and not within(path, "backends/gpu/."):
                        faults.append(f"{path}:{number}: {found[1]} is for gpu/contract.hpp")
                    continue
                arrows += 1
                includes.setdefault(path, []).append(target)
                if not within(target, room) and not any(
                        within(target, other) for other in [*may, "core", "include"]
                        if room != "include" or other == "include"):
                    faults.append(f"{path}:{number}: {room} may not include {target}")

    done, way = set(), []

    def follow(path):
        if path in way:
            faults.append("a circle: " + " -> ".join([*way[way.index(path):], path]))
        elif path not in done:
            way.append(path)
            for target in includes.get(path, []):
                follow(target)
            way.pop()
            done.add(path)

    for path in includes:
        follow(path)
    for fault in faults:
        print(fault)
    print(f"{arrows} includes, {len(faults)} that go the wrong way")
    return 1 if faults or arrows < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
