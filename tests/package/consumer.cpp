// SPDX-License-Identifier: Apache-2.0
// A program of somebody else's: includes the installed headers, links the installed library and
// checks a softmax, a softmax + top-k and an error that crosses the library's boundary.
#include <softfold/softfold.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#define SOFTFOLD_TEXT_(name) #name
#define SOFTFOLD_TEXT(name) SOFTFOLD_TEXT_(name)

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (!holds) {
    std::printf("wrong: %s\n", what);
    ++failures;
  }
}

// Memory of the queue's device with these values.
template <class T>
softfold::buffer on_device(softfold::queue& queue, const std::vector<T>& values) {
  softfold::buffer memory(queue, values.size() * sizeof(T));
  memory.upload(queue, values.data(), memory.size());
  return memory;
}

template <class T>
std::vector<T> on_host(softfold::queue& queue, const softfold::buffer& memory) {
  std::vector<T> values(memory.size() / sizeof(T));
  memory.download(queue, values.data(), memory.size());
  queue.wait();
  return values;
}

bool near(float value, double exact) { return std::abs(value - exact) <= 20 * 0x1p-24 * exact; }

}  // namespace

int main() {
  constexpr std::int64_t rows = 2;
  constexpr std::int64_t cols = 4;
  constexpr std::int64_t k = 2;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {0.0f, std::log(2.0f), std::log(4.0f), std::log(3.0f),
                                7.0f, -infinity,      7.0f,           7.0f};
  const double exact[] = {0.1, 0.2, 0.4, 0.3, 1.0 / 3, 0, 1.0 / 3, 1.0 / 3};

  softfold::queue queue;
  std::printf("softfold %d.%d.%d, %s\n", SOFTFOLD_VERSION_MAJOR, SOFTFOLD_VERSION_MINOR,
              SOFTFOLD_VERSION_PATCH, queue.info().backend.c_str());
  expect(queue.info().backend == SOFTFOLD_TEXT(SOFTFOLD_BACKEND), "the backend's name");

  const softfold::buffer x_memory = on_device(queue, x);
  const softfold::buffer y_memory(queue, x.size() * sizeof(float));
  softfold::softmax(queue, x_memory.matrix<float>(rows, cols), y_memory.matrix<float>(rows, cols));
  const std::vector<float> y = on_host<float>(queue, y_memory);
  for (std::size_t i = 0; i < y.size(); ++i) expect(near(y[i], exact[i]), "softmax");

  const softfold::buffer p_memory(queue, rows * k * sizeof(float));
  const softfold::buffer i_memory(queue, rows * k * sizeof(std::int64_t));
  softfold::softmax_topk(queue, x_memory.matrix<float>(rows, cols), p_memory.matrix<float>(rows, k),
                         i_memory.matrix<std::int64_t>(rows, k));
  const std::vector<float> probabilities = on_host<float>(queue, p_memory);
  const std::vector<std::int64_t> indices = on_host<std::int64_t>(queue, i_memory);
  expect(indices == std::vector<std::int64_t>{2, 3, 0, 2}, "top-k indices");
  expect(near(probabilities[0], 0.4) && near(probabilities[1], 0.3), "top-k, first row");
  expect(near(probabilities[2], 1.0 / 3) && near(probabilities[3], 1.0 / 3), "top-k, second row");

  bool thrown = false;
  try {
    softfold::softmax_topk(queue, x_memory.matrix<float>(rows, cols),
                           p_memory.matrix<float>(rows, cols + 1),
                           i_memory.matrix<std::int64_t>(rows, cols + 1));
  } catch (const softfold::error& e) {
    thrown = e.code() == softfold::errc::invalid_argument && std::strlen(e.what()) > 0;
  }
  expect(thrown, "an error for k > cols");

  if (failures == 0) std::printf("ok\n");
  return failures == 0 ? 0 : 1;
}
