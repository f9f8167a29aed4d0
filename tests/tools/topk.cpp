// SPDX-License-Identifier: Apache-2.0
// softfold topk: its files and what it prints.
#include "support.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace softfold;
using namespace softfold::test;

TEST_SUITE_BEGIN("topk");

namespace {

/// Columns of a row without NaN in the order of top-k.
std::vector<std::int64_t> ranked(const double* row, std::int64_t cols) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(cols));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return row[a] > row[b]; });
  return order;
}

void write_small(const work_directory& directory) {
  const double log2 = std::log(2.0);
  const array x = {dtype::f64, {2, 3}, {0, 2 * log2, log2, log2, 0, 2 * log2}};
  write_file(directory.path("x.npy"), npy_bytes(x));
  write_file(directory.path("labels.txt"), "a\n \\\"b\\n\n\xc3\xa9\x7f\r\n");
  write_file(directory.path("rows.txt"), "first \"row\"\nsecond, row\n");
}

std::string printed(const work_directory& directory, std::vector<std::string> options) {
  options.insert(options.begin(), {"topk", "x.npy"});
  const outcome result = directory.run(options);
  CHECK(result.err == "");
  CHECK(result.exit_code == 0);
  return result.out;
}

}  // namespace

TEST_CASE("files") {
  for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64}) {
    for (const std::int64_t k : {std::int64_t{1}, std::int64_t{7}, std::int64_t{501}}) {
      for (const bool with_logits : {false, true}) {
        INFO("type: " << name_of(type) << ", k: " << k);
        const work_directory directory;
        const array x = random_array(type, {3, 4, 501}, 20);
        write_file(directory.path("x.npy"), npy_bytes(x));
        std::vector<std::string> command = {"topk", "x.npy", "-k", std::to_string(k), "-o", "t"};
        std::set<std::string> names = {"x.npy", "t.probabilities.npy", "t.indices.npy"};
        if (type == dtype::bf16) {
          command.push_back("--bf16");
        }
        if (with_logits) {
          command.push_back("--logits");
          names.insert("t.logits.npy");
        }
        const outcome result = directory.run(command);
        CHECK(result.err == "");
        CHECK(result.out == "");
        REQUIRE(result.exit_code == 0);
        CHECK(directory.names() == names);
        const array p = read_npy(directory.path("t.probabilities.npy"));
        const array i = read_npy(directory.path("t.indices.npy"));
        CHECK(p.type == (type == dtype::f64 ? dtype::f64 : dtype::f32));
        CHECK(i.type == dtype::i64);
        CHECK(p.shape == std::vector<std::int64_t>{3, 4, k});
        CHECK(i.shape == p.shape);
        const array logits = with_logits ? read_npy(directory.path("t.logits.npy")) : array();
        CHECK((!with_logits || (logits.shape == p.shape && logits.type == p.type)));
        for (std::int64_t r = 0; r < 12; ++r) {
          const double* row = x.values.data() + r * 501;
          const double lse = reference_logsumexp(row, 501, 1);
          const std::vector<std::int64_t> order = ranked(row, 501);
          for (std::int64_t j = 0; j < k; ++j) {
            const auto at = static_cast<std::size_t>(r * k + j);
            const std::int64_t index = order[static_cast<std::size_t>(j)];
            REQUIRE(i.values[at] == static_cast<double>(index));
            REQUIRE(std::fabs(p.values[at] / std::exp(row[index] - lse) - 1) <
                    (type == dtype::f64 ? 1e-14 : 2e-6));
            if (with_logits) {
              REQUIRE(logits.values[at] == row[index]);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a table") {
  const work_directory directory;
  write_small(directory);
  CHECK(printed(directory, {"-k", "2"}) ==
        "row 0\n"
        "  0.5714   index 1\n"
        "  0.2857   index 2\n"
        "row 1\n"
        "  0.5714   index 2\n"
        "  0.2857   index 0\n");
  CHECK(printed(directory, {"-k", "2", "--labels", "labels.txt", "--row-labels", "rows.txt",
                            "--logits", "--format", "table"}) ==
        "\"first \\\"row\\\"\"\n"
        "  \" \\\"b\\n\"   0.5714   index 1  logit 1.38629\n"
        "  \"\xc3\xa9\\u007f\"  0.2857   index 2  logit 0.693147\n"
        "\"second, row\"\n"
        "  \"\xc3\xa9\\u007f\"  0.5714   index 2  logit 1.38629\n"
        "  \"a\"        0.2857   index 0  logit 0.693147\n");
  CHECK(printed(directory, {"-k", "0"}) == "row 0\nrow 1\n");
  CHECK(printed(directory, {"-k", "1", "--scale", "0"}) ==
        "row 0\n  0.3333   index 1\nrow 1\n  0.3333   index 2\n");
}

TEST_CASE("CSV") {
  const work_directory directory;
  write_small(directory);
  const std::string plain = printed(directory, {"-k", "1", "--format", "csv"});
  CHECK(plain.starts_with("row,rank,index,probability\n0,1,1,0.571428571428571"));
  const std::string full = printed(directory, {"-k", "2", "--labels", "labels.txt", "--row-labels",
                                               "rows.txt", "--logits", "--format", "csv"});
  CHECK(
      full.starts_with("row,row_label,rank,index,label,probability,logit\n"
                       "0,\"first \\\"\"row\\\"\"\",1,1,\" \\\"\"b\\n\",0.57142857142857"));
  CHECK(std::count(full.begin(), full.end(), '\n') == 5);
}

TEST_CASE("JSON") {
  const work_directory directory;
  write_small(directory);
  const nlohmann::json plain =
      nlohmann::json::parse(printed(directory, {"-k", "3", "--format", "json"}));
  REQUIRE(plain.size() == 2);
  CHECK(plain[1]["row"] == 1);
  CHECK(plain[1]["top"].size() == 3);
  CHECK(plain[1]["top"][0]["index"] == 2);
  CHECK(!plain[1].contains("label"));
  CHECK(!plain[1]["top"][0].contains("logit"));
  const nlohmann::json full =
      nlohmann::json::parse(printed(directory, {"-k", "3", "--labels", "labels.txt", "--row-labels",
                                                "rows.txt", "--logits", "--format", "json"}));
  CHECK(full[0]["label"] == "first \"row\"");
  CHECK(full[0]["top"][0]["label"] == " \"b\n");
  CHECK(full[0]["top"][0]["logit"] == 2 * std::log(2.0));
  CHECK(std::fabs(full[0]["top"][0]["probability"].get<double>() - 4.0 / 7) < 1e-15);
  CHECK(nlohmann::json::parse(printed(directory, {"-k", "0", "--format", "json"}))[1]["top"] ==
        nlohmann::json::array());
  write_file(directory.path("x.npy"), npy_bytes({dtype::f32, {0, 3}, {}}));
  CHECK(printed(directory, {"-k", "0", "--format", "json"}) == "[]\n");
}

TEST_CASE("NaN and missing labels") {
  const work_directory directory;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  write_file(directory.path("x.npy"), npy_bytes({dtype::f32, {3}, {1, nan, 2}}));
  write_file(directory.path("labels.txt"), "a\nb");
  CHECK(printed(directory, {"-k", "2", "--format", "csv", "--labels", "labels.txt"}) ==
        "row,rank,index,label,probability\n0,1,1,\"b\",nan\n0,2,2,,nan\n");
  const nlohmann::json json = nlohmann::json::parse(
      printed(directory, {"-k", "2", "--format", "json", "--labels", "labels.txt", "--logits"}));
  CHECK(json[0]["top"][0]["probability"].is_null());
  CHECK(json[0]["top"][0]["logit"].is_null());
  CHECK(json[0]["top"][1]["label"].is_null());
  CHECK(json[0]["top"][1]["logit"] == 2);
}

TEST_CASE("files and a table at once") {
  const work_directory directory;
  write_small(directory);
  CHECK(printed(directory, {"-k", "1", "-o", "t", "--format", "csv"}).starts_with("row,rank"));
  CHECK(directory.names().contains("t.indices.npy"));
}

TEST_SUITE_END();
