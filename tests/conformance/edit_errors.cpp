// SPDX-License-Identifier: Apache-2.0
// Every invalid edit: an error that names function, argument and value, and no output touched.
#include "harness.hpp"

#include <functional>
#include <limits>
#include <string>

namespace softfold::test {
namespace {

constexpr std::int64_t rows = 4;
constexpr std::int64_t cols = 40;
constexpr std::int64_t k = 2;

/// Memory for every edit, and for every function that takes them.
struct arguments {
  matrix<float> x{{rows, cols, 0, 0}, role::input};
  matrix<float> y{{rows, cols, 0, 0}, role::output};
  matrix<float> values{{rows, k, 0, 0}, role::output};
  matrix<std::int32_t> indices{{rows, k, 0, 0}, role::output};
  matrix<float> lse{{rows, 1, 0, 0}, role::output};
  states<float> partials{rows};
  matrix<std::int32_t> words{{rows, 2, 0, 0}, role::input};
  matrix<std::uint8_t> bytes{{rows, cols, 0, 0}, role::input};
  matrix<float> bias{{rows, cols, 0, 0}, role::input};
  matrix<std::int64_t> starts{{rows + 1, 1, 0, 0}, role::input};
  matrix<std::int32_t> integers{{rows, 1, 0, 0}, role::input};
  matrix<float> numbers{{rows, 1, 0, 0}, role::input};

  row_edits edits;

