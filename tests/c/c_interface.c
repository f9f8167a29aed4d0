// SPDX-License-Identifier: Apache-2.0
/* The C interface as a program in C99 uses it: every function called with right arguments, results
 * checked by hand, and with wrong ones, whose status and text are checked. Includes the public
 * header first, so that it must stand alone. */
#include <softfold/softfold.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define EXPECT(condition)                                                    \
  do {                                                                       \
    if (!(condition)) {                                                      \
      printf("line %d: not so: %s (last error: %s)\n", __LINE__, #condition, \
             softfold_last_error());                                         \
      ++failures;                                                            \
    }                                                                        \
  } while (0)

#define OK(call) EXPECT((call) == SOFTFOLD_SUCCESS)

/* A failure of the right kind whose text has a part. */
static void expect_failure(int line, softfold_status found, softfold_status status,
                           const char* part) {
  if (found != status || strstr(softfold_last_error(), part) == NULL) {
    printf("line %d: status %s, expected %s; \"%s\" in \"%s\"\n", line, softfold_status_name(found),
           softfold_status_name(status), part, softfold_last_error());
    ++failures;
  }
}
#define FAILS(status, part, call) expect_failure(__LINE__, (call), (status), (part))

enum { rows = 2, cols = 4, k = 2 };

/* Rows of memory on the device. */
struct device {
  softfold_queue* queue;
  softfold_buffer* memory;
};

static struct device device_of(softfold_queue* queue, const void* host, size_t bytes) {
  struct device d = {NULL, NULL};
  d.queue = queue;
  OK(softfold_buffer_create(queue, bytes, SOFTFOLD_MEMORY_DEVICE, &d.memory));
  EXPECT(softfold_buffer_size(d.memory) == bytes);
  OK(softfold_buffer_upload(queue, d.memory, host, bytes, 0));
  OK(softfold_queue_wait(queue));
  return d;
}

static void fetch(struct device d, void* host, size_t bytes) {
  OK(softfold_buffer_download(d.queue, d.memory, host, bytes, 0));
  OK(softfold_queue_wait(d.queue));
}

static softfold_matrix matrix(struct device d, int64_t n_cols, softfold_dtype type) {
  softfold_matrix m = {NULL, rows, 0, 0, 0, 0};
  m.data = softfold_buffer_data(d.memory);
  m.cols = n_cols;
  m.stride = n_cols;
  m.type = type;
  return m;
}

static softfold_vector vector(struct device d, softfold_dtype type) {
  softfold_vector v = {NULL, rows, 0, 0};
  v.data = softfold_buffer_data(d.memory);
  v.type = type;
  return v;
}

static int near(float value, double exact) {
  return fabs((double)value - exact) <= 20 * ldexp(1, -24) * (fabs(exact) + 1);
}

/* log of 1, 2, 4, 3 and of 1, 0, 1, 1: the probabilities are tenths and thirds. */
static const double weights[rows][cols] = {{1, 2, 4, 3}, {1, 0, 1, 1}};
static const double totals[rows] = {10, 3};
static const int64_t best[rows][k] = {{2, 3}, {0, 2}};

/* y = weights / totals; dy is 1 in column 0, else 0, so that dx = y (dy - y[0]). */
static void check_gradients(softfold_queue* queue) {
  float y[rows * cols], log_y[rows * cols], dy[rows * cols] = {0}, dx[rows * cols] = {0};
  struct device y_memory, log_y_memory, dy_memory, dx_memory;
  softfold_matrix from, from_log, gradient, to;
  softfold_backward_options options = SOFTFOLD_BACKWARD_OPTIONS_INIT;
  int r, i;

  for (r = 0; r < rows; ++r) {
    for (i = 0; i < cols; ++i) {
      y[r * cols + i] = (float)(weights[r][i] / totals[r]);
      log_y[r * cols + i] = (float)log(weights[r][i] / totals[r]);
    }
    dy[r * cols] = 1;
  }
  y_memory = device_of(queue, y, sizeof y);
  log_y_memory = device_of(queue, log_y, sizeof log_y);
  dy_memory = device_of(queue, dy, sizeof dy);
  dx_memory = device_of(queue, dx, sizeof dx);
  from = matrix(y_memory, cols, SOFTFOLD_F32);
  from_log = matrix(log_y_memory, cols, SOFTFOLD_F32);
  gradient = matrix(dy_memory, cols, SOFTFOLD_F32);
  to = matrix(dx_memory, cols, SOFTFOLD_F32);

  OK(softfold_softmax_backward(queue, &from, &gradient, &to, NULL));
  fetch(dx_memory, dx, sizeof dx);
  EXPECT(near(dx[0], 0.1 * 0.9) && near(dx[2], -0.4 * 0.1) && near(dx[cols + 3], -1.0 / 9));
  options.scale = 2;
  OK(softfold_log_softmax_backward(queue, &from_log, &gradient, &to, &options));
  fetch(dx_memory, dx, sizeof dx);
  EXPECT(near(dx[0], 2 * 0.9) && near(dx[2], -2 * 0.4) && dx[cols + 1] == 0);
  options.scale = INFINITY;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "softmax_backward: scale",
        softfold_softmax_backward(queue, &from, &gradient, &to, &options));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "dy is null",
        softfold_log_softmax_backward(queue, &from_log, NULL, &to, NULL));

  softfold_buffer_destroy(y_memory.memory);
  softfold_buffer_destroy(log_y_memory.memory);
  softfold_buffer_destroy(dy_memory.memory);
  softfold_buffer_destroy(dx_memory.memory);
}

