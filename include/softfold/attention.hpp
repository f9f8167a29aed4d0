// SPDX-License-Identifier: Apache-2.0
/// \file
/// Attention without the score matrix: out = softmax(scale Q K^T + bias, masked) V, and its state,
/// which parts of the keys fold into and combine.
///
/// Tensors are [batches, heads, tokens, dim]: each query is a row of scores, one for each key, that
/// is folded as it is made. The conventions of softfold.hpp hold; what is special here:
///
/// - q is [B, Hq, Sq, D], k [B, Hk, Sk, D], v [B, Hk, Sk, Dv], out [B, Hq, Sq, Dv], with 1 <= D, Dv
/// <=
///   512. Hq is a multiple of Hk: query head h reads key head h / (Hq / Hk). Sizes but D and Dv may
///   be 0.
/// - q, k and v have one type, f32, f64, f16 or bf16; out has it too, or f32. Arithmetic is f32
///   (f64 for f64), an output is rounded once.
/// - The dimension is contiguous, other strides are free: packed Q, K and V, [B, S, H, D], heads
///   shared by a stride of 0. No two elements of an output may share memory, nor may an output
///   share any with an input, in place neither.
/// - Packed tokens: with query_starts and key_starts the tokens of q, k and v, of one batch, are
/// those
///   of several sequences, one after the other; each attends to itself alone.
/// - A key that a mask, a length or a bias of -infinity removes does not exist: NaN and infinity of
///   its k and v reach nothing. A score of -infinity removes its key likewise. Without keys out is
///   what `empty_row` says and the logsumexp -infinity. A NaN among the scores of keys that exist
///   makes out and the logsumexp NaN; +infinity, without a NaN, out NaN and the logsumexp
///   +infinity.
/// - The same call gives the same bits every time; a query's bits depend on its own keys and its
///   place among the queries, not on the batch, nor on how work was spread.
/// - Work is proportional to B Hq Sq Sk (D + Dv), less what masks remove of it in whole blocks;
///   memory beside the arguments to B Hq Sq (Dv + 2) at most for each chunk of keys that is worked
///   on by itself, where queries are few.
///
/// Source: the online softmax (Milakov and Gimelshein, arXiv 1805.02867) with the weighted sum of
/// the values beside it (Rabe and Staats, arXiv 2112.05682; Dao et al., arXiv 2205.14135).
/// docs/attention.md has masks by formula, special values, error bounds.
#pragma once

#include <softfold/softfold.hpp>

#include <cstdint>
#include <optional>
#include <type_traits>

namespace softfold {

/// Element (b, h, t, d) is at data + b batch_stride + h head_stride + t token_stride + d. Strides
/// count elements and are 0 or more.
template <element T>
struct tensor_view {
  T* data = nullptr;
  std::int64_t batches = 0;
  std::int64_t heads = 0;
  std::int64_t tokens = 0;
  std::int64_t dim = 0;
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t token_stride = 0;

  constexpr tensor_view() = default;
  /// Without gaps.
  constexpr tensor_view(T* data_, std::int64_t batches_, std::int64_t heads_, std::int64_t tokens_,
                        std::int64_t dim_) noexcept
      : tensor_view(data_, batches_, heads_, tokens_, dim_, heads_ * tokens_ * dim_, tokens_ * dim_,
                    dim_) {}
  constexpr tensor_view(T* data_, std::int64_t batches_, std::int64_t heads_, std::int64_t tokens_,
                        std::int64_t dim_, std::int64_t batch_stride_, std::int64_t head_stride_,
                        std::int64_t token_stride_) noexcept
      : data(data_),
        batches(batches_),
        heads(heads_),
        tokens(tokens_),
        dim(dim_),
        batch_stride(batch_stride_),
        head_stride(head_stride_),
        token_stride(token_stride_) {}
};

/// A read-only tensor_view whose element type is a value.
struct const_tensor_ref {
  const void* data = nullptr;
  dtype type = dtype::f32;
  std::int64_t batches = 0;
  std::int64_t heads = 0;
  std::int64_t tokens = 0;
  std::int64_t dim = 0;
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t token_stride = 0;

  constexpr const_tensor_ref() = default;
  constexpr const_tensor_ref(const void* data_, dtype type_, std::int64_t batches_,
                             std::int64_t heads_, std::int64_t tokens_, std::int64_t dim_,
                             std::int64_t batch_stride_, std::int64_t head_stride_,
                             std::int64_t token_stride_) noexcept
      : data(data_),
        type(type_),
        batches(batches_),
        heads(heads_),
        tokens(tokens_),
        dim(dim_),
        batch_stride(batch_stride_),
        head_stride(head_stride_),
        token_stride(token_stride_) {}
  template <element T>
  constexpr const_tensor_ref(
      const tensor_view<T>& t) noexcept  // NOLINT(google-explicit-constructor)
      : const_tensor_ref(t.data, dtype_of<T>, t.batches, t.heads, t.tokens, t.dim, t.batch_stride,
                         t.head_stride, t.token_stride) {}
};

/// A writable tensor_view whose element type is a value.
struct tensor_ref {
  void* data = nullptr;
  dtype type = dtype::f32;
  std::int64_t batches = 0;
  std::int64_t heads = 0;
  std::int64_t tokens = 0;
  std::int64_t dim = 0;
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t token_stride = 0;

