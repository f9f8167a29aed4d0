// SPDX-License-Identifier: Apache-2.0
#include "library.hpp"

#include <nanobind/stl/string.h>

#include <cxxabi.h>
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <map>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace softfold::python {
namespace {

/// Makes the GPU of a place, or of a stream, the driver's current one while it lives:
/// queue_create_on takes the current device. Does nothing where the driver cannot be had, which the
/// library then reports.
class current_gpu {
 public:
  current_gpu(std::int32_t device, void* stream) : device_(device) {
    if (driver().push == nullptr) {
      return;
    }
    void* context = nullptr;
    if (device == place::of_stream) {
      pushed_ = driver().of_stream(stream, &context) == 0 && driver().push(context) == 0;
    } else if (driver().retain(&context, device) == 0) {
      retained_ = true;
      pushed_ = driver().push(context) == 0;
    }
  }
  ~current_gpu() {
    void* popped = nullptr;
    if (pushed_) {
      driver().pop(&popped);
    }
    if (retained_) {
      driver().release(device_);
    }
  }
  current_gpu(const current_gpu&) = delete;
  current_gpu& operator=(const current_gpu&) = delete;

 private:
  struct functions {
    int (*retain)(void**, int) = nullptr;
    int (*release)(int) = nullptr;
    int (*push)(void*) = nullptr;
    int (*pop)(void**) = nullptr;
    int (*of_stream)(void*, void**) = nullptr;
  };
  static const functions& driver() {
    static const functions found = [] {
      functions f;
      void* const cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
      if (cuda == nullptr) {
        return f;
      }
      const auto find = [cuda](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(cuda, name));
        return function != nullptr;
      };
      if (!find(f.retain, "cuDevicePrimaryCtxRetain") ||
          !find(f.release, "cuDevicePrimaryCtxRelease_v2") || !find(f.pop, "cuCtxPopCurrent_v2") ||
          !find(f.of_stream, "cuStreamGetCtx") || !find(f.push, "cuCtxPushCurrent_v2")) {
        f.push = nullptr;
      }
      return f;
    }();
    return found;
  }

  std::int32_t device_;
  bool retained_ = false;
  bool pushed_ = false;
};

/// The queues that no call uses, by what they run on.
struct free_queues {
  std::mutex mutex;
  std::map<std::pair<const library*, std::uint64_t>, std::vector<softfold_queue*>> queues;
};

// Never destroyed: a backend's threads may outlive Python's end, and so may calls of theirs.
free_queues& all_free() {
  static auto* const queues = new free_queues;
  return *queues;
}

/// The cpu backend's queue that was given back last: most calls find it here, without the mutex.
std::atomic<softfold_queue*> last_used = nullptr;
/// Queues made in an earlier generation are not used again.
std::atomic<std::int32_t> generation = 0;
std::atomic<std::int32_t> cpu_threads = 0;
std::atomic<std::int32_t> numerics = SOFTFOLD_NUMERICS_FAST;
std::atomic<bool> any_queue = false;

void forget_queues() {
  ++generation;
  last_used = nullptr;
}

void after_fork_in_child() {
  // The mutex may have been held by a thread that is not here, the queues wait for threads that are
  // not: new ones for both, the old ones are left.
  new (&all_free()) free_queues;
  if (any_queue) {
    cpu_threads = 1;
  }
  forget_queues();
}

std::uint64_t key_of(const place& where, void* stream) {
  return where.on_host() ? 0
                         : reinterpret_cast<std::uintptr_t>(stream) * 64 +
                               static_cast<std::uint64_t>(where.device) % 64;
}

softfold_status make_queue(const library& from, const place& where, void* stream,
                           softfold_queue** queue) {
  softfold_queue_options options = SOFTFOLD_QUEUE_OPTIONS_INIT;
  options.numerics = numerics;
  if (where.on_cuda()) {
    const current_gpu current(where.device, stream);
    return from.queue_create_on_with_options(stream, &options, queue);
  }
  static const bool registered = pthread_atfork(nullptr, nullptr, after_fork_in_child) == 0;
  (void)registered;
  any_queue = true;
  options.threads = cpu_threads;
  return from.queue_create(&options, queue);
}

library load(const std::string& path) {
  void* const opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    throw std::runtime_error(std::string("softfold: ") + dlerror());
  }
  library found{};
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(opened, name));
    if (function == nullptr) {
      throw std::runtime_error("softfold: " + path + " has no function " + name);
    }
  };
#define SOFTFOLD_FIND(name) find(found.name, "softfold_" #name);
  SOFTFOLD_PYTHON_FUNCTIONS(SOFTFOLD_FIND)
#undef SOFTFOLD_FIND
  if (std::string_view(found.version()) != softfold_version()) {
    throw std::runtime_error("softfold: " + path + " has version " + found.version() +
                             ", expected " + softfold_version());
  }
  return found;
}

}  // namespace

std::string place::text() const {
  const auto numbered = [this](const char* name) { return name + (":" + std::to_string(device)); };
  switch (type) {
    case 1:
      return "cpu";
    case 2:
    case 13:
      return numbered("cuda");
    case 3:
      return "pinned memory";
    case 10:
      return numbered("rocm");
    default:
      return numbered(("DLPack device type " + std::to_string(type)).c_str());
  }
}

const library& cpu_library() {
#define SOFTFOLD_LINKED(name) &softfold_##name,
  static constexpr library linked{SOFTFOLD_PYTHON_FUNCTIONS(SOFTFOLD_LINKED)};
#undef SOFTFOLD_LINKED
  return linked;
}

