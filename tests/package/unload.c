// SPDX-License-Identifier: Apache-2.0
/* unload LIBRARY: loads the shared library, uses it with two threads, unloads it; and again. The
 * threads of its runtime outlive its queues and must not be left without code. */
#include <softfold/softfold.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { rounds = 20, rows = 512, cols = 2048 };

/* The function `name` of a library, as a pointer of its own type. */
#define FUNCTION(library, name) (*(void**)(&name) = dlsym(library, "softfold_" #name))

static int use(void* library, float* x) {
  softfold_status (*queue_create)(const softfold_queue_options*, softfold_queue**);
  softfold_status (*softmax)(softfold_queue*, const softfold_matrix*, const softfold_matrix*,
                             const softfold_softmax_options*);
  softfold_status (*buffer_create)(softfold_queue*, size_t, int32_t, softfold_buffer**);
  softfold_status (*buffer_upload)(softfold_queue*, softfold_buffer*, const void*, size_t, size_t);
  softfold_status (*buffer_download)(softfold_queue*, const softfold_buffer*, void*, size_t,
                                     size_t);
  softfold_status (*queue_wait)(softfold_queue*);
  void* (*buffer_data)(const softfold_buffer*);
  void (*buffer_destroy)(softfold_buffer*);
  void (*queue_destroy)(softfold_queue*);
  const char* (*last_error)(void);
  softfold_queue_options options = SOFTFOLD_QUEUE_OPTIONS_INIT;
  softfold_queue* queue = NULL;
  softfold_buffer* memory = NULL;
  softfold_matrix m = {NULL, rows, cols, cols, SOFTFOLD_F32, 0};
  const size_t bytes = sizeof(float) * rows * cols;
  int ok;

  if (!FUNCTION(library, queue_create) || !FUNCTION(library, softmax) ||
      !FUNCTION(library, buffer_create) || !FUNCTION(library, buffer_upload) ||
      !FUNCTION(library, buffer_download) || !FUNCTION(library, queue_wait) ||
      !FUNCTION(library, buffer_data) || !FUNCTION(library, buffer_destroy) ||
      !FUNCTION(library, queue_destroy) || !FUNCTION(library, last_error)) {
    fprintf(stderr, "%s\n", dlerror());
    return 0;
  }
  options.threads = 2;
  ok = queue_create(&options, &queue) == SOFTFOLD_SUCCESS &&
       buffer_create(queue, bytes, SOFTFOLD_MEMORY_DEVICE, &memory) == SOFTFOLD_SUCCESS &&
       buffer_upload(queue, memory, x, bytes, 0) == SOFTFOLD_SUCCESS;
  if (ok) {
    m.data = buffer_data(memory);
    ok = softmax(queue, &m, &m, NULL) == SOFTFOLD_SUCCESS &&
         buffer_download(queue, memory, x, bytes, 0) == SOFTFOLD_SUCCESS &&
         queue_wait(queue) == SOFTFOLD_SUCCESS;
  }
  if (!ok) {
    fprintf(stderr, "%s\n", last_error());
  }
  buffer_destroy(memory);
  queue_destroy(queue);
  return ok;
}

int main(int count, char** arguments) {
  float* const x = malloc(sizeof(float) * rows * cols);
  int round;
  int i;
  if (count != 2 || x == NULL) {
    return 2;
  }
  for (round = 0; round < rounds; ++round) {
    void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    for (i = 0; i < rows * cols; ++i) {
      x[i] = 1.0F;
    }
    if (!use(library, x)) {
      return 1;
    }
    if (!(x[rows * cols - 1] * cols > 0.999F && x[rows * cols - 1] * cols < 1.001F)) {
      fprintf(stderr, "softmax of %d equal elements is %g\n", cols, (double)x[rows * cols - 1]);
      return 1;
    }
    dlclose(library);
  }
  free(x);
  printf("loaded, used and unloaded %d times\n", rounds);
  return 0;
}
