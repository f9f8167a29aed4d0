// SPDX-License-Identifier: Apache-2.0
/// \file
/// row_states: arithmetic by the entry points, on any backend.
#include <core/check_lists.hpp>
#include <core/column_ranges.hpp>
#include <core/floating_point.hpp>
#include <core/numerics.hpp>
#include <core/sample_parts.hpp>
#include <core/sample_state.hpp>

#include <softfold/buffer.hpp>
#include <softfold/row_states.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace {

/// What must be the same in all states that make one.
void check_alike(const char* function, const row_states& own, const row_states& more) {
  const auto same = [&](const char* property, const std::string& found, const std::string& wanted) {
    if (found != wanted) {
      core::fail(errc::invalid_argument, {function, "more"}, property, found, wanted);
    }
  };
  same(".type", name_of(more.type()), name_of(own.type()));
  same(".k", std::to_string(more.k()), std::to_string(own.k()));
  same(".scale", core::text_of(more.scale()), core::text_of(own.scale()));
  const auto name_of_numerics = [](numerics n) {
    return core::numerics_names[static_cast<std::size_t>(n)];
  };
  same(".numerics", name_of_numerics(more.numerics()), name_of_numerics(own.numerics()));
  const auto text = [](const std::optional<row_sampling>& s) {
    return !s ? std::string("none")
              : "temperature " + core::text_of(s->temperature) + ", top_k " +
                    std::to_string(s->top_k) + ", top_p " + core::text_of(s->top_p) + ", min_p " +
                    core::text_of(s->min_p) + ", draw " + std::to_string(s->draw);
  };
  same(".sampling", text(more.sampling()), text(own.sampling()));
}

/// Those of all rows: in numbers, but for what each has.
fold_sample_options options_of(const row_sampling& s) {
  return {.temperature = s.temperature,
          .top_k = s.top_k,
          .top_p = s.top_p,
          .min_p = s.min_p,
          .draw = s.draw};
}

/// The device's copy of the states and lists.
class device_states {
 public:
  /// For states such as those.
  device_states(queue& q, const row_states& like)
      : type_(like.type()),
        rows_(like.rows()),
        k_(like.k()),
        sum_(like.partials().sum),
        partials_(q, static_cast<std::size_t>(rows_) * size_of_state(type_, sum_)),
        values_(q, static_cast<std::size_t>(rows_ * k_) * size_of(type_)),
        indices_(q, static_cast<std::size_t>(rows_ * k_) * sizeof(std::int64_t)),
        samples_(q, static_cast<std::size_t>(like.samples().size) * sizeof(sample_state)) {}

  void upload(queue& q, const row_states& from) {
    partials_.upload(q, from.partials().data, partials_.size());
    values_.upload(q, from.values().data, values_.size());
    indices_.upload(q, from.indices().data, indices_.size());
    samples_.upload(q, from.samples().data, samples_.size());
  }
  void download(queue& q, std::byte* partials, std::byte* values, std::byte* indices,
                sample_state* samples) const {
    partials_.download(q, partials, partials_.size());
    values_.download(q, values, values_.size());
    indices_.download(q, indices, indices_.size());
    samples_.download(q, samples, samples_.size());
  }

  [[nodiscard]] partials_ref partials() const { return {partials_.data(), type_, rows_, sum_}; }
  [[nodiscard]] matrix_ref values() const { return {values_.data(), type_, rows_, k_, k_}; }
  [[nodiscard]] matrix_ref indices() const { return {indices_.data(), dtype::i64, rows_, k_, k_}; }

  /// Lists as sampling takes them: none if k is 0.
  [[nodiscard]] matrix_ref list_values() const { return k_ == 0 ? matrix_ref{} : values(); }
  [[nodiscard]] matrix_ref list_indices() const { return k_ == 0 ? matrix_ref{} : indices(); }
  [[nodiscard]] sample_states_ref samples() const {
    return {static_cast<sample_state*>(samples_.data()),
            static_cast<std::int64_t>(samples_.size() / sizeof(sample_state))};
  }

  void combine(queue& q, const device_states& more) {
    softfold::combine(q, more.partials(), partials());
    if (samples().size > 0) {
      combine_sample(q, more.samples(), samples());
    }
    combine_topk(q, more.values(), more.indices(), values(), indices());
  }

