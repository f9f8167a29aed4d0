// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention_states: arithmetic by the entry points, on any backend, and the byte format.
#include <core/attention_problem.hpp>
#include <core/column_ranges.hpp>
#include <core/floating_point.hpp>
#include <core/state_bytes.hpp>

#include <softfold/attention_states.hpp>
#include <softfold/buffer.hpp>

#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace {

using namespace core::state_bytes;

constexpr std::uint32_t version = 3;
constexpr std::size_t header_bytes = 64;

std::int64_t rows_of(const attention_states& s) { return s.batches() * s.heads() * s.tokens(); }

/// The device's copy.
class device_states {
 public:
  device_states(queue& q, const attention_states& like)
      : like_(like),
        states_(q, static_cast<std::size_t>(rows_of(like)) * 2 * size_of(like.type())),
        weighted_(q, static_cast<std::size_t>(rows_of(like) * like.dim()) * size_of(like.type())) {}

  void upload(queue& q, const attention_states& from) {
    states_.upload(q, from.states().data, states_.size());
    weighted_.upload(q, from.weighted().data, weighted_.size());
  }
  void download(queue& q, std::byte* states, std::byte* weighted) const {
    states_.download(q, states, states_.size());
    weighted_.download(q, weighted, weighted_.size());
  }
  [[nodiscard]] partials_ref states() const {
    return {states_.data(), like_.type(), rows_of(like_)};
  }
  [[nodiscard]] tensor_ref weighted() const {
    tensor_ref t = without_gaps(like_.type());
    t.data = weighted_.data();
    return t;
  }
  /// A tensor of the weighted sums' shape, without data.
  [[nodiscard]] tensor_ref without_gaps(dtype type) const {
    const std::int64_t head = like_.tokens() * like_.dim();
    return {nullptr,        type,        like_.batches(),      like_.heads(),
            like_.tokens(), like_.dim(), like_.heads() * head, head,
            like_.dim()};
  }

 private:
  const attention_states& like_;
  buffer states_;
  buffer weighted_;
};

[[noreturn]] void refuse_sinks(core::argument arg) {
  core::fail(errc::invalid_argument, arg, "", "given", "none, as these states have sinks");
}

/// Numbers of the states and the weighted sums, which can be counted.
std::pair<std::size_t, std::size_t> sizes_of(const char* function, std::int64_t batches,
                                             std::int64_t heads, std::int64_t tokens,
                                             std::int64_t dim) {
  for (const auto& [name, size] :
       {std::pair{"batches", batches}, std::pair{"heads", heads}, std::pair{"tokens", tokens}}) {
    if (size < 0) {
      core::fail(errc::invalid_argument, {function, name}, "", std::to_string(size), "0 or more");
    }
  }
  if (dim < 1 || dim > core::most_attention_dim) {
    core::fail(errc::invalid_argument, {function, "dim"}, "", std::to_string(dim), "1 to 512");
  }
  core::check_shape({function, "weighted"}, {nullptr, dtype::f64, batches, heads, tokens,
                                             std::max<std::int64_t>(dim, 2), 0, 0, 0});
  const std::int64_t rows = batches * heads * tokens;
  return {static_cast<std::size_t>(rows) * 2, static_cast<std::size_t>(rows * dim)};
}

[[noreturn]] void refuse(const std::string& cause) {
  throw error(errc::invalid_data, "attention_states::from_bytes: " + cause);
}

/// Whether some query of so many scores has each state, and those without keys nothing weighted.
template <class A>
void check_rows(const attention_states& s, double scores) {
  const auto* const states = static_cast<const max_sum<A>*>(s.states().data);
  const auto* const weighted = static_cast<const A*>(s.weighted().data);
  for (std::int64_t r = 0; r < rows_of(s); ++r) {
    bool possible = can_be_state(states[r], scores);
    for (std::int64_t i = 0; i < s.dim() && states[r].sum == 0; ++i) {
      possible = possible && weighted[r * s.dim() + i] == 0;
    }
    if (!possible) {
      refuse("row " + std::to_string(r) + " has max " + core::text_of(double{states[r].max}) +
             " and sum " + core::text_of(double{states[r].sum}) +
             ", or values, which no query of so many keys has");
    }
  }
}

}  // namespace

