// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <stdexcept>

namespace softfold::test {
namespace {

std::filesystem::path new_directory() {
  std::string name = (std::filesystem::temp_directory_path() / "softfold-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error("mkdtemp failed");
  }
  return name;
}

const char* descr(dtype type) {
  return type == dtype::f16    ? "<f2"
         : type == dtype::f32  ? "<f4"
         : type == dtype::f64  ? "<f8"
         : type == dtype::bf16 ? "<u2"
                               : "<i8";
}

template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <class T>
T value_of(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

std::string encode(dtype type, double value) {
  switch (type) {
    case dtype::f16:
      return bytes_of(half(static_cast<float>(value)).bits);
    case dtype::bf16:
      return bytes_of(bfloat16(static_cast<float>(value)).bits);
    case dtype::f32:
      return bytes_of(static_cast<float>(value));
    case dtype::f64:
      return bytes_of(value);
    default:
      return bytes_of(static_cast<std::int64_t>(value));
  }
}

double decode(dtype type, const char* bytes) {
  switch (type) {
    case dtype::f16:
      return double{float{half::from_bits(value_of<std::uint16_t>(bytes))}};
    case dtype::bf16:
      return double{float{bfloat16::from_bits(value_of<std::uint16_t>(bytes))}};
    case dtype::f32:
      return double{value_of<float>(bytes)};
    case dtype::f64:
      return value_of<double>(bytes);
    default:
      return static_cast<double>(value_of<std::int64_t>(bytes));
  }
}

std::string header_text(const array& a) {
  std::string shape;
  for (const std::int64_t dimension : a.shape) {
    shape += shape.empty() ? "" : ", ";
    shape += std::to_string(dimension);
  }
  shape += a.shape.size() == 1 ? "," : "";
  std::string text = "{'descr': '";
  text += descr(a.type);
  text += "', 'fortran_order': False, 'shape': (" + shape + "), }";
  text.append(63 - (10 + text.size()) % 64, ' ');
  return text + "\n";
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    throw std::runtime_error("cannot read " + path.string());
  }
  std::ostringstream content;
  content << stream.rdbuf();
  return content.str();
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream stream(path, std::ios::binary);
  if (!stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) {
    throw std::runtime_error("cannot write " + path.string());
  }
}

std::int64_t peak_resident_bytes(int process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  const std::string key = "VmHWM:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) {
      return std::stoll(line.substr(key.size())) * 1024;
    }
  }
  return 0;
}

work_directory::work_directory() : path_(new_directory()), streams_(new_directory()) {}

work_directory::~work_directory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  std::filesystem::remove_all(streams_, ignored);
}

std::set<std::string> work_directory::names() const {
  std::set<std::string> result;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    result.insert(entry.path().filename().string());
  }
  return result;
}

int work_directory::start(const std::vector<std::string>& arguments,
                          const std::function<void()>& prepare) const {
  std::vector<std::string> words = {SOFTFOLD_COMMAND};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  const std::string out = streams_ / "out";
  const std::string err = streams_ / "err";
  const pid_t process = fork();
  if (process < 0) {
    throw std::runtime_error("fork failed");
  }
  if (process == 0) {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    if (chdir(path_.c_str()) != 0 || dup2(open(out.c_str(), flags, 0600), STDOUT_FILENO) < 0 ||
        dup2(open(err.c_str(), flags, 0600), STDERR_FILENO) < 0) {
      _exit(126);
    }
    if (prepare) {
      prepare();
    }
    execv(SOFTFOLD_COMMAND, pointers.data());
    _exit(127);
  }
  return process;
}

outcome work_directory::finish(int process) const {
  int status = 0;
  if (waitpid(process, &status, 0) != process) {
    throw std::runtime_error("waitpid failed");
  }
  outcome result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  result.out = read_file(streams_ / "out");
  result.err = read_file(streams_ / "err");
  return result;
}

void write_endless_input(const work_directory& directory) {
  const std::string header = npy_bytes({dtype::f32, {500000, 16384}, {}});
  write_file(directory.path("x.npy"), header);
  std::filesystem::resize_file(directory.path("x.npy"),
                               header.size() + std::uintmax_t{500000} * 16384 * 4);
}

std::int64_t array::rows() const {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) {
    rows *= shape[i];
  }
  return rows;
}

array random_array(dtype type, const std::vector<std::int64_t>& shape, unsigned seed) {
  array a = {type, shape, {}};
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, 3);
  const auto count = static_cast<std::size_t>(a.rows() * a.cols());
  a.values.resize(count);
  for (double& value : a.values) {
    value = decode(type, encode(type, normal(random)).data());
  }
  return a;
}

std::string npy_bytes(const array& a) {
  const std::string text = header_text(a);
  std::string bytes = std::string("\x93NUMPY\x01\x00", 8) +
                      bytes_of(static_cast<std::uint16_t>(text.size())) + text;
  for (const double value : a.values) {
    bytes += encode(a.type, value);
  }
  return bytes;
}

array read_npy(const std::filesystem::path& path) {
  const std::string file = read_file(path);
  const auto fail = [&](const char* what) {
    throw std::runtime_error(path.string() + ": " + what);
  };
  if (file.size() < 10 || file.substr(0, 8) != std::string("\x93NUMPY\x01\x00", 8)) {
    fail("magic");
  }
  const std::size_t data = 10 + value_of<std::uint16_t>(file.data() + 8);
  array a;
  bool known = false;
  for (const dtype type : {dtype::f16, dtype::f32, dtype::f64, dtype::bf16, dtype::i64}) {
    if (file.find(descr(type)) == 21) {
      a.type = type;
      known = true;
    }
  }
  const std::size_t open = file.find('(');
  if (!known || open > data) {
    fail("header");
  }
  std::istringstream shape(file.substr(open + 1, file.find(')') - open - 1));
  for (std::string word; std::getline(shape, word, ',');) {
    a.shape.push_back(std::stoll(word));
  }
  // Every byte of the header is known, so compare them all instead of parsing.
  if (file.substr(10, data - 10) != header_text(a) || data % 64 != 0) {
    fail("header text");
  }
  for (std::size_t at = data; at < file.size(); at += size_of(a.type)) {
    a.values.push_back(decode(a.type, file.data() + at));
  }
  std::int64_t count = 1;
  for (const std::int64_t dimension : a.shape) {
    count *= dimension;
  }
  if (static_cast<std::size_t>(count) * size_of(a.type) != file.size() - data) {
    fail("size");
  }
  return a;
}

double reference_logsumexp(const double* row, std::int64_t cols, double scale) {
  double max = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < cols; ++i) {
    max = std::fmax(max, scale * row[i]);
  }
  double sum = 0;
  for (std::int64_t i = 0; i < cols; ++i) {
    sum += std::exp(scale * row[i] - max);
  }
  return max + std::log(sum);
}

}  // namespace softfold::test
