// SPDX-License-Identifier: Apache-2.0
/**
 * \file
 * The C interface (C99) to everything in softfold.hpp, attention.hpp, row_states.hpp and
 * attention_states.hpp, for programs in C and for bindings. The headers in C++ are the reference
 * for what a function computes; this one says how arguments and errors travel.
 *
 * - Every function that can fail returns a status, SOFTFOLD_SUCCESS = 0 or what went wrong;
 *   softfold_last_error() has the text. A wrong argument is found before anything is written. No
 *   exception leaves a function.
 * - A matrix is a pointer, a shape, a row stride and a type, passed by address; the library reads
 *   the struct and keeps nothing of it. `data` of an input is not written to. Sizes and strides
 *   count elements.
 * - Options: NULL is the default for everything. Otherwise start from the *_INIT macro, which sets
 *   struct_size: a library that is newer than the program fills in defaults for what the program's
 *   struct lacks; one that is older refuses a struct whose additional members are not 0. Reserved
 *   members are 0.
 * - Work is asynchronous where the backend is: results may be read after softfold_queue_wait().
 *   One queue is used by one thread at a time. Objects of other kinds may be read by several.
 * - The calling thread's floating-point environment changes no result, and is left as it was.
 * - The names are the same in every backend's library, so one binding serves all. A program links
 *   one of them. To use two in one process, load each with dlopen(RTLD_LOCAL) and take functions
 *   from it by dlsym: objects of one library must not be given to the other's functions.
 *   (Programs in C++ can link two backends; their C++ names differ.)
 *
 * The ABI is versioned by major and minor version, as is the shared library's name. Within a
 * version functions and members at the end of structs are added only.
 */
#ifndef SOFTFOLD_SOFTFOLD_H
#define SOFTFOLD_SOFTFOLD_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SOFTFOLD_C_API __attribute__((visibility("default")))
#else
#define SOFTFOLD_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ---- */

typedef int32_t softfold_status;
enum {
  SOFTFOLD_SUCCESS = 0,
  SOFTFOLD_INVALID_ARGUMENT = 1, /**< a size, pointer, stride, k, scale, overlap or option */
  SOFTFOLD_UNSUPPORTED_TYPE = 2, /**< a type, or pair of types, that the function does not take */
  SOFTFOLD_OUT_OF_MEMORY = 3,
  SOFTFOLD_BACKEND_FAILURE = 4, /**< the backend's runtime reported a fault */
  SOFTFOLD_INVALID_DATA = 5,    /**< bytes that are not what they are read as */
  SOFTFOLD_INTERNAL_ERROR = 6   /**< anything else: a fault of this library */
};

/** The text of the last failure on this thread: function, argument, value and what was expected.
 *  Empty before the first. Valid until the next failure on this thread. Never NULL. */
SOFTFOLD_C_API const char* softfold_last_error(void);

/** "success", "invalid_argument", ...; "unknown" for other numbers. */
SOFTFOLD_C_API const char* softfold_status_name(softfold_status status);

/** The version of the library that runs, "0.1.0". */
SOFTFOLD_C_API const char* softfold_version(void);

/** "cpu", "cuda", "hip" or "kokkos". */
SOFTFOLD_C_API const char* softfold_backend(void);

/* ---- types, views and options ---- */

typedef int32_t softfold_dtype;
enum {
  SOFTFOLD_F32 = 0,
  SOFTFOLD_F64 = 1,
  SOFTFOLD_F16 = 2,
  SOFTFOLD_BF16 = 3,
  SOFTFOLD_I32 = 4,
  SOFTFOLD_I64 = 5,
  SOFTFOLD_U8 = 6,
  /* of vectors of states only */
  SOFTFOLD_EXACT_F32 = 32, /**< softfold_exact_max_sum_f32 */
  SOFTFOLD_EXACT_F64 = 33  /**< softfold_exact_max_sum_f64 */
};

/** rows * cols elements; row r starts at element r * stride, stride >= cols. */
typedef struct softfold_matrix {
  void* data;
  int64_t rows;
  int64_t cols;
  int64_t stride;
  softfold_dtype type;
  int32_t reserved;
} softfold_matrix;

/** Contiguous elements; as row states, pairs of (max, sum): `size` counts pairs, `type` is that of
 *  each number, SOFTFOLD_F32 or SOFTFOLD_F64; or states with exact sums, SOFTFOLD_EXACT_F32 or
 *  SOFTFOLD_EXACT_F64. */
