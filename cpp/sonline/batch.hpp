// Rows as they come from Python: borrowed CSR or dense arrays of any of the usual number types.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "sonline/features.hpp"

namespace sonline {

// An input that the caller must mend; row and column are those of the batch.
struct BadInput : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

struct Batch {
  enum class Number { f32, f64 } value_type = Number::f64;
  enum class Index { i32, i64, u64 } index_type = Index::i64;

  size_t rows = 0;
  const void* values = nullptr;
  // CSR, if indptr is set; it has the type of the indices, or int64 where those are uint64.
  const void* indices = nullptr;
  const void* indptr = nullptr;
  size_t stored = 0;  // length of indices and values
  // Dense otherwise; strides in numbers.
  size_t cols = 0;
  int64_t row_stride = 0, col_stride = 0;
};

namespace detail {

template <class Value, class Position, class Index, class Visit>
void visit_csr(const Batch& batch, size_t row, Visit&& visit) {
  const auto* indptr = static_cast<const Position*>(batch.indptr);
  const auto* indices = static_cast<const Index*>(batch.indices);
  const auto* values = static_cast<const Value*>(batch.values);
  const size_t end = static_cast<size_t>(indptr[row + 1]);
  for (size_t i = static_cast<size_t>(indptr[row]); i < end; ++i)
    visit(static_cast<Key>(indices[i]), values[i]);
}

template <class Value, class Visit>
void visit_value_type(const Batch& batch, size_t row, Visit&& visit) {
  if (!batch.indptr) {
    const auto* value =
        static_cast<const Value*>(batch.values) + static_cast<int64_t>(row) * batch.row_stride;
    for (size_t j = 0; j < batch.cols; ++j, value += batch.col_stride) visit(Key{j}, *value);
    return;
  }
  switch (batch.index_type) {
    case Batch::Index::i32:
      return visit_csr<Value, int32_t, int32_t>(batch, row, visit);
    case Batch::Index::i64:
      return visit_csr<Value, int64_t, int64_t>(batch, row, visit);
    case Batch::Index::u64:
      return visit_csr<Value, int64_t, uint64_t>(batch, row, visit);
  }
}

}  // namespace detail

// Calls visit(key, value) for every stored number of a row.
template <class Visit>
void visit_row(const Batch& batch, size_t row, Visit&& visit) {
  if (batch.value_type == Batch::Number::f32)
    detail::visit_value_type<float>(batch, row, visit);
  else
    detail::visit_value_type<double>(batch, row, visit);
}

// Throws BadInput unless every row can be learnt from: indptr consistent, indices not negative,
// values finite and within `largest`. Looks at the whole batch, so that a bad one changes nothing.
void validate(const Batch& batch, double largest);

}  // namespace sonline
