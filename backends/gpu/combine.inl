// SPDX-License-Identifier: Apache-2.0
/// \file
/// combine and logsumexp of states, one thread for each; combine_topk, one block for each row.
#include <gpu/contract.hpp>
#include <gpu/plan/constants.hpp>
#include <gpu/plan/sizes.hpp>
#include <gpu/row/vector_elements.hpp>
#include <gpu/typed.hpp>

#include <core/exact_state.hpp>
#include <core/monoid.hpp>
#include <core/real_types.hpp>
#include <core/topk.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

constexpr int threads = 256;

template <class Monoid>
__global__ void __launch_bounds__(threads)
    combine_states_of_rows(const typename Monoid::value_type* more,
                           typename Monoid::value_type* partials, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) {
    partials[i] = Monoid::combine(partials[i], more[i]);
  }
}

template <class T>
__device__ inline T logsumexp_of(const max_sum<T>& s) {
  const bool finite = isfinite(s.max) && s.sum > 0;
  const T other = s.sum != s.sum || s.max != s.max ? std::numeric_limits<T>::quiet_NaN()
                  : s.max == infinity<T>           ? s.max
                                                   : -infinity<T>;
  return finite ? s.max + log(s.sum) : other;
}
template <class T>
__device__ inline T logsumexp_of(const exact_max_sum<T>& s) {
  return core::reproducible::total_of(T{1}, s).lse;
}

template <class State, class T>
__global__ void __launch_bounds__(threads)
    logsumexp_of_rows(const State* partials, T* lse, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) {
    lse[i] = logsumexp_of(partials[i]);
  }
}

/// A row's list.
template <class In, class Index>
struct list_view {
  const In* values;
  const Index* indices;

  __device__ core::ranked<arithmetic_t<In>> at(std::int64_t i) const {
    if (indices[i] < 0) {
      return {};
    }
    return {widen(values[i]), static_cast<std::int64_t>(indices[i])};
  }

  /// How many of the list's k entries rank before one of another list; of two absent ones, the
  /// first list's do.
  __device__ std::int64_t before(const core::ranked<arithmetic_t<In>>& entry, std::int64_t k,
                                 bool first) const {
    std::int64_t low = 0;
    std::int64_t high = k;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      const auto own = at(middle);
      const bool precedes =
          core::ranks_before(own, entry) || (first && !core::ranks_before(entry, own));
      low = precedes ? middle + 1 : low;
      high = precedes ? high : middle;
    }
    return low;
  }
};

/// Each entry finds its rank in the union by a binary search in the other list.
template <class In, class Index>
__global__ void __launch_bounds__(threads)
    merge_lists(const In* more_values, std::int64_t more_values_stride, const Index* more_indices,
                std::int64_t more_indices_stride, In* values, std::int64_t values_stride,
                Index* indices, std::int64_t indices_stride, std::int64_t k, In* merged_values,
                Index* merged_indices) {
  const std::int64_t row = blockIdx.x;
  In* const own_values = values + row * values_stride;
  Index* const own_indices = indices + row * indices_stride;
  In* const to_values = merged_values + row * k;
  Index* const to_indices = merged_indices + row * k;
  const list_view<In, Index> own = {own_values, own_indices};
  const list_view<In, Index> more = {more_values + row * more_values_stride,
                                     more_indices + row * more_indices_stride};
  const auto place = [&](const list_view<In, Index>& from, std::int64_t i, std::int64_t rank) {
    if (rank < k) {
      const bool absent = from.indices[i] < 0;
      to_values[rank] = absent ? minus_infinity<In>() : from.values[i];
      to_indices[rank] = absent ? Index{-1} : from.indices[i];
    }
  };
  int disorder = 0;
  for (std::int64_t i = threadIdx.x; i + 1 < k; i += blockDim.x) {
    disorder += core::ranks_before(own.at(i + 1), own.at(i)) ? 1 : 0;
    disorder += core::ranks_before(more.at(i + 1), more.at(i)) ? 1 : 0;
  }
  if (__syncthreads_or(disorder) == 0) {
    for (std::int64_t i = threadIdx.x; i < k; i += blockDim.x) {
      place(own, i, i + more.before(own.at(i), k, false));
      place(more, i, i + own.before(more.at(i), k, true));
    }
  } else if (threadIdx.x == 0) {  // ranks would collide; whatever comes first is taken
    std::int64_t taken = 0;
    for (std::int64_t rank = 0; rank < k; ++rank) {
      const bool from_own = !core::ranks_before(more.at(rank - taken), own.at(taken));
      place(from_own ? own : more, from_own ? taken : rank - taken, rank);
      taken += from_own ? 1 : 0;
    }
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < k; i += blockDim.x) {
    own_values[i] = to_values[i];
    own_indices[i] = to_indices[i];
  }
}

template <class In, class Index>
void launch_merge(executor& on, const core::lists_problem& p) {
  void* const scratch = on.scratch.at_least(lists_scratch_bytes(p));
  const std::int64_t k = p.values.cols;
  auto* const merged_indices = static_cast<Index*>(scratch);
  auto* const merged_values =
      reinterpret_cast<In*>(static_cast<std::byte*>(scratch) +
                            static_cast<std::size_t>(p.values.rows * k) * sizeof(std::int64_t));
  launch_grid(on.stream, merge_lists<In, Index>, p.values.rows, threads,
              static_cast<const In*>(p.more_values.data), p.more_values.stride,
              static_cast<const Index*>(p.more_indices.data), p.more_indices.stride,
              static_cast<In*>(p.values.data), p.values.stride, static_cast<Index*>(p.indices.data),
              p.indices.stride, k, merged_values, merged_indices);
}

/// Calls body with the monoid of the states.
template <class Body>
void with_monoid(const const_partials_ref& states, Body&& body) {
  const auto of = [&]<class T>(T) {
    if (states.sum == sum_kind::exact) {
      body(core::reproducible::exact_max_sum_monoid<T>());
    } else {
      body(core::max_sum_monoid<T>());
    }
  };
  states.type == dtype::f64 ? of(double{}) : of(float{});
}

}  // namespace

void combine_states(executor& on, const core::combine_problem& p) {
  if (p.more.size == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  with_monoid(p.more, [&]<class Monoid>(Monoid) {
    using state = typename Monoid::value_type;
    launch_grid(on.stream, combine_states_of_rows<Monoid>, divide_up(p.more.size, threads), threads,
                static_cast<const state*>(p.more.data), static_cast<state*>(p.partials.data),
                p.more.size);
  });
}

void logsumexp_of_states(executor& on, const core::state_problem& p) {
  if (p.lse.size == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  with_monoid(p.partials, [&]<class Monoid>(Monoid) {
    using state = typename Monoid::value_type;
    using T = decltype(state::max);
    launch_grid(on.stream, logsumexp_of_rows<state, T>, divide_up(p.lse.size, threads), threads,
                static_cast<const state*>(p.partials.data), static_cast<T*>(p.lse.data),
                p.lse.size);
  });
}

void combine_lists(executor& on, const core::lists_problem& p) {
  if (p.values.rows == 0 || p.values.cols == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  core::with_real(p.values.type, [&]<class In>(In) {
    if (p.indices.type == dtype::i32) {
      launch_merge<In, std::int32_t>(on, p);
    } else {
      launch_merge<In, std::int64_t>(on, p);
    }
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
