// SPDX-License-Identifier: Apache-2.0
// Plans by name: each is forced, really runs, and its results are right.
#include "gradient.hpp"
#include "problem.hpp"

#include <core/plan_names.hpp>
#include <core/run.hpp>

#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace softfold::test {
namespace {

/// Names that this device has no plan of.
bool is_absent(queue& q, std::string_view name) {
  const std::string isa = q.info().isa;
  const bool hopper =
      isa.starts_with("sm_9") || isa.starts_with("sm_10") || isa.starts_with("sm_12");
  if (name == "rows" || name == "segments") {
    return q.info().threads == 1;
  }
  return name == "cluster" || name == "clustered" || name == "ring" ? !hopper
         : name == "together"                                       ? !isa.starts_with("sm_")
                                                                    : false;
}

/// Names that the tables have wherever a shape can have them, with the few rows of these tests.
bool is_first_choice(queue& q, std::string_view name) {
  return name == "lanes" || name == "ranked" || (name == "serial" && q.info().threads == 1);
}

/// Names of which the caches' sizes decide: one may be a machine's first choice for all that is
/// here.
bool is_by_caches(std::string_view name) {
  return name.starts_with("scale_") || name.starts_with("recompute");
}

/// The names, but for that of no plan in particular.
std::span<const char* const> names_of(queue& q) { return plan_names(q).subspan(1); }

struct set_plan_variable {
  explicit set_plan_variable(const char* value) { setenv("SOFTFOLD_PLAN", value, 1); }
  ~set_plan_variable() { before.empty() ? unsetenv("SOFTFOLD_PLAN") : set(before); }
  set_plan_variable(const set_plan_variable&) = delete;
  set_plan_variable& operator=(const set_plan_variable&) = delete;

  const std::string before = [] {
    const char* const value = std::getenv("SOFTFOLD_PLAN");
    return std::string(value == nullptr ? "" : value);
  }();

 private:
  static int set(const std::string& value) { return setenv("SOFTFOLD_PLAN", value.c_str(), 1); }
};

}  // namespace

TEST_SUITE_BEGIN("plans");

TEST_CASE_TEMPLATE("each is forced, runs, and is right", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q(queue_options{.threads = 2});
  queue usual(queue_options{.threads = 2});
  std::uint64_t seed = 90000;
  int first_by_caches = 0;
  for (const char* const name : names_of(q)) {
    CAPTURE(std::string(name));
    force_plan(q, name);
    bool taken = false;
    bool chosen = true;  // wherever it was taken, it is the tables' too
    const auto check = [&](const auto& call) {
      call(usual);
      call(q);
      const bool now = core::has_plan_name(last_plan(q), name);
      taken = taken || now;
      chosen = chosen && (!now || core::has_plan_name(last_plan(usual), name));
    };
    for (const std::int64_t cols : {5, 64, 700, 3001, 9000, 150001}) {
      problem<T> p({9, cols, distribution::normal, 1, 3, 1, ++seed});
      check([&](queue& on) { check_softmax<T>(on, p); });
      check([&](queue& on) { check_logsumexp<T>(on, p); });
      const auto columns = expected_columns(p, std::min<std::int64_t>(cols, 130));
      for (const std::int64_t k : {1, 5, 40, 130}) {
        if (k <= cols) {
          check([&](queue& on) { check_softmax_topk<T, std::int32_t>(on, p, k, columns); });
        }
      }
    }
    if (std::is_same_v<T, float>) {
      CHECK(taken != is_absent(q, name));
      if (is_by_caches(name)) {
        first_by_caches += chosen && taken ? 1 : 0;
      } else {
        CHECK((chosen && taken) == is_first_choice(q, name));
      }
    }
  }
  CHECK(first_by_caches <= 1);
}

TEST_CASE("where a row waits for its second look changes no bit") {
  queue q(queue_options{.threads = 2});
  REQUIRE_FALSE(names_of(q).empty());
  // The others, but for a GPU's, change none either on a host's memory.
  std::vector<const char*> names = {"serial",        "rows",           "segments",
                                    "recompute",     "recompute_past", "scale_output",
                                    "scale_scratch", "scale_behind"};
  if (names_of(q)[0] == std::string_view("lanes")) {
    names = {"chunks", "clustered", "together", "ring"};
  }
  for (const std::int64_t cols : {700, 12000, 70001, 270011, 270336}) {
    problem<float> p({9, cols, distribution::normal, 1, 0, 0, 91000});
    const auto results = [&](const char* name) {
      force_plan(q, name);
      matrix<float> y(p.output_layout(cols), role::output);
      softmax(q, p.x.view(), y.view());
      q.wait();
      y.download();
      std::vector<float> all;
      for (std::int64_t r = 0; r < y.rows(); ++r) {
        all.insert(all.end(), y.row(r).begin(), y.row(r).end());
      }
      return all;
    };
    const std::vector<float> expected = results(names[0]);
    for (const char* const name : names) {
      CAPTURE(name);
      CHECK(std::memcmp(expected.data(), results(name).data(), expected.size() * sizeof(float)) ==
            0);
    }
  }
}