/* The row without a zero weight, and the one with: column 1 of that is never drawn. */
static void check_samples(softfold_queue* queue, struct device x_memory) {
  int32_t tokens[rows * 8] = {0};
  float log_probability[rows * 8] = {0}, lse[rows] = {0};
  const int64_t seeds[rows] = {5, 6};
  struct device tokens_memory = device_of(queue, tokens, sizeof tokens);
  struct device log_memory = device_of(queue, log_probability, sizeof log_probability);
  struct device lse_memory = device_of(queue, lse, sizeof lse);
  struct device seeds_memory = device_of(queue, seeds, sizeof seeds);
  const softfold_matrix x = matrix(x_memory, cols, SOFTFOLD_F32);
  const softfold_matrix to = matrix(tokens_memory, 8, SOFTFOLD_I32);
  const softfold_matrix to_log = matrix(log_memory, 8, SOFTFOLD_F32);
  const softfold_vector to_lse = vector(lse_memory, SOFTFOLD_F32);
  const softfold_vector by_seeds = vector(seeds_memory, SOFTFOLD_I64);
  softfold_sample_options options = SOFTFOLD_SAMPLE_OPTIONS_INIT;
  int r, i;

  options.top_k = 2;
  options.seeds = &by_seeds;
  options.log_probability = &to_log;
  options.lse = &to_lse;
  OK(softfold_sample(queue, &x, &to, &options));
  fetch(tokens_memory, tokens, sizeof tokens);
  fetch(log_memory, log_probability, sizeof log_probability);
  fetch(lse_memory, lse, sizeof lse);
  for (r = 0; r < rows; ++r) {
    const double both = weights[r][best[r][0]] + weights[r][best[r][1]];
    EXPECT(near(lse[r], log(totals[r])));
    for (i = 0; i < 8; ++i) {
      const int32_t token = tokens[r * 8 + i];
      EXPECT(token == best[r][0] || token == best[r][1]);
      EXPECT(near(log_probability[r * 8 + i], log(weights[r][token] / both)));
    }
  }
  OK(softfold_sample(queue, &x, &to, NULL));
  options.top_p = 2;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "sample: top_p is 2", softfold_sample(queue, &x, &to, &options));
  options.top_p = 1;
  options.order = 7;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "sample: order is 7", softfold_sample(queue, &x, &to, &options));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "tokens is null", softfold_sample(queue, &x, NULL, NULL));

  softfold_buffer_destroy(tokens_memory.memory);
  softfold_buffer_destroy(log_memory.memory);
  softfold_buffer_destroy(lse_memory.memory);
  softfold_buffer_destroy(seeds_memory.memory);
}

/* The same as a value: through bytes. */
static void check_sampled_states(softfold_queue* queue, struct device x_memory) {
  const softfold_matrix x = matrix(x_memory, cols, SOFTFOLD_F32);
  softfold_matrix first = x, second = x;
  softfold_row_sampling sampling = SOFTFOLD_ROW_SAMPLING_INIT;
  softfold_row_states *states = NULL, *more = NULL;
  softfold_row_states_view view;
  int64_t tokens[rows] = {-2, -2};
  const softfold_vector to = {tokens, rows, SOFTFOLD_I64, 0};
  unsigned char bytes[2048];
  size_t size = 0;

  first.cols = 2;
  second.data = (float*)x.data + 2;
  second.cols = cols - 2;
  sampling.top_k = 1; /* the largest is certain */
  OK(softfold_row_states_create_sampling(SOFTFOLD_F32, rows, k, 1, &sampling, &states));
  OK(softfold_row_states_create_sampling(SOFTFOLD_F32, rows, k, 1, &sampling, &more));
  OK(softfold_row_states_fold(queue, states, &first, 0));
  OK(softfold_row_states_fold(queue, more, &second, 2));
  OK(softfold_row_states_to_bytes(more, bytes, sizeof bytes, &size));
  softfold_row_states_destroy(more);
  OK(softfold_row_states_from_bytes(bytes, size, &more));
  OK(softfold_row_states_combine(queue, states, more));
  OK(softfold_row_states_finish_sample(queue, states, &to, NULL));
  EXPECT(tokens[0] == best[0][0] && tokens[1] == best[1][0]);
  memset(&view, 0, sizeof view);
  view.struct_size = sizeof view;
  OK(softfold_row_states_get(states, &view));
  EXPECT(view.samples != NULL && view.samples[1].offset == 1 && view.samples[0].top_k == 1);
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "tokens is null",
        softfold_row_states_finish_sample(queue, states, NULL, NULL));
  softfold_row_states_destroy(states);
  softfold_row_states_destroy(more);
  sampling.temperature = -1;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "temperature is -1",
        softfold_row_states_create_sampling(SOFTFOLD_F32, rows, k, 1, &sampling, &states));
  EXPECT(states == NULL);
}

/* Two chains of one draft: row 2 i of the target is the draft's place, row 2 i + 1 the one after
 * it. */
static void check_verification(softfold_queue* queue) {
  enum { chains = rows, places = 2 };
  const float target[chains * places][cols] = {
      {0, 9, 0, 0}, {0, 0, 9, 0}, {0, 0, 0, 9}, {9, 0, 0, 0}};
  const float draft[chains][cols] = {{0, 9, 0, 0}, {0, 9, 0, 0}};
  const int32_t draft_tokens[chains] = {1, 1};
  int32_t tokens[chains * places] = {0}, accepted[chains] = {0};
  struct device target_memory = device_of(queue, target, sizeof target);
  struct device draft_memory = device_of(queue, draft, sizeof draft);
  struct device draft_tokens_memory = device_of(queue, draft_tokens, sizeof draft_tokens);
  struct device tokens_memory = device_of(queue, tokens, sizeof tokens);
  struct device accepted_memory = device_of(queue, accepted, sizeof accepted);
  softfold_matrix x = matrix(target_memory, cols, SOFTFOLD_F32);
  const softfold_matrix drafted = matrix(draft_memory, cols, SOFTFOLD_F32);
  const softfold_matrix given = matrix(draft_tokens_memory, 1, SOFTFOLD_I32);
  const softfold_matrix to = matrix(tokens_memory, places, SOFTFOLD_I32);
  const softfold_vector counts = vector(accepted_memory, SOFTFOLD_I32);
  softfold_sample_options options = SOFTFOLD_SAMPLE_OPTIONS_INIT;
  int with_draft;

  x.rows = chains * places;
  options.temperature = 0; /* certain: the first draft is right, the second is not */
  for (with_draft = 0; with_draft < 2; ++with_draft) {
    OK(softfold_verify(queue, &x, with_draft ? &drafted : NULL, &given, &to, &counts, &options));
    fetch(tokens_memory, tokens, sizeof tokens);
    fetch(accepted_memory, accepted, sizeof accepted);
    EXPECT(accepted[0] == 1 && tokens[0] == 1 && tokens[1] == 2);
    EXPECT(accepted[1] == 0 && tokens[2] == 3 && tokens[3] == -1);
  }
  options.top_p = 2;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "verify: top_p is 2",
        softfold_verify(queue, &x, &drafted, &given, &to, &counts, &options));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "accepted is null",
        softfold_verify(queue, &x, NULL, &given, &to, NULL, NULL));

  softfold_buffer_destroy(target_memory.memory);
  softfold_buffer_destroy(draft_memory.memory);
  softfold_buffer_destroy(draft_tokens_memory.memory);
  softfold_buffer_destroy(tokens_memory.memory);
  softfold_buffer_destroy(accepted_memory.memory);
}

