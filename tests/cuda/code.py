#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what nvcc made of the kernels: fails, naming the kernel and the architecture, if a tuned one
keeps registers in memory, or reads or writes local memory elsewhere than on its stack. nvcc 13.0 has
taken a matrix for local memory, where structures held its address and that of a kernel's arguments.

    code.py OBJECT...

Reads the cubins in the host objects, which are ELF files, uncompressed; in their section .nv.info
each kernel's stack frame is an attribute. No tool of the CUDA toolkit is needed.
"""
import collections
import pathlib
import re
import struct
import subprocess
import sys

ELF = b"\x7fELF"
EM_CUDA = 190
SHT_SYMTAB = 2
SIZED = 4  # format of an attribute: two bytes of length, then so many
FRAME_SIZE = 0x11  # a symbol's number and its bytes of stack
LOCAL = (0x983, 0x387, 0x987)  # LDL and STL: the low 12 bits of an instruction's 16 bytes
STACK_POINTER = 1  # R1

# Kernels whose time is that of their loads and arithmetic, and the bytes of stack that they may
# have: what nvcc 13.0 gives them, at most, for sm_80, sm_90 and sm_100.
TUNED = {
    "map_rows_by_lanes": 8,
    "map_row_by_block": 0,
    "map_row_by_cluster": 8,
    "map_held_chunks": 8,
    "map_ring_of_chunks": 0,
    "map_chunks_together": 24,
    "map_chunk": 0,
    "reduce_rows_by_lanes": 0,
    "reduce_chunk": 0,
    "reduce_clustered_chunks": 0,
    "finish_rows": 0,
    "finish_long_rows": 0,
    "topk_rows_by_lanes": 0,
    "topk_rows_by_packs": 8,
    "topk_rows_by_sorting": 0,
    "topk_bounded": 0,
    "topk_chunks": 8,
    "topk_merge": 0,
    "attention_by_lanes": 88,
    "attention_by_tiles": 528,
    "attention_few": 32,
    "attention_tiles": 240,
    "attention_exact": 688,
    "attention_by_groups": 64,  # of 256 dimensions: around its loops
    "attention_combine_few": 0,
    "attention_combine_chunks": 0,
    "edit_rows": 0,
    "race_chunks": 0,
    "race_finish": 0,
    "stair_chunks": 0,
    "stair_finish": 0,
    "sample_in_rounds": 8,
    "totals_by_tiles": 0,
    "total_chunks": 0,
    "map_totals_by_lanes": 48,
    "map_total_by_block": 88,
    "map_total_by_cluster": 80,
    "map_rows_by_total": 0,
    "map_chunks_by_total": 0,
    "gradient_tiles": 0,
    "map_gradients": 0,
    "scan_by_block": 56,  # of 16-bit elements: mostly around calls of what is rare
}
# The same for kernels of a job.
OF_JOBS = {
    ("map_row_by_block", "gradient_map"): 80,  # 16-bit elements of two matrices
}
# Of a library that is compiled for other architectures than these there are none.
OF_ARCHITECTURES = {"attention_by_groups": "sm_90"}
# They give an array's address to a function that is not in line.
CALLERS = {"attention_exact", "attention_few", "attention_tiles"}
# Those that may have more than others of their name.
EXCEPTED = {
    "topk_rows_by_lanes<32, 1, bfloat16, 8>": 8,
    "topk_rows_by_lanes<32, 32, float, 4>": 8,
}


class Cubin:
    def __init__(self, data):
        (self.machine,) = struct.unpack_from("<H", data, 18)
        if self.machine != EM_CUDA:
            return
        (offset,) = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
        strings = headers[names][4]
        self.sections = {}
        self.symbols = []
        for header in headers:
            body = data[header[4]:header[4] + header[5]]
            self.sections[text(data, strings + header[0])] = body
            if header[1] == SHT_SYMTAB:
                table = headers[header[6]][4]
                self.symbols = [text(data, table + struct.unpack_from("<I", body, at)[0])
                                for at in range(0, len(body), 24)]

    def architectures(self):
        found = re.findall(rb"-arch\s+(sm_\d+\w?)", b"".join(self.sections.values()))
        return b" ".join(sorted(set(found))).decode() or "?"

    def stacks(self):
        """(kernel's name, bytes of stack) of all."""
        info = self.sections.get(".nv.info", b"")
        at = 0
        while at + 4 <= len(info):
            form, attribute, length = struct.unpack_from("<BBH", info, at)
            at += 4
            if form != SIZED:
                continue
            if attribute == FRAME_SIZE:
                symbol, bytes_of_stack = struct.unpack_from("<II", info, at)
                yield self.symbols[symbol], bytes_of_stack
            at += length

    def beside_stack(self, name):
        """How many instructions of a kernel take local memory by another register than the stack's."""
        body = self.sections.get(".text." + name, b"")
        words = (struct.unpack_from("<Q", body, at)[0] for at in range(0, len(body) - 15, 16))
        return sum(word & 0xfff in LOCAL and word >> 24 & 0xff != STACK_POINTER for word in words)


def text(data, at):
    return data[at:data.index(b"\0", at)].decode()


def cubins(path):
    data = pathlib.Path(path).read_bytes()
    at = data.find(ELF, 1)  # the object itself is one
    while at >= 0:
        cubin = Cubin(data[at:])
        if cubin.machine == EM_CUDA:
            yield cubin
        at = data.find(ELF, at + 1)


def demangled(names):
    answer = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True,
                            text=True)
    return answer.stdout.splitlines()


def main():
    checked = collections.Counter()
    faults = []
    seen = set()
    for path in sys.argv[1:]:
        for cubin in cubins(path):
            seen.add(cubin.architectures())
            stacks = list(cubin.stacks())
            for name, (symbol, stack) in zip(demangled([s[0] for s in stacks]), stacks):
                kernel = re.search(r"(\w+)<", name) or re.search(r"(\w+)\(", name)
                kernel = kernel.group(1) if kernel else name
                if kernel not in TUNED:
                    continue
                checked[kernel] += 1
                instance = re.search(r"\w+<.*>(?=\()", name.replace("softfold::", ""))
                job = re.search(r"(\w+_map)<", name)
                limit = OF_JOBS.get((kernel, job.group(1) if job else ""), TUNED[kernel])
                limit = EXCEPTED.get(instance.group(0) if instance else "", limit)
                if stack > limit:
                    faults.append(f"{cubin.architectures()}: {stack} bytes of stack in {name}")
                if kernel not in CALLERS and cubin.beside_stack(symbol) > 0:
                    faults.append(f"{cubin.architectures()}: local memory beside the stack in {name}")
    absent = {kernel for kernel, sm in OF_ARCHITECTURES.items() if sm not in seen}
    missing = sorted(set(TUNED) - set(checked) - absent)
    for fault in faults:
        print(fault)
    for kernel in missing:
        print(f"no {kernel} in the objects")
    print(f"{sum(checked.values())} kernels, {len(faults)} faults")
    return 1 if faults or missing or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
