// SPDX-License-Identifier: Apache-2.0
// Every allocation of every function of the C interface fails in turn: alone, and with all that
// follow it. The call must then succeed all the same or report out_of_memory, and have changed
// nothing (but rows of outputs that were done by then); the next call works, and no memory is lost.
// For backends whose memory is operator new's.
#include <softfold/softfold.h>

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <vector>

namespace {

std::atomic<long> allocations_left = -1;  // until one fails; below 0: none does
std::atomic<bool> all_fail = false;       // from then on
std::atomic<bool> one_failed = false;
std::atomic<long> live = 0;  // allocations that are not freed

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (one_failed && all_fail) {
    return nullptr;
  }
  if (allocations_left >= 0 && allocations_left.fetch_sub(1) == 0) {
    one_failed = true;
    return nullptr;
  }
  ++live;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* const memory = allocate(size, alignment);
  return memory != nullptr ? memory : throw std::bad_alloc();
}

void release(void* memory) noexcept {
  live -= memory != nullptr ? 1 : 0;
  std::free(memory);
}

constexpr std::size_t usual = alignof(std::max_align_t);

std::size_t number(std::align_val_t alignment) { return static_cast<std::size_t>(alignment); }

}  // namespace

// Arrays come by way of these.
void* operator new(std::size_t n) { return allocate_or_throw(n, usual); }
void* operator new(std::size_t n, std::align_val_t a) { return allocate_or_throw(n, number(a)); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return allocate(n, usual); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(n, number(a));
}
void operator delete(void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }

namespace {

struct shape {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t k;
  std::int32_t threads;
};

using bytes = std::vector<unsigned char>;

template <class T>
bytes bytes_of(const T* data, std::size_t count) {
  bytes result(count * sizeof(T));
  std::memcpy(result.data(), data, result.size());
  return result;
}

template <class T>
softfold_dtype type_of(const T*) {
  return sizeof(T) == 4 ? SOFTFOLD_F32 : SOFTFOLD_I64;
}

/// Arguments of every function, made anew for each call.
struct arguments {
  shape s;
  softfold_queue* queue = nullptr;
  softfold_queue* made_queue = nullptr;
  softfold_buffer* buffer = nullptr;
  softfold_buffer* made_buffer = nullptr;
  softfold_row_states* states = nullptr;
  softfold_row_states* more = nullptr;
  softfold_row_states* made_states = nullptr;
  std::vector<float> x;
  std::vector<float> y;
  std::vector<float> lse;
  std::vector<float> pairs;
  std::vector<float> more_pairs;
  std::vector<float> values;
  std::vector<float> more_values;
  std::vector<float> logits;
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> more_indices;
  std::vector<std::int64_t> counts;
  std::vector<softfold_sample_state> samples;
  std::vector<softfold_sample_state> more_samples;
  bytes sent;
  bytes received;
  std::size_t size = 0;

