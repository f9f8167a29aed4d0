// SPDX-License-Identifier: Apache-2.0
// What the command refuses: one line that names the file, exit code 2, nothing left behind.
#include "support.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

using namespace softfold;
using namespace softfold::test;

TEST_SUITE_BEGIN("failures");

namespace {

/// The command must refuse, and say "softfold: <file>: ...<about>...".
void refuses(const work_directory& directory, const std::vector<std::string>& arguments,
             const std::string& file, const std::string& about) {
  const std::set<std::string> before = directory.names();
  const outcome result = directory.run(arguments);
  INFO("standard error: " << result.err);
  CHECK(result.exit_code == 2);
  CHECK(result.out == "");
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  CHECK(result.err.starts_with("softfold: " + file + ": "));
  CHECK(result.err.ends_with('\n'));
  CHECK(result.err.find(about) != std::string::npos);
  CHECK(directory.names() == before);
}

/// All commands must refuse this input.
void refuses_input(const std::string& bytes, const std::string& about) {
  const work_directory directory;
  write_file(directory.path("x.npy"), bytes);
  refuses(directory, {"softmax", "x.npy", "-o", "y.npy"}, "x.npy", about);
  refuses(directory, {"logsumexp", "x.npy", "-o", "y.npy"}, "x.npy", about);
  refuses(directory, {"topk", "x.npy", "-k", "1", "-o", "t"}, "x.npy", about);
  refuses(directory, {"topk", "x.npy", "-k", "1"}, "x.npy", about);
}

std::string good_file() { return npy_bytes(random_array(dtype::f32, {3, 4}, 30)); }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("input content") {
  const std::string good = good_file();
  refuses_input("", "empty");
  refuses_input("Not an array at all", "wrong magic");
  refuses_input(good.substr(0, 9), "truncated");
  refuses_input(good.substr(0, 60), "truncated");
  refuses_input(good.substr(0, 128), "truncated");
  refuses_input(good.substr(0, good.size() - 1), "truncated");
  refuses_input(good + "x", "bytes after the array");
  refuses_input(replaced(good, std::string("\x01\x00", 2), "\x04"), "version");
  refuses_input(replaced(good, "False", "True "), "Fortran order");
  refuses_input(replaced(good, "<f4", "|O "), "object");
  refuses_input(replaced(good, "<f4", ">f4"), "big-endian");
  refuses_input(replaced(good, "<f4", "<i4"), "expected float16");
  refuses_input(replaced(good, "<f4", "<u2"), "--bf16");
  refuses_input(replaced(good, "(3, 4)", "(-3, 4)"), "negative");
  refuses_input(replaced(good, "(3, 4)", "(99999999999, 99999999999)"), "overflow");
  refuses_input(replaced(good, "(3, 4)", "(99999999999999999999,)"), "overflow");
  refuses_input(replaced(good, "(3, 4)", "3, 4  "), "malformed");
  refuses_input(npy_bytes({dtype::f32, {}, {1}}), "scalar");
  refuses_input(std::string("\x93NUMPY\x02\x00\x01\x00\x01\x00", 12) + std::string(70000, ' '),
                "64 KiB");
}

TEST_CASE("input that is not a file to read") {
  const work_directory directory;
  std::filesystem::create_directory(directory.path("folder"));
  REQUIRE(mkfifo(directory.path("pipe").c_str(), 0600) == 0);
  for (const char* command : {"softmax", "logsumexp"}) {
    refuses(directory, {command, "missing.npy", "-o", "y.npy"}, "missing.npy", "No such file");
    refuses(directory, {command, "folder", "-o", "y.npy"}, "folder", "is a directory");
    refuses(directory, {command, "pipe", "-o", "y.npy"}, "pipe", "is not a regular file");
    refuses(directory, {command, "/dev/zero", "-o", "y.npy"}, "/dev/zero", "not a regular file");
  }
  write_file(directory.path("x.npy"), good_file());
  refuses(directory, {"softmax", "x.npy/x.npy", "-o", "y.npy"}, "x.npy/x.npy", "Not a directory");
  // A name with a line break does not make two lines, and is not shown as one with a space.
  refuses(directory, {"softmax", "two\nlines", "-o", "y.npy"}, "two\\u000alines", "No such file");
}

TEST_CASE("outputs that cannot be written") {
  const work_directory directory;
  write_file(directory.path("x.npy"), good_file());
  std::filesystem::create_directory(directory.path("folder"));
  std::filesystem::create_directory(directory.path("t.indices.npy"));
  std::filesystem::create_hard_link(directory.path("x.npy"), directory.path("same.npy"));
  std::filesystem::create_symlink("x.npy", directory.path("link.npy"));
  for (const std::string command : {"softmax", "logsumexp"}) {
    const auto refuses_output = [&](const std::string& output, const std::string& about) {
      refuses(directory, {command, "x.npy", "-o", output}, output, about);
    };
    refuses_output("x.npy", "same file as the input");
    refuses_output("./x.npy", "same file as the input");
    refuses_output("same.npy", "same file as the input");
    refuses_output("link.npy", "same file as the input");
    refuses_output("folder", "is a directory");
    refuses_output("folder/", "is a directory");
    refuses_output("missing/y.npy", "No such file");
    refuses_output("missing/", "no file name");
    refuses_output("x.npy/y.npy", "Not a directory");
    refuses_output("/dev/null", "not a regular file");
    refuses_output(std::string(300, 'y'), "File name too long");
    if (geteuid() != 0) {
      refuses_output("/y.npy", "Permission denied");
    }
  }
  refuses(directory, {"topk", "x.npy", "-k", "1", "-o", "missing/t"}, "missing/t.probabilities.npy",
          "No such file");
  refuses(directory, {"topk", "x.npy", "-k", "1", "-o", "t"}, "t.indices.npy", "is a directory");
  CHECK(read_file(directory.path("x.npy")) == good_file());
}

TEST_CASE("options that do not fit the input") {
  const work_directory directory;
  write_file(directory.path("x.npy"), good_file());
  write_file(directory.path("d.npy"), npy_bytes(random_array(dtype::f64, {3, 4}, 31)));
  write_file(directory.path("old.npy"), "old");
  for (const char* k : {"-1", "5", "9223372036854775807"}) {
    refuses(directory, {"topk", "x.npy", "-k", k}, "x.npy", "out of range");
    refuses(directory, {"topk", "x.npy", "-k", k, "-o", "t"}, "x.npy", "out of range");
  }
  refuses(directory, {"softmax", "x.npy", "-o", "old.npy", "--bf16"}, "x.npy", "needs uint16");
  refuses(directory, {"softmax", "d.npy", "-o", "old.npy", "--out-dtype", "f32"}, "d.npy",
          "float64");
  // Finite, but not in the arithmetic of float32: the library's own refusal.
  refuses(directory, {"softmax", "x.npy", "-o", "old.npy", "--scale", "1e300"}, "softmax", "scale");
  CHECK(read_file(directory.path("old.npy")) == "old");
}

TEST_CASE("label files") {
  const work_directory directory;
  write_file(directory.path("x.npy"), good_file());
  write_file(directory.path("five"), "1\n2\n3\n4\n5\n");
  write_file(directory.path("quote"), "fine\na \" b\n");
  write_file(directory.path("bytes"), "fine\n\xff\n");
  std::filesystem::create_directory(directory.path("folder"));
  REQUIRE(mkfifo(directory.path("pipe").c_str(), 0600) == 0);
  const auto refuses_labels = [&](const std::string& option, const std::string& file,
                                  const std::string& about) {
    refuses(directory, {"topk", "x.npy", "-k", "1", option, file}, file, about);
  };
  refuses_labels("--labels", "missing", "No such file");
  refuses_labels("--labels", "folder", "is a directory");
  refuses_labels("--labels", "five", "more lines than the input's 4 columns");
  refuses_labels("--labels", "quote", "line 2 is not");
  refuses_labels("--labels", "bytes", "line 2 is not");
  for (const char* option : {"--labels", "--row-labels"}) {
    refuses_labels(option, "pipe", "not a regular file");  // and does not wait for a writer
    refuses_labels(option, "/dev/zero", "not a regular file");
  }
  refuses_labels("--row-labels", "missing", "No such file");
  refuses_labels("--row-labels", "five", "5 lines for the input's 3 rows");
  refuses_labels("--row-labels", "quote", "2 lines for the input's 3 rows");
}

TEST_CASE("usage") {
  const work_directory directory;
  write_file(directory.path("x.npy"), good_file());
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {},
           {"nonsense"},
           {"softmax"},
           {"softmax", "x.npy"},
           {"softmax", "x.npy", "-o"},
           {"softmax", "x.npy", "extra", "-o", "y.npy"},
           {"softmax", "x.npy", "-o", "y.npy", "--scale", "nan"},
           {"softmax", "x.npy", "-o", "y.npy", "--scale", "fast"},
           {"softmax", "x.npy", "-o", "y.npy", "--scale", "1e999"},
           {"softmax", "x.npy", "-o", "y.npy", "--empty-row", "one"},
           {"softmax", "x.npy", "-o", "y.npy", "--out-dtype", "f16"},
           {"softmax", "x.npy", "-o", "y.npy", "--threads", "-1"},
           {"softmax", "x.npy", "-o", "y.npy", "--threads", "99999999999"},
           {"logsumexp", "x.npy", "-o", "y.npy", "--log"},
           {"topk", "x.npy"},
           {"topk", "x.npy", "-k", "many"},
           {"topk", "x.npy", "-k", "1", "--format", "xml"},
           {"info", "--threads", "-2"},
           {"topk", "x.npy", "-k", ""},
           {"topk", "x.npy", "-k", "1", "--labels", ""},
           {"topk", "x.npy", "-k", "1", "-o", ""},
           {"topk", "", "-k", "1"},
           {"softmax", "x.npy", "-o", ""},
           {"softmax", "x.npy", "-o", "y.npy", "--threads", ""},
           {"softmax", "x.npy", "-o", "y.npy", "--scale", ""},
           {"softmax", "x.npy", "-o", "y.npy", "--empty-row", ""},
           {"fold", "x.npy", "-o", "y.st", "--column-offset", ""},
           {"merge", "", "-o", "y.st"},
       }) {
    const outcome result = directory.run(arguments);
    INFO("standard error: " << result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out == "");
    CHECK(result.err.starts_with("softfold: "));
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK(directory.names() == std::set<std::string>{"x.npy"});
    if (std::find(arguments.begin(), arguments.end(), "") != arguments.end()) {
      CHECK(result.err.find(": the value is empty") != std::string::npos);
    }
  }
}

