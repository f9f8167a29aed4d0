// SPDX-License-Identifier: Apache-2.0
/// \file
/// Edits of a row's elements, a word of 32 columns after the other: what is removed is neither read
/// nor computed with where a whole word is.
#pragma once

#include <backends/host/kernels/elements.hpp>

#include <core/softcap.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

inline constexpr std::int64_t word_columns = 32;

/// A bit for each of the 32 bytes that is not 0.
SOFTFOLD_INLINE std::uint32_t nonzero_bytes(const std::uint8_t* bytes, std::int64_t count) {
  std::uint32_t word = 0;
  for (std::int64_t i = 0; i < count; i += 8) {
    std::uint64_t eight = 0;
    __builtin_memcpy(&eight, bytes + i, static_cast<std::size_t>(count - i < 8 ? count - i : 8));
    // The top bit of each byte that is not 0, gathered by a product.
    constexpr std::uint64_t low = 0x7f7f7f7f7f7f7f7f;
    const std::uint64_t tops = ((((eight & low) + low) | eight) & ~low) >> 7;
    word |= static_cast<std::uint32_t>(tops * 0x0102040810204080 >> 56) << i;
  }
  return word;
}

template <class T>
SOFTFOLD_INLINE std::uint32_t above_minus_infinity(const void* bias, std::int64_t column,
                                                   std::int64_t count) {
  using V = vec<arithmetic_t<T>>;
  const T* const b = static_cast<const T*>(bias) + column;
  const V none(-infinity<arithmetic_t<T>>);
  std::uint32_t word = 0;
  for (std::int64_t i = 0; i < count; i += V::lanes) {
    const std::int64_t left = count - i;
    const V v = left >= V::lanes ? V::load(b + i) : V::load(b + i, static_cast<int>(left), none);
    word |= (V::bits(greater(v, none)) | V::bits(unordered(v, v))) << i;
  }
  return word;
}

/// f<T>() for the element type of that number.
template <class F>
SOFTFOLD_INLINE auto with_input(int type, const F& f) {
  switch (type) {
    case input_f64:
      return f(double{});
    case input_f16:
      return f(f16_bits{});
    case input_bf16:
      return f(bf16_bits{});
    default:
      return f(float{});
  }
}

/// A bit for each of the `count` <= 32 columns from `column` on that is kept.
SOFTFOLD_INLINE std::uint32_t kept_word(const row_edit& row, std::int64_t column,
                                        std::int64_t count) {
  std::uint32_t word = row.words == nullptr ? ~0U : row.words[column / word_columns];
  const auto below = [](std::int64_t n) {  // n ones
    return n >= word_columns ? ~0U : n <= 0 ? 0U : (1U << n) - 1U;
  };
  word &= below(row.last - column) & below(count) & ~below(row.first - column);
  if (row.bytes != nullptr && word != 0) {
    word &= nonzero_bytes(row.bytes + column, count);
  }
  if (row.bias != nullptr && word != 0) {
    word &= with_input(row.bias_type, [&]<class T>(T) {
      return above_minus_infinity<T>(row.bias, column, count);
    });
  }
  return word;
}

template <class T>
struct edit_kernels {
  using A = arithmetic_t<T>;
  using V = vec<A>;

  /// body(i, count, word) for each word of columns.
  template <class Body>
  static SOFTFOLD_INLINE void over_words(std::int64_t n, std::int64_t column, const row_edit& row,
                                         const Body& body) {
    for (std::int64_t i = 0; i < n; i += word_columns) {
      const std::int64_t count = n - i < word_columns ? n - i : word_columns;
      body(i, count, kept_word(row, column + i, count));
    }
  }

  static SOFTFOLD_INLINE T removed(const row_edit& row) {
    T one;
    V(static_cast<A>(row.removed)).store(&one, 1);
    return one;
  }
  static SOFTFOLD_INLINE T chosen(std::uint32_t word, std::int64_t i, T kept, T otherwise) {
    return (word >> i & 1U) != 0 ? kept : otherwise;
  }

  static void keep(const void* from, std::int64_t n, std::int64_t column, const row_edit* row,
                   void* to) {
    const T* const x = static_cast<const T*>(from);
    T* const y = static_cast<T*>(to);
    const T otherwise = removed(*row);
    over_words(n, column, *row, [&](std::int64_t begin, std::int64_t count, std::uint32_t word) {
      const T* const in = x + begin;
      T* const out = y + begin;
      if (word == 0) {
        for (std::int64_t i = 0; i < count; ++i) {
          out[i] = otherwise;
        }
      } else if (word == ~0U) {
        __builtin_memcpy(out, in, word_columns * sizeof(T));
      } else if (count == word_columns) {
        for (std::int64_t i = 0; i < word_columns; ++i) {
          out[i] = chosen(word, i, in[i], otherwise);
        }
      } else {
        for (std::int64_t i = 0; i < count; ++i) {
          out[i] = chosen(word, i, in[i], otherwise);
        }
      }
    });
  }

  static void add_bias(const void* from, std::int64_t n, std::int64_t column, const row_edit* row,
                       void* to) {
    const T* const x = static_cast<const T*>(from);
    A* const y = static_cast<A*>(to);
    over_words(n, column, *row, [&](std::int64_t begin, std::int64_t count, std::uint32_t word) {
      if (word == 0) {
        return;
      }
      if (row->bias == nullptr) {
        map_elements(x + begin, count, y + begin, false, [](V v) { return v; });
        return;
      }
      with_input(row->bias_type, [&]<class B>(B) {
        const B* const bias = static_cast<const B*>(row->bias) + column + begin;
        if constexpr (sizeof(arithmetic_t<B>) == sizeof(A)) {
          const V none(A{0});
          for (std::int64_t i = 0; i < count; i += V::lanes) {
            if (const std::int64_t left = count - i; left >= V::lanes) {
              (V::load(x + begin + i) + V::load(bias + i)).store(y + begin + i);
            } else {
              const auto few = static_cast<int>(left);
              (V::load(x + begin + i, few, none) + V::load(bias + i, few, none))
                  .store(y + begin + i, few);
            }
          }
        } else {  // f64 and another type
          for (std::int64_t i = 0; i < count; ++i) {
            y[begin + i] = V::load(x + begin + i, 1, V(A{0})).first_lane() +
                           static_cast<A>(vec<arithmetic_t<B>>::load(
                                              bias + i, 1, vec<arithmetic_t<B>>(arithmetic_t<B>{0}))
                                              .first_lane());
          }
        }
      });
    });
  }

  static void cap_and_keep(void* values, std::int64_t n, std::int64_t column, const row_edit* row) {
    static_assert(sizeof(T) == sizeof(A));
    A* const x = static_cast<A*>(values);
    const auto c = static_cast<A>(row->softcap);
    const auto otherwise = static_cast<A>(row->removed);
    over_words(n, column, *row, [&](std::int64_t begin, std::int64_t count, std::uint32_t word) {
      A* const out = x + begin;
      if (word != 0 && c != 0) {
        for (std::int64_t i = 0; i < count; ++i) {
          out[i] = core::softcapped(out[i], c);
        }
      }
      if (word != ~0U) {
        for (std::int64_t i = 0; i < count; ++i) {
          out[i] = chosen(word, i, out[i], otherwise);
        }
      }
    });
  }

  static void narrow(const void* from, std::int64_t n, void* to) {
    map_elements(static_cast<const A*>(from), n, static_cast<T*>(to), false, [](V v) { return v; });
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
