#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the code that the compiler made of the kernels for one architecture.

    code.py --target gfx90a --tools DIRECTORY-OR-SUFFIX... OBJECT...

Reads the metadata and the disassembly of every kernel in the host objects and fails, naming the
kernel, if one uses scratch memory, spills, lost its 128-bit loads or stores or the moves between
lanes of its reductions, needs more registers or LDS than the plans reckon with, or if a kernel for
the other wavefront width is more than a trap.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

# Registers of a lane of one SIMD, allocated in granules, and its most wavefronts: LLVM's "User Guide
# for AMDGPU Backend" and the instruction set references.
Target = collections.namedtuple("Target", "lanes registers granule waves")
GCN = Target(64, 256, 4, 10)  # gfx908's accumulation registers are others
TARGETS = {
    "gfx900": GCN, "gfx906": GCN, "gfx908": GCN,
    "gfx90a": Target(64, 512, 8, 8), "gfx940": Target(64, 512, 8, 8), "gfx942": Target(64, 512, 8, 8),
    "gfx1030": Target(32, 1024, 16, 16), "gfx1100": Target(32, 1536, 24, 16),
}

# What a kind of kernel has to have. vectors: of each thread, if no template argument tells.
# in_flight: KiB of loads on their way to a compute unit, which its wavefronts' number decides.
# sgpr_spills: to lanes of vector registers, at most; they take no memory. flat: pointers to the LDS
# or to global memory.
# lds: KiB of it that are static; the plans leave as much of the 64 KiB. private: bytes of memory that
# a thread has for itself; vgpr_spills: of them, registers kept there.
Kind = collections.namedtuple(
    "Kind", "loads stores reduces vectors in_flight sgpr_spills flat lds private vgpr_spills",
    defaults=(0, 48, 0, False, 2, 0, 0))
KINDS = {
    "map_rows_by_lanes": Kind(True, True, True),
    "map_row_by_block": Kind(True, True, True),
    "map_chunk": Kind(True, True, True),
    "reduce_rows_by_lanes": Kind(True, False, True),
    "reduce_chunk": Kind(True, False, True, vectors=8),
    "finish_rows": Kind(False, False, True, vectors=1),
    "finish_long_rows": Kind(False, False, True, vectors=1),
    "topk_scan_chunk": Kind(True, False, True, vectors=8),
    "topk_rows_by_lanes": Kind(True, False, True, in_flight=16),
    "topk_rows_by_packs": Kind(True, False, True, vectors=4, in_flight=16),
    "topk_rows_by_sorting": Kind(True, False, True, in_flight=16),
    "topk_bounded": Kind(True, False, True, vectors=8, in_flight=32, sgpr_spills=96),
    "topk_chunks": Kind(True, False, True, vectors=8, sgpr_spills=144, lds=22),
    "topk_merge": Kind(False, False, True, vectors=1, sgpr_spills=40, lds=12),
    "topk_row": Kind(True, False, True, vectors=8, sgpr_spills=80, flat=True, lds=6),
    "combine_states_of_rows": Kind(False, False, False, vectors=1),
    "logsumexp_of_rows": Kind(False, False, False, vectors=1),
    "merge_lists": Kind(False, False, False, vectors=1),
    "sample_rows_by_block": Kind(False, False, False, vectors=1, in_flight=0, sgpr_spills=24,
                                 flat=True),
    "race_chunks": Kind(True, False, False, vectors=2, in_flight=0, sgpr_spills=56, lds=5),
    "race_finish": Kind(False, False, False, vectors=1, in_flight=0, sgpr_spills=32, lds=3),
    "sample_from_lists": Kind(False, False, False, vectors=1, in_flight=0),
    "sample_in_rounds": Kind(True, False, True, vectors=2, in_flight=0, sgpr_spills=400, lds=9),
    "stair_chunks": Kind(True, False, True, vectors=2, in_flight=0, lds=20),
    "stair_finish": Kind(True, False, True, vectors=2, in_flight=0, sgpr_spills=400, flat=True, lds=24),
    "raw_of_rows": Kind(False, False, True, vectors=1, in_flight=0),
    "totals_by_tiles": Kind(True, False, True, vectors=8, lds=9),
    "total_chunks": Kind(True, False, True, vectors=2, in_flight=0),
    "total_of_parts": Kind(False, False, True, vectors=1, in_flight=0, lds=5),
    "map_totals_by_lanes": Kind(True, True, True),
    "map_total_by_block": Kind(True, True, True),
    "totals_of_states": Kind(False, False, False, vectors=1, in_flight=0),
    "map_rows_by_total": Kind(True, True, False, vectors=1, in_flight=0),
    "map_chunks_by_total": Kind(True, True, False, vectors=4, in_flight=0),
    "map_list_by_total": Kind(False, False, False, vectors=1, in_flight=0),
    "gradient_tiles": Kind(True, False, True, vectors=2, in_flight=0),
    "gradient_rows": Kind(False, False, False, vectors=1, in_flight=0),
    "map_gradients": Kind(True, True, False, vectors=1, in_flight=0),
    "fold_sample_by_block": Kind(False, False, False, vectors=1, in_flight=0, sgpr_spills=16),
    "combine_sample_states": Kind(False, False, False, vectors=1, in_flight=0),
    "finish_sample_states": Kind(False, False, False, vectors=1, in_flight=0),
    "verify_coupled_chains": Kind(False, False, False, vectors=1, in_flight=0),
    "verify_chains_by_ratio": Kind(False, False, False, vectors=1, in_flight=0, sgpr_spills=176),
    "edit_rows": Kind(True, False, False, vectors=1, in_flight=0, sgpr_spills=32),
    "narrow_rows": Kind(False, False, False, vectors=1),
    "scan_by_block": Kind(True, False, False, vectors=1, in_flight=0, sgpr_spills=64, lds=7),
    "scan_spans": Kind(False, False, False, vectors=1, in_flight=0),
    "scan_fold": Kind(False, False, False, vectors=1, lds=8),
    "scan_carries": Kind(False, False, False, vectors=1, in_flight=8, lds=8),
    "scan_chunks": Kind(False, False, False, vectors=1, lds=12),
    "settle_lists": Kind(False, False, False, vectors=1),
    "attention_by_lanes": Kind(False, False, False, vectors=1, in_flight=0, sgpr_spills=112, lds=36),
    # Sums of many tiles, and what only what is before and after the loop over tiles needs.
    "attention_by_tiles": Kind(False, False, False, vectors=1, in_flight=0, sgpr_spills=328,
                               private=624, vgpr_spills=80),
    "attention_combine_chunks": Kind(False, False, False, vectors=1, lds=11),
    "attention_combine_few": Kind(False, False, False, vectors=1),
    "attention_combine_states": Kind(False, False, False, vectors=1),
    "attention_normalize_states": Kind(False, False, False, vectors=1),
}
FORBIDDEN = re.compile(r"^(scratch_|buffer_(load|store)|flat_(load|store)_dwordx4|s_swappc)")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def code_object(tools, target, host_object, directory):
    """The target's code in a host object, if it has some."""
    bundle, code = pathlib.Path(directory, "bundle"), pathlib.Path(directory, "code")
    run(tools.objcopy, f"--dump-section=.hip_fatbin={bundle}", host_object, "/dev/null")
    names = [n for n in run(tools.bundler, "-list", "-type=o", f"-input={bundle}").split()
             if n.split("--")[-1].split(":")[0] == target]
    if not names:
        return None
    run(tools.bundler, "-unbundle", "-type=o", f"-input={bundle}", f"-targets={names[0]}",
        f"-output={code}")
    return code


