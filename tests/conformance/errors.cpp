// SPDX-License-Identifier: Apache-2.0
// Every invalid argument: softfold::error with the right code, a message that names function and
// argument, and no output touched.
#include "harness.hpp"

#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>

namespace softfold::test {

namespace {

constexpr std::int64_t rows = 3;
constexpr std::int64_t cols = 8;
constexpr std::int64_t k = 2;
constexpr std::int64_t big = std::int64_t{1} << 62;

/// Valid arguments for every operation; each test spoils one of them.
struct arguments {
  matrix<float> x_memory{{rows, cols, 2, 0}, role::input};
  matrix<float> y_memory{{rows, cols, 2, 0}, role::output};
  matrix<float> values_memory{{rows, k, 1, 0}, role::output};
  matrix<std::int32_t> indices_memory{{rows, k, 1, 0}, role::output};
  matrix<float> logits_memory{{rows, k, 1, 0}, role::output};
  matrix<float> more_values_memory{{rows, k, 1, 0}, role::output};
  matrix<std::int32_t> more_indices_memory{{rows, k, 1, 0}, role::output};
  matrix<float> lse_memory{{rows, 1, 0, 0}, role::output};
  states<float> partials_memory{rows};
  states<float> more_memory{rows};

  const_matrix_ref x = x_memory.view();
  matrix_ref y = y_memory.view();
  matrix_ref values = values_memory.view();
  matrix_ref indices = indices_memory.view();
  matrix_ref logits = logits_memory.view();
  matrix_ref more_values = more_values_memory.view();
  matrix_ref more_indices = more_indices_memory.view();
  vector_ref lse = lse_memory.vector();
  partials_ref partials = partials_memory.ref();
  partials_ref more = more_memory.ref();
  double scale = 1;
  empty_row policy = empty_row::nan;
  std::int64_t column_offset = 100;