/* Two columns and the rest, put together: the token of the whole row. */
static void check_sample_parts(softfold_queue* queue, struct device x_memory) {
  softfold_sample_state none[rows] = {{0}};
  float values[rows * 2] = {0}, log_probability[rows] = {0}, whole_log[rows] = {0};
  int32_t indices[rows * 2] = {0}, token[rows] = {0}, whole_token[rows] = {0};
  struct device first_memory = device_of(queue, none, sizeof none);
  struct device second_memory = device_of(queue, none, sizeof none);
  struct device first_values_memory = device_of(queue, values, sizeof values);
  struct device values_memory = device_of(queue, values, sizeof values);
  struct device first_indices_memory = device_of(queue, indices, sizeof indices);
  struct device indices_memory = device_of(queue, indices, sizeof indices);
  struct device token_memory = device_of(queue, token, sizeof token);
  struct device log_memory = device_of(queue, log_probability, sizeof log_probability);
  softfold_sample_state* const first_states = softfold_buffer_data(first_memory.memory);
  softfold_sample_state* const states = softfold_buffer_data(second_memory.memory);
  const softfold_matrix x = matrix(x_memory, cols, SOFTFOLD_F32);
  softfold_matrix first = x, second = x;
  const softfold_matrix first_values = matrix(first_values_memory, 2, SOFTFOLD_F32);
  const softfold_matrix first_indices = matrix(first_indices_memory, 2, SOFTFOLD_I32);
  const softfold_matrix list = matrix(values_memory, 2, SOFTFOLD_F32);
  const softfold_matrix columns = matrix(indices_memory, 2, SOFTFOLD_I32);
  const softfold_vector to = vector(token_memory, SOFTFOLD_I32);
  const softfold_vector to_log = vector(log_memory, SOFTFOLD_F32);
  const softfold_matrix whole = matrix(token_memory, 1, SOFTFOLD_I32);
  const softfold_matrix to_whole_log = matrix(log_memory, 1, SOFTFOLD_F32);
  softfold_fold_sample_options options = SOFTFOLD_FOLD_SAMPLE_OPTIONS_INIT;
  softfold_finish_sample_options wanted = SOFTFOLD_FINISH_SAMPLE_OPTIONS_INIT;
  softfold_sample_options of_whole = SOFTFOLD_SAMPLE_OPTIONS_INIT;
  int r;

  first.cols = 2;
  second.data = (float*)x.data + 2;
  second.cols = cols - 2;
  options.top_k = 2;
  options.seed = 5;
  OK(softfold_fold_sample(queue, &first, first_states, rows, &first_values, &first_indices,
                          &options));
  options.column_offset = 2;
  OK(softfold_fold_sample(queue, &second, states, rows, &list, &columns, &options));
  OK(softfold_combine_sample(queue, first_states, rows, &first_values, &first_indices, states,
                             &list, &columns));
  wanted.log_probability = &to_log;
  OK(softfold_finish_sample(queue, states, rows, &list, &columns, &to, &wanted));
  fetch(token_memory, token, sizeof token);
  fetch(log_memory, log_probability, sizeof log_probability);
  of_whole.top_k = 2;
  of_whole.seed = 5;
  of_whole.log_probability = &to_whole_log;
  OK(softfold_sample(queue, &x, &whole, &of_whole));
  fetch(token_memory, whole_token, sizeof whole_token);
  fetch(log_memory, whole_log, sizeof whole_log);
  for (r = 0; r < rows; ++r) {
    EXPECT(token[r] == whole_token[r] && log_probability[r] == whole_log[r]);
    EXPECT(token[r] == best[r][0] || token[r] == best[r][1]);
  }
  OK(softfold_fold_sample(queue, &x, states, rows, NULL, NULL, NULL));
  OK(softfold_finish_sample(queue, states, rows, NULL, NULL, &to, NULL));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "fold_sample: column_offset is -1",
        (options.column_offset = -1,
         softfold_fold_sample(queue, &x, states, rows, &list, &columns, &options)));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "combine_sample: more.data is null",
        softfold_combine_sample(queue, NULL, rows, NULL, NULL, states, NULL, NULL));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "tokens is null",
        softfold_finish_sample(queue, states, rows, NULL, NULL, NULL, NULL));

  softfold_buffer_destroy(first_memory.memory);
  softfold_buffer_destroy(second_memory.memory);
  softfold_buffer_destroy(first_values_memory.memory);
  softfold_buffer_destroy(values_memory.memory);
  softfold_buffer_destroy(first_indices_memory.memory);
  softfold_buffer_destroy(indices_memory.memory);
  softfold_buffer_destroy(token_memory.memory);
  softfold_buffer_destroy(log_memory.memory);
}

static void check_rows(softfold_queue* queue, struct device x_memory) {
  float y[rows * cols] = {0};
  float values[rows * k] = {0};
  float lse[rows] = {0};
  int64_t indices[rows * k] = {0};
  struct device y_memory = device_of(queue, y, sizeof y);
  struct device values_memory = device_of(queue, values, sizeof values);
  struct device logits_memory = device_of(queue, values, sizeof values);
  struct device indices_memory = device_of(queue, indices, sizeof indices);
  struct device lse_memory = device_of(queue, lse, sizeof lse);
  const softfold_matrix x = matrix(x_memory, cols, SOFTFOLD_F32);
  const softfold_matrix to = matrix(y_memory, cols, SOFTFOLD_F32);
  const softfold_matrix to_values = matrix(values_memory, k, SOFTFOLD_F32);
  const softfold_matrix to_logits = matrix(logits_memory, k, SOFTFOLD_F32);
  const softfold_matrix to_indices = matrix(indices_memory, k, SOFTFOLD_I64);
  const softfold_vector to_lse = vector(lse_memory, SOFTFOLD_F32);
  softfold_softmax_options softmax_options = SOFTFOLD_SOFTMAX_OPTIONS_INIT;
  softfold_softmax_topk_options topk_options = SOFTFOLD_SOFTMAX_TOPK_OPTIONS_INIT;
  int r, i;

  OK(softfold_softmax(queue, &x, &to, NULL));
  fetch(y_memory, y, sizeof y);
  for (r = 0; r < rows; ++r) {
    for (i = 0; i < cols; ++i) EXPECT(near(y[r * cols + i], weights[r][i] / totals[r]));
  }
  softmax_options.scale = 0; /* uniform over what is not -infinity */
  OK(softfold_softmax(queue, &x, &to, &softmax_options));
  fetch(y_memory, y, sizeof y);
  EXPECT(y[0] == 0.25F && y[cols + 1] == 0);
  OK(softfold_log_softmax(queue, &x, &to, NULL));
  fetch(y_memory, y, sizeof y);
  EXPECT(near(y[2], log(0.4)));
  check_gradients(queue);
  OK(softfold_logsumexp(queue, &x, &to_lse, NULL));
  fetch(lse_memory, lse, sizeof lse);
  EXPECT(near(lse[0], log(10.0)) && near(lse[1], log(3.0)));
  OK(softfold_topk(queue, &x, &to_values, &to_indices));
  fetch(values_memory, values, sizeof values);
  EXPECT(near(values[0], log(4.0)));

  topk_options.logits = &to_logits;
  topk_options.lse = &to_lse;
  OK(softfold_softmax_topk(queue, &x, &to_values, &to_indices, &topk_options));
  fetch(values_memory, values, sizeof values);
  fetch(indices_memory, indices, sizeof indices);
  EXPECT(memcmp(indices, best, sizeof best) == 0);
  EXPECT(near(values[0], 0.4) && near(values[1], 0.3) && near(values[k], 1.0 / 3));
  fetch(logits_memory, values, sizeof values);
  EXPECT(near(values[0], log(4.0)));

  softfold_buffer_destroy(y_memory.memory);
  softfold_buffer_destroy(values_memory.memory);
  softfold_buffer_destroy(logits_memory.memory);
  softfold_buffer_destroy(indices_memory.memory);
  softfold_buffer_destroy(lse_memory.memory);
}

