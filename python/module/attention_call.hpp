// SPDX-License-Identifier: Apache-2.0
/// \file
/// The arguments of attention, the same for every function of queries, keys and values.
#pragma once

#include "call.hpp"

#include <cstdint>
#include <optional>
#include <tuple>

namespace softfold::python {

/// What changes or removes scores, as a caller gives it.
struct score_arguments {
  nb::handle scale;
  double softcap;
  nb::handle bias;
  nb::handle alibi_slopes;
  nb::handle causal;
  std::int64_t window_left;
  std::int64_t window_right;
  nb::handle key_lengths;
  std::int64_t key_offset;
  std::int64_t query_offset;
  nb::handle sinks;
  nb::handle query_starts;
  nb::handle key_starts;
  std::int64_t most_queries;
  std::int64_t most_keys;
};

/// The call of a function of queries, keys and values, and the arrays that it was given.
class attention_call : public call {
 public:
  attention_call(const char* function, nb::handle q, nb::handle k, nb::handle v,
                 const score_arguments& given, nb::handle stream)
      : call(function, "query", q, stream) {
    query = x().tensor();
    key = tensor(key_, "key", k);
    value = tensor(value_, "value", v);
    if (!given.scale.is_none()) {
      read_number({function, "scale"}, given.scale, scale_, "None or a number");
      options.scale = &scale_;
    }
    options.softcap = given.softcap;
    if (!given.bias.is_none()) {
      bias_tensor_ = tensor(bias_, "bias", given.bias);
      options.bias = &bias_tensor_;
    }
    options.alibi_slopes = list(slopes_, "alibi_slopes", given.alibi_slopes, role::input);
    options.corner = corner_of(function, given.causal);
    options.window_left = given.window_left;
    options.window_right = given.window_right;
    options.key_lengths = list(lengths_, "key_lengths", given.key_lengths, role::integers);
    options.key_offset = given.key_offset;
    options.query_offset = given.query_offset;
    options.sinks = list(sinks_, "sinks", given.sinks, role::input);
    options.query_starts = list(query_starts_, "query_starts", given.query_starts, role::integers);
    options.key_starts = list(key_starts_, "key_starts", given.key_starts, role::integers);
    options.most_queries = given.most_queries;
    options.most_keys = given.most_keys;
  }

  /// The type of states.
  [[nodiscard]] softfold_dtype arithmetic() const {
    return x().type == SOFTFOLD_F64 ? SOFTFOLD_F64 : SOFTFOLD_F32;
  }

  softfold_tensor query{}, key{}, value{};
  softfold_attention_options options = SOFTFOLD_ATTENTION_OPTIONS_INIT;

 private:
  struct given_list {
    std::optional<array> held;
    softfold_vector vector{};
  };

  softfold_tensor tensor(std::optional<array>& held, const char* name, nb::handle object) {
    const array& given = held.emplace(argument{function(), name}, object, role::input);
    check_place(name, given);
    return given.tensor();
  }
  const softfold_vector* list(given_list& to, const char* name, nb::handle object, role given_as) {
    if (object.is_none()) {
      return nullptr;
    }
    to.vector = call::list(name, to.held.emplace(argument{function(), name}, object, given_as));
    return &to.vector;
  }

  std::optional<array> key_, value_, bias_;
  double scale_ = 0;
  softfold_tensor bias_tensor_{};
  given_list slopes_, lengths_, sinks_, query_starts_, key_starts_;
};

/// A function of `Self`, of attention_call's arguments and of others, in this order.
template <auto Function, class Self, class... Arguments>
struct function_of_scores;
template <auto Function, class... Self, class... Arguments>
struct function_of_scores<Function, std::tuple<Self...>, Arguments...> {
  static inline const char* name;

  static nb::object function(Self... self, nb::handle query, nb::handle key, nb::handle value,
                             nb::handle scale, double softcap, nb::handle bias,
                             nb::handle alibi_slopes, nb::handle causal, std::int64_t window_left,
                             std::int64_t window_right, nb::handle key_lengths,
                             std::int64_t key_offset, std::int64_t query_offset, nb::handle sinks,
                             nb::handle query_starts, nb::handle key_starts,
                             std::int64_t most_queries, std::int64_t most_keys, nb::handle stream,
                             Arguments... arguments) {
    attention_call c(
        name, query, key, value,
        {scale, softcap, bias, alibi_slopes, causal, window_left, window_right, key_lengths,
         key_offset, query_offset, sinks, query_starts, key_starts, most_queries, most_keys},
        stream);
    return Function(self..., c, arguments...);
  }

  /// In a module or a class.
  template <class Scope, class... Extra>
  static void define(Scope& scope, const char* function_name, const char* text, Extra... extra) {
    using namespace nb::literals;
    const nb::none none;
    name = function_name;
    scope.def(name, &function, "query"_a.none(), "key"_a.none(), "value"_a.none(), nb::kw_only(),
              "scale"_a = none, "softcap"_a = 0.0, "bias"_a = none, "alibi_slopes"_a = none,
              "causal"_a = none, "window_left"_a = -1, "window_right"_a = -1,
              "key_lengths"_a = none, "key_offset"_a = 0, "query_offset"_a = 0, "sinks"_a = none,
              "query_starts"_a = none, "key_starts"_a = none, "most_queries"_a = 0,
              "most_keys"_a = 0, "stream"_a = none, extra..., text);
  }
};

/// The same of a function that takes attention_call first, or after the object that it is of.
template <auto Function>
struct of_scores;
template <class... Arguments, nb::object (*Function)(attention_call&, Arguments...)>
struct of_scores<Function> : function_of_scores<Function, std::tuple<>, Arguments...> {};
template <class Self, class... Arguments,
          nb::object (*Function)(Self&, attention_call&, Arguments...)>
struct of_scores<Function> : function_of_scores<Function, std::tuple<Self&>, Arguments...> {};

}  // namespace softfold::python