attention_states::attention_states(dtype type, std::int64_t batches, std::int64_t heads,
                                   std::int64_t tokens, std::int64_t dim)
    : type_(type), batches_(batches), heads_(heads), tokens_(tokens), dim_(dim) {
  constexpr const char* name = "attention_states";
  core::check_state_type({name, "type"}, type);
  const auto [states, weighted] = sizes_of(name, batches, heads, tokens, dim);
  try {
    states_.resize(states * size_of(type));
    weighted_.resize(weighted * size_of(type));
  } catch (const std::exception&) {
    throw error(errc::out_of_memory, std::string(name) + ": no memory for " +
                                         std::to_string(weighted) + " weighted values");
  }
  const auto fill = [&]<class A>(A) {
    const max_sum<A> identity;
    for (std::size_t at = 0; at < states_.size(); at += sizeof identity) {
      std::memcpy(&states_[at], &identity, sizeof identity);
    }
  };
  type == dtype::f64 ? fill(double{}) : fill(float{});
}

const_partials_ref attention_states::states() const noexcept {
  return {states_.data(), type_, rows_of(*this)};
}
const_tensor_ref attention_states::weighted() const noexcept {
  return {weighted_.data(),        type_,          batches_, heads_, tokens_, dim_,
          heads_ * tokens_ * dim_, tokens_ * dim_, dim_};
}

void attention_states::fold(queue& q, const_tensor_ref query, const_tensor_ref key,
                            const_tensor_ref value, const attention_options& options) {
  const core::default_floating_point environment;
  constexpr const char* name = "attention_states::fold";
  if (!core::is_real(query.type) || core::arithmetic_type(query.type) != type_) {
    core::fail(errc::unsupported_type, {name, "query"}, ".type", name_of(query.type),
               type_ == dtype::f64 ? "f64" : "f32, f16 or bf16");
  }
  for (const auto& [argument, property, size, own] :
       {std::tuple{"query", ".batches", query.batches, batches_},
        std::tuple{"query", ".heads", query.heads, heads_},
        std::tuple{"query", ".tokens", query.tokens, tokens_},
        std::tuple{"value", ".dim", value.dim, dim_}}) {
    core::check_size({name, argument}, property, size, own, "that of the states");
  }
  if (core::is_given(options.query_starts) || core::is_given(options.key_starts)) {
    core::fail(errc::invalid_argument, {name, "query_starts"}, "", "given",
               "none: packed sequences have keys of their own");
  }
  const bool adds_sinks = core::is_given(options.sinks);
  if (adds_sinks && has_sinks_) {
    refuse_sinks({name, "sinks"});
  }
  device_states part(q, *this);
  fold_attention(q, query, key, value, part.states(), part.weighted(), options);
  const column_range added{options.key_offset, options.key_offset + key.tokens};
  std::vector<column_range> keys = core::disjoint(name, "keys", keys_, {&added, 1});
  attention_states result = *this;
  std::optional<device_states> before;
  if (!keys_.empty() || has_sinks_) {
    before.emplace(q, *this);
    before->upload(q, *this);
    softfold::combine(q, before->states(), before->weighted(), part.states(), part.weighted());
  }
  part.download(q, result.states_.data(), result.weighted_.data());
  q.wait();
  result.keys_ = std::move(keys);
  result.has_sinks_ = has_sinks_ || adds_sinks;
  *this = std::move(result);
}

