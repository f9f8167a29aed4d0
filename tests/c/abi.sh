#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# abi.sh check COMPILER DIRECTORY: compares the ABI of the C interface with the stored one, by
# abidiff of libabigail. Every difference fails: one that breaks programs is a mistake or a new
# version; one that does not is to be stored, so that it is held to from then on:
# abi.sh update COMPILER DIRECTORY
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
stored=$here/softfold_c.abi
action=$1 compiler=$2 directory=$3

# Only what the interface is compiled from: a shared object of this one source, with its debug
# information, whose other symbols stay undefined.
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
cd "$root"  # relative names below: the stored file must not have this machine's
"$compiler" -std=c++20 -g -shared -fPIC -fvisibility=hidden -fvisibility-inlines-hidden \
  -DSOFTFOLD_BACKEND=cpu -I include -I . core/c_interface.cpp \
  -Wl,--version-script="$here/c_only.map" -o "$directory/libsoftfold_c.so"
abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-write-default-sizes \
  --no-elf-needed --exported-interfaces-only --header-file include/softfold/softfold.h \
  --drop-private-types --drop-undefined-syms --out-file "$directory/new.abi" "$directory/libsoftfold_c.so"

case $action in
  update) cp "$directory/new.abi" "$stored" ;;
  check) abidiff "$stored" "$directory/new.abi" ;;
  *) echo "abi.sh: check or update" >&2; exit 2 ;;
esac
