// SPDX-License-Identifier: Apache-2.0
// The caller's floating-point environment changes no bit of a result, traps nothing, and is found
// as it was left.
#include "problem.hpp"

#include <softfold/row_states.hpp>

#include <cfenv>
#include <functional>
#include <optional>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace softfold::test {

namespace {

#if defined(__aarch64__)
std::uint64_t read_fpcr() {
  std::uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
}
#endif

/// What the environment is made of, as far as this machine shows it.
std::vector<std::uint64_t> environment_now() {
  std::vector<std::uint64_t> state = {static_cast<std::uint64_t>(std::fegetround()),
                                      static_cast<std::uint64_t>(std::fetestexcept(FE_ALL_EXCEPT))};
#if defined(__x86_64__)
  std::uint16_t x87_control;
  std::uint16_t x87_status;
  asm volatile("fnstcw %0\n\tfnstsw %1" : "=m"(x87_control), "=m"(x87_status));
  constexpr unsigned x87_flags = 0x3f;  // the others tell of the last instruction
  state.insert(state.end(), {_mm_getcsr(), x87_control, x87_status & x87_flags});
#elif defined(__aarch64__)
  state.push_back(read_fpcr());
#endif
  return state;
}

/// A way to change the environment; set() is false where this machine lacks it.
struct environment {
  const char* name;
  bool (*set)();
};

bool round_to(int direction) { return std::fesetround(direction) == 0; }

/// Results below the normal numbers, and such operands, count as 0.
bool flush() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040U);
  return true;
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(read_fpcr() | 1U << 24U));
  return true;
#else
  return false;
#endif
}

bool trap() { return feenableexcept(FE_ALL_EXCEPT) != -1; }

constexpr environment environments[] = {
    {"upward", [] { return round_to(FE_UPWARD); }},
    {"downward", [] { return round_to(FE_DOWNWARD); }},
    {"toward zero", [] { return round_to(FE_TOWARDZERO); }},
    {"to nearest, flags raised", [] { return std::feraiseexcept(FE_INEXACT | FE_INVALID) == 0; }},
    {"subnormal numbers as 0", flush},
    {"exceptions trapped", trap},
#if defined(__x86_64__)
    {"x87 in double precision",
     [] {
       const std::uint16_t control = 0x027f;
       asm volatile("fldcw %0" : : "m"(control));
       return true;
     }},
    {"upward, flushed and trapped", [] { return round_to(FE_UPWARD) && flush() && trap(); }},
#endif
};

/// What to run the library's calls in, and only these: the tests' own arithmetic keeps the default.
class caller {
 public:
  explicit caller(bool (*set)() = nullptr) : set_(set) {}

  template <class Call>
  void operator()(Call&& call) {
    if (set_ == nullptr) {
      call();
      return;
    }
    std::fenv_t own;
    std::fegetenv(&own);
    std::feclearexcept(FE_ALL_EXCEPT);
    supported_ = set_();
    if (supported_) {
      const auto before = environment_now();
      call();
      kept_ = kept_ && environment_now() == before;
    }
    std::fesetenv(&own);
  }

  [[nodiscard]] bool kept() const { return kept_; }
  [[nodiscard]] bool supported() const { return supported_; }

 private:
  bool (*set_)();
  bool kept_ = true;
  bool supported_ = true;
};

