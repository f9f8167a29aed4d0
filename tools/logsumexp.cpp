// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "edit_files.hpp"
#include "long_rows.hpp"
#include "npy_input.hpp"
#include "npy_output.hpp"
#include "pipeline.hpp"
#include "row_blocks.hpp"

#include <softfold/softfold.hpp>

namespace softfold::tool {
namespace {

struct logsumexp_command : matrix_options {
  output_target output;
  edit_options edits;
};

void run(const logsumexp_command& options) {
  const npy_input x(options.input, options.bf16);
  const dtype type = x.wide_type();
  edit_files edits(options.edits, x);
  npy_output y(options.output, type, x.leading_shape());
  if (has_long_rows(x)) {
    logsumexp_of_long_rows(x, edits, options.queues(), options.scale, y);
    return atomic_output::commit({&y.file()});
  }
  const auto compute = [&](queue& q, std::int64_t first, const_matrix_ref block,
                           block_results result) {
    logsumexp(q, block, {result[0].data, type, block.rows},
              {.scale = options.scale, .edits = edits.of(q, first, block.rows)});
  };
  compute_blocks(x, options.queues(), "logsumexp",
                 {.results = {{type, 1}}, .compute = compute, .take = [&](block_results result) {
                    y.write(result[0]);
                  }});
  atomic_output::commit({&y.file()});
}

}  // namespace

void add_logsumexp(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("logsumexp", "Write log(sum(exp(x))) of every row");
  logsumexp_command& options = set_run(command, run);
  add_input(command, options);
  command
      .add_option("-o,--output", options.output.path,
                  "Result, of the input's shape without the last axis: float32, or float64 for "
                  "float64 input")
      ->type_name("OUT.npy")
      ->required();
  add_no_sync(command, {&options.output.sync});
  add_edit_options(command, options.edits);
  add_numerics(command, options);
  add_numeric_options(command, options);
}

}  // namespace softfold::tool
