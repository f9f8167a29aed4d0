// SPDX-License-Identifier: Apache-2.0
/// \file
/// sample and verify: tokens drawn from rows, whose parameters are numbers or arrays with one for
/// each row.
#include "edits.hpp"
#include "module.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace softfold::python {
namespace {

constexpr const char* c_names[] = {"tokens", "out",    "temperatures", "temperature", "top_ks",
                                   "top_k",  "top_ps", "top_p",        "min_ps",      "min_p",
                                   "seeds",  "seed",   "offsets",      "offset",      nullptr};

bool is_array(nb::handle given) {
  return PyFloat_CheckExact(given.ptr()) == 0 && PyLong_CheckExact(given.ptr()) == 0 &&
         nb::hasattr(given, "__dlpack__");
}

/// A parameter: a number, written to `number`, or an array with one for each row.
class parameter {
 public:
  template <class Number>
  parameter(const call& c, const char* name, nb::handle given, role given_as, Number& number,
            const char* expected) {
    const argument arg{c.function(), name};
    if (is_array(given)) {
      const array& held = held_.emplace(arg, given, given_as);
      c.check_rows(name, held);
      vector_ = held.vector();
    } else {
      read_number(arg, given, number,
                  std::string(expected) + ", or an array with one for each row");
    }
  }
  parameter(const parameter&) = delete;
  parameter& operator=(const parameter&) = delete;

  [[nodiscard]] const softfold_vector* each() const { return held_ ? &vector_ : nullptr; }

 private:
  std::optional<array> held_;
  softfold_vector vector_{};
};

/// As a caller gives them.
struct parameter_arguments {
  nb::handle temperature, top_k, top_p, min_p, seed, offset;
};

/// Those of a call's rows, in its options.
class parameters {
 public:
  parameters(const call& c, const parameter_arguments& given, softfold_sample_options& options)
      : temperatures_(c, "temperature", given.temperature, role::input, options.temperature,
                      "a number"),
        top_ks_(c, "top_k", given.top_k, role::integers, options.top_k, "an integer of 0 or more"),
        top_ps_(c, "top_p", given.top_p, role::input, options.top_p, "a number"),
        min_ps_(c, "min_p", given.min_p, role::input, options.min_p, "a number"),
        seeds_(c, "seed", given.seed, role::integers, options.seed,
               "an integer from 0 to 2^64 - 1"),
        offsets_(c, "offset", given.offset, role::integers, options.offset,
                 "an integer from 0 to 2^64 - 1") {
    options.temperatures = temperatures_.each();
    options.top_ks = top_ks_.each();
    options.top_ps = top_ps_.each();
    options.min_ps = min_ps_.each();
    options.seeds = seeds_.each();
    options.offsets = offsets_.each();
  }

 private:
  parameter temperatures_, top_ks_, top_ps_, min_ps_, seeds_, offsets_;
};

std::int32_t order_of(bool joint) { return joint ? SOFTFOLD_JOINT : SOFTFOLD_TOP_K_FIRST; }

/// A result that may not be wanted.
class wanted {
 public:
  template <class Make>
  void make(Make&& make) {
    made_.emplace(made_by<Make&>{make});
  }
  [[nodiscard]] const softfold_matrix* matrix() { return made_ ? made_->matrix() : nullptr; }
  [[nodiscard]] const softfold_vector* vector() { return made_ ? made_->vector() : nullptr; }
  void append_to(nb::list& all) {
    if (made_) {
      all.append(made_->take());
    }
  }

