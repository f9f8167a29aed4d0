// SPDX-License-Identifier: Apache-2.0
#include "block_buffer.hpp"
#include "commands.hpp"
#include "failure.hpp"
#include "labels.hpp"
#include "npy_output.hpp"
#include "state_files.hpp"
#include "table.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

namespace softfold::tool {
namespace {

struct finish_command {
  std::string input;
  std::string stem;
  softfold::empty_row empty_row = softfold::empty_row::nan;
  bool logits = false;
  std::string labels;
  std::string row_labels;
  std::optional<table_format> format;
  int threads = 0;

  [[nodiscard]] bool prints() const {
    return stem.empty() || format || !labels.empty() || !row_labels.empty();
  }
};

/// One past the last column, for the labels.
std::int64_t end_of(const row_states& states) {
  return states.columns().empty() ? 0 : states.columns().back().end;
}

void print(const finish_command& options, const row_states& states, const_matrix_ref lse,
           const_matrix_ref probabilities, const_matrix_ref indices, const_matrix_ref logits) {
  table printed(options.format.value_or(table_format::table));
  if (!options.labels.empty()) {
    printed.set_labels(read_column_labels(options.labels, end_of(states)));
  }
  if (!options.row_labels.empty()) {
    printed.set_row_labels(row_labels(options.row_labels, states.rows()));
  }
  printed.begin(options.logits, true);
  printed.print(probabilities, indices, logits, lse);
  printed.end();
}

/// One file of -o.
class result_file {
 public:
  result_file(const std::string& path, const_matrix_ref values,
              const std::vector<std::int64_t>& shape, const mapped_file& input)
      : output_(path, values.type, shape, input) {
    for (std::int64_t r = 0; r < values.rows; ++r) {  // without the absent entries of each row
      output_.write({static_cast<const std::byte*>(values.data) +
                         static_cast<std::size_t>(r * values.stride) * size_of(values.type),
                     values.type, 1, values.cols, values.cols});
    }
  }
  [[nodiscard]] atomic_output& file() { return output_.file(); }

 private:
  npy_output output_;
};

void run(const finish_command& options) {
  const mapped_file file(options.input);
  const row_states states = read_states(file);
  const std::int64_t rows = states.rows();
  const std::int64_t k = states.k();
  queue q({.threads = options.threads});
  block_buffer lse_memory;
  block_buffer probability_memory;
  const matrix_ref lse = lse_memory.matrix(states.type(), rows, 1);
  const matrix_ref probabilities = probability_memory.matrix(states.type(), rows, k);
  states.finish(q, {lse.data, lse.type, rows}, probabilities, options.empty_row);

  const auto present = [&](const_matrix_ref list) {
    list.cols = std::min(k, states.column_count());
    return list;
  };
  const const_matrix_ref chances = present(probabilities);
  const const_matrix_ref indices = present(states.indices());
  const const_matrix_ref logits = present(states.values());
  if (!options.stem.empty()) {
    const std::vector<std::int64_t> list_shape{rows, chances.cols};
    result_file lse_file(options.stem + ".logsumexp.npy", lse, {rows}, file);
    result_file chance_file(options.stem + ".probabilities.npy", chances, list_shape, file);
    result_file index_file(options.stem + ".indices.npy", indices, list_shape, file);
    if (options.logits) {
      result_file logit_file(options.stem + ".logits.npy", logits, list_shape, file);
      atomic_output::commit(
          {&lse_file.file(), &chance_file.file(), &index_file.file(), &logit_file.file()});
    } else {
      atomic_output::commit({&lse_file.file(), &chance_file.file(), &index_file.file()});
    }
  }
  if (options.prints()) {
    print(options, states, lse, chances, indices, logits);
  }
}

}  // namespace

void add_finish(CLI::App& app) {
  CLI::App& command = *app.add_subcommand(
      "finish", "Find the logsumexp of every row and the probabilities of its top k from states");
  finish_command& options = set_run(command, run);
  command.add_option("STATE", options.input, "File of states")->type_name("")->required();
  command
      .add_option("-o,--output", options.stem,
                  "Write STEM.logsumexp.npy, STEM.probabilities.npy and STEM.indices.npy instead "
                  "of printing")
      ->type_name("STEM");
  command.add_flag("--logits", options.logits, "Also print the elements, or write STEM.logits.npy");
  add_choice(command, "--empty-row", options.empty_row,
             {{"nan", softfold::empty_row::nan}, {"zero", softfold::empty_row::zero}},
             "The probabilities of a row of -infinity only: NaN (default) or 0");
  add_list_options(command, options.labels, options.row_labels, options.format);
  add_threads(command, options.threads);
  add_version(command);
}

}  // namespace softfold::tool
