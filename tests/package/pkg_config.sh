#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pkg_config.sh PREFIX BACKEND COMPILER OUTPUT: builds the consumer by what pkg-config says about
# the library under PREFIX, with a plain compiler command line, and runs it.
set -eu
prefix=$1 backend=$2 compiler=$3 output=$4
source=$(dirname "$0")/consumer.cpp

pc=$(find "$prefix" -name "softfold-$backend.pc")
PKG_CONFIG_PATH=$(dirname "$pc")${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags --libs "softfold-$backend")
libdir=$(pkg-config --variable=libdir "softfold-$backend")

set -x
# shellcheck disable=SC2086  # the flags are words
"$compiler" -std=c++20 "$source" $flags -o "$output"
LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$output"
