// SPDX-License-Identifier: Apache-2.0
/// \file
/// sample: plan -> run.
#include <backends/host/reproducible/row.hpp>
#include <backends/host/row/state.hpp>
#include <backends/host/run.hpp>
#include <backends/host/sampling/list.hpp>
#include <backends/host/sampling/masses.hpp>
#include <backends/host/sampling/race.hpp>

#include <core/sample_row.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <tuple>

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
  mass_memory masses;
  std::byte* list;
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

  [[nodiscard]] bool cuts_k() const { return parameters_.top_k > 0 && parameters_.top_k < cols(); }
  /// Whether all that is kept goes into a list.
  [[nodiscard]] bool lists() const {
    return cuts_k() && parameters_.top_k <= most_listed_to_sample;
  }

  // ---- No filters, tokens alone: one read.

  [[nodiscard]] bool is_plain() const {
    return parameters_.temperature > 0 && parameters_.top_p == 1 && parameters_.min_p == 0 &&
           !cuts_k() && !p_.wants_numbers() && o_.log_probability.data == nullptr &&
           o_.raw_log_probability.data == nullptr;
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

  /// The largest element; for a top-p, about what the row weighs, too.
  void look() {
    double largest = -inf;
    bool has_nan = false;
    const bool folds = parameters_.top_p < 1 && !lists() && ordinary_scale(scale_) &&
                       numbers_.kind != row_kind::invalid;
    bool folded = folds;
    double sum = 0;
    double origin = -inf;
    for (std::int64_t i = 0; i < segments_of(cols()); ++i) {
      const auto [begin, count] = columns_of(i, cols());
      segment_state state;
      if (folded && row_.kernels().fold(row_.at(begin), count, scale_, {}, nullptr, &state)) {
        largest = std::max(largest, state.max);
        if (state.max > -inf) {
          const double before = origin;
          origin = std::max(before, state.origin);
          sum = sum * std::exp2(before - origin) + state.sum * std::exp2(state.origin - origin);
        }
        continue;
      }
      folded = false;
      row_extremes part;
      row_.kernels().extremes(row_.at(begin), count, &part);
      largest = std::max(largest, part.max);
      has_nan = has_nan || part.has_nan;
    }
    if (folded && largest > -inf) {
      about_ = {.e = {.scale = scale_, .origin = origin},
                .unit = std::exp(origin * 0.6931471805599453 - z_of(largest)),
                .sum = sum};
    }
    raw_kind_ = has_nan           ? row_kind::nan
                : largest == -inf ? row_kind::empty
                : largest == inf  ? row_kind::infinite
                                  : row_kind::ordinary;
    numbers_.largest_x = has_nan ? nan_value : largest;
    numbers_.lse = numbers_.largest_x;
  }

  [[nodiscard]] row_masses masses(double scale) const {
    return {on_, plan_, row_, scale, numbers_.largest_x, work_.masses};
  }

  void find_raw() {
    if (raw_kind_ == row_kind::ordinary &&
        (o_.lse.data != nullptr || o_.raw_log_probability.data != nullptr ||
         o_.top_indices.data != nullptr)) {
      core::with_real(p_.x.type, [&]<class T>(T) {
        using A = core::arithmetic_t<T>;
        auto& total = std::get<core::reproducible::row_total<A>>(raws_);
        total = raw_total<T>();
        numbers_.lse = static_cast<double>(total.lse);
      });
    }
  }
  template <class T>
  core::reproducible::row_total<core::arithmetic_t<T>> raw_total() const {
    std::atomic<bool> by_kernels = true;
    over_segments(on_, plan_, row_.cols(), [&](std::int64_t segment) {
      const auto [begin, count] = columns_of(segment, row_.cols());
      if (!row_.kernels().reproducible_fold(row_.at(begin), count, 1, {},
                                            work_.masses.totals + segment)) {
        by_kernels.store(false, std::memory_order_relaxed);
      }
    });
    const auto* const x = static_cast<const T*>(row_.x);
    return by_kernels ? total_of_parts(row_.kernels(), x, row_.cols(), 1, work_.masses.totals)
                      : plain_total(x, row_.cols(), 1);
  }

  [[nodiscard]] double raw_log(double x) const {
    if (raw_kind_ != row_kind::ordinary) {
      return sampling::log_probability_of(raw_kind_);
    }
    return is_double_ ? std::get<1>(raws_).log_softmax(x)
                      : static_cast<double>(std::get<0>(raws_).log_softmax(static_cast<float>(x)));
  }

  /// A row of a temperature near 0, by the definition's own steps.
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
      largest_ = z_of(numbers_.largest_x);
      numbers_.kind = largest_ == inf    ? row_kind::infinite
                      : largest_ == -inf ? row_kind::empty
                                         : row_kind::ordinary;
    }
    if (numbers_.kind != row_kind::ordinary) {
      numbers_.kept = numbers_.kind == row_kind::infinite ? 1 : 0;
      return true;
    }
    return filter();
  }

  bool filter() {
    const bool cuts_p = parameters_.top_p < 1;
    const bool joint = o_.order == filter_order::joint;
    const double depth = sampling::min_p_depth(parameters_.min_p);
    if (lists()) {
      filter_list(depth, cuts_p, joint);
      return true;
    }
    if (!races()) {
      return false;
    }
    const row_masses own = masses(scale_);
    kept_ = own.within(depth);
    if (cuts_k()) {
      if (const std::optional<mass_cut> end = own.first_of(parameters_.top_k, kept_)) {
        kept_ = end->kept;
      }
    }
    const bool counts = o_.kept.data != nullptr || o_.kept_mass.data != nullptr ||
                        o_.log_probability.data != nullptr;
    if (cuts_p && parameters_.min_p == 0 && !cuts_k() && !counts) {
      if (const auto bounds = own.bounds_of_share(parameters_.top_p, about_)) {
        kept_ = bounds->maybe;
        surely_kept_ = bounds->surely;
        return true;
      }
    }
    std::optional<sampling::mass> weight;
    if (cuts_p) {
      const mass_cut end = own.share_of(parameters_.top_p, joint ? own.within(inf) : kept_, about_);
      if (!kept_.is_shorter_than(end.kept)) {
        kept_ = end.kept;
        weight = end.weight;
      }
    }
    if (o_.kept.data != nullptr) {
      numbers_.kept = own.count_of(kept_);
    }
    if (o_.kept_mass.data != nullptr) {
      numbers_.weight = own.weight_of({});
    }
    if (o_.kept_mass.data != nullptr || o_.log_probability.data != nullptr) {
      numbers_.kept_weight = weight ? *weight : own.weight_of(kept_);
    }
    return true;
  }

  /// The whole row's mass is counted only if something asks for it.
  void filter_list(double depth, bool cuts_p, bool joint) {
    list_.emplace(on_, plan_, row_, scale_, parameters_.top_k, work_.list);
    list_->cut_below(depth);
    if (o_.kept_mass.data != nullptr || (cuts_p && joint)) {
      numbers_.weight = masses(scale_).weight_of({});
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

  std::int64_t winner(std::int64_t draw) {
    const auto run = [&] {
      return race_->winner(on_, plan_, noise_of(draw), work_.parts).value().column;
    };
    const std::int64_t column = run();
    if (!surely_kept_ || surely_kept_->has(row_[column], column)) {
      return column;
    }
    kept_ = masses(scale_).share_of(parameters_.top_p, {}, about_).kept;
    surely_kept_.reset();
    race_.emplace(row_, scale_, kept_);
    return run();
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
      token = list_ ? list_->winner(noise_of(draw)).column : winner(draw);
      if (o_.log_probability.data != nullptr) {
        log = sampling::log_probability(largest_, z_of(row_[token]), numbers_.kept_weight);
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
  /// The row as it is, in the arithmetic's type, if that is wanted.
  std::tuple<core::reproducible::row_total<float>, core::reproducible::row_total<double>> raws_;
  double largest_ = 0;  ///< z
  about_mass about_;
  first_part kept_;
  /// If that is less: the cut is between them, and the winner as a rule is not.
  std::optional<first_part> surely_kept_;
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
  const std::size_t masses = mass_memory::bytes(p.x.cols, from.kernels.computed);
  const std::size_t each = parts + list + masses;
  const std::size_t tasks = plan.over == spread::rows ? static_cast<std::size_t>(on.threads) : 1;
  std::byte* const memory = on.scratch.at_least(each * tasks);
  over_rows(on, plan, p.x.rows, [&](std::int64_t begin, std::int64_t end, int slot) {
    std::byte* const own = memory + static_cast<std::size_t>(slot) * each;
    const workspace work = {reinterpret_cast<sampling::runner*>(own),
                            {own + parts + list, p.x.cols, from.kernels.computed},
                            own + parts};
    for (std::int64_t r = begin; r < end; ++r) {
      row_sample(on, plan, p, from, r, work).run();
    }
  });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
