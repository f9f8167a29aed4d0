// SPDX-License-Identifier: Apache-2.0
#include "contenders.hpp"
#include "device.hpp"

#include <cudnn.h>

#include <limits>
#include <memory>
#include <stdexcept>

namespace softfold::bench {
namespace {

void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw std::runtime_error(std::string(what) + ": " + cudnnGetErrorString(status));
  }
}

cudnnHandle_t handle() {
  static const cudnnHandle_t h = [] {
    cudnnHandle_t created = nullptr;
    check(cudnnCreate(&created), "cudnnCreate");
    check(cudnnSetStream(created, device_stream()), "cudnnSetStream");
    return created;
  }();
  return h;
}

struct destroy_descriptor {
  void operator()(cudnnTensorDescriptor_t d) const { cudnnDestroyTensorDescriptor(d); }
};
using descriptor = std::shared_ptr<cudnnTensorStruct>;

// One image for each row; the columns are its channels.
descriptor rows_of(const const_matrix_ref& m, cudnnDataType_t type) {
  cudnnTensorDescriptor_t created = nullptr;
  check(cudnnCreateTensorDescriptor(&created), "cudnnCreateTensorDescriptor");
  descriptor d(created, destroy_descriptor{});
  check(cudnnSetTensor4dDescriptor(created, CUDNN_TENSOR_NCHW, type, static_cast<int>(m.rows),
                                   static_cast<int>(m.cols), 1, 1),
        "cudnnSetTensor4dDescriptor");
  return d;
}

work prepare(const workload& w) {
  if (!w.spec.is_softmax()) {
    return {};
  }
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  switch (w.spec.type) {
    case dtype::f32:
      break;
    case dtype::f64:
      type = CUDNN_DATA_DOUBLE;
      break;
    case dtype::f16:
      type = CUDNN_DATA_HALF;
      break;
    case dtype::bf16:
      type = CUDNN_DATA_BFLOAT16;
      break;
    default:
      return {};
  }
  const bool logarithm =
      w.spec.op == operation::log_softmax || w.spec.op == operation::log_softmax_backward;
  const auto algorithm = logarithm ? CUDNN_SOFTMAX_LOG : CUDNN_SOFTMAX_ACCURATE;
  const auto softmax = [=, d = rows_of(w.x, type), x = w.x.data, dy = w.dy.data, y = w.y.data,
                        gradient = w.spec.is_gradient()] {
    // alpha and beta are double for double elements and float for all others.
    const float ones[] = {1, 0};
    const double wide_ones[] = {1, 0};
    const bool wide = type == CUDNN_DATA_DOUBLE;
    const void* const alpha = wide ? static_cast<const void*>(wide_ones) : ones;
    const void* const beta = wide ? static_cast<const void*>(wide_ones + 1) : ones + 1;
    if (gradient) {
      return cudnnSoftmaxBackward(handle(), algorithm, CUDNN_SOFTMAX_MODE_INSTANCE, alpha, d.get(),
                                  x, d.get(), dy, beta, d.get(), y);
    }
    return cudnnSoftmaxForward(handle(), algorithm, CUDNN_SOFTMAX_MODE_INSTANCE, alpha, d.get(), x,
                               beta, d.get(), y);
  };
  if (softmax() != CUDNN_STATUS_SUCCESS) {
    return {};  // a shape or type that it does not take
  }
  return [softmax] { check(softmax(), "cuDNN's softmax"); };
}

std::string version() {
  const std::size_t v = cudnnGetVersion();
  return std::to_string(v / 10000) + '.' + std::to_string(v / 100 % 100) + '.' +
         std::to_string(v % 100);
}

}  // namespace

contender cudnn_contender() { return {.name = "cudnn", .version = version(), .prepare = prepare}; }

}  // namespace softfold::bench
