// SPDX-License-Identifier: Apache-2.0
// Edits of rows: biases, penalties, softcap and masks, in every function that reads rows. The
// oracle gets the row as it is after the edits.
#include "edited_problem.hpp"
#include "gradient.hpp"

#include <algorithm>
#include <cmath>
#include <core/reference_sampling.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace softfold::test {
namespace {

template <class In>
layout layout_of(const edited_problem<In>& p, std::int64_t cols) {
  return {p.spec.rows, cols, p.spec.padding, p.spec.offset};
}

template <class In>
void expect(const std::string& verdict, std::int64_t row, const edited_problem<In>& p) {
  CHECK_MESSAGE(verdict.empty(), "row " << row << ": " << verdict << "; " << p.text());
}

template <class Out, class In>
void check_maps(queue& q, const edited_problem<In>& p, empty_row policy) {
  matrix<Out> y(layout_of(p, p.spec.cols), role::output);
  matrix<Out> log_y(layout_of(p, p.spec.cols), role::output);
  matrix<Out> lse(layout{p.spec.rows, 1, 0, p.spec.offset}, role::output);
  const softmax_options options{.scale = p.spec.scale, .empty_row = policy, .edits = p.edits()};
  softmax(q, p.x.view(), y.view(), options);
  log_softmax(q, p.x.view(), log_y.view(), options);
  logsumexp(q, p.x.view(), lse.vector(), {.scale = p.spec.scale, .edits = p.edits()});
  q.wait();
  y.download();
  log_y.download();
  lse.download();
  expect(y.stray_writes(), -1, p);
  expect(log_y.stray_writes(), -1, p);
  expect(lse.stray_writes(), -1, p);
  for (std::int64_t r = 0; r < p.spec.rows; ++r) {
    const auto oracle = p.oracle(r);
    expect(oracle.check_softmax(std::span<const Out>(y.row(r)), policy), r, p);
    expect(oracle.check_log_softmax(std::span<const Out>(log_y.row(r)), policy), r, p);
    expect(oracle.check_logsumexp(lse(r, 0)), r, p);
  }
}

/// fold, and normalize with its states.
template <class Out, class In>
void check_parts(queue& q, const edited_problem<In>& p) {
  using A = reference::arithmetic_t<In>;
  states<A> partials(p.spec.rows);
  matrix<A> lse(layout{p.spec.rows, 1, 0, 0}, role::output);
  matrix<Out> y(layout_of(p, p.spec.cols), role::output);
  fold(q, p.x.view(), partials.ref(), {.scale = p.spec.scale, .edits = p.edits()});
  logsumexp(q, partials.ref(), lse.vector());
  normalize(q, p.x.view(), partials.ref(), y.view(), {.scale = p.spec.scale, .edits = p.edits()});
  q.wait();
  lse.download();
  y.download();
  expect(y.stray_writes(), -1, p);
  for (std::int64_t r = 0; r < p.spec.rows; ++r) {
    auto oracle = p.oracle(r);
    oracle.set_combines(2);
    expect(oracle.check_logsumexp(lse(r, 0)), r, p);
    expect(oracle.check_softmax(std::span<const Out>(y.row(r)), empty_row::nan), r, p);
  }
}

template <class Out, class In>
void check_lists(queue& q, const edited_problem<In>& p, std::int64_t k) {
  using A = reference::arithmetic_t<In>;
  matrix<Out> values(layout_of(p, k), role::output);
  matrix<std::int32_t> indices(layout_of(p, k), role::output);
  matrix<Out> probabilities(layout_of(p, k), role::output);
  matrix<Out> logits(layout_of(p, k), role::output);
  matrix<Out> lse(layout{p.spec.rows, 1, 0, p.spec.offset}, role::output);
  matrix<std::int64_t> wide_indices(layout_of(p, k), role::output);
  matrix<Out> part_values(layout_of(p, k + 2), role::output);
  matrix<std::int64_t> part_indices(layout_of(p, k + 2), role::output);
  states<A> partials(p.spec.rows);
  topk(q, p.x.view(), values.view(), indices.view(), {.edits = p.edits()});
  softmax_topk(
      q, p.x.view(), probabilities.view(), wide_indices.view(),
      {.scale = p.spec.scale, .logits = logits.view(), .lse = lse.vector(), .edits = p.edits()});
  constexpr std::int64_t offset = 1000;
  fold_topk(q, p.x.view(), partials.ref(), part_values.view(), part_indices.view(),
            {.scale = p.spec.scale, .column_offset = offset, .edits = p.edits()});
  q.wait();
  values.download();
  indices.download();
  probabilities.download();
  wide_indices.download();
  logits.download();
  lse.download();
  part_values.download();
  part_indices.download();
  for (const auto* m : {&values, &probabilities, &logits, &lse, &part_values}) {
    expect(m->stray_writes(), -1, p);
  }
  expect(indices.stray_writes(), -1, p);
  expect(part_indices.stray_writes(), -1, p);
  for (std::int64_t r = 0; r < p.spec.rows; ++r) {
    const std::vector<std::int64_t> columns = p.columns(r);
    const std::vector<A> elements = p.row(r, edited_problem<In>::none);
    std::vector<Out> rounded(elements.size());
    std::transform(elements.begin(), elements.end(), rounded.begin(), [](A x) { return Out(x); });
    const std::span<const Out> row(rounded);
    expect(check_columns(std::span<const std::int32_t>(indices.row(r)), columns), r, p);
    expect(check_columns(std::span<const std::int64_t>(wide_indices.row(r)), columns), r, p);
    expect(check_values(std::span<const Out>(values.row(r)), row, columns), r, p);
    expect(check_values(std::span<const Out>(logits.row(r)), row, columns), r, p);
    const auto oracle = p.oracle(r);
    for (std::int64_t i = 0; i < k; ++i) {
      const auto column = static_cast<std::size_t>(columns[static_cast<std::size_t>(i)]);
      expect(oracle.check_probability(probabilities(r, i), column, empty_row::nan), r, p);
    }
    if (k > 0) {
      expect(oracle.check_logsumexp(lse(r, 0)), r, p);
    }
    // In a part, removed elements are absent.
    const std::int64_t present = std::min(k, p.kept_count(r));
    for (std::int64_t i = 0; i < k + 2; ++i) {
      const std::int64_t expected =
          i < std::min(k + 2, p.kept_count(r)) ? columns[static_cast<std::size_t>(i)] + offset : -1;
      CHECK_MESSAGE(part_indices(r, i) == expected,
                    "row " << r << ", entry " << i << " of " << present << "; " << p.text());
    }
  }
}

/// The gradient, of a result that has NaN where elements were removed.
template <class Out, class In>
void check_gradients(queue& q, const edited_problem<In>& p, bool log) {
  using A = reference::arithmetic_t<In>;
  matrix<In> y(layout_of(p, p.spec.cols), role::input);
  matrix<In> dy({p.spec.rows, p.spec.cols, 3, 1}, role::input);
  matrix<Out> dx(layout_of(p, p.spec.cols), role::output);
  const auto nan = make<In>(std::numeric_limits<double>::quiet_NaN());
  std::vector<std::vector<In>> ys, dys;
  for (std::int64_t r = 0; r < p.spec.rows; ++r) {
    const auto oracle = p.oracle(r);
    fill(distribution::normal, dy.row(r), p.spec.seed + 77);
    ys.emplace_back(y.row(r).size());
    dys.emplace_back(y.row(r).size());
    for (std::int64_t c = 0; c < p.spec.cols; ++c) {
      const auto i = static_cast<std::size_t>(c);
      const auto exact = log ? oracle.state().log_softmax(oracle.elements()[i])
                             : oracle.state().softmax(oracle.elements()[i]);
      y(r, c) = make<In>(static_cast<double>(exact));
      ys.back()[i] = p.kept(r, c) ? y(r, c)
                     : log        ? make<In>(-std::numeric_limits<double>::infinity())
                                  : make<In>(0);
      dys.back()[i] = p.kept(r, c) ? dy(r, c) : make<In>(0);
      if (!p.kept(r, c)) {
        y(r, c) = nan;
        dy(r, c) = nan;
      }
    }
  }
  y.upload();
  dy.upload();
  const backward_options options{.scale = p.spec.scale, .edits = p.edits()};
  log ? log_softmax_backward(q, y.view(), dy.view(), dx.view(), options)
      : softmax_backward(q, y.view(), dy.view(), dx.view(), options);
  q.wait();
  dx.download();
  expect(dx.stray_writes(), -1, p);
  for (std::int64_t r = 0; r < p.spec.rows; ++r) {
    const gradient_oracle<In> oracle(log, ys[static_cast<std::size_t>(r)],
                                     dys[static_cast<std::size_t>(r)], p.spec.scale);
    expect(oracle.check(std::span<const Out>(dx.row(r))), r, p);
    std::int64_t wrong = -1;
    const bool has_some = p.kept_count(r) > 0;
    for (std::int64_t c = 0; c < p.spec.cols && has_some; ++c) {
      wrong = p.kept(r, c) || static_cast<A>(dx(r, c)) == 0 ? wrong : c;
    }
    CHECK_MESSAGE(wrong < 0,
                  "row " << r << ": removed column " << wrong << " has a gradient; " << p.text());
  }
}

template <class In, class Out>
void check_all_edits(queue& q, const edit_spec& edit, const problem_spec& spec) {
  const edited_problem<In> p(edit, spec);
  check_maps<Out>(q, p, empty_row::zero);
  check_parts<Out>(q, p);
  check_lists<Out>(q, p, std::min<std::int64_t>(spec.cols, 7));
  if (!edit.penalties && edit.softcap == 0) {
    check_gradients<Out>(q, p, false);
    check_gradients<Out>(q, p, true);
  }
}

/// What softmax and its relatives make of rows.
template <class In>
struct map_results {
  using A = reference::arithmetic_t<In>;

