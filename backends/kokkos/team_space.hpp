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
#include "team/rows.hpp"
#include "team/sample.hpp"
#include "team/scan.hpp"
#include "team/topk.hpp"

#include <core/monoid.hpp>
#include <core/plan_names.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

template <class Exec>
inline constexpr bool works_on_host_memory =
    std::is_same_v<typename Exec::memory_space, Kokkos::HostSpace>;

template <class Exec>
struct combine_rows {
  const void* more;
  void* partials;
  bool wide;

  KOKKOS_FUNCTION void operator()(std::int64_t r) const {
    wide ? combine<double>(r) : combine<float>(r);
  }
  template <class A>
  KOKKOS_FUNCTION void combine(std::int64_t r) const {
    auto& into = static_cast<max_sum<A>*>(partials)[r];
    into = core::max_sum_monoid<A>::combine(into, static_cast<const max_sum<A>*>(more)[r]);
  }
};

template <class T>
struct fill_value {
  T* to;
  std::int64_t stride;
  T value;
  KOKKOS_FUNCTION void operator()(std::int64_t r) const { to[r * stride] = value; }
};

/// Kokkos before 4 shares a team's memory between calls on one host space.
inline std::mutex& host_teams() {
  static std::mutex mutex;
  return mutex;
}

template <class Exec>
class team_space final : public space {
 public:
  explicit team_space(const Exec& exec) : exec_(exec) {}
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
  void reserve(std::size_t bytes) override { scratch(bytes); }
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
    last_.reset();
    edited_rows rows{*this};
    std::visit([&](const auto& each) { core::run_with_edits(rows, each); }, p);
  }

  [[nodiscard]] std::span<const char* const> plan_names() const override {
    return kokkos_backend::plan_names;
  }
  void force_plan(std::string_view name) override {
    forced_ = core::plan_named<plan_name>(name, kokkos_backend::plan_names);
  }
  [[nodiscard]] std::string last_plan() const override { return last_ ? to_text(*last_) : ""; }

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
      core::with_real(to.type, [&](auto out) {
        using To = decltype(out);
        on.over_range(to.rows * to.cols,
                      narrow_columns<To>{static_cast<const float*>(from.data), from.stride,
                                         static_cast<To*>(to.data), to.stride, to.cols});
      });
    }
    void settle(const core::settled_lists& lists) const {
      core::with_real(lists.x.type, [&](auto in) {
        using In = decltype(in);
        lists.indices.type == dtype::i64
            ? on.over_range(lists.x.rows, settle_lists<In, std::int64_t>{lists})
            : on.over_range(lists.x.rows, settle_lists<In, std::int32_t>{lists});
      });
    }
    template <class Problem>
    void run(const Problem& p) const {
      on.run_each(p);
    }
  };

  // ---- Each kind of problem.

  void run_each(const core::row_problem& p) {
    if (p.x.rows == 0 || p.y.cols == 0) {
      return;
    }
    core::with_real(p.x.type, [&](auto in) {
      using T = decltype(in);
      core::with_output<T>(p.y.type, [&](auto out) { run_rows<T, decltype(out)>(p); });
    });
  }

  void run_each(const core::backward_problem& p) {
    if (p.y.rows == 0 || p.y.cols == 0) {
      return;
    }
    core::with_real(p.y.type, [&](auto in) {
      using T = decltype(in);
      core::with_output<T>(p.dx.type, [&](auto out) {
        using Out = decltype(out);
        fold_and_finish(gradient_source<T>{static_cast<const T*>(p.y.data),
                                           p.y.stride,
                                           static_cast<const T*>(p.dy.data),
                                           p.dy.stride,
                                           p.y.rows,
                                           p.y.cols,
                                           p.log,
                                           {}},
                        gradient_finish<T, Out>{static_cast<Out*>(p.dx.data), p.dx.stride,
                                                static_cast<arithmetic_t<T>>(p.scale)},
                        true);
      });
    });
  }

  void run_each(const core::topk_problem& asked) {
    if (asked.empty()) {
      return;
    }
    core::topk_problem p = asked;
    if (p.partials.data != nullptr) {
      // A state has the bits of fold, which the shape of top-k's own fold does not give: another
      // read of x.
      run_each(core::fold_problem{p.x, p.partials, p.scale});
      p.partials = {};
      if (p.empty()) {
        return;
      }
    }
    if (p.k() == 0) {
      run_without_elements(p);
      return;
    }
    core::with_real(p.x.type, [&](auto in) {
      using T = decltype(in);
      if (sizeof(arithmetic_t<T>) == 4 && p.x.cols <= std::int64_t{1} << 32) {
        run_topk<T, packed_entry>(p);
      } else {
        run_topk<T, wide_entry>(p);
      }
    });
  }

  void run_each(const core::fold_problem& p) {
    if (p.x.rows == 0) {
      return;
    }
    core::with_real(p.x.type, [&](auto in) {
      using T = decltype(in);
      auto* const partials = static_cast<max_sum<arithmetic_t<T>>*>(p.partials.data);
      fold_and_finish(source_of<T>(p.x, p.scale), partial_finish<T>{partials}, false);
    });
  }

  void run_each(const core::scan_problem& p) {
    if (p.x.rows == 0) {
      return;
    }
    core::with_real(p.x.type, [&](auto in) {
      using In = decltype(in);
      using A = arithmetic_t<In>;
      auto rows = scan_rows<In>::of(p);
      rows.carries = reinterpret_cast<core::scan_state<A>*>(scratch(rows.carry_bytes()));
      over_range(rows.rows * rows.chunks, fold_scan_chunks<In>{rows});
      over_range(p.x.rows,
                 carry_scan_chunks<In>{rows, static_cast<const max_sum<A>*>(p.carry_in.data),
                                       static_cast<max_sum<A>*>(p.carry_out.data)});
      core::with_output<In>(p.lse.type, [&](auto out) {
        using Out = decltype(out);
        over_range(
            rows.rows * rows.chunks,
            scan_chunks<In, Out>{rows, static_cast<Out*>(p.lse.data), p.lse.stride, p.exclusive});
      });
    });
  }

  void run_each(const core::combine_problem& p) {
    over_range(p.more.size,
               combine_rows<Exec>{p.more.data, p.partials.data, p.more.type == dtype::f64});
  }

  void run_each(const core::state_problem& p) {
    const auto run = [&]<class A>(A) {
      over_range(p.partials.size,
                 logsumexp_of_states<A>{static_cast<const max_sum<A>*>(p.partials.data),
                                        static_cast<A*>(p.lse.data)});
    };
    p.partials.type == dtype::f64 ? run(double{}) : run(float{});
  }

  void run_each(const core::lists_problem& p) {
    if (p.values.cols == 0) {
      return;
    }
    core::with_real(p.values.type, [&](auto value) {
      using T = decltype(value);
      const auto run = [&]<class Index>(Index) {
        over_range(p.values.rows,
                   combine_lists<T, Index>{p.more_values, p.more_indices, p.values, p.indices});
      };
      p.indices.type == dtype::i64 ? run(std::int64_t{}) : run(std::int32_t{});
    });
  }

  void run_each(const core::normalize_problem& p) {
    if (p.x.rows == 0 || p.x.cols == 0) {
      return;
    }
    core::with_real(p.x.type, [&](auto in) {
      using T = decltype(in);
      core::with_output<T>(p.y.type, [&](auto out) { run_normalize<T, decltype(out)>(p); });
    });
  }

  void run_each(const core::sample_problem& p) {
    if (p.empty()) {
      return;
    }
    const sample_options& o = p.options;
    if (o.top_indices.data != nullptr) {
      run_each(core::topk_problem{.function = "sample",
                                  .x = p.x,
                                  .indices = o.top_indices,
                                  .values = o.top_log_probabilities});
    }
    core::with_real(p.x.type, [&](auto in) {
      using memory = core::sampling::row_memory;
      launch_rows(sample_rows<Exec, decltype(in)>{p, 0}, p.x.rows, memory::most_lanes,
                  static_cast<int>(sizeof(memory)) + 64);
    });
  }

  void run_each(const core::fold_sample_problem& p) {
    if (p.x.rows == 0) {
      return;
    }
    if (p.values.cols > 0) {
      run_each(core::topk_problem{.function = "fold_sample",
                                  .x = p.x,
                                  .indices = p.indices,
                                  .values = p.values,
                                  .column_offset = p.options.column_offset,
                                  .makes_parts = true});
    }
    core::with_real(p.x.type, [&](auto in) {
      using rows = fold_sample_rows<Exec, decltype(in)>;
      launch_rows(rows{p, 0}, p.x.rows, rows::most_lanes, rows::shared_bytes);
    });
  }

  void run_each(const core::combine_sample_problem& p) {
    if (p.values.cols > 0) {
      run_each(core::lists_problem{p.more_values, p.more_indices, p.values, p.indices});
    }
    over_range(p.more.size, combine_sample_states{p.more.data, p.states.data});
  }

  void run_each(const core::finish_sample_problem& p) {
    over_range(p.states.size, finish_sample_states{p});
  }

  void run_each(const core::coupled_problem& p) {
    over_range(p.draft_tokens.rows, verify_coupled_chains{p});
  }

  void run_each(const core::ratio_problem& p) {
    core::with_real(p.draft.type, [&](auto in) {
      using memory = core::sampling::row_memory;
      launch_rows(verify_chains_by_ratio<Exec, decltype(in)>{p, 0}, p.draft_tokens.rows,
                  memory::most_lanes, static_cast<int>(sizeof(memory)) + 64);
    });
  }

  void run_each(const core::attention_problem& p) {
    if (!p.has_work()) {
      return;
    }
    core::with_real(p.q.type, [&](auto in) {
      using functor_type = attention_rows<Exec, decltype(in)>;
      team_plan plan{};
      plan.team_size = works_on_host_memory<Exec> ? 1 : attention_tile;
      plan.vector_length = 1;
      functor_type functor{p, 0};
      constexpr int shared = static_cast<int>(sizeof(typename functor_type::memory)) + 64;
      const int team_size = team_size_for(plan, functor, shared);
      for (; functor.first < p.rows(); functor.first += league_limit) {
        launch_teams(plan, std::min(p.rows() - functor.first, league_limit), team_size, functor,
                     shared);
      }
    });
  }

  void run_each(const core::combine_attention_problem& p) {
    p.states.type == dtype::f64 ? over_range(p.states.size, combine_attention_rows<double>{p})
                                : over_range(p.states.size, combine_attention_rows<float>{p});
  }

  void run_each(const core::normalize_attention_problem& p) {
    p.states.type == dtype::f64 ? over_range(p.states.size, normalize_attention_rows<double>{p})
                                : over_range(p.states.size, normalize_attention_rows<float>{p});
  }

  // ---- What this execution space can do.

  [[nodiscard]] static team_limits limits() {
    if constexpr (works_on_host_memory<Exec>) {
      return {};
    } else {
      return {.vector_length = std::min(Kokkos::TeamPolicy<Exec>::vector_length_max(), 64),
              .lanes = 1024};
    }
  }

  template <class T>
  static row_source<T> source_of(const const_matrix_ref& x, double scale) {
    using A = arithmetic_t<T>;
    return {static_cast<const T*>(x.data), x.stride, x.rows, x.cols,
            fold_monoid<A>{scaling<A>(scale)}};
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
  std::byte* scratch(std::size_t bytes) { return at_least(scratch_, bytes); }

  template <class Functor>
  void over_range(std::int64_t n, const Functor& functor) {
    if (n > 0) {
      using range = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
      guarded("launch", [&] { Kokkos::parallel_for("softfold", range(exec_, 0, n), functor); });
    }
  }

  using policy = Kokkos::TeamPolicy<Exec>;
  using team_bytes = decltype(Kokkos::Impl::PerTeamValue::value);  // int, from 4.5 on size_t

  /// The team size that a kernel may have, at most the plan's.
  template <class Functor>
  int team_size_for(const team_plan& plan, const Functor& functor, int shared) {
    policy one(exec_, 1, 1, plan.vector_length);
    one.set_scratch_size(0, Kokkos::PerTeam(static_cast<team_bytes>(shared)));
    return std::max(1,
                    std::min(plan.team_size, one.team_size_max(functor, Kokkos::ParallelForTag())));
  }

  template <class Functor>
  void launch_teams(const team_plan& plan, std::int64_t teams, int team_size,
                    const Functor& functor, int shared = 0) {
    policy league(exec_, static_cast<int>(teams), team_size, plan.vector_length);
    league.set_scratch_size(0, Kokkos::PerTeam(static_cast<team_bytes>(shared)));
    guarded("launch", [&] {
      if constexpr (works_on_host_memory<Exec>) {
        const std::lock_guard<std::mutex> lock(host_teams());
        Kokkos::parallel_for("softfold", league, functor);
        exec_.fence();
      } else {
        Kokkos::parallel_for("softfold", league, functor);
      }
    });
  }

  /// A team for each row, of as many threads; on a host of one.
  template <class Functor>
  void launch_rows(Functor functor, std::int64_t rows, int lanes, int shared) {
    team_plan plan{};
    plan.team_size = works_on_host_memory<Exec> ? 1 : lanes;
    plan.vector_length = 1;
    const int team_size = team_size_for(plan, functor, shared);
    for (; functor.first < rows; functor.first += league_limit) {
      launch_teams(plan, std::min(rows - functor.first, league_limit), team_size, functor, shared);
    }
  }

  /// Teams for `tasks` tasks, `per_team` each, the functor told which is its league's first. The
  /// number of teams in a league is an int.
  template <class Functor>
  void over_tasks(const team_plan& plan, std::int64_t tasks, bool thread_per_task,
                  Functor functor) {
    constexpr std::int64_t most_teams = std::int64_t{1} << 30;
    const int team_size = team_size_for(plan, functor, 0);
    const std::int64_t per_team = thread_per_task ? team_size : 1;
    for (std::int64_t first = 0; first < tasks; first += most_teams * per_team) {
      const std::int64_t left = (tasks - first + per_team - 1) / per_team;
      functor.first = first;
      launch_teams(plan, std::min(left, most_teams), team_size, functor);
    }
  }

  /// Both passes over the rows. `maps` says whether the finish is for every element.
  template <class Source, class Finish>
  void fold_and_finish(const Source& source, const Finish& finish, bool maps) {
    using state = state_of<Source>;
    const team_plan plan = planned(plan_rows(source.cols, limits(), forced_));
    if (plan.by != workers::teams) {
      const bool by_threads = plan.by == workers::thread;
      over_tasks(
          plan, source.rows, by_threads,
          whole_rows<Exec, Source, Finish>{source, finish, by_threads, plan.vector_length, 0});
      return;
    }
    const std::int64_t segments = plan.segments_of(source.cols);
    const segment_states<state> parts{
        reinterpret_cast<state*>(
            scratch(static_cast<std::size_t>(source.rows * segments) * sizeof(state))),
        segments, plan.segment};
    over_tasks(plan, source.rows * segments, false,
               fold_segments<Exec, Source>{source, parts, plan.vector_length, 0});
    const std::int64_t pieces = maps ? segments : 1;
    over_tasks(plan, source.rows * pieces, false,
               finish_segments<Exec, Source, Finish>{source, parts, finish, pieces,
                                                     plan.vector_length, 0});
  }

  template <class T, class Out>
  void run_rows(const core::row_problem& p) {
    using A = arithmetic_t<T>;
    if (p.what == core::operation::logsumexp) {
      if (p.x.cols == 0) {
        over_range(p.x.rows,
                   fill_value<Out>{static_cast<Out*>(p.y.data), p.y.stride, Out(-infinity<A>)});
        return;
      }
      fold_and_finish(source_of<T>(p.x, p.scale),
                      logsumexp_finish<T, Out>{static_cast<Out*>(p.y.data)}, false);
      return;
    }
    const bool log = p.what == core::operation::log_softmax;
    fold_and_finish(source_of<T>(p.x, p.scale),
                    map_finish<T, Out>{static_cast<Out*>(p.y.data), p.y.stride,
                                       empty_value<A>(p.policy, log), log},
                    true);
  }

  template <class A>
  static A empty_value(empty_row policy, bool log) {
    return policy == empty_row::nan ? std::numeric_limits<A>::quiet_NaN()
           : log                    ? -infinity<A>
                                    : A{0};
  }

  template <class T, class Out>
  void run_normalize(const core::normalize_problem& p) {
    using A = arithmetic_t<T>;
    const team_plan plan = planned(plan_rows(p.x.cols, limits(), forced_));
    const std::int64_t segments = plan.segments_of(p.x.cols);
    over_tasks(plan, p.x.rows * segments, false,
               normalize_rows<Exec, T, Out>{
                   source_of<T>(p.x, p.scale), static_cast<const max_sum<A>*>(p.partials.data),
                   static_cast<Out*>(p.y.data), p.y.stride, empty_value<A>(p.policy, p.log), p.log,
                   segments, plan.segment, plan.vector_length, 0});
  }

  static topk_outputs outputs_of(const core::topk_problem& p) {
    return {p.values,       p.indices, p.probabilities, p.lse, empty_value<double>(p.policy, false),
            p.column_offset};
  }

  /// A top-k of no elements: the state of the rows, and absent entries.
  void run_without_elements(const core::topk_problem& p) {
    if (p.lse.data != nullptr) {
      run_each(core::row_problem{core::operation::logsumexp,
                                 p.x,
                                 {p.lse.data, p.lse.type, p.x.rows, 1, 1},
                                 p.scale,
                                 empty_row::nan});
    }
    if (p.indices.cols > 0) {
      over_range(p.x.rows, absent_lists{outputs_of(p)});
    }
  }

  template <class T, class Entry>
  void run_topk(const core::topk_problem& p) {
    using A = arithmetic_t<T>;
    using kernel = topk_rows<Exec, T, Entry>;
    using stage = typename kernel::stage;
    const std::int64_t k = p.k();
    const topk_plan plan =
        plan_topk(p.x.cols, k, static_cast<int>(sizeof(Entry)), scratch_limit, limits(), forced_);
    planned(plan.teams);
    const std::int64_t rows = p.x.rows;
    const bool split = plan.teams.by == workers::teams;
    const std::int64_t segments = split ? plan.teams.segments_of(p.x.cols) : 0;
    const auto round_up = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
    const std::size_t states =
        round_up(static_cast<std::size_t>(rows * segments) * sizeof(row_fold<A>));
    const std::size_t lists =
        round_up(static_cast<std::size_t>(rows * segments * k) * sizeof(Entry));
    const std::size_t each = candidates<Entry>::bytes(plan.capacity);
    const std::int64_t most_teams =
        plan.in_team_scratch
            ? league_limit
            : std::max<std::int64_t>(1, static_cast<std::int64_t>(candidate_memory / each));
    const auto teams_of = [&](std::int64_t tasks) { return std::min(tasks, most_teams); };
    const std::int64_t largest_league = teams_of(split ? rows * segments : rows);
    const std::size_t own =
        plan.in_team_scratch ? 0 : static_cast<std::size_t>(largest_league) * each;
    std::byte* const memory = scratch(states + lists + own);

    kernel functor{source_of<T>(p.x, p.scale),
                   {reinterpret_cast<row_fold<A>*>(memory), segments, plan.teams.segment},
                   reinterpret_cast<Entry*>(memory + states),
                   outputs_of(p),
                   stage::whole,
                   p.folds(),
                   k,
                   plan.capacity,
                   plan.chunk,
                   plan.in_team_scratch ? nullptr : memory + states + lists,
                   plan.teams.vector_length,
                   rows};
    const int shared = plan.in_team_scratch ? static_cast<int>(each) : 0;
    if (split) {
      functor.what = stage::segments;
      functor.tasks = rows * segments;
      launch_teams(plan.teams, teams_of(functor.tasks), team_size_for(plan.teams, functor, shared),
                   functor, shared);
      functor.what = stage::lists;
      functor.tasks = rows;
    }
    launch_teams(plan.teams, teams_of(rows), team_size_for(plan.teams, functor, shared), functor,
                 shared);
  }

  static constexpr int scratch_limit = 40 << 10;
  static constexpr std::int64_t league_limit = std::int64_t{1} << 20;
  static constexpr std::size_t candidate_memory = std::size_t{256} << 20;

  /// Notes a call's plan.
  team_plan planned(const team_plan& plan) {
    last_ = plan;
    return plan;
  }

  Exec exec_;
  memory_of_calls scratch_;
  memory_of_calls edited_;
  plan_name forced_ = core::plan_of_environment<plan_name>(kokkos_backend::plan_names);
  std::optional<team_plan> last_;  ///< a call's
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
