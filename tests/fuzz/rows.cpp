// SPDX-License-Identifier: Apache-2.0
// Rows of any content: (types, shape, stride, alignment, k, scale, special values, borders) from
// the input's bytes, every operation against the oracle within the bounds of docs/semantics.md, and
// no byte read or written outside.
#include "require.hpp"

#include "gradient.hpp"

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace softfold::fuzz {
namespace {

using namespace softfold::test;  // NOLINT(google-build-using-namespace)

/// A row's length: often near a vector's, a segment's or a chunk's end.
std::int64_t length(FuzzedDataProvider& input) {
  static constexpr std::int64_t interesting[] = {
      0, 1, 2, 7, 8, 15, 16, 17, 64, 127, 255, 257, 1024, 4095, 8192, 8193, 16384, 20000};
  return input.ConsumeBool() ? input.PickValueInArray(interesting)
                             : input.ConsumeIntegralInRange<std::int64_t>(0, 600);
}

template <class In>
problem<In> make_problem(FuzzedDataProvider& input, std::int64_t rows, std::int64_t cols) {
  static constexpr double scales[] = {1, 1, 1, 0.7, 2.5, 0, -1.3, 1e-30};
  problem_spec spec;
  spec.rows = rows;
  spec.cols = cols;
  spec.kind = input.PickValueInArray(all_distributions);
  spec.scale = input.PickValueInArray(scales);
  spec.padding = input.ConsumeIntegralInRange<std::int64_t>(0, 5);
  spec.offset = input.ConsumeIntegralInRange<std::int64_t>(0, 7);
  spec.seed = input.ConsumeIntegral<std::uint8_t>();
  problem<In> p(spec);
  const int changes = input.ConsumeIntegralInRange(0, 24);
  for (int i = 0; i < changes && spec.rows > 0 && spec.cols > 0; ++i) {
    const auto r = input.ConsumeIntegralInRange<std::int64_t>(0, spec.rows - 1);
    const auto c = input.ConsumeIntegralInRange<std::int64_t>(0, spec.cols - 1);
    const auto n = input.ConsumeIntegralInRange<std::int64_t>(1, spec.cols - c);
    const bool many = input.ConsumeBool();
    std::array<std::uint8_t, sizeof(In)> bits{};  // any value at all: NaN of any payload, infinity
    input.ConsumeData(bits.data(), bits.size());
    In value;
    std::memcpy(static_cast<void*>(&value), bits.data(), bits.size());
    std::fill_n(p.x.row(r).begin() + c, many ? n : 1, value);
  }
  p.commit();
  return p;
}

/// Row r, for the text of a failure.
template <class In>
std::string at(const problem<In>& p, std::int64_t r, const char* operation) {
  return std::string(operation) + ", row " + std::to_string(r) + " of " + name_of(dtype_of<In>) +
         ", " + describe(p.spec);
}

template <class Out, class In>
void whole_rows(queue& q, problem<In>& p, std::int64_t k, empty_row policy) {
  const softmax_options options{.scale = p.spec.scale, .empty_row = policy};
  matrix<Out> y(p.output_layout(p.x.cols()), role::output);
  matrix<Out> log_y(p.output_layout(p.x.cols()), role::output);
  matrix<Out> probabilities(p.output_layout(k), role::output);
  matrix<Out> logits(p.output_layout(k), role::output);
  matrix<std::int32_t> indices(p.output_layout(k), role::output);
  matrix<Out> lse({p.x.rows(), 1, 0, p.spec.offset}, role::output);
  softmax(q, p.x.view(), y.view(), options);
  log_softmax(q, p.x.view(), log_y.view(), options);
  softmax_topk(
      q, p.x.view(), probabilities.view(), indices.view(),
      {.scale = p.spec.scale, .empty_row = policy, .logits = logits.view(), .lse = lse.vector()});
  logsumexp(q, p.x.view(), lse.vector(), {.scale = p.spec.scale});
  q.wait();
  const auto download = [](auto&... outputs) {
    (outputs.download(), ...);
    (require_empty(outputs.stray_writes(), "a write outside"), ...);
  };
  download(y, log_y, probabilities, logits, indices, lse);
  p.x.download();
  require_empty(p.x.untouched(), "the input");
  const auto columns = expected_columns(p, k);
  for (std::int64_t r = 0; r < p.x.rows(); ++r) {
    const auto& oracle = p.rows[static_cast<std::size_t>(r)];
    const auto& expected = columns[static_cast<std::size_t>(r)];
    require_empty(oracle.check_softmax(std::span<const Out>(y.row(r)), policy),
                  at(p, r, "softmax"));
    require_empty(oracle.check_log_softmax(std::span<const Out>(log_y.row(r)), policy),
                  at(p, r, "log_softmax"));
    require_empty(oracle.check_logsumexp(lse(r, 0)), at(p, r, "logsumexp"));
    require_empty(check_columns(std::span<const std::int32_t>(indices.row(r)), expected),
                  at(p, r, "softmax_topk"));
    require_empty(check_values(std::span<const Out>(logits.row(r)), std::span<const In>(p.x.row(r)),
                               expected),
                  at(p, r, "softmax_topk"));
    for (std::int64_t i = 0; i < k; ++i) {
      require_empty(oracle.check_probability(
                        probabilities(r, i),
                        static_cast<std::size_t>(expected[static_cast<std::size_t>(i)]), policy),
                    at(p, r, "softmax_topk"));
    }
  }
}

/// How a state holds the scaled maxima of the rows.
enum class held { exactly, rounded, not_at_all };

template <class In>
held maxima_are_held(const problem<In>& p) {
  using arithmetic = reference::arithmetic_t<In>;
  held worst = held::exactly;
  for (const auto& oracle : p.rows) {
    const auto max = std::abs(oracle.state().max());
    if (oracle.state().kind != reference::row_kind::finite) {
      continue;
    }
    if (!std::isfinite(static_cast<arithmetic>(max))) {
      return held::not_at_all;
    }
    if (p.spec.scale != 1 && max >= (sizeof(arithmetic) == 8 ? 0x1p59 : 0x1p30)) {
      worst = held::rounded;
    }
  }
  return worst;
}

/// The same by parts, of any columns.
template <class Out, class In>
void parts_of_rows(queue& q, problem<In>& p, std::int64_t k, std::vector<std::int64_t> borders,
                   held maxima) {
  using arithmetic = reference::arithmetic_t<In>;
  const std::int64_t rows = p.x.rows();
  states<arithmetic> whole(rows);
  matrix<Out> values({rows, k, 0, 0}, role::output);
  matrix<std::int64_t> indices({rows, k, 0, 0}, role::output);
  const auto all = p.x.view();
  fold_topk(q, matrix_view<const In>(all.data, rows, 0, all.stride), whole.ref(), values.view(),
            indices.view(), {.scale = p.spec.scale});
  borders.push_back(0);
  borders.push_back(p.x.cols());
  std::sort(borders.begin(), borders.end());
  for (std::size_t i = borders.size() - 1; i > 0; --i) {  // from the back
    states<arithmetic> part(rows);
    matrix<Out> part_values({rows, k, 0, 0}, role::output);
    matrix<std::int64_t> part_indices({rows, k, 0, 0}, role::output);
    fold_topk(q,
              matrix_view<const In>(all.data + borders[i - 1], rows, borders[i] - borders[i - 1],
                                    all.stride),
              part.ref(), part_values.view(), part_indices.view(),
              {.scale = p.spec.scale, .column_offset = borders[i - 1]});
    combine(q, part.ref(), whole.ref());
    combine_topk(q, part_values.view(), part_indices.view(), values.view(), indices.view());
    q.wait();
  }
  matrix<arithmetic> lse({rows, 1, 0, 0}, role::output);
  matrix<Out> y(p.output_layout(p.x.cols()), role::output);
  logsumexp(q, whole.ref(), lse.vector());
  normalize(q, p.x.view(), whole.ref(), y.view(), {.scale = p.spec.scale});
  q.wait();
  values.download();
  indices.download();
  lse.download();
  y.download();
  const std::int64_t present = std::min(k, p.x.cols());
  const auto columns = expected_columns(p, present);
  for (std::int64_t r = 0; r < rows; ++r) {
    auto& oracle = p.rows[static_cast<std::size_t>(r)];
    const auto& expected = columns[static_cast<std::size_t>(r)];
    const auto n = static_cast<std::size_t>(present);
    require_empty(check_columns(std::span<const std::int64_t>(indices.row(r)).first(n), expected),
                  at(p, r, "combine_topk"));
    require_empty(check_values(std::span<const Out>(values.row(r)).first(n),
                               std::span<const In>(p.x.row(r)), expected),
                  at(p, r, "combine_topk"));
    for (std::int64_t i = present; i < k; ++i) {
      require(indices(r, i) == -1, at(p, r, "absent entries of combine_topk"));
    }
    oracle.set_combines(static_cast<int>(borders.size()));
    require_empty(oracle.check_logsumexp(lse(r, 0)), at(p, r, "logsumexp of states"));
    if (maxima == held::exactly) {
      require_empty(oracle.check_softmax(std::span<const Out>(y.row(r)), empty_row::nan),
                    at(p, r, "normalize"));
    }
    oracle.set_combines(0);
  }
}

/// The gradients of the rows, taken for the result of a softmax or log-softmax.
template <class Out, class In>
void gradients_of_rows(queue& q, problem<In>& p, problem<In>& dy, bool in_place) {
  const backward_options options{.scale = p.spec.scale};
  for (const bool log : {false, true}) {
    const auto check = [&](const auto& dx) {
      for (std::int64_t r = 0; r < p.x.rows(); ++r) {
        const gradient_oracle<In> oracle(log, p.x.row(r), dy.x.row(r), p.spec.scale);
        require_empty(oracle.check(dx.row(r)), at(p, r, "gradient"));
      }
    };
    const auto call = [&](const auto& from, const auto& dx) {
      log ? log_softmax_backward(q, p.x.view(), from, dx, options)
          : softmax_backward(q, p.x.view(), from, dx, options);
      q.wait();
    };
    if (in_place) {
      matrix<In> both(dy.output_layout(dy.x.cols()), role::output);
      for (std::int64_t r = 0; r < p.x.rows(); ++r) {
        std::copy_n(dy.x.row(r).begin(), dy.x.cols(), both.row(r).begin());
      }
      both.upload();
      call(both.view(), both.view());
      both.download();
      require_empty(both.stray_writes(), "a write outside");
      check(std::as_const(both));
    } else {
      matrix<Out> dx(p.output_layout(p.x.cols()), role::output);
      call(dy.x.view(), dx.view());
      dx.download();
      require_empty(dx.stray_writes(), "a write outside");
      check(std::as_const(dx));
    }
  }
}

template <class In, class Out>
void run(FuzzedDataProvider& input) {
  static queue queues[] = {queue(queue_options{.threads = 1}), queue(queue_options{.threads = 2})};
  queue& q = queues[input.ConsumeBool() ? 1 : 0];
  const empty_row policy = input.ConsumeBool() ? empty_row::zero : empty_row::nan;
  auto k = input.ConsumeIntegralInRange<std::int64_t>(0, 1100);
  std::vector<std::int64_t> borders(input.ConsumeIntegralInRange<std::size_t>(0, 5));
  const auto rows = input.ConsumeIntegralInRange<std::int64_t>(0, 3);
  problem<In> p = make_problem<In>(input, rows, length(input));
  for (std::int64_t& border : borders) {
    border = input.ConsumeIntegralInRange<std::int64_t>(0, p.x.cols());
  }
  whole_rows<Out>(q, p, std::min(k, p.x.cols()), policy);
  problem<In> dy = make_problem<In>(input, p.x.rows(), p.x.cols());
  gradients_of_rows<Out>(q, p, dy, input.ConsumeBool());
  if (const held maxima = maxima_are_held(p); maxima != held::not_at_all) {
    parts_of_rows<Out>(q, p, k, std::move(borders), maxima);
  }
}

}  // namespace
}  // namespace softfold::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace softfold;  // NOLINT(google-build-using-namespace)
  FuzzedDataProvider input(data, size);
  switch (input.ConsumeIntegralInRange(0, 5)) {
    case 0:
      fuzz::run<float, float>(input);
      break;
    case 1:
      fuzz::run<double, double>(input);
      break;
    case 2:
      fuzz::run<half, half>(input);
      break;
    case 3:
      fuzz::run<half, float>(input);
      break;
    case 4:
      fuzz::run<bfloat16, bfloat16>(input);
      break;
    default:
      fuzz::run<bfloat16, float>(input);
      break;
  }
  return 0;
}
