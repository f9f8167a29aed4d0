// SPDX-License-Identifier: Apache-2.0
/// \file
/// Execution spaces by teams: devices that have no kernels of their own here, and any space when
/// tests ask for it.
#pragma once

#include "guarded.hpp"
#include "memory.hpp"
#include "space.hpp"
#include "team/attention.hpp"
#include "team/edit.hpp"
#include "team/gradient.hpp"
#include "team/reproducible.hpp"
#include "team/rows.hpp"
#include "team/sample.hpp"
#include "team/scan.hpp"
#include "team/topk.hpp"

#include <core/plan_names.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

template <class Exec>
inline constexpr bool works_on_host_memory =
    std::is_same_v<typename Exec::memory_space, Kokkos::HostSpace>;

/// Kokkos before 4 shares a team's memory between calls on one host space.
inline std::mutex& host_teams() {
  static std::mutex mutex;
  return mutex;
}

template <class Exec>
class team_space final : public space {
 public:
  team_space(const Exec& exec, numerics asked) : exec_(exec), numerics_(asked) {
    core::plan_of_environment<int>(plans);
  }
  ~team_space() override {
    for (const memory_of_calls* memory : {&scratch_, &edited_}) {
      if (memory->where.data != nullptr) {
        exec_.fence();
        memory->where.release(memory->where.data);
      }
    }
  }

  [[nodiscard]] device_info info() const override {
    device_info info;
    info.backend = "kokkos";
    info.device = std::string("Kokkos::") + Exec::name();
    info.isa = "teams";
    info.threads = works_on_host_memory<Exec> ? static_cast<int>(exec_.concurrency()) : 1;
    return info;
  }

  void wait() override {
    guarded("wait", [&] { exec_.fence(); });
  }
  void reserve(std::size_t bytes) override { at_least(scratch_, bytes); }
  [[nodiscard]] allocation allocate(std::size_t bytes, memory kind) override {
    return allocate_for<Exec>(bytes, kind);
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    guarded("upload",
            [&] { copy<Kokkos::HostSpace, typename Exec::memory_space>(exec_, to, from, bytes); });
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    guarded("download",
            [&] { copy<typename Exec::memory_space, Kokkos::HostSpace>(exec_, to, from, bytes); });
  }

  void run(const core::problem& p) override {
    edited_rows rows{*this};
    std::visit([&](const auto& each) { core::run_with_edits(rows, each); }, p);
  }

  [[nodiscard]] std::span<const char* const> plan_names() const override { return plans; }
  void force_plan(std::string_view name) override { core::plan_named<int>(name, plans); }
  [[nodiscard]] std::string last_plan() const override { return ""; }

 private:
  /// Memory that only grows.
  struct memory_of_calls {
    allocation where;
    std::size_t bytes = 0;
  };

  /// What core::edited_run asks of a backend.
  struct edited_rows {
    team_space& on;

    [[nodiscard]] std::byte* memory(std::size_t bytes) const {
      return on.at_least(on.edited_, bytes);
    }
    [[nodiscard]] static std::size_t batch_bytes() { return std::size_t{16} << 20; }
    void edit(const const_matrix_ref& x, const core::edits& edits, const matrix_ref& to,
              double removed) const {
      core::with_real(x.type, [&](auto in) {
        using In = decltype(in);
        core::with_output<In>(to.type, [&](auto out) {
          using To = decltype(out);
          const std::int64_t pieces = (x.cols + columns_edited - 1) / columns_edited;
          on.over_range(x.rows * pieces,
                        edit_columns<In, To>{static_cast<const In*>(x.data), x.stride,
                                             static_cast<To*>(to.data), to.stride, x.cols, edits,
                                             To(static_cast<arithmetic_t<In>>(removed))});
        });
      });
    }
    void narrow(const const_matrix_ref& from, const matrix_ref& to) const {
      on.over_range(to.rows * to.cols, narrow_columns{from, to});
    }
    void settle(const core::settled_lists& lists) const {
      core::with_real(lists.x.type, [&](auto in) {
        using In = decltype(in);
        lists.indices.type == dtype::i64
            ? on.over_range(lists.x.rows, settle_lists<In, std::int64_t>{lists})
            : on.over_range(lists.x.rows, settle_lists<In, std::int32_t>{lists});
      });
    }
    [[nodiscard]] bool reproducible() const { return on.numerics_ == numerics::reproducible; }
    template <class Problem>
    void run(const Problem& p) const {
      on.run_each(p);
    }
  };

  // ---- Each kind of problem.

  void run_each(const core::row_problem& p) {
    core::with_real(p.x.type, [&](auto in) {
      if (numerics_ == numerics::reproducible) {
        reproducible_rows<decltype(in)> job{
            .whole = p.whole.data != nullptr ? p.whole : p.x, .scale = p.scale, .x = p.x};
        if (p.what == core::operation::logsumexp) {
          job.lse = p.y;
        } else {
          job.y = p.y;
          job.policy = p.policy;
          job.log = p.what == core::operation::log_softmax;
        }
        over_rows(p.y.cols == 0 ? 0 : p.x.rows, job);
        return;
      }
      fold_rows<decltype(in)> job{{p.x, p.scale}};
      if (p.what == core::operation::logsumexp) {
        job.lse = p.y;
      } else {
        job.y = p.y;
        job.policy = p.policy;
        job.log = p.what == core::operation::log_softmax;
      }
      over_rows(p.y.cols == 0 ? 0 : p.x.rows, job);
    });
  }