 private:
  dtype type_;
  std::int64_t rows_;
  std::int64_t k_;
  sum_kind sum_;
  buffer partials_;
  buffer values_;
  buffer indices_;
  buffer samples_;
};

/// A result on the device, on its way to the host's memory.
class device_result {
 public:
  device_result(queue& q, const vector_ref& to)
      : to_(to),
        memory_(q, to.data == nullptr ? 0 : static_cast<std::size_t>(to.size) * size_of(to.type)) {}
  [[nodiscard]] vector_ref on_device() const {
    vector_ref there = to_;
    if (to_.data != nullptr) {
      there.data = memory_.data();
    }
    return there;
  }
  void download(queue& q) const { memory_.download(q, to_.data, memory_.size()); }

 private:
  vector_ref to_;
  buffer memory_;
};

/// Bytes of all lists' indices, the largest of the three arrays; checks that they can be counted.
std::size_t list_elements(const char* function, std::int64_t rows, std::int64_t k) {
  const auto not_negative = [&](const char* name, std::int64_t value) {
    if (value < 0) {
      core::fail(errc::invalid_argument, {function, name}, "", std::to_string(value), "0 or more");
    }
  };
  not_negative("rows", rows);
  not_negative("k", k);
  core::check_sizes({function, "rows x k"}, rows, std::max<std::int64_t>(k, 16), 8);
  return static_cast<std::size_t>(rows * k);
}

}  // namespace

row_states::row_states(dtype type, std::int64_t rows, std::int64_t k, double scale,
                       softfold::numerics numerics)
    : type_(type), rows_(rows), k_(k), scale_(scale), numerics_(numerics) {
  const core::default_floating_point environment;
  constexpr const char* name = "row_states";
  core::check_state_type({name, "type"}, type);
  const std::size_t elements = list_elements(name, rows, k);
  scale_ = core::check_scale(name, scale_, type);  // from memory, after the environment is set
  core::check_numerics("row_states: numerics", numerics);
  const std::size_t state_bytes = size_of_state(type, partials().sum);
  try {
    partials_.resize(static_cast<std::size_t>(rows) * state_bytes);
    values_.resize(elements * size_of(type));
    indices_.resize(elements * sizeof(std::int64_t), std::byte{0xff});
  } catch (const std::exception&) {
    throw error(errc::out_of_memory, std::string(name) + ": no memory for " + std::to_string(rows) +
                                         " rows of k = " + std::to_string(k));
  }
  const auto fill_with = [](std::vector<std::byte>& to, const auto& value) {
    for (std::size_t at = 0; at < to.size(); at += sizeof value) {
      std::memcpy(&to[at], &value, sizeof value);
    }
  };
  const auto fill = [&]<class T>(T) {
    if (partials().sum == sum_kind::exact) {
      fill_with(partials_, exact_max_sum<T>{});
    } else {
      fill_with(partials_, max_sum<T>{});
    }
    fill_with(values_, max_sum<T>{}.max);
  };
  type == dtype::f64 ? fill(double{}) : fill(float{});
}

row_states::row_states(dtype type, std::int64_t rows, std::int64_t k, double scale,
                       const row_sampling& sampling, softfold::numerics numerics)
    : row_states(type, rows, k, scale, numerics) {
  const core::default_floating_point environment;
  constexpr const char* name = "row_states";
  const fold_sample_options all = options_of(sampling);
  core::check_sample_parameters(name, all, type, rows);
  core::check_part_parameters(name, all, {name, "k"}, "", k);
  sampling_ = sampling;
  try {
    samples_.resize(static_cast<std::size_t>(rows));
  } catch (const std::exception&) {
    throw error(errc::out_of_memory,
                std::string(name) + ": no memory for " + std::to_string(rows) + " rows");
  }
  core::sampling::parameters own = core::sampling::parameters_of(all, 0);
  own.seed = sampling.seed;
  own.offset = sampling.offset;
  for (sample_state& state : samples_) {
    state = type == dtype::f64 ? core::sampling::empty_state<double>(own, sampling.draw, k)
                               : core::sampling::empty_state<float>(own, sampling.draw, k);
    ++own.offset;
  }
}

const_sample_states_ref row_states::samples() const noexcept {
  return {samples_.data(), static_cast<std::int64_t>(samples_.size())};
}