void attention_states::combine(queue& q, const attention_states& more) {
  const core::default_floating_point environment;
  constexpr const char* name = "attention_states::combine";
  const core::argument arg{name, "more"};
  if (more.type_ != type_) {
    core::fail(errc::invalid_argument, arg, ".type", name_of(more.type_), name_of(type_));
  }
  for (const auto& [property, size, own] :
       {std::tuple{".batches", more.batches_, batches_}, std::tuple{".heads", more.heads_, heads_},
        std::tuple{".tokens", more.tokens_, tokens_}, std::tuple{".dim", more.dim_, dim_}}) {
    core::check_size(arg, property, size, own, "that of the states");
  }
  std::vector<column_range> keys = core::disjoint(name, "keys", keys_, more.keys_);
  if (has_sinks_ && more.has_sinks_) {
    refuse_sinks({name, "the sinks of more"});
  }
  attention_states result = *this;
  device_states own(q, *this);
  device_states other(q, more);
  own.upload(q, *this);
  other.upload(q, more);
  softfold::combine(q, other.states(), other.weighted(), own.states(), own.weighted());
  own.download(q, result.states_.data(), result.weighted_.data());
  q.wait();
  result.keys_ = std::move(keys);
  result.has_sinks_ = has_sinks_ || more.has_sinks_;
  *this = std::move(result);
}

void attention_states::finish(queue& q, tensor_ref out, vector_ref lse,
                              softfold::empty_row empty_row) const {
  const core::default_floating_point environment;
  constexpr const char* name = "attention_states::finish";
  core::checked_normalize_attention(states(), weighted(), out, empty_row, name);
  const std::int64_t rows = rows_of(*this);
  const bool wants_lse = lse.data != nullptr || lse.size != 0;
  if (wants_lse) {
    core::check_output_type({name, "lse"}, lse.type, type_);
    const const_matrix_ref sums =
        core::check_vector({name, "lse"}, lse.data, lse.type, lse.size, rows);
    core::check_overlap(name, {"lse", sums}, {{"out", core::covering_matrix(out)}}, false);
  }
  device_states own(q, *this);
  own.upload(q, *this);
  tensor_ref result = own.without_gaps(out.type);
  const std::size_t row_bytes = static_cast<std::size_t>(dim_) * size_of(out.type);
  const buffer values(q, static_cast<std::size_t>(rows) * row_bytes);
  result.data = values.data();
  normalize(q, own.states(), own.weighted(), result, empty_row);
  const buffer sums(q, wants_lse ? static_cast<std::size_t>(rows) * size_of(type_) : 0);
  if (wants_lse) {
    logsumexp(q, own.states(), {sums.data(), type_, rows});
    sums.download(q, lse.data, sums.size());
  }
  std::vector<std::byte> packed(values.size());
  values.download(q, packed.data(), packed.size());
  q.wait();
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t head = r / tokens_;
    const std::int64_t to = head / heads_ * out.batch_stride + head % heads_ * out.head_stride +
                            r % tokens_ * out.token_stride;
    std::memcpy(
        static_cast<std::byte*>(out.data) + static_cast<std::size_t>(to) * size_of(out.type),
        &packed[static_cast<std::size_t>(r) * row_bytes], row_bytes);
  }
}

std::size_t attention_states::byte_count() const noexcept {
  return header_bytes + keys_.size() * sizeof(column_range) + states_.size() + weighted_.size() +
         checksum_bytes;
}

