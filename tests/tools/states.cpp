// SPDX-License-Identifier: Apache-2.0
// softfold fold, merge and finish: a matrix in several files of columns.
#include "checks.hpp"

#include <softfold/queue.hpp>
#include <softfold/row_states.hpp>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace softfold;
using namespace softfold::test;

TEST_SUITE_BEGIN("states");

namespace {

array columns_of(const array& x, std::int64_t begin, std::int64_t end) {
  array part{x.type, {x.rows(), end - begin}, {}};
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const auto row = x.values.begin() + r * x.cols();
    part.values.insert(part.values.end(), row + begin, row + end);
  }
  return part;
}

/// Writes x.npy and the parts a.npy, b.npy, ... of it; folds the parts to a.st, b.st, ...
void fold_parts(const work_directory& directory, const array& x,
                const std::vector<std::int64_t>& borders, const std::vector<std::string>& options) {
  write_file(directory.path("x.npy"), npy_bytes(x));
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    write_file(directory.path(name + ".npy"), npy_bytes(columns_of(x, borders[i], borders[i + 1])));
    std::vector<std::string> command = {
        "fold", name + ".npy", "-o", name + ".st", "--column-offset", std::to_string(borders[i])};
    command.insert(command.end(), options.begin(), options.end());
    CHECK(run_well(directory, command).empty());
  }
}

void write_small(const work_directory& directory) {
  const double log2 = std::log(2.0);
  fold_parts(directory, {dtype::f64, {2, 3}, {0, 2 * log2, log2, log2, 0, 2 * log2}}, {0, 1, 3},
             {"-k", "2"});
  run_well(directory, {"merge", "b.st", "a.st", "-o", "all.st"});
}

}  // namespace

TEST_CASE("reproducible parts that meet between packets are the whole matrix's, byte for byte") {
  const work_directory directory;
  const std::vector<std::string> options = {"-k",  "3",          "--scale",
                                            "0.5", "--numerics", "reproducible"};
  fold_parts(directory, random_array(dtype::f32, {5, 1001}, 51), {0, 296, 304, 704, 1001}, options);
  std::vector<std::string> whole = {"fold", "x.npy", "-o", "x.st"};
  whole.insert(whole.end(), options.begin(), options.end());
  run_well(directory, whole);
  run_well(directory, {"merge", "c.st", "a.st", "-o", "ac.st"});
  run_well(directory, {"merge", "d.st", "b.st", "-o", "bd.st"});
  run_well(directory, {"merge", "ac.st", "bd.st", "-o", "tree.st"});
  run_well(directory, {"merge", "d.st", "a.st", "c.st", "b.st", "-o", "line.st"});
  for (const char* states : {"tree.st", "line.st"}) {
    CHECK(read_file(directory.path(states)) == read_file(directory.path("x.st")));
  }
  run_well(directory, {"fold", "b.npy", "-o", "fast.st", "-k", "3", "--scale", "0.5",
                       "--column-offset", "296"});
  refuses(directory, {"merge", "a.st", "fast.st", "-o", "m.st"},
          "fast.st: ", "numerics is fast, that of a.st is reproducible");
}

TEST_CASE("parts merged in any order are as the whole matrix in one file") {
  for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64}) {
    INFO("type: " << name_of(type));
    const work_directory directory;
    const array x = random_array(type, {19, 1001}, 50);
    std::vector<std::string> options = {"--scale", "0.5"};
    if (type == dtype::bf16) {
      options.emplace_back("--bf16");
    }
    const auto with = [&](std::vector<std::string> command) {
      command.insert(command.end(), options.begin(), options.end());
      return command;
    };
    fold_parts(directory, x, {0, 300, 301, 700, 1001}, with({"-k", "7"}));
    run_well(directory, with({"topk", "x.npy", "-k", "7", "-o", "whole", "--logits"}));
    run_well(directory, with({"logsumexp", "x.npy", "-o", "whole.logsumexp.npy"}));
    run_well(directory, with({"fold", "x.npy", "-k", "7", "-o", "x.st"}));
    run_well(directory, {"merge", "c.st", "a.st", "-o", "ac.st"});
    run_well(directory, {"merge", "d.st", "b.st", "-o", "bd.st"});
    run_well(directory, {"merge", "ac.st", "bd.st", "-o", "tree.st"});
    run_well(directory, {"merge", "d.st", "a.st", "c.st", "b.st", "-o", "line.st"});
    const double bound = type == dtype::f64 ? 1e-14 : 40 * 0x1p-24;
    for (const std::string state : {"x.st", "tree.st", "line.st"}) {
      INFO("states: " << state);
      CHECK(run_well(directory, {"finish", state, "-o", "found", "--logits"}).empty());
      const auto file = [&](const std::string& stem, const std::string& what) {
        return read_npy(directory.path(stem + "." + what + ".npy"));
      };
      CHECK(file("found", "indices").values == file("whole", "indices").values);
      CHECK(file("found", "logits").values == file("whole", "logits").values);
      CHECK(file("found", "probabilities").shape == std::vector<std::int64_t>{19, 7});
      CHECK(file("found", "logsumexp").shape == std::vector<std::int64_t>{19});
      check_near(file("found", "probabilities"), file("whole", "probabilities"), bound);
      check_near(file("found", "logsumexp"), file("whole", "logsumexp"), bound);
    }
  }
}

