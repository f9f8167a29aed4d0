#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# no_shared_code.sh NM ISA OBJECTS...: the object of isa/ISA.cpp defines no function that the
# linker could pick for other translation units: code compiled for a wide instruction set must
# not run on a processor that lacks it.
set -euo pipefail
nm=$1 isa=$2
shift 2
for object in "$@"; do
  if [[ $object == */isa/$isa.cpp.o ]]; then
    symbols=$("$nm" --defined-only -C "$object")
    if shared=$(grep -E '^[0-9a-f]* [TWVui] ' <<<"$symbols"); then
      echo "$object shares code:"
      echo "$shared"
      exit 1
    fi
    if ! grep -q "${isa}_kernels$" <<<"$symbols"; then
      echo "$object does not define the kernel table ${isa}_kernels"
      exit 1
    fi
    exit 0
  fi
done
echo "no object of isa/$isa.cpp among: $*"
exit 1
