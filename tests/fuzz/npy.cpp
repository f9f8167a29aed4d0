// SPDX-License-Identifier: Apache-2.0
// Any bytes as an .npy file: they are refused by npy_error, or the header's numbers are ones that
// the command can work with.
#include "require.hpp"

#include <npy.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>

using softfold::fuzz::require;
namespace tool = softfold::tool;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy that ends where the memory ends, for the address sanitizer.
  const std::unique_ptr<std::byte[]> exact(new std::byte[size]);
  std::transform(data, data + size, exact.get(), [](std::uint8_t b) { return std::byte{b}; });
  for (const bool bf16 : {false, true}) {
    try {
      const tool::npy_header header = tool::parse_npy_header({exact.get(), size});
      require(header.data_offset <= size, "the header lies within the file");
      require(header.shape.size() <= tool::npy_rank_limit, "rank");
      require(std::ranges::all_of(header.shape, [](std::int64_t n) { return n >= 0; }), "shape");
      const softfold::dtype type = tool::npy_element_type(header, bf16);
      require((type == softfold::dtype::bf16) == bf16, "bfloat16 only if asked for");
      const std::int64_t count = tool::npy_element_count(header, size_of(type));
      require(count >= 0, "count");
      tool::check_npy_file_size(header, size_of(type), size);
      require(header.data_offset + static_cast<std::size_t>(count) * size_of(type) == size,
              "an accepted file ends with its last element");
      const std::string again = tool::make_npy_header(type, header.shape);
      const tool::npy_header reread = tool::parse_npy_header(std::as_bytes(std::span(again)));
      require(reread.shape == header.shape, "a written header says the same shape");
    } catch (const tool::npy_error&) {  // NOLINT(bugprone-empty-catch): the right answer to most
    }
  }
  return 0;
}