def metadata_of(tools, code):
    """Symbol -> {key: number} of every kernel."""
    kernels = {}
    for part in re.split(r"\n  - ", run(tools.readelf, "--notes", code))[1:]:
        values = dict(re.findall(r"^ *\.(\w+): +(\S+)$", part, re.M))
        if "wavefront_size" in values:
            kernels[values["name"]] = {k: int(v) for k, v in values.items() if v.isdigit()}
            kernels[values["name"]]["dynamic_stack"] = values.get("uses_dynamic_stack") == "true"
    return kernels


def instructions_of(tools, code):
    """Symbol -> Counter of mnemonics."""
    counts, current = {}, None
    for line in run(tools.objdump, "-d", "--no-show-raw-insn", code).splitlines():
        if label := re.match(r"[0-9a-f]+ <(.+)>:$", line):
            current = counts.setdefault(label[1], collections.Counter())
        elif current is not None and (instruction := re.match(r"\t(\w+)", line)):
            current[instruction[1]] += 1
    return counts


# Of "map_rows_by_lanes<64, (...row_ends)0, ...softmax_map<(...map_operation)1, half, float>, 8>(...)".
ELEMENT_BYTES = {"float": 4, "double": 8, "half": 2, "bfloat16": 2}
MATRICES = {"gradient_map": 2, "gradient_fold": 2}  # that a job reads; others one


def split(arguments):
    """Of a template, at its own commas."""
    parts, depth = [""], 0
    for character in arguments:
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


# What kernels with a template argument have to have other than those of their name.
EXCEPTED = {
    ("race_chunks", "masked_rows"): {"sgpr_spills": 80},
    ("sample_from_lists", "unmerged_lists"): {"reduces": True, "sgpr_spills": 80, "lds": 12},
}


def parsed(name):
    """Kind, template arguments."""
    match = re.search(r"::(\w+)(?:<(.*)>)?\(", name)
    arguments = split(match[2]) if match and match[2] else []
    return (match[1] if match else name), [re.sub(r"\(?(\w+::)+(\w+\))?", "", a) for a in arguments]


def job_of(arguments):
    """A kernel's job: its name and the bytes of its types' elements; or those of the kernel's own."""
    for argument in arguments:
        if match := re.match(r"(\w+)<(.*)>$", argument):
            return match[1], [ELEMENT_BYTES[a] for a in split(match[2]) if a in ELEMENT_BYTES]
    return "", [ELEMENT_BYTES[a] for a in arguments if a in ELEMENT_BYTES]


