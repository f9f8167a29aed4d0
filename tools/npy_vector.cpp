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

template <class Wide, class Narrow, class Type>
std::vector<Wide> read_vector(const std::string& path, std::int64_t count, const std::string& what,
                              const Type& type_of) {
  const mapped_file file(path);
  try {
    const npy_header header = parse_npy_header(file.bytes());
    const std::size_t size = size_of(type_of(header));
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
      std::memcpy(size == sizeof(Wide) ? static_cast<void*>(&wide) : &narrow, at, size);
      numbers.push_back(size == sizeof(Wide) ? wide : narrow);
    }
    return numbers;
  } catch (const npy_error& error) {
    throw failure(path, error.what());
  }
}

}  // namespace

std::vector<double> read_real_vector(const std::string& path, std::int64_t count,
                                     const std::string& what) {
  return read_vector<double, float>(path, count, what, [](const npy_header& header) {
    const dtype type = npy_element_type(header, false);
    if (type == dtype::f16) {
      throw npy_error("elements are float16; expected float32 or float64");
    }
    return type;
  });
}

std::vector<std::int64_t> read_integer_vector(const std::string& path, std::int64_t count,
                                              const std::string& what) {
  return read_vector<std::int64_t, std::int32_t>(path, count, what, [](const npy_header& header) {
    const char* const expected = "int32 or int64";
    const dtype type = npy_integer_type(header, expected);
    if (type == dtype::u8 || header.descr == "<u4") {
      throw npy_error("elements are " + std::string(type == dtype::u8 ? "bytes" : "uint32") +
                      "; expected " + expected);
    }
    return type;
  });
}

}  // namespace softfold::tool