/* Columns 0 and 1, then 2 and 3. */
static void check_parts(softfold_queue* queue, struct device x_memory) {
  float zeros[rows * cols] = {0};
  int64_t indices[rows * k] = {0};
  float lse[rows];
  struct device state[2], value[2], index[2];
  softfold_matrix values[2], list[2];
  softfold_vector partials[2];
  softfold_vector wrong_lse;
  struct device y_memory = device_of(queue, zeros, sizeof zeros);
  struct device lse_memory = device_of(queue, zeros, sizeof lse);
  const softfold_vector to_lse = vector(lse_memory, SOFTFOLD_F32);
  softfold_fold_topk_options options = SOFTFOLD_FOLD_TOPK_OPTIONS_INIT;
  softfold_matrix part = matrix(x_memory, cols, SOFTFOLD_F32);
  softfold_matrix y = matrix(y_memory, cols, SOFTFOLD_F32);
  int side;

  part.cols = 2;
  for (side = 0; side < 2; ++side) {
    state[side] = device_of(queue, zeros, rows * 2 * sizeof(float));
    value[side] = device_of(queue, zeros, rows * k * sizeof(float));
    index[side] = device_of(queue, indices, sizeof indices);
    partials[side] = vector(state[side], SOFTFOLD_F32);
    values[side] = matrix(value[side], k, SOFTFOLD_F32);
    list[side] = matrix(index[side], k, SOFTFOLD_I64);
    part.data = (float*)softfold_buffer_data(x_memory.memory) + 2 * side;
    options.column_offset = 2 * side;
    OK(softfold_fold_topk(queue, &part, NULL, &values[side], &list[side], &options));
    OK(softfold_fold_topk(queue, &part, &partials[side], &values[side], &list[side], &options));
    OK(softfold_fold(queue, &part, &partials[side], NULL));
  }
  OK(softfold_combine(queue, &partials[0], &partials[1]));
  OK(softfold_combine_topk(queue, &values[0], &list[0], &values[1], &list[1]));
  OK(softfold_logsumexp_of_partials(queue, &partials[1], &to_lse));
  wrong_lse = to_lse;
  wrong_lse.size = rows - 1;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "logsumexp_of_partials: lse.size is 1",
        softfold_logsumexp_of_partials(queue, &partials[1], &wrong_lse));
  wrong_lse.type = SOFTFOLD_F64;
  FAILS(SOFTFOLD_UNSUPPORTED_TYPE, "logsumexp_of_partials: lse.type is f64",
        softfold_logsumexp_of_partials(queue, &partials[1], &wrong_lse));
  fetch(index[1], indices, sizeof indices);
  EXPECT(memcmp(indices, best, sizeof best) == 0);
  fetch(lse_memory, lse, sizeof lse);
  EXPECT(near(lse[0], log(10.0)) && near(lse[1], log(3.0)));

  part.data = softfold_buffer_data(x_memory.memory);
  y.cols = 2;
  OK(softfold_normalize(queue, &part, &partials[1], &y, NULL));
  fetch(y_memory, zeros, sizeof zeros);
  EXPECT(near(zeros[1], 0.2) && zeros[2] == 0 && near(zeros[cols], 1.0 / 3));
  OK(softfold_log_normalize(queue, &part, &partials[1], &y, NULL));
  fetch(y_memory, zeros, sizeof zeros);
  EXPECT(near(zeros[1], log(0.2)) && zeros[cols + 1] == -INFINITY);

  for (side = 0; side < 2; ++side) {
    softfold_buffer_destroy(state[side].memory);
    softfold_buffer_destroy(value[side].memory);
    softfold_buffer_destroy(index[side].memory);
  }
  softfold_buffer_destroy(y_memory.memory);
  softfold_buffer_destroy(lse_memory.memory);
}

