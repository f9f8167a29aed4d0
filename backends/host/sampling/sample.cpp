// SPDX-License-Identifier: Apache-2.0
/// \file
/// sample: plan -> run.
#include <backends/host/run.hpp>
#include <backends/host/sampling/list.hpp>
#include <backends/host/sampling/masses.hpp>
#include <backends/host/sampling/race.hpp>

#include <core/sample_row.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

namespace sampling = core::sampling;
using sampling::row_kind;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

/// What one task works with.
struct workspace {
  sampling::runner* parts;
  mass_table* tables;  ///< of all tasks
  std::byte* list;
  mass_entry* entries;
  int slot;
};

/// One row: what it is, what its filters keep, its draws.
class row_sample {
 public:
  row_sample(executor& on, const plan& plan, const core::sample_problem& p, const source& from,
             std::int64_t r, const workspace& work)
      : on_(on),
        plan_(plan),
        p_(p),
        o_(p.options),
        row_(from, r),
        r_(r),
        work_(work),
        parameters_(sampling::parameters_of(p.options, r)),
        is_double_(row_.is_double()) {}

  void run() {
    const bool valid = is_double_ ? sampling::are_valid<double>(parameters_)
                                  : sampling::are_valid<float>(parameters_);
    numbers_.kind = valid ? row_kind::ordinary : row_kind::invalid;
    scale_ = valid && parameters_.temperature > 0
                 ? (is_double_ ? sampling::scale_of<double>(parameters_.temperature)
                               : sampling::scale_of<float>(parameters_.temperature))
                 : 1;
    if (valid && is_plain() && run_plain()) {
      return;
    }
    look();
    find_raw();
    if (!find_kept()) {
      return run_plainly();
    }
    sampling::write_numbers(o_, r_, numbers_);
    write_top();
    if (!list_ && numbers_.kind == row_kind::ordinary) {
      race_.emplace(row_, scale_, kept_);
    }
    for (std::int64_t draw = 0; draw < p_.tokens.cols; ++draw) {
      write_draw(draw);
    }
  }

 private:
  [[nodiscard]] std::int64_t cols() const { return p_.x.cols; }
  [[nodiscard]] sampling::noise noise_of(std::int64_t draw) const {
    return {parameters_.seed, parameters_.offset, static_cast<std::uint32_t>(draw)};
  }
  [[nodiscard]] double z_of(double x) const { return sampling::scaled(scale_, x); }
  [[nodiscard]] bool races() const {
    return scale_ <= (is_double_ ? most_race_scale<double> : most_race_scale<float>);
  }

  // ---- No filters, tokens alone: one read.

  [[nodiscard]] bool is_plain() const {
    return parameters_.temperature > 0 && parameters_.top_p == 1 && parameters_.min_p == 0 &&
           (parameters_.top_k == 0 || parameters_.top_k >= cols()) && !p_.wants_numbers() &&
           o_.log_probability.data == nullptr && o_.raw_log_probability.data == nullptr;
  }

  /// False if the row is one for the general way.
  bool run_plain() {
    if (!races()) {
      return false;
    }
    const row_race race(row_, scale_, kept_);
    for (std::int64_t draw = 0; draw < p_.tokens.cols; ++draw) {
      const std::optional<sampling::runner> best =
          race.winner(on_, plan_, noise_of(draw), work_.parts);
      if (!best || best->key == -inf) {
        return false;
      }
      sampling::write_token(p_, r_, draw, best->column, 0, 0);
    }
    return true;
  }

  // ---- Any row.

  /// The largest element, and how e(x) is computed.
  void look() {
    double largest = -inf;
    bool has_nan = false;
    for (std::int64_t i = 0; i < segments_of(cols()); ++i) {
      const auto [begin, count] = columns_of(i, cols());
      row_extremes part;
      row_.kernels().extremes(row_.at(begin), count, &part);
      largest = std::max(largest, part.max);
      has_nan = has_nan || part.has_nan;
    }
    raw_kind_ = has_nan           ? row_kind::nan
                : largest == -inf ? row_kind::empty
                : largest == inf  ? row_kind::infinite
                                  : row_kind::ordinary;
    numbers_.largest_x = has_nan ? nan_value : largest;
    numbers_.lse = numbers_.largest_x;
  }

