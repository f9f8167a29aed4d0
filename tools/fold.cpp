// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "device_memory.hpp"
#include "edit_files.hpp"
#include "failure.hpp"
#include "long_rows.hpp"
#include "npy_input.hpp"
#include "row_blocks.hpp"
#include "sizes.hpp"
#include "state_files.hpp"

namespace softfold::tool {
namespace {

struct fold_command : matrix_options {
  output_target output;
  edit_options edits;
  std::int64_t k = 0;
  std::int64_t column_offset = 0;
};

/// Of one row.
std::uint64_t state_bytes(dtype type, const fold_command& options) {
  const auto sum = options.numerics == numerics::reproducible ? sum_kind::exact : sum_kind::rounded;
  return size_of_state(type, sum) + capped_product(size_of(type) + 8, options.k);
}

row_states fold_rows(const npy_input& x, edit_files& edits, const fold_command& options) {
  // States of no rows that have the columns, for the blocks' states to be appended to.
  queue q(options.queues());
  row_states all(x.wide_type(), 0, options.k, options.scale, options.numerics);
  all.fold(q, {nullptr, x.type(), 0, x.cols(), x.cols()}, options.column_offset);
  if (has_long_rows(x)) {
    long_rows rows(x, edits, options.queues(), "fold", 1);
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      all.append_rows(rows.fold(r, options.k, options.scale, options.column_offset));
    }
    return all;
  }
  device_memory memory(q);
  for_each_block(
      x, state_bytes(all.type(), options), "fold", [&](std::int64_t first, const_matrix_ref block) {
        row_states part(all.type(), block.rows, options.k, options.scale, options.numerics);
        part.fold(q, memory.input(block), options.column_offset, edits.of(q, first, block.rows));
        all.append_rows(part);
      });
  return all;
}

void run(const fold_command& options) {
  const npy_input x(options.input, options.bf16);
  edit_files edits(options.edits, x);
  // Open before the work, so that a file that cannot be written is found at once.
  atomic_output file(options.output, capped_product(state_bytes(x.wide_type(), options), x.rows()));
  write_states(file, fold_rows(x, edits, options));
}

}  // namespace

void add_fold(CLI::App& app) {
  CLI::App& command = *app.add_subcommand(
      "fold", "Write the states of the rows of a file of some columns, for merge and finish");
  fold_command& options = set_run(command, run);
  add_input(command, options);
  command.add_option("-o,--output", options.output.path, "File of states")
      ->type_name("STATE")
      ->required();
  add_integer(command, "-k", options.k,
              "Keep the K largest elements of each row; 0 (default): none", 0)
      ->type_name("K");
  add_integer(command, "--column-offset", options.column_offset,
              "Which column of the whole row the file's first one is; 0 (default): its first", 0)
      ->type_name("N");
  add_no_sync(command, {&options.output.sync});
  add_edit_options(command, options.edits);
  add_numerics(command, options);
  add_numeric_options(command, options);
}

}  // namespace softfold::tool
