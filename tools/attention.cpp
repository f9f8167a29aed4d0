// SPDX-License-Identifier: Apache-2.0
#include "block_buffer.hpp"
#include "commands.hpp"
#include "device_memory.hpp"
#include "failure.hpp"
#include "npy_input.hpp"
#include "npy_output.hpp"
#include "npy_vector.hpp"
#include "progress.hpp"
#include "state_files.hpp"

#include <softfold/attention.hpp>

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

namespace softfold::tool {
namespace {

struct attention_command {
  std::string query, key, value, bias, alibi, sinks, lengths;
  output_target output;
  output_target lse;
  output_target state;
  attention_options how;
  std::int64_t keys = -1;  // of the whole
  bool bf16 = false;
  bool f32_output = false;
  int threads = 0;
};

/// Rows of a file as calls on the queue can read them, valid until the next.
const_matrix_ref read_rows(const npy_input& file, std::int64_t first, std::int64_t rows,
                           block_buffer& copy, device_memory& memory) {
  const auto row_bytes = static_cast<std::size_t>(file.cols()) * size_of(file.type());
  const_matrix_ref m(
      file.file().bytes().data() + file.data_offset() + static_cast<std::size_t>(first) * row_bytes,
      file.type(), rows, file.cols(), file.cols());
  if (file.data_offset() % size_of(file.type()) != 0) {
    m.data = std::memcpy(copy.reserve(packed_bytes(m)), m.data, packed_bytes(m));
  }
  return memory.input(m);
}

/// An array [batches, heads, tokens, dim], of which the first axes may be missing.
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
  [[nodiscard]] std::int64_t heads() const { return heads_; }
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] std::int64_t dim() const { return file_.cols(); }
  /// Of one batch.
  [[nodiscard]] std::int64_t rows() const { return heads_ * tokens_; }

  /// `count` batches, valid until the next. A single one is that of all.
  const_tensor_ref read(std::int64_t first, std::int64_t count, device_memory& memory) {
    if (batches_ == 1) {
      first = 0;
      count = 1;
    }
    const const_matrix_ref m = read_rows(file_, first * rows(), count * rows(), copy_, memory);
    return {m.data,          m.type,           count, heads_, tokens_, m.cols,
            rows() * m.cols, tokens_ * m.cols, m.cols};
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
  if (file.dim() == 0) {
    throw failure(file.file().path(), "dim is 0; expected 1 to 512");
  }
}

/// The last query stands at the last key of the whole, which a part does not know.
void check_keys(const attention_command& options, const tensor_file& key) {
  if (options.keys < 0) {
    if (options.how.corner == causal::bottom_right && options.lengths.empty() &&
        !options.state.path.empty()) {
      throw CLI::ValidationError(
          "--causal", "bottom-right needs with --state the keys of the whole, --keys or --lengths");
    }
  } else if (options.keys - options.how.key_offset < key.tokens()) {
    throw failure(options.key, "has " + std::to_string(key.tokens()) + " keys from " +
                                   std::to_string(options.how.key_offset) + " on; the whole has " +
                                   std::to_string(options.keys));
  }
}

std::vector<double> read_slopes(const std::string& path, std::int64_t heads,
                                const std::string& what) {
  std::vector<double> slopes = read_real_vector(path, heads, what);
  for (std::size_t h = 0; h < slopes.size(); ++h) {
    if (!std::isfinite(slopes[h])) {
      throw failure(path, "the slope of head " + std::to_string(h) + " is " +
                              std::to_string(slopes[h]) + "; expected a finite number");
    }
  }
  return slopes;
}

struct input_files {
  explicit input_files(const attention_command& options)
      : query(options.query, options.bf16),
        key(options.key, options.bf16),
        value(options.value, options.bf16) {
    for (const tensor_file* const file : {&query, &key, &value}) {
      check_dim(*file);
    }
    if (!options.bias.empty()) {
      bias = std::make_unique<tensor_file>(options.bias, options.bf16);
      check_batches(*bias, query.batches(), true);
    }
    const std::string heads = "Q's " + std::to_string(query.heads()) + " heads";
    if (!options.alibi.empty()) {
      slopes = read_slopes(options.alibi, query.heads(), heads);
    }
    if (!options.sinks.empty()) {
      sinks = read_real_vector(options.sinks, query.heads(), heads);
    }
    if (!options.lengths.empty()) {
      whole = read_integer_vector(options.lengths, query.batches(),
                                  "Q's " + std::to_string(query.batches()) + " batches");
    } else if (options.keys >= 0) {
      whole.emplace(static_cast<std::size_t>(query.batches()), options.keys);
    }
    check_batches(key, query.batches(), false);
    check_batches(value, query.batches(), false);
    check_keys(options, key);
  }

  tensor_file query, key, value;
  std::unique_ptr<tensor_file> bias;
  std::optional<std::vector<double>> slopes, sinks;
  std::optional<std::vector<std::int64_t>> whole;  // each batch's keys
};

struct arguments {
  const_tensor_ref query, key, value;
  attention_options how;
};

/// The arguments of calls on a queue.
class call_input {
 public:
  call_input(queue& q, input_files& files, const attention_command& options)
      : files_(files),
        how_(options.how),
        query_(q),
        key_(q),
        value_(q),
        bias_(q),
        slopes_(q),
        sinks_(q),
        lengths_(q) {
    if (files.slopes) {
      how_.alibi_slopes = of_heads(*files.slopes, slopes_);
    }
    if (files.sinks) {
      how_.sinks = of_heads(*files.sinks, sinks_);
    }
  }

