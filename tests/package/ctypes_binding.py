#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ctypes_binding.py PREFIX BACKEND: the C interface as another language meets it. Loads the
installed shared library, finds every function that the installed header declares, and runs a
softmax + top-k and states that travel as bytes. Standard library only."""

import ctypes
import math
import pathlib
import re
import sys

prefix, backend = pathlib.Path(sys.argv[1]), sys.argv[2]
library = ctypes.CDLL(str(next(prefix.rglob(f"libsoftfold_{backend}.so"))))
header = (prefix / "include/softfold/softfold.h").read_text()

F32, I64 = 0, 5


class Matrix(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("rows", ctypes.c_int64), ("cols", ctypes.c_int64),
                ("stride", ctypes.c_int64), ("type", ctypes.c_int32), ("reserved", ctypes.c_int32)]


class Vector(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_int64), ("type", ctypes.c_int32),
                ("reserved", ctypes.c_int32)]


class TopkOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("scale", ctypes.c_double),
                ("empty_row", ctypes.c_int32), ("reserved", ctypes.c_int32),
                ("logits", ctypes.POINTER(Matrix)), ("lse", ctypes.POINTER(Vector))]


def functions_declared():
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    return re.findall(r"SOFTFOLD_C_API\s[^;]*?\b(softfold_\w+)\(", text)


for text in ("softfold_last_error", "softfold_status_name", "softfold_version", "softfold_backend"):
    getattr(library, text).restype = ctypes.c_char_p
library.softfold_buffer_data.restype = ctypes.c_void_p


def check(status):
    if status != 0:
        sys.exit(f"status {library.softfold_status_name(status).decode()}: "
                 f"{library.softfold_last_error().decode()}")


def expect(condition, what):
    if not condition:
        sys.exit(f"wrong: {what}")


class Buffer:
    """Memory of the queue's device, with the type and shape of a matrix."""

    def __init__(self, element, type_, rows, cols, values=None):
        self.array = (element * (rows * cols))(*(values or []))
        self.handle = ctypes.c_void_p()
        check(library.softfold_buffer_create(queue, ctypes.c_size_t(ctypes.sizeof(self.array)), 0,
                                             ctypes.byref(self.handle)))
        check(library.softfold_buffer_upload(queue, self.handle, self.array,
                                             ctypes.c_size_t(ctypes.sizeof(self.array)),
                                             ctypes.c_size_t(0)))
        data = library.softfold_buffer_data(self.handle)
        self.matrix = Matrix(data, rows, cols, cols, type_, 0)
        self.vector = Vector(data, rows, type_, 0)

    def values(self):
        check(library.softfold_buffer_download(queue, self.handle, self.array,
                                               ctypes.c_size_t(ctypes.sizeof(self.array)),
                                               ctypes.c_size_t(0)))
        check(library.softfold_queue_wait(queue))
        return list(self.array)


declared = functions_declared()
expect(len(declared) >= 30, f"only {len(declared)} functions found in the header")
for name in declared:
    expect(hasattr(library, name), f"{name} is declared but not exported")
expect(library.softfold_backend().decode() == backend, "softfold_backend")

queue = ctypes.c_void_p()
check(library.softfold_queue_create(None, ctypes.byref(queue)))
weights = [1, 2, 4, 3, 1, 7, 1, 1]
x = Buffer(ctypes.c_float, F32, 2, 4, [math.log(w) for w in weights])
probabilities = Buffer(ctypes.c_float, F32, 2, 2)
indices = Buffer(ctypes.c_int64, I64, 2, 2)
lse = Buffer(ctypes.c_float, F32, 2, 1)
options = TopkOptions(ctypes.sizeof(TopkOptions), 1.0, 0, 0, None, ctypes.pointer(lse.vector))
check(library.softfold_softmax_topk(queue, ctypes.byref(x.matrix),
                                    ctypes.byref(probabilities.matrix),
                                    ctypes.byref(indices.matrix), ctypes.byref(options)))
expect(indices.values() == [2, 3, 1, 0], f"indices {indices.values()}")
for found, exact in zip(probabilities.values() + lse.values(),
                        [0.4, 0.3, 0.7, 0.1, math.log(10), math.log(10)]):
    expect(abs(found - exact) < 1e-5, f"{found}, expected {exact}")

# Columns 2 and 3 folded here, sent as bytes, combined with 0 and 1.
halves = []
for first in (0, 2):
    states = ctypes.c_void_p()
    check(library.softfold_row_states_create(F32, ctypes.c_int64(2), ctypes.c_int64(2),
                                             ctypes.c_double(1), ctypes.byref(states)))
    part = Matrix(x.matrix.data + 4 * first, 2, 2, 4, F32, 0)
    check(library.softfold_row_states_fold(queue, states, ctypes.byref(part),
                                           ctypes.c_int64(first)))
    halves.append(states)
size = ctypes.c_size_t()
check(library.softfold_row_states_to_bytes(halves[1], None, ctypes.c_size_t(0),
                                           ctypes.byref(size)))
sent = ctypes.create_string_buffer(size.value)
check(library.softfold_row_states_to_bytes(halves[1], sent, size, ctypes.byref(size)))
expect(sent.raw[:4] == b"\x89SFS", "the format's magic")
received = ctypes.c_void_p()
check(library.softfold_row_states_from_bytes(sent.raw, size, ctypes.byref(received)))
check(library.softfold_row_states_combine(queue, halves[0], received))
found = (ctypes.c_float * 4)()
result = Matrix(ctypes.addressof(found), 2, 2, 2, F32, 0)
check(library.softfold_row_states_finish(queue, halves[0], None, ctypes.byref(result), 0))
for value, exact in zip(found, [0.4, 0.3, 0.7, 0.1]):
    expect(abs(value - exact) < 1e-5, f"{value}, expected {exact}")

status = library.softfold_row_states_from_bytes(sent.raw, ctypes.c_size_t(size.value - 1),
                                                ctypes.byref(received))
expect(library.softfold_status_name(status) == b"invalid_data", "truncated bytes")
expect(b"truncated" in library.softfold_last_error(), "the text for truncated bytes")
status = library.softfold_softmax(queue, None, ctypes.byref(x.matrix), None)
expect(library.softfold_status_name(status) == b"invalid_argument", "a null matrix")
for states in halves:
    library.softfold_row_states_destroy(states)
library.softfold_queue_destroy(queue)
print(f"{len(declared)} functions, ok")