 private:
  std::optional<result> made_;
};

nb::object sample(const edit_arguments& edited, nb::handle x, nb::handle temperature,
                  nb::handle top_k, nb::handle top_p, nb::handle min_p, nb::handle seed,
                  nb::handle offset, std::int64_t draws, bool joint, bool with_log_probability,
                  bool with_raw_log_probability, bool with_lse, bool with_kept,
                  std::int64_t with_top, nb::handle out, nb::handle out_dtype,
                  nb::handle index_dtype, nb::handle stream, bool copy) {
  const call c("sample", "x", x, -1, stream, copy);
  if (draws < 0) {
    throw nb::value_error(is_not({"sample", "draws"}, std::to_string(draws), "0 or more").c_str());
  }
  if (with_top < 0 || with_top > c.matrix()->cols) {
    throw nb::value_error(is_not({"sample", "with_top"}, std::to_string(with_top),
                                 "0 to " + std::to_string(c.matrix()->cols) + ", the columns of x")
                              .c_str());
  }
  const edits e(c, edited);
  softfold_sample_options options = SOFTFOLD_SAMPLE_OPTIONS_INIT;
  const parameters p(c, {temperature, top_k, top_p, min_p, seed, offset}, options);
  options.order = order_of(joint);
  options.edits = e.get();

  const nb::none none;
  const softfold_dtype type = c.type_or("out_dtype", out_dtype, c.x().type);
  const softfold_dtype index = c.type_or("index_dtype", index_dtype, SOFTFOLD_I64);
  result tokens = c.with_columns("out", out, draws, index);
  wanted log_probability;
  wanted raw_log_probability;
  wanted lse;
  wanted kept;
  wanted kept_mass;
  wanted top_indices;
  wanted top_log_probabilities;
  if (with_log_probability) {
    log_probability.make([&] { return c.with_columns("log_probability", none, draws, type); });
  }
  if (with_raw_log_probability) {
    raw_log_probability.make(
        [&] { return c.with_columns("raw_log_probability", none, draws, type); });
  }
  if (with_lse) {
    lse.make([&] { return c.without_columns("lse", none, type); });
  }
  if (with_kept) {
    kept.make([&] { return c.without_columns("kept", none, index); });
    kept_mass.make([&] { return c.without_columns("kept_mass", none, type); });
  }
  if (with_top > 0) {
    top_indices.make([&] { return c.with_columns("top_indices", none, with_top, index); });
    top_log_probabilities.make(
        [&] { return c.with_columns("top_log_probabilities", none, with_top, type); });
  }
  options.log_probability = log_probability.matrix();
  options.raw_log_probability = raw_log_probability.matrix();
  options.lse = lse.vector();
  options.kept = kept.vector();
  options.kept_mass = kept_mass.vector();
  options.top_indices = top_indices.matrix();
  options.top_log_probabilities = top_log_probabilities.matrix();
  const softfold_matrix* const to = tokens.matrix();
  c.run([&](const library& l, softfold_queue* q) { return l.sample(q, c.matrix(), to, &options); },
        c_names);

  nb::list all;
  all.append(tokens.take());
  for (wanted* const more : {&log_probability, &raw_log_probability, &lse, &kept, &kept_mass,
                             &top_indices, &top_log_probabilities}) {
    more->append_to(all);
  }
  return nb::len(all) == 1 ? nb::object(all[0]) : nb::tuple(all);
}

/// Raises ValueError unless the array has the shape, in x's place.
void check_shape(const call& c, const char* name, const array& given, extents expected,
                 const char* what) {
  if (!std::equal(given.shape.begin(), given.shape.end(), expected.begin(), expected.end())) {
    throw nb::value_error(is_not({c.function(), name}, "of shape " + text_of(given.shape),
                                 text_of(expected) + ", " + what)
                              .c_str());
  }
  c.check_place(name, given);
}

nb::object verify(const edit_arguments& edited, nb::handle target, nb::handle draft_tokens,
                  nb::handle draft, nb::handle temperature, nb::handle top_k, nb::handle top_p,
                  nb::handle min_p, nb::handle seed, nb::handle offset, bool joint,
                  nb::handle index_dtype, nb::handle stream) {
  constexpr const char* name = "verify";
  const call c(name, "target", target, -1, stream);
  std::vector<std::int64_t> chains(c.x().shape.begin(), c.x().shape.end() - 1);
  if (chains.empty() || chains.back() == 0) {
    throw nb::value_error(
        is_not({name, "target"}, "of shape " + text_of(c.x().shape), "[..., drafts + 1, columns]")
            .c_str());
  }
  const array drafted({name, "draft_tokens"}, draft_tokens, role::integers);
  std::vector<std::int64_t> places = chains;
  --places.back();
  check_shape(c, "draft_tokens", drafted, places, "a place fewer than target has");
  const softfold_matrix from = drafted.matrix();
  std::optional<array> drafts;
  softfold_matrix logits{};
  if (!draft.is_none()) {
    drafts.emplace(argument{name, "draft"}, draft, role::input);
    places.push_back(c.matrix()->cols);
    check_shape(c, "draft", *drafts, places, "a place fewer than target has");
    logits = drafts->matrix();
  }
  const edits e(c, edited);
  softfold_sample_options options = SOFTFOLD_SAMPLE_OPTIONS_INIT;
  const parameters p(c, {temperature, top_k, top_p, min_p, seed, offset}, options);
  options.order = order_of(joint);
  options.edits = e.get();
  const softfold_dtype index = c.type_or("index_dtype", index_dtype, SOFTFOLD_I64);
  const nb::none none;
  result tokens({name, "tokens"}, none, c.x(), chains, index);
  chains.pop_back();
  result accepted({name, "accepted"}, none, c.x(), chains, index);
  const softfold_matrix* const to = tokens.matrix();
  const softfold_vector* const counts = accepted.vector();
  c.run(
      [&](const library& l, softfold_queue* q) {
        return l.verify(q, c.matrix(), drafts ? &logits : nullptr, &from, to, counts, &options);
      },
      c_names);
  return nb::make_tuple(tokens.take(), accepted.take());
}

}  // namespace