TEST_CASE("integers: what is no whole number in the range of the type is refused as given") {
  const work_directory directory;
  write_file(directory.path("x.npy"), good_file());
  const std::vector<std::string> sample = {"sample", "x.npy", "-o", "y.npy"};
  const std::vector<std::string> fold = {"fold", "x.npy", "-o", "y.st"};
  const std::vector<std::string> attention = {"attention", "x.npy", "x.npy",
                                              "x.npy",     "-o",    "y.npy"};
  const std::string int64_range = "-9223372036854775808 to 9223372036854775807";
  const std::string natural_range = "0 to 9223372036854775807";
  const std::string uint64_range = "0 to 18446744073709551615";
  struct integer {
    std::vector<std::string> command;
    std::string option;
    std::string range;
    std::vector<std::string> outside;
  };
  const std::vector<std::string> int64_outside = {"9223372036854775808", "-9223372036854775809",
                                                  "99999999999999999999"};
  for (const auto& [command, option, range, outside] : std::vector<integer>{
           {sample, "--seed", uint64_range, {"18446744073709551616", "-1", "-0"}},
           {sample, "--offset", uint64_range, {"18446744073709551616", "-1"}},
           {sample, "--top-k", int64_range, int64_outside},
           {sample, "-n", int64_range, int64_outside},
           {sample, "--threads", "0 to 2147483647", {"2147483648", "-1"}},
           {{"info"}, "--threads", "0 to 2147483647", {"2147483648", "-1"}},
           {{"topk", "x.npy"}, "-k", int64_range, int64_outside},
           {fold, "-k", natural_range, {"9223372036854775808", "-1"}},
           {fold, "--column-offset", natural_range, {"9223372036854775808", "-1"}},
           {attention, "--window-left", int64_range, int64_outside},
           {attention, "--window-right", int64_range, int64_outside},
       }) {
    std::vector<std::string> texts = outside;
    texts.insert(texts.end(), {"0x1", "0b1", "+1", " 1", "1 ", "1.0", "1e0", "1_000", "1'000",
                               "1,2", "-", "--1", "one", "nan", "[1]", "true", "\xd9\xa1"});
    for (const std::string& text : texts) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {option, text});
      const outcome result = directory.run(words);
      CHECK(result.exit_code == 2);
      CHECK(result.out == "");
      const std::string said = "softfold: " + option + ": " + text +
                               " is not a whole number from " + range + " (see softfold " +
                               command[0] + " --help)\n";
      CHECK(result.err == said);
      CHECK(directory.names() == std::set<std::string>{"x.npy"});
    }
  }
  // The ends of the ranges, and zeros before a number.
  const auto draws = [&](const char* seed) {
    const outcome result = directory.run({"sample", "x.npy", "-n", "64", "--seed", seed});
    CHECK(result.exit_code == 0);
    return result.out;
  };
  CHECK(draws("18446744073709551615") != draws("18446744073709551614"));
  CHECK(draws("007") == draws("7"));
  std::vector<std::string> windows = attention;
  windows.insert(windows.end(), {"--window-left", "-9223372036854775808", "--window-right", "-0"});
  CHECK(directory.run(windows).exit_code == 0);
  for (const auto& [option, text] : {std::pair<std::string, std::string>{"--top-p", "nan"},
                                     {"--top-p", "1e400"},
                                     {"--temperature", "nan"},
                                     {"--temperature", "1e400"},
                                     {"--temperature", "warm"},
                                     {"--softcap", "1e400"},
                                     {"--softcap", "nan"},
                                     {"--softcap", "hard"}}) {
    std::vector<std::string> words = sample;
    words.insert(words.end(), {option, text});
    INFO("option: " << words[words.size() - 2] << " " << words.back());
    CHECK(directory.run(words).exit_code == 2);
  }
}