typedef struct softfold_vector {
  void* data;
  int64_t size;
  softfold_dtype type;
  int32_t reserved;
} softfold_vector;

/** [batches, heads, tokens, dim]: element (b, h, t, d) is number b batch_stride + h head_stride +
 *  t token_stride + d. */
typedef struct softfold_tensor {
  void* data;
  int64_t batches;
  int64_t heads;
  int64_t tokens;
  int64_t dim;
  int64_t batch_stride;
  int64_t head_stride;
  int64_t token_stride;
  softfold_dtype type;
  int32_t reserved;
} softfold_tensor;

/** What softmax and log-softmax write for a row of -infinity only. */
enum {
  SOFTFOLD_EMPTY_ROW_NAN = 0,
  SOFTFOLD_EMPTY_ROW_ZERO = 1 /**< 0; -infinity for log-softmax */
};

/** Which keys a query of a score matrix sees. */
enum {
  SOFTFOLD_CAUSAL_NONE = 0,
  SOFTFOLD_CAUSAL_TOP_LEFT = 1,    /**< query i, those up to column i */
  SOFTFOLD_CAUSAL_BOTTOM_RIGHT = 2 /**< up to column i + (cols - queries) */
};

/** Edits of the rows that a function reads, before the scale; row_edits.hpp says what each does.
 *  NULL and 0: nothing. */
typedef struct softfold_row_edits {
  size_t struct_size;
  const softfold_matrix* bias;
  const softfold_vector* penalty_rows;
  const softfold_vector* penalty_columns;
  const softfold_vector* penalty_counts;
  const softfold_vector* repetition;
  const softfold_vector* frequency;
  const softfold_vector* presence;
  double softcap;
  const softfold_matrix* mask;
  const softfold_vector* lengths;
  int32_t corner;
  int32_t reserved;
  int64_t queries;
  int64_t window;
} softfold_row_edits;
#define SOFTFOLD_ROW_EDITS_INIT                                                            \
  {                                                                                        \
    sizeof(softfold_row_edits), NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0.0, NULL, NULL, \
        SOFTFOLD_CAUSAL_NONE, 0, 0, 0                                                      \
  }

typedef struct softfold_softmax_options {
  size_t struct_size;
  double scale;
  int32_t empty_row;
  int32_t reserved;
  const softfold_row_edits* edits; /**< NULL: none */
} softfold_softmax_options;
#define SOFTFOLD_SOFTMAX_OPTIONS_INIT \
  { sizeof(softfold_softmax_options), 1.0, SOFTFOLD_EMPTY_ROW_NAN, 0, NULL }

typedef struct softfold_logsumexp_options {
  size_t struct_size;
  double scale;
  const softfold_row_edits* edits; /**< NULL: none */
} softfold_logsumexp_options;
#define SOFTFOLD_LOGSUMEXP_OPTIONS_INIT \
  { sizeof(softfold_logsumexp_options), 1.0, NULL }

typedef struct softfold_backward_options {
  size_t struct_size;
  double scale;                    /**< that of the softmax or log-softmax */
  const softfold_row_edits* edits; /**< NULL: none; without penalties and softcap */
} softfold_backward_options;
#define SOFTFOLD_BACKWARD_OPTIONS_INIT \
  { sizeof(softfold_backward_options), 1.0, NULL }

typedef struct softfold_topk_options {
  size_t struct_size;
  const softfold_row_edits* edits; /**< NULL: none */
} softfold_topk_options;
#define SOFTFOLD_TOPK_OPTIONS_INIT \
  { sizeof(softfold_topk_options), NULL }

typedef struct softfold_scan_options {
  size_t struct_size;
  double scale;
  int32_t exclusive;                /**< 1: without the column itself */
  int32_t reverse;                  /**< 1: from the last column on */
  const softfold_vector* carry_in;  /**< states of what comes before; NULL: nothing */
  const softfold_vector* carry_out; /**< NULL: not wanted */
  const softfold_row_edits* edits;  /**< NULL: none */
} softfold_scan_options;
#define SOFTFOLD_SCAN_OPTIONS_INIT \
  { sizeof(softfold_scan_options), 1.0, 0, 0, NULL, NULL, NULL }

