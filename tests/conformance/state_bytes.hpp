// SPDX-License-Identifier: Apache-2.0
/// \file
/// Bytes of states that are altered, and what reading them says.
#pragma once

#include <softfold/error.hpp>

#include <doctest/doctest.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace softfold::test {

using bytes = std::vector<std::byte>;

template <class States>
std::string refusal(std::span<const std::byte> data) {
  try {
    static_cast<void>(States::from_bytes(data));
  } catch (const error& e) {
    CHECK(e.code() == errc::invalid_data);
    return e.what();
  }
  return "accepted";
}

/// Overwrites and puts the checksum right again.
template <class T>
bytes with(bytes data, std::size_t at, T value) {
  std::memcpy(&data[at], &value, sizeof value);
  const auto sum = static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(data.data()), data.size() - 4));
  std::memcpy(&data[data.size() - 4], &sum, 4);
  return data;
}

inline bool mentions(const std::string& text, const std::string& part) {
  INFO("message: " << text);
  return text.find(part) != std::string::npos;
}

}  // namespace softfold::test