  std::string touched() {
    std::string text;
    const auto look = [&](auto& memory) {
      memory.download();
      text += memory.untouched();
    };
    look(x_memory);
    look(y_memory);
    look(values_memory);
    look(indices_memory);
    look(logits_memory);
    look(more_values_memory);
    look(more_indices_memory);
    look(lse_memory);
    for (const auto& state : partials_memory.values()) {
      text += state == max_sum<float>{} ? "" : "a row state";
    }
    return text;
  }
};

struct operation {
  const char* name;
  std::function<void(queue&, arguments&)> call;
};

softmax_options options_of(const arguments& a) { return {.scale = a.scale, .empty_row = a.policy}; }

const operation op_softmax{"softmax",
                           [](queue& q, arguments& a) { softmax(q, a.x, a.y, options_of(a)); }};
const operation op_log_softmax{
    "log_softmax", [](queue& q, arguments& a) { log_softmax(q, a.x, a.y, options_of(a)); }};
const operation op_logsumexp{
    "logsumexp", [](queue& q, arguments& a) { logsumexp(q, a.x, a.lse, {.scale = a.scale}); }};
const operation op_topk{"topk", [](queue& q, arguments& a) { topk(q, a.x, a.values, a.indices); }};
const operation op_softmax_topk{
    "softmax_topk", [](queue& q, arguments& a) {
      softmax_topk(q, a.x, a.values, a.indices,
                   {.scale = a.scale, .empty_row = a.policy, .logits = a.logits, .lse = a.lse});
    }};
const operation op_fold{
    "fold", [](queue& q, arguments& a) { fold(q, a.x, a.partials, {.scale = a.scale}); }};
const operation op_combine{"combine",
                           [](queue& q, arguments& a) { combine(q, a.more, a.partials); }};
const operation op_normalize{
    "normalize", [](queue& q, arguments& a) { normalize(q, a.x, a.partials, a.y, options_of(a)); }};
const operation op_log_normalize{"log_normalize", [](queue& q, arguments& a) {
                                   log_normalize(q, a.x, a.partials, a.y, options_of(a));
                                 }};
const operation op_logsumexp_of_states{
    "logsumexp", [](queue& q, arguments& a) { logsumexp(q, a.partials, a.lse); }};
const operation op_fold_topk{"fold_topk", [](queue& q, arguments& a) {
                               fold_topk(q, a.x, a.partials, a.values, a.indices,
                                         {.scale = a.scale, .column_offset = a.column_offset});
                             }};
const operation op_combine_topk{"combine_topk", [](queue& q, arguments& a) {
                                  combine_topk(q, a.more_values, a.more_indices, a.values,
                                               a.indices);
                                }};

const std::initializer_list<operation> with_x = {op_softmax,   op_log_softmax,   op_logsumexp,
                                                 op_topk,      op_softmax_topk,  op_fold,
                                                 op_normalize, op_log_normalize, op_fold_topk};
const std::initializer_list<operation> with_y = {op_softmax, op_log_softmax, op_normalize,
                                                 op_log_normalize};
const std::initializer_list<operation> with_indices = {op_topk, op_softmax_topk};

/// What the last argument of an error's text is called in each function.
const char* name_in(const operation& op, const char* argument) {
  const std::string_view function = op.name;
  const std::string_view name = argument;
  if (name == "x" && (function == "fold" || function == "fold_topk" || function == "normalize" ||
                      function == "log_normalize")) {
    return "x_part";
  }
  return name == "values" && function == "softmax_topk" ? "probabilities" : argument;
}

void rejects(const operation& op, errc code, const char* argument,
             const std::function<void(arguments&)>& spoil) {
  queue q;
  arguments a;
  spoil(a);
  const std::string expected = name_in(op, argument);
  INFO(op.name << " with a wrong " << expected);
  try {
    op.call(q, a);
    q.wait();
    FAIL_CHECK("no error");
  } catch (const error& e) {
    const std::string text = e.what();
    CAPTURE(text);
    CHECK(e.code() == code);
    CHECK(text.find(op.name) != std::string::npos);
    CHECK(text.find(expected) != std::string::npos);
  }
  CHECK(a.touched() == "");
}

void all_reject(const std::initializer_list<operation>& operations, errc code, const char* argument,
                const std::function<void(arguments&)>& spoil) {
  for (const operation& op : operations) {
    rejects(op, code, argument, spoil);
  }
}

constexpr auto invalid = errc::invalid_argument;
constexpr auto wrong_type = errc::unsupported_type;
constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_SUITE_BEGIN("errors");

TEST_CASE("memory of a size that none can have is refused, and the queue goes on") {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  queue q;
  for (const std::size_t bytes : {most, most - 62, most - 63, most - 64, most / 2 + 1}) {
    CAPTURE(bytes);
    const auto is_refused = [&](auto&& allocate) {
      try {
        allocate();
      } catch (const error& e) {
        CHECK(e.code() == errc::out_of_memory);
        CHECK(std::string(e.what()).find(std::to_string(bytes)) != std::string::npos);
        return;
      }
      FAIL_CHECK("no error");
    };
    is_refused([&] { q.reserve(bytes); });
    is_refused([&] { const buffer b(q, bytes); });
    is_refused([&] { const buffer b(q, bytes, memory::host); });
  }
  arguments a;
  topk(q, a.x, a.values, a.indices);
}

TEST_CASE("the arguments these tests spoil are valid before") {
  for (const operation& op :
       {op_softmax, op_log_softmax, op_logsumexp, op_topk, op_softmax_topk, op_fold, op_combine,
        op_normalize, op_log_normalize, op_logsumexp_of_states, op_fold_topk, op_combine_topk}) {
    queue q;
    arguments a;
    INFO(op.name);
    CHECK_NOTHROW(op.call(q, a));
    q.wait();
  }
}

TEST_CASE("input: pointer, sizes, stride, type") {
  all_reject(with_x, invalid, "x", [](arguments& a) { a.x.data = nullptr; });
  all_reject(with_x, invalid, "x", [](arguments& a) { a.x.rows = -1; });
  all_reject(with_x, invalid, "x", [](arguments& a) { a.x.cols = -1; });
  all_reject(with_x, invalid, "x", [](arguments& a) { a.x.stride = cols - 1; });
  all_reject(with_x, invalid, "x", [](arguments& a) { a.x.stride = -cols; });
  all_reject(with_x, invalid, "x", [](arguments& a) { a.x.stride = big; });
  all_reject(with_x, wrong_type, "x", [](arguments& a) { a.x.type = dtype::i32; });
  all_reject(with_x, wrong_type, "x", [](arguments& a) { a.x.type = dtype::i64; });
  all_reject(with_x, wrong_type, "x", [](arguments& a) { a.x.type = static_cast<dtype>(77); });
  // A base that is no multiple of the element size.
  all_reject(with_x, invalid, "x",
             [](arguments& a) { a.x.data = static_cast<const char*>(a.x.data) + 1; });
}

TEST_CASE("sizes whose product overflows") {
  for (const operation& op : {op_softmax, op_log_softmax}) {
    rejects(op, invalid, "x", [](arguments& a) {
      a.x.rows = a.y.rows = std::int64_t{1} << 32;
      a.x.cols = a.y.cols = std::int64_t{1} << 32;
      a.x.stride = a.y.stride = std::int64_t{1} << 32;
    });
  }
  rejects(op_logsumexp, invalid, "x", [](arguments& a) {  // fits as elements, not as bytes
    a.x.rows = 2;
    a.x.stride = big;
    a.lse.size = 2;
  });
}

TEST_CASE("output matrix: pointer, shape, stride, type") {
  all_reject(with_y, invalid, "y", [](arguments& a) { a.y.data = nullptr; });
  all_reject(with_y, invalid, "y", [](arguments& a) { a.y.rows = rows - 1; });
  all_reject(with_y, invalid, "y", [](arguments& a) { a.y.rows = -rows; });
  all_reject(with_y, invalid, "y", [](arguments& a) { a.y.cols = cols - 1; });
  all_reject(with_y, invalid, "y", [](arguments& a) { a.y.cols = cols + 1; });
  all_reject(with_y, invalid, "y", [](arguments& a) { a.y.stride = cols - 1; });
  all_reject(with_y, invalid, "y", [](arguments& a) { a.y.stride = big; });
  for (const dtype type : {dtype::f64, dtype::f16, dtype::bf16, dtype::i32}) {
    all_reject(with_y, wrong_type, "y", [&](arguments& a) { a.y.type = type; });
  }
}

TEST_CASE("pairs of types") {
  struct pair {
    dtype input, output;
  };
  for (const pair p : {pair{dtype::f16, dtype::bf16},
                       {dtype::bf16, dtype::f16},
                       {dtype::f16, dtype::f64},
                       {dtype::f64, dtype::f32},
                       {dtype::f64, dtype::f16}}) {
    CAPTURE(name_of(p.input));
    CAPTURE(name_of(p.output));
    // An input of wider elements is read out of bounds only if the check comes too late.
    const auto spoil = [&](arguments& a) {
      a.x.type = p.input;
      a.y.type = a.values.type = a.lse.type = p.output;
    };
    all_reject({op_softmax, op_log_softmax}, wrong_type, "y", spoil);
    all_reject({op_logsumexp}, wrong_type, "lse", spoil);
    all_reject(with_indices, wrong_type, "values", spoil);
  }
}

TEST_CASE("vector outputs: pointer, size, type") {
  const auto with_lse = {op_logsumexp, op_softmax_topk};
  all_reject(with_lse, invalid, "lse", [](arguments& a) { a.lse.size = rows + 1; });
  all_reject(with_lse, invalid, "lse", [](arguments& a) { a.lse.size = rows - 1; });
  all_reject(with_lse, wrong_type, "lse", [](arguments& a) { a.lse.type = dtype::f64; });
  // Without data the optional output of softmax_topk is simply not asked for.
  rejects(op_logsumexp, invalid, "lse", [](arguments& a) { a.lse.data = nullptr; });
}

TEST_CASE("k and the outputs of top-k") {
  const auto set_k = [](arguments& a, std::int64_t wanted) {
    for (matrix_ref* m : {&a.values, &a.indices, &a.logits}) {
      m->cols = wanted;
      m->stride = std::max<std::int64_t>(wanted, 0);
    }
  };
  // Never padding: one more than there are columns is an error.
  all_reject(with_indices, invalid, "k", [&](arguments& a) { set_k(a, cols + 1); });
  all_reject(with_indices, invalid, "k", [&](arguments& a) { set_k(a, -1); });
  all_reject(with_indices, invalid, "k", [&](arguments& a) { set_k(a, big); });
  all_reject(with_indices, invalid, "k", [&](arguments& a) {
    a.x.cols = 0;
    set_k(a, 1);
  });
  all_reject(with_indices, invalid, "indices", [](arguments& a) { a.indices.data = nullptr; });
  all_reject(with_indices, invalid, "indices", [](arguments& a) { a.indices.rows = rows + 1; });
  all_reject(with_indices, invalid, "indices", [](arguments& a) { a.indices.stride = k - 1; });
  all_reject(with_indices, wrong_type, "indices",
             [](arguments& a) { a.indices.type = dtype::f32; });
  all_reject(with_indices, wrong_type, "indices", [](arguments& a) {  // i32 cannot count these
    a.x.rows = a.values.rows = a.indices.rows = a.logits.rows = a.lse.size = 1;
    a.x.cols = a.x.stride = std::int64_t{1} << 31;
  });
  all_reject(with_indices, invalid, "values", [](arguments& a) { a.values.data = nullptr; });
  all_reject(with_indices, invalid, "values", [](arguments& a) { a.values.cols = k - 1; });
  all_reject(with_indices, invalid, "values", [](arguments& a) { a.values.rows = rows - 1; });
  all_reject(with_indices, invalid, "values", [](arguments& a) { a.values.stride = k - 1; });
  all_reject(with_indices, wrong_type, "values", [](arguments& a) { a.values.type = dtype::i32; });
  rejects(op_softmax_topk, invalid, "logits", [](arguments& a) { a.logits.cols = k + 1; });
  rejects(op_softmax_topk, invalid, "logits", [](arguments& a) { a.logits.rows = rows - 1; });
  rejects(op_softmax_topk, wrong_type, "logits", [](arguments& a) { a.logits.type = dtype::f64; });
}

TEST_CASE("row states") {
  const auto with_partials = {op_fold,      op_combine,       op_normalize,
                              op_fold_topk, op_log_normalize, op_logsumexp_of_states};
  const auto with_x_and_partials = {op_fold, op_normalize, op_fold_topk, op_log_normalize};
  all_reject(with_x_and_partials, invalid, "partials",
             [](arguments& a) { a.partials.size = rows - 1; });
  all_reject(with_partials, invalid, "partials", [](arguments& a) { a.partials.data = nullptr; });
  all_reject(with_x_and_partials, wrong_type, "partials",
             [](arguments& a) { a.partials.type = dtype::f64; });
  for (const dtype type : {dtype::f16, dtype::i32}) {
    rejects(op_logsumexp_of_states, wrong_type, "partials",
            [&](arguments& a) { a.partials.type = type; });
  }
  rejects(op_logsumexp_of_states, wrong_type, "lse", [](arguments& a) { a.lse.type = dtype::f16; });
  rejects(op_logsumexp_of_states, invalid, "lse", [](arguments& a) { a.lse.size = rows + 1; });
  rejects(op_logsumexp_of_states, invalid, "lse", [](arguments& a) { a.lse.data = nullptr; });
  rejects(op_logsumexp_of_states, invalid, "lse",
          [](arguments& a) { a.lse.data = a.partials.data; });
  rejects(op_combine, invalid, "partials", [](arguments& a) { a.partials.size = rows + 1; });
  rejects(op_combine, invalid, "more", [](arguments& a) { a.more.data = nullptr; });
  rejects(op_combine, invalid, "more", [](arguments& a) {
    a.more.size = -1;
    a.partials.size = -1;
  });
  // Which of two different types is the wrong one is a matter of view: either may be named.
  queue q;
  arguments a;
  a.more.type = dtype::f64;
  CHECK_THROWS_AS(combine(q, a.more, a.partials), error);
  CHECK(a.touched() == "");
}

TEST_CASE("the list of a part") {
  rejects(op_fold_topk, invalid, "column_offset", [](arguments& a) { a.column_offset = -1; });
  rejects(op_fold_topk, invalid, "column_offset", [](arguments& a) {
    a.column_offset = std::numeric_limits<std::int64_t>::max() - cols + 1;
  });
  rejects(op_fold_topk, wrong_type, "indices", [](arguments& a) {  // i32 cannot count these
    a.column_offset = (std::int64_t{1} << 31) - cols;
  });
  rejects(op_fold_topk, invalid, "indices", [](arguments& a) { a.indices.data = nullptr; });
  rejects(op_fold_topk, invalid, "indices", [](arguments& a) { a.indices.rows = rows + 1; });
  rejects(op_fold_topk, invalid, "indices", [](arguments& a) { a.indices.cols = -1; });
  rejects(op_fold_topk, wrong_type, "indices", [](arguments& a) { a.indices.type = dtype::f32; });
  rejects(op_fold_topk, invalid, "values", [](arguments& a) { a.values.data = nullptr; });
  rejects(op_fold_topk, invalid, "values", [](arguments& a) { a.values.cols = k + 1; });
  rejects(op_fold_topk, wrong_type, "values", [](arguments& a) { a.values.type = dtype::f64; });
  rejects(op_fold_topk, invalid, "values", [](arguments& a) { a.values.data = a.indices.data; });
  rejects(op_fold_topk, invalid, "values",
          [](arguments& a) { a.values.data = const_cast<void*>(a.x.data); });
  rejects(op_fold_topk, invalid, "partials", [](arguments& a) { a.partials.data = a.values.data; });
}

TEST_CASE("two lists of unequal shape or type, or in one memory") {
  using spoil = std::function<void(arguments&)>;
  using member = matrix_ref arguments::*;  // named: nvcc adds parentheses that g++ warns of
  struct list {
    const char* name;
    member matrix;
  };
  for (const list& each :
       {list{"more_values", &arguments::more_values},
        list{"more_indices", &arguments::more_indices}, list{"values", &arguments::values},
        list{"indices", &arguments::indices}}) {
    const auto with = [&](auto&& change) -> spoil {
      return [&, change](arguments& a) { change(a.*each.matrix); };
    };
    const auto null = with([](matrix_ref& m) { m.data = nullptr; });
    rejects(op_combine_topk, invalid, each.name, null);
    rejects(op_combine_topk, invalid, each.name, with([](matrix_ref& m) { m.stride = k - 1; }));
    rejects(op_combine_topk, wrong_type, each.name,
            with([](matrix_ref& m) { m.type = static_cast<dtype>(77); }));
  }
  rejects(op_combine_topk, invalid, "values", [](arguments& a) { a.values.rows = rows - 1; });
  rejects(op_combine_topk, invalid, "values", [](arguments& a) { a.values.cols = k - 1; });
  rejects(op_combine_topk, invalid, "indices", [](arguments& a) { a.indices.cols = k - 1; });
  rejects(op_combine_topk, invalid, "more_indices",
          [](arguments& a) { a.more_indices.rows = rows - 1; });
  rejects(op_combine_topk, wrong_type, "values", [](arguments& a) { a.values.type = dtype::f16; });
  rejects(op_combine_topk, wrong_type, "values", [](arguments& a) { a.values.type = dtype::i32; });
  rejects(op_combine_topk, wrong_type, "indices",
          [](arguments& a) { a.more_indices.type = dtype::f32; });
  rejects(op_combine_topk, invalid, "values",
          [](arguments& a) { a.values.data = a.more_values.data; });
  rejects(op_combine_topk, invalid, "indices",
          [](arguments& a) { a.indices.data = a.more_indices.data; });
  rejects(op_combine_topk, invalid, "indices",
          [](arguments& a) { a.indices.data = a.values.data; });
}

TEST_CASE("scale is finite in the arithmetic's type") {
  const auto with_scale = {op_softmax, op_log_softmax, op_logsumexp,     op_softmax_topk,
                           op_fold,    op_normalize,   op_log_normalize, op_fold_topk};
  for (const double scale : {infinity, -infinity, std::nan(""), 1e39, -1e300}) {
    CAPTURE(scale);
    all_reject(with_scale, invalid, "scale", [&](arguments& a) { a.scale = scale; });
  }
  queue q;
  const matrix<double> x({1, 2, 0, 0}, role::input);
  const matrix<double> y({1, 2, 0, 0}, role::output);
  CHECK_NOTHROW(softmax(q, x.view(), y.view(), {.scale = 1e300}));
  q.wait();
}

TEST_CASE("policy of empty rows") {
  all_reject({op_softmax, op_log_softmax, op_softmax_topk, op_normalize, op_log_normalize}, invalid,
             "empty_row", [](arguments& a) { a.policy = static_cast<empty_row>(9); });
}

TEST_CASE("overlap of input and output other than exactly in place") {
  const auto on_x = [](arguments& a, std::int64_t shift) {
    // Untouched output memory proves nothing here: x itself must be unchanged.
    a.y.data = const_cast<float*>(static_cast<const float*>(a.x.data)) + shift;
  };
  all_reject(with_y, invalid, "y", [&](arguments& a) { on_x(a, 1); });
  all_reject(with_y, invalid, "y", [&](arguments& a) { on_x(a, cols - 1); });
  all_reject(with_y, invalid, "y", [&](arguments& a) {  // the next row
    on_x(a, cols + 2);
    a.x.rows = a.y.rows = a.partials.size = rows - 1;
  });
  all_reject(with_y, invalid, "y", [&](arguments& a) {  // another stride
    on_x(a, 0);
    a.x.rows = a.y.rows = a.partials.size = 2;
    a.y.stride = cols;
  });
  all_reject({op_softmax, op_log_softmax}, invalid, "y", [&](arguments& a) {  // another size
    on_x(a, 0);
    a.x.type = dtype::f16;
  });
  rejects(op_logsumexp, invalid, "lse",
          [](arguments& a) { a.lse.data = const_cast<void*>(a.x.data); });
  all_reject(with_indices, invalid, "indices",
             [](arguments& a) { a.indices.data = const_cast<void*>(a.x.data); });
  rejects(op_softmax_topk, invalid, "lse",
          [](arguments& a) { a.lse.data = const_cast<void*>(a.x.data); });
}

TEST_CASE("overlap of two outputs") {
  all_reject(with_indices, invalid, "indices",
             [](arguments& a) { a.indices.data = a.values.data; });
  rejects(op_softmax_topk, invalid, "logits", [](arguments& a) { a.logits.data = a.values.data; });
  rejects(op_softmax_topk, invalid, "logits",
          [](arguments& a) { a.logits.data = static_cast<float*>(a.indices.data) + 1; });
  rejects(op_softmax_topk, invalid, "lse", [](arguments& a) { a.lse.data = a.logits.data; });
}

TEST_CASE("queue options") {
  CHECK_THROWS_AS(queue(queue_options{.threads = -1}), error);
  try {
    queue q(queue_options{.threads = -3});
  } catch (const error& e) {
    CHECK(e.code() == invalid);
    CHECK(std::string(e.what()).find("threads") != std::string::npos);
  }
}

TEST_CASE("a buffer copies both ways and refuses what lies outside it") {
  queue q;
  for (const memory kind : {memory::device, memory::host}) {
    buffer memory(q, 16, kind);
    CHECK(memory.size() == 16);
    const std::vector<std::int32_t> sent{1, 2, 3, 4};
    std::vector<std::int32_t> received(4);
    memory.upload(q, sent.data(), 16);
    memory.upload(q, sent.data(), 4, 12);
    memory.download(q, received.data(), 16);
    q.wait();
    CHECK(received == std::vector<std::int32_t>{1, 2, 3, 1});
    CHECK_THROWS_AS(memory.upload(q, sent.data(), 16, 1), error);
    CHECK_THROWS_AS(memory.upload(q, sent.data(), 0, 17), error);
    CHECK_THROWS_AS(memory.download(q, received.data(), std::size_t(-1), 2), error);
    CHECK_THROWS_AS(memory.download(q, nullptr, 4), error);
    memory.download(q, received.data(), 0, 16);
    buffer moved = std::move(memory);
    moved.download(q, received.data() + 1, 4);
    q.wait();
    CHECK(received == std::vector<std::int32_t>{1, 1, 3, 1});
  }
}

TEST_CASE("a queue is good after an error") {
  queue q;
  matrix<float> x({1, 2, 0, 0}, role::input);
  matrix<float> y({1, 2, 0, 0}, role::output);
  x(0, 0) = x(0, 1) = 3;
  x.upload();
  CHECK_THROWS_AS(softmax(q, matrix_view<const float>(nullptr, 1, 2), y.view()), error);
  softmax(q, x.view(), y.view());
  q.wait();
  y.download();
  CHECK(y(0, 0) == 0.5F);
}

namespace {

/// Valid arguments for the gradients; each test spoils one of them.
struct gradient_arguments {
  matrix<float> y_memory{{rows, cols, 2, 0}, role::input};
  matrix<float> dy_memory{{rows, cols, 2, 0}, role::input};
  matrix<float> dx_memory{{rows, cols, 2, 0}, role::output};
  const_matrix_ref y = y_memory.view();
  const_matrix_ref dy = dy_memory.view();
  matrix_ref dx = dx_memory.view();
  double scale = 1;
};

void gradients_reject(errc code, const char* argument,
                      const std::function<void(gradient_arguments&)>& spoil) {
  for (const bool log : {false, true}) {
    queue q;
    gradient_arguments a;
    spoil(a);
    const std::string name = log ? "log_softmax_backward" : "softmax_backward";
    INFO(name << " with a wrong " << argument);
    try {
      const backward_options options{.scale = a.scale};
      log ? log_softmax_backward(q, a.y, a.dy, a.dx, options)
          : softmax_backward(q, a.y, a.dy, a.dx, options);
      q.wait();
      FAIL_CHECK("no error");
    } catch (const error& e) {
      const std::string text = e.what();
      CAPTURE(text);
      CHECK(e.code() == code);
      CHECK(text.find(name + ": " + argument) == 0);
    }
    a.y_memory.download();
    a.dy_memory.download();
    a.dx_memory.download();
    CHECK(a.y_memory.untouched() + a.dy_memory.untouched() + a.dx_memory.untouched() == "");
  }
}

}  // namespace

TEST_CASE("the gradients: pointers, shapes, strides, types, scale") {
  for (const auto& [name, input] :
       {std::pair{"y", &gradient_arguments::y}, {"dy", &gradient_arguments::dy}}) {
    const auto m = input;
    gradients_reject(invalid, name, [&](auto& a) { (a.*m).data = nullptr; });
    gradients_reject(invalid, name, [&](auto& a) { (a.*m).stride = cols - 1; });
    gradients_reject(invalid, name, [&](auto& a) { (a.*m).stride = big; });
    gradients_reject(invalid, name,
                     [&](auto& a) { (a.*m).data = static_cast<const char*>((a.*m).data) + 1; });
    gradients_reject(wrong_type, name, [&](auto& a) { (a.*m).type = dtype::i32; });
    gradients_reject(wrong_type, name, [&](auto& a) { (a.*m).type = static_cast<dtype>(77); });
  }
  gradients_reject(invalid, "y", [](auto& a) { a.y.rows = -1; });
  gradients_reject(invalid, "y", [](auto& a) { a.y.cols = -1; });
  gradients_reject(invalid, "dy", [](auto& a) { a.dy.rows = rows - 1; });
  gradients_reject(invalid, "dy", [](auto& a) { a.dy.cols = cols + 1; });
  gradients_reject(wrong_type, "dy", [](auto& a) { a.dy.type = dtype::f16; });
  gradients_reject(wrong_type, "dy", [](auto& a) { a.y.type = dtype::bf16; });
  gradients_reject(invalid, "dx", [](auto& a) { a.dx.data = nullptr; });
  gradients_reject(invalid, "dx", [](auto& a) { a.dx.rows = rows + 1; });
  gradients_reject(invalid, "dx", [](auto& a) { a.dx.cols = cols - 1; });
  gradients_reject(invalid, "dx", [](auto& a) { a.dx.stride = cols - 1; });
  for (const dtype type : {dtype::f64, dtype::f16, dtype::bf16, dtype::i32}) {
    gradients_reject(wrong_type, "dx", [&](auto& a) { a.dx.type = type; });
  }
  gradients_reject(invalid, "scale", [](auto& a) { a.scale = infinity; });
  gradients_reject(invalid, "scale", [](auto& a) { a.scale = 1e300; });  // not finite as f32
  gradients_reject(invalid, "scale", [](auto& a) { a.scale = std::nan(""); });
}

TEST_CASE("the gradients: dx may be y or dy, and overlap neither otherwise") {
  gradients_reject(invalid, "dx overlaps y", [](auto& a) {
    a.dx = a.y_memory.view();
    a.dx.data = static_cast<float*>(a.dx.data) + 1;
    a.dx.cols = a.y.cols = a.dy.cols = cols - 1;
  });
  gradients_reject(invalid, "dx overlaps dy", [](auto& a) {
    a.dx = a.dy_memory.view();
    a.dx.data = static_cast<float*>(a.dx.data) + 1;
    a.dx.cols = a.y.cols = a.dy.cols = cols - 1;
  });
  gradients_reject(invalid, "dx overlaps dy", [](auto& a) {  // one stride more
    a.dx = a.dy_memory.view();
    a.dx.rows = a.y.rows = a.dy.rows = 2;
    a.dx.stride += 1;
  });
}

TEST_SUITE_END();

}  // namespace softfold::test