typedef struct softfold_softmax_topk_options {
  size_t struct_size;
  double scale;
  int32_t empty_row;
  int32_t reserved;
  const softfold_matrix* logits;   /**< NULL: not wanted */
  const softfold_vector* lse;      /**< NULL: not wanted */
  const softfold_row_edits* edits; /**< NULL: none */
} softfold_softmax_topk_options;
#define SOFTFOLD_SOFTMAX_TOPK_OPTIONS_INIT \
  { sizeof(softfold_softmax_topk_options), 1.0, SOFTFOLD_EMPTY_ROW_NAN, 0, NULL, NULL, NULL }

typedef struct softfold_fold_topk_options {
  size_t struct_size;
  double scale;
  int64_t column_offset;
  const softfold_row_edits* edits; /**< NULL: none */
} softfold_fold_topk_options;
#define SOFTFOLD_FOLD_TOPK_OPTIONS_INIT \
  { sizeof(softfold_fold_topk_options), 1.0, 0, NULL }

typedef struct softfold_row_states_fold_options {
  size_t struct_size;
  int64_t column_offset;           /**< the column of the whole row that column 0 of the part is */
  const softfold_row_edits* edits; /**< of the part; NULL: none */
} softfold_row_states_fold_options;
#define SOFTFOLD_ROW_STATES_FOLD_OPTIONS_INIT \
  { sizeof(softfold_row_states_fold_options), 0, NULL }

/** Which elements a filter of softfold_sample counts. */
enum {
  SOFTFOLD_TOP_K_FIRST = 0, /**< top-p counts what min-p and top-k left */
  SOFTFOLD_JOINT = 1        /**< every filter counts the whole row */
};

/** A vector with one entry for each row wins over the number; NULL: the number. Results: NULL if
 *  they are not wanted. */
typedef struct softfold_sample_options {
  size_t struct_size;
  double temperature;
  double top_p;
  double min_p;
  int64_t top_k;
  uint64_t seed;
  uint64_t offset;
  int32_t order;
  int32_t reserved;
  const softfold_vector* temperatures;          /**< f32 or f64 */
  const softfold_vector* top_ps;                /**< f32 or f64 */
  const softfold_vector* min_ps;                /**< f32 or f64 */
  const softfold_vector* top_ks;                /**< i32 or i64 */
  const softfold_vector* seeds;                 /**< i64, all 64 bits used */
  const softfold_vector* offsets;               /**< i64, all 64 bits used */
  const softfold_matrix* log_probability;       /**< [rows, draws] */
  const softfold_matrix* raw_log_probability;   /**< [rows, draws] */
  const softfold_vector* lse;                   /**< [rows] */
  const softfold_vector* kept;                  /**< [rows], i32 or i64 */
  const softfold_vector* kept_mass;             /**< [rows] */
  const softfold_matrix* top_indices;           /**< [rows, n], i32 or i64 */
  const softfold_matrix* top_log_probabilities; /**< [rows, n] */
  const softfold_row_edits* edits;              /**< NULL: none */
} softfold_sample_options;
#define SOFTFOLD_SAMPLE_OPTIONS_INIT                                                              \
  {                                                                                               \
    sizeof(softfold_sample_options), 1.0, 1.0, 0.0, 0, 0, 0, SOFTFOLD_TOP_K_FIRST, 0, NULL, NULL, \
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                    \
  }

/** A sum of exponentials in digits, of which no bit depends on the order of additions;
 *  sample_state.hpp says how. */
typedef struct softfold_exponential_sum {
  int64_t top;
  uint64_t words[3];
} softfold_exponential_sum;

/** What drawing one token from a row has to know of a part of its columns: plain data, which may be
 *  copied, sent and compared. sample_state.hpp says what the members are. */
typedef struct softfold_sample_state {
  uint64_t seed;
  uint64_t offset;
  int64_t draw;
  double scale;
  double top_p;
  double min_p;
  int64_t top_k;
  double largest;
  int64_t largest_column;
  double key;
  double value;
  int64_t column;
  int64_t count;
  softfold_exponential_sum sum;
  softfold_exponential_sum raw_sum;
} softfold_sample_state;

