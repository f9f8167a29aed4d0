#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# unload.sh PREFIX BACKEND COMPILER PROGRAM: builds unload.c and runs it on the installed shared
# library. Five processes: what it looks for is a race.
set -eu
library=$(find "$1" -name "libsoftfold_$2.so")
"$3" -std=c99 -Wall -Wextra -Werror -D_POSIX_C_SOURCE=200809L "$(dirname "$0")/unload.c" \
  -I "$1/include" -ldl -o "$4"
for _ in 1 2 3 4 5; do "$4" "$library"; done
