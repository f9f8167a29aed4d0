// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention and fold_attention: blocks of rows that share keys, over chunks of keys. Chunks begin
/// at multiples of their length and their states are combined in their order, so that it does not
/// show whether one thread works on all chunks of a block or several on some.
#include <backends/host/parallel.hpp>
#include <backends/host/row/state.hpp>
#include <backends/host/run.hpp>

#include <core/attention.hpp>
#include <core/real_types.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

constexpr std::int64_t chunk_keys = 1024;
static_assert(chunk_keys % attention_key_block == 0 && chunk_keys % attention_most_key_block == 0);

/// The states of a block's rows.
template <class A>
struct block_states {
  A* max;
  double* sum;
  A* weighted;

  static std::size_t bytes(std::int64_t rows, std::int64_t stride) {
    const auto each = sizeof(double) + sizeof(A) * static_cast<std::size_t>(stride + 1);
    return (static_cast<std::size_t>(rows) * each + 63) / 64 * 64;
  }
  static block_states at(std::byte* memory, std::int64_t rows, std::int64_t stride) {
    auto* const weighted = reinterpret_cast<A*>(memory);
    auto* const sum = reinterpret_cast<double*>(weighted + rows * stride);
    return {reinterpret_cast<A*>(sum + rows), sum, weighted};
  }
};

template <class T>
class attention_job {
  using A = core::arithmetic_t<T>;
  using states = block_states<A>;

 public:
  attention_job(executor& on, const core::attention_problem& p)
      : on_(on),
        p_(p),
        input_(input_type_of(p.q.type)),
        group_(p.group),
        block_rows_(rows_of_block()),
        row_blocks_(core::attention_sequence::most_blocks(p, block_rows_)),
        blocks_(p.q.batches * p.k.heads * row_blocks_),
        chunks_(chunks_of(p.most_keys())),
        stride_(attention_padded(p.v.dim)),
        states_bytes_(states::bytes(block_rows_, stride_)),
        scratch_bytes_(
            (static_cast<std::size_t>(attention_scratch_elements(
                 block_rows_, on.kernels.attention_at_once[input_].keys, p.q.dim, p.v.dim)) *
                 sizeof(A) +
             63) /
            64 * 64) {}

  void run() {
    // Few blocks: their chunks are spread, too.
    const bool splits = on_.threads > 1 && chunks_ > 1 && blocks_ < enough_each * on_.threads;
    const std::size_t lost_bytes =
        (static_cast<std::size_t>(block_rows_ * stride_) * sizeof(A) + 63) / 64 * 64;
    const std::size_t own = scratch_bytes_ + 2 * states_bytes_ + lost_bytes;
    const std::size_t all_own = own * static_cast<std::size_t>(on_.threads);
    const std::int64_t tasks = splits ? blocks_ * chunks_ : blocks_;
    std::byte* const memory = on_.scratch.at_least(
        all_own + (splits ? static_cast<std::size_t>(tasks) * states_bytes_ : 0));
    const auto own_of = [&](int slot) { return memory + own * static_cast<std::size_t>(slot); };
    const auto lost_of = [&](int slot) {
      return reinterpret_cast<A*>(own_of(slot) + own - lost_bytes);
    };
    if (!splits) {
      const auto whole = [&](std::int64_t block, int slot) {
        std::byte* const mine = own_of(slot);
        const states total = states::at(mine + scratch_bytes_, block_rows_, stride_);
        const states next = states::at(mine + scratch_bytes_ + states_bytes_, block_rows_, stride_);
        const place at = place_of(block);
        const given_rows rows(*this, at);
        for (std::int64_t c = 0; c < at.chunks; ++c) {
          fold(at, rows, c, c == 0 ? total : next, mine);
          if (c > 0) {
            combine(at, total, next, lost_of(slot), c == 1);
          }
        }
        finish(at, total, lost_of(slot));
      };
      if (on_.threads == 1 || tasks == 1) {
        for (std::int64_t i = 0; i < tasks; ++i) {
          whole(i, 0);
        }
        return;
      }
      dispenser some(tasks, on_.threads);
      on_all_threads(
          on_, [&](int slot) { some.take_all(slot, [&](std::int64_t i) { whole(i, slot); }); });
      return;
    }
    const auto part = [&](std::int64_t task) {
      return states::at(memory + all_own + static_cast<std::size_t>(task) * states_bytes_,
                        block_rows_, stride_);
    };
    dispenser parts(tasks, on_.threads);
    on_all_threads(on_, [&](int slot) {
      parts.take_all(slot, [&](std::int64_t i) {
        const place at = place_of(i / chunks_);
        if (i % chunks_ < at.chunks) {
          fold(at, given_rows(*this, at), i % chunks_, part(i), own_of(slot));
        }
      });
    });
    dispenser wholes(blocks_, on_.threads);
    on_all_threads(on_, [&](int slot) {
      wholes.take_all(slot, [&](std::int64_t block) {
        const place at = place_of(block);
        const states total = part(block * chunks_);
        for (std::int64_t c = 1; c < at.chunks; ++c) {
          combine(at, total, part(block * chunks_ + c), lost_of(slot), c == 1);
        }
        finish(at, total, lost_of(slot));
      });
    });
  }