/* Exact sums: two packets of columns, apart and together. */
static void check_exact_parts(softfold_queue* queue) {
  enum { columns = 16, half = 8 };
  float x[rows * columns];
  softfold_exact_max_sum_f32 states[3][rows];
  float lse[rows] = {0}, y[rows * columns] = {0};
  struct device x_memory, y_memory, lse_memory, state[3];
  softfold_vector partials[3], wrong, to_lse;
  softfold_matrix whole, part, to;
  softfold_row_states* held[2] = {NULL, NULL};
  softfold_row_states_options options = SOFTFOLD_ROW_STATES_OPTIONS_INIT;
  softfold_row_states_view view;
  int i;

  for (i = 0; i < rows * columns; ++i) {
    x[i] = (float)(i % 7) * 0.5F;
  }
  memset(states, 0, sizeof states);
  x_memory = device_of(queue, x, sizeof x);
  y_memory = device_of(queue, y, sizeof y);
  lse_memory = device_of(queue, lse, sizeof lse);
  whole = matrix(x_memory, columns, SOFTFOLD_F32);
  to = matrix(y_memory, columns, SOFTFOLD_F32);
  to_lse = vector(lse_memory, SOFTFOLD_F32);
  for (i = 0; i < 3; ++i) {
    state[i] = device_of(queue, states[i], sizeof states[i]);
    partials[i] = vector(state[i], SOFTFOLD_EXACT_F32);
  }
  OK(softfold_fold(queue, &whole, &partials[2], NULL));
  part = whole;
  part.cols = half;
  options.numerics = SOFTFOLD_NUMERICS_REPRODUCIBLE;
  for (i = 0; i < 2; ++i) {
    part.data = (float*)whole.data + half * i;
    OK(softfold_fold(queue, &part, &partials[i], NULL));
    OK(softfold_row_states_create_with_options(SOFTFOLD_F32, rows, 0, &options, &held[i]));
    OK(softfold_row_states_fold(queue, held[i], &part, half * i));
  }
  OK(softfold_combine(queue, &partials[1], &partials[0]));
  OK(softfold_row_states_combine(queue, held[0], held[1]));
  for (i = 0; i < 3; ++i) {
    fetch(state[i], states[i], sizeof states[i]);
  }
  EXPECT(memcmp(states[0], states[2], sizeof states[0]) == 0);
  EXPECT(states[0][0].max == 3 && states[0][0].words[0][0] > 0);
  view.struct_size = sizeof view;
  OK(softfold_row_states_get(held[0], &view));
  EXPECT(view.numerics == SOFTFOLD_NUMERICS_REPRODUCIBLE);
  EXPECT(memcmp(view.partials, states[2], sizeof states[2]) == 0);
  OK(softfold_logsumexp_of_partials(queue, &partials[0], &to_lse));
  OK(softfold_normalize(queue, &whole, &partials[0], &to, NULL));
  fetch(lse_memory, lse, sizeof lse);
  fetch(y_memory, y, sizeof y);
  EXPECT(near(y[6], exp(3.0 - lse[0])) && near(y[0], exp(-(double)lse[0])));

  wrong = partials[0];
  wrong.type = SOFTFOLD_F32;
  FAILS(SOFTFOLD_UNSUPPORTED_TYPE, "combine: partials.sum is rounded, expected exact",
        softfold_combine(queue, &partials[1], &wrong));
  FAILS(SOFTFOLD_UNSUPPORTED_TYPE, "lse.type is 32",
        softfold_logsumexp_of_partials(queue, &partials[0], &partials[1]));
  wrong.type = SOFTFOLD_EXACT_F64;
  FAILS(SOFTFOLD_UNSUPPORTED_TYPE, "fold: partials.type is f64",
        softfold_fold(queue, &whole, &wrong, NULL));
  softfold_row_states_destroy(held[1]);
  options.numerics = 2;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "options.numerics is 2",
        softfold_row_states_create_with_options(SOFTFOLD_F32, rows, 0, &options, &held[1]));
  EXPECT(held[1] == NULL);
  softfold_row_states_destroy(held[0]);
  for (i = 0; i < 3; ++i) {
    softfold_buffer_destroy(state[i].memory);
  }
  softfold_buffer_destroy(x_memory.memory);
  softfold_buffer_destroy(y_memory.memory);
  softfold_buffer_destroy(lse_memory.memory);
}

static void check_states(softfold_queue* queue, struct device x_memory) {
  softfold_row_states* half[2] = {NULL, NULL};
  softfold_row_states* received = NULL;
  softfold_matrix part = matrix(x_memory, cols, SOFTFOLD_F32);
  softfold_row_states_view view;
  float lse[rows] = {0};
  float probabilities[rows * k] = {0};
  softfold_vector to_lse = {NULL, rows, SOFTFOLD_F32, 0};
  softfold_matrix to_probabilities = {NULL, rows, k, k, SOFTFOLD_F32, 0};
  unsigned char* bytes;
  size_t size = 0;
  int side;

  to_lse.data = lse;
  to_probabilities.data = probabilities;
  part.cols = 2;
  for (side = 0; side < 2; ++side) {
    OK(softfold_row_states_create(SOFTFOLD_F32, rows, k, 1.0, &half[side]));
    part.data = (float*)softfold_buffer_data(x_memory.memory) + 2 * side;
    OK(softfold_row_states_fold(queue, half[side], &part, 2 * side));
  }
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "columns 2 to 3",
        softfold_row_states_fold(queue, half[1], &part, 2));

  OK(softfold_row_states_to_bytes(half[1], NULL, 0, &size));
  bytes = malloc(size);
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "capacity",
        softfold_row_states_to_bytes(half[1], bytes, size - 1, &size));
  OK(softfold_row_states_to_bytes(half[1], bytes, size, &size));
  OK(softfold_row_states_from_bytes(bytes, size, &received));
  OK(softfold_row_states_combine(queue, half[0], received));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "columns",
        softfold_row_states_combine(queue, half[0], received));
  softfold_row_states_destroy(received);
  FAILS(SOFTFOLD_INVALID_DATA, "truncated",
        softfold_row_states_from_bytes(bytes, size - 1, &received));
  EXPECT(received == NULL);
  bytes[size / 2] ^= 1;
  FAILS(SOFTFOLD_INVALID_DATA, "altered", softfold_row_states_from_bytes(bytes, size, &received));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "bytes", softfold_row_states_from_bytes(NULL, 1, &received));
  free(bytes);

  view.struct_size = sizeof view;
  OK(softfold_row_states_get(half[0], &view));
  EXPECT(view.rows == rows && view.k == k && view.type == SOFTFOLD_F32 && view.scale == 1);
  EXPECT(view.column_ranges == 1 && view.columns[0].begin == 0 && view.columns[0].end == cols);
  EXPECT(memcmp(view.indices, best, sizeof best) == 0);
  EXPECT(near(((const float*)view.values)[0], log(4.0)));
  EXPECT(((const float*)view.partials)[0] == ((const float*)view.values)[0]);

  OK(softfold_row_states_finish(queue, half[0], &to_lse, &to_probabilities,
                                SOFTFOLD_EMPTY_ROW_NAN));
  EXPECT(near(lse[0], log(10.0)) && near(probabilities[0], 0.4) && near(probabilities[k], 1.0 / 3));
  OK(softfold_row_states_finish(queue, half[0], NULL, NULL, SOFTFOLD_EMPTY_ROW_ZERO));
  OK(softfold_row_states_append_rows(half[0], half[0]));
  OK(softfold_row_states_get(half[0], &view));
  EXPECT(view.rows == 2 * rows && memcmp(view.indices + rows * k, best, sizeof best) == 0);
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "columns", softfold_row_states_append_rows(half[0], half[1]));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "empty_row",
        softfold_row_states_finish(queue, half[0], NULL, NULL, 3));
  softfold_row_states_destroy(half[0]);
  softfold_row_states_destroy(half[1]);
}

