// SPDX-License-Identifier: Apache-2.0
#include "block_buffer.hpp"
#include "commands.hpp"
#include "device_memory.hpp"
#include "failure.hpp"
#include "npy_input.hpp"
#include "npy_output.hpp"
#include "progress.hpp"

#include <softfold/attention.hpp>

#include <cstring>
#include <optional>

namespace softfold::tool {
namespace {

struct attention_command {
  std::string query, key, value, bias;
  output_target output;
  output_target lse;
  attention_options how;
  bool bf16 = false;
  bool f32_output = false;
  int threads = 0;
};

/// An array [batches, heads, tokens, dim], of which the first axes may be missing: batch by batch.
class tensor_file {
 public:
  tensor_file(const std::string& path, bool bf16) : file_(path, bf16) {
    const std::vector<std::int64_t>& shape = file_.shape();
    if (shape.size() < 2 || shape.size() > 4) {
      throw failure(path, "has " + std::to_string(shape.size()) +
                              " axes; expected 2 to 4: [batches, heads,] tokens, dim");
    }
    batches_ = shape.size() == 4 ? shape[0] : 1;
    heads_ = shape.size() >= 3 ? shape[shape.size() - 3] : 1;
    tokens_ = shape[shape.size() - 2];
  }

  [[nodiscard]] const npy_input& file() const { return file_; }
  [[nodiscard]] std::int64_t batches() const { return batches_; }
  [[nodiscard]] std::int64_t rows() const { return heads_ * tokens_; }

  /// One batch as calls on the queue can read it, valid until the next. A single one is that of
  /// all.
  const_tensor_ref batch(std::int64_t b, device_memory& memory) {
    const std::int64_t elements = rows() * file_.cols();
    const std::size_t size = size_of(file_.type());
    const auto bytes = static_cast<std::size_t>(elements) * size;
    const std::byte* data = file_.file().bytes().data() + file_.data_offset() +
                            (batches_ == 1 ? 0 : static_cast<std::size_t>(b) * bytes);
    if (file_.data_offset() % size != 0) {
      data = static_cast<std::byte*>(std::memcpy(copy_.reserve(bytes), data, bytes));
    }
    const const_matrix_ref m =
        memory.input({data, file_.type(), rows(), file_.cols(), file_.cols()});
    return {m.data, m.type, 1, heads_, tokens_, m.cols, rows() * m.cols, tokens_ * m.cols, m.cols};
  }
  /// Rows of a batch's tokens as a tensor.
  [[nodiscard]] tensor_ref shaped(const matrix_ref& m) const {
    return {m.data, m.type, 1, heads_, tokens_, m.cols, rows() * m.cols, tokens_ * m.cols, m.cols};
  }