  [[nodiscard]] std::string touched() {
    std::string text;
    const auto look = [&](auto& memory) {
      memory.download();
      text += memory.untouched();
    };
    look(y);
    look(values);
    look(indices);
    look(lse);
    for (const auto& state : partials.values()) {
      text += state == max_sum<float>{} ? "" : "a row state";
    }
    return text;
  }
};

struct function {
  const char* name;
  std::function<void(queue&, arguments&)> call;
};

const function functions[] = {
    {"softmax",
     [](queue& q, arguments& a) { softmax(q, a.x.view(), a.y.view(), {.edits = a.edits}); }},
    {"log_softmax",
     [](queue& q, arguments& a) { log_softmax(q, a.x.view(), a.y.view(), {.edits = a.edits}); }},
    {"logsumexp",
     [](queue& q, arguments& a) { logsumexp(q, a.x.view(), a.lse.vector(), {.edits = a.edits}); }},
    {"topk",
     [](queue& q, arguments& a) {
       topk(q, a.x.view(), a.values.view(), a.indices.view(), {.edits = a.edits});
     }},
    {"softmax_topk",
     [](queue& q, arguments& a) {
       softmax_topk(q, a.x.view(), a.values.view(), a.indices.view(), {.edits = a.edits});
     }},
    {"fold",
     [](queue& q, arguments& a) { fold(q, a.x.view(), a.partials.ref(), {.edits = a.edits}); }},
    {"fold_topk",
     [](queue& q, arguments& a) {
       fold_topk(q, a.x.view(), a.partials.ref(), a.values.view(), a.indices.view(),
                 {.edits = a.edits});
     }},
    {"normalize",
     [](queue& q, arguments& a) {
       normalize(q, a.x.view(), a.partials.ref(), a.y.view(), {.edits = a.edits});
     }},
    {"log_normalize",
     [](queue& q, arguments& a) {
       log_normalize(q, a.x.view(), a.partials.ref(), a.y.view(), {.edits = a.edits});
     }},
    {"softmax_backward",
     [](queue& q, arguments& a) {
       softmax_backward(q, a.x.view(), a.bias.view(), a.y.view(), {.edits = a.edits});
     }},
    {"log_softmax_backward",
     [](queue& q, arguments& a) {
       log_softmax_backward(q, a.x.view(), a.bias.view(), a.y.view(), {.edits = a.edits});
     }},
};

struct mistake {
  const char* said;  ///< what the text has to contain
  errc code;
  std::function<void(arguments&)> make;
};

const_matrix_ref with_cols(const const_matrix_ref& m, std::int64_t n) {
  return {m.data, m.type, m.rows, n, m.stride};
}
const_matrix_ref with_rows(const const_matrix_ref& m, std::int64_t n) {
  return {m.data, m.type, n, m.cols, m.stride};
}

constexpr errc invalid = errc::invalid_argument;
constexpr errc unsupported = errc::unsupported_type;

/// Removals, which every function takes.
const mistake mistakes[] = {
    {"edits.mask.type is f32, expected i32 for bits or u8 for bytes", unsupported,
     [](arguments& a) { a.edits.mask = a.bias.view(); }},
    {"edits.mask.cols is 1, expected 2", invalid,
     [](arguments& a) { a.edits.mask = with_cols(a.words.view(), 1); }},
    {"edits.mask.cols is 39, expected 40", invalid,
     [](arguments& a) { a.edits.mask = with_cols(a.bytes.view(), 39); }},
    {"edits.mask.rows is 3, expected 1 or x.rows = 4", invalid,
     [](arguments& a) { a.edits.mask = with_rows(a.bytes.view(), 3); }},
    {"edits.mask.stride is 39, expected at least cols = 40", invalid,
     [](arguments& a) {
       const const_matrix_ref m = a.bytes.view();
       a.edits.mask = {m.data, m.type, m.rows, m.cols, 39};
     }},
    {"edits.lengths.size is 1, expected 4", invalid,
     [](arguments& a) {
       a.edits.lengths = {a.integers.vector().data, dtype::i32, 1};
     }},
    {"edits.lengths.type is f32, expected i32 or i64", unsupported,
     [](arguments& a) { a.edits.lengths = a.numbers.vector(); }},
    {"edits.mask.data is null, expected a pointer", invalid,
     [](arguments& a) {
       a.edits.mask = {nullptr, dtype::u8, 4, 40, 40};
     }},
    {"edits.lengths.data is null, expected a pointer", invalid,
     [](arguments& a) {
       a.edits.lengths = {nullptr, dtype::i32, 4};
     }},
    {"edits.bias.data is null, expected a pointer", invalid,
     [](arguments& a) {
       a.edits.bias = {nullptr, dtype::f32, 1, 40, 40};
     }},
    {"edits.bias.type is i32", unsupported, [](arguments& a) { a.edits.bias = a.words.view(); }},
    {"edits.bias.cols is 39, expected 40", invalid,
     [](arguments& a) { a.edits.bias = with_cols(a.bias.view(), 39); }},
    {"edits.bias.data is ", invalid,
     [](arguments& a) {
       const const_matrix_ref m = a.bias.view();
       a.edits.bias = {static_cast<const std::byte*>(m.data) + 1, m.type, m.rows, m.cols, m.stride};
     }},
    {"edits.corner is 3", invalid, [](arguments& a) { a.edits.corner = static_cast<causal>(3); }},
    {"edits.queries is 0, expected 1 or more, a divisor of x.rows = 4", invalid,
     [](arguments& a) { a.edits.corner = causal::top_left; }},
    {"edits.queries is 3", invalid,
     [](arguments& a) {
       a.edits.corner = causal::bottom_right;
       a.edits.queries = 3;
     }},
    {"edits.window is -1, expected 0 or more", invalid,
     [](arguments& a) {
       a.edits.corner = causal::top_left;
       a.edits.queries = 4;
       a.edits.window = -1;
     }},
    {"edits.window is 5, expected 0 without a causal corner", invalid,
     [](arguments& a) { a.edits.window = 5; }},
};

/// Penalties and softcap, which gradients do not take at all.
const mistake changes[] = {
    {"edits.softcap is -1", invalid, [](arguments& a) { a.edits.softcap = -1; }},
    {"edits.softcap is inf", invalid,
     [](arguments& a) { a.edits.softcap = std::numeric_limits<double>::infinity(); }},
    {"edits.softcap is nan", invalid,
     [](arguments& a) { a.edits.softcap = std::numeric_limits<double>::quiet_NaN(); }},
    {"edits.penalty_rows.size is 4, expected x.rows + 1 for x.rows = 4", invalid,
     [](arguments& a) {
       a.edits.penalty_rows = {a.starts.vector().data, dtype::i64, 4};
     }},
    {"edits.penalty_rows.type is i32, expected i64", unsupported,
     [](arguments& a) { a.edits.penalty_rows = a.integers.vector(); }},
    {"edits.penalty_columns.type is f32, expected i32 or i64", unsupported,
     [](arguments& a) {
       a.edits.penalty_rows = a.starts.vector();
       a.edits.penalty_columns = a.numbers.vector();
     }},
    {"edits.penalty_counts.size is 3, expected 4", invalid,
     [](arguments& a) {
       a.edits.penalty_rows = a.starts.vector();
       a.edits.penalty_columns = a.integers.vector();
       a.edits.penalty_counts = {a.integers.vector().data, dtype::i32, 3};
     }},
    {"edits.frequency.size is 2, expected 4", invalid,
     [](arguments& a) {
       a.edits.frequency = {a.numbers.vector().data, dtype::f32, 2};
     }},
    {"edits.repetition.data is null, expected a pointer", invalid,
     [](arguments& a) {
       a.edits.repetition = {nullptr, dtype::f32, 1};
     }},
    {"edits.repetition.type is i32, expected f32 or f64", unsupported,
     [](arguments& a) { a.edits.repetition = a.integers.vector(); }},
};

void expect_refusal(const function& f, const mistake& m, const std::string& said) {
  queue q;
  arguments a;
  m.make(a);
  std::string found = "nothing";
  try {
    f.call(q, a);
  } catch (const error& e) {
    found = e.what();
    CHECK(e.code() == m.code);
  }
  const std::string expected = std::string(f.name) + ": " + said;
  CHECK_MESSAGE(found.starts_with(expected),
                f.name << ": found \"" << found << "\", expected \"" << expected << "\"");
  CHECK(a.touched() == "");
}

TEST_SUITE("edits") {
  TEST_CASE("wrong edits are refused") {
    for (const function& f : functions) {
      for (const mistake& m : mistakes) {
        const bool gradient = std::string(f.name).ends_with("backward");
        std::string said = m.said;
        if (const auto at = said.find("x.rows"); gradient && at != std::string::npos) {
          said = said.substr(0, at);  // there it is y that has rows
        }
        expect_refusal(f, m, said);
      }
    }
  }

  TEST_CASE("edits that change values are refused, by gradients any") {
    for (const function& f : functions) {
      for (const mistake& m : changes) {
        if (!std::string(f.name).ends_with("backward")) {
          expect_refusal(f, m, m.said);
        }
      }
    }
    for (const function& f : functions) {
      if (std::string(f.name).ends_with("backward")) {
        expect_refusal(f, {"", invalid, [](arguments& a) { a.edits.softcap = 2; }},
                       "edits.softcap is given, expected nothing");
        expect_refusal(
            f, {"", invalid, [](arguments& a) { a.edits.penalty_rows = a.starts.vector(); }},
            "edits.penalty_rows is given, expected nothing");
      }
    }
  }

  TEST_CASE("edits share no memory with outputs") {
    for (const function& f : functions) {
      const std::string name = f.name;
      const mistake m{"", invalid, [&](arguments& a) {
                        const bool lists = name.find("topk") != std::string::npos;
                        if (lists) {
                          a.edits.lengths = {a.indices.view().data, dtype::i32, rows};
                        } else if (name == "logsumexp") {
                          a.edits.lengths = {a.lse.vector().data, dtype::i32, rows};
                        } else if (name == "fold") {
                          a.edits.lengths = {a.partials.ref().data, dtype::i32, rows};
                        } else {
                          a.edits.lengths = {a.y.view().data, dtype::i32, rows};
                        }
                      }};
      queue q;
      arguments a;
      m.make(a);
      CHECK_THROWS_WITH_AS(f.call(q, a), doctest::Contains("overlaps edits.lengths"), error);
      CHECK(a.touched() == "");
    }
  }
}

}  // namespace
}  // namespace softfold::test
