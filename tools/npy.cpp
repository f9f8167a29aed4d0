// SPDX-License-Identifier: Apache-2.0
#include "npy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <string_view>

namespace softfold::tool {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are mapped, not converted");

constexpr std::array<unsigned char, 6> magic = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/// A value from the file for a message: short and without control characters.
std::string quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text.substr(0, 32)) {
    result += c >= ' ' && c <= '~' ? c : '?';
  }
  return result + (text.size() > 32 ? "...'" : "'");
}

/// Reads the header's Python dictionary. Only the literals that NumPy writes are accepted:
/// strings without escapes, True, False, and tuples of decimal integers.
class header_reader {
 public:
  explicit header_reader(std::string_view text) : text_(text) {}

  npy_header read() {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<std::int64_t>> shape;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr) {
        descr = type_string();
      } else if (key == "fortran_order" && !fortran_order) {
        fortran_order = boolean();
      } else if (key == "shape" && !shape) {
        shape = tuple();
      } else {
        throw npy_error("malformed header: unexpected key " + quoted(key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (peek() != '\0' || position_ != text_.size()) {
      throw npy_error("malformed header: text after the dictionary");
    }
    if (!descr || !fortran_order || !shape) {
      throw npy_error(std::string("malformed header: no ") + (!descr           ? "descr"
                                                              : !fortran_order ? "fortran_order"
                                                                               : "shape"));
    }
    if (*fortran_order) {
      throw npy_error("Fortran order is not supported; save a C-order copy");
    }
    return {*descr, *shape, 0};
  }

 private:
  /// The next character that is not white space, or NUL at the end.
  char peek() {
    constexpr std::string_view space = " \t\n\r\f";
    while (position_ < text_.size() && space.find(text_[position_]) != space.npos) {
      ++position_;
    }
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  bool accept(char c) {
    if (peek() != c || position_ == text_.size()) {
      return false;
    }
    ++position_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) {
      throw npy_error(std::string("malformed header: expected '") + c + "' at character " +
                      std::to_string(position_));
    }
  }

  std::string string() {
    const char quote = peek() == '"' ? '"' : '\'';
    expect(quote);
    const std::size_t end = text_.find(quote, position_);
    if (end == text_.npos) {
      throw npy_error("malformed header: unterminated string");
    }
    const std::string_view value = text_.substr(position_, end - position_);
    if (value.find_first_of("\\\n") != value.npos) {
      throw npy_error("malformed header: escape or line break in a string");
    }
    position_ = end + 1;
    return std::string(value);
  }

  std::string type_string() {
    if (peek() == '[') {
      throw npy_error("structured elements are not supported");
    }
    return string();
  }

  bool boolean() {
    peek();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(position_, word.size()) == word) {
        position_ += word.size();
        return word == "True";
      }
    }
    throw npy_error("malformed header: fortran_order is neither True nor False");
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> dimensions;
    expect('(');
    while (!accept(')')) {
      dimensions.push_back(dimension());
      if (dimensions.size() > npy_rank_limit) {
        throw npy_error("more than " + std::to_string(npy_rank_limit) + " dimensions");
      }
      const bool comma = accept(',');
      if (!comma && dimensions.size() == 1) {
        throw npy_error("malformed header: shape is not a tuple");
      }
      if (!comma) {
        expect(')');
        break;
      }
    }
    return dimensions;
  }