TEST_CASE_TEMPLATE("who combines the states of a row's chunks changes no bit", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  queue q(queue_options{.threads = 2});
  REQUIRE_FALSE(names_of(q).empty());
  if (names_of(q)[0] != std::string_view("lanes")) {
    return;  // of a GPU's plans only
  }
  using A = reference::arithmetic_t<T>;
  for (const std::int64_t rows : {1, 67}) {
    for (const std::int64_t cols : {12000, 25000, 128256}) {
      problem<T> p({rows, cols, distribution::normal, 1, 3, 1, 91800});
      const auto folded = [&](const char* name) {
        force_plan(q, name);
        states<A> partials(rows);
        fold(q, p.x.view(), partials.ref());
        q.wait();
        return partials.values();
      };
      const auto expected = folded("chunks");
      for (const char* const name : {"", "clustered"}) {
        CAPTURE(name);
        const auto found = folded(name);
        CHECK(std::memcmp(static_cast<const void*>(expected.data()), found.data(),
                          expected.size() * sizeof(max_sum<A>)) == 0);
      }
    }
  }
}

TEST_CASE_TEMPLATE("where a row of gradients waits for its second look changes no bit", T, float,
                   bfloat16) {
  queue q(queue_options{.threads = 2});
  REQUIRE_FALSE(names_of(q).empty());
  if (names_of(q)[0] != std::string_view("lanes")) {
    return;  // of a GPU's plans only
  }
  for (const bool log : {false, true}) {
    for (const std::int64_t offset : {0, 1}) {  // with 1, y and dy lie differently in vectors
      for (const std::int64_t cols : {12000, 70001, 131072, 200003}) {
        gradient_problem<T> p(
            {log, 3, cols, distribution::normal, distribution::normal, 1, 0, offset, 91500});
        const auto results = [&](const char* name) {
          force_plan(q, name);
          matrix<T> dx({p.spec.rows, cols, 0, 0}, role::output);
          p.call(q, dx.view());
          dx.download();
          std::vector<T> all;
          for (std::int64_t r = 0; r < dx.rows(); ++r) {
            all.insert(all.end(), dx.row(r).begin(), dx.row(r).end());
          }
          return all;
        };
        const std::vector<T> expected = results("chunks");
        for (const char* const name : {"clustered", "together", "ring"}) {
          CAPTURE(name);
          CHECK(std::memcmp(expected.data(), results(name).data(), expected.size() * sizeof(T)) ==
                0);
        }
      }
    }
  }
}

TEST_CASE("reproducible rows are right by each plan, and a GPU's registers hold them by three") {
  queue q(queue_options{.threads = 2, .numerics = numerics::reproducible});
  const bool is_gpu = names_of(q)[0] == std::string_view("lanes");
  for (const std::int64_t cols : {700, 701, 12000}) {
    problem<float> p({9, cols, distribution::normal, 1, 0, 0, 93000});
    for (const std::string_view name : names_of(q)) {
      CAPTURE(name);
      CAPTURE(cols);
      force_plan(q, std::string(name).c_str());
      check_softmax<float>(q, p);
      const bool holds = name == "block" || name == "cluster" || (name == "lanes" && cols < 1024);
      if (is_gpu && holds && !is_absent(q, name)) {
        CHECK(core::has_plan_name(last_plan(q), name));
      }
    }
  }
}

TEST_CASE("the environment names one for the queues made after it") {
  queue before;
  REQUIRE_FALSE(names_of(before).empty());
  const std::string name = names_of(before)[0];
  problem<float> p({2, 64, distribution::normal, 1, 0, 0, 92000});
  {
    const set_plan_variable forced(name.c_str());
    queue q;
    check_softmax<float>(q, p);
    CHECK(core::has_plan_name(last_plan(q), name));
  }
  const set_plan_variable wrong("no-such-plan");
  std::string message;
  try {
    queue q;
  } catch (const error& e) {
    CHECK(e.code() == errc::invalid_argument);
    message = e.what();
  }
  CHECK(
      message.starts_with("queue: SOFTFOLD_PLAN is no-such-plan, expected one of " + name + ", "));
  CHECK_THROWS_AS(force_plan(before, "no-such-plan"), error);
}

#ifdef SOFTFOLD_TEST_PLANS
TEST_CASE("the suites run under each") {  // by ctest's label under_plans
  queue q;
  std::string names;
  for (const char* const name : names_of(q)) {
    names += (names.empty() ? "" : ",") + std::string(name);
  }
  CHECK(names == SOFTFOLD_TEST_PLANS);
}
#endif

TEST_CASE("a call without one to choose has none") {
  queue q;
  CHECK(last_plan(q).empty());
  problem<float> p({2, 64, distribution::normal, 1, 0, 0, 93000});
  check_softmax<float>(q, p);
  CHECK(last_plan(q).empty() == names_of(q).empty());
  states<float> a(3);
  states<float> b(3);
  combine(q, const_partials_ref(b.ref()), a.ref());
  q.wait();
  CHECK(last_plan(q).empty());
}

TEST_SUITE_END();

}  // namespace softfold::test