  explicit arguments(const shape& given) : s(given) {
    const auto rows = static_cast<std::size_t>(s.rows);
    const auto elements = rows * static_cast<std::size_t>(s.cols);
    const auto list = rows * static_cast<std::size_t>(s.k);
    x.resize(elements);
    for (std::size_t i = 0; i < elements; ++i) {
      x[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.7) * 9);
    }
    y.assign(elements, 7);
    lse.assign(rows, 7);
    values.assign(list, 7);
    more_values.assign(list, 7);
    logits.assign(list, 7);
    indices.assign(list, 7);
    more_indices.assign(list, 7);
    pairs.assign(2 * rows, 0);
    more_pairs.assign(2 * rows, 0);
    const softfold_queue_options options = {sizeof options, s.threads, -1, 0, 0};
    REQUIRE(softfold_queue_create(&options, &queue) == SOFTFOLD_SUCCESS);
    REQUIRE(softfold_buffer_create(queue, 64, SOFTFOLD_MEMORY_DEVICE, &buffer) == SOFTFOLD_SUCCESS);
    REQUIRE(softfold_buffer_upload(queue, buffer, x.data(), 64, 0) == SOFTFOLD_SUCCESS);
    const softfold_matrix part = matrix(x, s.cols);
    const softfold_vector a = vector(pairs, s.rows);
    const softfold_vector b = vector(more_pairs, s.rows);
    REQUIRE(softfold_fold(queue, &part, &a, nullptr) == SOFTFOLD_SUCCESS);
    REQUIRE(softfold_fold(queue, &part, &b, nullptr) == SOFTFOLD_SUCCESS);
    counts.assign(rows, 7);
    samples.resize(rows);
    more_samples.resize(rows);
    for (auto* const to : {&samples, &more_samples}) {
      REQUIRE(softfold_fold_sample(queue, &part, to->data(), s.rows, nullptr, nullptr, nullptr) ==
              SOFTFOLD_SUCCESS);
    }
    const softfold_matrix v = matrix(more_values, s.k);
    const softfold_matrix i = matrix(more_indices, s.k);
    REQUIRE(softfold_topk(queue, &part, &v, &i) == SOFTFOLD_SUCCESS);
    values = more_values;
    indices = more_indices;
    for (std::int64_t& index : indices) {
      index += s.cols;  // another part's
    }
    for (auto [to, offset] : {std::pair{&states, std::int64_t{0}}, std::pair{&more, s.cols}}) {
      REQUIRE(softfold_row_states_create(SOFTFOLD_F32, s.rows, s.k, 1, to) == SOFTFOLD_SUCCESS);
      REQUIRE(softfold_row_states_fold(queue, *to, &part, offset) == SOFTFOLD_SUCCESS);
    }
    sent = bytes_of_states(more);
    received.assign(sent.size(), 7);
    // A queue that has no scratch memory yet.
    softfold_queue_destroy(queue);
    REQUIRE(softfold_queue_create(&options, &queue) == SOFTFOLD_SUCCESS);
  }
  ~arguments() {
    softfold_buffer_destroy(made_buffer);
    softfold_buffer_destroy(buffer);
    softfold_row_states_destroy(states);
    softfold_row_states_destroy(more);
    softfold_row_states_destroy(made_states);
    softfold_queue_destroy(made_queue);
    softfold_queue_destroy(queue);
  }
  arguments(const arguments&) = delete;
  arguments& operator=(const arguments&) = delete;

  template <class T>
  [[nodiscard]] softfold_matrix matrix(std::vector<T>& data, std::int64_t cols) const {
    return {data.data(), s.rows, cols, cols, type_of(data.data()), 0};
  }
  static softfold_vector vector(std::vector<float>& data, std::int64_t count) {
    return {data.data(), count, SOFTFOLD_F32, 0};
  }
  /// Tokens of head_dim elements each, one head.
  static constexpr std::int64_t head_dim = 4;
  static softfold_tensor tensor(std::vector<float>& data, std::int64_t tokens) {
    return {data.data(),  1, 1, tokens, head_dim, tokens * head_dim, tokens * head_dim, head_dim,
            SOFTFOLD_F32, 0};
  }
  softfold_tensor keys() { return tensor(x, s.rows * s.cols / head_dim); }

  static bytes bytes_of_states(const softfold_row_states* from) {
    std::size_t length = 0;
    REQUIRE(softfold_row_states_to_bytes(from, nullptr, 0, &length) == SOFTFOLD_SUCCESS);
    bytes result(length);
    REQUIRE(softfold_row_states_to_bytes(from, result.data(), length, &length) == SOFTFOLD_SUCCESS);
    return result;
  }

  /// Everything that a call may have changed, or all but the outputs of functions of rows.
  [[nodiscard]] bytes content(bool with_outputs = true) const {
    bytes all;
    const auto add = [&](const bytes& more_bytes) {
      all.insert(all.end(), more_bytes.begin(), more_bytes.end());
    };
    for (const auto* floats : {&x, &more_pairs, &more_values}) {
      add(bytes_of(floats->data(), floats->size()));
    }
    if (with_outputs) {
      for (const auto* floats : {&y, &lse, &pairs, &values, &logits}) {
        add(bytes_of(floats->data(), floats->size()));
      }
      add(bytes_of(indices.data(), indices.size()));
      add(bytes_of(counts.data(), counts.size()));
      add(bytes_of(samples.data(), samples.size()));
    }
    add(bytes_of(more_indices.data(), more_indices.size()));
    add(received);
    add(bytes_of(static_cast<const unsigned char*>(softfold_buffer_data(buffer)), 64));
    add(bytes_of_states(states));
    add(bytes_of_states(more));
    if (made_states != nullptr) {
      add(bytes_of_states(made_states));
    }
    all.push_back(made_queue != nullptr);
    all.push_back(made_buffer != nullptr);
    return all;
  }
};

