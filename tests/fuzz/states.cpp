// SPDX-License-Identifier: Apache-2.0
// Any bytes as states of rows or of attention: they are refused as invalid_data, or are states that
// say the same bytes again, combine and finish. Each input is tried as it is and with its checksum
// put right, so that what lies behind the checksum is reached.
#include "require.hpp"

#include <softfold/attention_states.hpp>
#include <softfold/row_states.hpp>

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <vector>

using namespace softfold;
using softfold::fuzz::require;

namespace {

void use(queue& q, const row_states& states, std::span<const std::byte> bytes) {
  const std::vector<std::byte> again = states.to_bytes();
  require(again.size() == states.byte_count(), "byte_count");
  require(std::ranges::equal(again, bytes), "accepted states give the bytes that they came from");
  const auto rows = static_cast<std::size_t>(states.rows());
  const std::size_t elements = rows * static_cast<std::size_t>(states.k());
  const auto finish = [&]<class T>(T) {
    std::vector<T> lse(rows);
    std::vector<T> probabilities(elements);
    states.finish(q, lse, matrix_view<T>(probabilities.data(), states.rows(), states.k()));
  };
  states.type() == dtype::f64 ? finish(double{}) : finish(float{});
  if (states.sampling()) {  // each row has a seed of its own, so a new state is no identity
    std::vector<std::int64_t> tokens(rows);
    states.finish_sample(q, tokens);
    return;
  }
  row_states none(states.type(), states.rows(), states.k(), states.scale(), states.numerics());
  none.combine(q, states);
  require(states.numerics() == numerics::fast || none.to_bytes() == again,
          "the identity is neutral to the bit");
  require(std::ranges::equal(
              std::span(static_cast<const std::int64_t*>(none.indices().data), elements),
              std::span(static_cast<const std::int64_t*>(states.indices().data), elements)),
          "the identity is neutral");
}

void use(queue& q, const attention_states& states, std::span<const std::byte> bytes) {
  const std::vector<std::byte> again = states.to_bytes();
  require(again.size() == states.byte_count(), "byte_count");
  require(std::ranges::equal(again, bytes), "accepted states give the bytes that they came from");
  const const_tensor_ref shape = states.weighted();
  const auto finish = [&]<class T>(T) {
    std::vector<T> lse(static_cast<std::size_t>(states.states().size));
    std::vector<T> out(lse.size() * static_cast<std::size_t>(states.dim()));
    states.finish(
        q, tensor_view<T>(out.data(), shape.batches, shape.heads, shape.tokens, shape.dim), lse);
  };
  states.type() == dtype::f64 ? finish(double{}) : finish(float{});
}

void read(queue& q, std::span<const std::byte> bytes) {
  // A copy that ends where the memory ends: a read past the end is an error of the address
  // sanitizer.
  const std::unique_ptr<std::byte[]> exact(new std::byte[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), exact.get());
  const std::span<const std::byte> given(exact.get(), bytes.size());
  const auto try_as = [&]<class States>(States (*from_bytes)(std::span<const std::byte>)) {
    try {
      use(q, from_bytes(given), given);
    } catch (const error& e) {
      require(e.code() == errc::invalid_data, e.what());
    }
  };
  try_as(row_states::from_bytes);
  try_as(attention_states::from_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static queue q(queue_options{.threads = 1});
  std::vector<std::byte> bytes(size);
  std::transform(data, data + size, bytes.begin(), [](std::uint8_t b) { return std::byte{b}; });
  read(q, bytes);
  if (size >= 52) {
    const auto sum = static_cast<std::uint32_t>(crc32_z(0, data, size - 4));
    for (std::size_t i = 0; i < 4; ++i) {
      bytes[size - 4 + i] = static_cast<std::byte>(sum >> (8 * i));
    }
    read(q, bytes);
  }
  return 0;
}
