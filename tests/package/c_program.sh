#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# c_program.sh PREFIX BACKEND COMPILER PROGRAM SOURCE: builds a program in C99 against the installed
# shared library, with nothing else on the command line, and runs it.
set -eu
library=$(dirname "$(find "$1" -name "libsoftfold_$2.so")")
"$3" -std=c99 -pedantic-errors -Wall -Wextra -Werror "$5" -I "$1/include" \
  -L "$library" -Wl,-rpath,"$library" "-lsoftfold_$2" -lm -o "$4"
"$4"
