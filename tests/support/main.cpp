// SPDX-License-Identifier: Apache-2.0
// main() of the test programs. doctest calls a run in which no case matched the filters a
// success; here it is a failure, unless --expect-none asks for exactly that. A case that does not
// end in time ends the program; SOFTFOLD_CASE_SECONDS is how long each has. --hashes prints
// a hash of each case's results.
#include "result_hash.hpp"

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace {

unsigned cases_run = 0;
bool prints_hashes = false;

const char* volatile current_case = "";

unsigned seconds_of_a_case() {
  const char* const given = std::getenv("SOFTFOLD_CASE_SECONDS");
  return given == nullptr ? 300U : static_cast<unsigned>(std::strtoul(given, nullptr, 10));
}

void end_late_case(int /*signal*/) {
  const auto print = [](const char* text) {
    static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text)));
  };
  print("a test case did not end in time: ");
  print(current_case);
  print("\n");
  _exit(EXIT_FAILURE);
}

struct case_counter : doctest::IReporter {
  explicit case_counter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    cases_run = stats.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData& data) override {
    current_case = data.m_name;
    softfold::test::result_hash = 0;
    alarm(seconds_of_a_case());
  }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {
    alarm(0);
    if (prints_hashes) {
      std::printf("%016" PRIx64 " %s\n", softfold::test::result_hash.load(), current_case);
    }
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

REGISTER_LISTENER("case_counter", 0, case_counter);

}  // namespace

int main(int argc, char** argv) {
  bool expect_none = false;
  std::vector<const char*> arguments;
  for (int i = 0; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--expect-none") {
      expect_none = true;
    } else if (std::string_view(argv[i]) == "--hashes") {
      prints_hashes = true;
    } else {
      arguments.push_back(argv[i]);
    }
  }
#ifdef SOFTFOLD_TEST_REDUCED
  std::printf("the largest cases are left out of this build\n");
#endif
  std::signal(SIGALRM, end_late_case);
  doctest::Context context;
  context.setOption("abort-after", 100);  // enough to see what is wrong; 0 shows everything
  context.applyCommandLine(static_cast<int>(arguments.size()), arguments.data());
  const int result = context.run();
  if (context.shouldExit()) {  // a query such as --help or --list-test-cases
    return result;
  }
  if (expect_none != (cases_run == 0)) {
    std::fprintf(stderr, "%u test cases ran, expected %s\n", cases_run,
                 expect_none ? "none" : "at least one");
    return EXIT_FAILURE;
  }
  return result;
}
