// SPDX-License-Identifier: Apache-2.0
// Reproducible numerics of rows of any content: parts cut between packets, each by an anchor of its
// own and merged in any order, come to the row's total bit for bit; and so do the cpu backend's
// softmax, log-softmax, logsumexp and states with exact sums, on one thread or two.
#include "require.hpp"

#include <core/exact_state.hpp>

#include <tests/support/reproducible_parts.hpp>

#include <softfold/softfold.hpp>

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace softfold::fuzz {
namespace {

namespace definition = core::reproducible;

template <class T>
T any_of(FuzzedDataProvider& input) {
  std::array<std::uint8_t, sizeof(T)> bytes{};
  input.ConsumeData(bytes.data(), bytes.size());
  T value;
  std::memcpy(static_cast<void*>(&value), bytes.data(), bytes.size());
  return value;
}

template <class In>
std::vector<In> row_of(FuzzedDataProvider& input) {
  static constexpr std::size_t interesting[] = {1, 7, 8, 9, 64, 2047, 2048, 2049, 8193, 20000};
  std::vector<In> x(input.ConsumeBool() ? input.PickValueInArray(interesting)
                                        : input.ConsumeIntegralInRange<std::size_t>(0, 300));
  // A ramp of any step, with any bits in places.
  const auto step = static_cast<float>(input.ConsumeIntegral<std::int16_t>()) * 0x1p-12F;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = In(static_cast<float>(i % 97) * step);
  }
  for (int n = input.ConsumeIntegralInRange(0, 40); n > 0 && !x.empty(); --n) {
    const auto first = input.ConsumeIntegralInRange<std::size_t>(0, x.size() - 1);
    const std::size_t count = input.ConsumeBool() ? x.size() - first : 1;
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(first), count, any_of<In>(input));
  }
  return x;
}

template <class A>
void parts_of_row(FuzzedDataProvider& input, A scale, const std::vector<A>& x,
                  const definition::row_total<A>& whole) {
  const A largest = test::largest_of(scale, x, 0, x.size());
  const auto frame = definition::frame<A>::of(scale, largest);
  std::vector<definition::exact_sum<A>> parts;
  for (std::size_t begin = 0; begin < x.size();) {
    const auto packets = input.ConsumeIntegralInRange<std::size_t>(1, 1 + x.size() / 8);
    const std::size_t end = parts.size() == 30 ? x.size() : std::min(x.size(), begin + 8 * packets);
    parts.push_back(test::sum_of_part(frame, x, begin, end, input.ConsumeBool() ? 1 : 0));
    begin = end;
  }
  while (parts.size() > 1) {
    const auto from = input.ConsumeIntegralInRange<std::size_t>(1, parts.size() - 1);
    parts[input.ConsumeIntegralInRange<std::size_t>(0, from - 1)].add(parts[from]);
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(from));
  }
  const auto merged = definition::row_total<A>::of(scale, largest, parts.at(0));
  require(test::same_total(merged, whole), "parts come to the whole");
}

template <class State>
bool same_bits(const State& a, const State& b) {
  return std::memcmp(static_cast<const void*>(&a), static_cast<const void*>(&b), sizeof a) == 0;
}

