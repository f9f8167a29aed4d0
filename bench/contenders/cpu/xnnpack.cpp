// SPDX-License-Identifier: Apache-2.0
#include "contenders.hpp"

#include <pthreadpool.h>
#include <xnnpack.h>

#include <cstddef>
#include <memory>
#include <type_traits>

namespace softfold::bench {
namespace {

struct delete_operator {
  void operator()(xnn_operator_t op) const { xnn_delete_operator(op); }
};

work prepare(const workload& w) {
  if (w.spec.op != operation::softmax || w.spec.type != dtype::f32 ||
      xnn_initialize(nullptr) != xnn_status_success) {
    return {};
  }
  const auto cols = static_cast<std::size_t>(w.x.cols);
  xnn_operator_t created = nullptr;
  if (xnn_create_softmax_nc_f32(cols, cols, cols, 0, &created) != xnn_status_success) {
    return {};
  }
  const std::shared_ptr<std::remove_pointer_t<xnn_operator_t>> op(created, delete_operator{});
  const std::shared_ptr<std::remove_pointer_t<pthreadpool_t>> pool(
      pthreadpool_create(static_cast<std::size_t>(w.spec.threads)), pthreadpool_destroy);
  if (xnn_setup_softmax_nc_f32(op.get(), static_cast<std::size_t>(w.x.rows),
                               static_cast<const float*>(w.x.data), static_cast<float*>(w.y.data),
                               pool.get()) != xnn_status_success) {
    return {};
  }
  return [op, pool] { xnn_run_operator(op.get(), pool.get()); };
}

}  // namespace

contender xnnpack_contender() { return {.name = "xnnpack", .prepare = prepare}; }

}  // namespace softfold::bench
