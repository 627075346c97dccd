// Adds up the values of features that occur more than once in a row.
#pragma once

#include <cstdint>
#include <vector>

#include "sonline/row.hpp"

namespace sonline {

class SlotMerger {
 public:
  // Keeps each slot once, at its first position, and drops sums that are zero.
  template <class T>
  void sum_duplicates(InputRow<T>& row) {
    size_t capacity = 16;
    while (capacity < 2 * row.size) capacity *= 2;
    table_.assign(capacity, {});
    size_t kept = 0;
    for (size_t i = 0; i < row.size; ++i) {
      size_t bucket = (row.slots[i] * 0x9E3779B9u) & (capacity - 1);
      while (table_[bucket].used && table_[bucket].slot != row.slots[i])
        bucket = (bucket + 1) & (capacity - 1);
      Entry& entry = table_[bucket];
      if (entry.used) {
        row.raw[entry.position] += row.raw[i];
        continue;
      }
      entry = {row.slots[i], static_cast<uint32_t>(kept), true};
      move(row, i, kept++);
    }
    row.size = kept;
    kept = 0;
    for (size_t i = 0; i < row.size; ++i)
      if (row.raw[i] != 0) move(row, i, kept++);
    row.size = kept;
  }

 private:
  struct Entry {
    Slot slot = 0;
    uint32_t position = 0;
    bool used = false;
  };

  template <class T>
  static void move(InputRow<T>& row, size_t from, size_t to) {
    row.slots[to] = row.slots[from];
    row.raw[to] = row.raw[from];
  }

  std::vector<Entry> table_;
};

}  // namespace sonline
