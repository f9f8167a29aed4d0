// SPDX-License-Identifier: Apache-2.0
#include "contenders/softfold.hpp"

#include "clock.hpp"
#include "platform.hpp"

#include <core/run.hpp>

#include <string_view>

namespace softfold::bench {
namespace {

bool is_part_of(std::string_view name, const std::string& plan) {
  return (", " + plan + ",").find(", " + std::string(name) + ",") != std::string::npos;
}

contender plan_contender(const std::string& name) {
  return {
      .name = "softfold " + name, .role = role::plan, .prepare = [name](const workload& w) -> work {
        const auto q = std::make_shared<queue>(make_queue(w.spec.threads));
        force_plan(*q, name);
        work call = softfold_call(q, w);
        call();
        wait_for_calls();
        return is_part_of(name, last_plan(*q)) ? call : work{};
      }};
}

}  // namespace

contender softfold_contender() {
  return {.name = "softfold", .role = role::subject, .prepare = [](const workload& w) {
            return softfold_call(make_queue(w.spec.threads), w);
          }};
}

std::vector<contender> plan_contenders(const std::string& name) {
  queue q = make_queue(1);
  std::vector<contender> contenders;
  if (name != all_plans) {
    force_plan(q, name);  // is there one?
    contenders.push_back(plan_contender(name));
    return contenders;
  }
  for (const char* const each : plan_names(q).subspan(1)) {
    contenders.push_back(plan_contender(each));
  }
  return contenders;
}

}  // namespace softfold::bench