static void check_scan(softfold_queue* queue, struct device x_memory) {
  const softfold_matrix x = matrix(x_memory, cols, SOFTFOLD_F32);
  float y[rows * cols];
  struct device y_memory = device_of(queue, y, sizeof y);
  const softfold_matrix to = matrix(y_memory, cols, SOFTFOLD_F32);
  softfold_scan_options options = SOFTFOLD_SCAN_OPTIONS_INIT;
  OK(softfold_scan(queue, &x, &to, NULL));
  fetch(y_memory, y, sizeof y);
  EXPECT(near(y[0], 0) && near(y[1], log(3.0)) && near(y[3], log(10.0)) && near(y[7], log(3.0)));
  options.exclusive = options.reverse = 1;
  OK(softfold_scan(queue, &x, &to, &options));
  fetch(y_memory, y, sizeof y);
  EXPECT(near(y[0], log(9.0)) && near(y[2], log(3.0)) && y[3] == -INFINITY);
  options.reverse = 2;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "scan: reverse is 2", softfold_scan(queue, &x, &to, &options));
  softfold_buffer_destroy(y_memory.memory);
}

/* Two queries of one dimension over the keys (0, log 2, log 3): weights 1, 2, 3, of 6. */
/* Keys 0 and 1, then, sent as bytes, key 2. */
static void check_attention_states(softfold_queue* queue, const softfold_tensor* query,
                                   softfold_tensor key, softfold_tensor value) {
  softfold_attention_states *first = NULL, *last = NULL, *received = NULL;
  softfold_attention_states_view view;
  softfold_attention_options options = SOFTFOLD_ATTENTION_OPTIONS_INIT;
  float out[2] = {0}, lse[2] = {0};
  softfold_tensor to = {NULL, 1, 1, 2, 1, 2, 2, 1, SOFTFOLD_F32, 0};
  softfold_vector to_lse = {NULL, 2, SOFTFOLD_F32, 0};
  unsigned char* bytes;
  size_t size = 0;

  to.data = out;
  to_lse.data = lse;
  OK(softfold_attention_states_create(SOFTFOLD_F32, 1, 1, 2, 1, &first));
  OK(softfold_attention_states_create(SOFTFOLD_F32, 1, 1, 2, 1, &last));
  key.tokens = value.tokens = 2;
  OK(softfold_attention_states_fold(queue, first, query, &key, &value, NULL));
  key.tokens = value.tokens = 1;
  key.data = (float*)key.data + 2;
  value.data = (float*)value.data + 2;
  options.key_offset = 2;
  OK(softfold_attention_states_fold(queue, last, query, &key, &value, &options));
  options.key_offset = 1;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "keys 1 to 1",
        softfold_attention_states_fold(queue, first, query, &key, &value, &options));

  OK(softfold_attention_states_to_bytes(last, NULL, 0, &size));
  bytes = malloc(size);
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "capacity",
        softfold_attention_states_to_bytes(last, bytes, size - 1, &size));
  OK(softfold_attention_states_to_bytes(last, bytes, size, &size));
  OK(softfold_attention_states_from_bytes(bytes, size, &received));
  OK(softfold_attention_states_combine(queue, first, received));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "keys 2 to 2",
        softfold_attention_states_combine(queue, first, received));
  softfold_attention_states_destroy(received);
  bytes[size - 8] ^= 1;
  FAILS(SOFTFOLD_INVALID_DATA, "altered",
        softfold_attention_states_from_bytes(bytes, size, &received));
  EXPECT(received == NULL);
  free(bytes);

  OK(softfold_attention_states_finish(queue, first, &to, &to_lse, SOFTFOLD_EMPTY_ROW_ZERO));
  EXPECT(near(out[0], -4) && near(out[1], -4) && near(lse[0], log(6.0)));
  view.struct_size = sizeof view;
  OK(softfold_attention_states_get(first, &view));
  EXPECT(view.key_ranges == 1 && view.keys[0].begin == 0 && view.keys[0].end == 3);
  EXPECT(view.tokens == 2 && view.dim == 1 && view.has_sinks == 0 && view.type == SOFTFOLD_F32);
  EXPECT(near(((const float*)view.states)[1], 2) && near(((const float*)view.weighted)[0], -8));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "attention_states: dim is 0",
        softfold_attention_states_create(SOFTFOLD_F32, 1, 1, 2, 0, &received));
  softfold_attention_states_destroy(first);
  softfold_attention_states_destroy(last);
  softfold_attention_states_destroy(NULL);
}

static void check_attention(softfold_queue* queue) {
  const float one[2] = {1, 1}, values[3] = {6, 12, -18};
  float keys[3], out[2] = {0}, lse[2] = {0}, states[4] = {0};
  struct device query_memory, key_memory, value_memory, out_memory, lse_memory, state_memory;
  const double scale = 1;
  softfold_tensor query = {NULL, 1, 1, 2, 1, 2, 2, 1, SOFTFOLD_F32, 0};
  softfold_tensor key = {NULL, 1, 1, 3, 1, 3, 3, 1, SOFTFOLD_F32, 0};
  softfold_tensor value = key, to = query, to_lse = query;
  softfold_vector state = {NULL, 2, SOFTFOLD_F32, 0};
  const int32_t starts[6] = {0, 1, 2, 0, 2, 3};
  struct device starts_memory = device_of(queue, starts, sizeof starts);
  softfold_vector first_queries = {softfold_buffer_data(starts_memory.memory), 3, SOFTFOLD_I32, 0};
  softfold_vector first_keys = first_queries;
  softfold_attention_options options = SOFTFOLD_ATTENTION_OPTIONS_INIT;
  int i;

  first_keys.data = (int32_t*)first_queries.data + 3;
  for (i = 0; i < 3; ++i) keys[i] = (float)log(i + 1.0);
  query_memory = device_of(queue, one, sizeof one);
  key_memory = device_of(queue, keys, sizeof keys);
  value_memory = device_of(queue, values, sizeof values);
  out_memory = device_of(queue, out, sizeof out);
  lse_memory = device_of(queue, lse, sizeof lse);
  state_memory = device_of(queue, states, sizeof states);
  query.data = softfold_buffer_data(query_memory.memory);
  key.data = softfold_buffer_data(key_memory.memory);
  value.data = softfold_buffer_data(value_memory.memory);
  to.data = softfold_buffer_data(out_memory.memory);
  to_lse.data = softfold_buffer_data(lse_memory.memory);
  state.data = softfold_buffer_data(state_memory.memory);

  OK(softfold_attention(queue, &query, &key, &value, &to, NULL));
  fetch(out_memory, out, sizeof out);
  EXPECT(near(out[0], -4) && near(out[1], -4)); /* the default scale is 1, too */
  options.scale = &scale;
  options.corner = SOFTFOLD_CAUSAL_BOTTOM_RIGHT;
  options.lse = &to_lse;
  OK(softfold_attention(queue, &query, &key, &value, &to, &options));
  fetch(out_memory, out, sizeof out);
  fetch(lse_memory, lse, sizeof lse);
  EXPECT(near(out[0], 10) && near(out[1], -4) && near(lse[0], log(3.0)) && near(lse[1], log(6.0)));

  options.lse = NULL;
  options.corner = SOFTFOLD_CAUSAL_NONE;
  OK(softfold_fold_attention(queue, &query, &key, &value, &state, &to, &options));
  OK(softfold_combine_attention(queue, &state, &to, &state, &to));
  fetch(state_memory, states, sizeof states);
  fetch(out_memory, out, sizeof out);
  EXPECT(near(states[0], log(3.0)) && near(states[1], 4) && near(out[0], -16));
  OK(softfold_normalize_attention(queue, &state, &to, &to_lse, SOFTFOLD_EMPTY_ROW_ZERO));
  fetch(lse_memory, lse, sizeof lse);
  EXPECT(near(lse[0], -4) && near(lse[1], -4));

  check_attention_states(queue, &query, key, value);

  /* The first query has keys 0 and 1, the second key 2. */
  options.query_starts = &first_queries;
  options.key_starts = &first_keys;
  OK(softfold_attention(queue, &query, &key, &value, &to, &options));
  fetch(out_memory, out, sizeof out);
  EXPECT(near(out[0], 10) && near(out[1], -18));
  options.most_keys = 1;
  OK(softfold_attention(queue, &query, &key, &value, &to, &options));
  fetch(out_memory, out, sizeof out);
  EXPECT(near(out[0], 6) && near(out[1], -18));
  options.most_queries = -1;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "attention: most_queries is -1",
        softfold_attention(queue, &query, &key, &value, &to, &options));

  FAILS(SOFTFOLD_INVALID_ARGUMENT, "attention: value is null",
        softfold_attention(queue, &query, &key, NULL, &to, NULL));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "normalize_attention: empty_row is 5",
        softfold_normalize_attention(queue, &state, &to, &to_lse, 5));
  options.corner = 3;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "attention: corner is 3",
        softfold_attention(queue, &query, &key, &value, &to, &options));
  key.reserved = 1;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "attention: key.reserved is 1",
        softfold_attention(queue, &query, &key, &value, &to, NULL));

  softfold_buffer_destroy(starts_memory.memory);
  softfold_buffer_destroy(query_memory.memory);
  softfold_buffer_destroy(key_memory.memory);
  softfold_buffer_destroy(value_memory.memory);
  softfold_buffer_destroy(out_memory.memory);
  softfold_buffer_destroy(lse_memory.memory);
  softfold_buffer_destroy(state_memory.memory);
}

