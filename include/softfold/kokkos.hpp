// SPDX-License-Identifier: Apache-2.0
/// \file
/// The entry points of softfold.hpp on Kokkos views and execution space instances. Only for
/// programs that link the kokkos backend; it includes Kokkos_Core.hpp.
///
///     Kokkos::View<float**> x("x", rows, cols), y("y", rows, cols);
///     softfold::queue_on q(Kokkos::DefaultExecutionSpace{});
///     softfold::softmax(q, x, y, {.scale = 0.7});
///
/// - A view of rank 2 is a matrix [rows, cols]; a view of rank 1 is a matrix of one row, or, where
///   one value for each row is meant (lse, partials), a vector.
/// - Elements are float, double, softfold::half, softfold::bfloat16 and, where they have 16 bits,
///   Kokkos' half_t and bhalf_t; indices std::int32_t or std::int64_t. An output's elements are not
///   const; that, and that the execution space can access every view's memory, is checked when the
///   program is compiled.
/// - Rows that are contiguous (LayoutRight, also padded or a range of columns of it) are worked on
///   where they are. Any other view (LayoutLeft, LayoutStride) goes through a contiguous copy, made
///   and copied back by Kokkos in the same order: twice the memory and two more passes over it. The
///   output of a copied view may overlap the input in any way.
/// - Work is in the order of the execution space instance. On host spaces it is complete on return;
///   on devices it is not, fence the instance or wait for the queue. Nothing is fenced but what
///   has to be: temporary memory that is freed.
/// - Every call takes a queue_on, which keeps its scratch memory, or an execution space instance,
///   for which a queue is made that lasts as long as the call.
/// - Kokkos has to be initialised while queues and buffers live. A program that does it itself does
///   so before its first softfold::queue, and lets queues go before Kokkos::finalize(). Where no
///   one has, the first queue initialises Kokkos, and it is finalised when the program exits.
///
/// Everything else is as softfold.hpp says, errors too.
#pragma once

#include <softfold/softfold.hpp>

