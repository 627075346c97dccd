// Rows as they come from Python: borrowed CSR or dense arrays of any of the usual number types.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "sonline/features.hpp"

namespace sonline {

// An input that the caller must correct.
struct BadInput : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

struct Batch {
  enum class Number { f32, f64 } value_type = Number::f64;
  enum class Index { i32, i64, u64 } index_type = Index::i64;

  size_t rows = 0;
  size_t first = 0;  // the number of its first row, for messages
  const void* values = nullptr;
  bool checked = false;  // validate() has nothing left to do
  bool table = false;    // rows of columns, not of words: they may have curves
  // CSR, if indptr is set; it has the type of the indices, or int64 where those are uint64.
  const void* indices = nullptr;
  const void* indptr = nullptr;
  size_t stored = 0;       // length of indices and values
  uint64_t same_keys = 0;  // single rows with the same number have the same keys; 0 says nothing
  // Dense otherwise; strides in numbers.
  size_t cols = 0;  // for CSR: indices must be below this; 0 is no limit
  int64_t row_stride = 0, col_stride = 0;
};

namespace detail {

struct Counting {  // the keys of a dense row
  Key operator[](size_t i) const { return i; }
};

template <class Value>
struct Strided {
  const Value* values;
  int64_t stride;
  Value operator[](size_t i) const { return values[static_cast<int64_t>(i) * stride]; }
};

template <class Value, class Position, class Index, class Use>
void with_csr(const Batch& batch, size_t row, Use&& use) {
  const auto* indptr = static_cast<const Position*>(batch.indptr);
  const auto start = indptr[row];
  use(static_cast<const Index*>(batch.indices) + start,
      static_cast<const Value*>(batch.values) + start,
      static_cast<size_t>(indptr[row + 1] - start));
}

template <class Value, class Use>
void with_values(const Batch& batch, size_t row, Use&& use) {
  if (!batch.indptr) {
    const auto* first =
        static_cast<const Value*>(batch.values) + static_cast<int64_t>(row) * batch.row_stride;
    return use(Counting{}, Strided<Value>{first, batch.col_stride}, batch.cols);
  }
  switch (batch.index_type) {
    case Batch::Index::i32:
      return with_csr<Value, int32_t, int32_t>(batch, row, use);
    case Batch::Index::i64:
      return with_csr<Value, int64_t, int64_t>(batch, row, use);
    case Batch::Index::u64:
      return with_csr<Value, int64_t, uint64_t>(batch, row, use);
  }
}

}  // namespace detail

// Calls use(keys, values, n) once; `keys[i]` and `values[i]` are those of the row.
template <class Use>
void with_row(const Batch& batch, size_t row, Use&& use) {
  if (batch.value_type == Batch::Number::f32)
    detail::with_values<float>(batch, row, use);
  else
    detail::with_values<double>(batch, row, use);
}

// Some rows of a batch that has been checked.
Batch slice(const Batch& batch, size_t first, size_t rows);

// The largest size of a value that a learner of number type T takes: squares, and sums of them,
// must stay finite.
template <class T>
inline constexpr double kLargestValue = std::is_same_v<T, float> ? 1e18 : 1e150;

// Advice about a finite value that is larger.
std::string too_large(double largest);

// Throws BadInput unless every row can be learned from: indptr consistent, indices not negative,
// values finite and within `largest`. Checks the whole batch first, so that a bad batch changes
// nothing. Python finds the row and says what is wrong (rows/checks.py).
void validate(const Batch& batch, double largest);

}  // namespace sonline
