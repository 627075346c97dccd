// The result of one call of a parser: complete rows as CSR arrays, and the lines with errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "sonline/text/column.hpp"
#include "sonline/text/reason.hpp"

namespace sonline::text {

// A line that could not be parsed. At the same position Batch::error_lines holds its first bytes
// and Batch::error_words the word at fault.
struct LineError {
  Reason reason;
  int64_t line;    // counted from 1
  int64_t column;  // of the byte at fault, counted from 1
  int64_t offset;  // of the first byte of the line within the input
  int64_t row;     // rows before it, with bad rows
  int64_t cell;    // CSV: the column, or the number of cells; otherwise -1
};

// The parts of a line that are not features.
struct RowHead {
  double label = std::numeric_limits<double>::quiet_NaN();
  int64_t label_code = -1;
  double weight = 1;
  double offset = 0;
  std::string_view tag = {};
};

struct Batch {
  Column<int64_t> indptr;  // rows + 1 entries
  Column<int64_t> indices;
  bool double_values;  // which of the two has the values
  Column<float> values32;
  Column<double> values64;
  Column<uint32_t> namespaces;  // ids, if asked for

  Column<double> labels;  // one of the two is filled; NaN or -1 for a row without a label
  Column<int64_t> label_codes;
  size_t unlabelled = 0;

  OptionalColumn<double> weights{1};
  OptionalColumn<double> offsets{0};  // NaN where the column is missing
  Strings tags;                       // empty, or one for each row

  Column<int64_t> lines;  // the line number of each row
  Column<int64_t> ends;   // the offset of the byte after each row's line: where to resume
  // CSV, whose rows may span several lines: the line after each row, and the rows of the input up
  // to there, with bad rows.
  Column<int64_t> next_lines;
  Column<int64_t> row_ends;

  // New entries of the dictionaries in this batch, in the order of their ids.
  Strings new_names;
  Strings new_labels;
  Strings new_namespaces;
  size_t unknown_features = 0;  // left out because names are frozen

  std::vector<LineError> errors;
  Strings error_lines;
  Strings error_words;
  Strings error_columns;  // of JSON

  // Tables: columns whose type is known since this batch, because it has their first value.
  Strings number_columns;
  Strings text_columns;
  Strings date_columns;

  explicit Batch(bool double_values) : double_values(double_values) { indptr.push_back(0); }
  size_t rows() const { return indptr.size() - 1; }
  size_t features() const { return static_cast<size_t>(indptr.back()); }

  template <class Value>
  Column<Value>& values() {
    if constexpr (sizeof(Value) == sizeof(float)) {
      return values32;
    } else {
      return values64;
    }
  }
};

}  // namespace sonline::text