  constexpr tensor_ref() = default;
  constexpr tensor_ref(void* data_, dtype type_, std::int64_t batches_, std::int64_t heads_,
                       std::int64_t tokens_, std::int64_t dim_, std::int64_t batch_stride_,
                       std::int64_t head_stride_, std::int64_t token_stride_) noexcept
      : data(data_),
        type(type_),
        batches(batches_),
        heads(heads_),
        tokens(tokens_),
        dim(dim_),
        batch_stride(batch_stride_),
        head_stride(head_stride_),
        token_stride(token_stride_) {}
  template <element T>
  requires(!std::is_const_v<T>) constexpr tensor_ref(
      const tensor_view<T>& t) noexcept  // NOLINT(google-explicit-constructor)
      : tensor_ref(t.data, dtype_of<T>, t.batches, t.heads, t.tokens, t.dim, t.batch_stride,
                   t.head_stride, t.token_stride) {}
  constexpr operator const_tensor_ref() const noexcept {  // NOLINT(google-explicit-constructor)
    return {data, type, batches, heads, tokens, dim, batch_stride, head_stride, token_stride};
  }
};

/// What changes or removes scores, in the order of the members: s = scale q k, then the softcap,
/// the bias, ALiBi; then masks. All memory is the queue's device's, and is read in the order of its
/// work.
///
/// Masks and ALiBi go by position. Key j of batch b stands at j + key_offset, and exists below L =
/// key_lengths[b], or key_offset + Sk without lengths. Query i stands at i + query_offset; with
/// causal::bottom_right L - Sq further, so that the last query of the call sees the last key. Of
/// packed tokens b, i, j, Sq and Sk are those of the sequence.
struct attention_options {
  /// Of the products q k; 1 / sqrt(D) if not given. Rounded to the type of the arithmetic, and
  /// finite there.
  std::optional<double> scale = {};
  /// s becomes softcap tanh(s / softcap); finite, 0 or more, 0: s stays.
  double softcap = 0;
  /// Added to s: [B or 1, Hq or 1, Sq or 1, Sk], any real type.
  const_tensor_ref bias = {};
  /// s of the key at p for the query at P becomes s - slope |P - p|: f32 or f64 [Hq], finite.
  const_vector_ref alibi_slopes = {};
  /// The query at P sees keys up to P; or, without, all.
  causal corner = causal::none;
  /// The query at P sees keys from P - window_left on, and up to P + window_right; negative: all.
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  /// i32 or i64, one for each batch or sequence; an entry of 0 or less leaves no key.
  const_vector_ref key_lengths = {};
  std::int64_t key_offset = 0;    ///< keys of the whole that come before the first; 0 or more
  std::int64_t query_offset = 0;  ///< of any sign
  /// A score that each head's rows have beside the keys', and that has no value: its state is (s,
  /// 1, 0). f32 or f64 [Hq]; -infinity: none. Of parts of the keys, one has them.
  const_vector_ref sinks = {};
  /// What a query without keys gives: zero, or NaN.
  softfold::empty_row empty_row = softfold::empty_row::zero;
  /// If it has data: logsumexp of the scores, sinks included, [B, Hq, Sq, 1], of the type of out or
  /// of the arithmetic.
  tensor_ref lse = {};
  /// Of packed tokens, both or neither: i32 or i64 [sequences + 1], ascending. Sequence s has the
  /// queries from query_starts[s] up to query_starts[s + 1], and the keys likewise. Starts are cut
  /// to the tensor; outputs of queries of no sequence stay as they are. Without a bias.
  const_vector_ref query_starts = {};
  const_vector_ref key_starts = {};
  /// What no sequence has more of, for plans to know; 0: the tensor's tokens. Keys beyond do not
  /// exist.
  std::int64_t most_queries = 0;
  std::int64_t most_keys = 0;
};

inline namespace SOFTFOLD_BACKEND {

/// out = softmax(scale Q K^T + bias, masked) V. See the top of this file.
SOFTFOLD_API void attention(queue& q, const_tensor_ref query, const_tensor_ref key,
                            const_tensor_ref value, tensor_ref out,
                            const attention_options& options = {});

/// The state of attention over the given keys, as a rule a part of them: (m, d) in states, o in
/// weighted, with m the largest score, d = sum of exp(score - m), o = sum of exp(score - m) v. The
/// state of no keys is (-infinity, 0, 0); a score of +infinity makes o NaN, one of NaN all three.
///
/// states is [B Hq Sq], max_sum<float> or, for f64, max_sum<double>; weighted is [B, Hq, Sq, Dv] of
/// the same type, f32 or f64. options.empty_row has no effect, and options.lse must have no data:
/// logsumexp() of softfold.hpp makes it of the whole's states.
SOFTFOLD_API void fold_attention(queue& q, const_tensor_ref query, const_tensor_ref key,
                                 const_tensor_ref value, partials_ref states, tensor_ref weighted,
                                 const attention_options& options = {});

/// The states of two disjoint parts of the keys become that of their union: (m1, d1, o1) + (m2, d2,
/// o2) = (M, d1 e1 + d2 e2, o1 e1 + o2 e2) with M = max(m1, m2), ei = exp(mi - M). Associative and
/// commutative up to rounding. Types and shapes as of fold_attention, f32 or f64; `more` may be the
/// same memory.
///
/// States of other libraries enter as (lse, 1, out); a logsumexp to base 2 times ln 2.
SOFTFOLD_API void combine(queue& q, const_partials_ref more, const_tensor_ref more_weighted,
                          partials_ref states, tensor_ref weighted);

/// out = o / d: attention over the keys that were folded. weighted and out are [B, Hq, Sq, Dv],
/// states [B Hq Sq]; out is f32, f16 or bf16, of f64 states f64. Separate memory.
SOFTFOLD_API void normalize(queue& q, const_partials_ref states, const_tensor_ref weighted,
                            tensor_ref out,
                            softfold::empty_row empty_row = softfold::empty_row::zero);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