/* The first row keeps columns 0 and 1, the second columns 2 and 3 by their bits. */
static void check_edits(softfold_queue* queue, struct device x_memory) {
  const softfold_matrix x = matrix(x_memory, cols, SOFTFOLD_F32);
  const int32_t bits[rows] = {3, 12};
  float y[rows * cols];
  float values[rows * k];
  int32_t indices[rows * k];
  struct device mask_memory = device_of(queue, bits, sizeof bits);
  struct device y_memory = device_of(queue, y, sizeof y);
  struct device values_memory = device_of(queue, values, sizeof values);
  struct device indices_memory = device_of(queue, indices, sizeof indices);
  const softfold_matrix to = matrix(y_memory, cols, SOFTFOLD_F32);
  const softfold_matrix best = matrix(values_memory, k, SOFTFOLD_F32);
  const softfold_matrix where = matrix(indices_memory, k, SOFTFOLD_I32);
  const softfold_matrix mask = matrix(mask_memory, 1, SOFTFOLD_I32);
  softfold_row_edits edits = SOFTFOLD_ROW_EDITS_INIT;
  softfold_softmax_options options = SOFTFOLD_SOFTMAX_OPTIONS_INIT;
  softfold_topk_options topk_options = SOFTFOLD_TOPK_OPTIONS_INIT;
  softfold_row_states_fold_options fold_options = SOFTFOLD_ROW_STATES_FOLD_OPTIONS_INIT;
  softfold_row_states* states = NULL;
  softfold_row_states_view view;
  edits.mask = &mask;
  options.edits = topk_options.edits = fold_options.edits = &edits;
  OK(softfold_softmax(queue, &x, &to, &options));
  OK(softfold_topk_with_options(queue, &x, &best, &where, &topk_options));
  fetch(y_memory, y, sizeof y);
  fetch(indices_memory, indices, sizeof indices);
  EXPECT(near(y[0], 1.0 / 3) && near(y[1], 2.0 / 3) && y[2] == 0 && y[3] == 0);
  EXPECT(y[4] == 0 && y[5] == 0 && near(y[6], 0.5) && near(y[7], 0.5));
  EXPECT(indices[0] == 1 && indices[1] == 0 && indices[2] == 2 && indices[3] == 3);
  OK(softfold_row_states_create(SOFTFOLD_F32, rows, cols, 1.0, &states));
  fold_options.column_offset = 10;
  OK(softfold_row_states_fold_with_options(queue, states, &x, &fold_options));
  view.struct_size = sizeof view;
  OK(softfold_row_states_get(states, &view));
  EXPECT(view.columns[0].begin == 10 && view.columns[0].end == 10 + cols);
  EXPECT(view.indices[0] == 11 && view.indices[1] == 10 && view.indices[2] == -1);
  EXPECT(view.indices[cols] == 12 && view.indices[cols + 1] == 13 && view.indices[cols + 2] == -1);
  EXPECT(near(((const float*)view.partials)[1], 1.5) && ((const float*)view.partials)[3] == 2);
  fold_options.column_offset = -1;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "column_offset is -1",
        softfold_row_states_fold_with_options(queue, states, &x, &fold_options));
  edits.window = 1;
  fold_options.column_offset = 20;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "edits.window is 1",
        softfold_row_states_fold_with_options(queue, states, &x, &fold_options));
  edits.window = 0;
  softfold_row_states_destroy(states);
  edits.corner = 7;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "softmax: edits.corner is 7",
        softfold_softmax(queue, &x, &to, &options));
  edits.corner = SOFTFOLD_CAUSAL_TOP_LEFT;
  edits.queries = rows;
  edits.mask = NULL;
  OK(softfold_softmax(queue, &x, &to, &options));
  fetch(y_memory, y, sizeof y);
  EXPECT(y[0] == 1 && y[1] == 0 && y[4] == 1 && y[5] == 0); /* the second is log 1 and log 0 */
  edits.reserved = 1;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "edits.reserved is 1",
        softfold_softmax(queue, &x, &to, &options));
  softfold_buffer_destroy(mask_memory.memory);
  softfold_buffer_destroy(y_memory.memory);
  softfold_buffer_destroy(values_memory.memory);
  softfold_buffer_destroy(indices_memory.memory);
}

