// SPDX-License-Identifier: Apache-2.0
// softfold attention --state, merge and finish: keys in several files.
#include "checks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace softfold;
using namespace softfold::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Of part i: STEMa, STEMb, ... and the extension.
std::string part_of(std::string stem, std::size_t i, const char* extension = "") {
  stem += static_cast<char>('a' + i);
  return stem += extension;
}

/// Indices begin, ..., end - 1 of an axis, counted from the last.
array slice_of(const array& x, std::size_t from_last, std::int64_t begin, std::int64_t end) {
  array part{x.type, x.shape, {}};
  const std::size_t axis = x.shape.size() - from_last;
  part.shape[axis] = end - begin;
  std::int64_t step = 1;
  for (std::size_t i = axis + 1; i < x.shape.size(); ++i) {
    step *= x.shape[i];
  }
  for (auto at = x.values.begin(); at != x.values.end(); at += x.shape[axis] * step) {
    part.values.insert(part.values.end(), at + begin * step, at + end * step);
  }
  return part;
}

std::vector<std::string> operator+(std::vector<std::string> words,
                                   const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// q.npy, k.npy and v.npy, and the states a.st, b.st, ... of the keys between the borders.
struct parts : work_directory {
  array q, k, v;
  std::vector<std::int64_t> borders;

  parts(array q_, array k_, array v_, std::vector<std::int64_t> borders_)
      : q(std::move(q_)), k(std::move(k_)), v(std::move(v_)), borders(std::move(borders_)) {
    write("q", q);
    write("k", k);
    write("v", v);
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
      write(part_of("k", i), slice_of(k, 2, borders[i], borders[i + 1]));
      write(part_of("v", i), slice_of(v, 2, borders[i], borders[i + 1]));
    }
  }
  void write(const std::string& name, const array& x) const {
    write_file(path(name + ".npy"), npy_bytes(x));
  }
  [[nodiscard]] std::vector<std::string> fold_words(std::size_t i) const {
    return {"attention",
            "q.npy",
            part_of("k", i, ".npy"),
            part_of("v", i, ".npy"),
            "--key-offset",
            std::to_string(borders[i]),
            "--state",
            part_of("", i, ".st")};
  }
  /// Of all parts with the same options.
  void fold(const std::vector<std::string>& options = {}) const {
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
      CHECK(run_well(*this, fold_words(i) + options).empty());
    }
  }
  void whole(const std::vector<std::string>& options = {}) const {
    run_well(*this, std::vector<std::string>{"attention", "q.npy", "k.npy", "v.npy", "-o", "o.npy",
                                             "--lse", "l.npy"} +
                        options);
  }
  /// The states, merged in this order, must give what whole() gave.
  void give_the_whole(const std::vector<std::string>& states, double bound,
                      const std::vector<std::string>& options = {}) const {
    run_well(*this, std::vector<std::string>{"merge", "-o", "all.st"} + states);
    CHECK(run_well(*this, std::vector<std::string>{"finish", "all.st", "-o", "found.npy", "--lse",
                                                   "found_l.npy"} +
                              options)
              .empty());
    check_near(read_npy(path("found.npy")), read_npy(path("o.npy")), bound);
    check_near(read_npy(path("found_l.npy")), read_npy(path("l.npy")),
               q.type == dtype::f64 ? 1e-14 : 1e-5);
  }
};

parts of_four_heads(dtype type, std::vector<std::int64_t> borders = {0, 40, 41, 90}) {
  const std::int64_t keys = borders.back();
  return {random_array(type, {2, 4, 17, 24}, 1), random_array(type, {2, 2, keys, 24}, 2),
          random_array(type, {2, 2, keys, 8}, 3), std::move(borders)};
}

}  // namespace

TEST_SUITE_BEGIN("attention_states");

