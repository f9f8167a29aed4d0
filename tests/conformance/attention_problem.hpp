// SPDX-License-Identifier: Apache-2.0
// A call of attention with its inputs, and what the oracle says of its results.
#pragma once

#include "bounds.hpp"
#include "harness.hpp"

#include <core/reference_attention.hpp>

#include <softfold/attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace softfold::test {

/// Sizes and strides of a tensor, and where it begins in its memory.
struct tensor_layout {
  std::int64_t batches, heads, tokens, dim;
  std::int64_t batch_stride, head_stride, token_stride;
  std::int64_t offset = 0;

  [[nodiscard]] std::int64_t end() const {
    return batches == 0 || heads == 0 || tokens == 0 || dim == 0
               ? offset
               : offset + (batches - 1) * batch_stride + (heads - 1) * head_stride +
                     (tokens - 1) * token_stride + dim;
  }
};

/// How tensors lie: without gaps; tokens outside heads, with gaps; all three inputs in one memory,
/// a token's queries, keys and values of all heads side by side.
enum class packing { heads_first, tokens_first, packed };

inline tensor_layout layout_of(packing how, std::int64_t batches, std::int64_t heads,
                               std::int64_t tokens, std::int64_t dim) {
  if (how == packing::heads_first) {
    return {batches, heads, tokens, dim, heads * tokens * dim, tokens * dim, dim};
  }
  const std::int64_t head = dim + 3;
  const std::int64_t token = heads * head + 5;
  return {batches, heads, tokens, dim, tokens * token + 7, head, token, 1};
}

/// Memory with a copy on the host. What is no element of a tensor is a guard: NaN in inputs, a
/// pattern in outputs.
template <class T>
struct tensor_memory {
  std::vector<T> host;
  std::vector<T> before;
  device_buffer<T> device;

  tensor_memory(std::int64_t size, role r)
      : host(static_cast<std::size_t>(size) + 64), device(host.size()) {
    std::memset(static_cast<void*>(host.data()), r == role::output ? 0xA5 : 0xFF,
                host.size() * sizeof(T));
    upload();
  }
  void upload() {
    device.upload(host);
    before = host;
  }
};

template <class T>
class tensor {
 public:
  tensor(const tensor_layout& where, role r)
      : tensor(where, std::make_shared<tensor_memory<T>>(where.end(), r)) {}
  tensor(const tensor_layout& where, std::shared_ptr<tensor_memory<T>> memory)
      : where_(where), memory_(std::move(memory)) {}

  [[nodiscard]] const tensor_layout& where() const { return where_; }
  [[nodiscard]] std::span<T> row(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return std::span<T>(memory_->host)
        .subspan(begin(b, h, t), static_cast<std::size_t>(where_.dim));
  }
  [[nodiscard]] tensor_view<T> view() const {
    return {memory_->device.data() + where_.offset,
            where_.batches,
            where_.heads,
            where_.tokens,
            where_.dim,
            where_.batch_stride,
            where_.head_stride,
            where_.token_stride};
  }
  void upload() { memory_->upload(); }
  void download() { memory_->device.download(memory_->host); }

  /// Whether nothing but elements has changed.
  [[nodiscard]] bool is_clean() const {
    std::vector<T> expected = memory_->before;
    for (std::int64_t b = 0; b < where_.batches; ++b) {
      for (std::int64_t h = 0; h < where_.heads; ++h) {
        for (std::int64_t t = 0; t < where_.tokens; ++t) {
          const std::span<const T> own = row(b, h, t);
          std::copy(own.begin(), own.end(),
                    expected.begin() + static_cast<std::ptrdiff_t>(begin(b, h, t)));
        }
      }
    }
    return same(expected);
  }
  [[nodiscard]] bool is_untouched() const { return same(memory_->before); }

 private:
  [[nodiscard]] std::size_t begin(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return static_cast<std::size_t>(where_.offset + b * where_.batch_stride +
                                    h * where_.head_stride + t * where_.token_stride);
  }
  [[nodiscard]] bool same(const std::vector<T>& expected) const {
    return std::memcmp(static_cast<const void*>(expected.data()), memory_->host.data(),
                       expected.size() * sizeof(T)) == 0;
  }