std::int64_t row_states::column_count() const noexcept { return core::count(columns_); }

const_partials_ref row_states::partials() const noexcept {
  return {partials_.data(), type_, rows_,
          numerics_ == softfold::numerics::reproducible ? sum_kind::exact : sum_kind::rounded};
}
const_matrix_ref row_states::values() const noexcept {
  return {values_.data(), type_, rows_, k_, k_};
}
const_matrix_ref row_states::indices() const noexcept {
  return {indices_.data(), dtype::i64, rows_, k_, k_};
}

void row_states::fold(queue& q, const_matrix_ref x_part, std::int64_t column_offset,
                      const row_edits& edits) {
  const core::default_floating_point environment;
  constexpr const char* name = "row_states::fold";
  if (x_part.rows != rows_) {
    core::fail(errc::invalid_argument, {name, "x_part"}, ".rows", std::to_string(x_part.rows),
               std::to_string(rows_));
  }
  core::check_input({name, "x_part"}, x_part);
  if (core::arithmetic_type(x_part.type) != type_) {
    core::fail(errc::unsupported_type, {name, "x_part"}, ".type", name_of(x_part.type),
               type_ == dtype::f64 ? "f64" : "f32, f16 or bf16");
  }
  core::check_column_offset(name, column_offset, x_part.cols);
  const column_range added{column_offset, column_offset + x_part.cols};
  std::vector<column_range> columns = core::disjoint(name, "columns", columns_, {&added, 1});

  if (sampling_ && added.end > core::most_part_columns) {
    core::fail(errc::invalid_argument, {name, "column_offset + x_part.cols"}, "",
               std::to_string(added.end), "at most 2^31 - 1 for states with sampling");
  }

  const bool samples = sampling_.has_value();
  row_states result = *this;
  device_states part(q, *this);
  fold_topk(q, x_part, part.partials(), part.values(), part.indices(),
            {.scale = scale_, .column_offset = column_offset, .edits = edits});
  std::vector<std::int64_t> noise;  // the rows' seeds, then their offsets
  buffer noise_memory(q, samples_.size() * 2 * sizeof(std::int64_t));
  if (samples) {
    for (const auto member : {&sample_state::seed, &sample_state::offset}) {
      for (const sample_state& s : samples_) {
        noise.push_back(static_cast<std::int64_t>(s.*member));
      }
    }
    noise_memory.upload(q, noise.data(), noise_memory.size());
    auto* const seeds = static_cast<std::int64_t*>(noise_memory.data());
    fold_sample_options how = options_of(*sampling_);
    how.seeds = {seeds, dtype::i64, rows_};
    how.offsets = {seeds + rows_, dtype::i64, rows_};
    how.column_offset = column_offset;
    how.edits = edits;
    fold_sample(q, x_part, part.samples(), part.list_values(), part.list_indices(), how);
  }
  device_states before(q, *this);
  if (!columns_.empty()) {
    before.upload(q, *this);
    part.combine(q, before);
  }
  part.download(q, result.partials_.data(), result.values_.data(), result.indices_.data(),
                result.samples_.data());
  q.wait();
  result.columns_ = std::move(columns);
  *this = std::move(result);
}

void row_states::combine(queue& q, const row_states& more) {
  const core::default_floating_point environment;
  constexpr const char* name = "row_states::combine";
  check_alike(name, *this, more);
  if (more.rows_ != rows_) {
    core::fail(errc::invalid_argument, {name, "more"}, ".rows", std::to_string(more.rows_),
               std::to_string(rows_));
  }
  std::vector<column_range> columns = core::disjoint(name, "columns", columns_, more.columns_);

  for (std::size_t r = 0; r < samples_.size(); ++r) {
    const sample_state& theirs = more.samples_[r];
    if (theirs.seed != samples_[r].seed || theirs.offset != samples_[r].offset) {
      throw error(errc::invalid_argument, std::string(name) + ": row " + std::to_string(r) +
                                              " has seed " + std::to_string(theirs.seed) +
                                              " and offset " + std::to_string(theirs.offset) +
                                              ", expected " + std::to_string(samples_[r].seed) +
                                              " and " + std::to_string(samples_[r].offset));
    }
  }

  row_states result = *this;
  device_states own(q, *this);
  device_states other(q, *this);
  own.upload(q, *this);
  other.upload(q, more);
  own.combine(q, other);
  own.download(q, result.partials_.data(), result.values_.data(), result.indices_.data(),
               result.samples_.data());
  q.wait();
  result.columns_ = std::move(columns);
  *this = std::move(result);
}