std::vector<std::byte> attention_states::to_bytes() const {
  std::vector<std::byte> bytes(byte_count());
  std::memcpy(bytes.data(), magic, sizeof magic);
  put(&bytes[8], version);
  put(&bytes[12], (type_ == dtype::f64 ? std::uint32_t{1} : 0U) | (has_sinks_ ? 2U : 0U));
  put(&bytes[16], batches_);
  put(&bytes[24], heads_);
  put(&bytes[32], tokens_);
  put(&bytes[40], dim_);
  put(&bytes[48], std::uint64_t{keys_.size()});
  put(&bytes[56], std::uint64_t{0});
  std::byte* to = &bytes[header_bytes];
  put_all<std::int64_t>(to, keys_.data(), keys_.size() * sizeof(column_range));
  const auto put_rows = [&]<class A>(A) {
    put_all<A>(to, states_.data(), states_.size());
    put_all<A>(to, weighted_.data(), weighted_.size());
  };
  type_ == dtype::f64 ? put_rows(double{}) : put_rows(float{});
  put(to, checksum({bytes.data(), bytes.size() - checksum_bytes}));
  return bytes;
}

attention_states attention_states::from_bytes(std::span<const std::byte> bytes) {
  const core::default_floating_point environment;  // states are compared
  if (bytes.size() < header_bytes + checksum_bytes) {
    refuse("truncated: " + std::to_string(bytes.size()) + " bytes, expected at least " +
           std::to_string(header_bytes + checksum_bytes));
  }
  if (std::memcmp(bytes.data(), magic, sizeof magic) != 0) {
    refuse("these are no states: wrong magic");
  }
  if (const auto found = get<std::uint32_t>(&bytes[8]); found != version) {
    refuse("version is " + std::to_string(found) + ", expected 3");
  }
  const auto kind = get<std::uint32_t>(&bytes[12]);
  const auto rest = get<std::uint64_t>(&bytes[56]);
  if (kind > 3 || rest != 0) {
    refuse("type and sinks are " + std::to_string(kind) + " and what is reserved " +
           std::to_string(rest) + ", expected 0 to 3, and 0");
  }
  const dtype type = (kind & 1U) != 0 ? dtype::f64 : dtype::f32;
  const std::int64_t shape[] = {get<std::int64_t>(&bytes[16]), get<std::int64_t>(&bytes[24]),
                                get<std::int64_t>(&bytes[32]), get<std::int64_t>(&bytes[40])};
  const auto ranges = get<std::uint64_t>(&bytes[48]);
  std::size_t numbers = 0;
  try {
    const auto [states, weighted] = sizes_of("the shape", shape[0], shape[1], shape[2], shape[3]);
    numbers = states + weighted;
  } catch (const error& e) {
    refuse(e.what());
  }
  const std::size_t body = bytes.size() - checksum_bytes;
  const std::size_t rows_bytes = numbers * size_of(type);  // below 2^63
  if (ranges > body / sizeof(column_range) ||
      body != header_bytes + ranges * sizeof(column_range) + rows_bytes) {
    refuse(std::to_string(bytes.size()) + " bytes, expected " +
           std::to_string(header_bytes + checksum_bytes) + ", 16 for each of " +
           std::to_string(ranges) + " ranges of keys, and " + std::to_string(rows_bytes));
  }
  if (get<std::uint32_t>(&bytes[body]) != checksum(bytes.first(body))) {
    refuse("altered: the checksum does not fit");
  }
  attention_states s(type, shape[0], shape[1], shape[2], shape[3]);
  s.has_sinks_ = (kind & 2U) != 0;
  const std::byte* from = &bytes[header_bytes];
  s.keys_.resize(ranges);
  for (column_range& r : s.keys_) {
    r = {get<std::int64_t>(from), get<std::int64_t>(from + 8)};
    from += 16;
  }
  if (const column_range* wrong = wrong_range(s.keys_)) {
    refuse("keys " + std::to_string(wrong->begin) + " to " + std::to_string(wrong->end) +
           " are none, negative, or not after those before");
  }
  const double scores = static_cast<double>(core::count(s.keys_)) + (s.has_sinks_ ? 1 : 0);
  const auto get_rows = [&]<class A>(A) {
    get_all<A>(s.states_, from);
    get_all<A>(s.weighted_, from);
    check_rows<A>(s, scores);
  };
  type == dtype::f64 ? get_rows(double{}) : get_rows(float{});
  return s;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
