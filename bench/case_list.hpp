// SPDX-License-Identifier: Apache-2.0
/// \file
/// Builds a list of cases that differ in shape.
#pragma once

#include "case.hpp"

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace softfold::bench {

struct shape {
  std::int64_t rows, cols;
  bool quick = false;  ///< also a part of --quick
};

class case_list {
 public:
  /// A case with a k of more than its columns is left out.
  void add(bench_case c, const shape& s) {
    c.rows = s.rows;
    c.cols = s.cols;
    c.quick = s.quick;
    if (c.k <= c.cols) {
      cases_.push_back(std::move(c));
    }
  }
  void add(const bench_case& c, std::initializer_list<shape> shapes) {
    for (const shape& s : shapes) {
      add(c, s);
    }
  }
  /// Attention, of the group "decode" or "prefill".
  void add_attention(const attention_shape& s, dtype type, int threads, bool quick = false) {
    cases_.push_back({.group = s.queries == 1 ? "decode" : "prefill",
                      .op = operation::attention,
                      .type = type,
                      .rows = s.query_rows() + 2 * s.key_rows(),
                      .cols = s.dim,
                      .attention = s,
                      .threads = threads,
                      .quick = quick});
  }
  [[nodiscard]] std::vector<bench_case> take() { return std::move(cases_); }

 private:
  std::vector<bench_case> cases_;
};

}  // namespace softfold::bench
