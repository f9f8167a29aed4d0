// SPDX-License-Identifier: Apache-2.0
/// \file
/// The state (m, d, o) of attention, what a query's scores become on their way into it, and what is
/// done with the whole: the same for every backend.
#pragma once

#include <core/attention_problem.hpp>
#include <core/monoid.hpp>
#include <core/softcap.hpp>
#include <core/typed_memory.hpp>

#include <softfold/config.hpp>
#include <softfold/max_sum.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace softfold::core {

// ---- The state.

/// The combination of two states' (m, d), and what each side's o is multiplied with.
template <class A>
struct attention_combination {
  max_sum<A> whole;
  A first;
  A second;

  SOFTFOLD_HD static attention_combination of(const max_sum<A>& a, const max_sum<A>& b) {
    const max_sum<A> whole = max_sum_monoid<A>::combine(a, b);
    return {whole, factor(a.max, whole.max), factor(b.max, whole.max)};
  }
  /// first a + second b; a side whose factor is 0 adds nothing, whatever it is.
  [[nodiscard]] SOFTFOLD_HD A sum(A a, A b) const {
    return (first == A{0}   ? A{0}
            : first == A{1} ? a
                            : first * a) +
           (second == A{0}   ? A{0}
            : second == A{1} ? b
                             : second * b);
  }

 private:
  SOFTFOLD_HD static A factor(A max, A whole) {
    using std::exp;
    return max == -std::numeric_limits<A>::infinity() ? A{0}
           : max == whole                             ? A{1}
                                                      : exp(max - whole);
  }
};

/// o becomes o factor + more; `lost` is what such steps rounded away, which many of them would
/// show.
template <class A>
SOFTFOLD_HD inline void add_carrying(A& o, A& lost, A factor, A more) {
  using std::fma;
  const A before = o * factor;
  const A of_product = fma(o, factor, -before);
  const A total = before + more;
  const A added = total - before;
  lost = fma(lost, factor, of_product + ((before - (total - added)) + (more - added)));
  o = total;
}
/// o with what was lost; of an infinity that is NaN.
template <class A>
SOFTFOLD_HD inline A with_lost(A o, A lost) {
  const A whole = o + lost;
  return whole == whole ? whole : o;
}

/// The monoid of states with `dim` values: max_sum_monoid with the weighted sum beside it.
template <class A>
struct attention_monoid {
  struct value_type {
    max_sum<A> sum;
    std::vector<A> weighted;
  };
  std::size_t dim;

  [[nodiscard]] value_type identity() const { return {{}, std::vector<A>(dim)}; }
  [[nodiscard]] value_type combine(const value_type& a, const value_type& b) const {
    const auto both = attention_combination<A>::of(a.sum, b.sum);
    value_type whole{both.whole, a.weighted};
    for (std::size_t i = 0; i < dim; ++i) {
      whole.weighted[i] = both.sum(a.weighted[i], b.weighted[i]);
    }
    return whole;
  }
};

/// The public form: NaN anywhere in (m, d) is NaN in both.
template <class A>
SOFTFOLD_HD inline max_sum<A> public_state(A max, A sum) {
  if (sum != sum || max != max) {
    const A nan = std::numeric_limits<A>::quiet_NaN();
    return {nan, nan};
  }
  return max == std::numeric_limits<A>::infinity() ? max_sum<A>{max, A{1}} : max_sum<A>{max, sum};
}

/// What makes o, a weighted sum, the output: o / sum, or `value` for all of them.
template <class A>
struct attention_result {
  A sum;
  A value;
  bool ordinary;

  SOFTFOLD_HD static attention_result of(const max_sum<A>& s, empty_row policy) {
    constexpr A infinity = std::numeric_limits<A>::infinity();
    const A nan = std::numeric_limits<A>::quiet_NaN();
    if (s.sum != s.sum || s.max != s.max || s.max == infinity) {
      return {A{1}, nan, false};
    }
    if (!(s.sum > 0) || s.max == -infinity) {
      return {A{1}, policy == empty_row::nan ? nan : A{0}, false};
    }
    return {s.sum, A{0}, true};
  }
  [[nodiscard]] SOFTFOLD_HD A of_weighted(A o) const {
    const A y = ordinary ? o / sum : value;
    return y == y ? y : std::numeric_limits<A>::quiet_NaN();
  }
};

template <class A>
SOFTFOLD_HD inline A logsumexp_of(const max_sum<A>& s) {
  using std::log;
  constexpr A infinity = std::numeric_limits<A>::infinity();
  if (s.sum != s.sum || s.max != s.max) {
    return std::numeric_limits<A>::quiet_NaN();
  }
  if (s.max == infinity || s.max == -infinity || !(s.sum > 0)) {
    return s.max == infinity ? infinity : -infinity;
  }
  return static_cast<A>(static_cast<double>(s.max) + log(static_cast<double>(s.sum)));
}

// ---- A query.

