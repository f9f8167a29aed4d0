// SPDX-License-Identifier: Apache-2.0
// run_with_isa ISA PROGRAM [ARGUMENT...]: runs a program with SOFTFOLD_ISA set. Exits with 77 if
// this processor lacks the instruction set.
#include <softfold/softfold.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: run_with_isa ISA PROGRAM [ARGUMENT...]\n");
    return 2;
  }
  setenv("SOFTFOLD_ISA", argv[1], 1);
  try {
    const softfold::queue q;
    if (q.info().isa != argv[1]) {
      std::fprintf(stderr, "asked for %s, got %s\n", argv[1], q.info().isa.c_str());
      return 1;
    }
  } catch (const softfold::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 77;
  }
  execv(argv[2], argv + 2);
  std::perror(argv[2]);
  return 1;
}
