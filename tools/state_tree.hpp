// SPDX-License-Identifier: Apache-2.0
/// \file
/// Combines states as a balanced tree, so that the rounding of n parts grows with log2 n.
#pragma once

#include <softfold/queue.hpp>

#include <utility>
#include <vector>

namespace softfold::tool {

/// States is row_states or attention_states.
template <class States>
class state_tree {
 public:
  explicit state_tree(queue& q) : q_(q) {}

  /// Adds the states of another part of the same whole. Throws as States::combine.
  void add(States states) {
    int level = 0;
    for (; !open_.empty() && open_.back().level == level; ++level) {
      states = joined(std::move(open_.back().states), states);
      open_.pop_back();
    }
    open_.push_back({level, std::move(states)});
  }

  /// The states of all that was added, at least once.
  [[nodiscard]] States finish() {
    States result = std::move(open_.back().states);
    for (open_.pop_back(); !open_.empty(); open_.pop_back()) {
      result = joined(std::move(open_.back().states), result);
    }
    return result;
  }

 private:
  struct node {
    int level;  ///< of 2^level parts
    States states;
  };

  States joined(States to, const States& more) {
    to.combine(q_, more);
    return to;
  }

  queue& q_;
  std::vector<node> open_;
};

}  // namespace softfold::tool