typedef struct softfold_fold_sample_options {
  size_t struct_size;
  double temperature;
  double top_p;
  double min_p;
  int64_t top_k;
  uint64_t seed;
  uint64_t offset;
  int64_t draw; /**< which of the offset's draws, 0 to 2^21 - 1 */
  int64_t column_offset;
  const softfold_vector* temperatures; /**< f32 or f64 */
  const softfold_vector* top_ps;       /**< f32 or f64 */
  const softfold_vector* min_ps;       /**< f32 or f64 */
  const softfold_vector* top_ks;       /**< i32 or i64 */
  const softfold_vector* seeds;        /**< i64, all 64 bits used */
  const softfold_vector* offsets;      /**< i64, all 64 bits used */
  const softfold_row_edits* edits;     /**< NULL: none */
} softfold_fold_sample_options;
#define SOFTFOLD_FOLD_SAMPLE_OPTIONS_INIT                                                       \
  {                                                                                             \
    sizeof(softfold_fold_sample_options), 1.0, 1.0, 0.0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, \
        NULL, NULL, NULL                                                                        \
  }

/** Results, [rows]; NULL if they are not wanted. */
typedef struct softfold_finish_sample_options {
  size_t struct_size;
  const softfold_vector* log_probability; /**< f32 or f64, as the next ones */
  const softfold_vector* raw_log_probability;
  const softfold_vector* lse;
  const softfold_vector* kept_mass;
  const softfold_vector* kept; /**< i32 or i64 */
} softfold_finish_sample_options;
#define SOFTFOLD_FINISH_SAMPLE_OPTIONS_INIT \
  { sizeof(softfold_finish_sample_options), NULL, NULL, NULL, NULL, NULL }

/* ---- queues ---- */

typedef struct softfold_queue softfold_queue;

/** Whether a row's results have the same bits on every backend, whatever the call around it:
 * docs/numerics.md says which bits, softfold/queue.hpp which functions. */
enum { SOFTFOLD_NUMERICS_FAST = 0, SOFTFOLD_NUMERICS_REPRODUCIBLE = 1 };

typedef struct softfold_queue_options {
  size_t struct_size;
  int32_t threads;  /**< host threads; 0: all that the process may run on */
  int32_t device;   /**< number of the GPU; -1: the thread's current one */
  int32_t numerics; /**< a SOFTFOLD_NUMERICS_ */
  int32_t reserved;
} softfold_queue_options;
#define SOFTFOLD_QUEUE_OPTIONS_INIT \
  { sizeof(softfold_queue_options), 0, -1, SOFTFOLD_NUMERICS_FAST, 0 }

/** What a queue runs on. Texts are valid as long as the queue. */
typedef struct softfold_device_info {
  size_t struct_size; /**< set by the caller: at most that much is written */
  const char* backend;
  const char* device;
  const char* isa;
  int32_t threads;
  int32_t reserved;
  uint64_t l1_bytes;
  uint64_t l2_bytes;
  uint64_t l3_bytes;
} softfold_device_info;

/** *queue becomes a new queue, or NULL on failure. */
SOFTFOLD_C_API softfold_status softfold_queue_create(const softfold_queue_options* options,
                                                     softfold_queue** queue);
/** A queue whose calls go to `stream`, a cudaStream_t (cuda) or hipStream_t (hip) of the device
 * that is current now; NULL is the default stream. The stream stays the caller's and must live as
 * long as the queue. Calls can be captured in a graph once the queue's scratch memory has grown: by
 * the same call before, or softfold_queue_reserve(). Other backends have no streams:
 *  SOFTFOLD_INVALID_ARGUMENT. */
SOFTFOLD_C_API softfold_status softfold_queue_create_on(void* stream, softfold_queue** queue);
/** The same with options, of which numerics counts. */
SOFTFOLD_C_API softfold_status softfold_queue_create_on_with_options(
    void* stream, const softfold_queue_options* options, softfold_queue** queue);
/** NULL is accepted. */
SOFTFOLD_C_API void softfold_queue_destroy(softfold_queue* queue);
SOFTFOLD_C_API softfold_status softfold_queue_wait(softfold_queue* queue);
SOFTFOLD_C_API softfold_status softfold_queue_reserve(softfold_queue* queue, size_t bytes);
SOFTFOLD_C_API softfold_status softfold_queue_info(const softfold_queue* queue,
                                                   softfold_device_info* info);

/* ---- memory of the queue's device ---- */

typedef struct softfold_buffer softfold_buffer;

enum {
  SOFTFOLD_MEMORY_DEVICE = 0,
  SOFTFOLD_MEMORY_HOST = 1 /**< the host's, from which copies are fast */
};

SOFTFOLD_C_API softfold_status softfold_buffer_create(softfold_queue* queue, size_t bytes,
                                                      int32_t memory, softfold_buffer** buffer);
