# SPDX-License-Identifier: Apache-2.0
"""Arrays in a GPU's memory, as far as a machine without one can tell: which library is loaded, which
stream a call gets, what is said where there is no GPU. The library is tests/stub_cuda.cpp, the
arrays are the host's that say to be a GPU's."""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

import softfold

HERE = pathlib.Path(__file__).parent
HEADERS = HERE.parent.parent / "include"

# A class of arrays like CuPy's: memory of the host under a GPU's name.
ARRAYS = '''
import ctypes, math, sys, types

class Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]

class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device", ctypes.c_int32), ("ndim", ctypes.c_int32), ("type", Type),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

capsule_of = ctypes.pythonapi.PyCapsule_New
capsule_of.restype = ctypes.py_object
capsule_of.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

class ndarray:
    device_type = 2

    def __init__(self, values, shape=None, dtype="float32"):
        self.values = (ctypes.c_float * len(values))(*values)
        self.shape, self.dtype, self.asked = shape or (len(values),), dtype, []

    def __dlpack_device__(self):
        return self.device_type, 0

    def __dlpack__(self, *, stream=None):
        self.asked.append(stream)
        n = len(self.shape)
        self.held = ((ctypes.c_int64 * n)(*self.shape), None)
        self.tensor = Tensor(ctypes.addressof(self.values), self.device_type, 0, n, Type(2, 32, 1),
                             self.held[0], None, 0, None, None)
        return capsule_of(ctypes.addressof(self.tensor), b"dltensor", None)

cupy = types.ModuleType("cupy")
cupy.ndarray, cupy.from_dlpack, cupy.float32 = ndarray, None, "float32"
cupy.empty = lambda shape, dtype: ndarray([0.0] * math.prod(shape), shape, dtype)
cupy.cuda = types.SimpleNamespace(
    get_current_stream=lambda: types.SimpleNamespace(ptr=0x1234))
ndarray.__module__ = "cupy"
sys.modules["cupy"] = cupy

import softfold
'''


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stub")
    made = folder / "libstub.so"
    used = re.findall(r"X\((\w+)\)", (HERE.parent / "module" / "functions.hpp").read_text())
    written = re.findall(r"softfold_(\w+)\(", (HERE / "stub_cuda.cpp").read_text())
    rest = [name for name in used if name not in written]
    (folder / "stubs.inc").write_text("".join(f"STUB({name})\n" for name in rest))
    subprocess.run(
        ["g++", "-shared", "-fPIC", f"-I{HEADERS}", f"-I{folder}", f'-DSTUB_VERSION="{softfold.__version__}"',
         HERE / "stub_cuda.cpp", "-o", made],
        check=True,
    )  # fmt: skip
    return made


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", ARRAYS + textwrap.dedent(program)],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "SOFTFOLD_CUDA_LIBRARY": "", **environment},
    )  # fmt: skip