TEST_CASE("parts merged in any order are as the whole, of every type") {
  for (const dtype type : {dtype::f32, dtype::f64, dtype::f16, dtype::bf16}) {
    INFO("type: " << name_of(type));
    const bool narrow = type == dtype::f16 || type == dtype::bf16;
    const std::vector<std::string> read =
        type == dtype::bf16 ? std::vector<std::string>{"--bf16"} : std::vector<std::string>{};
    const std::vector<std::string> write =
        narrow ? std::vector<std::string>{"--out-dtype", name_of(type)}
               : std::vector<std::string>{};
    const double bound = type == dtype::f64   ? 1e-14
                         : type == dtype::f32 ? 1e-5
                         : type == dtype::f16 ? 1e-3
                                              : 8e-3;
    const parts p = of_four_heads(type);
    p.fold(read);
    p.whole(read);
    p.give_the_whole({"a.st", "b.st", "c.st"}, bound, write);
    CHECK(read_npy(p.path("found.npy")).shape == std::vector<std::int64_t>{2, 4, 17, 8});
    CHECK(read_npy(p.path("found_l.npy")).shape == std::vector<std::int64_t>{2, 4, 17});
    p.give_the_whole({"c.st", "a.st", "b.st"}, bound, write);
    run_well(p, {"merge", "c.st", "b.st", "-o", "bc.st"});
    p.give_the_whole({"bc.st", "a.st"}, bound, write);
    if (narrow) {
      p.whole(read + std::vector<std::string>{"--out-dtype", "f32"});
      p.give_the_whole({"a.st", "b.st", "c.st"}, bound);
    }
  }
}

TEST_CASE("two parts of arrays of two and three axes") {
  for (const std::vector<std::int64_t>& heads : {std::vector<std::int64_t>{}, {3}}) {
    const auto shape = [&](std::int64_t tokens, std::int64_t dim) {
      std::vector<std::int64_t> all = heads;
      all.insert(all.end(), {tokens, dim});
      return all;
    };
    const parts p(random_array(dtype::f32, shape(5, 9), 4),
                  random_array(dtype::f32, shape(7, 9), 5),
                  random_array(dtype::f32, shape(7, 3), 6), {0, 2, 7});
    p.fold();
    p.whole();
    p.give_the_whole({"b.st", "a.st"}, 1e-5);
  }
}

TEST_CASE("masks, windows, biases and sinks go by the place in the whole") {
  const parts p = of_four_heads(dtype::f32, {0, 13, 21, 29});
  const std::vector<std::vector<std::string>> masks = {
      {"--causal", "top-left"},
      {"--causal", "top-left", "--query-offset", "-3"},
      {"--causal", "top-left", "--query-offset", "12", "--window-left", "6"},
      {"--causal", "bottom-right", "--keys", "29"},
      {"--causal", "bottom-right", "--keys", "29", "--query-offset", "2", "--window-left", "3"},
      {"--window-left", "2", "--window-right", "4"},
      {"--scale", "0.3", "--softcap", "5"}};
  for (const std::vector<std::string>& mask : masks) {
    CAPTURE(&mask - masks.data());
    p.fold(mask);
    p.whole(mask);
    p.give_the_whole({"a.st", "b.st", "c.st"}, 1e-5);
  }
  p.whole({"--causal", "bottom-right"});  // where the file's last key is that of the whole
  p.fold(masks[3]);
  p.give_the_whole({"a.st", "b.st", "c.st"}, 1e-5);

  array bias = random_array(dtype::f32, {4, 1, 29}, 7);
  bias.values[3] = -infinity;
  p.write("bias", bias);
  p.write("sinks", {dtype::f32, {4}, {1, -infinity, 30, -2}});
  p.whole({"--bias", "bias.npy", "--sinks", "sinks.npy"});
  const std::vector<double> with_sinks = read_npy(p.path("l.npy")).values;
  for (std::size_t i = 0; i < 3; ++i) {
    p.write(part_of("bias", i), slice_of(bias, 1, p.borders[i], p.borders[i + 1]));
    run_well(p, p.fold_words(i) + std::vector<std::string>{"--bias", part_of("bias", i, ".npy")} +
                    (i == 1 ? std::vector<std::string>{"--sinks", "sinks.npy"}
                            : std::vector<std::string>{}));
  }
  p.give_the_whole({"a.st", "b.st", "c.st"}, 1e-5);
  p.whole({"--bias", "bias.npy"});
  CHECK(read_npy(p.path("l.npy")).values != with_sinks);

  run_well(p, p.fold_words(2) + std::vector<std::string>{"--sinks", "sinks.npy"});
  refuses(p, {"merge", "a.st", "b.st", "c.st", "-o", "m.st"},
          "c.st: ", "the sinks are also in b.st");
}