/// Tokens that attend to each other: a batch, or one of several sequences that are packed.
struct attention_sequence {
  std::int64_t batch;        ///< of the tensors
  std::int64_t number;       ///< of key_lengths
  std::int64_t first_query;  ///< of the tensors' tokens
  std::int64_t queries;
  std::int64_t first_key;
  std::int64_t keys;

  SOFTFOLD_HD static attention_sequence of(const attention_problem& p, std::int64_t number) {
    if (!p.is_packed()) {
      return {number, number, 0, p.q.tokens, 0, p.k.tokens};
    }
    const attention_options& o = p.options;
    const std::int64_t query = start(o.query_starts, number, p.q.tokens);
    const std::int64_t queries = start(o.query_starts, number + 1, p.q.tokens) - query;
    const std::int64_t key = start(o.key_starts, number, p.k.tokens);
    const std::int64_t keys = start(o.key_starts, number + 1, p.k.tokens) - key;
    const std::int64_t most = p.most_keys();
    return {
        0, number, query, queries > 0 ? queries : 0, key, keys < 0 ? 0 : keys > most ? most : keys};
  }
  /// Keys that exist as far as lengths go.
  [[nodiscard]] SOFTFOLD_HD std::int64_t live_keys(const attention_problem& p) const {
    const attention_options& o = p.options;
    if (o.key_lengths.data == nullptr) {
      return keys;
    }
    // A length is data: no difference of it leaves 64 bits.
    const std::int64_t length = integer_at(o.key_lengths.data, o.key_lengths.type, number);
    const std::int64_t live = length < o.key_offset ? 0 : length - o.key_offset;
    return live < keys ? live : keys;
  }
  /// That of a token of a batch; without queries if there is none.
  SOFTFOLD_HD static attention_sequence with_token(const attention_problem& p, std::int64_t batch,
                                                   std::int64_t token) {
    if (!p.is_packed()) {
      return of(p, batch);
    }
    attention_sequence s = with_unit(p, token, 1, 0);
    if (token < s.first_query || token >= s.first_query + s.queries) {
      s.queries = 0;
    }
    return s;
  }

  /// Blocks of `rows` rows, rows those of a key head: each block has those of one sequence. There
  /// are fewer blocks than this, and what sequences leave of them is empty.
  SOFTFOLD_HD static std::int64_t most_blocks(const attention_problem& p, std::int64_t rows) {
    const std::int64_t all = p.group * p.q.tokens;
    return p.is_packed() ? all / rows + p.sequences() : (all + rows - 1) / rows;
  }
  /// The sequence of a block of a batch, and its first row there, which may be past the last.
  SOFTFOLD_HD static attention_sequence with_block(const attention_problem& p, std::int64_t batch,
                                                   std::int64_t block, std::int64_t rows,
                                                   std::int64_t& first_row) {
    if (!p.is_packed()) {
      first_row = block * rows;
      return of(p, batch);
    }
    block += block_of(p, 0, rows, 1);  // none before the first sequence
    const attention_sequence s = with_unit(p, block, rows, 1);
    first_row = (block - block_of(p, s.number, rows, 1)) * rows;
    return s;
  }

 private:
  SOFTFOLD_HD static std::int64_t start(const const_vector_ref& starts, std::int64_t i,
                                        std::int64_t tokens) {
    const std::int64_t given = integer_at(starts.data, starts.type, i);
    return given < 0 ? 0 : given > tokens ? tokens : given;
  }
  /// The first block of a sequence: one more for each, as its last may be part of one.
  SOFTFOLD_HD static std::int64_t block_of(const attention_problem& p, std::int64_t number,
                                           std::int64_t rows, int more) {
    const std::int64_t group = more == 0 ? 1 : p.group;
    return start(p.options.query_starts, number, p.q.tokens) * group / rows + number * more;
  }
  /// The last sequence whose first block is not after that one.
  SOFTFOLD_HD static attention_sequence with_unit(const attention_problem& p, std::int64_t block,
                                                  std::int64_t rows, int more) {
    std::int64_t low = 0;
    std::int64_t high = p.sequences();
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      if (block_of(p, middle, rows, more) <= block) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return of(p, low);
  }
};

/// A query of a head of a batch: which keys it may see, and what its products become.
template <class A>
struct attention_row {
  std::int64_t batch;  ///< of the tensors, as the token
  std::int64_t head;
  std::int64_t token;
  std::int64_t first;  ///< keys [first, end) of its sequence exist, as far as masks and lengths go
  std::int64_t end;
  std::int64_t position;  ///< the query's, counted like the sequence's keys
  const void* bias;       ///< of its keys, or null
  dtype bias_type;
  A scale;
  A softcap;
  A slope;

