// SPDX-License-Identifier: Apache-2.0
/* A queue on the program's own stream, from C: the stream's order is the queue's, and its other
 * work. Backends without streams say so. */
#include <softfold/softfold.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(int holds, const char* what, int line) {
  if (!holds) {
    fprintf(stderr, "line %d: %s: %s\n", line, what, softfold_last_error());
    exit(EXIT_FAILURE);
  }
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

#ifdef SOFTFOLD_TEST_CUDA
#include <cuda_runtime_api.h>

int main(void) {
  enum { rows = 64, cols = 5000 };
  static float x[rows * cols];
  static float y[rows * cols];
  const size_t bytes = sizeof x;
  void* data = NULL;
  cudaStream_t stream = NULL;
  softfold_queue* queue = NULL;
  softfold_matrix m = {NULL, rows, cols, cols, SOFTFOLD_F32, 0};
  int i;
  int r;

  for (i = 0; i < rows * cols; ++i) {
    x[i] = (float)(i % 37) * 0.25F;
  }
  EXPECT(cudaMalloc(&data, bytes) == cudaSuccess);
  EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  EXPECT(softfold_queue_create_on(stream, &queue) == SOFTFOLD_SUCCESS);
  EXPECT(queue != NULL);

  /* Copies and a call in the stream's order; only the stream is waited for. */
  m.data = data;
  EXPECT(cudaMemcpyAsync(data, x, bytes, cudaMemcpyHostToDevice, stream) == cudaSuccess);
  EXPECT(softfold_softmax(queue, &m, &m, NULL) == SOFTFOLD_SUCCESS);
  EXPECT(cudaMemcpyAsync(y, data, bytes, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
  EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
  for (r = 0; r < rows; ++r) {
    double sum = 0;
    double of_exponentials = 0;
    for (i = 0; i < cols; ++i) {
      sum += y[r * cols + i];
      of_exponentials += exp(x[r * cols + i]);
    }
    EXPECT(fabs(sum - 1) < 1e-5);
    EXPECT(fabs(y[r * cols] - exp(x[r * cols]) / of_exponentials) < 1e-8);
  }

  softfold_queue_destroy(queue);
  /* The stream is still the program's. */
  EXPECT(cudaMemsetAsync(data, 0, bytes, stream) == cudaSuccess);
  EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
  EXPECT(cudaStreamDestroy(stream) == cudaSuccess);

  EXPECT(softfold_queue_create_on(NULL, &queue) == SOFTFOLD_SUCCESS); /* the default stream */
  EXPECT(softfold_softmax(queue, &m, &m, NULL) == SOFTFOLD_SUCCESS);
  EXPECT(cudaMemcpy(y, data, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
  EXPECT(fabs(y[7] - 1.0 / cols) < 1e-8);
  softfold_queue_destroy(queue);
  EXPECT(softfold_queue_create_on(NULL, NULL) == SOFTFOLD_INVALID_ARGUMENT);
  EXPECT(cudaFree(data) == cudaSuccess);
  {
    softfold_queue_options options = SOFTFOLD_QUEUE_OPTIONS_INIT;
    options.numerics = SOFTFOLD_NUMERICS_REPRODUCIBLE;
    EXPECT(softfold_queue_create_on_with_options(NULL, &options, &queue) == SOFTFOLD_SUCCESS);
    softfold_queue_destroy(queue);
    options.numerics = 3;
    EXPECT(softfold_queue_create_on_with_options(NULL, &options, &queue) ==
           SOFTFOLD_INVALID_ARGUMENT);
  }
  puts("\nok");
  return EXIT_SUCCESS;
}
#else
int main(void) {
  int other = 0;
  softfold_queue* queue = (softfold_queue*)&other;
  EXPECT(softfold_queue_create_on(NULL, &queue) == SOFTFOLD_INVALID_ARGUMENT);
  EXPECT(queue == NULL);
  EXPECT(strstr(softfold_last_error(), "queue_create_on: the") != NULL);
  EXPECT(strstr(softfold_last_error(), softfold_backend()) != NULL);
  EXPECT(strstr(softfold_last_error(), "has no streams") != NULL);
  EXPECT(softfold_queue_create_on_with_options(NULL, NULL, &queue) == SOFTFOLD_INVALID_ARGUMENT);
  EXPECT(strstr(softfold_last_error(), "has no streams") != NULL);
  puts("\nok");
  return EXIT_SUCCESS;
}
#endif