/// The state of the row, of parts that the library folds and combines in any order.
template <class In, class A>
void state_of_row(FuzzedDataProvider& input, queue& q, A scale, const std::vector<In>& x,
                  const definition::row_total<A>& whole) {
  const auto folded = [&](std::size_t begin, std::size_t end) {
    std::vector<exact_max_sum<A>> state(1);
    const auto cols = static_cast<std::int64_t>(end - begin);
    fold(q, {x.data() + begin, dtype_of<In>, 1, cols, cols}, state,
         {.scale = static_cast<double>(scale)});
    return state;
  };
  std::vector<std::vector<exact_max_sum<A>>> parts;
  for (std::size_t begin = 0; begin < x.size();) {
    const auto packets = input.ConsumeIntegralInRange<std::size_t>(0, 1 + x.size() / 8);
    const std::size_t end = parts.size() == 10 ? x.size() : std::min(x.size(), begin + 8 * packets);
    parts.push_back(folded(begin, end));
    begin = end;
  }
  while (parts.size() > 1) {
    const auto from = input.ConsumeIntegralInRange<std::size_t>(1, parts.size() - 1);
    combine(q, parts[from], parts[input.ConsumeIntegralInRange<std::size_t>(0, from - 1)]);
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(from));
  }
  const exact_max_sum<A> state = parts.empty() ? exact_max_sum<A>{} : parts[0][0];
  const auto total = definition::total_of(scale, state);
  require(total.kind == whole.kind, "the state's kind is the row's");
  if (whole.exponents.is_far) {
    return;
  }
  require(same_bits(state, folded(0, x.size())[0]), "parts come to the state of the whole");
  require(total.kind != definition::row_kind::ordinary || test::same_total(total, whole),
          "the state's results are the row's");
}

template <class In>
void run(FuzzedDataProvider& input) {
  using A = std::conditional_t<std::is_same_v<In, double>, double, float>;
  static queue queues[] = {queue(queue_options{.threads = 1, .numerics = numerics::reproducible}),
                           queue(queue_options{.threads = 2, .numerics = numerics::reproducible})};
  queue& q = queues[input.ConsumeBool() ? 1 : 0];
  static constexpr A scales[] = {1, 1, 1, A(0.37), -2, 0, A(1e-30), A(1e30)};
  A scale = input.PickValueInArray(scales);
  if (const A any = any_of<A>(input); input.ConsumeBool() && std::isfinite(any)) {
    scale = any;
  }
  const std::vector<In> x = row_of<In>(input);
  std::vector<A> elements;
  for (const In element : x) {
    elements.push_back(static_cast<A>(element));
  }
  const auto cols = static_cast<std::int64_t>(x.size());
  const auto total = definition::total_of(
      scale, cols, [&](std::int64_t c) { return elements[static_cast<std::size_t>(c)]; });
  const bool is_ordinary = total.kind == definition::row_kind::ordinary;
  if (is_ordinary) {
    parts_of_row(input, scale, elements, total);
  }
  state_of_row(input, q, scale, x, total);
  const const_matrix_ref rows = {x.data(), dtype_of<In>, 1, cols, cols};
  std::vector<In> y(x.size());
  for (const bool log : {false, true}) {
    (log ? log_softmax : softmax)(q, rows, {y.data(), dtype_of<In>, 1, cols, cols},
                                  {.scale = static_cast<double>(scale)});
    q.wait();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const A value = !is_ordinary ? std::numeric_limits<A>::quiet_NaN()
                      : log        ? total.log_softmax(elements[i])
                                   : total.softmax(elements[i]);
      const auto expected = In(value);
      require(std::memcmp(static_cast<const void*>(&y[i]), &expected, sizeof expected) == 0,
              log ? "log_softmax has the definition's bits" : "softmax has the definition's bits");
    }
  }
  In lse{};
  logsumexp(q, rows, {&lse, dtype_of<In>, 1}, {.scale = static_cast<double>(scale)});
  q.wait();
  const auto expected = In(total.lse);
  require(std::memcmp(static_cast<const void*>(&lse), &expected, sizeof expected) == 0,
          "logsumexp has the definition's bits");
}

}  // namespace
}  // namespace softfold::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace softfold;  // NOLINT(google-build-using-namespace)
  FuzzedDataProvider input(data, size);
  switch (input.ConsumeIntegralInRange(0, 3)) {
    case 0:
      fuzz::run<float>(input);
      break;
    case 1:
      fuzz::run<double>(input);
      break;
    case 2:
      fuzz::run<half>(input);
      break;
    default:
      fuzz::run<bfloat16>(input);
      break;
  }
  return 0;
}