def output(program, **environment):
    done = run(program, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_the_package_one_sentence_says_so():
    for call in ("softfold.softmax(ndarray([1.0, 2.0]))", "softfold.info('cuda')"):
        done = run(
            f"""
            import importlib.metadata
            importlib.metadata.entry_points = lambda **_: ()  # also where the package is installed
            {call}
            """
        )
        assert done.stderr.splitlines()[-1] == (
            "RuntimeError: softfold: the cuda backend is in the package softfold-cu13, which is not "
            "installed"
        )


def test_without_a_gpu_the_librarys_text_says_so(stub):
    done = run(
        "softfold.softmax(ndarray([1.0, 2.0]))", SOFTFOLD_CUDA_LIBRARY=str(stub), STUB_NO_GPU="1"
    )
    assert done.stderr.splitlines()[-1].endswith("no CUDA-capable device is detected")


def test_a_call_goes_to_the_library_and_the_arrays_stream(stub):
    done = output(
        """
        import os
        library = ctypes.CDLL(os.environ["SOFTFOLD_CUDA_LIBRARY"])
        stream = ctypes.c_void_p.in_dll(library, "stub_stream")
        queues = ctypes.c_int.in_dll(library, "stub_queues")
        x = ndarray([1.0, 2.0])
        y = softfold.softmax(x)
        assert type(y) is ndarray and list(y.values) == [2.0, 4.0]
        assert x.asked == [-1], x.asked
        assert stream.value == 0x1234
        assert list(softfold.softmax(x, out=y).values) == [2.0, 4.0]
        assert queues.value == 1
        for given in (0x55, types.SimpleNamespace(ptr=0x55), types.SimpleNamespace(cuda_stream=0x55)):
            softfold.softmax(x, stream=given)
            assert stream.value == 0x55
        assert queues.value == 2
        softfold.softmax(x, stream=0)
        assert stream.value is None
        try:
            softfold.softmax(x, stream="main")
        except TypeError as error:
            assert "stream is 'main'" in str(error)
        else:
            raise SystemExit("no error")
        print("fine")
        """,
        SOFTFOLD_CUDA_LIBRARY=str(stub),
    )
    assert done == "fine\n"


def test_states_go_to_the_library_and_come_back(stub):
    done = output(
        """
        import numpy, os
        library = ctypes.CDLL(os.environ["SOFTFOLD_CUDA_LIBRARY"])
        x = numpy.zeros((2, 3), "float32")
        states, folded = (softfold.States(2, sampling={"seed": 7}) for _ in range(2))
        before = states.to_bytes()
        try:
            states.fold(ndarray([0.0] * 6, (2, 3)), 5)
        except RuntimeError as error:
            assert "fold_with_options: no" in str(error)
        assert states.to_bytes() == before
        folded.fold(x, 5)
        one = softfold.States(2, sampling={"seed": 7})
        one.fold(x[:, :1], 0)
        written = folded.to_bytes()
        ctypes.c_char_p.in_dll(library, "stub_folded").value = written
        one.fold(ndarray([0.0] * 6, (2, 3)), 5)  # of as many bytes: one range of columns
        assert ctypes.c_int64.in_dll(library, "stub_offset").value == 3005
        assert one.to_bytes() == written
        print("fine")
        """,
        SOFTFOLD_CUDA_LIBRARY=str(stub),
    )
    assert done == "fine\n"


def test_arrays_of_two_devices_do_not_mix(stub):
    done = run(
        """
        import numpy
        softfold.softmax(ndarray([1.0, 2.0]), out=numpy.zeros(2, "float32"))
        """,
        SOFTFOLD_CUDA_LIBRARY=str(stub),
    )
    assert "out is in the memory of cpu, expected cuda:0, where x is" in done.stderr


def test_another_version_is_refused(stub):
    done = run(
        "softfold.softmax(ndarray([1.0, 2.0]))",
        SOFTFOLD_CUDA_LIBRARY=str(stub),
        STUB_VERSION="7.0.0",
    )
    assert re.search(r"RuntimeError: softfold: .*libstub.so has version 7.0.0", done.stderr)


def test_a_file_that_is_no_library(tmp_path):
    no_library = tmp_path / "libx.so"
    no_library.write_text("x")
    done = run("softfold.info('cuda')", SOFTFOLD_CUDA_LIBRARY=str(no_library))
    assert "RuntimeError: softfold: " in done.stderr and "libx.so" in done.stderr


def test_devices_that_no_backend_serves():
    done = run(
        """
        ndarray.device_type = 10
        softfold.softmax(ndarray([1.0, 2.0]))
        """
    )
    assert "TypeError: softmax: x.device is rocm:0, expected" in done.stderr


def test_an_entry_point_names_the_library(tmp_path, stub):
    (tmp_path / "softfold_cu13").mkdir()
    (tmp_path / "softfold_cu13" / "__init__.py").touch()  # first, also where the package is installed
    (tmp_path / "softfold_cu13" / "libsoftfold_cuda.so").symlink_to(stub)
    about = tmp_path / "softfold_cu13-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: softfold-cu13\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text("[softfold.backends]\ncuda = softfold_cu13\n")
    done = output(
        "print(list(softfold.softmax(ndarray([1.0, 2.0])).values))",
        PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
        PYTHONSAFEPATH="1",
    )
    assert done == "[2.0, 4.0]\n"
