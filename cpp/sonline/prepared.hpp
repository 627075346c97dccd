// The rows of a batch as one learner has resolved and scaled them, for learners of other classes
// that have learned the same rows: slots and scales do not depend on the labels.
#pragma once

#include <cstddef>
#include <vector>

#include "sonline/features.hpp"

namespace sonline {

// One row, as it is learned.
template <class T>
struct PreparedRow {
  std::vector<Slot> slots;
  std::vector<Key> new_keys;  // of the features that the row adds, in the order of their slots
  std::vector<T> x;           // the scaled values
  size_t slots_seen = 0;
  // Scales and counts before and after the row; empty if it does not change them.
  std::vector<T> old_squares, old_counts, squares, counts;
  std::vector<size_t> beyond;  // places of values beyond their limits, and then …
  std::vector<T> raw;          // … the unscaled values
  bool ready = false;          // rows of weight 0 are not prepared
};

// Passed by classes.hpp from one model to the others, whatever their number type is.
class PreparedBatch {
 public:
  virtual ~PreparedBatch() = default;
};

template <class T>
class PreparedRows final : public PreparedBatch {
 public:
  // Makes room for a batch of so many rows.
  void start(size_t rows) {
    if (rows_.size() < rows) rows_.resize(rows);
    for (PreparedRow<T>& row : rows_) row.ready = false;
  }
  PreparedRow<T>& operator[](size_t row) { return rows_[row]; }
  const PreparedRow<T>* find(size_t row) const {
    return row < rows_.size() && rows_[row].ready ? &rows_[row] : nullptr;
  }

 private:
  std::vector<PreparedRow<T>> rows_;
};

}  // namespace sonline