#include <Kokkos_Core.hpp>

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {

template <class T>
concept execution_space = Kokkos::is_execution_space<std::remove_cvref_t<T>>::value;

/// A queue whose work is on an execution space instance, in its order. For every execution space
/// that the library's Kokkos has.
template <execution_space Exec>
SOFTFOLD_API queue make_queue(const Exec& exec, numerics asked = numerics::fast);

/// make_queue, remembering the type of the execution space.
template <execution_space Exec>
class queue_on : public queue {
 public:
  using execution_space = Exec;
  explicit queue_on(const Exec& exec, numerics asked = numerics::fast)
      : queue(make_queue(exec, asked)), exec_(exec) {}
  [[nodiscard]] const Exec& instance() const noexcept { return exec_; }

 private:
  Exec exec_;
};

namespace views {

template <class T>
inline constexpr bool is_queue_on = false;
template <class Exec>
inline constexpr bool is_queue_on<queue_on<Exec>> = true;

/// What a call on views takes first.
template <class T>
concept where = execution_space<T> || is_queue_on<std::remove_cvref_t<T>>;

template <class T>
concept view = Kokkos::is_view<std::remove_cvref_t<T>>::value;

/// Views of row states.
template <class View>
concept of_states = requires {
  detail::row_state<typename View::value_type>::value;
};

/// The library's type of a view's elements. Where a device has no 16-bit types of its own, those of
/// Kokkos are float.
template <class T>
struct element_of {
#if KOKKOS_VERSION >= 40000
  static constexpr bool is_half = sizeof(T) == 2 && std::is_same_v<T, Kokkos::Experimental::half_t>;
  static constexpr bool is_bfloat16 =
      sizeof(T) == 2 && std::is_same_v<T, Kokkos::Experimental::bhalf_t>;
  using type = std::conditional_t<is_half, half, std::conditional_t<is_bfloat16, bfloat16, T>>;
#else
  using type = T;
#endif
};

template <class View>
inline constexpr unsigned rank_of = static_cast<unsigned>(View::rank);

template <class View>
std::int64_t extent_of(const View& v, unsigned dimension) {
  return static_cast<std::int64_t>(v.extent(dimension));
}

/// A view of rank 1 or 2 as a matrix, and whether its rows are contiguous.
template <class View>
struct shape_of {
  std::int64_t rows, cols, stride;
  bool contiguous;

  explicit shape_of(const View& v) {
    static_assert(rank_of<View> == 1 || rank_of<View> == 2, "views of rank 1 or 2");
    if constexpr (rank_of<View> == 1) {
      rows = 1;
      cols = extent_of(v, 0);
      stride = cols;
      contiguous = cols <= 1 || v.stride(0) == 1;
    } else {
      rows = extent_of(v, 0);
      cols = extent_of(v, 1);
      contiguous = cols <= 1 || v.stride(1) == 1;
      stride = rows <= 1 ? cols : static_cast<std::int64_t>(v.stride(0));
      contiguous = contiguous && stride >= cols;
    }
  }
};

/// A view's memory where it can be worked on: its own, or a contiguous copy.
template <class Exec, class View>
class access {
  static_assert(Kokkos::SpaceAccessibility<Exec, typename View::memory_space>::accessible,
                "the execution space cannot access the memory of a view");
  using stored = typename View::non_const_value_type;
  using copy_type =
      Kokkos::View<std::conditional_t<rank_of<View> == 1, stored*, stored**>, Kokkos::LayoutRight,
                   Kokkos::Device<typename View::execution_space, typename View::memory_space>>;

 public:
  using element = typename element_of<stored>::type;
  static constexpr bool read_only = std::is_const_v<typename View::value_type>;

  access(const Exec& exec, const View& v, bool is_input) : exec_(exec), view_(v), shape_(v) {
    if (!shape_.contiguous) {
      const auto how = Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "softfold::copy");
      if constexpr (rank_of<View> == 1) {
        copy_ = copy_type(how, v.extent(0));
      } else {
        copy_ = copy_type(how, v.extent(0), v.extent(1));
        shape_.stride = shape_.cols;
      }
      if (is_input) {
        Kokkos::deep_copy(exec, copy_, v);
      }
    }
  }

  [[nodiscard]] auto input() const {
    return matrix_view<const element>(data(), shape_.rows, shape_.cols, shape_.stride);
  }
  [[nodiscard]] auto output() const {
    static_assert(!read_only, "an output view has elements that are not const");
    return matrix_view<element>(data(), shape_.rows, shape_.cols, shape_.stride);
  }
  /// One value for each row.
  [[nodiscard]] std::int64_t size() const {
    static_assert(rank_of<View> == 1, "one value for each row: a view of rank 1");
    return shape_.cols;
  }
  [[nodiscard]] vector_ref vector() const {
    static_assert(!read_only, "an output view has elements that are not const");
    return {data(), dtype_of<element>, size()};
  }
  [[nodiscard]] const_partials_ref partials() const {
    return {data(), detail::row_state<element>::value, size(), detail::row_state<element>::sum};
  }
  [[nodiscard]] partials_ref writable_partials() const {
    static_assert(!read_only, "an output view has elements that are not const");
    return {data(), detail::row_state<element>::value, size(), detail::row_state<element>::sum};
  }

  /// After the call: what was written to a copy goes to the view.
  void finish() const {
    if constexpr (!read_only) {
      if (!shape_.contiguous) {
        Kokkos::deep_copy(exec_, view_, copy_);
      }
    }
  }

 private:
  [[nodiscard]] element* data() const {
    return reinterpret_cast<element*>(shape_.contiguous ? const_cast<stored*>(view_.data())
                                                        : copy_.data());
  }

  Exec exec_;
  View view_;
  shape_of<View> shape_;
  copy_type copy_;
};

/// Calls body(queue, instance) for either kind of `where`.
template <class Where, class Body>
void with_queue(Where& where, Body&& body) {
  if constexpr (is_queue_on<std::remove_cvref_t<Where>>) {
    body(static_cast<queue&>(where), where.instance());
  } else {
    queue q = make_queue(where);
    body(q, where);
  }
}

template <class Exec, class View>
access<Exec, View> read(const Exec& exec, const View& v) {
  return {exec, v, true};
}
template <class Exec, class View>
access<Exec, View> write(const Exec& exec, const View& v) {
  return {exec, v, false};
}

}  // namespace views

