// SPDX-License-Identifier: Apache-2.0
#include "onednn.hpp"

#include "contenders.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#if DNNL_CPU_RUNTIME == DNNL_RUNTIME_TBB
#include <tbb/global_control.h>
#else
#include <dlfcn.h>
#endif

#include <memory>

namespace softfold::bench {
namespace onednn {
namespace {

void use_threads(int threads) {
#if DNNL_CPU_RUNTIME == DNNL_RUNTIME_TBB
  static std::unique_ptr<tbb::global_control> limit;
  limit.reset();
  limit = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                static_cast<std::size_t>(threads));
#else
  // Looked up rather than linked: oneDNN's OpenMP runtime need not be this compiler's.
  using set_threads = void (*)(int);
  if (void* symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads"); symbol != nullptr) {
    reinterpret_cast<set_threads>(symbol)(threads);
  }
#endif
}

template <class Forward, class Backward>
work prepared(const_matrix_ref y, const_matrix_ref dy, matrix_ref dx,
              dnnl::memory::data_type type) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const dnnl::memory::desc shape({y.rows, y.cols}, type, dnnl::memory::format_tag::ab);
  const typename Forward::primitive_desc hint(
      typename Forward::desc(dnnl::prop_kind::forward_training, shape, 1), engine, true);
  if (!hint) {
    return {};
  }
  const typename Backward::primitive_desc plan(typename Backward::desc(shape, shape, 1), engine,
                                               hint, true);
  if (!plan) {
    return {};
  }
  const dnnl::memory result(shape, engine, const_cast<void*>(y.data));
  const dnnl::memory gradient(shape, engine, const_cast<void*>(dy.data));
  const dnnl::memory target(shape, engine, dx.data);
  return [primitive = Backward(plan), stream = dnnl::stream(engine), result, gradient,
          target]() mutable {
    primitive.execute(
        stream,
        {{DNNL_ARG_DST, result}, {DNNL_ARG_DIFF_DST, gradient}, {DNNL_ARG_DIFF_SRC, target}});
    stream.wait();
  };
}

template <class Primitive>
work prepared(const_matrix_ref x, matrix_ref y, dnnl::memory::data_type type) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const dnnl::memory::desc shape({x.rows, x.cols}, type, dnnl::memory::format_tag::ab);
  const typename Primitive::desc forward(dnnl::prop_kind::forward_inference, shape, 1);
  const typename Primitive::primitive_desc plan(forward, engine, true);
  if (!plan) {
    return {};
  }
  // oneDNN takes the input by a pointer to non-const; it does not write there.
  const dnnl::memory source(shape, engine, const_cast<void*>(x.data));
  const dnnl::memory target(shape, engine, y.data);
  return [primitive = Primitive(plan), stream = dnnl::stream(engine), source, target]() mutable {
    primitive.execute(stream, {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, target}});
    stream.wait();
  };
}

dnnl::memory::data_type type_of(dtype type) {
  switch (type) {
    case dtype::f32:
      return dnnl::memory::data_type::f32;
    case dtype::bf16:
      return dnnl::memory::data_type::bf16;
    case dtype::f16:
      return dnnl::memory::data_type::f16;
    default:
      return dnnl::memory::data_type::undef;
  }
}

}  // namespace

work softmax_backward(const_matrix_ref y, const_matrix_ref dy, matrix_ref dx, bool logarithm,
                      int threads) {
  use_threads(threads);
  const dnnl::memory::data_type type = type_of(y.type);
  if (type == dnnl::memory::data_type::undef) {
    return {};
  }
  return logarithm ? prepared<dnnl::logsoftmax_forward, dnnl::logsoftmax_backward>(y, dy, dx, type)
                   : prepared<dnnl::softmax_forward, dnnl::softmax_backward>(y, dy, dx, type);
}

work softmax(const_matrix_ref x, matrix_ref y, bool logarithm, int threads) {
  use_threads(threads);
  const dnnl::memory::data_type type = type_of(x.type);
  if (type == dnnl::memory::data_type::undef) {
    return {};
  }
  return logarithm ? prepared<dnnl::logsoftmax_forward>(x, y, type)
                   : prepared<dnnl::softmax_forward>(x, y, type);
}

std::string version() {
  const dnnl::version_t* v = dnnl::version();
  return std::to_string(v->major) + '.' + std::to_string(v->minor) + '.' + std::to_string(v->patch);
}

}  // namespace onednn

namespace {

work prepare(const workload& w) {
  if (w.spec.is_gradient()) {
    return onednn::softmax_backward(w.x, w.dy, w.y, w.spec.op == operation::log_softmax_backward,
                                    w.spec.threads);
  }
  if (!w.spec.is_softmax()) {
    return {};
  }
  return onednn::softmax(w.x, w.y, w.spec.op == operation::log_softmax, w.spec.threads);
}

}  // namespace

contender onednn_contender() {
  return {.name = "onednn", .version = onednn::version(), .prepare = prepare};
}

}  // namespace softfold::bench
