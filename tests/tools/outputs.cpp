// SPDX-License-Identifier: Apache-2.0
// What becomes of the files and the standard output that the command writes.
#include "support.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <thread>

using namespace softfold;
using namespace softfold::test;

TEST_SUITE_BEGIN("outputs");

namespace {

using perms = std::filesystem::perms;

perms mode_of(const std::filesystem::path& path) {
  return std::filesystem::status(path).permissions();
}

/// With x.npy, a small input.
struct small_input : work_directory {
  small_input() { write_file(path("x.npy"), npy_bytes(random_array(dtype::f32, {3, 4}, 70))); }

  void runs_well(const std::vector<std::string>& arguments,
                 const std::function<void()>& prepare = {}) const {
    const outcome result = run(arguments, prepare);
    CHECK(result.err == "");
    CHECK(result.exit_code == 0);
  }
  void refuses(const std::vector<std::string>& arguments, const std::string& message,
               const std::function<void()>& prepare = {}) const {
    const std::set<std::string> before = names();
    const outcome result = run(arguments, prepare);
    CHECK(result.exit_code == 2);
    CHECK(result.err == "softfold: " + message + "\n");
    CHECK(names() == before);
  }
};

std::string header_of(const std::vector<std::int64_t>& shape) {
  return npy_bytes({dtype::f32, shape, {}});
}

}  // namespace

TEST_CASE("a new file gets what the umask leaves, a replaced one keeps its permissions only") {
  const small_input directory;
  directory.runs_well({"softmax", "x.npy", "-o", "new.npy"}, [] { umask(027); });
  CHECK(mode_of(directory.path("new.npy")) == perms(0640));
  write_file(directory.path("old.npy"), "old");
  for (const unsigned mode : {0600U, 0666U, 0755U, 07777U}) {
    std::filesystem::permissions(directory.path("old.npy"), perms(mode));
    directory.runs_well({"softmax", "x.npy", "-o", "old.npy"}, [] { umask(027); });
    CHECK(mode_of(directory.path("old.npy")) == perms(mode & 0777));
  }
}