 private:
  npy_input file_;
  std::int64_t batches_ = 1;
  std::int64_t heads_ = 1;
  std::int64_t tokens_ = 0;
  block_buffer copy_;
};

void check_batches(const tensor_file& file, std::int64_t expected, bool or_one) {
  if (file.batches() != expected && !(or_one && file.batches() == 1)) {
    throw failure(file.file().path(), "has " + std::to_string(file.batches()) +
                                          " batches; expected " + (or_one ? "1 or " : "") +
                                          std::to_string(expected));
  }
}

/// The library says so too, but not of which file, and after memory for the result.
void check_dim(const tensor_file& file) {
  if (file.file().cols() == 0) {
    throw failure(file.file().path(), "dim is 0; expected 1 to 512");
  }
}

void run(const attention_command& options) {
  tensor_file query(options.query, options.bf16);
  tensor_file key(options.key, options.bf16);
  tensor_file value(options.value, options.bf16);
  for (const tensor_file* const file : {&query, &key, &value}) {
    check_dim(*file);
  }
  std::optional<tensor_file> bias;
  if (!options.bias.empty()) {
    bias.emplace(options.bias, options.bf16);
    check_batches(*bias, query.batches(), true);
  }
  check_batches(key, query.batches(), false);
  check_batches(value, query.batches(), false);
  if (options.f32_output && query.file().type() == dtype::f64) {
    throw failure(options.query, "--out-dtype f32 does not apply to float64 elements");
  }
  const dtype type = options.f32_output ? dtype::f32 : query.file().type();
  const dtype wide = query.file().wide_type();

  queue q({.threads = options.threads});
  device_memory query_memory(q), key_memory(q), value_memory(q), bias_memory(q);
  device_memory out_memory(q), lse_memory(q);
  const std::int64_t rows = query.batches() > 0 ? query.rows() : 0;
  const matrix_ref out = out_memory.output(type, rows, value.file().cols());
  const matrix_ref lse = options.lse.path.empty() ? matrix_ref() : lse_memory.output(wide, rows, 1);
  npy_output to(options.output, type, query.file().shape_with(value.file().cols()));
  std::optional<npy_output> lse_to;
  if (!options.lse.path.empty()) {
    lse_to.emplace(options.lse, wide, query.file().leading_shape());
  }
  progress bar("attention", query.batches());
  for (std::int64_t b = 0; b < query.batches(); ++b) {
    attention_options how = options.how;
    if (bias) {
      how.bias = bias->batch(b, bias_memory);
    }
    if (lse_to) {
      how.lse = query.shaped(lse);
    }
    attention(q, query.batch(b, query_memory), key.batch(b, key_memory),
              value.batch(b, value_memory), query.shaped(out), how);
    to.write(out_memory.fetch(out));
    if (lse_to) {
      lse_to->write(lse_memory.fetch(lse));
    }
    bar.advance(1);
  }
  if (lse_to) {
    atomic_output::commit({&to.file(), &lse_to->file()});
  } else {
    atomic_output::commit({&to.file()});
  }
}

}  // namespace

void add_attention(CLI::App& app) {
  CLI::App& command = *app.add_subcommand(
      "attention", "Write softmax(scale Q K^T) V of arrays [batches, heads,] tokens, dim");
  attention_command& options = set_run(command, run);
  const auto add_file = [&](const char* name, std::string& path, const char* description) {
    return command.add_option(name, path, description)->type_name("");
  };
  add_file("Q.npy", options.query, "Queries, of float16, float32 or float64")->required();
  add_file("K.npy", options.key, "Keys, of the same type; Q's heads are a multiple of K's")
      ->required();
  add_file("V.npy", options.value, "Values, as many as keys")->required();
  command.add_option("-o,--output", options.output.path, "Result, of Q's shape with V's last axis")
      ->type_name("OUT.npy")
      ->required();
  command
      .add_option(
          "--lse", options.lse.path,
          "Also write the logsumexp of each query's scores: Q's shape without the last axis")
      ->type_name("LSE.npy");
  command
      .add_option("--scale", options.how.scale,
                  "Multiply the products by S; 1 / sqrt(dim) if not given")
      ->type_name("S")
      ->check(finite_number);
  add_choice(command, "--causal", options.how.corner,
             {{"no", causal::none},
              {"top-left", causal::top_left},
              {"bottom-right", causal::bottom_right}},
             "Query i sees keys up to i, or so that the last query sees the last key");
  add_integer(command, "--window-left", options.how.window_left,
              "A query sees at most N keys before its own place")
      ->type_name("N");
  add_integer(command, "--window-right", options.how.window_right,
              "A query sees at most N keys after its own place")
      ->type_name("N");
  command.add_option("--softcap", options.how.softcap, "Make each score C tanh(score / C)")
      ->type_name("C")
      ->check(finite_number);
  command
      .add_option("--bias", options.bias,
                  "Add B's elements to the scores, -infinity removes a key; B's last axis is the "
                  "keys, the others are Q's or 1")
      ->type_name("B.npy");
  add_choice(command, "--empty-row", options.how.empty_row,
             {{"zero", softfold::empty_row::zero}, {"nan", softfold::empty_row::nan}},
             "What a query without keys gives: 0 (default) or NaN");
  add_choice(command, "--out-dtype", options.f32_output, {{"same", false}, {"f32", true}},
             "Element type of the result: the input's (default) or float32");
  command.add_flag("--bf16", options.bf16,
                   "Read uint16 elements as bfloat16, and write bfloat16 as uint16");
  add_no_sync(command, {&options.output.sync, &options.lse.sync});
  add_threads(command, options.threads);
  add_version(command);
}

}  // namespace softfold::tool
