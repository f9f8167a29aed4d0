// SPDX-License-Identifier: Apache-2.0
// Every system call of the command fails in turn (fail_call.c). It must then succeed all the same
// or say what is wrong; no temporary file may stay, and the results are the old ones or the new
// ones.
#include "support.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

using namespace softfold;
using namespace softfold::test;

TEST_SUITE_BEGIN("faults");

namespace {

using contents = std::map<std::string, std::string>;

/// A command with its inputs, and with what it replaces and prints.
struct faulty : work_directory {
  std::vector<std::string> arguments;
  std::vector<std::string> results;
  bool replaces;
  contents expected;
  std::string printed;

  faulty(std::vector<std::string> command, std::vector<std::string> files, bool replaces_files)
      : arguments(std::move(command)), results(std::move(files)), replaces(replaces_files) {
    write_file(path("x.npy"), npy_bytes(random_array(dtype::f32, {5, 30}, 60)));
    write_file(path("y.npy"), npy_bytes(random_array(dtype::f32, {5, 30}, 61)));
    write_file(path("labels.txt"), "zero\none\ntwo\n");
    write_file(path("rows.txt"), "a\nb\nc\nd\ne\n");
    std::filesystem::create_directory(path("links"));
    std::filesystem::create_symlink("../behind.npy", path("links/out.npy"));
    write_file(path("behind.npy"), "old behind.npy");
    for (const auto& [input, state, offset] :
         {std::tuple{"x.npy", "x.st", "0"}, std::tuple{"y.npy", "y.st", "30"}}) {
      const outcome made =
          run({"fold", input, "-k", "3", "-o", state, "--column-offset", offset, "--threads", "1"});
      REQUIRE(made.exit_code == 0);
    }
    arguments.insert(arguments.end(), {"--threads", "1"});
    const outcome good = run(arguments);
    REQUIRE(good.err == "");
    REQUIRE(good.exit_code == 0);
    printed = good.out;
    for (const std::string& file : results) {
      expected[file] = read_file(path(file));
    }
  }

  /// Runs with the n-th call failing; the function's name, empty if there was no n-th call.
  std::string run_with_failure(int n, int code, const char* only, outcome& result) const {
    for (const std::string& file : results) {
      std::filesystem::remove(path(file));
      if (replaces) {
        write_file(path(file), "old " + file);
      }
    }
    const std::set<std::string> before = names();
    const work_directory elsewhere;
    const std::string hit = elsewhere.path("hit").string();
    result = run(arguments, [&] {
      setenv("LD_PRELOAD", SOFTFOLD_FAIL_CALL, 1);
      setenv("SOFTFOLD_TEST_CALL", std::to_string(n).c_str(), 1);
      setenv("SOFTFOLD_TEST_ERRNO", std::to_string(code).c_str(), 1);
      setenv("SOFTFOLD_TEST_HIT", hit.c_str(), 1);
      if (only != nullptr) {
        setenv("SOFTFOLD_TEST_ONLY", only, 1);
      }
    });
    std::string function;
    if (elsewhere.names().contains("hit")) {
      function = read_file(hit);
    }
    INFO("call " << n << ", " << function << ", errno " << code << "; " << result.err);
    check(result, before);
    return function;
  }

  void check(const outcome& result, const std::set<std::string>& before) const {
    CHECK(result.exit_code >= 0);
    CHECK(result.exit_code <= 2);
    CHECK((result.exit_code == 0) == result.err.empty());
    CHECK((result.exit_code == 0 || result.err.starts_with("softfold: ")));
    for (const std::string& name : names()) {
      CHECK(!name.starts_with(".softfold-"));
    }
    std::size_t old = 0;
    for (const std::string& file : results) {
      const bool exists = std::filesystem::exists(path(file));
      const std::string found = exists ? read_file(path(file)) : "";
      const bool is_old = replaces ? found == "old " + file : !exists;
      CHECK((is_old || found == expected.at(file)));
      old += is_old ? 1 : 0;
    }
    CHECK((old == 0 || old == results.size()));  // together
    if (result.exit_code == 0) {
      CHECK(old == 0);
      if (!arguments[0].starts_with("info")) {  // which says what it could find out
        CHECK(result.out == printed);
      }
    } else if (old == results.size()) {
      CHECK(names() == before);
    }
  }
};

struct tried_command {
  std::vector<std::string> arguments;
  std::vector<std::string> results;
};

const std::vector<tried_command> commands = {
    {{"info"}, {}},
    {{"softmax", "x.npy", "-o", "links/out.npy"}, {"behind.npy"}},
    {{"logsumexp", "x.npy", "-o", "lse.npy"}, {"lse.npy"}},
    {{"topk", "x.npy", "-k", "3", "-o", "t", "--logits", "--labels", "labels.txt", "--row-labels",
      "rows.txt"},
     {"t.probabilities.npy", "t.indices.npy", "t.logits.npy"}},
    {{"fold", "x.npy", "-k", "3", "-o", "folded.st"}, {"folded.st"}},
    {{"merge", "x.st", "y.st", "-o", "all.st"}, {"all.st"}},
    {{"finish", "x.st", "-o", "f", "--logits", "--format", "csv"},
     {"f.logsumexp.npy", "f.probabilities.npy", "f.indices.npy", "f.logits.npy"}},
    {{"sample", "x.npy", "-n", "2", "-o", "tokens.npy"}, {"tokens.npy"}},
    {{"attention", "x.npy", "x.npy", "x.npy", "-o", "o.npy", "--lse", "lse.npy"},
     {"o.npy", "lse.npy"}},
};

}  // namespace