/** NULL is accepted. */
SOFTFOLD_C_API void softfold_buffer_destroy(softfold_buffer* buffer);
SOFTFOLD_C_API void* softfold_buffer_data(const softfold_buffer* buffer);
SOFTFOLD_C_API size_t softfold_buffer_size(const softfold_buffer* buffer);
/** `from` must stay as it is until softfold_queue_wait(). */
SOFTFOLD_C_API softfold_status softfold_buffer_upload(softfold_queue* queue,
                                                      softfold_buffer* buffer, const void* from,
                                                      size_t bytes, size_t offset);
/** Complete after softfold_queue_wait(). */
SOFTFOLD_C_API softfold_status softfold_buffer_download(softfold_queue* queue,
                                                        const softfold_buffer* buffer, void* to,
                                                        size_t bytes, size_t offset);

/* ---- rows ---- */

SOFTFOLD_C_API softfold_status softfold_softmax(softfold_queue* queue, const softfold_matrix* x,
                                                const softfold_matrix* y,
                                                const softfold_softmax_options* options);
SOFTFOLD_C_API softfold_status softfold_log_softmax(softfold_queue* queue, const softfold_matrix* x,
                                                    const softfold_matrix* y,
                                                    const softfold_softmax_options* options);
SOFTFOLD_C_API softfold_status softfold_logsumexp(softfold_queue* queue, const softfold_matrix* x,
                                                  const softfold_vector* lse,
                                                  const softfold_logsumexp_options* options);
/** The logsumexp of every prefix of each row; softfold.hpp says which. */
SOFTFOLD_C_API softfold_status softfold_scan(softfold_queue* queue, const softfold_matrix* x,
                                             const softfold_matrix* lse,
                                             const softfold_scan_options* options);
/** y is the result of the softmax, dy its gradient, dx becomes that of x; dx may be y or dy. */
SOFTFOLD_C_API softfold_status softfold_softmax_backward(softfold_queue* queue,
                                                         const softfold_matrix* y,
                                                         const softfold_matrix* dy,
                                                         const softfold_matrix* dx,
                                                         const softfold_backward_options* options);
SOFTFOLD_C_API softfold_status softfold_log_softmax_backward(
    softfold_queue* queue, const softfold_matrix* y, const softfold_matrix* dy,
    const softfold_matrix* dx, const softfold_backward_options* options);
/** k is the number of columns of `indices`. */
SOFTFOLD_C_API softfold_status softfold_topk(softfold_queue* queue, const softfold_matrix* x,
                                             const softfold_matrix* values,
                                             const softfold_matrix* indices);
SOFTFOLD_C_API softfold_status softfold_topk_with_options(softfold_queue* queue,
                                                          const softfold_matrix* x,
                                                          const softfold_matrix* values,
                                                          const softfold_matrix* indices,
                                                          const softfold_topk_options* options);
SOFTFOLD_C_API softfold_status softfold_softmax_topk(softfold_queue* queue,
                                                     const softfold_matrix* x,
                                                     const softfold_matrix* probabilities,
                                                     const softfold_matrix* indices,
                                                     const softfold_softmax_topk_options* options);

/** tokens is [rows, draws], i32 or i64: columns of x drawn from the softmax of x / temperature. */
SOFTFOLD_C_API softfold_status softfold_sample(softfold_queue* queue, const softfold_matrix* x,
                                               const softfold_matrix* tokens,
                                               const softfold_sample_options* options);

/** Drafted tokens against a target's logits: draft_tokens [chains, n], tokens [chains, n + 1],
 *  accepted [chains], target [chains * (n + 1), cols]. draft, [chains * n, cols], is NULL for
 * coupled verification. */
SOFTFOLD_C_API softfold_status softfold_verify(softfold_queue* queue, const softfold_matrix* target,
                                               const softfold_matrix* draft,
                                               const softfold_matrix* draft_tokens,
                                               const softfold_matrix* tokens,
                                               const softfold_vector* accepted,
                                               const softfold_sample_options* options);

/* ---- attention ---- */