TEST_CASE("help, version and info") {
  const work_directory directory;
  for (const char* command : {"info", "softmax", "logsumexp", "topk"}) {
    const outcome help = directory.run({command, "--help"});
    CHECK(help.exit_code == 0);
    CHECK(help.err == "");
    CHECK(help.out.find("--threads") != std::string::npos);
    CHECK(directory.run({"--help"}).out.find(command) != std::string::npos);
  }
  const std::string version = directory.run({"--version"}).out;
  CHECK(version.starts_with("softfold "));
  CHECK(directory.run({"topk", "--version"}).out == version);
  const nlohmann::json info = nlohmann::json::parse(directory.run({"info", "--json"}).out);
  CHECK("softfold " + info["version"].get<std::string>() + "\n" == version);
  for (const char* key : {"backend", "device", "isa"}) {
    CHECK(info[key].is_string());
  }
  for (const char* key : {"threads", "l1_bytes", "l2_bytes", "l3_bytes"}) {
    CHECK(info[key].is_number_unsigned());
  }
  CHECK(directory.run({"info"}).out.find(info["device"].get<std::string>()) != std::string::npos);
  CHECK(nlohmann::json::parse(directory.run({"info", "--json", "--threads", "1"}).out)["threads"] ==
        1);
  // Set to nothing is not set, as for most programs.
  const auto without_isa = [] { unsetenv("SOFTFOLD_ISA"); };
  const auto empty_isa = [] { setenv("SOFTFOLD_ISA", "", 1); };
  CHECK(directory.run({"info"}, empty_isa).out == directory.run({"info"}, without_isa).out);
}

