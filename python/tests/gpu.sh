#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the Python tests on a machine with a CUDA device, in the environment of an interpreter that has
# NumPy, SciPy, pytest, hypothesis, ml_dtypes and torch with CUDA; with CuPy and JAX too, if they are
# there. Needs no network and installs nothing into that environment.
#
#   python/tests/gpu.sh WHEEL...   with these wheels of softfold and softfold-cu13
#   python/tests/gpu.sh            with both packages built here, which takes nvcc, oneTBB, zlib and
#                                  their headers, scikit-build-core and nanobind; for the architectures
#                                  of CUDAARCHS, by default those of this machine's devices
#
# PYTHON is the interpreter, python3 by default; arguments of pytest come by PYTEST_ADDOPTS. The last
# line is pytest's count, and the status its.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${PYTHON:-python3}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT

packages=("$@")
options=()
if ((${#packages[@]} == 0)); then
  packages=("$root/python" "$root/python/cuda")
  options=(--no-build-isolation --config-settings "cmake.define.CMAKE_CUDA_ARCHITECTURES=${CUDAARCHS:-native}")
  export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
fi
"$python" -m pip install --quiet --no-index --no-deps --no-compile "${options[@]}" --target "$site" \
  "${packages[@]}"

cd "$site"
export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH} SOFTFOLD_REQUIRE_GPU=1
"$python" - <<'PROGRAM'
import softfold, sys
print(f"softfold {softfold.__version__}, Python {sys.version.split()[0]}:", softfold.info(), softfold.info("cuda"))
PROGRAM
# JAX would take most of the device's memory, which torch and CuPy use too.
export XLA_PYTHON_CLIENT_PREALLOCATE=false
"$python" -m pytest -p no:cacheprovider -q "$root/python/tests"