TEST_CASE("more than one block of rows, and more elements asked for than there are") {
  const work_directory directory;
  const array x = random_array(dtype::f32, {3000, 2003}, 51);
  fold_parts(directory, x, {0, 2003}, {"-k", "3"});
  run_well(directory, {"topk", "x.npy", "-k", "3", "-o", "whole"});
  run_well(directory, {"finish", "a.st", "-o", "found"});
  CHECK(read_npy(directory.path("found.indices.npy")).values ==
        read_npy(directory.path("whole.indices.npy")).values);

  write_small(directory);
  run_well(directory, {"fold", "b.npy", "-k", "9", "-o", "few.st", "--column-offset", "1"});
  run_well(directory, {"finish", "few.st", "-o", "few"});
  const array indices = read_npy(directory.path("few.indices.npy"));
  CHECK(indices.shape == std::vector<std::int64_t>{2, 2});
  CHECK(indices.values == std::vector<double>{1, 2, 2, 1});
}

TEST_CASE("empty files, and states without a list") {
  const work_directory directory;
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{0, 5}, {5, 0}, {0}, {2, 0, 3}}) {
    write_file(directory.path("x.npy"), npy_bytes({dtype::f32, shape, {}}));
    run_well(directory, {"fold", "x.npy", "-k", "2", "-o", "x.st"});
    run_well(directory, {"finish", "x.st", "-o", "found"});
    for (const double value : read_npy(directory.path("found.logsumexp.npy")).values) {
      CHECK(value == -std::numeric_limits<double>::infinity());
    }
  }
  write_file(directory.path("x.npy"), npy_bytes({dtype::f32, {2}, {0, 0}}));
  run_well(directory, {"fold", "x.npy", "-o", "x.st"});
  CHECK(run_well(directory, {"finish", "x.st"}) == "row 0   logsumexp 0.693147\n");
}

TEST_CASE("printing: table, CSV and JSON with the logsumexp") {
  const work_directory directory;
  write_small(directory);
  CHECK(run_well(directory, {"finish", "all.st"}) ==
        "row 0   logsumexp 1.94591\n"
        "  0.5714   index 1\n"
        "  0.2857   index 2\n"
        "row 1   logsumexp 1.94591\n"
        "  0.5714   index 2\n"
        "  0.2857   index 0\n");
  write_file(directory.path("labels.txt"), "a\nb\nc\n");
  write_file(directory.path("rows.txt"), "first\nsecond\n");
  CHECK(run_well(directory,
                 {"finish", "all.st", "--labels", "labels.txt", "--row-labels", "rows.txt"})
            .starts_with("\"first\"   logsumexp 1.94591\n"
                         "  \"b\"  0.5714   index 1\n"));
  const std::string csv = run_well(directory, {"finish", "all.st", "--format", "csv", "--logits"});
  CHECK(csv.starts_with("row,rank,index,probability,logit,logsumexp\n0,1,1,0.57142857142857"));
  const auto json =
      nlohmann::json::parse(run_well(directory, {"finish", "all.st", "--format", "json"}));
  REQUIRE(json.size() == 2);
  CHECK(std::fabs(json[1]["logsumexp"].get<double>() - std::log(7.0)) < 1e-14);
  CHECK(json[1]["top"][0]["index"] == 2);
  CHECK(json[1]["top"].size() == 2);
}

TEST_CASE("states that do not go together") {
  const work_directory directory;
  const array x = random_array(dtype::f32, {4, 30}, 52);
  fold_parts(directory, x, {0, 10, 20, 30}, {"-k", "3"});
  const auto fold = [&](const std::string& state, const std::vector<std::string>& options) {
    std::vector<std::string> command = {"fold", "b.npy", "-o", state, "--column-offset", "10"};
    command.insert(command.end(), options.begin(), options.end());
    run_well(directory, command);
  };
  const auto does_not_go = [&](const std::string& state, const std::string& cause) {
    refuses(directory, {"merge", "a.st", "c.st", state, "-o", "all.st"}, state + ": ", cause);
  };
  fold("k.st", {"-k", "4"});
  fold("scale.st", {"-k", "3", "--scale", "0.1"});
  does_not_go("k.st", "k is 4, that of a.st is 3");
  does_not_go("scale.st", "scale is 0.10000000149011612, that of a.st is 1");
  run_well(directory, {"fold", "b.npy", "-k", "3", "-o", "over.st", "--column-offset", "15"});
  does_not_go("over.st", "columns 20 to 24 are also in c.st");
  refuses(directory, {"merge", "a.st", "b.st", "a.st", "-o", "all.st"},
          "a.st: ", "columns 0 to 9 are also in a.st");
  write_file(directory.path("rows.npy"), npy_bytes(random_array(dtype::f32, {3, 5}, 1)));
  run_well(directory, {"fold", "rows.npy", "-k", "3", "-o", "rows.st", "--column-offset", "50"});
  does_not_go("rows.st", "rows is 3");
  write_file(directory.path("wide.npy"), npy_bytes(random_array(dtype::f64, {4, 5}, 1)));
  run_well(directory, {"fold", "wide.npy", "-k", "3", "-o", "wide.st", "--column-offset", "50"});
  does_not_go("wide.st", "type is f64");
  refuses(directory, {"merge", "a.st", "b.st", "-o", "a.st"}, "a.st: ", "same file");
}

