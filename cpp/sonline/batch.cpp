#include "sonline/batch.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace sonline {
namespace {

std::string show(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

// Returns how many of the stored values belong to rows.
template <class Position, class Index>
size_t validate_structure(const Batch& batch) {
  const auto* indptr = static_cast<const Position*>(batch.indptr);
  if (indptr[0] != 0)
    throw BadInput("X: indptr must start with 0, got " + std::to_string(indptr[0]));
  for (size_t row = 0; row < batch.rows; ++row)
    if (indptr[row + 1] < indptr[row])
      throw BadInput("X: indptr decreases at row " + std::to_string(row));
  if (static_cast<size_t>(indptr[batch.rows]) > batch.stored)
    throw BadInput("X: indptr ends at " + std::to_string(indptr[batch.rows]) + " but only " +
                   std::to_string(batch.stored) + " values are stored");
  const auto* indices = static_cast<const Index*>(batch.indices);
  const auto count = static_cast<size_t>(indptr[batch.rows]);
  const size_t last = batch.cols - 1;  // without a limit, the largest number there is
  const auto highest = static_cast<Index>(
      std::min<size_t>(last, static_cast<size_t>(std::numeric_limits<Index>::max())));
  int bad = 0;  // an int and no early exit: the loop becomes vector code
  for (size_t i = 0; i < count; ++i) bad |= (indices[i] < 0) | (indices[i] > highest);
  if (bad) throw BadInput("X: an index is negative, or not below the number of columns");
  return count;
}

// True if all of values[0..n) are finite and at most `largest` in size.
template <class Value>
bool all_within(const Value* values, size_t n, Value largest) {
  int bad = 0;  // an int and no early exit: the loop becomes vector code
  for (size_t i = 0; i < n; ++i) bad |= !(std::fabs(values[i]) <= largest);
  return bad == 0;
}

template <class Value>
bool values_fine(const Batch& batch, size_t count, double largest) {
  const auto limit =
      static_cast<Value>(std::min<double>(largest, std::numeric_limits<Value>::max()));
  const auto* values = static_cast<const Value*>(batch.values);
  if (batch.indptr) return all_within(values, count, limit);
  if (batch.col_stride == 1) {
    for (size_t row = 0; row < batch.rows; ++row)
      if (!all_within(values + static_cast<int64_t>(row) * batch.row_stride, batch.cols, limit))
        return false;
    return true;
  }
  for (size_t row = 0; row < batch.rows; ++row)
    for (size_t j = 0; j < batch.cols; ++j) {
      const auto value = values[static_cast<int64_t>(row) * batch.row_stride +
                                static_cast<int64_t>(j) * batch.col_stride];
      if (!(std::fabs(value) <= limit)) return false;
    }
  return true;
}

}  // namespace

std::string too_large(double largest) {
  const std::string what = " is too large: at most " + show(largest) + " with dtype=";
  return largest == kLargestValue<float> ? what + "'float32'; scale the feature or use 'float64'"
                                         : what + "'float64'; scale the feature";
}

Batch slice(const Batch& batch, size_t first, size_t rows) {
  Batch part = batch;
  part.first += first;
  part.rows = rows;
  const auto moved = [](const void* start, int64_t numbers, size_t size) -> const void* {
    return static_cast<const char*>(start) + numbers * static_cast<int64_t>(size);
  };
  if (batch.indptr) {
    const bool narrow = batch.index_type == Batch::Index::i32;
    part.indptr = moved(batch.indptr, static_cast<int64_t>(first), narrow ? 4 : 8);
  } else {
    const size_t size = batch.value_type == Batch::Number::f32 ? 4 : 8;
    part.values = moved(batch.values, static_cast<int64_t>(first) * batch.row_stride, size);
  }
  return part;
}

void validate(const Batch& batch, double largest) {
  if (batch.checked) return;
  size_t count = 0;
  if (batch.indptr) switch (batch.index_type) {
      case Batch::Index::i32:
        count = validate_structure<int32_t, int32_t>(batch);
        break;
      case Batch::Index::i64:
        count = validate_structure<int64_t, int64_t>(batch);
        break;
      case Batch::Index::u64:
        count = validate_structure<int64_t, uint64_t>(batch);
        break;
    }
  const bool fine = batch.value_type == Batch::Number::f32
                        ? values_fine<float>(batch, count, largest)
                        : values_fine<double>(batch, count, largest);
  if (!fine) throw BadInput("X: a value is not finite, or too large");
}

}  // namespace sonline