  void run_each(const core::fold_problem& p) {
    core::with_real(p.x.type, [&](auto in) {
      using T = decltype(in);
      if (p.partials.sum == sum_kind::exact) {
        over_rows(p.x.rows, exact_fold_rows<T>{p});
        return;
      }
      fold_rows<T> job{{p.x, p.scale}};
      job.partials = static_cast<max_sum<arithmetic_t<T>>*>(p.partials.data);
      over_rows(p.x.rows, job);
    });
  }

  void run_each(const core::normalize_problem& p) {
    core::with_real(p.x.type, [&](auto in) {
      using T = decltype(in);
      const std::int64_t rows = p.x.cols == 0 ? 0 : p.x.rows;
      if (p.partials.sum == sum_kind::exact) {
        over_rows(rows,
                  reproducible_rows<T>{.whole = p.x,
                                       .scale = p.scale,
                                       .x = p.x,
                                       .y = p.y,
                                       .policy = p.policy,
                                       .log = p.log,
                                       .states = static_cast<const exact_max_sum<arithmetic_t<T>>*>(
                                           p.partials.data)});
        return;
      }
      const auto* const whole = static_cast<const max_sum<arithmetic_t<T>>*>(p.partials.data);
      over_rows(rows, fold_rows<T>{{p.x, p.scale}, whole, p.y, p.policy, p.log});
    });
  }

  void run_each(const core::backward_problem& p) {
    core::with_real(p.y.type, [&](auto in) {
      const std::int64_t rows = p.y.cols == 0 ? 0 : p.y.rows;
      numerics_ == numerics::reproducible ? over_rows(rows, reproducible_gradients<decltype(in)>{p})
                                          : over_rows(rows, gradient_rows<decltype(in)>{p});
    });
  }

  void run_each(const core::topk_problem& p) {
    if (p.empty()) {
      return;
    }
    if (numerics_ == numerics::reproducible &&
        (p.probabilities.data != nullptr || p.lse.data != nullptr)) {
      core::topk_problem lists = p;
      lists.probabilities = {};
      lists.lse = {};
      run_each(lists);
      core::with_real(p.x.type, [&](auto in) {
        over_rows(p.x.rows,
                  reproducible_rows<decltype(in)>{.whole = p.x,
                                                  .scale = p.scale,
                                                  .indices = p.indices,
                                                  .column_offset = p.column_offset,
                                                  .y = p.probabilities,
                                                  .policy = p.policy,
                                                  .lse = {p.lse.data, p.lse.type, p.x.rows, 1, 1}});
      });
      return;
    }
    if (p.partials.sum == sum_kind::exact) {
      core::topk_problem lists = p;
      lists.partials = {};
      run_each(lists);
      run_each(core::fold_problem{p.x, p.partials, p.scale});
      return;
    }
    const std::int64_t k = p.k();
    const std::int64_t capacity = topk_capacity(k, wanted_lanes);
    const std::size_t each = static_cast<std::size_t>(capacity) * sizeof(candidate);
    const auto teams =
        std::min({p.x.rows, most_teams,
                  std::max<std::int64_t>(1, static_cast<std::int64_t>(candidate_memory / each))});
    auto* const memory = at_least(scratch_, static_cast<std::size_t>(teams) * each);
    core::with_real(p.x.type, [&](auto in) {
      over_rows(
          p.x.rows,
          topk_rows<decltype(in)>{
              {p.x, p.scale}, p, p.folds(), k, reinterpret_cast<candidate*>(memory), capacity},
          teams);
    });
  }

  void run_each(const core::lists_problem& p) {
    if (p.values.cols == 0) {
      return;
    }
    core::with_real(p.values.type, [&](auto value) {
      using T = decltype(value);
      p.indices.type == dtype::i64 ? over_range(p.values.rows, combine_lists<T, std::int64_t>{p})
                                   : over_range(p.values.rows, combine_lists<T, std::int32_t>{p});
    });
  }

  void run_each(const core::scan_problem& p) {
    core::with_real(p.x.type, [&](auto in) {
      over_rows(p.x.rows, scan_rows<decltype(in)>{{p.x, p.scale}, p});
    });
  }

  void run_each(const core::combine_problem& p) {
    const auto of = [&](auto type) {
      using A = decltype(type);
      p.more.sum == sum_kind::exact
          ? over_range(p.more.size, combine_states<definition::exact_max_sum_monoid<A>>{p})
          : over_range(p.more.size, combine_states<core::max_sum_monoid<A>>{p});
    };
    p.more.type == dtype::f64 ? of(double{}) : of(float{});
  }