  /// Query `token` of a sequence.
  SOFTFOLD_HD static attention_row of(const attention_problem& p, const attention_sequence& s,
                                      std::int64_t head, std::int64_t token) {
    const attention_options& o = p.options;
    const std::int64_t whole = o.key_lengths.data == nullptr
                                   ? o.key_offset + s.keys
                                   : integer_at(o.key_lengths.data, o.key_lengths.type, s.number);
    // A length is data: no sum of it leaves 64 bits.
    constexpr std::int64_t farthest = std::int64_t{1} << 60;
    const std::int64_t length = whole < 0 ? 0 : whole > farthest ? farthest : whole;
    std::int64_t position = token + o.query_offset - o.key_offset;
    if (o.corner == causal::bottom_right) {
      position += length - s.queries;
    }
    std::int64_t first = 0;
    std::int64_t end = least(length - o.key_offset, s.keys);
    if (o.corner != causal::none) {
      end = least(end, position + 1);
    }
    if (o.window_right >= 0) {
      end = least(end, position + o.window_right + 1);
    }
    if (o.window_left >= 0 && position - o.window_left > 0) {
      first = position - o.window_left;
    }
    const const_tensor_ref& b = o.bias;
    const std::int64_t bias_at = (b.batches == 1 ? 0 : s.batch * b.batch_stride) +
                                 (b.heads == 1 ? 0 : head * b.head_stride) +
                                 (b.tokens == 1 ? 0 : token * b.token_stride);
    return {s.batch,
            head,
            s.first_query + token,
            first,
            end > first ? end : first,
            position,
            b.data == nullptr ? nullptr
                              : static_cast<const char*>(b.data) +
                                    bias_at * static_cast<std::int64_t>(size_of(b.type)),
            b.type,
            static_cast<A>(p.scale),
            static_cast<A>(o.softcap),
            o.alibi_slopes.data == nullptr
                ? A{0}
                : real_at<A>(o.alibi_slopes.data, o.alibi_slopes.type, head)};
  }
  /// The score of a key, given q k; -infinity if the key does not exist.
  [[nodiscard]] SOFTFOLD_HD A score(A product, std::int64_t key) const {
    constexpr A none = -std::numeric_limits<A>::infinity();
    if (key < first || key >= end) {
      return none;
    }
    A s = scale * product;
    if (softcap != A{0}) {
      s = softcapped(s, softcap);
    }
    if (bias != nullptr) {
      const A b = real_at<A>(bias, bias_type, key);
      if (b == none) {
        return none;
      }
      s += b;
    }
    if (slope != A{0}) {
      const std::int64_t distance = position > key ? position - key : key - position;
      s -= slope * static_cast<A>(distance);
    }
    return s;
  }

 private:
  SOFTFOLD_HD static std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
};

/// The state of a head's sink.
template <class A>
SOFTFOLD_HD inline max_sum<A> sink_of(const attention_options& o, std::int64_t head) {
  if (o.sinks.data == nullptr) {
    return max_sum_monoid<A>::identity();
  }
  return max_sum_monoid<A>::lift(real_at<A>(o.sinks.data, o.sinks.type, head));
}

/// Where (b, h, t, 0) of a tensor is, in elements.
template <class Tensor>
SOFTFOLD_HD inline std::int64_t offset_of(const Tensor& t, std::int64_t batch, std::int64_t head,
                                          std::int64_t token) {
  return batch * t.batch_stride + head * t.head_stride + token * t.token_stride;
}
/// The same of a row by its number in [batches, heads, tokens].
template <class Tensor>
SOFTFOLD_HD inline std::int64_t offset_of(const Tensor& t, std::int64_t row) {
  const std::int64_t head = row / t.tokens;
  return offset_of(t, head / t.heads, head % t.heads, row % t.tokens);
}

/// A row's results but its values: (m, d) of fold_attention, or the logsumexp; of its state, the
/// sink included.
template <class A>
SOFTFOLD_HD inline void write_attention_state(const attention_problem& p, std::int64_t batch,
                                              std::int64_t head, std::int64_t token,
                                              const max_sum<A>& s) {
  if (p.folds) {
    static_cast<max_sum<A>*>(p.states.data)[(batch * p.q.heads + head) * p.q.tokens + token] =
        public_state(s.max, s.sum);
    return;
  }
  const tensor_ref& lse = p.options.lse;
  if (lse.data != nullptr) {
    write_real(lse.data, lse.type, offset_of(lse, batch, head, token), logsumexp_of(s));
  }
}

/// A row's results of its keys' state, the sink included.
template <class A>
struct attention_finish {
  attention_combination<A> both;
  attention_result<A> result;

  SOFTFOLD_HD static attention_finish of(const attention_problem& p, std::int64_t head,
                                         const max_sum<A>& keys) {
    const auto both = attention_combination<A>::of(keys, sink_of<A>(p.options, head));
    return {both, attention_result<A>::of(both.whole, p.options.empty_row)};
  }
  /// A value of fold_attention's weighted, or of out, given the sum over the keys.
  [[nodiscard]] SOFTFOLD_HD A value(const attention_problem& p, A sum) const {
    const A o = both.sum(sum, A{0});
    if (!p.folds) {
      return result.of_weighted(o);
    }
    const max_sum<A>& s = both.whole;
    const bool is_number =
        s.max == s.max && s.sum == s.sum && s.max != std::numeric_limits<A>::infinity();
    return is_number && o == o ? o : std::numeric_limits<A>::quiet_NaN();
  }
};

}  // namespace softfold::core
