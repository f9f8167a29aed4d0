// SPDX-License-Identifier: Apache-2.0
#include "contenders/softfold.hpp"

#include "clock.hpp"
#include "platform.hpp"

#include <core/plan_names.hpp>
#include <core/run.hpp>

namespace softfold::bench {
namespace {

contender plan_contender(const std::string& name) {
  return {
      .name = "softfold " + name, .role = role::plan, .prepare = [name](const workload& w) -> work {
        const auto q = std::make_shared<queue>(make_queue(w.spec.threads));
        force_plan(*q, name);
        work call = softfold_call(q, w);
        call();
        wait_for_calls();
        return core::has_plan_name(last_plan(*q), name) ? call : work{};
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