  tensor_layout where_;
  std::shared_ptr<tensor_memory<T>> memory_;
};

/// Memory of a vector.
template <class T>
struct device_vector {
  device_buffer<T> device;
  std::int64_t size;

  explicit device_vector(std::span<const T> values)
      : device(values.size()), size(static_cast<std::int64_t>(values.size())) {
    device.upload(values);
  }
  [[nodiscard]] const_vector_ref ref() const { return {device.data(), dtype_of<T>, size}; }
};

struct attention_spec {
  std::int64_t batches = 1;
  std::int64_t heads = 1;
  std::int64_t key_heads = 1;
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t dim = 16;
  std::int64_t v_dim = 16;
  packing how = packing::heads_first;
  std::optional<double> scale = {};
  double softcap = 0;
  int bias_dims = 0;  ///< bits: the bias has one for each batch, head, query; 8: it has one at all
  bool alibi = false;
  causal corner = causal::none;
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  std::vector<std::int64_t> lengths = {};
  std::int64_t key_offset = 0;
  std::int64_t query_offset = 0;
  bool sinks = false;
  softfold::empty_row empty_row = softfold::empty_row::zero;
  double deviation = 1;       ///< of q and k
  bool equal_scores = false;  ///< q is 0
  unsigned seed = 1;
};

inline std::string describe(const attention_spec& s) {
  std::ostringstream text;
  text << s.batches << " x " << s.heads << "/" << s.key_heads << " x " << s.queries << " x "
       << s.keys << ", dim " << s.dim << "/" << s.v_dim << ", packing " << static_cast<int>(s.how)
       << ", softcap " << s.softcap << ", bias " << s.bias_dims << ", alibi " << s.alibi
       << ", corner " << static_cast<int>(s.corner) << ", window " << s.window_left << " "
       << s.window_right << ", lengths " << s.lengths.size() << ", offsets " << s.key_offset << " "
       << s.query_offset << ", sinks " << s.sinks << ", deviation " << s.deviation << ", seed "
       << s.seed;
  return text.str();
}

/// The bound's e of docs/attention.md: what the products with the values may round p to.
template <class In>
constexpr double weight_error = std::is_same_v<In, bfloat16> ? 0x1p-8
                                : std::is_same_v<In, half>   ? 0x1p-11
                                                             : 0;

template <class In>
class attention_case {
 public:
  using A = reference::arithmetic_t<In>;
  using wide = reference::wide_t<In>;
  using answer = reference::attention_answer<wide>;