TEST_CASE("ALiBi and lengths go by the place in the whole") {
  const parts p = of_four_heads(dtype::f32, {0, 13, 21, 29});
  p.write("slopes", {dtype::f64, {4}, {0.5, 0.125, 0.25, 0}});
  for (const std::vector<std::int64_t>& lengths :
       {std::vector<std::int64_t>{29, 17}, {20, 0}, {5, 40}}) {
    CAPTURE(lengths[0]);
    write_file(p.path("lengths.npy"), integer_npy("<i8", {2}, lengths));
    for (const char* const corner : {"no", "top-left", "bottom-right"}) {
      const std::vector<std::string> options = {"--alibi",     "slopes.npy", "--lengths",
                                                "lengths.npy", "--causal",   corner};
      p.fold(options);
      p.whole(options);
      p.give_the_whole({"c.st", "a.st", "b.st"}, 1e-5);
    }
    const std::vector<double> with = read_npy(p.path("l.npy")).values;
    p.whole({"--lengths", "lengths.npy", "--causal", "bottom-right"});
    CHECK(read_npy(p.path("l.npy")).values != with);
  }
}

TEST_CASE("queries without keys, and no queries") {
  const parts p(random_array(dtype::f32, {2, 4}, 8), array{dtype::f32, {0, 4}, {}},
                array{dtype::f32, {0, 5}, {}}, {0, 0});
  p.fold();
  run_well(p, {"finish", "a.st", "-o", "o.npy", "--lse", "l.npy"});
  CHECK(read_npy(p.path("o.npy")).values == std::vector<double>(10));
  CHECK(read_npy(p.path("l.npy")).values == std::vector<double>(2, -infinity));
  run_well(p, {"finish", "a.st", "-o", "o.npy", "--empty-row", "nan"});
  for (const double value : read_npy(p.path("o.npy")).values) {
    CHECK(std::isnan(value));
  }
  for (const std::vector<std::int64_t>& none : {std::vector<std::int64_t>{0, 4, 6, 3}, {2, 0, 3}}) {
    const array x{dtype::f32, none, {}};
    for (const char* name : {"q", "ka", "va"}) {
      p.write(name, x);
    }
    p.fold(none[0] == 0 ? std::vector<std::string>{"--keys", "6"} : std::vector<std::string>{});
    run_well(p, {"merge", "a.st", "-o", "all.st"});
    run_well(p, {"finish", "all.st", "-o", "o.npy"});
    CHECK(read_npy(p.path("o.npy")).values.empty());
  }
}

TEST_CASE("states of attention that do not go together") {
  const parts p = of_four_heads(dtype::f32, {0, 10, 20, 30});
  p.fold();
  const auto does_not_go = [&](const std::string& state, const std::string& cause) {
    refuses(p, {"merge", "a.st", "b.st", state, "-o", "all.st"}, state + ": ", cause);
  };
  does_not_go("a.st", "keys 0 to 9 are also in a.st");
  run_well(p, {"attention", "q.npy", "kc.npy", "vc.npy", "--key-offset", "15", "--state", "o.st"});
  does_not_go("o.st", "keys 15 to 19 are also in b.st");
  p.write("q_less", slice_of(p.q, 2, 0, 16));
  run_well(
      p, {"attention", "q_less.npy", "kc.npy", "vc.npy", "--key-offset", "20", "--state", "q.st"});
  does_not_go("q.st", "tokens is 16, that of a.st is 17");
  p.write("v_less", slice_of(slice_of(p.v, 1, 0, 7), 2, 20, 30));
  run_well(p,
           {"attention", "q.npy", "kc.npy", "v_less.npy", "--key-offset", "20", "--state", "v.st"});
  does_not_go("v.st", "dim is 7, that of a.st is 8");
  const parts wide = of_four_heads(dtype::f64, {0, 30});
  wide.fold();
  write_file(p.path("wide.st"), read_file(wide.path("a.st")));
  does_not_go("wide.st", "type is f64, that of a.st is f32");

  run_well(p, {"fold", "q.npy", "-o", "rows.st"});
  does_not_go("rows.st", "has states of rows, a.st those of attention");
  refuses(p, {"merge", "rows.st", "a.st", "-o", "all.st"},
          "a.st: ", "has states of attention, rows.st those of rows");
  refuses(p, {"merge", "a.st", "b.st", "-o", "b.st"}, "b.st: ", "same file");
  refuses(p, {"merge", "a.st", "k.npy", "-o", "m.st"}, "k.npy: ", "wrong magic");
}