struct function {
  const char* name;
  softfold_status (*call)(arguments&);
  bool writes_rows = false;  // some of which may have been written when memory runs out
};

const function functions[] = {
    {"queue_create",
     [](arguments& a) {
       const softfold_queue_options options = {sizeof options, a.s.threads, -1, 0, 0};
       return softfold_queue_create(&options, &a.made_queue);
     }},
    {"queue_wait", [](arguments& a) { return softfold_queue_wait(a.queue); }},
    {"queue_reserve", [](arguments& a) { return softfold_queue_reserve(a.queue, 1 << 20); }},
    {"queue_info",
     [](arguments& a) {
       softfold_device_info info;
       info.struct_size = sizeof info;
       return softfold_queue_info(a.queue, &info);
     }},
    {"buffer_create",
     [](arguments& a) {
       return softfold_buffer_create(a.queue, 1000, SOFTFOLD_MEMORY_HOST, &a.made_buffer);
     }},
    {"buffer_upload",
     [](arguments& a) { return softfold_buffer_upload(a.queue, a.buffer, &a.x[16], 32, 8); }},
    {"buffer_download",
     [](arguments& a) {
       return softfold_buffer_download(a.queue, a.buffer, a.received.data(), 32, 8);
     }},
    {"softmax",
     [](arguments& a) {
       const softfold_matrix x = a.matrix(a.x, a.s.cols);
       const softfold_matrix y = a.matrix(a.y, a.s.cols);
       return softfold_softmax(a.queue, &x, &y, nullptr);
     },
     true},
    {"log_softmax",
     [](arguments& a) {
       const softfold_matrix x = a.matrix(a.x, a.s.cols);
       const softfold_matrix y = a.matrix(a.y, a.s.cols);
       return softfold_log_softmax(a.queue, &x, &y, nullptr);
     },
     true},
    {"logsumexp",
     [](arguments& a) {
       const softfold_matrix x = a.matrix(a.x, a.s.cols);
       const softfold_vector lse = a.vector(a.lse, a.s.rows);
       return softfold_logsumexp(a.queue, &x, &lse, nullptr);
     },
     true},
    {"topk",
     [](arguments& a) {
       const softfold_matrix x = a.matrix(a.x, a.s.cols);
       const softfold_matrix values = a.matrix(a.values, a.s.k);
       const softfold_matrix indices = a.matrix(a.indices, a.s.k);
       return softfold_topk(a.queue, &x, &values, &indices);
     },
     true},
    {"softmax_topk",
     [](arguments& a) {
       const softfold_matrix x = a.matrix(a.x, a.s.cols);
       const softfold_matrix values = a.matrix(a.values, a.s.k);
       const softfold_matrix indices = a.matrix(a.indices, a.s.k);
       const softfold_matrix logits = a.matrix(a.logits, a.s.k);
       const softfold_vector lse = a.vector(a.lse, a.s.rows);
       softfold_softmax_topk_options options = SOFTFOLD_SOFTMAX_TOPK_OPTIONS_INIT;
       options.logits = &logits;
       options.lse = &lse;
       return softfold_softmax_topk(a.queue, &x, &values, &indices, &options);
     },
     true},
    {"scan",
     [](arguments& a) {
       const softfold_matrix x = a.matrix(a.x, a.s.cols);
       const softfold_matrix y = a.matrix(a.y, a.s.cols);
       return softfold_scan(a.queue, &x, &y, nullptr);
     },
     true},
    {"topk_with_options",  // of edited rows
     [](arguments& a) {
       const softfold_matrix x = a.matrix(a.x, a.s.cols);
       const softfold_matrix values = a.matrix(a.values, a.s.k);
       const softfold_matrix indices = a.matrix(a.indices, a.s.k);
       softfold_row_edits edits = SOFTFOLD_ROW_EDITS_INIT;
       edits.softcap = 5;
       softfold_topk_options options = SOFTFOLD_TOPK_OPTIONS_INIT;
       options.edits = &edits;
       return softfold_topk_with_options(a.queue, &x, &values, &indices, &options);
     },
     true},
    {"attention",
     [](arguments& a) {
       const softfold_tensor query = a.tensor(a.x, a.s.rows);
       const softfold_tensor key = a.keys();
       const softfold_tensor out = a.tensor(a.values, a.s.rows);
       return softfold_attention(a.queue, &query, &key, &key, &out, nullptr);
     },
     true},
    {"fold_attention",
     [](arguments& a) {
       const softfold_tensor query = a.tensor(a.x, a.s.rows);
       const softfold_tensor key = a.keys();
       const softfold_tensor weighted = a.tensor(a.values, a.s.rows);
       const softfold_vector states = a.vector(a.pairs, a.s.rows);
       return softfold_fold_attention(a.queue, &query, &key, &key, &states, &weighted, nullptr);
     },
     true},
    {"combine_attention",
     [](arguments& a) {
       const softfold_vector more = a.vector(a.more_pairs, a.s.rows);
       const softfold_tensor more_weighted = a.tensor(a.more_values, a.s.rows);
       const softfold_vector states = a.vector(a.pairs, a.s.rows);
       const softfold_tensor weighted = a.tensor(a.values, a.s.rows);
       return softfold_combine_attention(a.queue, &more, &more_weighted, &states, &weighted);
     }},
    {"normalize_attention",
     [](arguments& a) {
       const softfold_vector states = a.vector(a.pairs, a.s.rows);
       const softfold_tensor weighted = a.tensor(a.values, a.s.rows);
       const softfold_tensor out = a.tensor(a.logits, a.s.rows);
       return softfold_normalize_attention(a.queue, &states, &weighted, &out,
                                           SOFTFOLD_EMPTY_ROW_ZERO);
     },
     true},
    {"sample",
     [](arguments& a) {
       const softfold_matrix x = a.matrix(a.x, a.s.cols);
       const softfold_matrix tokens = a.matrix(a.indices, 2);
       const softfold_matrix log = a.matrix(a.values, 2);
       softfold_sample_options options = SOFTFOLD_SAMPLE_OPTIONS_INIT;
       options.top_p = 0.5;
       options.log_probability = &log;
       return softfold_sample(a.queue, &x, &tokens, &options);
     },
     true},
    {"verify",  // chains of no drafts
     [](arguments& a) {
       const softfold_matrix x = a.matrix(a.x, a.s.cols);
       const softfold_matrix none = a.matrix(a.more_indices, 0);
       const softfold_matrix tokens = {a.indices.data(), a.s.rows, 1, 1, SOFTFOLD_I64, 0};
       std::vector<std::int64_t>& counts = a.counts;
       const softfold_vector accepted = {counts.data(), a.s.rows, SOFTFOLD_I64, 0};
       return softfold_verify(a.queue, &x, nullptr, &none, &tokens, &accepted, nullptr);
     },
     true},
    {"fold_sample",
     [](arguments& a) {
       const softfold_matrix x = a.matrix(a.x, a.s.cols);
       const softfold_matrix values = a.matrix(a.values, a.s.k);
       const softfold_matrix indices = a.matrix(a.indices, a.s.k);
       softfold_fold_sample_options options = SOFTFOLD_FOLD_SAMPLE_OPTIONS_INIT;
       options.top_k = a.s.k;
       return softfold_fold_sample(a.queue, &x, a.samples.data(), a.s.rows, &values, &indices,
                                   &options);
     },
     true},
    {"combine_sample",
     [](arguments& a) {
       const softfold_matrix more_values = a.matrix(a.more_values, a.s.k);
       const softfold_matrix more_indices = a.matrix(a.more_indices, a.s.k);
       const softfold_matrix values = a.matrix(a.values, a.s.k);
       const softfold_matrix indices = a.matrix(a.indices, a.s.k);
       return softfold_combine_sample(a.queue, a.more_samples.data(), a.s.rows, &more_values,
                                      &more_indices, a.samples.data(), &values, &indices);
     }},
    {"finish_sample",
     [](arguments& a) {
       const softfold_vector lse = a.vector(a.lse, a.s.rows);
       const softfold_vector tokens = {a.indices.data(), a.s.rows, SOFTFOLD_I64, 0};
       softfold_finish_sample_options options = SOFTFOLD_FINISH_SAMPLE_OPTIONS_INIT;
       options.lse = &lse;
       return softfold_finish_sample(a.queue, a.more_samples.data(), a.s.rows, nullptr, nullptr,
                                     &tokens, &options);
     },
     true},
    {"softmax_backward",
     [](arguments& a) {
       const softfold_matrix y = a.matrix(a.x, a.s.cols);
       const softfold_matrix dx = a.matrix(a.y, a.s.cols);
       return softfold_softmax_backward(a.queue, &y, &y, &dx, nullptr);
     },
     true},
    {"log_softmax_backward",
     [](arguments& a) {
       const softfold_matrix y = a.matrix(a.x, a.s.cols);
       const softfold_matrix dx = a.matrix(a.y, a.s.cols);
       return softfold_log_softmax_backward(a.queue, &y, &y, &dx, nullptr);
     },
     true},
    {"fold",
     [](arguments& a) {
       const softfold_matrix x = a.matrix(a.x, a.s.cols);
       const softfold_vector pairs = a.vector(a.pairs, a.s.rows);
       return softfold_fold(a.queue, &x, &pairs, nullptr);
     },
     true},
    {"combine",
     [](arguments& a) {
       const softfold_vector more = a.vector(a.more_pairs, a.s.rows);
       const softfold_vector pairs = a.vector(a.pairs, a.s.rows);
       return softfold_combine(a.queue, &more, &pairs);
     }},
    {"normalize",
     [](arguments& a) {
       const softfold_matrix x = a.matrix(a.x, a.s.cols);
       const softfold_matrix y = a.matrix(a.y, a.s.cols);
       const softfold_vector pairs = a.vector(a.pairs, a.s.rows);
       return softfold_normalize(a.queue, &x, &pairs, &y, nullptr);
     },
     true},
    {"log_normalize",
     [](arguments& a) {
       const softfold_matrix x = a.matrix(a.x, a.s.cols);
       const softfold_matrix y = a.matrix(a.y, a.s.cols);
       const softfold_vector pairs = a.vector(a.pairs, a.s.rows);
       return softfold_log_normalize(a.queue, &x, &pairs, &y, nullptr);
     },
     true},
    {"logsumexp_of_partials",
     [](arguments& a) {
       const softfold_vector pairs = a.vector(a.pairs, a.s.rows);
       const softfold_vector lse = a.vector(a.lse, a.s.rows);
       return softfold_logsumexp_of_partials(a.queue, &pairs, &lse);
     }},
    {"fold_topk",
     [](arguments& a) {
       const softfold_matrix x = a.matrix(a.x, a.s.cols);
       const softfold_vector pairs = a.vector(a.pairs, a.s.rows);
       const softfold_matrix values = a.matrix(a.values, a.s.k);
       const softfold_matrix indices = a.matrix(a.indices, a.s.k);
       return softfold_fold_topk(a.queue, &x, &pairs, &values, &indices, nullptr);
     },
     true},
    {"combine_topk",
     [](arguments& a) {
       const softfold_matrix more_values = a.matrix(a.more_values, a.s.k);
       const softfold_matrix more_indices = a.matrix(a.more_indices, a.s.k);
       const softfold_matrix values = a.matrix(a.values, a.s.k);
       const softfold_matrix indices = a.matrix(a.indices, a.s.k);
       return softfold_combine_topk(a.queue, &more_values, &more_indices, &values, &indices);
     }},
    {"row_states_create_sampling",
     [](arguments& a) {
       return softfold_row_states_create_sampling(SOFTFOLD_F32, a.s.rows, a.s.k, 1, nullptr,
                                                  &a.made_states);
     }},
    {"row_states_create",
     [](arguments& a) {
       return softfold_row_states_create(SOFTFOLD_F32, a.s.rows, a.s.k, 1, &a.made_states);
     }},
    {"row_states_get",
     [](arguments& a) {
       softfold_row_states_view view;
       view.struct_size = sizeof view;
       return softfold_row_states_get(a.states, &view);
     }},
    {"row_states_fold",
     [](arguments& a) {
       const softfold_matrix x = a.matrix(a.x, a.s.cols);
       return softfold_row_states_fold(a.queue, a.states, &x, 3 * a.s.cols);
     }},
    {"row_states_combine",
     [](arguments& a) { return softfold_row_states_combine(a.queue, a.states, a.more); }},
    {"row_states_append_rows",
     [](arguments& a) { return softfold_row_states_append_rows(a.states, a.states); }},
    {"row_states_finish",
     [](arguments& a) {
       const softfold_vector lse = a.vector(a.lse, a.s.rows);
       const softfold_matrix values = a.matrix(a.values, a.s.k);
       return softfold_row_states_finish(a.queue, a.states, &lse, &values, SOFTFOLD_EMPTY_ROW_NAN);
     }},
    {"row_states_to_bytes",
     [](arguments& a) {
       return softfold_row_states_to_bytes(a.states, a.received.data(), a.received.size(), &a.size);
     }},
    {"row_states_from_bytes",
     [](arguments& a) {
       return softfold_row_states_from_bytes(a.sent.data(), a.sent.size(), &a.made_states);
     }},
};