  explicit map_results(const layout& l)
      : y(l, role::output),
        log_y(l, role::output),
        normalized(l, role::output),
        lse({l.rows, 1, 0, 0}, role::output),
        partials(l.rows) {}

  void make(queue& q, const const_matrix_ref& x, const row_edits& edits) {
    softmax(q, x, y.view(), {.edits = edits});
    log_softmax(q, x, log_y.view(), {.edits = edits});
    logsumexp(q, x, lse.vector(), {.edits = edits});
    fold(q, x, partials.ref(), {.edits = edits});
    normalize(q, x, partials.ref(), normalized.view(), {.edits = edits});
    q.wait();
    y.download();
    log_y.download();
    normalized.download();
    lse.download();
  }

  matrix<In> y, log_y, normalized, lse;
  states<A> partials;
};

/// The bits of a row with removed elements are those of a row that has -infinity there.
template <class In>
void check_removals(queue& q, const edit_spec& edit, const problem_spec& spec) {
  const edited_problem<In> p(edit, spec);
  matrix<In> x(layout_of(p, spec.cols), role::input);
  for (std::int64_t r = 0; r < spec.rows; ++r) {
    const auto row = p.row(r, edited_problem<In>::none);
    std::transform(row.begin(), row.end(), x.row(r).begin(), [](auto e) { return In(e); });
  }
  x.upload();
  map_results<In> edited(layout_of(p, spec.cols));
  map_results<In> copied(layout_of(p, spec.cols));
  edited.make(q, p.x.view(), p.edits());
  copied.make(q, x.view(), {});
  const auto same = [](const auto& a, const auto& b, std::int64_t r) {
    return std::memcmp(a.row(r).data(), b.row(r).data(), a.row(r).size_bytes()) == 0;
  };
  for (auto* const results : {&edited.y, &edited.log_y, &edited.normalized, &edited.lse}) {
    expect(results->stray_writes(), -1, p);
  }
  const auto& partials = edited.partials.values();
  for (std::int64_t r = 0; r < spec.rows; ++r) {
    const std::string text = "row " + std::to_string(r) + "; " + p.text();
    CHECK_MESSAGE(same(edited.y, copied.y, r), "softmax, " << text);
    CHECK_MESSAGE(same(edited.log_y, copied.log_y, r), "log_softmax, " << text);
    CHECK_MESSAGE(same(edited.normalized, copied.normalized, r), "normalize, " << text);
    CHECK_MESSAGE(same(edited.lse, copied.lse, r), "logsumexp, " << text);
    CHECK_MESSAGE(std::memcmp(&partials[static_cast<std::size_t>(r)],
                              &copied.partials.values()[static_cast<std::size_t>(r)],
                              sizeof partials[0]) == 0,
                  "fold, " << text);
  }
}

/// Values are f32 results rounded once, and masses are in units of 2^-50.
template <class Out>
bool is_near(Out found, double exact) {
  const auto value = static_cast<double>(reference::widen(found));
  return value == exact || std::abs(value - exact) <= 0x1p-7 * std::abs(exact) + 1e-6;
}

template <class Out, class In>
void check_sample(queue& q, const edited_problem<In>& p, const core::sampling::parameters& with) {
  using A = reference::arithmetic_t<In>;
  constexpr std::int64_t n = 3;
  matrix<std::int32_t> tokens(layout_of(p, 2), role::output);
  matrix<Out> log(layout_of(p, 2), role::output);
  matrix<Out> top(layout_of(p, n), role::output);
  matrix<std::int64_t> indices(layout_of(p, n), role::output);
  const std::vector<std::int64_t> seeds(4, static_cast<std::int64_t>(with.seed));
  device_buffer<std::int64_t> seed_memory(seeds.size());
  seed_memory.upload(seeds);
  sample_options o;
  o.temperature = with.temperature;
  o.top_k = with.top_k;
  o.top_p = with.top_p;
  o.min_p = with.min_p;
  o.seeds = {seed_memory.data(), dtype::i64, 4};
  o.offset = with.offset;
  o.log_probability = log.view();
  o.top_indices = indices.view();
  o.top_log_probabilities = top.view();
  o.edits = p.edits();
  sample(q, p.x.view(), tokens.view(), o);
  q.wait();
  log.download();
  top.download();
  tokens.download();
  indices.download();
  expect(log.stray_writes() + top.stray_writes() + tokens.stray_writes() + indices.stray_writes(),
         -1, p);
  for (std::int64_t r = 0; r < 4; ++r) {
    const std::vector<A> row = p.row(r, edited_problem<In>::none);
    const auto oracle = p.oracle(r);
    for (std::int64_t j = 0; j < 2; ++j) {
      const auto expected = reference::sample(
          std::span<const A>(row), with, filter_order::top_k_first, static_cast<std::uint32_t>(j));
      CHECK_MESSAGE(tokens(r, j) == expected.token,
                    "row " << r << ": token " << tokens(r, j) << "; " << p.text());
      CHECK((tokens(r, j) < 0 || p.kept(r, tokens(r, j))));
      CHECK(is_near(log(r, j), expected.log_probability));
    }
    const auto columns = p.columns(r);
    expect(check_columns(std::span<const std::int64_t>(indices.row(r)), columns), r, p);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(columns[static_cast<std::size_t>(i)]);
      const bool empty = oracle.state().kind == reference::row_kind::empty;
      CHECK(is_near(top(r, i), empty ? -std::numeric_limits<double>::infinity()
                                     : static_cast<double>(
                                           oracle.state().log_softmax(oracle.elements()[at]))));
    }
  }
}

