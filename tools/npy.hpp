// SPDX-License-Identifier: Apache-2.0
/// \file
/// The header of a NumPy .npy file, versions 1.0, 2.0 and 3.0, as
/// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html describes it.
/// Functions of bytes only: no file is touched here.
#pragma once

#include <softfold/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace softfold::tool {

/// The bytes are not a file that the command reads; what() is the cause.
class npy_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A longer header text is refused; NumPy's own are about 100 bytes.
inline constexpr std::size_t npy_header_limit = 65536;
/// More dimensions are refused, as NumPy does.
inline constexpr std::size_t npy_rank_limit = 64;

struct npy_header {
  std::string descr;                ///< the element type as written, e.g. "<f4"
  std::vector<std::int64_t> shape;  ///< dimensions, none negative; empty for a scalar
  std::size_t data_offset = 0;      ///< where the elements start
};

/// Reads the header at the start of `file`. Throws npy_error unless it is complete, well
/// formed, in C order and of a simple (not structured) type.
[[nodiscard]] npy_header parse_npy_header(std::span<const std::byte> file);

/// The element type of float16, float32 and float64, or of uint16 read as bfloat16. Throws
/// npy_error for every other type and for big-endian elements.
[[nodiscard]] dtype npy_element_type(const npy_header& header, bool uint16_is_bfloat16);

/// The element type of bool, uint8, int32, uint32 (as int32, whose bits are the same) and int64.
/// Throws npy_error for every other type, saying which are `expected`, and for big-endian elements.
[[nodiscard]] dtype npy_integer_type(const npy_header& header, const char* expected);

/// Elements of the array. Throws npy_error if they would occupy 2^63 bytes or more.
[[nodiscard]] std::int64_t npy_element_count(const npy_header& header, std::size_t element_size);

/// Throws npy_error unless a file of `file_size` bytes ends exactly with the last element.
void check_npy_file_size(const npy_header& header, std::size_t element_size,
                         std::uint64_t file_size);

/// The bytes of a version 1.0 header; the elements follow it at a multiple of 64 bytes.
/// bfloat16 is written as uint16, which every NumPy reads.
[[nodiscard]] std::string make_npy_header(dtype type, std::span<const std::int64_t> shape);

}  // namespace softfold::tool