  explicit attention_case(const attention_spec& s)
      : spec(s), inputs_(input_layouts(s)), q(inputs_[0]), k(inputs_[1]), v(inputs_[2]) {
    std::mt19937 random(s.seed);
    std::normal_distribution<double> normal(0, s.deviation);
    std::normal_distribution<double> plain;
    const auto fill = [&](const tensor<In>& t, auto&& number) {
      const tensor_layout& w = t.where();
      for (std::int64_t b = 0; b < w.batches; ++b) {
        for (std::int64_t h = 0; h < w.heads; ++h) {
          for (std::int64_t i = 0; i < w.tokens; ++i) {
            for (In& x : t.row(b, h, i)) {
              x = make<In>(number());
            }
          }
        }
      }
    };
    fill(q, [&] { return s.equal_scores ? 0.0 : normal(random); });
    fill(k, [&] { return normal(random); });
    fill(v, [&] { return plain(random); });
    if (s.alibi) {
      std::vector<float> slopes;
      for (std::int64_t h = 0; h < s.heads; ++h) {
        slopes.push_back(std::ldexp(1.0F, -static_cast<int>(h % 8) - 1));
      }
      slopes_ = slopes;
      slopes_memory_.emplace(std::span<const float>(slopes_));
      options.alibi_slopes = slopes_memory_->ref();
    }
    if (s.sinks) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        sinks_.push_back(h % 3 == 1 ? -std::numeric_limits<double>::infinity()
                                    : 0.5 * static_cast<double>(h));
      }
      sinks_memory_.emplace(std::span<const double>(sinks_));
      options.sinks = sinks_memory_->ref();
    }
    if (!s.lengths.empty()) {
      lengths_memory_.emplace(std::span<const std::int64_t>(s.lengths));
      options.key_lengths = lengths_memory_->ref();
    }
    if (s.bias_dims != 0) {
      bias_.emplace(
          layout_of(s.how == packing::heads_first ? packing::heads_first : packing::tokens_first,
                    (s.bias_dims & 1) != 0 ? s.batches : 1, (s.bias_dims & 2) != 0 ? s.heads : 1,
                    (s.bias_dims & 4) != 0 ? s.queries : 1, s.keys),
          role::input);
      fill_bias(random);
      options.bias = bias_->view();
    }
    options.scale = s.scale;
    options.softcap = s.softcap;
    options.corner = s.corner;
    options.window_left = s.window_left;
    options.window_right = s.window_right;
    options.key_offset = s.key_offset;
    options.query_offset = s.query_offset;
    options.empty_row = s.empty_row;
    poison();
    commit();
  }

  void commit() {
    q.upload();
    k.upload();
    v.upload();
    if (bias_) {
      bias_->upload();
    }
  }

  /// Whether key j exists for query i of batch b, as far as lengths and masks go.
  [[nodiscard]] bool exists(std::int64_t b, std::int64_t i, std::int64_t j) const {
    const std::int64_t length = length_of(b);
    const std::int64_t at = j + spec.key_offset;
    const std::int64_t query = position(b, i);
    return at < length && (spec.corner == causal::none || at <= query) &&
           (spec.window_left < 0 || at >= query - spec.window_left) &&
           (spec.window_right < 0 || at <= query + spec.window_right);
  }

  [[nodiscard]] answer exact(std::int64_t b, std::int64_t h, std::int64_t i) const {
    const std::int64_t shared = h / (spec.heads / spec.key_heads);
    std::vector<std::vector<wide>> rows;
    std::vector<wide> biases;
    for (std::int64_t j = 0; j < spec.keys; ++j) {
      wide bias = 0;
      if (bias_) {
        bias = reference::widen(bias_row(b, h, i)[static_cast<std::size_t>(j)]);
      }
      if (!exists(b, i, j) || bias == -std::numeric_limits<wide>::infinity()) {
        continue;
      }
      if (spec.alibi) {
        bias -= static_cast<wide>(slopes_[static_cast<std::size_t>(h)]) *
                static_cast<wide>(std::abs(position(b, i) - j - spec.key_offset));
      }
      rows.push_back(reference::widen(std::span<const In>(k.row(b, shared, j))));
      rows.push_back(reference::widen(std::span<const In>(v.row(b, shared, j))));
      biases.push_back(bias);
    }
    std::vector<reference::attention_key<wide>> keys;
    for (std::size_t j = 0; j < biases.size(); ++j) {
      keys.push_back({rows[2 * j], rows[2 * j + 1], biases[j]});
    }
    const std::vector<wide> query = reference::widen(std::span<const In>(q.row(b, h, i)));
    reference::attention_query<wide> row{query, effective_scale(),
                                         reference::effective_scale<wide>(spec.softcap)};
    if (spec.sinks) {
      row.sink = static_cast<wide>(static_cast<A>(sinks_[static_cast<std::size_t>(h)]));
    }
    return reference::attention<wide>(row, keys, static_cast<std::size_t>(spec.v_dim));
  }

  [[nodiscard]] wide effective_scale() const {
    return reference::effective_scale<wide>(
        spec.scale ? *spec.scale : 1 / std::sqrt(static_cast<double>(spec.dim)));
  }

  /// Checks results, every row or some of them. Without Out data: not computed.
  template <class Out>
  void check(const tensor<Out>& out, const tensor<A>* lse, const char* what) const {
    const std::int64_t rows = spec.batches * spec.heads * spec.queries;
    const std::int64_t step = rows <= 64 ? 1 : rows / 37;
    for (std::int64_t r = 0; r < rows; r += step) {
      const std::int64_t i = r % spec.queries;
      const std::int64_t h = r / spec.queries % spec.heads;
      const std::int64_t b = r / spec.queries / spec.heads;
      const answer right = exact(b, h, i);
      const std::string verdict = wrong<Out>(right, out.row(b, h, i));
      std::string wrong_lse;
      if (lse != nullptr) {
        wrong_lse = wrong_logsumexp(right, lse->row(b, h, i)[0]);
      }
      if (!verdict.empty() || !wrong_lse.empty()) {
        INFO(what, ": ", describe(spec), "; batch ", b, ", head ", h, ", query ", i);
        CHECK(verdict == "");
        CHECK(wrong_lse == "");
        return;
      }
    }
    CHECK(true);
  }

  static wide unit() { return std::numeric_limits<A>::epsilon() / 2; }

  template <class Out>
  [[nodiscard]] std::string wrong(const answer& right, std::span<const Out> row) const {
    for (std::size_t c = 0; c < row.size(); ++c) {
      wide exact = right.out[c];
      if (right.kind == reference::row_kind::empty && spec.empty_row == empty_row::nan) {
        exact = std::numeric_limits<wide>::quiet_NaN();
      }
      const wide y = reference::widen(row[c]);
      bool ok = false;
      if (std::isnan(exact) || right.kind == reference::row_kind::empty) {
        ok = std::isnan(exact) ? std::isnan(y) : y == 0;
      } else if (std::isinf(exact)) {
        ok = y == exact || std::isnan(y);
      } else {
        const wide bound =
            (static_cast<wide>(weight_error<In>) +
             (2 * right.score_error + 16 + std::log2(static_cast<wide>(right.keys + 1))) * unit()) *
                right.spread[c] +
            static_cast<wide>(std::numeric_limits<A>::min());
        if constexpr (is_16_bit<Out>) {
          const auto rounded = [](wide x) {
            return reference::widen(correctly_rounded<Out>(static_cast<double>(x)));
          };
          ok = y >= rounded(exact - bound) && y <= rounded(exact + bound);
        } else {
          const wide rounding = unit() * std::abs(exact);
          record_margin("attention", dtype_of<A>,
                        static_cast<double>(std::abs(y - exact) / (bound + rounding)));
          ok = std::abs(y - exact) <= bound + rounding;
        }
      }
      if (!ok) {
        std::ostringstream text;
        text.precision(12);
        text << "column " << c << ": " << y << ", exact " << exact << ", keys " << right.keys;
        return text.str();
      }
    }
    return "";
  }

  [[nodiscard]] std::string wrong_logsumexp(const answer& right, A lse) const {
    const auto y = static_cast<wide>(lse);
    bool ok = false;
    if (!std::isfinite(right.lse)) {
      ok = std::isnan(right.lse) ? std::isnan(y) : y == right.lse;
    } else {
      const wide bound = (std::abs(right.lse) + right.score_error + 16 +
                          std::log2(static_cast<wide>(right.keys + 1))) *
                         unit();
      record_margin("attention's logsumexp", dtype_of<A>,
                    static_cast<double>(std::abs(y - right.lse) / bound));
      ok = std::abs(y - right.lse) <= bound;
    }
    std::ostringstream text;
    text << "logsumexp " << y << ", exact " << right.lse;
    return ok ? "" : text.str();
  }

  /// Of key j, where there is one for all.
  [[nodiscard]] In bias(std::int64_t j) const {
    return bias_row(0, 0, 0)[static_cast<std::size_t>(j)];
  }

  [[nodiscard]] tensor_layout output_layout(std::int64_t dim) const {
    return layout_of(
        spec.how == packing::heads_first ? packing::heads_first : packing::tokens_first,
        spec.batches, spec.heads, spec.queries, dim);
  }

  attention_spec spec;
  attention_options options;

 private:
  static std::vector<tensor<In>> input_layouts(const attention_spec& s) {
    const tensor_layout all[] = {
        layout_of(s.how, s.batches, s.heads, s.queries, s.dim),
        layout_of(s.how, s.batches, s.key_heads, s.keys, s.dim),
        layout_of(s.how, s.batches, s.key_heads, s.keys, s.v_dim),
    };
    if (s.how != packing::packed) {
      return {{all[0], role::input}, {all[1], role::input}, {all[2], role::input}};
    }
    const std::int64_t q_width = s.heads * s.dim;
    const std::int64_t k_width = s.key_heads * s.dim;
    const std::int64_t token = q_width + k_width + s.key_heads * s.v_dim;
    const std::int64_t batch = std::max(s.queries, s.keys) * token;
    const auto memory = std::make_shared<tensor_memory<In>>(s.batches * batch, role::input);
    return {{{s.batches, s.heads, s.queries, s.dim, batch, s.dim, token, 0}, memory},
            {{s.batches, s.key_heads, s.keys, s.dim, batch, s.dim, token, q_width}, memory},
            {{s.batches, s.key_heads, s.keys, s.v_dim, batch, s.v_dim, token, q_width + k_width},
             memory}};
  }

  [[nodiscard]] std::int64_t length_of(std::int64_t b) const {
    return spec.lengths.empty() ? spec.key_offset + spec.keys
                                : spec.lengths[static_cast<std::size_t>(b)];
  }
  [[nodiscard]] std::int64_t position(std::int64_t b, std::int64_t i) const {
    return i + spec.query_offset +
           (spec.corner == causal::bottom_right ? length_of(b) - spec.queries : 0);
  }
  [[nodiscard]] std::span<In> bias_row(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return bias_->row((spec.bias_dims & 1) != 0 ? b : 0, (spec.bias_dims & 2) != 0 ? h : 0,
                      (spec.bias_dims & 4) != 0 ? i : 0);
  }
  void fill_bias(std::mt19937& random) {
    std::normal_distribution<double> normal;
    const tensor_layout& w = bias_->where();
    for (std::int64_t b = 0; b < w.batches; ++b) {
      for (std::int64_t h = 0; h < w.heads; ++h) {
        for (std::int64_t i = 0; i < w.tokens; ++i) {
          for (In& x : bias_->row(b, h, i)) {
            x = make<In>(random() % 7 == 0 ? -std::numeric_limits<double>::infinity()
                                           : normal(random));
          }
        }
      }
    }
  }
  /// Keys that no query sees hold what would spoil a result.
  void poison() {
    for (std::int64_t b = 0; b < spec.batches; ++b) {
      for (std::int64_t j = 0; j < spec.keys; ++j) {
        bool seen = false;
        for (std::int64_t i = 0; i < spec.queries; ++i) {
          seen = seen || exists(b, i, j);
        }
        for (std::int64_t h = 0; h < spec.key_heads && !seen; ++h) {
          for (In& x : k.row(b, h, j)) {
            x = make<In>(std::numeric_limits<double>::quiet_NaN());
          }
          for (In& x : v.row(b, h, j)) {
            x = make<In>(j % 2 == 0 ? std::numeric_limits<double>::infinity()
                                    : std::numeric_limits<double>::quiet_NaN());
          }
        }
      }
    }
  }

  std::vector<tensor<In>> inputs_;
  std::vector<float> slopes_;
  std::vector<double> sinks_;
  std::optional<device_vector<float>> slopes_memory_;
  std::optional<device_vector<double>> sinks_memory_;
  std::optional<device_vector<std::int64_t>> lengths_memory_;
  std::optional<tensor<In>> bias_;

 public:
  tensor<In> q;
  tensor<In> k;
  tensor<In> v;
};

/// A part of the tokens of a tensor.
inline const_tensor_ref tokens_of(const const_tensor_ref& t, std::int64_t begin,
                                  std::int64_t count) {
  return {static_cast<const char*>(t.data) +
              begin * t.token_stride * static_cast<std::int64_t>(size_of(t.type)),
          t.type,
          t.batches,
          t.heads,
          count,
          t.dim,
          t.batch_stride,
          t.head_stride,
          t.token_stride};
}
inline const_tensor_ref batch_of(const const_tensor_ref& t, std::int64_t batch) {
  return {static_cast<const char*>(t.data) +
              batch * t.batch_stride * static_cast<std::int64_t>(size_of(t.type)),
          t.type,
          1,
          t.heads,
          t.tokens,
          t.dim,
          t.batch_stride,
          t.head_stride,
          t.token_stride};
}

template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace softfold::test
