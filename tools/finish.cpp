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
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

namespace softfold::tool {
namespace {

struct finish_command {
  std::string input;
  output_target output;  // of states of rows the stem of the files' names
  output_target lse;
  std::optional<softfold::empty_row> empty_row;
  std::optional<dtype> out_type;
  bool logits = false;
  std::string labels;
  std::string row_labels;
  std::optional<table_format> format;
  int threads = 0;

  [[nodiscard]] bool prints() const {
    return output.path.empty() || format || !labels.empty() || !row_labels.empty();
  }
  [[nodiscard]] output_target file(const std::string& result) const {
    return {output.path + '.' + result + ".npy", output.sync};
  }
};

/// One past the last column, for the labels.
std::int64_t end_of(const row_states& states) {
  return states.columns().empty() ? 0 : states.columns().back().end;
}

std::optional<table> make_table(const finish_command& options, const row_states& states) {
  if (!options.prints()) {
    return std::nullopt;
  }
  table printed(options.format.value_or(table_format::table));
  if (!options.labels.empty()) {
    printed.set_labels(read_column_labels(options.labels, end_of(states)));
  }
  if (!options.row_labels.empty()) {
    printed.set_row_labels(row_labels(options.row_labels, states.rows()));
  }
  return printed;
}

/// One file of -o.
class result_file {
 public:
  result_file(const output_target& target, const_matrix_ref values,
              const std::vector<std::int64_t>& shape)
      : output_(target, values.type, shape) {
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

/// Throws failure for the first option that was given, but is one for the other kind of states.
void check_not_given(const finish_command& options,
                     std::initializer_list<std::pair<const char*, bool>> others, const char* kind) {
  for (const auto& [name, is_given] : others) {
    if (is_given) {
      throw failure(options.input, std::string(name) + " does not apply to states of " + kind);
    }
  }
}

void finish(const finish_command& options, const row_states& states) {
  check_not_given(
      options,
      {{"--lse", !options.lse.path.empty()}, {"--out-dtype", options.out_type.has_value()}},
      "rows");
  std::optional<table> printed = make_table(options, states);
  const std::int64_t rows = states.rows();
  const std::int64_t k = states.k();
  queue q({.threads = options.threads});
  block_buffer lse_memory;
  block_buffer probability_memory;
  const matrix_ref lse = lse_memory.matrix(states.type(), rows, 1);
  const matrix_ref probabilities = probability_memory.matrix(states.type(), rows, k);
  states.finish(q, {lse.data, lse.type, rows}, probabilities,
                options.empty_row.value_or(softfold::empty_row::nan));

  const auto present = [&](const_matrix_ref list) {
    list.cols = std::min(k, states.column_count());
    return list;
  };
  const const_matrix_ref chances = present(probabilities);
  const const_matrix_ref indices = present(states.indices());
  const const_matrix_ref logits = present(states.values());
  const auto print_if_wanted = [&] {
    if (printed) {
      printed->begin(options.logits, true);
      printed->print(chances, indices, logits, lse);
      printed->end();
    }
  };
  if (options.output.path.empty()) {
    return print_if_wanted();
  }
  const std::vector<std::int64_t> list_shape{rows, chances.cols};
  result_file lse_file(options.file("logsumexp"), lse, {rows});
  result_file chance_file(options.file("probabilities"), chances, list_shape);
  result_file index_file(options.file("indices"), indices, list_shape);
  std::optional<result_file> logit_file;
  if (options.logits) {
    logit_file.emplace(options.file("logits"), logits, list_shape);
  }
  print_if_wanted();  // first: if it fails, older files stay
  if (logit_file) {
    atomic_output::commit(
        {&lse_file.file(), &chance_file.file(), &index_file.file(), &logit_file->file()});
  } else {
    atomic_output::commit({&lse_file.file(), &chance_file.file(), &index_file.file()});
  }
}

void finish(const finish_command& options, const attention_states& states) {
  check_not_given(options,
                  {{"--logits", options.logits},
                   {"--labels", !options.labels.empty()},
                   {"--row-labels", !options.row_labels.empty()},
                   {"--format", options.format.has_value()}},
                  "attention");
  if (options.output.path.empty()) {
    throw failure(options.input, "states of attention need -o OUT.npy");
  }
  const dtype type = options.out_type.value_or(states.type());
  if (states.type() == dtype::f64 && type != dtype::f64) {
    throw failure(options.input, std::string("--out-dtype ") + name_of(type) +
                                     " does not apply to float64 states");
  }
  std::vector<std::int64_t> shape{states.batches(), states.heads(), states.tokens()};
  std::optional<npy_output> lse_to;
  if (!options.lse.path.empty()) {
    lse_to.emplace(options.lse, states.type(), shape);
  }
  shape.push_back(states.dim());
  npy_output to(options.output, type, shape);

  const std::int64_t head = states.tokens() * states.dim();
  const std::int64_t rows = states.states().size;
  block_buffer out_memory;
  block_buffer lse_memory;
  const matrix_ref out = out_memory.matrix(type, rows, states.dim());
  const matrix_ref lse = lse_memory.matrix(states.type(), lse_to ? rows : 0, 1);
  queue q({.threads = options.threads});
  states.finish(q,
                {out.data, type, states.batches(), states.heads(), states.tokens(), states.dim(),
                 states.heads() * head, head, states.dim()},
                lse_to ? vector_ref{lse.data, lse.type, lse.rows} : vector_ref{},
                options.empty_row.value_or(softfold::empty_row::zero));
  to.write(out);
  if (lse_to) {
    lse_to->write(lse);
    atomic_output::commit({&to.file(), &lse_to->file()});
  } else {
    atomic_output::commit({&to.file()});
  }
}

void run(const finish_command& options) {
  std::visit([&](const auto& states) { finish(options, states); },
             read_states(mapped_file(options.input)));
}

}  // namespace

void add_finish(CLI::App& app) {
  CLI::App& command = *app.add_subcommand(
      "finish",
      "Find the logsumexp of every row and the probabilities of its top k from states, or the "
      "result of attention");
  finish_command& options = set_run(command, run);
  command.add_option("STATE", options.input, "File of states")->type_name("")->required();
  command
      .add_option("-o,--output", options.output.path,
                  "Write STEM.logsumexp.npy, STEM.probabilities.npy and STEM.indices.npy instead "
                  "of printing; of states of attention OUT.npy, [batches, heads, tokens, dim]")
      ->type_name("STEM");
  command
      .add_option("--lse", options.lse.path,
                  "Attention: also write the logsumexp of each query's scores, [batches, heads, "
                  "tokens]")
      ->type_name("LSE.npy");
  add_choice(command, "--out-dtype", options.out_type,
             {{"same", std::nullopt}, {"f16", dtype::f16}, {"bf16", dtype::bf16}},
             "Attention: element type of OUT.npy: the states', float32 or float64 (default), "
             "float16, or bfloat16 as uint16");
  command.add_flag("--logits", options.logits, "Also print the elements, or write STEM.logits.npy");
  add_choice(command, "--empty-row", options.empty_row,
             {{"nan", softfold::empty_row::nan}, {"zero", softfold::empty_row::zero}},
             "What rows of -infinity only (default NaN) and queries without keys (default 0) give");
  add_no_sync(command, {&options.output.sync, &options.lse.sync});
  add_list_options(command, options.labels, options.row_labels, options.format);
  add_threads(command, options.threads);
  add_version(command);
}

}  // namespace softfold::tool
