// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which rows and which chunk of the keys a block of attention's launches has.
#pragma once

#include <gpu/attention/parts.hpp>
#include <gpu/contract.hpp>

#include <core/attention.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Which block of a launch this is.
struct attention_block {
  int number;  ///< of(p, parts, rows, number) is this
  core::attention_sequence in;
  std::int64_t key_head;
  std::int64_t chunk;
  std::int64_t first_row;  ///< of the rows of the key head
  std::int64_t all_rows;

  template <class A>
  __device__ static attention_block of(const core::attention_problem& p,
                                       const attention_parts<A>& parts, int rows) {
    return of(p, parts, rows, static_cast<int>(blockIdx.x));
  }
  /// Where masks end rows' keys the blocks with most of them come first.
  template <class A>
  __device__ static attention_block of(const core::attention_problem& p,
                                       const attention_parts<A>& parts, int rows, int number) {
    forget_origin(number);  // what is found here stays in no registers for a second time
    // A grid has fewer than 2^31 blocks, and so all of these are.
    auto block = static_cast<std::uint32_t>(number);
    const auto chunks = static_cast<std::uint32_t>(parts.chunks);
    const auto blocks = static_cast<std::uint32_t>(parts.blocks);
    const auto heads = static_cast<std::uint32_t>(p.k.heads);
    attention_block b{};
    b.number = number;
    b.chunk = block % chunks;
    block /= chunks;
    std::int64_t row_block = block % blocks;
    if (p.options.corner != causal::none && !p.is_packed()) {
      row_block = parts.blocks - 1 - row_block;
    }
    block /= blocks;
    b.key_head = block % heads;
    b.in = core::attention_sequence::with_block(p, block / heads, row_block, rows, b.first_row);
    b.all_rows = p.group * b.in.queries;
    return b;
  }
  template <class A>
  [[nodiscard]] __device__ core::attention_row<A> row(const core::attention_problem& p,
                                                      std::int64_t number) const {
    return row_of<A>(p, in, key_head, number);
  }
  /// A row of the block, the last one where there are fewer.
  [[nodiscard]] __device__ std::int64_t row_at(int row) const {
    return first_row + row < all_rows - 1 ? first_row + row : all_rows - 1;
  }
  /// Element 0 of a row's query, and of a key or value of the sequence.
  template <class In>
  [[nodiscard]] __device__ const In* query(const core::attention_problem& p,
                                           std::int64_t row) const {
    const auto at = head_and_token::of(p, key_head, row);
    return static_cast<const In*>(p.q.data) +
           core::offset_of(p.q, in.batch, at.head, in.first_query + at.token);
  }
  template <class In>
  [[nodiscard]] __device__ const In* token(const const_tensor_ref& keys_or_values,
                                           std::int64_t number) const {
    return static_cast<const In*>(keys_or_values.data) +
           core::offset_of(keys_or_values, in.batch, key_head, in.first_key + number);
  }
  /// A row's place among the states of its chunk.
  [[nodiscard]] __device__ std::int64_t place(const core::attention_problem& p,
                                              std::int64_t row) const {
    return chunk * p.rows() +
           p.group * ((in.batch * p.k.heads + key_head) * p.q.tokens + in.first_query) + row;
  }
};

/// Keys that some of a block's rows have, [some_first, some_end) if there are any, and those that
/// all have, of a chunk.
struct keys_of_rows {
  std::int64_t some_first;
  std::int64_t some_end;
  std::int64_t all_first;
  std::int64_t all_end;

  /// Of no rows yet.
  __device__ static keys_of_rows within(std::int64_t begin, std::int64_t past) {
    return {past, begin, begin, past};
  }
  __device__ void add(std::int64_t first, std::int64_t end) {
    if (first < end) {
      some_first = first < some_first ? first : some_first;
      some_end = end > some_end ? end : some_end;
    }
    all_first = first > all_first ? first : all_first;
    all_end = end < all_end ? end : all_end;
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