  void find_raw() {
    if (raw_kind_ == row_kind::ordinary &&
        (o_.lse.data != nullptr || o_.raw_log_probability.data != nullptr ||
         o_.top_indices.data != nullptr)) {
      const double largest = numbers_.largest_x;
      raw_log_of_sum_ = is_double_ ? sampling::log_of(mass_of_row(on_, plan_, row_, 1, largest,
                                                                  work_.tables, work_.slot))
                                   : raw_log_of_row(on_, plan_, row_, static_cast<float>(largest),
                                                    work_.tables, work_.slot);
      numbers_.lse = largest + raw_log_of_sum_;
    }
  }

  [[nodiscard]] double raw_log(double x) const {
    return raw_kind_ == row_kind::ordinary
               ? sampling::log_probability(numbers_.largest_x, x, raw_log_of_sum_)
               : sampling::log_probability_of(raw_kind_);
  }

  /// A row of very many elements almost alike, or of a temperature near 0, by the definition's own
  /// steps, which need no memory.
  void run_plainly() {
    core::with_real(p_.x.type, [&]<class T>(T) {
      using row_of = sampling::row_of<T>;
      sampling::row_memory memory;
      const sampling::one_lane lane;
      const row_of row{static_cast<const T*>(row_.x)};
      sampling::row_sampler<core::arithmetic_t<T>, sampling::one_lane, row_of>(lane, memory, row,
                                                                               p_, r_)
          .run();
    });
  }

  /// False if the row is one for run_plainly.
  bool find_kept() {
    numbers_.kind = numbers_.kind == row_kind::invalid ? numbers_.kind : raw_kind_;
    if (numbers_.kind == row_kind::ordinary && parameters_.temperature == 0) {
      numbers_.kept = 1;
      numbers_.kept_weight.add(1);
      numbers_.weight.add(1);
      return true;
    }
    if (numbers_.kind == row_kind::ordinary) {
      kept_.largest = z_of(numbers_.largest_x);
      numbers_.kind = kept_.largest == inf    ? row_kind::infinite
                      : kept_.largest == -inf ? row_kind::empty
                                              : row_kind::ordinary;
    }
    if (numbers_.kind != row_kind::ordinary) {
      numbers_.kept = numbers_.kind == row_kind::infinite ? 1 : 0;
      return true;
    }
    return filter();
  }

  bool filter() {
    const bool cuts_k = parameters_.top_k > 0 && parameters_.top_k < cols();
    const bool cuts_p = parameters_.top_p < 1;
    const bool joint = o_.order == filter_order::joint;
    const bool counts = o_.kept.data != nullptr || o_.kept_mass.data != nullptr ||
                        o_.log_probability.data != nullptr;
    kept_.depth = sampling::min_p_depth(parameters_.min_p);
    if (cuts_k && parameters_.top_k <= most_listed_to_sample) {
      filter_list(cuts_p, joint);
      return true;
    }
    if (!races()) {
      return false;
    }
    if (!cuts_k && !cuts_p && !counts) {
      return true;
    }
    const row_masses masses(on_, plan_, row_, scale_, kept_.largest, work_.tables, work_.slot,
                            work_.entries);
    if (cuts_k) {
      const std::optional<sampling::place> last = masses.end_of_count(parameters_.top_k);
      if (!last) {
        return false;
      }
      kept_.last = *last;
    }
    if (cuts_p) {
      const sampling::mass whole = joint ? masses.whole() : masses.of(kept_, false).weight;
      const std::optional<sampling::place> last =
          masses.end_of_mass(sampling::share_of(parameters_.top_p, whole));
      if (!last) {
        return false;
      }
      kept_.last = last->stands_before(kept_.last) ? *last : kept_.last;
    }
    const row_masses::measure left = masses.of(kept_, o_.kept.data != nullptr);
    numbers_.kept = left.count;
    numbers_.kept_weight = left.weight;
    if (o_.kept_mass.data != nullptr) {
      numbers_.weight = masses.whole();
    }
    return true;
  }

  /// The whole row's mass is counted only if something asks for it.
  void filter_list(bool cuts_p, bool joint) {
    list_.emplace(on_, plan_, row_, scale_, parameters_.top_k, work_.list);
    list_->cut_below(kept_.depth);
    if (o_.kept_mass.data != nullptr || (cuts_p && joint)) {
      numbers_.weight =
          mass_of_row(on_, plan_, row_, scale_, kept_.largest, work_.tables, work_.slot);
    }
    if (cuts_p) {
      list_->cut_at(
          sampling::share_of(parameters_.top_p, joint ? numbers_.weight : list_->weight()));
    }
    numbers_.kept = list_->size();
    numbers_.kept_weight = list_->weight();
  }

