#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# symbols.sh PREFIX BACKEND: the shared library exports softfold's names and no others.
set -eu
library=$(find "$1" -name "libsoftfold_$2.so")
exported=$(nm --dynamic --defined-only --demangle --format=posix "$library" |
  sed -E 's/ [A-Za-z] [0-9a-f]+( [0-9a-f]+)?$//; s/ [A-Za-z] *$//')
own='^((typeinfo|typeinfo name|vtable|guard variable|VTT) for )?softfold::|^softfold_[a-z0-9_]+$'

if ! printf '%s\n' "$exported" | grep -q '^softfold::.*softmax_topk('; then
  echo "no softfold::softmax_topk in $library"
  exit 1
fi
others=$(printf '%s\n' "$exported" | grep -vE "$own" || true)
if [ -n "$others" ]; then
  printf 'exported, but not of softfold:\n%s\n' "$others"
  exit 1
fi
printf '%s symbols, all of softfold\n' "$(printf '%s\n' "$exported" | wc -l)"
