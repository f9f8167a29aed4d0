// SPDX-License-Identifier: Apache-2.0
// few_threads N PROGRAM [ARGUMENT...]: runs a program that can start N threads and no more, as in
// a container with a limit of processes. Exits with 77 where that cannot be arranged.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: few_threads N PROGRAM [ARGUMENT...]\n");
    return 2;
  }
  const auto threads = static_cast<rlim_t>(std::atoi(argv[1]));
  constexpr int skipped = 77;
  // The limit counts what runs for the user, and does not hold for root.
  if (geteuid() == 0) {
    const auto nobody_else = static_cast<uid_t>(2000000000 + getpid());
    if (setresuid(nobody_else, nobody_else, nobody_else) != 0) {
      std::perror("setresuid");
      return skipped;
    }
  } else if (threads > 0) {
    std::fprintf(stderr, "only root can make a user who runs nothing else\n");
    return skipped;
  }
  const rlimit limit = {threads + 1, threads + 1};
  if (setrlimit(RLIMIT_NPROC, &limit) != 0 || access(argv[2], X_OK) != 0) {
    std::perror(argv[2]);
    return skipped;
  }
  execv(argv[2], argv + 2);
  std::perror(argv[2]);
  return 1;
}
