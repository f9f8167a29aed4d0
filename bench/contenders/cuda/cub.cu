// SPDX-License-Identifier: Apache-2.0
// logsumexp by cub::DeviceSegmentedReduce: the rows are its segments, row states its elements.
#include "buffer.hpp"
#include "contenders.hpp"
#include "device.hpp"

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_segmented_reduce.cuh>

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace softfold::bench {
namespace {

struct state {
  float max;
  float sum;
};

struct to_state {
  __host__ __device__ state operator()(float x) const { return {x, 1}; }
};

struct combine {
  __host__ __device__ state operator()(const state& a, const state& b) const {
    const state& high = a.max > b.max ? a : b;
    const state& low = a.max > b.max ? b : a;
    return {high.max, high.sum + (low.sum > 0 ? low.sum * expf(low.max - high.max) : 0)};
  }
};

// Where the reduction writes states, and logsumexp arrives.
struct logsumexp_output {
  using value_type = state;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using iterator_category = std::random_access_iterator_tag;
  struct reference {
    float* to;
    __host__ __device__ void operator=(const state& s) const { *to = s.max + logf(s.sum); }
  };

  float* to;

  __host__ __device__ reference operator*() const { return {to}; }
  __host__ __device__ logsumexp_output operator+(difference_type i) const { return {to + i}; }
};

struct row_begin {
  std::int64_t cols;
  __host__ __device__ std::int64_t operator()(std::int64_t row) const { return row * cols; }
};

work prepare(const workload& w) {
  if (w.spec.op != operation::logsumexp || w.spec.type != dtype::f32) {
    return {};
  }
  const auto elements =
      thrust::make_transform_iterator(static_cast<const float*>(w.x.data), to_state{});
  const logsumexp_output results{static_cast<float*>(w.lse.data)};
  const auto begins = thrust::make_transform_iterator(
      thrust::make_counting_iterator(std::int64_t{0}), row_begin{w.x.cols});
  const auto reduce = [=, rows = w.x.rows](void* scratch, std::size_t& bytes) {
    check(cub::DeviceSegmentedReduce::Reduce(scratch, bytes, elements, results, rows, begins,
                                             begins + 1, combine{}, state{-INFINITY, 0},
                                             device_stream()),
          "cub::DeviceSegmentedReduce::Reduce");
  };
  std::size_t bytes = 0;
  reduce(nullptr, bytes);
  static buffer scratch;  // kept from case to case
  scratch.resize(bytes);
  return [reduce, bytes]() mutable { reduce(scratch.data(), bytes); };
}

std::string version() {
  return std::to_string(CUB_MAJOR_VERSION) + '.' + std::to_string(CUB_MINOR_VERSION) + '.' +
         std::to_string(CUB_SUBMINOR_VERSION);
}

}  // namespace

contender cub_contender() { return {.name = "cub", .version = version(), .prepare = prepare}; }

}  // namespace softfold::bench