TEST_SUITE("edits") {
  TEST_CASE_TEMPLATE("every edit in every function", Types, SOFTFOLD_TEST_IO_TYPES) {
    using In = typename Types::input;
    using Out = typename Types::output;
    queue q;
    for (const edit_spec& edit : all_edits) {
      for (const auto& [rows, cols] :
           {std::pair<std::int64_t, std::int64_t>{5, 1}, {6, 33}, {4, 1000}}) {
        check_all_edits<In, Out>(q, edit,
                                 {.rows = rows,
                                  .cols = cols,
                                  .padding = 3,
                                  .offset = 1,
                                  .seed = static_cast<std::uint64_t>(cols)});
      }
    }
  }

  TEST_CASE_TEMPLATE("edits of long rows", Types, f32_f32, bf16_bf16, f64_f64) {
    using In = typename Types::input;
    using Out = typename Types::output;
    queue q;
    for (const edit_spec& edit : all_edits) {
      check_all_edits<In, Out>(q, edit, {.rows = 2, .cols = 20011, .seed = 3});
    }
  }

  // Rows of whole vectors that begin at sectors, of every plan of a GPU: it may read them with what
  // is removed.
  TEST_CASE_TEMPLATE("removed elements of aligned rows", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    for (const edit_spec& edit : all_edits) {
      if (edit.changes_values()) {
        continue;
      }
      for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{9, 16},
                                       {7, 48},
                                       {6, 304},
                                       {8, 1040},
                                       {3, 2064},
                                       {3, 6016},
                                       {2, 20000},
                                       {3, 70000},
                                       {301, 96}}) {
        const problem_spec spec{
            .rows = rows, .cols = cols, .seed = static_cast<std::uint64_t>(rows + cols)};
        const edited_problem<In> p(edit, spec);
        check_maps<In>(q, p, empty_row::zero);
        check_parts<In>(q, p);
        check_removals<In>(q, edit, spec);
      }
    }
  }

  TEST_CASE_TEMPLATE("removed elements of aligned rows of many kinds", In,
                     SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    for (const auto kind : {distribution::masked, distribution::few_values, distribution::edges,
                            distribution::signed_zeros}) {
      for (const edit_spec& edit : {all_edits[0], all_edits[1], all_edits[2], all_edits[5]}) {
        for (const std::int64_t cols : {96, 5008}) {
          const problem_spec spec{.rows = 4, .cols = cols, .kind = kind, .seed = 12};
          check_removals<In>(q, edit, spec);
          check_maps<In>(q, edited_problem<In>(edit, spec), empty_row::nan);
        }
      }
    }
  }

  TEST_CASE_TEMPLATE("removed elements of very long rows", In, float, bfloat16) {
    queue q;
    for (const edit_spec& edit : {all_edits[0], all_edits[2], all_edits[5]}) {
      check_removals<In>(q, edit, {.rows = 2, .cols = 300000, .seed = 13});
    }
    for (const edit_spec& edit : {all_edits[0], all_edits[1], all_edits[3]}) {
      if (!reduced) {  // more than a GPU holds at once
        check_removals<In>(
            q, edit,
            {.rows = rows_for_gpus(sizeof(In) == 2 ? 57 : 33), .cols = 151936, .seed = 14});
      }
    }
  }

  TEST_CASE_TEMPLATE("edits and the scale", Types, f32_f32, f16_f32, f64_f64) {
    using In = typename Types::input;
    using Out = typename Types::output;
    queue q;
    for (const double scale : {0.3, 0.0, -1.0}) {
      for (const edit_spec& edit : {all_edits[0], all_edits[2], all_edits[9], all_edits[12]}) {
        check_all_edits<In, Out>(q, edit, {.rows = 6, .cols = 200, .scale = scale, .seed = 5});
      }
    }
  }

  TEST_CASE_TEMPLATE("edits of rows with ties and -infinity", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    for (const auto kind : {distribution::masked, distribution::few_values, distribution::edges,
                            distribution::signed_zeros}) {
      for (const edit_spec& edit : {all_edits[0], all_edits[1], all_edits[2], all_edits[3]}) {
        const edited_problem<In> p(edit, {.rows = 5, .cols = 90, .kind = kind, .seed = 11});
        check_lists<In>(q, p, 60);
        check_maps<In>(q, p, empty_row::nan);
      }
    }
  }

  TEST_CASE("a row does not know the others' edits, nor how many are edited at a time") {
    queue q(queue_options{.threads = 1});
    constexpr std::int64_t cols = 2000;
    constexpr std::int64_t k = 9;
    const auto rows = static_cast<std::int64_t>(q.info().l2_bytes / sizeof(float)) / cols + 5;
    const edited_problem<float> p(all_edits[12], {.rows = rows, .cols = cols, .seed = 9});
    row_edits edits = p.edits();
    edits.corner = causal::none;
    edits.queries = edits.window = 0;
    struct results {
      explicit results(std::int64_t n)
          : y({n, cols, 0, 0}, role::output),
            values({n, k, 0, 0}, role::output),
            indices({n, k, 0, 0}, role::output) {}
      void make(queue& on, const const_matrix_ref& x, const row_edits& e) {
        softmax(on, x, y.view(), {.edits = e});
        topk(on, x, values.view(), indices.view(), {.edits = e});
        on.wait();
        y.download();
        values.download();
        indices.download();
      }
      matrix<float> y, values;
      matrix<std::int32_t> indices;
    };
    results all(rows);
    all.make(q, p.x.view(), edits);
    for (const std::int64_t r : {std::int64_t{0}, rows / 3, rows / 2, rows - 1}) {
      const auto row_of = [r](const_matrix_ref m) {
        return const_matrix_ref(static_cast<const std::byte*>(m.data) +
                                    r * m.stride * static_cast<std::int64_t>(size_of(m.type)),
                                m.type, 1, m.cols, m.stride);
      };
      const auto value_of = [r](const_vector_ref v, std::int64_t size = 1) {
        return const_vector_ref(
            static_cast<const std::byte*>(v.data) + r * static_cast<std::int64_t>(size_of(v.type)),
            v.type, size);
      };
      row_edits own = edits;
      own.bias = row_of(edits.bias);
      own.mask = row_of(edits.mask);
      own.lengths = value_of(edits.lengths);
      own.penalty_rows = value_of(edits.penalty_rows, 2);
      own.repetition = value_of(edits.repetition);
      own.presence = value_of(edits.presence);
      results alone(1);
      alone.make(q, row_of(p.x.view()), own);
      const auto same = [r](auto& one, const auto& many) {
        return std::memcmp(one.row(0).data(), many.row(r).data(), one.row(0).size_bytes()) == 0;
      };
      CHECK(same(alone.y, std::as_const(all.y)));
      CHECK(same(alone.values, std::as_const(all.values)));
      CHECK(same(alone.indices, std::as_const(all.indices)));
    }
  }

  TEST_CASE("a row alone with a stride that leaves the others unaligned") {
    queue q;
    for (const std::int64_t cols : {48, 112, 256, 512, 1024}) {  // the most of some plans
      const edited_problem<float> p(all_edits[0],
                                    {.rows = 3, .cols = cols, .padding = 3, .seed = 21});
      matrix<float> all({3, cols, 0, 0}, role::output);
      matrix<float> alone({1, cols, 0, 0}, role::output);
      const_matrix_ref first = p.x.view();
      softmax(q, first, all.view(), {.edits = p.edits()});
      first.rows = 1;
      row_edits edits = p.edits();
      edits.mask.rows = 1;
      softmax(q, first, alone.view(), {.edits = edits});
      q.wait();
      all.download();
      alone.download();
      CHECK(std::memcmp(all.row(0).data(), alone.row(0).data(), all.row(0).size_bytes()) == 0);
    }
  }

  TEST_CASE("a softmax in place with edits") {
    queue q;
    for (const std::int64_t cols : {300, 304, 20000}) {
      const edited_problem<float> p(all_edits[0], {.rows = 9, .cols = cols, .seed = 4});
      matrix<float> y({9, cols, 0, 0}, role::output);
      for (std::int64_t r = 0; r < 9; ++r) {
        std::copy_n(p.x.row(r).begin(), cols, y.row(r).begin());
      }
      y.upload();
      softmax(q, y.view(), y.view(), {.edits = p.edits()});
      q.wait();
      y.download();
      for (std::int64_t r = 0; r < 9; ++r) {
        expect(p.oracle(r).check_softmax(std::span<const float>(y.row(r)), empty_row::nan), r, p);
      }
    }
  }

  // Nothing but tokens is wanted, and no filter is set: a GPU may read the rows with what is
  // removed.
  TEST_CASE_TEMPLATE("tokens of rows with removed elements", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    std::uint64_t seed = 96000;
    for (const edit_spec& edit : all_edits) {
      if (edit.changes_values()) {
        continue;
      }
      for (const auto& [cols, offset] :
           {std::pair<std::int64_t, std::int64_t>{9, 1}, {703, 3}, {704, 0}, {20000, 0}}) {
        const edited_problem<In> p(edit,
                                   {4, cols, distribution::normal, 1, offset, offset, ++seed});
        for (const double temperature : {0.7, 0.0}) {
          matrix<std::int32_t> tokens(layout_of(p, 2), role::output);
          sample(q, p.x.view(), tokens.view(),
                 {.temperature = temperature, .seed = seed, .offset = 4, .edits = p.edits()});
          q.wait();
          tokens.download();
          for (std::int64_t r = 0; r < 4; ++r) {
            const auto row = p.row(r, edited_problem<In>::none);
            for (std::int64_t j = 0; j < 2; ++j) {
              const auto expected =
                  reference::sample(std::span(row), {temperature, 1, 0, 0, seed, 4},
                                    filter_order::top_k_first, static_cast<std::uint32_t>(j));
              CHECK_MESSAGE(tokens(r, j) == expected.token,
                            "row " << r << ": token " << tokens(r, j) << "; " << p.text());
            }
          }
        }
      }
    }
  }

  // A token of the edited row, never a removed one; log-probabilities over what is left.
  TEST_CASE_TEMPLATE("sampling", Io, SOFTFOLD_TEST_IO_TYPES) {
    using In = typename Io::input;
    using Out = typename Io::output;
    queue q;
    std::uint64_t seed = 95000;
    for (const edit_spec& edit : all_edits) {
      for (const std::int64_t cols : {9, 700}) {
        const edited_problem<In> p(edit, {4, cols, distribution::normal, 1, 3, 1, ++seed});
        for (const core::sampling::parameters& with :
             {core::sampling::parameters{1, 1, 0, 0, seed, 1},
              core::sampling::parameters{0.8, 0.9, 0.001, 50, seed, 2},
              core::sampling::parameters{0, 1, 0, 0, seed, 3}}) {
          check_sample<Out>(q, p, with);
        }
      }
    }
  }
}

}  // namespace
}  // namespace softfold::test