  std::int64_t dimension() {
    constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
    const bool negative = accept('-');
    peek();
    const std::size_t start = position_;
    std::int64_t value = 0;
    for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9';
         ++position_) {
      const int digit = text_[position_] - '0';
      if (value > (largest - digit) / 10) {
        throw npy_error("shape overflows: a dimension is above 2^63 - 1");
      }
      value = value * 10 + digit;
    }
    const std::size_t digits = position_ - start;
    if (digits == 0 || (digits > 1 && text_[start] == '0')) {
      throw npy_error("malformed header: a dimension is not a decimal integer");
    }
    if (negative) {
      throw npy_error("negative dimension in the shape");
    }
    if (position_ < text_.size() && text_[position_] == 'L') {
      ++position_;  // Python 2 wrote long integers so
    }
    return value;
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace

npy_header parse_npy_header(std::span<const std::byte> file) {
  const auto byte = [&](std::size_t i) { return std::to_integer<unsigned char>(file[i]); };
  if (file.empty()) {
    throw npy_error("not an .npy file: empty");
  }
  for (std::size_t i = 0; i < std::min(file.size(), magic.size()); ++i) {
    if (byte(i) != magic[i]) {
      throw npy_error("not an .npy file: wrong magic");
    }
  }
  if (file.size() < 8) {
    throw npy_error("truncated header");
  }
  const int major = byte(6);
  const int minor = byte(7);
  if (major < 1 || major > 3 || minor != 0) {
    throw npy_error("unknown .npy version " + std::to_string(major) + "." + std::to_string(minor));
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t text_offset = 8 + length_bytes;
  if (file.size() < text_offset) {
    throw npy_error("truncated header");
  }
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length |= std::size_t{byte(8 + i)} << (8 * i);
  }
  if (length > npy_header_limit) {
    throw npy_error("header of " + std::to_string(length) + " bytes, more than 64 KiB");
  }
  if (file.size() - text_offset < length) {
    throw npy_error("truncated header");
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + text_offset, length);
  npy_header header = header_reader(text).read();
  header.data_offset = text_offset + length;
  return header;
}

namespace {

/// The byte order's letter, if there is one, and the type's.
struct element_descr {
  char order;
  std::string_view type;
};

element_descr split_descr(const npy_header& header) {
  const std::string_view descr = header.descr;
  const bool has_order =
      !descr.empty() && std::string_view("<>=|").find(descr.front()) != std::string_view::npos;
  return {has_order ? descr.front() : '\0', descr.substr(has_order ? 1 : 0)};
}

}  // namespace

dtype npy_element_type(const npy_header& header, bool uint16_is_bfloat16) {
  const auto [order, type] = split_descr(header);
  if (type.starts_with('O')) {
    throw npy_error("object elements are not supported");
  }
  const bool float_type = type == "f2" || type == "f4" || type == "f8";
  // ml_dtypes saves its bfloat16 as two opaque bytes.
  const bool uint16_type = type == "u2" || (type == "V2" && uint16_is_bfloat16);
  if (order == '>' && (float_type || uint16_type)) {
    throw npy_error("big-endian elements (" + quoted(header.descr) + ") are not supported");
  }
  if (uint16_is_bfloat16) {
    if (!uint16_type) {
      throw npy_error("elements are " + quoted(header.descr) + "; --bf16 needs uint16");
    }
    return dtype::bf16;
  }
  if (uint16_type) {
    throw npy_error("elements are uint16; if they are bfloat16, say --bf16");
  }
  if (!float_type) {
    throw npy_error("elements are " + quoted(header.descr) +
                    "; expected float16, float32 or float64");
  }
  return type == "f2" ? dtype::f16 : type == "f4" ? dtype::f32 : dtype::f64;
}

dtype npy_integer_type(const npy_header& header, const char* expected) {
  const auto [order, type] = split_descr(header);
  if (type == "b1" || type == "u1") {
    return dtype::u8;
  }
  if (type != "i4" && type != "u4" && type != "i8") {
    throw npy_error("elements are " + quoted(header.descr) + "; expected " + expected);
  }
  if (order == '>') {
    throw npy_error("big-endian elements (" + quoted(header.descr) + ") are not supported");
  }
  return type == "i8" ? dtype::i64 : dtype::i32;
}

std::int64_t npy_element_count(const npy_header& header, std::size_t element_size) {
  // A dimension of 0 does not hide the overflow of the others: products of some of them, such
  // as the number of rows, are computed too.
  const auto limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t bytes = element_size;
  bool empty = false;
  for (const std::int64_t dimension : header.shape) {
    const auto size = static_cast<std::uint64_t>(std::max<std::int64_t>(dimension, 1));
    if (bytes > limit / size) {
      throw npy_error("shape overflows: the array would have 2^63 bytes or more");
    }
    bytes *= size;
    empty = empty || dimension == 0;
  }
  return empty ? 0 : static_cast<std::int64_t>(bytes / element_size);
}

void check_npy_file_size(const npy_header& header, std::size_t element_size,
                         std::uint64_t file_size) {
  const std::uint64_t expected =
      static_cast<std::uint64_t>(npy_element_count(header, element_size)) * element_size;
  const std::uint64_t found = file_size - header.data_offset;
  if (found != expected) {
    throw npy_error((found < expected ? "truncated: " : "bytes after the array: ") +
                    std::to_string(found) + " bytes of data, the header says " +
                    std::to_string(expected));
  }
}

std::string make_npy_header(dtype type, std::span<const std::int64_t> shape) {
  const bool integer = type == dtype::i32 || type == dtype::i64;
  const char* kind = integer ? "<i" : type == dtype::bf16 ? "<u" : "<f";
  std::string text = "{'descr': '";
  text += kind + std::to_string(size_of(type)) + "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += i == 0 ? "" : ", ";
    text += std::to_string(shape[i]);
  }
  text += shape.size() == 1 ? ",), }" : "), }";
  constexpr std::size_t prefix = 10;
  text.append(63 - (prefix + text.size()) % 64, ' ');
  text += '\n';
  std::string header(magic.begin(), magic.end());
  header +=
      {'\1', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace softfold::tool