TEST_CASE("files that are no states of attention") {
  const parts p = of_four_heads(dtype::f32, {0, 10, 20});
  p.fold();
  const std::string good = read_file(p.path("b.st"));
  const auto altered = [&](std::size_t at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 64);
    return bytes;
  };
  const std::vector<std::pair<std::string, std::string>> contents = {
      {good.substr(0, 20), "truncated"},     {good.substr(0, good.size() - 1), "bytes, expected"},
      {good + "\n", "bytes, expected"},      {altered(300), "altered"},
      {altered(good.size() - 1), "altered"}, {altered(0), "wrong magic"},
      {altered(8), "version is 67"}};
  for (const auto& [content, cause] : contents) {
    write_file(p.path("bad.st"), content);
    refuses(p, {"finish", "bad.st", "-o", "o.npy"}, "bad.st: ", cause);
    refuses(p, {"merge", "a.st", "bad.st", "-o", "m.st"}, "bad.st: ", cause);
    refuses(p, {"merge", "bad.st", "a.st", "-o", "m.st"}, "bad.st: ", cause);
  }
  refuses(p, {"merge", "a.st", "missing.st", "-o", "m.st"}, "missing.st: ", "No such file");
  refuses(p, {"finish", "missing.st", "-o", "o.npy"}, "missing.st: ", "No such file");
}

TEST_CASE("options that do not fit are refused, and nothing is written") {
  const parts p = of_four_heads(dtype::f32, {0, 10, 20});
  p.fold();
  const auto fold_refuses = [&](const std::vector<std::string>& options, const std::string& file,
                                const std::string& cause) {
    refuses(
        p,
        std::vector<std::string>{"attention", "q.npy", "kb.npy", "vb.npy", "--key-offset", "10"} +
            options,
        file, cause);
  };
  const std::vector<std::string> to_state = {"--state", "m.st"};
  fold_refuses({}, "--output or --state", "is required");
  for (const std::vector<std::string>& option : {std::vector<std::string>{"-o", "m.npy"},
                                                 {"--lse", "m.npy"},
                                                 {"--empty-row", "nan"},
                                                 {"--out-dtype", "f32"}}) {
    fold_refuses(to_state + option, "", " excludes ");
  }
  fold_refuses(to_state + std::vector<std::string>{"--causal", "bottom-right"},
               "--causal: ", "needs with --state the keys of the whole, --keys or --lengths");
  fold_refuses(to_state + std::vector<std::string>{"--keys", "19"},
               "kb.npy: ", "has 10 keys from 10 on; the whole has 19");
  refuses(p, {"attention", "q.npy", "kb.npy", "vb.npy", "--key-offset", "-1", "--state", "m.st"},
          "--key-offset: ", "-1 is not a whole number");
  p.write("sinks", {dtype::f32, {3}, {1, 2, 3}});
  fold_refuses(to_state + std::vector<std::string>{"--sinks", "sinks.npy"},
               "sinks.npy: ", "a number for each of Q's 4 heads");
  fold_refuses({"--state", "q.npy"}, "q.npy: ", "same file");
  refuses(p,
          {"attention", "q.npy", "kb.npy", "vb.npy", "--key-offset", "9223372036854775807",
           "--state", "m.st"},
          "", "key_offset");
  p.write("va", slice_of(p.v, 2, 0, 9));
  refuses(p, {"attention", "q.npy", "ka.npy", "va.npy", "--state", "m.st"}, "",
          "value.tokens is 9");

  refuses(p, {"finish", "a.st"}, "a.st: ", "states of attention need -o OUT.npy");
  refuses(p, {"finish", "a.st", "-o", "o.npy", "--lse", "o.npy"}, "o.npy: ", "");
  for (const std::vector<std::string>& option : {std::vector<std::string>{"--logits"},
                                                 {"--labels", "l.txt"},
                                                 {"--row-labels", "l.txt"},
                                                 {"--format", "csv"}}) {
    refuses(p, std::vector<std::string>{"finish", "a.st", "-o", "o.npy"} + option,
            "a.st: ", option[0] + " does not apply to states of attention");
  }
  run_well(p, {"fold", "q.npy", "-o", "rows.st"});
  for (const std::vector<std::string>& option :
       {std::vector<std::string>{"--lse", "o.npy"}, {"--out-dtype", "f16"}}) {
    refuses(p, std::vector<std::string>{"finish", "rows.st"} + option,
            "rows.st: ", option[0] + " does not apply to states of rows");
  }
  const parts wide = of_four_heads(dtype::f64, {0, 10});
  wide.fold();
  refuses(wide, {"finish", "a.st", "-o", "o.npy", "--out-dtype", "f16"},
          "a.st: ", "--out-dtype f16 does not apply to float64 states");
}

TEST_SUITE_END();