/// The matrix of a view, for options that take one. Throws error(invalid_argument) if its rows are
/// not contiguous.
template <views::view View>
auto matrix_of(const View& v) {
  using value = typename View::value_type;
  using element = typename views::element_of<std::remove_const_t<value>>::type;
  using pointer = std::conditional_t<std::is_const_v<value>, const element, element>;
  const views::shape_of<View> shape(v);
  if (!shape.contiguous) {
    throw error(errc::invalid_argument,
                "matrix_of: the rows of view " + std::string(v.label()) +
                    " are not contiguous, expected a stride of 1 in the last dimension");
  }
  return matrix_view<pointer>(reinterpret_cast<pointer*>(v.data()), shape.rows, shape.cols,
                              shape.stride);
}

/// y = softmax of each row of x. See softmax in softfold.hpp.
template <views::where Where, views::view X, views::view Y>
void softmax(Where&& where, const X& x, const Y& y, const softmax_options& options = {}) {
  views::with_queue(where, [&](queue& q, const auto& exec) {
    const auto in = views::read(exec, x);
    const auto out = views::write(exec, y);
    softmax(q, in.input(), out.output(), options);
    out.finish();
  });
}

/// y = log-softmax of each row of x. See log_softmax in softfold.hpp.
template <views::where Where, views::view X, views::view Y>
void log_softmax(Where&& where, const X& x, const Y& y, const softmax_options& options = {}) {
  views::with_queue(where, [&](queue& q, const auto& exec) {
    const auto in = views::read(exec, x);
    const auto out = views::write(exec, y);
    log_softmax(q, in.input(), out.output(), options);
    out.finish();
  });
}

/// dx = the gradient of softmax, given its result y and the gradient dy of that. See
/// softmax_backward in softfold.hpp.
template <views::where Where, views::view Y, views::view Dy, views::view Dx>
void softmax_backward(Where&& where, const Y& y, const Dy& dy, const Dx& dx,
                      const backward_options& options = {}) {
  views::with_queue(where, [&](queue& q, const auto& exec) {
    const auto result = views::read(exec, y);
    const auto gradient = views::read(exec, dy);
    const auto out = views::write(exec, dx);
    softmax_backward(q, result.input(), gradient.input(), out.output(), options);
    out.finish();
  });
}

/// dx = the gradient of log-softmax. See log_softmax_backward in softfold.hpp.
template <views::where Where, views::view Y, views::view Dy, views::view Dx>
void log_softmax_backward(Where&& where, const Y& y, const Dy& dy, const Dx& dx,
                          const backward_options& options = {}) {
  views::with_queue(where, [&](queue& q, const auto& exec) {
    const auto result = views::read(exec, y);
    const auto gradient = views::read(exec, dy);
    const auto out = views::write(exec, dx);
    log_softmax_backward(q, result.input(), gradient.input(), out.output(), options);
    out.finish();
  });
}

/// lse[r] = logsumexp of row r of x. lse is a view of rank 1. See logsumexp in softfold.hpp.
template <views::where Where, views::view X, views::view Lse>
requires(!views::of_states<X>) void logsumexp(Where&& where, const X& x, const Lse& lse,
                                              const logsumexp_options& options = {}) {
  views::with_queue(where, [&](queue& q, const auto& exec) {
    const auto in = views::read(exec, x);
    const auto out = views::write(exec, lse);
    logsumexp(q, in.input(), out.vector(), options);
    out.finish();
  });
}

/// lse[r] = logsumexp of the row of state partials[r].
template <views::where Where, views::view Partials, views::view Lse>
requires views::of_states<Partials>
void logsumexp(Where&& where, const Partials& partials, const Lse& lse) {
  views::with_queue(where, [&](queue& q, const auto& exec) {
    const auto in = views::read(exec, partials);
    const auto out = views::write(exec, lse);
    logsumexp(q, in.partials(), out.vector());
    out.finish();
  });
}

/// The k largest elements of each row in order, with their columns. See topk in softfold.hpp.
template <views::where Where, views::view X, views::view Values, views::view Indices>
void topk(Where&& where, const X& x, const Values& values, const Indices& indices) {
  views::with_queue(where, [&](queue& q, const auto& exec) {
    const auto in = views::read(exec, x);
    const auto to_values = views::write(exec, values);
    const auto to_indices = views::write(exec, indices);
    topk(q, in.input(), to_values.output(), to_indices.output());
    to_values.finish();
    to_indices.finish();
  });
}

