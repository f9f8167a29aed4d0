// SPDX-License-Identifier: Apache-2.0
#include "npy_vector.hpp"

#include "failure.hpp"
#include "mapped_file.hpp"
#include "npy.hpp"

#include <cstring>

namespace softfold::tool {
namespace {

/// As Python writes it.
std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

/// As NumPy writes them, without the order of bytes.
struct number_types {
  const char* narrow;
  const char* wide;
  const char* names;
};

template <class Wide, class Narrow, class Check>
std::vector<Wide> read_vector(const std::string& path, std::int64_t count, const std::string& what,
                              const number_types& types, const Check& check) {
  const mapped_file file(path);
  try {
    const npy_header header = parse_npy_header(file.bytes());
    const bool is_wide = header.descr.ends_with(types.wide);
    if (!is_wide && !header.descr.ends_with(types.narrow)) {
      throw npy_error("elements are '" + header.descr.substr(0, 32) + "'; expected " + types.names);
    }
    check(header);
    const std::size_t size = is_wide ? sizeof(Wide) : sizeof(Narrow);
    check_npy_file_size(header, size, file.bytes().size());
    if (header.shape != std::vector{count}) {
      throw npy_error("has shape " + text_of(header.shape) + "; expected " + text_of({count}) +
                      ", a number for each of " + what);
    }
    std::vector<Wide> numbers;
    for (const std::byte* at = file.bytes().data() + header.data_offset;
         numbers.size() < static_cast<std::size_t>(count); at += size) {
      Wide wide{};
      Narrow narrow{};
      std::memcpy(is_wide ? static_cast<void*>(&wide) : &narrow, at, size);
      numbers.push_back(is_wide ? wide : narrow);
    }
    return numbers;
  } catch (const npy_error& error) {
    throw failure(path, error.what());
  }
}

}  // namespace

std::vector<double> read_real_vector(const std::string& path, std::int64_t count,
                                     const std::string& what) {
  return read_vector<double, float>(
      path, count, what, {"f4", "f8", "float32 or float64"},
      [](const npy_header& header) { (void)npy_element_type(header, false); });
}

std::vector<std::int64_t> read_integer_vector(const std::string& path, std::int64_t count,
                                              const std::string& what) {
  constexpr number_types types = {"i4", "i8", "int32 or int64"};
  return read_vector<std::int64_t, std::int32_t>(
      path, count, what, types,
      [&](const npy_header& header) { (void)npy_integer_type(header, types.names); });
}

}  // namespace softfold::tool