  void run_each(const core::state_problem& p) {
    const auto of = [&](auto type) {
      using A = decltype(type);
      p.partials.sum == sum_kind::exact
          ? over_range(p.partials.size, logsumexp_of_exact_states<A>{p})
          : over_range(p.partials.size, logsumexp_of_states<A>{p});
    };
    p.partials.type == dtype::f64 ? of(double{}) : of(float{});
  }

  void run_each(const core::sample_problem& p) {
    if (p.empty()) {
      return;
    }
    if (p.options.top_indices.data != nullptr) {
      run_each(core::topk_problem{.function = "sample",
                                  .x = p.x,
                                  .indices = p.options.top_indices,
                                  .values = p.options.top_log_probabilities});
    }
    core::with_real(p.x.type, [&](auto in) { over_rows(p.x.rows, sample_rows<decltype(in)>{p}); });
  }

  void run_each(const core::fold_sample_problem& p) {
    if (p.values.cols > 0) {
      run_each(core::topk_problem{.function = "fold_sample",
                                  .x = p.x,
                                  .indices = p.indices,
                                  .values = p.values,
                                  .column_offset = p.options.column_offset,
                                  .makes_parts = true});
    }
    core::with_real(p.x.type,
                    [&](auto in) { over_rows(p.x.rows, fold_sample_rows<decltype(in)>{p}); });
  }

  void run_each(const core::combine_sample_problem& p) {
    if (p.values.cols > 0) {
      run_each(core::lists_problem{p.more_values, p.more_indices, p.values, p.indices});
    }
    over_range(p.more.size, combine_sample_states{p});
  }

  void run_each(const core::finish_sample_problem& p) {
    over_range(p.states.size, finish_sample_states{p});
  }

  void run_each(const core::coupled_problem& p) {
    over_range(p.draft_tokens.rows, verify_coupled_chains{p});
  }

  void run_each(const core::ratio_problem& p) {
    core::with_real(p.draft.type, [&](auto in) {
      over_rows(p.draft_tokens.rows, verify_chains_by_ratio<decltype(in)>{p});
    });
  }

  void run_each(const core::attention_problem& p) {
    if (p.has_work()) {
      core::with_real(p.q.type,
                      [&](auto in) { over_rows(p.rows(), attention_rows<decltype(in)>{p}); });
    }
  }

  void run_each(const core::combine_attention_problem& p) {
    p.states.type == dtype::f64 ? over_range(p.states.size, combine_attention_rows<double>{p})
                                : over_range(p.states.size, combine_attention_rows<float>{p});
  }

  void run_each(const core::normalize_attention_problem& p) {
    p.states.type == dtype::f64 ? over_range(p.states.size, normalize_attention_rows<double>{p})
                                : over_range(p.states.size, normalize_attention_rows<float>{p});
  }

  // ---- Launches.

  std::byte* at_least(memory_of_calls& memory, std::size_t bytes) {
    if (bytes > memory.bytes) {
      if (memory.where.data != nullptr) {
        exec_.fence();
        memory.where.release(memory.where.data);
        memory = {};
      }
      memory.where = allocate_in<typename Exec::memory_space>(bytes);
      memory.bytes = bytes;
    }
    return static_cast<std::byte*>(memory.where.data);
  }

  /// A thread for each of n.
  template <class Functor>
  void over_range(std::int64_t n, const Functor& functor) {
    if (n > 0) {
      using range = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
      guarded("launch", [&] { Kokkos::parallel_for("softfold", range(exec_, 0, n), functor); });
    }
  }

  /// A team for each row, or for several.
  template <class Job>
  void over_rows(std::int64_t rows, const Job& job, std::int64_t teams = most_teams) {
    if (rows == 0) {
      return;
    }
    using policy = Kokkos::TeamPolicy<Exec>;
    using team_bytes = decltype(Kokkos::Impl::PerTeamValue::value);  // int, from 4.5 on size_t
    const rows_by_teams<Exec, Job> kernel{job, rows};
    const auto shared = Kokkos::PerTeam(static_cast<team_bytes>(Job::shared_bytes + 64));
    guarded("launch", [&] {
      int lanes = 1;
      if constexpr (!works_on_host_memory<Exec>) {
        const int most = policy(exec_, 1, 1)
                             .set_scratch_size(0, shared)
                             .team_size_max(kernel, Kokkos::ParallelForTag());
        for (lanes = wanted_lanes; lanes > std::max(most, 1); lanes /= 2) {
        }
      }
      policy league(exec_, static_cast<int>(std::min(rows, teams)), lanes);
      league.set_scratch_size(0, shared);
      if constexpr (works_on_host_memory<Exec>) {
        const std::lock_guard<std::mutex> lock(host_teams());
        Kokkos::parallel_for("softfold", league, kernel);
        exec_.fence();
      } else {
        Kokkos::parallel_for("softfold", league, kernel);
      }
    });
  }

  static constexpr const char* plans[] = {""};  // no one to choose from
  static constexpr int wanted_lanes = works_on_host_memory<Exec> ? 1 : most_lanes;
  static constexpr std::int64_t most_teams = std::int64_t{1} << 16;
  static constexpr std::size_t candidate_memory = std::size_t{256} << 20;

  Exec exec_;
  numerics numerics_;
  memory_of_calls scratch_;
  memory_of_calls edited_;
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