TEST_CASE("every system call fails") {
  for (const tried_command& command : commands) {
    INFO("command: " << command.arguments[0]);
    for (const bool replaces : {true, false}) {
      if (!replaces && (command.arguments[0] == "softmax" || command.results.empty())) {
        continue;  // softmax writes by a link, and one to nothing is refused
      }
      const faulty tried(command.arguments, command.results, replaces);
      for (const int code : {EIO, EINTR}) {
        std::map<std::string, int> failed;
        outcome result;
        int n = 1;
        for (std::string hit; n == 1 || !hit.empty(); ++n) {
          hit = tried.run_with_failure(n, code, nullptr, result);
          failed[hit] += result.exit_code == 0 ? 0 : 1;
          if (code == EINTR &&
              (hit == "read" || hit == "write" || hit == "fsync" || hit == "close")) {
            CHECK(result.exit_code == 0);  // not a failure: once more
          }
          REQUIRE(n < 1000);
        }
        CHECK(result.exit_code == 0);
        // What was tried is what the command cannot do without.
        if (!command.results.empty() && code == EIO) {
          const bool exchanges = replaces && command.results.size() > 1;
          for (const char* function : {"open", "fstat", "mmap", "write", "fsync", "fchmod", "close",
                                       exchanges ? "renameat2" : "rename"}) {
            INFO("function: " << function);
            CHECK(failed[function] > 0);
          }
        }
      }
    }
  }
}

TEST_CASE("reads and writes that do a part") {
  for (const tried_command& command : commands) {
    INFO("command: " << command.arguments[0]);
    const faulty tried(command.arguments, command.results, true);
    for (const char* function : {"read", "write"}) {
      outcome result;
      int n = 1;
      for (std::string hit; n == 1 || !hit.empty(); ++n) {
        hit = tried.run_with_failure(n, 0, function, result);
        CHECK(result.exit_code == 0);
        REQUIRE(n < 1000);
      }
    }
  }
}

TEST_CASE("--no-sync does not wait for the disk") {
  for (tried_command command : commands) {
    if (command.results.empty()) {
      continue;
    }
    INFO("command: " << command.arguments[0]);
    outcome result;
    const faulty synced(command.arguments, command.results, true);
    const int files = static_cast<int>(command.results.size());
    for (int n = 1; n <= files + 1; ++n) {
      INFO("call " << n);
      CHECK(synced.run_with_failure(n, EIO, "fsync", result) == "fsync");
      CHECK(result.exit_code == 2);
      // The files before they are put in place, then the directory.
      CHECK((read_file(synced.path(command.results[0])) == "old " + command.results[0]) ==
            (n <= files));
    }
    CHECK(synced.run_with_failure(files + 2, EIO, "fsync", result).empty());
    command.arguments.push_back("--no-sync");
    const faulty unsynced(command.arguments, command.results, true);
    CHECK(unsynced.run_with_failure(1, EIO, "fsync", result).empty());
    CHECK(result.exit_code == 0);
  }
}

TEST_CASE("a file system that cannot exchange names, set permissions or synchronise") {
  const auto& topk = commands[3];
  for (const auto& [function, code] :
       {std::pair{"renameat2", EINVAL}, std::pair{"renameat2", ENOSYS}, std::pair{"fchmod", EPERM},
        std::pair{"fsync", EINVAL}, std::pair{"statvfs", ENOSYS}}) {
    const faulty tried(topk.arguments, topk.results, true);
    outcome result;
    CHECK(tried.run_with_failure(1, code, function, result) == function);
    CHECK(result.exit_code == 0);
  }
}

TEST_SUITE_END();
