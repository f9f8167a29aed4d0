// SPDX-License-Identifier: Apache-2.0
#include "input.hpp"

#include <npy.hpp>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <stdexcept>

namespace softfold::bench {
namespace {

template <class T>
std::vector<T> converted(const std::vector<float>& values, float factor = 1) {
  std::vector<T> result(values.size());
  std::ranges::transform(values, result.begin(),
                         [factor](float v) { return static_cast<T>(v * factor); });
  return result;
}

// A prime length, so that no two rows start at the same place until it has been gone through.
constexpr std::size_t normal_period = 1000003;

const std::vector<float>& normal_values() {
  static const std::vector<float> values = [] {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal(0, 2);
    std::vector<float> v(normal_period);
    std::ranges::generate(v, [&] { return normal(generator); });
    return v;
  }();
  return values;
}

// Copies `source` from element `start` on, over and over, into `out`.
template <class T>
void repeat(const T* source, std::size_t period, std::size_t start, T* out, std::size_t count) {
  while (count > 0) {
    const std::size_t part = std::min(count, period - start);
    std::memcpy(out, source + start, part * sizeof(T));
    out += part;
    count -= part;
    start = 0;
  }
}

template <class T>
void write_logits(const bench_case& c, const logits_table& logits, T* out) {
  const std::vector<T> values = converted<T>(logits.values);
  const auto period = static_cast<std::size_t>(logits.cols);
  const auto cols = static_cast<std::size_t>(c.cols);
  for (std::int64_t r = 0; r < c.rows; ++r) {
    const auto row = static_cast<std::size_t>(r);
    const std::size_t source = row % static_cast<std::size_t>(logits.rows);
    repeat(values.data() + source * period, period, row * 7919 % period, out + row * cols, cols);
  }
}

// Rows are the same but for an offset that is repeated after a prime number of them.
template <class T, class Element>
void write_offset_rows(const bench_case& c, T* out, Element element) {
  for (std::int64_t r = 0; r < c.rows; ++r) {
    const float offset = static_cast<float>(r % 97) * 0.01f;
    for (std::int64_t j = 0; j < c.cols; ++j) {
      *out++ = static_cast<T>(element(j) + offset);
    }
  }
}

template <class T>
void write(const bench_case& c, const logits_table& logits, T* out) {
  switch (c.input) {
    case distribution::normal:
      repeat(converted<T>(normal_values(), c.is_attention() ? 0.5f : 1.0f).data(), normal_period, 0,
             out, static_cast<std::size_t>(c.elements()));
      return;
    case distribution::logits:
      write_logits(c, logits, out);
      return;
    case distribution::ascending: {
      const float step = 20.0f / static_cast<float>(c.cols);
      write_offset_rows(c, out,
                        [step](std::int64_t j) { return static_cast<float>(j) * step - 10; });
      return;
    }
    case distribution::equal:
      write_offset_rows(c, out, [](std::int64_t) { return 1.0f; });
      return;
  }
}

}  // namespace

logits_table read_logits(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error("cannot read " + path);
  }
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  try {
    const tool::npy_header header = tool::parse_npy_header(std::as_bytes(std::span(bytes)));
    const dtype type = tool::npy_element_type(header, false);
    tool::check_npy_file_size(header, size_of(type), bytes.size());
    if (header.shape.size() != 2 || header.shape[0] == 0 || header.shape[1] == 0) {
      throw std::runtime_error("expected two dimensions, neither of them 0");
    }
    logits_table logits{header.shape[0], header.shape[1]};
    logits.values.resize(static_cast<std::size_t>(logits.rows * logits.cols));
    const char* data = bytes.data() + header.data_offset;
    if (type == dtype::f32) {
      std::memcpy(logits.values.data(), data, logits.values.size() * sizeof(float));
    } else if (type == dtype::f16) {
      for (std::size_t i = 0; i < logits.values.size(); ++i) {
        half value;
        std::memcpy(&value, data + i * sizeof(half), sizeof(half));
        logits.values[i] = static_cast<float>(value);
      }
    } else {
      throw std::runtime_error("expected float16 or float32");
    }
    return logits;
  } catch (const std::runtime_error& e) {
    throw std::runtime_error(path + ": " + e.what());
  }
}

void write_input(const bench_case& c, const logits_table& logits, std::byte* out) {
  switch (c.type) {
    case dtype::f32:
      return write(c, logits, reinterpret_cast<float*>(out));
    case dtype::f64:
      return write(c, logits, reinterpret_cast<double*>(out));
    case dtype::f16:
      return write(c, logits, reinterpret_cast<half*>(out));
    case dtype::bf16:
      return write(c, logits, reinterpret_cast<bfloat16*>(out));
    case dtype::i32:
    case dtype::i64:
    case dtype::u8:
      throw std::invalid_argument("input of integers");
  }
}

}  // namespace softfold::bench