const library& cuda_library() {
  static std::atomic<const library*> loaded = nullptr;
  if (const library* const known = loaded.load(std::memory_order_acquire)) {
    return *known;
  }
  const auto path = nb::cast<std::string>(
      nb::module_::import_("softfold._backends").attr("library_path")("cuda"));
  // Two threads may come here at once: dlopen gives both the same library.
  loaded.store(new library(load(path)), std::memory_order_release);
  return *loaded;
}

const library& library_of(const place& where) {
  return where.on_cuda() ? cuda_library() : cpu_library();
}

lease::lease(const library& from, const place& where, void* stream)
    : from_(from), key_(key_of(where, stream)), generation_(generation) {
  if (where.on_host()) {
    queue_ = last_used.exchange(nullptr, std::memory_order_acq_rel);
    if (queue_ != nullptr) {
      return;
    }
  }
  {
    const std::lock_guard<std::mutex> lock(all_free().mutex);
    auto& free = all_free().queues[{&from_, key_}];
    if (!free.empty()) {
      queue_ = free.back();
      free.pop_back();
      return;
    }
  }
  status_ = make_queue(from_, where, stream, &queue_);
}

lease::~lease() {
  if (queue_ == nullptr) {
    return;
  }
  if (generation_ != generation) {
    from_.queue_destroy(queue_);
    return;
  }
  softfold_queue* free = queue_;
  if (&from_ == &cpu_library()) {
    free = last_used.exchange(queue_, std::memory_order_acq_rel);
    if (free == nullptr) {
      return;
    }
  }
  const std::lock_guard<std::mutex> lock(all_free().mutex);
  all_free().queues[{&from_, key_}].push_back(free);
}

without_gil::~without_gil() {
  try {
    PyEval_RestoreThread(state_);
  } catch (abi::__forced_unwind&) {
    for (;;) {
      pause();
    }
  }
}

void set_threads(std::int32_t threads) {
  if (threads < 0) {
    throw nb::value_error(("set_threads: threads is " + std::to_string(threads) +
                           ", expected 0 (all that the process may run on) or more")
                              .c_str());
  }
  const std::lock_guard<std::mutex> lock(all_free().mutex);
  cpu_threads = threads;
  if (softfold_queue* const unused = last_used.exchange(nullptr)) {
    cpu_library().queue_destroy(unused);
  }
  for (softfold_queue* const unused : all_free().queues[{&cpu_library(), 0}]) {
    cpu_library().queue_destroy(unused);
  }
  all_free().queues[{&cpu_library(), 0}].clear();
  ++generation;
}

std::int32_t numerics_named(const char* function, const std::string& name) {
  for (const std::int32_t known : {SOFTFOLD_NUMERICS_FAST, SOFTFOLD_NUMERICS_REPRODUCIBLE}) {
    if (name == name_of_numerics(known)) {
      return known;
    }
  }
  throw nb::value_error(
      (std::string(function) + ": numerics is '" + name + "', expected 'fast' or 'reproducible'")
          .c_str());
}

const char* name_of_numerics(std::int32_t known) {
  return known == SOFTFOLD_NUMERICS_FAST ? "fast" : "reproducible";
}

void set_numerics(const std::string& name) {
  const std::int32_t named = numerics_named("set_numerics", name);
  const std::lock_guard<std::mutex> lock(all_free().mutex);
  numerics = named;
  if (softfold_queue* const unused = last_used.exchange(nullptr)) {
    cpu_library().queue_destroy(unused);
  }
  for (auto& [of, free] : all_free().queues) {
    for (softfold_queue* const unused : free) {
      of.first->queue_destroy(unused);
    }
    free.clear();
  }
  ++generation;
}

/// What every function's row edits are called.
// clang-format off
constexpr const char* edits_are_arguments[] = {
    "edits.bias", "bias",
    "edits.mask", "mask",
    "edits.lengths", "lengths",
    "edits.softcap", "softcap",
    "edits.corner", "causal",
    "edits.window", "window",
    "edits.penalty_rows", "penalties[0]",
    "edits.penalty_columns", "penalties[1]",
    "edits.penalty_counts", "penalties[2]",
    "edits.repetition", "repetition",
    "edits.frequency", "frequency",
    "edits.presence", "presence",
    nullptr};
// clang-format on

void check(const library& from, softfold_status status, const char* const* renamed) {
  if (status == SOFTFOLD_SUCCESS) {
    return;
  }
  std::string text = from.last_error();
  const auto in_word = [&text](std::size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  const auto rename = [&](const char* const* pairs) {
    for (; pairs != nullptr && pairs[0] != nullptr; pairs += 2) {
      const std::string_view before = pairs[0];
      const std::string_view after = pairs[1];
      if (before.back() == ':') {
        if (text.compare(0, before.size(), before) == 0) {
          text.replace(0, before.size(), after);
        }
        continue;
      }
      // Not in the function's name, and whole words only.
      for (std::size_t at = text.find(": "); (at = text.find(before, at)) != std::string::npos;) {
        if (!in_word(at - 1) && !in_word(at + before.size())) {
          text.replace(at, before.size(), after);
          at += after.size();
        } else {
          at += before.size();
        }
      }
    }
  };
  rename(edits_are_arguments);
  rename(renamed);
  switch (status) {
    case SOFTFOLD_UNSUPPORTED_TYPE:
      throw nb::type_error(text.c_str());
    case SOFTFOLD_INVALID_ARGUMENT:
    case SOFTFOLD_INVALID_DATA:
      throw nb::value_error(text.c_str());
    case SOFTFOLD_OUT_OF_MEMORY:
      PyErr_SetString(PyExc_MemoryError, text.c_str());
      throw nb::python_error();
    default:
      PyErr_SetString(PyExc_RuntimeError, text.c_str());
      throw nb::python_error();
  }
}

}  // namespace softfold::python