/** attention_options of attention.hpp, which says what each member does. NULL: none. */
typedef struct softfold_attention_options {
  size_t struct_size;
  const double* scale; /**< NULL: 1 / sqrt(dim) */
  double softcap;
  const softfold_tensor* bias;
  const softfold_vector* alibi_slopes;
  int32_t corner;       /**< SOFTFOLD_CAUSAL_ */
  int32_t empty_row;    /**< SOFTFOLD_EMPTY_ROW_ */
  int64_t window_left;  /**< negative: all */
  int64_t window_right; /**< negative: all */
  const softfold_vector* key_lengths;
  int64_t key_offset;
  int64_t query_offset;
  const softfold_vector* sinks;
  const softfold_tensor* lse;          /**< NULL: not wanted */
  const softfold_vector* query_starts; /**< NULL: tokens are not packed */
  const softfold_vector* key_starts;
  int64_t most_queries;
  int64_t most_keys;
} softfold_attention_options;
#define SOFTFOLD_ATTENTION_OPTIONS_INIT                                              \
  {                                                                                  \
    sizeof(softfold_attention_options), NULL, 0.0, NULL, NULL, SOFTFOLD_CAUSAL_NONE, \
        SOFTFOLD_EMPTY_ROW_ZERO, -1, -1, NULL, 0, 0, NULL, NULL, NULL, NULL, 0, 0    \
  }

SOFTFOLD_C_API softfold_status softfold_attention(softfold_queue* queue,
                                                  const softfold_tensor* query,
                                                  const softfold_tensor* key,
                                                  const softfold_tensor* value,
                                                  const softfold_tensor* out,
                                                  const softfold_attention_options* options);
/** states: pairs of (max, sum), one for each query of each head of each batch. */
SOFTFOLD_C_API softfold_status softfold_fold_attention(
    softfold_queue* queue, const softfold_tensor* query, const softfold_tensor* key,
    const softfold_tensor* value, const softfold_vector* states, const softfold_tensor* weighted,
    const softfold_attention_options* options);
SOFTFOLD_C_API softfold_status softfold_combine_attention(softfold_queue* queue,
                                                          const softfold_vector* more,
                                                          const softfold_tensor* more_weighted,
                                                          const softfold_vector* states,
                                                          const softfold_tensor* weighted);
SOFTFOLD_C_API softfold_status softfold_normalize_attention(softfold_queue* queue,
                                                            const softfold_vector* states,
                                                            const softfold_tensor* weighted,
                                                            const softfold_tensor* out,
                                                            int32_t empty_row);

/* ---- parts of rows ---- */

/** The state of a row or part with an exact sum: exact_max_sum in C++ (max_sum.hpp). The identity
 *  has max = -infinity, top = -65536, all else 0. */
typedef struct softfold_exact_max_sum_f32 {
  float max;
  float lost;
  int64_t top;
  uint64_t words[3][2];
} softfold_exact_max_sum_f32;
typedef struct softfold_exact_max_sum_f64 {
  double max;
  double lost;
  int64_t top;
  uint64_t words[4][2];
} softfold_exact_max_sum_f64;

SOFTFOLD_C_API softfold_status softfold_fold(softfold_queue* queue, const softfold_matrix* x_part,
                                             const softfold_vector* partials,
                                             const softfold_logsumexp_options* options);
SOFTFOLD_C_API softfold_status softfold_combine(softfold_queue* queue, const softfold_vector* more,
                                                const softfold_vector* partials);
SOFTFOLD_C_API softfold_status softfold_normalize(softfold_queue* queue,
                                                  const softfold_matrix* x_part,
                                                  const softfold_vector* partials,
                                                  const softfold_matrix* y,
                                                  const softfold_softmax_options* options);
SOFTFOLD_C_API softfold_status softfold_log_normalize(softfold_queue* queue,
                                                      const softfold_matrix* x_part,
                                                      const softfold_vector* partials,
                                                      const softfold_matrix* y,
                                                      const softfold_softmax_options* options);
SOFTFOLD_C_API softfold_status softfold_logsumexp_of_partials(softfold_queue* queue,
                                                              const softfold_vector* partials,
                                                              const softfold_vector* lse);
/** `partials` may be NULL: then only the lists are made. */
SOFTFOLD_C_API softfold_status softfold_fold_topk(softfold_queue* queue,
                                                  const softfold_matrix* x_part,
                                                  const softfold_vector* partials,
                                                  const softfold_matrix* values,
                                                  const softfold_matrix* indices,
                                                  const softfold_fold_topk_options* options);
SOFTFOLD_C_API softfold_status softfold_combine_topk(softfold_queue* queue,
                                                     const softfold_matrix* more_values,
                                                     const softfold_matrix* more_indices,
                                                     const softfold_matrix* values,
                                                     const softfold_matrix* indices);