TEST_CASE("a signal leaves nothing behind") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGUSR1, SIGUSR2, SIGALRM,
                           SIGXCPU, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSYS, SIGRTMIN}) {
    INFO("signal " << number);
    const work_directory directory;
    write_endless_input(directory);
    const int process = directory.start({"topk", "x.npy", "-k", "1", "-o", "t"}, [] {
      const rlimit none = {0, 0};
      setrlimit(RLIMIT_CORE, &none);
    });
    while (directory.names().size() < 3 && peak_resident_bytes(process) != 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(directory.names().size() == 3);
    kill(process, number);
    const outcome result = directory.finish(process);
    CHECK(result.signal == number);
    CHECK(directory.names() == std::set<std::string>{"x.npy"});
  }
}

TEST_CASE("an input that shrinks while it is read") {
  const work_directory directory;
  write_endless_input(directory);
  const std::string input = "x\xc2\x9b.npy";  // whose name is shown as any other
  std::filesystem::rename(directory.path("x.npy"), directory.path(input));
  const int process = directory.start({"logsumexp", input, "-o", "y.npy"});
  while (directory.names().size() < 2 && peak_resident_bytes(process) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::filesystem::resize_file(directory.path(input), 128);
  const outcome result = directory.finish(process);
  CHECK(result.exit_code == 2);
  CHECK(result.err ==
        "softfold: x\\u009b.npy: cannot read: the file shrank or its device failed\n");
  CHECK(directory.names() == std::set<std::string>{input});
}

TEST_SUITE_END();