void row_states::append_rows(const row_states& more) {
  const core::default_floating_point environment;
  constexpr const char* name = "row_states::append_rows";
  check_alike(name, *this, more);
  if (&more == this) {
    return append_rows(row_states(more));
  }
  if (columns_ != more.columns_) {
    throw error(errc::invalid_argument,
                std::string(name) + ": more has other columns, expected those of the rows above");
  }
  // Memory first, twice what is needed when it has to grow: then nothing can fail half way.
  const auto grow = [](auto& to, const auto& from) {
    if (const std::size_t needed = to.size() + from.size(); needed > to.capacity()) {
      to.reserve(std::max(needed, 2 * to.size()));
    }
  };
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  grow(partials_, more.partials_);
  grow(values_, more.values_);
  grow(indices_, more.indices_);
  grow(samples_, more.samples_);
  append(partials_, more.partials_);
  append(values_, more.values_);
  append(indices_, more.indices_);
  append(samples_, more.samples_);
  rows_ += more.rows_;
}

void row_states::finish(queue& q, vector_ref lse, matrix_ref probabilities,
                        softfold::empty_row policy) const {
  const core::default_floating_point environment;
  constexpr const char* name = "row_states::finish";
  const_matrix_ref lse_column;
  if (lse.data != nullptr || lse.size != 0) {
    core::check_output_type({name, "lse"}, lse.type, type_);
    lse_column = core::check_vector({name, "lse"}, lse.data, lse.type, lse.size, rows_);
  }
  const bool wants_probabilities = probabilities.data != nullptr;
  if (wants_probabilities) {
    core::check_output({name, "probabilities"}, probabilities, rows_, k_, type_);
  }
  core::check_empty_row(name, policy);
  if (core::overlaps(lse_column, probabilities)) {
    throw error(errc::invalid_argument,
                std::string(name) + ": probabilities overlaps lse, expected separate memory");
  }

  device_states states(q, *this);
  states.upload(q, *this);
  const buffer sums(q, static_cast<std::size_t>(rows_) * size_of(type_));
  const buffer result(q, values_.size());
  std::vector<std::byte> packed(wants_probabilities ? values_.size() : 0);
  if (lse.data != nullptr) {
    logsumexp(q, states.partials(), {sums.data(), type_, rows_});
    sums.download(q, lse.data, sums.size());
  }
  if (wants_probabilities) {
    normalize(q, states.values(), states.partials(), {result.data(), type_, rows_, k_, k_},
              {.scale = scale_, .empty_row = policy});
    result.download(q, packed.data(), packed.size());
  }
  q.wait();
  const std::size_t row_bytes = static_cast<std::size_t>(k_) * size_of(type_);
  for (std::int64_t r = 0; r < rows_ && wants_probabilities && k_ > 0; ++r) {
    std::memcpy(static_cast<std::byte*>(probabilities.data) +
                    static_cast<std::size_t>(r * probabilities.stride) * size_of(type_),
                &packed[static_cast<std::size_t>(r) * row_bytes], row_bytes);
  }
}

void row_states::finish_sample(queue& q, vector_ref tokens,
                               const finish_sample_options& options) const {
  const core::default_floating_point environment;
  constexpr const char* name = "row_states::finish_sample";
  if (!sampling_) {
    throw error(errc::invalid_argument,
                std::string(name) + ": these are states without sampling, expected such with it");
  }
  core::checked_finish_sample(name, samples(), {}, {}, tokens, options);
  device_states states(q, *this);
  states.upload(q, *this);
  const device_result results[] = {{q, tokens},
                                   {q, options.log_probability},
                                   {q, options.raw_log_probability},
                                   {q, options.lse},
                                   {q, options.kept},
                                   {q, options.kept_mass}};
  softfold::finish_sample(q, states.samples(), states.list_values(), states.list_indices(),
                          results[0].on_device(),
                          {results[1].on_device(), results[2].on_device(), results[3].on_device(),
                           results[4].on_device(), results[5].on_device()});
  for (const device_result& result : results) {
    result.download(q);
  }
  q.wait();
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