  [[nodiscard]] std::int64_t first_column() const {
    std::int64_t i = 0;
    while (row_[i] != numbers_.largest_x) {
      ++i;
    }
    return i;
  }

  // ---- Results.

  void write_top() const {
    const matrix_ref& to = o_.top_log_probabilities;
    for (std::int64_t i = 0; to.data != nullptr && i < to.cols; ++i) {
      const std::int64_t at = r_ * to.stride + i;
      sampling::write_result(to.data, to.type, at,
                             raw_log(core::real_at<double>(to.data, to.type, at)));
    }
  }

  void write_draw(std::int64_t draw) {
    std::int64_t token = -1;
    double log = sampling::log_probability_of(numbers_.kind);
    if (numbers_.kind == row_kind::infinite) {
      token = first_column();
    } else if (numbers_.kind == row_kind::ordinary && parameters_.temperature == 0) {
      token = first_column();
      log = 0;
    } else if (numbers_.kind == row_kind::ordinary) {
      token = list_ ? list_->winner(noise_of(draw)).column
                    : race_->winner(on_, plan_, noise_of(draw), work_.parts)->column;
      if (o_.log_probability.data != nullptr) {
        log = sampling::log_probability(kept_.largest, z_of(row_[token]), numbers_.kept_weight);
      }
    }
    const bool drawn = token >= 0 && o_.raw_log_probability.data != nullptr;
    sampling::write_token(p_, r_, draw, token, log, drawn ? raw_log(row_[token]) : log);
  }

  executor& on_;
  const plan& plan_;
  const core::sample_problem& p_;
  const sample_options& o_;
  row_view row_;
  std::int64_t r_;
  workspace work_;
  sampling::parameters parameters_;
  bool is_double_;
  double scale_ = 1;
  row_kind raw_kind_ = row_kind::ordinary;
  sampling::row_numbers numbers_;
  double raw_log_of_sum_ = 0;  ///< over the largest element
  sampling::kept_elements kept_;
  std::optional<kept_list> list_;  ///< of all that is kept, or else
  std::optional<row_race> race_;   ///< among it
};

std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

void run(executor& on, const core::sample_problem& p) {
  if (p.empty()) {
    return;
  }
  if (p.options.top_indices.data != nullptr) {
    run(on, core::topk_problem{.function = "sample",
                               .x = p.x,
                               .indices = p.options.top_indices,
                               .values = p.options.top_log_probabilities});
  }
  const source from(on.kernels, p.x, 1, p.x.type);
  const plan plan = plan_for(on, from.shape_to(0));
  const auto segments = static_cast<std::size_t>(segments_of(p.x.cols));
  const std::size_t tables = whole_lines(sizeof(mass_table)) * static_cast<std::size_t>(on.threads);
  const std::size_t parts = whole_lines(segments * sizeof(sampling::runner));
  // A vector of k may be in memory that only the work on rows should read: room for the largest.
  const std::int64_t most = std::min(most_listed_to_sample, p.x.cols);
  const std::int64_t k =
      p.options.top_ks.data == nullptr ? std::min(p.options.top_k, p.x.cols) : most;
  const std::int64_t lanes =
      from.kernels.computed == dtype::f64 ? on.kernels.lanes_f32 / 2 : on.kernels.lanes_f32;
  const std::size_t list =
      k > 0 && k <= most
          ? whole_lines(kept_list::bytes(p.x.cols, most, lanes, from.kernels.computed))
          : 0;
  const std::size_t entries =
      whole_lines(static_cast<std::size_t>(std::min(most_entries, p.x.cols)) * sizeof(mass_entry));
  const std::size_t each = parts + list + entries;
  const std::size_t tasks = plan.over == spread::rows ? static_cast<std::size_t>(on.threads) : 1;
  std::byte* const memory = on.scratch.at_least(tables + each * tasks);
  over_rows(on, plan, p.x.rows, [&](std::int64_t begin, std::int64_t end, int slot) {
    std::byte* const own = memory + tables + static_cast<std::size_t>(slot) * each;
    const workspace work = {reinterpret_cast<sampling::runner*>(own),
                            reinterpret_cast<mass_table*>(memory), own + parts,
                            reinterpret_cast<mass_entry*>(own + parts + list),
                            slot};
    for (std::int64_t r = begin; r < end; ++r) {
      row_sample(on, plan, p, from, r, work).run();
    }
  });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
