// SPDX-License-Identifier: Apache-2.0
/// \file
/// Runs the softfold command in a directory of its own.
#pragma once

#include <softfold/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace softfold::test {

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& bytes);

/// What a run left behind.
struct outcome {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  std::string out;
  std::string err;
};

/// The most resident memory that a running process has had so far, 0 if it has ended. (What
/// wait4 reports would include the memory of the test program that it was forked from.)
std::int64_t peak_resident_bytes(int process);

/// An empty directory, removed at the end of the scope. Commands run in it.
class work_directory {
 public:
  work_directory();
  ~work_directory();
  work_directory(const work_directory&) = delete;
  work_directory& operator=(const work_directory&) = delete;

  [[nodiscard]] std::filesystem::path path(const std::string& name) const { return path_ / name; }
  [[nodiscard]] std::set<std::string> names() const;

  /// Starts the command, after `prepare` in the new process; returns the process.
  [[nodiscard]] int start(const std::vector<std::string>& arguments,
                          const std::function<void()>& prepare = {}) const;
  /// Waits for a process that start() returned.
  [[nodiscard]] outcome finish(int process) const;
  [[nodiscard]] outcome run(const std::vector<std::string>& arguments,
                            const std::function<void()>& prepare = {}) const {
    return finish(start(arguments, prepare));
  }

 private:
  std::filesystem::path path_;
  std::filesystem::path streams_;  // where standard output and error go
};

/// Makes x.npy, 32 GB of zeros without disk space: a command that reads it runs until it is
/// stopped.
void write_endless_input(const work_directory& directory);

/// An array in memory: the elements as doubles and as the bytes of a file.
struct array {
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape;
  std::vector<double> values;

  [[nodiscard]] std::int64_t cols() const { return shape.back(); }
  [[nodiscard]] std::int64_t rows() const;
};

/// Normally distributed elements with a fixed seed, rounded to the type.
array random_array(dtype type, const std::vector<std::int64_t>& shape, unsigned seed);

/// The bytes of an .npy file, written here without the command's own code.
std::string npy_bytes(const array& a);
/// The bytes of an .npy file of integers.
template <class T>
std::string integer_npy(const std::string& descr, const std::vector<std::int64_t>& shape,
                        const std::vector<T>& values) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t dimension : shape) {
    header += std::to_string(dimension) + ",";
  }
  header += "), }";
  header.resize((10 + header.size() + 64) / 64 * 64 - 10, ' ');
  header.back() = '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  const auto* const data = reinterpret_cast<const char*>(values.data());
  return bytes.append(data, values.size() * sizeof(T));
}

/// Reads a file as NumPy writes it; throws if it is anything else. uint16 is bfloat16.
array read_npy(const std::filesystem::path& path);

/// logsumexp of a row of scaled elements, in double.
double reference_logsumexp(const double* row, std::int64_t cols, double scale);

}  // namespace softfold::test