def faults(kind_name, arguments, target, data, counts):
    """What is wrong with a kernel; and how many of its wavefronts a SIMD takes."""
    kind = KINDS.get(kind_name)
    if kind is None:
        yield "a kernel that this test does not know"
        return
    for (kernel, argument), other in EXCEPTED.items():
        if kernel == kind_name and any(a.startswith(argument) for a in arguments):
            kind = kind._replace(**other)
    if data["wavefront_size"] != target.lanes:
        yield f"wavefronts of {data['wavefront_size']} lanes"
    if arguments and arguments[0].isdigit() and int(arguments[0]) != target.lanes:
        if counts["s_trap"] != 1 or sum(counts.values()) - counts["s_nop"] - counts["s_code_end"] > 8:
            yield "code for another wavefront width, and not just a trap"
        return
    for key, most in (("private_segment_fixed_size", kind.private),
                      ("vgpr_spill_count", kind.vgpr_spills), ("dynamic_stack", 0)):
        if data[key] > most:
            yield f"{key} is {data[key]}"
    if data["sgpr_spill_count"] > kind.sgpr_spills:
        yield f"{data['sgpr_spill_count']} spills of scalar registers"
    for mnemonic in counts:
        if FORBIDDEN.match(mnemonic) and not (kind.flat and mnemonic.startswith("flat_")) and not (
                kind.private and mnemonic.startswith(("scratch_", "buffer_"))):
            yield f"{counts[mnemonic]} {mnemonic}"
    if data["group_segment_fixed_size"] > kind.lds << 10:
        yield f"{data['group_segment_fixed_size']} bytes of LDS"
    job, types = job_of(arguments)
    vectors = (kind.vectors or int(arguments[-1])) * MATRICES.get(job, 1)
    least = least_waves(target, data, vectors, kind.in_flight)
    if waves_of(target, data) < least:
        yield f"{data['vgpr_count']} registers: {waves_of(target, data)} wavefronts, not {least}"
    if kind.loads and counts["global_load_dwordx4"] < vectors:
        yield f"{counts['global_load_dwordx4']} 128-bit loads for {vectors} vectors"
    if kind.stores:
        wanted = vectors // MATRICES.get(job, 1) * types[-1] // types[0]
        if counts["global_store_dwordx4"] < wanted:
            yield f"{counts['global_store_dwordx4']} 128-bit stores for {wanted} vectors"
    if kind.reduces:
        if not any(m.endswith("_dpp") for m in counts):
            yield "no data-parallel primitives"
        if not counts["ds_swizzle_b32"]:
            yield "no ds_swizzle_b32"
        if target.lanes == 64 and not counts["ds_bpermute_b32"]:
            yield "no ds_bpermute_b32"


def least_waves(target, data, vectors, in_flight):
    """On each of four SIMDs: those of a whole block, and what keeps the loads coming."""
    of_block = data["max_flat_workgroup_size"] // (4 * target.lanes)
    for_loads = -(-(in_flight << 10) // (4 * target.lanes * 16 * vectors))
    return max(of_block, min(for_loads, 4 * 64 // target.lanes))


def waves_of(target, data):
    used = data["vgpr_count"] + (data.get("agpr_count", 0) if target.registers == 512 else 0)
    return min(target.registers // (-(-max(used, 1) // target.granule) * target.granule),
               target.waves)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True)
    for tool in ("objcopy", "bundler", "readelf", "objdump", "cxxfilt"):
        parser.add_argument(f"--{tool}", required=True)
    parser.add_argument("objects", nargs="+")
    tools = parser.parse_args()
    target = TARGETS.get(tools.target)
    if target is None:
        sys.exit(f"{tools.target}: this test does not know its registers")

    bad, seen, widest = 0, collections.Counter(), {}
    with tempfile.TemporaryDirectory() as directory:
        for host_object in tools.objects:
            code = code_object(tools, tools.target, host_object, directory)
            if code is None:  # compiled for others: each kind of kernel has to be found all the same
                continue
            counts = instructions_of(tools, code)
            kernels = metadata_of(tools, code)
            names = run(tools.cxxfilt, *kernels).splitlines()
            for (symbol, data), name in zip(kernels.items(), names):
                kind, arguments = parsed(name)
                seen[kind] += 1
                for fault in faults(kind, arguments, target, data, counts[symbol]):
                    bad += 1
                    print(f"{tools.target}: {kind}<{', '.join(arguments)}>: {fault}")
                widest[kind] = max(widest.get(kind, (0,)), (data["vgpr_count"], waves_of(target, data)))
    for kind in KINDS:
        if not seen[kind]:
            bad += 1
            print(f"{tools.target}: no kernel {kind} was found")
        else:
            registers, waves = widest[kind]
            print(f"{tools.target}: {kind}: {seen[kind]} kernels, up to {registers} vector registers,"
                  f" {waves} wavefronts on a SIMD")
    if bad:
        sys.exit(f"{bad} faults")


main()