softfold_status call_with_failure(const function& f, arguments& a, long after, bool all) {
  all_fail = all;
  one_failed = false;
  allocations_left = after;
  const softfold_status status = f.call(a);
  allocations_left = -1;
  all_fail = false;
  return status;
}

/// How many allocations were tried.
long try_all(const function& f, const shape& s, bool all) {
  bytes expected;
  {
    arguments a(s);
    REQUIRE(f.call(a) == SOFTFOLD_SUCCESS);
    expected = a.content();
  }
  for (long n = 0;; ++n) {
    CAPTURE(n);
    REQUIRE(n < 10000);
    const long before_all = live;
    {
      arguments a(s);
      const bytes before = a.content(!f.writes_rows);
      const softfold_status status = call_with_failure(f, a, n, all);
      const bool failed = one_failed.exchange(false);
      if (status == SOFTFOLD_SUCCESS) {
        CHECK((a.content() == expected));
      } else {
        CHECK(failed);
        CHECK(status == SOFTFOLD_OUT_OF_MEMORY);
        CHECK(std::string(softfold_last_error()).find("memory") != std::string::npos);
        CHECK((a.content(!f.writes_rows) == before));
        CHECK(f.call(a) == SOFTFOLD_SUCCESS);
        CHECK((a.content() == expected));
      }
      if (!failed) {
        REQUIRE(status == SOFTFOLD_SUCCESS);
        return n;
      }
    }
    CHECK(live == before_all);
  }
}

}  // namespace

TEST_SUITE_BEGIN("allocations");

TEST_CASE("every allocation of every function fails") {
#ifdef SOFTFOLD_TEST_REDUCED
  constexpr std::int64_t long_cols = 40000;  // segments of a row all the same
#else
  constexpr std::int64_t long_cols = 200000;
#endif
  for (const shape& s : {shape{3, 500, 20, 1}, shape{2, long_cols, 1500, 2}, shape{40, 70, 5, 2}}) {
    for (const function& f : functions) {
      INFO("softfold_" << std::string(f.name) << ", " << s.rows << " x " << s.cols << ", k " << s.k
                       << ", " << s.threads << " threads");
      const long count = try_all(f, s, false);
      try_all(f, s, true);
      if (f.name == std::string("row_states_combine") || f.name == std::string("topk")) {
        CHECK(count > 0);
      }
    }
  }
}

TEST_SUITE_END();