/// topk, with probabilities over the whole row. options.logits may be matrix_of(view),
/// options.lse the same as a vector_ref. See softmax_topk in softfold.hpp.
template <views::where Where, views::view X, views::view Probabilities, views::view Indices>
void softmax_topk(Where&& where, const X& x, const Probabilities& probabilities,
                  const Indices& indices, const softmax_topk_options& options = {}) {
  views::with_queue(where, [&](queue& q, const auto& exec) {
    const auto in = views::read(exec, x);
    const auto to_probabilities = views::write(exec, probabilities);
    const auto to_indices = views::write(exec, indices);
    softmax_topk(q, in.input(), to_probabilities.output(), to_indices.output(), options);
    to_probabilities.finish();
    to_indices.finish();
  });
}

/// partials[r] = the state of row r of x_part. partials is a view of rank 1 of max_sum or
/// exact_max_sum, of float or double. See fold in softfold.hpp.
template <views::where Where, views::view X, views::view Partials>
void fold(Where&& where, const X& x_part, const Partials& partials,
          const logsumexp_options& options = {}) {
  views::with_queue(where, [&](queue& q, const auto& exec) {
    const auto in = views::read(exec, x_part);
    const auto out = views::write(exec, partials);
    fold(q, in.input(), out.writable_partials(), options);
    out.finish();
  });
}

/// partials[r] = partials[r] + more[r]. See combine in softfold.hpp.
template <views::where Where, views::view More, views::view Partials>
void combine(Where&& where, const More& more, const Partials& partials) {
  views::with_queue(where, [&](queue& q, const auto& exec) {
    const auto in = views::read(exec, more);
    const auto both = views::read(exec, partials);
    combine(q, in.partials(), both.writable_partials());
    both.finish();
  });
}

/// y = the softmax of a part of each row, given the states of the whole rows. See normalize in
/// softfold.hpp.
template <views::where Where, views::view X, views::view Partials, views::view Y>
void normalize(Where&& where, const X& x_part, const Partials& partials, const Y& y,
               const softmax_options& options = {}) {
  views::with_queue(where, [&](queue& q, const auto& exec) {
    const auto in = views::read(exec, x_part);
    const auto states = views::read(exec, partials);
    const auto out = views::write(exec, y);
    normalize(q, in.input(), states.partials(), out.output(), options);
    out.finish();
  });
}

/// The log-softmax of a part of each row. See log_normalize in softfold.hpp.
template <views::where Where, views::view X, views::view Partials, views::view Y>
void log_normalize(Where&& where, const X& x_part, const Partials& partials, const Y& y,
                   const softmax_options& options = {}) {
  views::with_queue(where, [&](queue& q, const auto& exec) {
    const auto in = views::read(exec, x_part);
    const auto states = views::read(exec, partials);
    const auto out = views::write(exec, y);
    log_normalize(q, in.input(), states.partials(), out.output(), options);
    out.finish();
  });
}

/// The states and the k best elements of a part of each row. See fold_topk in softfold.hpp.
template <views::where Where, views::view X, views::view Partials, views::view Values,
          views::view Indices>
void fold_topk(Where&& where, const X& x_part, const Partials& partials, const Values& values,
               const Indices& indices, const fold_topk_options& options = {}) {
  views::with_queue(where, [&](queue& q, const auto& exec) {
    const auto in = views::read(exec, x_part);
    const auto states = views::write(exec, partials);
    const auto to_values = views::write(exec, values);
    const auto to_indices = views::write(exec, indices);
    fold_topk(q, in.input(), states.writable_partials(), to_values.output(), to_indices.output(),
              options);
    states.finish();
    to_values.finish();
    to_indices.finish();
  });
}

/// The lists of two parts become that of their union. See combine_topk in softfold.hpp.
template <views::where Where, views::view MoreValues, views::view MoreIndices, views::view Values,
          views::view Indices>
void combine_topk(Where&& where, const MoreValues& more_values, const MoreIndices& more_indices,
                  const Values& values, const Indices& indices) {
  views::with_queue(where, [&](queue& q, const auto& exec) {
    const auto from_values = views::read(exec, more_values);
    const auto from_indices = views::read(exec, more_indices);
    const auto to_values = views::read(exec, values);
    const auto to_indices = views::read(exec, indices);
    combine_topk(q, from_values.input(), from_indices.input(), to_values.output(),
                 to_indices.output());
    to_values.finish();
    to_indices.finish();
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