TEST_CASE("nobody else can read the temporary file") {
  const work_directory directory;
  write_endless_input(directory);
  write_file(directory.path("y.npy"), "old");
  std::filesystem::permissions(directory.path("y.npy"), perms(0666));
  const int process = directory.start({"logsumexp", "x.npy", "-o", "y.npy"}, [] { umask(0); });
  while (directory.names().size() < 3 && peak_resident_bytes(process) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::string temporary = *directory.names().begin();
  REQUIRE(temporary.starts_with(".softfold-"));
  CHECK(mode_of(directory.path(temporary)) == perms(0600));
  kill(process, SIGKILL);
  CHECK(directory.finish(process).signal == SIGKILL);
}

TEST_CASE("symbolic links as outputs") {
  const small_input directory;
  write_file(directory.path("old"), "old");
  std::filesystem::create_directory(directory.path("folder"));
  std::filesystem::create_symlink("../old", directory.path("folder/link"));
  std::filesystem::create_symlink("nothing", directory.path("dangling"));
  std::filesystem::create_symlink("loop", directory.path("loop"));
  std::filesystem::create_symlink("dangling", directory.path("t.indices.npy"));
  directory.runs_well({"softmax", "x.npy", "-o", "folder/link"});
  CHECK(std::filesystem::is_symlink(directory.path("folder/link")));
  CHECK(read_npy(directory.path("old")).shape == std::vector<std::int64_t>{3, 4});
  const std::string nothing = ": cannot write: is a symbolic link to nothing";
  directory.refuses({"softmax", "x.npy", "-o", "dangling"}, "dangling" + nothing);
  directory.refuses({"fold", "x.npy", "-o", "dangling"}, "dangling" + nothing);
  directory.refuses({"topk", "x.npy", "-k", "1", "-o", "t"}, "t.indices.npy" + nothing);
  directory.refuses({"softmax", "x.npy", "-o", "loop"},
                    "loop: cannot write: Too many levels of symbolic links");
}

TEST_CASE("an output may be none of the files that are read") {
  const small_input directory;
  const array a = random_array(dtype::f32, {3, 4}, 72);
  const std::set<std::string> read = {"x.npy", "q.npy", "k.npy", "v.npy", "b.npy"};
  for (const std::string& file : read) {
    write_file(directory.path(file), npy_bytes(a));
  }
  write_file(directory.path("bias.npy"), npy_bytes(random_array(dtype::f32, {3, 3}, 73)));
  const auto integers = [&](const char* descr, const std::string& shape, const std::string& bytes) {
    std::string file = npy_bytes({dtype::i64, {3, 40}, {}});
    file.replace(file.find("<i8"), 3, descr);
    file.replace(file.find("(3, 40)"), 7, shape);
    return file + bytes;
  };
  write_file(directory.path("m.npy"), integers("|u1", "(3, 4) ", std::string(12, '\1')));
  write_file(directory.path("l.npy"), integers("<i4", "(3,)   ", std::string(12, '\0')));
  write_file(directory.path("labels.indices.npy"), "a\nb\nc\n");
  directory.runs_well({"fold", "x.npy", "-k", "2", "-o", "a.st"});
  directory.runs_well({"fold", "x.npy", "-k", "2", "-o", "b.st", "--column-offset", "4"});
  std::filesystem::copy_file(directory.path("a.st"), directory.path("s.logsumexp.npy"));
  std::map<std::string, std::string> before;
  for (const std::string& file : directory.names()) {
    before[file] = read_file(directory.path(file));
  }
  // Each output is the file, a hard link to it and a symbolic one.
  const auto refuses = [&](std::vector<std::string> arguments, const std::string& option,
                           const std::string& input) {
    std::filesystem::create_hard_link(directory.path(input), directory.path("hard"));
    std::filesystem::create_symlink(input, directory.path("soft"));
    arguments.insert(arguments.end(), {option, ""});
    for (const std::string& output : {input, std::string("hard"), std::string("soft")}) {
      arguments.back() = output;
      directory.refuses(arguments, output + ": output is the same file as the input " + input);
    }
    std::filesystem::remove(directory.path("hard"));
    std::filesystem::remove(directory.path("soft"));
  };
  for (const char* input : {"q.npy", "k.npy", "v.npy", "bias.npy"}) {
    const std::vector<std::string> attention = {"attention", "q.npy",  "k.npy",
                                                "v.npy",     "--bias", "bias.npy"};
    refuses(attention, "-o", input);
    std::vector<std::string> with_lse = attention;
    with_lse.insert(with_lse.end(), {"-o", "o.npy"});
    refuses(with_lse, "--lse", input);
  }
  for (const auto& [option, input] : {std::pair<std::string, std::string>{"--bias", "b.npy"},
                                      {"--mask", "m.npy"},
                                      {"--lengths", "l.npy"}}) {
    for (const std::string command : {"softmax", "logsumexp", "sample", "fold"}) {
      refuses({command, "x.npy", option, input}, "-o", input);
    }
    std::filesystem::create_symlink(input, directory.path("t.indices.npy"));
    directory.refuses({"topk", "x.npy", "-k", "2", option, input, "-o", "t"},
                      "t.indices.npy: output is the same file as the input " + input);
    std::filesystem::remove(directory.path("t.indices.npy"));
  }
  refuses({"sample", "x.npy", "--labels", "labels.indices.npy"}, "-o", "labels.indices.npy");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"topk", "x.npy", "-k", "2"}, {"finish", "a.st"}}) {
    for (const char* option : {"--labels", "--row-labels"}) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {option, "labels.indices.npy", "-o", "labels"});
      directory.refuses(
          words, "labels.indices.npy: output is the same file as the input labels.indices.npy");
    }
  }
  directory.refuses({"finish", "s.logsumexp.npy", "-o", "s"},
                    "s.logsumexp.npy: output is the same file as the input s.logsumexp.npy");
  for (const char* input : {"a.st", "b.st"}) {
    refuses({"merge", "a.st", "b.st"}, "-o", input);
  }
  for (const auto& each : before) {
    INFO("file: " << each.first);
    CHECK(read_file(directory.path(each.first)) == each.second);
  }
}