/// The bytes of what every function makes of a matrix.
template <class In>
std::vector<std::byte> run_all(queue& q, caller& run, const matrix_view<In>& x, std::int64_t k) {
  using arithmetic = reference::arithmetic_t<In>;
  constexpr double scale = 0.7;  // is rounded on the way
  const softmax_options options{.scale = scale};
  std::vector<std::byte> all;
  const auto collect = [&]<class T>(matrix<T>& result) {
    q.wait();
    result.download();
    for (std::int64_t r = 0; r < result.rows(); ++r) {
      const auto bytes = std::as_bytes(result.row(r));
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
  };
  const auto collect_states = [&](states<arithmetic>& result) {
    q.wait();
    const auto bytes = std::as_bytes(std::span(result.values()));
    all.insert(all.end(), bytes.begin(), bytes.end());
  };
  const auto whole_rows = [&]<class Out>(Out) {
    matrix<Out> y({x.rows, x.cols, 0, 0}, role::output);
    matrix<Out> lse({x.rows, 1, 0, 0}, role::output);
    matrix<Out> values({x.rows, k, 0, 0}, role::output);
    matrix<Out> logits({x.rows, k, 0, 0}, role::output);
    matrix<std::int64_t> indices({x.rows, k, 0, 0}, role::output);
    run([&] { softmax(q, x, y.view(), options); });
    collect(y);
    run([&] { log_softmax(q, x, y.view(), options); });
    collect(y);
    run([&] { logsumexp(q, x, lse.vector(), {.scale = scale}); });
    collect(lse);
    run([&] { topk(q, x, values.view(), indices.view()); });
    collect(values);
    collect(indices);
    for (const double s : {1.0, scale}) {
      run([&] {
        softmax_topk(q, x, values.view(), indices.view(),
                     {.scale = s, .logits = logits.view(), .lse = lse.vector()});
      });
      collect(values);
      collect(indices);
      collect(logits);
      collect(lse);
    }
  };
  whole_rows(In{});
  if constexpr (!std::is_same_v<In, arithmetic>) {
    whole_rows(arithmetic{});
  }

  const std::int64_t left = x.cols / 3;
  const matrix_view<In> parts[] = {{x.data, x.rows, left, x.stride},
                                   {x.data + left, x.rows, x.cols - left, x.stride}};
  states<arithmetic> partials(x.rows);
  states<arithmetic> more(x.rows);
  matrix<In> values({x.rows, k, 0, 0}, role::output);
  matrix<In> more_values({x.rows, k, 0, 0}, role::output);
  matrix<std::int32_t> indices({x.rows, k, 0, 0}, role::output);
  matrix<std::int32_t> more_indices({x.rows, k, 0, 0}, role::output);
  matrix<arithmetic> y({x.rows, x.cols, 0, 0}, role::output);
  matrix<arithmetic> lse({x.rows, 1, 0, 0}, role::output);
  run([&] { fold(q, x, partials.ref(), {.scale = scale}); });
  collect_states(partials);
  run([&] {
    fold_topk(q, parts[0], partials.ref(), values.view(), indices.view(), {.scale = scale});
    fold_topk(q, parts[1], more.ref(), more_values.view(), more_indices.view(),
              {.scale = scale, .column_offset = left});
  });
  collect(values);
  collect(more_values);
  run([&] { combine(q, more.ref(), partials.ref()); });
  collect_states(partials);
  run([&] {
    combine_topk(q, more_values.view(), more_indices.view(), values.view(), indices.view());
  });
  collect(values);
  collect(indices);
  run([&] { normalize(q, x, partials.ref(), y.view(), options); });
  collect(y);
  run([&] { log_normalize(q, x, partials.ref(), y.view(), options); });
  collect(y);
  run([&] { logsumexp(q, partials.ref(), lse.vector()); });
  collect(lse);

  std::optional<row_states> kept;
  std::optional<row_states> other;
  std::vector<std::byte> bytes;
  std::vector<arithmetic> sums(static_cast<std::size_t>(x.rows));
  std::vector<arithmetic> probabilities(static_cast<std::size_t>(x.rows * k));
  run([&] {
    kept.emplace(dtype_of<arithmetic>, x.rows, k, scale);
    other.emplace(dtype_of<arithmetic>, x.rows, k, scale);
    kept->fold(q, parts[0], 0);
    other->fold(q, parts[1], left);
    kept->combine(q, *other);
    bytes = row_states::from_bytes(kept->to_bytes()).to_bytes();
    kept->finish(q, {sums.data(), dtype_of<arithmetic>, x.rows},
                 matrix_view(probabilities.data(), x.rows, k));
    other = kept;
    kept->append_rows(*other);
  });
  all.insert(all.end(), bytes.begin(), bytes.end());
  for (const auto& result : {sums, probabilities}) {
    const auto own = std::as_bytes(std::span(result));
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

struct shape {
  std::int64_t rows, cols, k;
};

/// Of each kind of plan, the last two spread over threads by rows and by columns.
constexpr shape shapes[] = {{3, 33, 3}, {2, 40, 20}, {2, 3000, 5}, {600, 130, 2}, {2, 70001, 9}};

constexpr distribution kinds[] = {distribution::normal,      distribution::subnormal,
                                  distribution::wide_normal, distribution::signed_zeros,
                                  distribution::masked,      distribution::huge};

}  // namespace

TEST_SUITE_BEGIN("floating_point");

TEST_CASE("environments of this machine") {
  int supported = 0;
  for (const environment& e : environments) {
    caller run(e.set);
    run([] {});
    supported += run.supported() ? 1 : 0;
    if (!run.supported()) {
      MESSAGE("not on this machine: " << std::string(e.name));
    }
  }
  CHECK(supported >= 4);
}

TEST_CASE_TEMPLATE("the caller's environment changes no bit", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue known(queue_options{.threads = 3});
  for (const shape& s : shapes) {
    for (const distribution kind : kinds) {
      problem_spec spec{s.rows, s.cols, kind, 1, 1, 0, 91000};
      INFO(describe(spec));
      problem<T> p(spec);
      if (s.rows > 2) {  // comparisons with NaN are invalid operations, infinities may be
        p.x(0, s.cols / 2) = nans<T>()[0];
        p.x(1, s.cols / 2) = T(infinity<T>);
        p.x.upload();
      }
      caller here;
      const auto expected = run_all(known, here, p.x.view(), s.k);
      for (const environment& e : environments) {
        INFO(std::string(e.name));
        caller elsewhere(e.set);
        // A queue that starts its threads in this environment.
        std::optional<queue> q;
        elsewhere([&] { q.emplace(queue_options{.threads = 3}); });
        if (!elsewhere.supported()) {
          continue;
        }
        CHECK(run_all(*q, elsewhere, p.x.view(), s.k) == expected);
        CHECK(elsewhere.kept());
      }
    }
  }
}

TEST_CASE("a call that throws leaves the environment as it was, and says the same") {
  matrix<float> x({2, 8, 0, 0}, role::input);
  matrix<float> y({2, 8, 0, 0}, role::output);
  queue q(queue_options{.threads = 1});
  const auto text_in = [&](caller& run, double scale, std::int64_t cols) {
    std::string text;
    run([&] {
      try {
        softmax(q, x.view(), matrix_view(y.view().data, 2, cols), {.scale = scale});
      } catch (const error& e) {
        text = e.what();
      }
    });
    return text;
  };
  for (const environment& e : environments) {
    INFO(std::string(e.name));
    caller here;
    caller elsewhere(e.set);
    elsewhere([] {});
    if (!elsewhere.supported()) {
      continue;
    }
    for (const std::int64_t cols : {7, 8}) {  // a wrong shape, then a scale that is not finite
      const std::string expected = text_in(here, 1.00000007e300, cols);
      CHECK_FALSE(expected.empty());
      CHECK(text_in(elsewhere, 1.00000007e300, cols) == expected);
    }
    CHECK(elsewhere.kept());
  }
}

TEST_SUITE_END();

}  // namespace softfold::test