  /// Of `count` batches, valid until the next.
  arguments of(std::int64_t first, std::int64_t count) {
    attention_options how = how_;
    if (files_.bias) {
      how.bias = files_.bias->read(first, count, bias_);
    }
    if (files_.whole) {
      how.key_lengths = {
          lengths_.input({files_.whole->data() + first, dtype::i64, 1, count, count}).data,
          dtype::i64, count};
    }
    return {files_.query.read(first, count, query_), files_.key.read(first, count, key_),
            files_.value.read(first, count, value_), how};
  }

 private:
  static const_vector_ref of_heads(const std::vector<double>& numbers, device_memory& memory) {
    const auto heads = static_cast<std::int64_t>(numbers.size());
    return {memory.input({numbers.data(), dtype::f64, 1, heads, heads}).data, dtype::f64, heads};
  }

  input_files& files_;
  attention_options how_;
  device_memory query_, key_, value_, bias_, slopes_, sinks_, lengths_;
};

void write_state(queue& q, input_files& files, const attention_command& options) {
  const tensor_file& query = files.query;
  attention_states states(query.file().wide_type(), query.batches(), query.heads(), query.tokens(),
                          files.value.dim());
  // Open before the work, so that a file that cannot be written is found at once.
  atomic_output file(options.state, states.byte_count());
  call_input input(q, files, options);
  const arguments all = input.of(0, query.batches());
  states.fold(q, all.query, all.key, all.value, all.how);
  write_states(file, states);
}

void write_result(queue& q, input_files& files, const attention_command& options) {
  const tensor_file& query = files.query;
  if (options.f32_output && query.file().type() == dtype::f64) {
    throw failure(options.query, "--out-dtype f32 does not apply to float64 elements");
  }
  const dtype type = options.f32_output ? dtype::f32 : query.file().type();
  const dtype wide = query.file().wide_type();

  call_input input(q, files, options);
  device_memory out_memory(q), lse_memory(q);
  const std::int64_t rows = query.batches() > 0 ? query.rows() : 0;
  const matrix_ref out = out_memory.output(type, rows, files.value.dim());
  const matrix_ref lse = options.lse.path.empty() ? matrix_ref() : lse_memory.output(wide, rows, 1);
  npy_output to(options.output, type, query.file().shape_with(files.value.dim()));
  std::optional<npy_output> lse_to;
  if (!options.lse.path.empty()) {
    lse_to.emplace(options.lse, wide, query.file().leading_shape());
  }
  progress bar("attention", query.batches());
  for (std::int64_t b = 0; b < query.batches(); ++b) {
    arguments batch = input.of(b, 1);
    if (lse_to) {
      batch.how.lse = query.shaped(lse);
    }
    attention(q, batch.query, batch.key, batch.value, query.shaped(out), batch.how);
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

void run(const attention_command& options) {
  if (options.output.path.empty() && options.state.path.empty()) {
    throw CLI::RequiredError("--output or --state");
  }
  input_files files(options);
  queue q({.threads = options.threads});
  options.state.path.empty() ? write_result(q, files, options) : write_state(q, files, options);
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
  command
      .add_option("-o,--output", options.output.path,
                  "Result, of Q's shape with V's last axis; this or --state")
      ->type_name("OUT.npy");
  CLI::Option* const state =
      command
          .add_option("--state", options.state.path,
                      "Write the states of a part of the keys instead, for merge and finish")
          ->type_name("STATE");
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
  add_integer(command, "--key-offset", options.how.key_offset,
              "Keys of the whole that come before K's first; 0 (default): none", 0)
      ->type_name("N");
  add_integer(command, "--query-offset", options.how.query_offset,
              "Added to the place of each query")
      ->type_name("N");
  CLI::Option* const keys =
      add_integer(
          command, "--keys", options.keys,
          "Keys of the whole, at whose end bottom-right begins; those up to K's last (default)", 0)
          ->type_name("N");
  command
      .add_option("--lengths", options.lengths,
                  "Keys of the whole of each of Q's batches, int32 or int64; those of K beyond do "
                  "not exist")
      ->type_name("L.npy")
      ->excludes(keys);
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
  command
      .add_option("--alibi", options.alibi,
                  "Take A times the distance of key and query from each score: a slope for each of "
                  "Q's heads, float32 or float64")
      ->type_name("A.npy");
  command
      .add_option("--sinks", options.sinks,
                  "A score for each of Q's heads, float32 or float64, without a value; of parts of "
                  "the keys, one is given them")
      ->type_name("S.npy");
  add_choice(command, "--empty-row", options.how.empty_row,
             {{"zero", softfold::empty_row::zero}, {"nan", softfold::empty_row::nan}},
             "What a query without keys gives: 0 (default) or NaN");
  add_choice(command, "--out-dtype", options.f32_output, {{"same", false}, {"f32", true}},
             "Element type of the result: the input's (default) or float32");
  command.add_flag("--bf16", options.bf16,
                   "Read uint16 elements as bfloat16, and write bfloat16 as uint16");
  for (const char* of_result : {"--output", "--lse", "--empty-row", "--out-dtype"}) {
    state->excludes(command.get_option(of_result));
  }
  add_no_sync(command, {&options.output.sync, &options.lse.sync, &options.state.sync});
  add_threads(command, options.threads);
  add_version(command);
}

}  // namespace softfold::tool
