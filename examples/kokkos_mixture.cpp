// SPDX-License-Identifier: Apache-2.0
// Mixture responsibilities with Kokkos: how likely is it that each component of a mixture of
// Gaussians made each point? The log-weights are made by a kernel, in the layout that suits it
// (LayoutLeft: points lie side by side, as a device's threads read them); softfold turns each
// point's row into probabilities, and its logsumexp is the point's log-likelihood.
#include <softfold/kokkos.hpp>

#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstdio>

using execution = Kokkos::DefaultExecutionSpace;
using log_weights = Kokkos::View<double**, Kokkos::LayoutLeft, execution>;
using range = Kokkos::RangePolicy<execution, Kokkos::IndexType<int>>;
using vector = Kokkos::View<double*, execution>;

// Unnormalised log-density of component c at a point, plus the log of the component's weight.
void weigh(const execution& exec, const log_weights& to, int points, int components) {
  Kokkos::parallel_for(
      "weigh", range(exec, 0, points), KOKKOS_LAMBDA(int p) {
        const double x = 0.01 * p - 5;
        for (int c = 0; c < components; ++c) {
          const double distance = (x - (2.0 * c - components + 1)) / 0.5;
          to(p, c) = -0.5 * distance * distance - 400 * c;  // far below what exp can represent
        }
      });
}

int run() {
  constexpr int points = 1000;
  constexpr int components = 5;
  const execution exec;
  const log_weights weights("log-weights", points, components);
  const log_weights responsibilities("responsibilities", points, components);
  const vector likelihood("log-likelihood", points);
  weigh(exec, weights, points, components);

  softfold::queue_on queue(exec);
  softfold::softmax(queue, weights, responsibilities);
  softfold::logsumexp(queue, weights, likelihood);

  // Kokkos works on in the order of the same instance: no fence before the sums.
  double total = 0;
  double deviation = 0;
  Kokkos::parallel_reduce(
      "sum", range(exec, 0, points), KOKKOS_LAMBDA(int p, double& sum) { sum += likelihood(p); },
      total);
  Kokkos::parallel_reduce(
      "check", range(exec, 0, points),
      KOKKOS_LAMBDA(int p, double& largest) {
        double sum = 0;
        for (int c = 0; c < components; ++c) {
          sum += responsibilities(p, c);
        }
        const double off = sum > 1 ? sum - 1 : 1 - sum;
        largest = off > largest ? off : largest;
      },
      Kokkos::Max<double>(deviation));
  exec.fence();
  std::printf("%d points, log-likelihood %.4f, rows sum to 1 within %.1e\n", points, total,
              deviation);
  // Component 0 is alone in what a double can tell apart: the answer has a closed form.
  double expected = 0;
  for (int p = 0; p < points; ++p) {
    const double distance = (0.01 * p - 5 + 4) / 0.5;
    expected += -0.5 * distance * distance;
  }
  return std::fabs(total - expected) <= 1e-9 * std::fabs(expected) && deviation <= 1e-14 ? 0 : 1;
}

int main() {
  Kokkos::initialize();
  const int status = run();
  Kokkos::finalize();
  return status;
}