 private:
  /// Where a block's rows are: row r is query r / group of head r mod group of those that share.
  struct place {
    core::attention_sequence in;
    std::int64_t key_head;
    std::int64_t first;  ///< row
    int rows;
    std::int64_t chunks;  ///< of the keys: 0 without rows
  };
  static constexpr std::int64_t enough_each = 4;  ///< blocks for each thread

  /// What is made of a block of keys is made once for all rows of a block: as many as leave each
  /// thread some blocks, and queries and sums in the second-level cache.
  [[nodiscard]] std::int64_t rows_of_block() const {
    constexpr std::int64_t most_bytes = 1152 << 10;
    const auto row_bytes = static_cast<std::int64_t>(sizeof(T)) * p_.q.dim +
                           static_cast<std::int64_t>(sizeof(A)) * p_.v.dim;
    std::int64_t rows = on_.kernels.attention_at_once[input_].row_blocks * attention_row_block;
    const auto blocks = [&] {
      return p_.q.batches * p_.k.heads * core::attention_sequence::most_blocks(p_, rows);
    };
    while (rows > attention_row_block &&
           (rows * row_bytes > most_bytes ||
            (on_.threads > 1 && blocks() < enough_each * on_.threads))) {
      rows /= 2;
    }
    return rows;
  }
  static std::int64_t chunks_of(std::int64_t keys) {
    return std::max<std::int64_t>(1, (keys + chunk_keys - 1) / chunk_keys);
  }
  [[nodiscard]] place place_of(std::int64_t block) const {
    const std::int64_t pair = block / row_blocks_;
    std::int64_t first = 0;
    const auto in = core::attention_sequence::with_block(p_, pair / p_.k.heads, block % row_blocks_,
                                                         block_rows_, first);
    const std::int64_t left = std::max<std::int64_t>(0, group_ * in.queries - first);
    return {in, pair % p_.k.heads, first,
            static_cast<int>(std::min<std::int64_t>(block_rows_, left)),
            left == 0 ? 0 : chunks_of(in.keys)};
  }
  [[nodiscard]] core::attention_row<A> row(const place& at, int r) const {
    const std::int64_t i = at.first + r;
    return core::attention_row<A>::of(p_, at.in, at.key_head * group_ + i % group_, i / group_);
  }

  /// What a block's rows are to the kernels.
  struct given_rows {
    static constexpr int most = attention_row_block * attention_most_row_blocks;
    std::int64_t offsets[most];
    std::int64_t first[most];
    std::int64_t last[most];
    std::int64_t position[most];
    double slope[most];
    const void* bias[most];

    given_rows(const attention_job& job, const place& at) {
      for (int r = 0; r < at.rows; ++r) {
        const core::attention_row<A> each = job.row(at, r);
        offsets[r] = core::offset_of(job.p_.q, 0, each.head, each.token);
        first[r] = each.first;
        last[r] = each.end;
        position[r] = each.position;
        slope[r] = static_cast<double>(each.slope);
        bias[r] = each.bias;
      }
    }
  };