/** `states`: one for each row. `values` and `indices`, [rows, k], may both be NULL where no row has
 * a top_k; so in the next two functions. */
SOFTFOLD_C_API softfold_status softfold_fold_sample(softfold_queue* queue,
                                                    const softfold_matrix* x_part,
                                                    softfold_sample_state* states, int64_t rows,
                                                    const softfold_matrix* values,
                                                    const softfold_matrix* indices,
                                                    const softfold_fold_sample_options* options);
SOFTFOLD_C_API softfold_status softfold_combine_sample(
    softfold_queue* queue, const softfold_sample_state* more, int64_t rows,
    const softfold_matrix* more_values, const softfold_matrix* more_indices,
    softfold_sample_state* states, const softfold_matrix* values, const softfold_matrix* indices);
/** tokens is [rows], i32 or i64. */
SOFTFOLD_C_API softfold_status softfold_finish_sample(
    softfold_queue* queue, const softfold_sample_state* states, int64_t rows,
    const softfold_matrix* values, const softfold_matrix* indices, const softfold_vector* tokens,
    const softfold_finish_sample_options* options);

/* ---- the states of rows as a value (row_states.hpp) ---- */

typedef struct softfold_row_states softfold_row_states;

typedef struct softfold_column_range {
  int64_t begin;
  int64_t end;
} softfold_column_range;

/** What states hold. Pointers are to the states' own memory, the host's, not to be written to and
 *  valid until the states change. */
typedef struct softfold_row_states_view {
  size_t struct_size; /**< set by the caller: at most that much is written */
  softfold_dtype type;
  int32_t reserved;
  int64_t rows;
  int64_t k;
  double scale;
  int64_t column_ranges;
  const softfold_column_range* columns;
  const void* partials;                 /**< [rows] states of `type`; see numerics */
  const void* values;                   /**< [rows, k] of `type` */
  const int64_t* indices;               /**< [rows, k], -1 for an absent entry */
  const softfold_sample_state* samples; /**< [rows], or NULL: states without sampling */
  int32_t numerics; /**< SOFTFOLD_NUMERICS_REPRODUCIBLE: partials have exact sums; else are pairs */
  int32_t reserved_2;
} softfold_row_states_view;

/** How a token is drawn from each row: row r has offset `offset` + r. */
typedef struct softfold_row_sampling {
  size_t struct_size;
  double temperature;
  double top_p;
  double min_p;
  int64_t top_k; /**< at most the states' k */
  uint64_t seed;
  uint64_t offset;
  int64_t draw;
} softfold_row_sampling;
#define SOFTFOLD_ROW_SAMPLING_INIT \
  { sizeof(softfold_row_sampling), 1.0, 1.0, 0.0, 0, 0, 0, 0 }

typedef struct softfold_row_states_options {
  size_t struct_size;
  double scale;
  const softfold_row_sampling* sampling; /**< NULL: none */
  int32_t numerics; /**< SOFTFOLD_NUMERICS_REPRODUCIBLE: states with exact sums */
  int32_t reserved;
} softfold_row_states_options;
#define SOFTFOLD_ROW_STATES_OPTIONS_INIT \
  { sizeof(softfold_row_states_options), 1.0, NULL, 0, 0 }

/** *states becomes the states of no columns, or NULL on failure. */
SOFTFOLD_C_API softfold_status softfold_row_states_create(softfold_dtype type, int64_t rows,
                                                          int64_t k, double scale,
                                                          softfold_row_states** states);
/** The same with what drawing tokens has to know; `sampling` may be NULL for its defaults. */
SOFTFOLD_C_API softfold_status softfold_row_states_create_sampling(
    softfold_dtype type, int64_t rows, int64_t k, double scale,
    const softfold_row_sampling* sampling, softfold_row_states** states);
/** `options` may be NULL for its defaults. */
SOFTFOLD_C_API softfold_status softfold_row_states_create_with_options(
    softfold_dtype type, int64_t rows, int64_t k, const softfold_row_states_options* options,
    softfold_row_states** states);
/** NULL is accepted. */
SOFTFOLD_C_API void softfold_row_states_destroy(softfold_row_states* states);
SOFTFOLD_C_API softfold_status softfold_row_states_get(const softfold_row_states* states,
                                                       softfold_row_states_view* view);
SOFTFOLD_C_API softfold_status softfold_row_states_fold(softfold_queue* queue,
                                                        softfold_row_states* states,
                                                        const softfold_matrix* x_part,
                                                        int64_t column_offset);