static void check_errors(softfold_queue* queue, struct device x_memory) {
  const softfold_matrix x = matrix(x_memory, cols, SOFTFOLD_F32);
  softfold_matrix wrong = x;
  softfold_queue* none = queue;
  softfold_buffer* no_buffer = NULL;
  softfold_row_states* no_states = NULL;
  softfold_queue_options queue_options = SOFTFOLD_QUEUE_OPTIONS_INIT;
  struct {
    softfold_softmax_options known;
    double later;
  } longer = {SOFTFOLD_SOFTMAX_OPTIONS_INIT, 0};
  softfold_softmax_options* options = &longer.known;
  char one_byte = 0;

  FAILS(SOFTFOLD_INVALID_ARGUMENT, "queue is null", softfold_softmax(NULL, &x, &x, NULL));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "x is null", softfold_softmax(queue, NULL, &x, NULL));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "y is null", softfold_softmax(queue, &x, NULL, NULL));
  wrong.stride = cols - 1;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "softmax: x.stride is 3",
        softfold_softmax(queue, &wrong, &x, NULL));
  wrong = x;
  wrong.type = 256; /* would be f32 if it were cut to 8 bits */
  FAILS(SOFTFOLD_UNSUPPORTED_TYPE, "x.type is 256", softfold_softmax(queue, &wrong, &x, NULL));
  wrong.type = SOFTFOLD_I32;
  FAILS(SOFTFOLD_UNSUPPORTED_TYPE, "i32", softfold_softmax(queue, &wrong, &x, NULL));
  wrong = x;
  wrong.reserved = 1;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "reserved is 1", softfold_softmax(queue, &wrong, &x, NULL));

  options->scale = INFINITY;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "scale", softfold_softmax(queue, &x, &x, options));
  options->scale = 1;
  options->empty_row = 2;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "empty_row is 2", softfold_softmax(queue, &x, &x, options));
  options->empty_row = SOFTFOLD_EMPTY_ROW_ZERO;
  options->struct_size = 4;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "struct_size is 4", softfold_softmax(queue, &x, &x, options));
  /* A later version's struct: accepted while what this version does not know is 0. */
  options->struct_size = sizeof longer;
  OK(softfold_softmax(queue, &x, &x, options));
  longer.later = 0.5;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "options.struct_size", softfold_softmax(queue, &x, &x, options));
  /* An earlier version's, which had the scale alone. */
  options->struct_size = offsetof(softfold_softmax_options, empty_row);
  options->empty_row = 77;
  OK(softfold_softmax(queue, &x, &x, options));

  queue_options.threads = -1;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "threads is -1", softfold_queue_create(&queue_options, &none));
  EXPECT(none == NULL);
  queue_options.threads = 1;
  queue_options.numerics = 2;
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "options.numerics is 2",
        softfold_queue_create(&queue_options, &none));
  queue_options.numerics = SOFTFOLD_NUMERICS_REPRODUCIBLE;
  OK(softfold_queue_create(&queue_options, &none));
  OK(softfold_softmax(none, &x, &x, NULL));
  OK(softfold_queue_wait(none));
  softfold_queue_destroy(none);
  /* An earlier version's, which had no numerics. */
  queue_options.struct_size = offsetof(softfold_queue_options, numerics);
  queue_options.numerics = 2;
  OK(softfold_queue_create(&queue_options, &none));
  softfold_queue_destroy(none);
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "queue is null", softfold_queue_create(NULL, NULL));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "queue is null", softfold_queue_wait(NULL));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "memory is 5", softfold_buffer_create(queue, 8, 5, &no_buffer));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "offset + bytes",
        softfold_buffer_upload(queue, x_memory.memory, &one_byte, 1,
                               softfold_buffer_size(x_memory.memory)));
  FAILS(SOFTFOLD_INVALID_ARGUMENT, "buffer is null",
        softfold_buffer_upload(queue, NULL, &one_byte, 1, 0));
  FAILS(SOFTFOLD_UNSUPPORTED_TYPE, "f16",
        softfold_row_states_create(SOFTFOLD_F16, 1, 1, 1, &no_states));
  FAILS(SOFTFOLD_UNSUPPORTED_TYPE, "99", softfold_row_states_create(99, 1, 1, 1, &no_states));
#ifndef SOFTFOLD_TEST_REDUCED /* the address sanitizer stops the program instead */
  FAILS(SOFTFOLD_OUT_OF_MEMORY, "no memory",
        softfold_row_states_create(SOFTFOLD_F32, (int64_t)1 << 55, 1, 1, &no_states));
#endif
  EXPECT(no_states == NULL);
  EXPECT(strcmp(softfold_status_name(SOFTFOLD_INVALID_DATA), "invalid_data") == 0);
  EXPECT(strcmp(softfold_status_name(77), "unknown") == 0);
  EXPECT(strcmp(softfold_status_name(-1), "unknown") == 0);
}

int main(void) {
  float x[rows * cols];
  softfold_queue* queue = NULL;
  softfold_device_info info;
  struct device x_memory;
  int i;

  EXPECT(softfold_last_error()[0] == '\0');
  for (i = 0; i < rows * cols; ++i) x[i] = (float)log(weights[i / cols][i % cols]);
  OK(softfold_queue_create(NULL, &queue));
  OK(softfold_queue_reserve(queue, 1 << 16));
  info.struct_size = sizeof info;
  OK(softfold_queue_info(queue, &info));
  EXPECT(strcmp(info.backend, softfold_backend()) == 0 && strlen(info.device) > 0);
  /* An earlier version's struct, which ended after the backend's name. */
  info.struct_size = offsetof(softfold_device_info, device);
  info.threads = -7;
  OK(softfold_queue_info(queue, &info));
  EXPECT(info.threads == -7);
  printf("softfold %s, %s\n", softfold_version(), info.backend);

  x_memory = device_of(queue, x, sizeof x);
  check_rows(queue, x_memory);
  check_samples(queue, x_memory);
  check_sample_parts(queue, x_memory);
  check_sampled_states(queue, x_memory);
  check_verification(queue);
  check_parts(queue, x_memory);
  check_exact_parts(queue);
  check_states(queue, x_memory);
  check_edits(queue, x_memory);
  check_scan(queue, x_memory);
  check_attention(queue);
  check_errors(queue, x_memory);
  softfold_buffer_destroy(x_memory.memory);
  softfold_buffer_destroy(NULL);
  softfold_row_states_destroy(NULL);
  softfold_queue_destroy(queue);
  softfold_queue_destroy(NULL);
  if (failures == 0) printf("ok\n");
  return failures == 0 ? 0 : 1;
}
