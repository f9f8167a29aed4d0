// SPDX-License-Identifier: Apache-2.0
#include "edit_files.hpp"

#include "failure.hpp"
#include "npy.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace softfold::tool {
namespace {

/// Columns of a word of a bit mask.
constexpr std::int64_t word_columns = 32;

constexpr const char* length_types = "int32 or int64";
constexpr const char* mask_types = "bool, uint8, or int32 for bits";

std::int64_t words_of(std::int64_t cols) { return cols / word_columns + (cols % word_columns > 0); }

}  // namespace

edit_files::edit_file::edit_file(const std::string& path, const npy_input& x, bool is_real,
                                 bool is_vector)
    : file(path), type(dtype::f32), data_offset(0), rows(1), cols(1) {
  try {
    npy_header header = parse_npy_header(file.bytes());
    type = is_real ? npy_element_type(header, x.type() == dtype::bf16 && header.descr == "<u2")
                   : npy_integer_type(header, is_vector ? length_types : mask_types);
    check_npy_file_size(header, size_of(type), file.bytes().size());
    data_offset = header.data_offset;
    if (!is_vector) {
      if (header.shape.empty()) {
        throw npy_error("is a scalar; expected at least one dimension");
      }
      cols = header.shape.back();
      header.shape.pop_back();
    }
    for (const std::int64_t dimension : header.shape) {
      rows *= dimension;
    }
    if (is_vector && type == dtype::u8) {
      throw npy_error(std::string("elements are bytes; expected ") + length_types);
    }
    const auto expect = [](const char* what, std::int64_t found, std::int64_t expected) {
      if (found != expected) {
        throw npy_error("has " + std::to_string(found) + " " + what + ", expected " +
                        std::to_string(expected));
      }
    };
    if (is_vector || rows != 1) {
      expect(is_vector ? "lengths" : "rows", rows, x.rows());
    }
    if (!is_vector) {
      if (type == dtype::i64) {
        throw npy_error(std::string("elements are 64-bit integers; expected ") + mask_types);
      }
      expect(type == dtype::i32 ? "words of 32 bits in a row" : "columns", cols,
             type == dtype::i32 ? words_of(x.cols()) : x.cols());
    }
  } catch (const npy_error& error) {
    throw failure(path, error.what());
  }
}

edit_files::edit_files(const edit_options& options, const npy_input& x)
    : cols_(x.cols()), softcap_(options.softcap) {
  if (!options.bias.empty()) {
    bias_.emplace(options.bias, x, true, false);
  }
  if (!options.mask.empty()) {
    mask_.emplace(options.mask, x, false, false);
  }
  if (!options.lengths.empty()) {
    lengths_.emplace(options.lengths, x, false, true);
  }
}

/// Rows of a file, or all that there is for all of them, from a column on.
const_matrix_ref edit_files::rows_of(const edit_file& from, std::int64_t first, std::int64_t rows,
                                     std::int64_t column, std::int64_t cols, device_memory& memory,
                                     block_buffer& copy) {
  const bool one = from.rows == 1;
  const auto size = static_cast<std::int64_t>(size_of(from.type));
  const std::byte* data =
      from.file.bytes().data() + from.data_offset + ((one ? 0 : first * from.cols) + column) * size;
  const_matrix_ref block(data, from.type, one ? 1 : rows, cols, cols);
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(size) != 0) {
    block.data = std::memcpy(copy.reserve(packed_bytes(block)), data, packed_bytes(block));
  }
  return memory.input(block);
}

/// A row's length from a column on.
std::int64_t edit_files::length_from(std::int64_t row, std::int64_t column) const {
  const std::byte* const data = lengths_->file.bytes().data() + lengths_->data_offset +
                                row * static_cast<std::int64_t>(size_of(lengths_->type));
  std::int64_t wide = 0;
  std::int32_t narrow = 0;
  const bool is_wide = lengths_->type == dtype::i64;
  std::memcpy(is_wide ? static_cast<void*>(&wide) : &narrow, data, size_of(lengths_->type));
  return std::clamp<std::int64_t>(is_wide ? wide : narrow, 0, cols_) - column;
}

row_edits edit_files::of(queue& q, std::int64_t first, std::int64_t rows,
                         std::optional<column_range> columns) {
  std::unique_ptr<queue_memory>& held = memories_[&q];
  if (!held) {
    held = std::make_unique<queue_memory>(q);
  }
  const column_range all = columns.value_or(column_range{0, cols_});
  const std::int64_t cols = all.end - all.begin;
  row_edits edits;
  edits.softcap = softcap_;
  if (bias_) {
    edits.bias = rows_of(*bias_, first, rows, all.begin, cols, held->bias, held->bias_copy);
  }
  if (mask_) {
    const bool bits = mask_->type == dtype::i32;
    edits.mask = rows_of(*mask_, first, rows, bits ? all.begin / word_columns : all.begin,
                         bits ? words_of(cols) : cols, held->mask, held->mask_copy);
  }
  if (lengths_) {
    const_matrix_ref lengths;
    if (columns) {  // of one row
      held->length = length_from(first, all.begin);
      lengths = held->lengths.input({&held->length, dtype::i64, 1, 1, 1});
    } else {
      lengths = rows_of(*lengths_, first, rows, 0, 1, held->lengths, held->lengths_copy);
    }
    edits.lengths = {lengths.data, lengths.type, lengths.rows};
  }
  return edits;
}

void add_edit_options(CLI::App& command, edit_options& options) {
  command
      .add_option("--bias", options.bias,
                  "Add the elements of a file to those of each row; one row serves all. -infinity "
                  "removes an element")
      ->type_name("B.npy");
  command
      .add_option("--softcap", options.softcap,
                  "Then make each element C tanh(x / C); 0 (default): do not")
      ->type_name("C")
      ->check([](const std::string& text) {
        double value = 0;
        return CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value >= 0
                   ? std::string()
                   : text + " is not a finite number of 0 or more";
      });
  command
      .add_option(
          "--mask", options.mask,
          "Keep the elements where a file of bool or uint8 is not 0, or where the bits of a "
          "file of int32 are set; one row serves all")
      ->type_name("M.npy");
  command
      .add_option("--lengths", options.lengths,
                  "Keep as many of each row's first elements as a file of int32 or int64 says")
      ->type_name("L.npy");
}

}  // namespace softfold::tool
