// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include <benchmark/benchmark.h>
#include "answer.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <thread>

namespace softfold::bench {
namespace {

struct timing {
  double wall = 0;  // seconds, all calls
  double cpu = 0;
  std::int64_t calls = 0;

  [[nodiscard]] double each() const { return wall / static_cast<double>(calls); }
};

class last_run : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      timing_ = {run.real_accumulated_time, run.cpu_accumulated_time, run.iterations};
    }
  }
  [[nodiscard]] const timing& get() const { return timing_; }

 private:
  timing timing_;
};

// One timing by Google Benchmark: of `calls` calls, or of as many as take `min_time`.
timing timed(const work& call, double min_time, std::int64_t calls) {
  benchmark::ClearRegisteredBenchmarks();
  benchmark::internal::Benchmark* b = benchmark::RegisterBenchmark(
      "case", [&call](benchmark::State& state) { time_calls(state, call); });
  configure_clock(*b);
  if (calls > 0) {
    b->Iterations(calls);
  } else {
    b->MinTime(min_time);
  }
  last_run reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  if (reporter.get().calls == 0) {
    throw std::runtime_error("Google Benchmark returned no timing");
  }
  return reporter.get();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

class entrant {
 public:
  entrant(const contender& c, work call) : contender_(&c), call_(std::move(call)) {}

  // The first call, and its answer.
  [[nodiscard]] std::vector<double> try_out(const workload& w) {
    const auto begin = std::chrono::steady_clock::now();
    spoil_answer(w);
    call_();
    wait_for_calls();
    last_call_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return read_answer(w);
  }

  // The first timing finds the number of calls that the others repeat.
  void time(const workload& w, const run_settings& settings) {
    rest(w.spec.threads);
    if (last_call_ < 0.02) {
      call_();  // its code, its threads and what fits of its data are warm
    }
    const std::int64_t calls = timings_.empty() ? 0 : timings_.back().calls;
    timings_.push_back(timed(call_, settings.min_time, calls));
    last_call_ = timings_.back().each();
  }

  [[nodiscard]] bool wants(int round, const run_settings& settings) const {
    return round < settings.fewest_rounds || timings_.front().wall * (round + 1) <= settings.budget;
  }

  [[nodiscard]] measurement summary() const {
    std::vector<double> seconds;
    std::vector<double> shares;
    for (const timing& t : timings_) {
      seconds.push_back(t.each());
      shares.push_back(t.cpu / t.wall);
    }
    const auto [lowest, highest] = std::ranges::minmax(seconds);
    return {.name = contender_->name,
            .role = contender_->role,
            .median = median(seconds),
            .lowest = lowest,
            .highest = highest,
            .rounds = static_cast<int>(timings_.size()),
            .calls = timings_.front().calls,
            .own_share = median(shares)};
  }

 private:
  // Thread pools spin for some milliseconds after a call; nobody is timed against the spinning
  // threads of the one before.
  static void rest(int threads) {
    if (threads > 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  const contender* contender_;
  work call_;
  double last_call_ = 0;  // seconds
  std::vector<timing> timings_;
};

}  // namespace

case_result run_case(const workload& w, const std::vector<contender>& contenders,
                     const run_settings& settings) {
  std::vector<entrant> entrants;
  std::vector<double> expected;
  for (const contender& c : contenders) {
    if (c.role == role::ceiling && !w.spec.is_bound_by_memory()) {
      continue;
    }
    work call = c.prepare != nullptr ? c.prepare(w) : work{};
    if (!call) {
      continue;
    }
    const std::vector<double> answer = entrants.emplace_back(c, std::move(call)).try_out(w);
    if (c.role == role::subject) {
      expected = answer;
    } else if (c.role == role::peer) {
      check_answer(w, c.name, answer, expected);
    }
  }
  const load_meter meter;
  for (int round = 0; round < settings.rounds; ++round) {
    for (std::size_t i = 0; i < entrants.size(); ++i) {
      entrant& e = entrants[(i + static_cast<std::size_t>(round)) % entrants.size()];
      if (round == 0 || e.wants(round, settings)) {
        e.time(w, settings);
      }
    }
  }
  case_result result{.spec = w.spec, .measurements = {}, .load = meter.read()};
  // A device's clock hardly sees what the host does.
  result.loaded = w.spec.threads > 0 && result.load.wall_seconds >= shortest_reading &&
                  result.load.others > others_limit;
  for (const entrant& e : entrants) {
    result.measurements.push_back(e.summary());
    if (w.spec.threads == 1 && result.measurements.back().own_share < own_share_limit) {
      result.loaded = true;
    }
  }
  return result;
}

}  // namespace softfold::bench
