// SPDX-License-Identifier: Apache-2.0
// Times this library beside its peers and the machine's ceilings: docs/benchmarks.md.
#include "cases.hpp"
#include "load.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "platform.hpp"
#include "results.hpp"
#include "run.hpp"
#include "workload.hpp"

#include <softfold/queue.hpp>

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <regex>
#include <thread>

namespace softfold::bench {
namespace {

std::vector<bench_case> chosen_cases(const options& o, int all_threads) {
  std::vector<int> threads = o.threads;
  if (threads.empty()) {
    threads = all_threads > 1 ? std::vector{1, all_threads} : std::vector{1};
  }
  const std::regex filter(o.filter);
  std::vector<bench_case> cases = all_cases(threads);
  std::erase_if(cases, [&](const bench_case& c) {
    return (o.quick && !c.quick) || !std::regex_search(name_of(c), filter);
  });
  return cases;
}

std::vector<contender> chosen_contenders(const options& o) {
  const std::regex filter(o.contenders);
  std::vector<contender> contenders = all_contenders();
  std::erase_if(contenders, [&](const contender& c) {
    return c.role != role::subject && !std::regex_search(c.name, filter);
  });
  for (const std::string& name : o.plans) {
    const std::vector<contender> plans = plan_contenders(name);
    contenders.insert(contenders.end(), plans.begin(), plans.end());
  }
  return contenders;
}

// Notes, and says, what would spoil the figures before they are taken.
void warn_of_load(nlohmann::ordered_json& machine) {
  const load_meter meter;
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const double others = meter.read().others;
  machine["others_at_start"] = others;
  std::cout << "load average " << machine["load_average"] << ", others use " << others
            << " processors now\n";
  if (others > others_limit) {
    std::cout << "WARNING: the machine is in use; these figures will be too low and uneven\n";
  }
}

int run(const options& o) {
  const device_info device = make_queue(0).info();
  const std::vector<bench_case> cases = chosen_cases(o, device.threads);
  if (o.list) {
    for (const bench_case& c : cases) {
      std::cout << name_of(c) << '\n';
    }
    return 0;
  }
  if (cases.empty()) {
    std::cerr << "softfold_bench: no case matches; see --list\n";
    return 1;
  }
  const std::vector<contender> contenders = chosen_contenders(o);
  nlohmann::ordered_json machine = describe_machine(device);
  std::cout << "softfold " << machine["version"].get<std::string>() << ", " << device.device << ", "
            << device.isa;
  if (device.threads > 0) {
    std::cout << ", " << device.threads << " processors";
  }
  std::cout << '\n';
  for (const contender& c : contenders) {
    if (!c.absent.empty()) {
      std::cout << "without " << c.name << ": not in this build; install " << c.absent << '\n';
    }
  }
  warn_of_load(machine);

  workspace memory(o.logits.empty() ? SOFTFOLD_BENCH_LOGITS : o.logits);
  std::vector<case_result> results;
  std::size_t loaded = 0;
  print_titles(std::cout);
  for (const bench_case& c : cases) {
    results.push_back(run_case(memory.prepare(c), contenders, o.settings));
    print_line(std::cout, results.back());
    loaded += results.back().loaded ? 1U : 0U;
  }
  if (loaded > 0) {
    std::cout << "WARNING: the machine was in use during " << loaded << " of " << results.size()
              << " cases\n";
  }
  if (!o.out.empty()) {
    write_json(o.out, machine, contenders, o, results);
  }
  return 0;
}

}  // namespace
}  // namespace softfold::bench

int main(int argc, char** argv) {
  try {
    const softfold::bench::options options = softfold::bench::parse_options(argc, argv);
    if (options.help) {
      std::cout << softfold::bench::usage;
      return 0;
    }
    // Every queue of this library that a contender makes, on whatever backend.
    setenv("SOFTFOLD_NUMERICS", options.numerics.c_str(), 1);
    return softfold::bench::run(options);
  } catch (const std::exception& e) {
    std::cerr << "softfold_bench: " << e.what() << '\n';
    return 1;
  }
}
