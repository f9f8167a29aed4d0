// SPDX-License-Identifier: Apache-2.0
#include <softfold/softfold.hpp>

#include <cstdint>
#include <cstdio>

int main() {
  constexpr int rows = 2, vocabulary = 5, k = 3;
  const float logits[] = {2.5f, 0.5f, 4.0f, -1.0f, 3.0f,  // one row for each prompt
                          0.0f, 6.0f, 1.0f, 5.0f,  2.0f};
  float probability[rows * k];
  std::int64_t token[rows * k];

  softfold::queue queue;
  softfold::softmax_topk(queue, softfold::matrix_view(logits, rows, vocabulary),
                         softfold::matrix_view(probability, rows, k),
                         softfold::matrix_view(token, rows, k), {.scale = 1 / 0.8});
  queue.wait();
  for (int i = 0; i < rows * k; ++i) {
    std::printf("prompt %d: token %d, %.3f\n", i / k, int(token[i]), probability[i]);
  }
}