void bind_sample(nb::module_& m) {
  using namespace nb::literals;
  const auto none = nb::none();
  with_edits<&sample>::define(
      m, "sample", R"(
Tokens: columns drawn from softmax(x / temperature) of each row, after min-p, top-k and top-p in this
order. The result has `draws` columns in the place of x's. docs/sampling.md defines the token to the
bit: it is a function of the row, the parameters, the seed, the offset and the draw's number, the same
on every machine and for every batch. Nothing is remembered between calls: the same arguments draw the
same tokens, so the next token of a text takes the next offset, and rows that are to be independent of
each other take seeds or offsets of their own. A row that has no token gets -1.

>>> import numpy as np
>>> logits = np.log([[0.5, 0.3, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])
>>> sample(logits, temperature=0)
array([[0],
       [3]])
>>> tokens = sample(logits, top_k=2, seed=np.array([1, 2]), draws=10000)
>>> np.bincount(tokens[0], minlength=4) / 10000
array([0.6299, 0.3701, 0.    , 0.    ])

temperature  a number, 0 or more; 0 takes the first column in the order of topk. This parameter and
             those up to offset may be an array with one for each row, of x's shape without its last
             axis; a row whose own parameter is out of range gets -1.
top_k        keeps exactly k elements; 0 keeps all.
top_p        keeps the fewest first elements whose probabilities add up to p; 1 keeps all.
min_p        keeps what is at least p times as probable as the most probable element.
seed         an integer of 64 bits; as arrays, seeds and offsets are int64, whose 64 bits count.
offset       where the row is in its seed's sequence, as a rule the token's position in its text.
draws        how many independent tokens of each row.
joint        top_p counts the whole row rather than what min_p and top_k left.
out          the array to write the tokens to.
index_dtype  int64, the default, or int32.

With one of these the result is a tuple of the tokens and, in this order, what is asked for, of x's
type or out_dtype:

with_log_probability      of each token, after temperature and filters.
with_raw_log_probability  of each token in x as it is.
with_lse                  the logsumexp of each row of x as it is.
with_kept                 two arrays: how many elements the filters keep, and their part of the mass.
with_top                  two arrays: the columns of the with_top first elements, and their
                          log-probabilities in x as it is.

The other arguments are as softmax's; x as it is means after its edits.)",
      "x"_a.none(), nb::kw_only(), "temperature"_a = 1.0, "top_k"_a = 0, "top_p"_a = 1.0,
      "min_p"_a = 0.0, "seed"_a = 0, "offset"_a = 0, "draws"_a = 1, "joint"_a = false,
      "with_log_probability"_a = false, "with_raw_log_probability"_a = false, "with_lse"_a = false,
      "with_kept"_a = false, "with_top"_a = 0, "out"_a = none, "out_dtype"_a = none,
      "index_dtype"_a = none, "stream"_a = none, "copy"_a = false);

  with_edits<&verify>::define(m, "verify", R"(
Drafted tokens beside what the target model draws in their places (speculative decoding): the tuple
(tokens, accepted), of each chain the drafts that are accepted, then one token of the target's, then -1;
and how many were accepted. docs/sampling.md defines them to the bit.

>>> import numpy as np
>>> target = np.log([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.1, 0.8, 0.1]])
>>> verify(target, np.array([0, 1]), temperature=0)
(array([ 0,  2, -1]), array(1))

target        the target's logits, [..., drafts + 1, columns]: those of place i follow i drafts.
draft_tokens  [..., drafts], int32 or int64.
draft         None: coupled. The target's tokens are those of sample(target, ...), and drafts are accepted
              up to the first that is another token; a drafter that draws with the same seeds and offsets
              is often right. Or the draft's logits, [..., drafts, columns], from which sample drew with
              the same parameters: a draft is accepted with the ratio of its probabilities, or replaced by
              a draw from what the target has more. Either way tokens have the target's distribution.
temperature   this parameter and those up to offset are sample's; as arrays, of target's shape without
              its last axis. Each place has an offset of its own.

The other arguments are as sample's. Edits of target's rows go with coupled drafts only.)",
                              "target"_a.none(), "draft_tokens"_a.none(), "draft"_a = none,
                              nb::kw_only(), "temperature"_a = 1.0, "top_k"_a = 0, "top_p"_a = 1.0,
                              "min_p"_a = 0.0, "seed"_a = 0, "offset"_a = 0, "joint"_a = false,
                              "index_dtype"_a = none, "stream"_a = none);
}

}  // namespace softfold::python