TEST_CASE("states of other sampling do not go together, and both files are named") {
  const work_directory directory;
  const std::vector<float> x = {1, 2, 3, 4};
  queue q;
  const auto write_states = [&](const char* file, const row_sampling* sampling,
                                std::int64_t column_offset) {
    row_states states = sampling == nullptr ? row_states(dtype::f32, 2, 3)
                                            : row_states(dtype::f32, 2, 3, 1, *sampling);
    states.fold(q, {x.data(), dtype::f32, 2, 2, 2}, column_offset);
    const std::vector<std::byte> bytes = states.to_bytes();
    write_file(directory.path(file), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  const row_sampling some{.temperature = 0.5, .top_k = 3, .seed = 7, .offset = 5};
  row_sampling other = some;
  write_states("plain.st", nullptr, 0);
  write_states("some.st", &some, 0);
  write_states("more.st", &some, 2);
  other.draw = 1;
  write_states("draw.st", &other, 2);
  other = some;
  other.seed = 8;
  write_states("seed.st", &other, 2);
  other = some;
  other.offset = 6;
  write_states("offset.st", &other, 2);
  run_well(directory, {"merge", "some.st", "more.st", "-o", "all.st"});
  const std::string text = "temperature 0.5, top_k 3, top_p 1, min_p 0, draw ";
  const auto refuses_merge = [&](const char* first, const char* second, const std::string& cause) {
    refuses(directory, {"merge", first, second, "-o", "m.st"}, second, cause);
  };
  refuses_merge("plain.st", "more.st",
                "more.st: sampling is " + text + "0, that of plain.st is none");
  refuses_merge("more.st", "plain.st",
                "plain.st: sampling is none, that of more.st is " + text + "0");
  refuses_merge("some.st", "draw.st",
                "draw.st: sampling is " + text + "1, that of some.st is " + text + "0");
  refuses_merge("some.st", "seed.st", "seed.st: seed of row 0 is 8, that of some.st is 7");
  refuses_merge("some.st", "offset.st", "offset.st: offset of row 0 is 6, that of some.st is 5");
}

TEST_CASE("files that are no states, and bad options") {
  const work_directory directory;
  write_small(directory);
  const std::string good = read_file(directory.path("all.st"));
  std::string altered = good;
  altered[70] = static_cast<char>(altered[70] ^ 1);
  const std::vector<std::pair<std::string, std::string>> contents = {
      {"", "wrong magic"},
      {"some text", "wrong magic"},
      {good.substr(0, 6), "truncated"},
      {good.substr(0, good.size() - 1), "truncated"},
      {good + "\n", "bytes after"},
      {altered, "altered"}};
  for (const auto& [content, cause] : contents) {
    write_file(directory.path("bad.st"), content);
    refuses(directory, {"finish", "bad.st"}, "bad.st: ", cause);
    refuses(directory, {"merge", "a.st", "bad.st", "-o", "m.st"}, "bad.st: ", cause);
  }
  refuses(directory, {"finish", "x.npy"}, "x.npy: ", "wrong magic");
  refuses(directory, {"finish", "missing.st"}, "missing.st: ", "No such file");
  refuses(directory, {"fold", "all.st", "-o", "m.st"}, "all.st: ", "wrong magic");
  refuses(directory, {"fold", "x.npy", "-o", "x.npy"}, "x.npy: ", "same file");
  refuses(directory, {"fold", "x.npy", "-o", "m.st", "--column-offset", "-1"},
          "--column-offset: ", "-1 is not a whole number from 0 to 9223372036854775807");
  refuses(directory, {"fold", "x.npy", "-o", "m.st", "-k", "-1"},
          "-k: ", "-1 is not a whole number from 0 to 9223372036854775807");
  refuses(directory, {"fold", "x.npy", "-o", "m.st", "--column-offset", "9223372036854775807"}, "",
          "column_offset");
  refuses(directory, {"merge", "-o", "m.st"}, "", "STATE");
}

TEST_SUITE_END();