TEST_CASE("two outputs may not be one file") {
  const small_input directory;
  for (const char* file : {"q.npy", "k.npy", "v.npy"}) {
    write_file(directory.path(file), npy_bytes(random_array(dtype::f32, {3, 4}, 74)));
  }
  directory.runs_well({"fold", "x.npy", "-k", "2", "-o", "x.st"});
  std::filesystem::create_directory(directory.path("folder"));
  write_file(directory.path("old"), "old");
  for (const char* link : {"t.probabilities.npy", "t.indices.npy", "t.logsumexp.npy", "link"}) {
    std::filesystem::create_symlink("old", directory.path(link));
  }
  const std::string same = ": output is the same file as the output ";
  directory.refuses({"topk", "x.npy", "-k", "2", "-o", "t"},
                    "t.indices.npy" + same + "t.probabilities.npy");
  directory.refuses({"finish", "x.st", "-o", "t"},
                    "t.probabilities.npy" + same + "t.logsumexp.npy");
  const auto attends = [](const char* out, const char* lse) -> std::vector<std::string> {
    return {"attention", "q.npy", "k.npy", "v.npy", "-o", out, "--lse", lse};
  };
  directory.refuses(attends("old", "link"), "link" + same + "old");
  directory.refuses(attends("link", "old"), "old" + same + "link");
  directory.refuses(attends("new", "new"), "new" + same + "new");
  directory.refuses(attends("new", "folder/.././new"), "folder/.././new" + same + "new");
  CHECK(read_file(directory.path("old")) == "old");
  // As many files as names: each link is replaced alone.
  std::filesystem::create_hard_link(directory.path("old"), directory.path("folder/new"));
  directory.runs_well(attends("old", "folder/new"));
  CHECK(read_npy(directory.path("old")).shape == std::vector<std::int64_t>{3, 4});
  CHECK(read_npy(directory.path("folder/new")).shape == std::vector<std::int64_t>{3});
  directory.runs_well(attends("new", "folder/new"));
}

TEST_CASE("several results are put in place together") {
  const small_input directory;
  const std::vector<std::string> files = {"t.probabilities.npy", "t.indices.npy", "t.logits.npy"};
  for (const std::string& file : files) {
    write_file(directory.path(file), "old " + file);
  }
  directory.runs_well({"topk", "x.npy", "-k", "2", "--logits", "-o", "t"});
  for (const std::string& file : files) {
    CHECK(read_npy(directory.path(file)).shape == std::vector<std::int64_t>{3, 2});
  }
  CHECK(directory.names().size() == 4);  // nothing is left of the old ones
}

TEST_CASE("a result that does not fit is refused before the work") {
  const small_input directory;
  struct statvfs status = {};
  REQUIRE(statvfs(directory.path("x.npy").c_str(), &status) == 0);
  const std::uint64_t free = std::uint64_t{status.f_bfree} * status.f_frsize;
  REQUIRE(free < (std::uint64_t{1} << 62));
  // A header of 128 bytes that claims 2^60 rows of no elements.
  write_file(directory.path("rows.npy"), header_of({std::int64_t{1} << 60, 0}));
  const auto says = [&](const std::string& bytes, std::vector<std::string> arguments) {
    const outcome result = directory.run(arguments, [] {  // what starts to write ends soon
      const rlimit seconds = {5, 5};
      const rlimit length = {1 << 20, 1 << 20};
      setrlimit(RLIMIT_CPU, &seconds);
      setrlimit(RLIMIT_FSIZE, &length);
    });
    INFO("standard error: " << result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.err.starts_with("softfold: y: cannot write: the result has " + bytes +
                                 " bytes, its file system has "));
    CHECK(directory.names() == std::set<std::string>{"x.npy", "rows.npy"});
  };
  says("4611686018427387904", {"logsumexp", "rows.npy", "-o", "y"});
  says("9223372036854775807", {"fold", "rows.npy", "-o", "y"});
  says("9223372036854775807", {"fold", "x.npy", "-k", "9000000000000000000", "-o", "y"});
}

TEST_CASE("standard output that is full or closed") {
  const small_input directory;
  directory.runs_well({"fold", "x.npy", "-k", "2", "-o", "x.st"});
  const auto full = [] { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); };
  const auto closed = [] { close(STDOUT_FILENO); };
  const auto all_closed = [] {
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
  };
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--help"},
           {"--version"},
           {"topk", "--help"},
           {"info"},
           {"info", "--json"},
           {"topk", "x.npy", "-k", "2"},
           // A file must not take the place of the stream, and get its text.
           {"topk", "x.npy", "-k", "2", "-o", "t", "--format", "csv"},
           {"finish", "x.st"},
           {"finish", "x.st", "-o", "t", "--format", "json"},
       }) {
    INFO("command: " << arguments[0] << " ...");
    const std::set<std::string> before = directory.names();
    directory.refuses(arguments, "standard output: cannot write: No space left on device", full);
    directory.refuses(arguments, "standard output: cannot write: Bad file descriptor", closed);
    CHECK(directory.run(arguments, all_closed).exit_code == 2);
    CHECK(directory.names() == before);
  }
  // Nothing is printed: nothing is missing.
  directory.runs_well({"softmax", "x.npy", "-o", "y.npy"}, closed);
  CHECK(directory.run({"softmax", "x.npy", "-o", "z.npy"}, all_closed).exit_code == 0);
  CHECK(read_file(directory.path("y.npy")) == read_file(directory.path("z.npy")));
}

TEST_SUITE_END();
