// SPDX-License-Identifier: Apache-2.0
#include "printable.hpp"

#include <cstddef>
#include <cstdio>

namespace softfold::tool {
namespace {

struct character {
  char32_t code;
  std::size_t size;  // 0: the bytes are not UTF-8
};

/// The first character of a text that is not empty.
character first_of(std::string_view text) {
  constexpr character none = {0, 0};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) {
    return {lead, 1};
  }
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) {
    return none;
  }
  char32_t code = lead & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) {
      return none;
    }
    code = code << 6 | (byte(i) & 0x3fU);
  }
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < least[size] || code > 0x10ffff || surrogate ? none : character{code, size};
}

bool is_acted_on(char32_t code) {
  const auto within = [&](char32_t first, char32_t last) { return code >= first && code <= last; };
  return within(0, 0x1f) || within(0x7f, 0x9f) || within(0x2028, 0x202e) || within(0x2066, 0x2069);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const character c = first_of(text);
    char escape[16];
    if (c.size == 0) {
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(text[0]));
      result += escape;
    } else if (is_acted_on(c.code)) {
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c.code));
      result += escape;
    } else {
      result += text.substr(0, c.size);
    }
    text.remove_prefix(c.size == 0 ? 1 : c.size);
  }
  return result;
}

}  // namespace softfold::tool