SOFTFOLD_C_API softfold_status softfold_row_states_fold_with_options(
    softfold_queue* queue, softfold_row_states* states, const softfold_matrix* x_part,
    const softfold_row_states_fold_options* options);
SOFTFOLD_C_API softfold_status softfold_row_states_combine(softfold_queue* queue,
                                                           softfold_row_states* states,
                                                           const softfold_row_states* more);
/** Adds the rows of `more` below. */
SOFTFOLD_C_API softfold_status softfold_row_states_append_rows(softfold_row_states* states,
                                                               const softfold_row_states* more);
/** `lse` and `probabilities`, in the host's memory, may be NULL. */
SOFTFOLD_C_API softfold_status softfold_row_states_finish(softfold_queue* queue,
                                                          const softfold_row_states* states,
                                                          const softfold_vector* lse,
                                                          const softfold_matrix* probabilities,
                                                          int32_t empty_row);
/** The tokens, i32 or i64, and other results of softfold_finish_sample, in the host's memory. */
SOFTFOLD_C_API softfold_status softfold_row_states_finish_sample(
    softfold_queue* queue, const softfold_row_states* states, const softfold_vector* tokens,
    const softfold_finish_sample_options* options);
/** Writes the byte format if it fits into `capacity` bytes, which is an error otherwise; *size
 *  becomes its length in both cases. With bytes = NULL only *size is set. */
SOFTFOLD_C_API softfold_status softfold_row_states_to_bytes(const softfold_row_states* states,
                                                            void* bytes, size_t capacity,
                                                            size_t* size);
/** *states becomes the states that the bytes hold, or NULL on failure. */
SOFTFOLD_C_API softfold_status softfold_row_states_from_bytes(const void* bytes, size_t size,
                                                              softfold_row_states** states);

/* ---- the states of attention as a value (attention_states.hpp) ---- */

typedef struct softfold_attention_states softfold_attention_states;

/** What states hold; see softfold_row_states_view. */
typedef struct softfold_attention_states_view {
  size_t struct_size; /**< set by the caller: at most that much is written */
  softfold_dtype type;
  int32_t has_sinks; /**< whether the heads' sinks are among the scores */
  int64_t batches;
  int64_t heads;
  int64_t tokens;
  int64_t dim;
  int64_t key_ranges;
  const softfold_column_range* keys;
  const void* states;   /**< [batches heads tokens] pairs of (max, sum) of `type` */
  const void* weighted; /**< [batches, heads, tokens, dim] of `type` */
} softfold_attention_states_view;

/** type is SOFTFOLD_F32 or SOFTFOLD_F64, dim that of the values. *states becomes NULL on failure.
 */
SOFTFOLD_C_API softfold_status softfold_attention_states_create(softfold_dtype type,
                                                                int64_t batches, int64_t heads,
                                                                int64_t tokens, int64_t dim,
                                                                softfold_attention_states** states);
/** NULL is allowed. */
SOFTFOLD_C_API void softfold_attention_states_destroy(softfold_attention_states* states);
SOFTFOLD_C_API softfold_status softfold_attention_states_get(
    const softfold_attention_states* states, softfold_attention_states_view* view);
/** The keys are those from options->key_offset on. */
SOFTFOLD_C_API softfold_status softfold_attention_states_fold(
    softfold_queue* queue, softfold_attention_states* states, const softfold_tensor* query,
    const softfold_tensor* key, const softfold_tensor* value,
    const softfold_attention_options* options);
SOFTFOLD_C_API softfold_status
softfold_attention_states_combine(softfold_queue* queue, softfold_attention_states* states,
                                  const softfold_attention_states* more);
/** The results in the host's memory. lse may be NULL: not wanted. */
SOFTFOLD_C_API softfold_status softfold_attention_states_finish(
    softfold_queue* queue, const softfold_attention_states* states, const softfold_tensor* out,
    const softfold_vector* lse, int32_t empty_row);
/** As softfold_row_states_to_bytes. */
SOFTFOLD_C_API softfold_status softfold_attention_states_to_bytes(
    const softfold_attention_states* states, void* bytes, size_t capacity, size_t* size);
/** *states becomes the states that the bytes hold, or NULL on failure. */
SOFTFOLD_C_API softfold_status softfold_attention_states_from_bytes(
    const void* bytes, size_t size, softfold_attention_states** states);

#ifdef __cplusplus
}
#endif

#endif
