// SPDX-License-Identifier: Apache-2.0
/// \file
/// What verify() does with a chain of drafted tokens.
#pragma once

#include <core/sample_row.hpp>
#include <core/verify.hpp>

#include <cstdint>

namespace softfold::core {

namespace sampling {

SOFTFOLD_HD inline std::int64_t entry_of(const const_matrix_ref& m, std::int64_t r,
                                         std::int64_t c) {
  return integer_at(m.data, m.type, r * m.stride + c);
}

/// A chain's result: tokens of -1 after the last.
SOFTFOLD_HD inline void end_chain(const matrix_ref& tokens, const vector_ref& accepted,
                                  std::int64_t chain, std::int64_t count) {
  for (std::int64_t i = count + 1; i < tokens.cols; ++i) {
    write_integer(tokens.data, tokens.type, chain * tokens.stride + i, -1);
  }
  write_integer(accepted.data, accepted.type, chain, count);
}

SOFTFOLD_HD inline void verify_coupled(const coupled_problem& p, std::int64_t chain) {
  const std::int64_t drafts = p.draft_tokens.cols;
  std::int64_t count = 0;
  while (count < drafts) {
    const std::int64_t token = entry_of(p.tokens, chain, count);
    if (token < 0 || token != entry_of(p.draft_tokens, chain, count)) {
      break;
    }
    ++count;
  }
  end_chain(p.tokens, p.accepted, chain, count);
}

/// Whether a drafted token of these probabilities is accepted: u q < p, u from 52 random bits, so
/// that u q < q.
SOFTFOLD_HD inline bool is_accepted(std::uint64_t bits, double p, double q) {
  const double u = product(static_cast<double>(bits >> 12) + 0.5, 0x1p-52);
  return product(u, q) < p;
}

/// The draws of an offset that a verification takes: a draft's own token is draw 0.
inline constexpr std::uint32_t acceptance_draw = 1;
inline constexpr std::uint32_t residual_draw = 2;

/// The best of the lanes' runners; every lane gets it.
template <class Group>
SOFTFOLD_HD runner first_runner(const Group& group, row_memory& memory, const runner& own) {
  memory.slots[group.lane()] = {__builtin_bit_cast(std::uint64_t, own.key), own.column};
  const auto at = [&](int lane) {
    const row_memory::pair& slot = memory.slots[lane];
    return runner{__builtin_bit_cast(double, slot.first), slot.second};
  };
  for (int n = group.lanes(); n > 1; n = (n + 1) / 2) {
    group.sync();
    const int other = group.lane() + (n + 1) / 2;
    if (other < n && at(other).beats(at(group.lane()))) {
      memory.slots[group.lane()] = memory.slots[other];
    }
  }
  group.sync();
  const runner best = at(0);
  group.sync();
  return best;
}

/// One chain by lanes that share memory. target(r) and draft(r) are rows, as row_sampler takes
/// them.
template <class A, class Group, class Rows>
class ratio_chain {
 public:
  SOFTFOLD_HD ratio_chain(const Group& group, row_memory& memory, const Rows& targets,
                          const Rows& drafts, const ratio_problem& problem, std::int64_t chain)
      : group_(group),
        memory_(memory),
        targets_(targets),
        drafts_(drafts),
        problem_(problem),
        chain_(chain),
        length_(problem.draft_tokens.cols) {}

  SOFTFOLD_HD void run() {
    std::int64_t at = 0;
    while (at < length_ && accepts(at)) {
      ++at;
    }
    if (at == length_) {
      const auto row = targets_.row(first_row() + at);
      row_sampler<A, Group, typename Rows::row_type> target(group_, memory_, row, problem_.sampling,
                                                            first_row() + at);
      const row_distribution p = target.look();
      finish(at, !p.has_token() ? -1 : p.is_certain ? p.first : target.first_draw());
    }
  }

 private:
  [[nodiscard]] SOFTFOLD_HD std::int64_t first_row() const { return chain_ * (length_ + 1); }

  SOFTFOLD_HD void write(std::int64_t at, std::int64_t token) const {
    if (group_.lane() == 0) {
      const matrix_ref& to = problem_.tokens;
      write_integer(to.data, to.type, chain_ * to.stride + at, token);
    }
  }
  SOFTFOLD_HD void finish(std::int64_t at, std::int64_t token) const {
    write(at, token);
    if (group_.lane() == 0) {
      end_chain(problem_.tokens, problem_.accepted, chain_, at);
    }
  }

  /// Whether the draft at a place is accepted; if not, the chain is finished.
  SOFTFOLD_HD bool accepts(std::int64_t at) {
    const std::int64_t r = first_row() + at;
    const auto target_row = targets_.row(r);
    const auto draft_row = drafts_.row(chain_ * length_ + at);
    row_sampler<A, Group, typename Rows::row_type> target(group_, memory_, target_row,
                                                          problem_.sampling, r);
    const row_distribution p = target.look();
    if (!p.has_token()) {
      finish(at, -1);
      return false;
    }
    row_sampler<A, Group, typename Rows::row_type> draft(group_, memory_, draft_row,
                                                         problem_.sampling, r);
    const row_distribution q = draft.look();
    const std::int64_t token = entry_of(problem_.draft_tokens, chain_, at);
    const parameters own = parameters_of(problem_.sampling.options, r);
    if (token >= 0 && token < problem_.sampling.x.cols &&
        is_accepted(random_bits({own.seed, own.offset, acceptance_draw}, 0),
                    p.probability(target_row(token), token),
                    q.probability(draft_row(token), token))) {
      write(at, token);
      return true;
    }
    finish(at, residual({own.seed, own.offset, residual_draw}, target_row, p, draft_row, q));
    return false;
  }

  /// Drawn from what p has above q; from p if that is nothing.
  template <class Row>
  SOFTFOLD_HD std::int64_t residual(const noise& n, const Row& target_row,
                                    const row_distribution& p, const Row& draft_row,
                                    const row_distribution& q) {
    runner above;
    runner any;
    for (std::int64_t i = group_.lane(); i < problem_.sampling.x.cols; i += group_.lanes()) {
      const double probability = p.probability(target_row(i), i);
      if (!(probability > 0)) {
        continue;
      }
      const double rest = probability - q.probability(draft_row(i), i);
      const double noise_of_i = natural_log(exponential_number(random_bits(n, i)));
      const runner own = {natural_log(probability) - noise_of_i, i};
      if (own.beats(any)) {
        any = own;
      }
      if (rest > 0) {
        const runner own_above = {natural_log(rest) - noise_of_i, i};
        if (own_above.beats(above)) {
          above = own_above;
        }
      }
    }
    const std::int64_t token = first_runner(group_, memory_, above).column;
    const std::int64_t otherwise = first_runner(group_, memory_, any).column;
    return token != runner{}.column ? token : otherwise;
  }

  const Group& group_;
  row_memory& memory_;
  const Rows& targets_;
  const Rows& drafts_;
  const ratio_problem& problem_;
  std::int64_t chain_;
  std::int64_t length_;
};

/// A matrix's rows.
template <class T>
struct rows_of {
  using row_type = row_of<T>;
  const T* x;
  std::int64_t stride;
  SOFTFOLD_HD row_type row(std::int64_t r) const { return {x + r * stride}; }
};

template <class T>
SOFTFOLD_HD inline rows_of<T> rows_in(const const_matrix_ref& m) {
  return {static_cast<const T*>(m.data), m.stride};
}

}  // namespace sampling

}  // namespace softfold::core
