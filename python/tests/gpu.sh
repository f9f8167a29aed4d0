#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the Python tests on a machine with a CUDA device, in the environment of an interpreter that has
# NumPy, SciPy, pytest, hypothesis, ml_dtypes and torch with CUDA; with CuPy and JAX too, if they are
# there. Needs no network and installs nothing into that environment.
#
#   python/tests/gpu.sh PACKAGE...  with these wheels, or folders, of softfold and softfold-cu13
#   python/tests/gpu.sh             with python and python/cuda
#
# A folder is built, for the architectures of CUDAARCHS, by default those of this machine's devices: that
# takes what docs/python.md names, scikit-build-core and nanobind; nvcc and zlib for python/cuda.
#
# PYTHON is the interpreter, python3 by default; arguments of pytest come by PYTEST_ADDOPTS. The last
# line is "N passed, N failed"; what the machine lacks libraries for is skipped, and listed above it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${PYTHON:-python3}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT

if (($# == 0)); then set -- "$root/python" "$root/python/cuda"; fi
CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)} \
  "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-build-isolation \
  --config-settings "cmake.define.CMAKE_CUDA_ARCHITECTURES=${CUDAARCHS:-native}" --target "$site" "$@"

cd "$site"
export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH} SOFTFOLD_REQUIRE_GPU=1
"$python" - <<'PROGRAM'
import softfold, sys
print(f"softfold {softfold.__version__}, Python {sys.version.split()[0]}:", softfold.info(), softfold.info("cuda"))
PROGRAM
# JAX would take most of the device's memory, which torch and CuPy use too. Its arrays are the
# processor's in all tests but those of this device.
export XLA_PYTHON_CLIENT_PREALLOCATE=false
status=0
tests=$root/python/tests
JAX_PLATFORMS=cpu "$python" -m pytest -p no:cacheprovider -q "$tests" --ignore "$tests/test_gpu.py" |
  tee "$site/processor.log" || status=1
"$python" -m pytest -p no:cacheprovider -q "$tests/test_gpu.py" | tee "$site/device.log" || status=1
counted() { sed -nE "s/(.* |^)([0-9]+) ($1).* in .*/\2/p" "$site"/*.log | awk '{ n += $1 } END { print n + 0 }'; }
echo "$(counted passed) passed, $(counted 'failed|error') failed"
exit "$status"
