// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "edit_files.hpp"
#include "failure.hpp"
#include "long_rows.hpp"
#include "npy_input.hpp"
#include "npy_output.hpp"
#include "pipeline.hpp"
#include "row_blocks.hpp"

#include <softfold/softfold.hpp>

namespace softfold::tool {
namespace {

struct softmax_command : matrix_options {
  output_target output;
  edit_options edits;
  bool log = false;
  softfold::empty_row empty_row = softfold::empty_row::nan;
  bool f32_output = false;
};

void run(const softmax_command& options) {
  const npy_input x(options.input, options.bf16);
  if (options.f32_output && x.type() == dtype::f64) {
    throw failure(options.input, "--out-dtype f32 does not apply to float64 elements");
  }
  const dtype type = options.f32_output ? dtype::f32 : x.type();
  edit_files edits(options.edits, x);
  npy_output y(options.output, type, x.shape());
  const softmax_options numeric = {.scale = options.scale, .empty_row = options.empty_row};
  if (has_long_rows(x)) {
    softmax_of_long_rows(x, edits, options.queues(), numeric, options.log, type, y);
    return atomic_output::commit({&y.file()});
  }
  const auto compute = [&](queue& q, std::int64_t first, const_matrix_ref block,
                           block_results result) {
    softmax_options of_block = numeric;
    of_block.edits = edits.of(q, first, block.rows);
    (options.log ? log_softmax : softmax)(q, block, result[0], of_block);
  };
  compute_blocks(x, options.queues(), "softmax",
                 {.results = {{type, x.cols()}},
                  .compute = compute,
                  .take = [&](block_results result) { y.write(result[0]); }});
  atomic_output::commit({&y.file()});
}

}  // namespace

void add_softmax(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("softmax", "Write the softmax of every row");
  softmax_command& options = set_run(command, run);
  add_input(command, options);
  command.add_option("-o,--output", options.output.path, "Result, of the input's shape")
      ->type_name("OUT.npy")
      ->required();
  command.add_flag("--log", options.log, "Write the logarithm of the softmax");
  add_choice(command, "--empty-row", options.empty_row,
             {{"nan", softfold::empty_row::nan}, {"zero", softfold::empty_row::zero}},
             "What a row of -infinity only gives: NaN (default), or 0 (-infinity with --log)");
  add_choice(command, "--out-dtype", options.f32_output, {{"same", false}, {"f32", true}},
             "Element type of the result: the input's (default) or float32");
  add_no_sync(command, {&options.output.sync});
  add_edit_options(command, options.edits);
  add_numerics(command, options);
  add_numeric_options(command, options);
}

}  // namespace softfold::tool
