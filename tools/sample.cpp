// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "device_memory.hpp"
#include "edit_files.hpp"
#include "failure.hpp"
#include "labels.hpp"
#include "long_rows.hpp"
#include "npy_input.hpp"
#include "npy_output.hpp"
#include "pipeline.hpp"
#include "row_blocks.hpp"
#include "standard_output.hpp"

#include <softfold/softfold.hpp>

#include <map>
#include <memory>
#include <numeric>
#include <optional>

namespace softfold::tool {
namespace {

struct sample_command : matrix_options {
  std::int64_t draws = 1;
  sample_options how;
  bool joint = false;
  output_target output;
  std::string labels;
  edit_options edits;
};

/// The offsets of a block's rows, in memory that calls on its queue can read.
class row_offsets {
 public:
  explicit row_offsets(std::uint64_t first) : first_(first) {}

  /// Valid until the next use for the queue, which must have ended its work on these by then.
  const_vector_ref of(queue& q, std::int64_t row, std::int64_t rows) {
    std::unique_ptr<numbers>& own = memory_[&q];
    if (!own) {
      own = std::make_unique<numbers>(q);
    }
    own->host.resize(static_cast<std::size_t>(rows));
    std::iota(own->host.begin(), own->host.end(),
              static_cast<std::int64_t>(first_ + static_cast<std::uint64_t>(row)));
    const const_matrix_ref there = own->device.input({own->host.data(), dtype::i64, rows, 1, 1});
    return {there.data, dtype::i64, rows};
  }

 private:
  struct numbers {
    explicit numbers(queue& q) : device(q) {}
    std::vector<std::int64_t> host;
    device_memory device;
  };

  std::uint64_t first_;
  std::map<queue*, std::unique_ptr<numbers>> memory_;
};

/// A line for each row: its tokens, or their texts.
void print_rows(const_matrix_ref tokens, const std::vector<std::string>& labels) {
  std::string text;
  for (std::int64_t r = 0; r < tokens.rows; ++r) {
    for (std::int64_t j = 0; j < tokens.cols; ++j) {
      const std::int64_t token =
          static_cast<const std::int64_t*>(tokens.data)[r * tokens.stride + j];
      text += j > 0 ? " " : "";
      text += token >= 0 && static_cast<std::size_t>(token) < labels.size()
                  ? '"' + labels[static_cast<std::size_t>(token)] + '"'
                  : std::to_string(token);
    }
    text += '\n';
  }
  print(text);
}

void run(const sample_command& options) {
  const npy_input x(options.input, options.bf16);
  if (options.draws < 0) {
    throw failure(options.input, "-n " + std::to_string(options.draws) + " is negative");
  }
  const bool prints = options.output.path.empty() || !options.labels.empty();
  std::vector<std::string> labels;
  if (!options.labels.empty()) {
    labels = read_column_labels(options.labels, x.cols());
  }
  edit_files edits(options.edits, x);
  row_offsets offsets(options.how.offset);
  std::optional<npy_output> output;
  if (!options.output.path.empty()) {
    output.emplace(options.output, dtype::i64, x.shape_with(options.draws));
  }
  sample_options how = options.how;
  how.order = options.joint ? filter_order::joint : filter_order::top_k_first;
  const auto compute = [&](queue& q, std::int64_t first, const_matrix_ref block,
                           block_results result) {
    sample_options own = how;
    if (options.draws > 0) {  // a file without columns has rows without end, and none wants one
      own.offsets = offsets.of(q, first, block.rows);
    }
    own.edits = edits.of(q, first, block.rows);
    sample(q, block, result[0], own);
  };
  const auto take = [&](const_matrix_ref tokens) {
    if (output) {
      output->write(tokens);
    }
    if (prints) {
      print_rows(tokens, labels);
    }
  };
  const queue_options on = {.threads = options.threads};
  const char* const bar = prints ? nullptr : "sample";
  if (has_long_rows(x) && options.draws > 0 && can_sample_by_columns(x, how)) {
    sample_of_long_rows(x, edits, on, bar, options.draws, how, take);
  } else {
    compute_blocks(x, on, bar,
                   {.results = {{dtype::i64, options.draws}},
                    .compute = compute,
                    .take = [&](block_results result) { take(result[0]); }});
  }
  if (prints) {
    close_standard_output();
  }
  if (output) {
    atomic_output::commit({&output->file()});
  }
}

}  // namespace

void add_sample(CLI::App& app) {
  CLI::App& command =
      *app.add_subcommand("sample", "Draw columns of every row by their softmax probabilities");
  sample_command& options = set_run(command, run);
  add_input(command, options);
  add_integer(command, "-n", options.draws, "Draws from each row; 1 is the default")
      ->type_name("N");
  command
      .add_option("--temperature", options.how.temperature,
                  "Divide every element by T; 0 takes the largest")
      ->type_name("T");
  add_integer(command, "--top-k", options.how.top_k, "Keep the K largest elements; 0: all")
      ->type_name("K");
  command
      .add_option("--top-p", options.how.top_p,
                  "Keep the fewest largest elements whose probabilities reach P")
      ->type_name("P");
  command
      .add_option("--min-p", options.how.min_p,
                  "Keep what is at least P times as probable as the largest")
      ->type_name("P");
  command.add_flag("--joint", options.joint,
                   "Count P of --top-p over the whole row, not over what other filters left");
  add_integer(command, "--seed", options.how.seed, "Where the random numbers start")
      ->type_name("S");
  add_integer(command, "--offset", options.how.offset,
              "Their place after the seed: row r is at N + r; 0 is the default")
      ->type_name("N");
  command
      .add_option(
          "-o,--output", options.output.path,
          "Write the columns, int64, of the input's shape with N for the last axis, instead "
          "of printing a line for each row")
      ->type_name("OUT.npy");
  command.add_option("--labels", options.labels, "Print line i of FILE for column i")
      ->type_name("FILE");
  add_no_sync(command, {&options.output.sync});
  add_edit_options(command, options.edits);
  command.add_flag("--bf16", options.bf16, "Read uint16 elements as bfloat16");
  add_threads(command, options.threads);
  add_version(command);
}

}  // namespace softfold::tool