  void fold(const place& at, const given_rows& each, std::int64_t chunk, const states& to,
            std::byte* scratch) const {
    const attention_options& o = p_.options;
    const T* const k = static_cast<const T*>(p_.k.data);
    const T* const v = static_cast<const T*>(p_.v.data);
    const attention_rows rows{
        .q = static_cast<const T*>(p_.q.data) + at.in.batch * p_.q.batch_stride,
        .q_offsets = each.offsets,
        .k = k + first_key(p_.k, at),
        .v = v + first_key(p_.v, at),
        .k_stride = p_.k.token_stride,
        .v_stride = p_.v.token_stride,
        .rows = at.rows,
        .dim = static_cast<int>(p_.q.dim),
        .v_dim = static_cast<int>(p_.v.dim),
        .begin = chunk * chunk_keys,
        .end = std::min(at.in.keys, (chunk + 1) * chunk_keys),
        .first = each.first,
        .last = each.last,
        .position = each.position,
        .slope = o.alibi_slopes.data == nullptr ? nullptr : each.slope,
        .bias = o.bias.data == nullptr ? nullptr : each.bias,
        .bias_type = input_type_of(o.bias.type),
        .scale = p_.scale,
        .softcap = o.softcap,
        .max = to.max,
        .sum = to.sum,
        .weighted = to.weighted,
        .weighted_stride = stride_,
        .scratch = scratch};
    on_.kernels.attention[input_](&rows);
  }

  [[nodiscard]] std::int64_t first_key(const const_tensor_ref& t, const place& at) const {
    return core::offset_of(t, at.in.batch, at.key_head, at.in.first_key);
  }

  /// `lost`: what the additions to the total rounded away, which many chunks would show.
  void combine(const place& at, const states& total, const states& next, A* lost,
               bool is_first) const {
    if (is_first) {
      std::fill_n(lost, at.rows * stride_, A{0});
    }
    for (int r = 0; r < at.rows; ++r) {
      if (next.sum[r] == 0) {  // no key
        continue;
      }
      const A before = total.max[r];
      const A whole = next.max[r] > before ? next.max[r] : before;
      const auto factor = [whole](A max) {
        return max == whole ? A{1} : max == -infinite ? A{0} : std::exp(max - whole);
      };
      const A own = factor(before);
      const A other = factor(next.max[r]);
      total.max[r] = whole;
      total.sum[r] =
          total.sum[r] * static_cast<double>(own) + next.sum[r] * static_cast<double>(other);
      on_.kernels.attention_add[input_](total.weighted + r * stride_, lost + r * stride_,
                                        next.weighted + r * stride_, p_.v.dim,
                                        static_cast<double>(own), static_cast<double>(other));
    }
  }

  void finish(const place& at, const states& total, const A* lost) const {
    for (int r = 0; r < at.rows; ++r) {
      const std::int64_t i = at.first + r;
      const std::int64_t head = at.key_head * group_ + i % group_;
      const std::int64_t token = at.in.first_query + i / group_;
      const auto finish = core::attention_finish<A>::of(
          p_, head, core::public_state(total.max[r], static_cast<A>(total.sum[r])));
      core::write_attention_state(p_, at.in.batch, head, token, finish.both.whole);
      const A* const o = total.weighted + r * stride_;
      const A* const rest = at.chunks > 1 ? lost + r * stride_ : nullptr;
      const std::int64_t to = core::offset_of(p_.out, at.in.batch, head, token);
      core::with_output<T>(p_.out.type, [&]<class Out>(Out) {
        Out* const out = static_cast<Out*>(p_.out.data) + to;
        if (finish.result.ordinary && finish.both.first == A{1} && !p_.folds) {
          constexpr output_type type = std::is_same_v<Out, T> ? output_same : output_arithmetic;
          on_.kernels.output[input_][type].attention_result(
              o, rest, p_.v.dim, static_cast<double>(finish.result.sum), out);
          return;
        }
        for (std::int64_t c = 0; c < p_.v.dim; ++c) {
          const A whole = rest != nullptr ? core::with_lost(o[c], rest[c]) : o[c];
          out[c] = static_cast<Out>(finish.value(p_, whole));
        }
      });
    }
  }

  static constexpr A infinite = std::numeric_limits<A>::infinity();

  executor& on_;
  const core::attention_problem& p_;
  int input_;
  std::int64_t group_;
  std::int64_t block_rows_;
  std::int64_t row_blocks_;
  std::int64_t blocks_;
  std::int64_t chunks_;
  std::int64_t stride_;
  std::size_t states_bytes_;
  std::size_t scratch_bytes_;
};

}  // namespace

void run(executor& on, const core::attention_problem& p) {
  if (!p.has_work()) {
    return;
  }
  core::with_real(p.q.type, [&]<class T>(T) { attention_job<T>(on, p).run(); });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
