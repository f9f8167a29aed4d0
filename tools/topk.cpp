// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "edit_files.hpp"
#include "failure.hpp"
#include "labels.hpp"
#include "long_rows.hpp"
#include "npy_input.hpp"
#include "npy_output.hpp"
#include "pipeline.hpp"
#include "row_blocks.hpp"
#include "table.hpp"

#include <softfold/softfold.hpp>

#include <optional>

namespace softfold::tool {
namespace {

struct topk_command : matrix_options {
  std::int64_t k = 0;
  output_target stem;  // of the names of the files
  edit_options edits;
  bool logits = false;
  std::string labels;
  std::string row_labels;
  std::optional<table_format> format;

  /// Files are written for -o; the table is printed without it, or when an option says how.
  [[nodiscard]] bool prints() const {
    return stem.path.empty() || format || !labels.empty() || !row_labels.empty();
  }
  [[nodiscard]] output_target file(const std::string& result) const {
    return {stem.path + '.' + result + ".npy", stem.sync};
  }
};

/// The files of -o.
struct topk_files {
  npy_output probabilities;
  npy_output indices;
  std::optional<npy_output> logits;

  topk_files(const topk_command& options, const npy_input& x)
      : probabilities(options.file("probabilities"), x.wide_type(), x.shape_with(options.k)),
        indices(options.file("indices"), dtype::i64, x.shape_with(options.k)) {
    if (options.logits) {
      logits.emplace(options.file("logits"), x.wide_type(), x.shape_with(options.k));
    }
  }

  void write(const_matrix_ref probability_block, const_matrix_ref index_block,
             const_matrix_ref logit_block) {
    probabilities.write(probability_block);
    indices.write(index_block);
    if (logits) {
      logits->write(logit_block);
    }
  }

  void commit() {
    if (logits) {
      atomic_output::commit({&probabilities.file(), &indices.file(), &logits->file()});
    } else {
      atomic_output::commit({&probabilities.file(), &indices.file()});
    }
  }
};

std::optional<table> make_table(const topk_command& options, const npy_input& x) {
  if (!options.prints()) {
    return std::nullopt;
  }
  table printed(options.format.value_or(table_format::table));
  if (!options.labels.empty()) {
    printed.set_labels(read_column_labels(options.labels, x.cols()));
  }
  if (!options.row_labels.empty()) {
    printed.set_row_labels(row_labels(options.row_labels, x.rows()));
  }
  return printed;
}

void topk_of_blocks(const npy_input& x, edit_files& edits, const queue_options& on, const char* bar,
                    std::int64_t k, const topk_command& options, const std::function<void()>& begin,
                    const topk_body& take) {
  const dtype type = x.wide_type();
  block_work work{.results = {{type, k}, {dtype::i64, k}}};
  if (options.logits) {
    work.results.push_back({type, k});
  }
  const auto logits_of = [](block_results result) {
    return result.size() > 2 ? result[2] : matrix_ref();
  };
  work.compute = [&](queue& q, std::int64_t first, const_matrix_ref block, block_results result) {
    softmax_topk(q, block, result[0], result[1],
                 {.scale = options.scale,
                  .logits = logits_of(result),
                  .edits = edits.of(q, first, block.rows)});
  };
  work.take = [&](block_results result) { take(result[0], result[1], logits_of(result)); };
  work.begin = begin;
  compute_blocks(x, on, bar, work);
}

void run(const topk_command& options) {
  const npy_input x(options.input, options.bf16);
  const std::int64_t k = options.k;
  if (k < 0 || k > x.cols()) {
    throw failure(options.input, "-k " + std::to_string(k) + " is out of range; rows have " +
                                     std::to_string(x.cols()) + " elements");
  }
  edit_files edits(options.edits, x);
  std::optional<table> printed = make_table(options, x);
  std::optional<topk_files> files;
  if (!options.stem.path.empty()) {
    files.emplace(options, x);
  }
  const auto take = [&](const_matrix_ref probabilities, const_matrix_ref indices,
                        const_matrix_ref logits) {
    if (files) {
      files->write(probabilities, indices, logits);
    }
    if (printed) {
      printed->print(probabilities, indices, logits);
    }
  };
  const queue_options on = options.queues();
  const char* const bar = printed ? nullptr : "topk";
  const auto begin = [&] {
    if (printed) {
      printed->begin(options.logits);
    }
  };
  if (has_long_rows(x)) {
    topk_of_long_rows(x, edits, on, bar, k, options.scale, begin, take);
  } else {
    topk_of_blocks(x, edits, on, bar, k, options, begin, take);
  }
  if (printed) {
    printed->end();
  }
  if (files) {
    files->commit();
  }
}

}  // namespace

void add_topk(CLI::App& app) {
  CLI::App& command = *app.add_subcommand(
      "topk", "Find the K largest elements of every row and their softmax probabilities");
  topk_command& options = set_run(command, run);
  add_input(command, options);
  add_integer(command, "-k", options.k, "Elements to find in each row, at most its length")
      ->type_name("K")
      ->required();
  command
      .add_option("-o,--output", options.stem.path,
                  "Write STEM.probabilities.npy (float32, or float64 for float64 input) and "
                  "STEM.indices.npy (int64) instead of printing")
      ->type_name("STEM");
  command.add_flag("--logits", options.logits,
                   "Also print the elements, or write STEM.logits.npy, of the type of the "
                   "probabilities");
  add_no_sync(command, {&options.stem.sync});
  add_edit_options(command, options.edits);
  add_list_options(command, options.labels, options.row_labels, options.format);
  add_numerics(command, options);
  add_numeric_options(command, options);
}

}  // namespace softfold::tool
