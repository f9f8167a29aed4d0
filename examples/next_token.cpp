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
  softfold::buffer x(queue, sizeof logits), p(queue, sizeof probability), t(queue, sizeof token);
  x.upload(queue, logits, sizeof logits);
  softfold::softmax_topk(queue, x.matrix<float>(rows, vocabulary), p.matrix<float>(rows, k),
                         t.matrix<std::int64_t>(rows, k), {.scale = 1 / 0.8});
  p.download(queue, probability, sizeof probability);
  t.download(queue, token, sizeof token);
  queue.wait();
  for (int i = 0; i < rows * k; ++i) {
    std::printf("prompt %d: token %d, %.3f\n", i / k, int(token[i]), probability[i]);
  }
}
