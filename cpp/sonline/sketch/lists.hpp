// The lists of the sketch in appended form: what features have in the rows of an epoch. A row adds
// one number to the list of each of its features.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/blocks.hpp"
#include "sonline/cpu.hpp"
#include "sonline/features.hpp"
#include "sonline/matrix.hpp"
#include "sonline/row.hpp"

namespace sonline {

template <class T>
class FeatureLists {
 public:
  size_t bytes() const {
    return entries_.capacity() * sizeof(Entry) +
           (heads_.capacity() + slots_.capacity()) * sizeof(uint32_t);
  }
  // Room for the features below `slots`.
  void reserve(size_t slots) { heads_.resize(std::max(heads_.size(), slots)); }

  // The features that have a list.
  const std::vector<Slot>& features() const { return listed_; }
  // Calls use(column, value) for each number of a feature, the last one first.
  template <class Use>
  void each(Slot slot, Use&& use) const {
    for (uint32_t at = slot < heads_.size() ? heads_[slot] : 0; at != 0; at = entries_[at].before)
      use(entries_[at].column, entries_[at].value);
  }

  // Sums over a row, of columns `start` to n: x times the numbers of its features. One list after
  // the other would be one wrong guess of the processor for each; so the last numbers of all lists
  // are read first, then those before.
  void sum(const Row<T>& row, size_t first, size_t start, size_t n_columns, double* out) {
    read_ = 0;
    if (n_columns == start) return;
    if (sums_.size() < 2 * n_columns) sums_.resize(2 * n_columns);
    open_.resize(std::max(open_.size(), row.size));
    values_.resize(open_.size());
    uint32_t* open = open_.data();
    T* values = values_.data();
    const uint32_t* heads = heads_.data();
    const Entry* entries = entries_.data();
    // Two for each column: in dense rows the same column comes often in turn.
    double* sums = sums_.data();
    std::fill(sums + 2 * start, sums + 2 * n_columns, 0.0);
    size_t n = 0;
    for (size_t i = first; i < row.size; ++i) {
      open[n] = heads[row.slots[i]];
      values[n] = row.x[i];
      n += open[n] != 0;
    }
    for (size_t left; n > 0; n = left) {
      read_ += n;
      left = 0;
      for (size_t i = 0; i < n; ++i) {
        const Entry& entry = entries[open[i]];
        const T value = values[i];
        sums[2 * entry.column + i % 2] += static_cast<double>(entry.value) * value;
        open[left] = entry.before;
        values[left] = value;
        left += entry.before != 0;
      }
    }
    for (size_t j = start; j < n_columns; ++j) out[j] = sums[2 * j] + sums[2 * j + 1];
  }

  // Numbers read since the lists were empty, by sum() of the rows that were learned.
  uint64_t& visited() { return visited_; }
  void count_read() { visited_ += read_; }
  // Whether reading them has cost as much as an end of the epoch.
  bool are_long() const {
    constexpr uint64_t kPerFeature = 8, kPerEpoch = 1200;  // in numbers that are read
    return visited_ > kPerFeature * listed_.size() + kPerEpoch;
  }

  // A column of the features of the row: x · unit.
  void append(const Row<T>& row, size_t first, size_t column, T unit) {
    const size_t n = row.size - first, at = entries_.size();
    make_room(n);
    for (size_t i = 0; i < n; ++i)
      add_entry(at + i, row.slots[first + i], column, row.x[first + i] * unit);
    listed_.resize(features_listed_);
  }

  // The numbers in the lists go to the blocks: a feature gets the sum of its numbers, each times
  // its column (a row of `columns`, of which so many numbers are used), in double, and is rounded
  // once. catch_up(slots, n) brings n features up to date before that.
  template <class CatchUp>
  void empty(const Matrix& columns, size_t used, const BlockStore<T>& blocks, CatchUp&& catch_up) {
    constexpr size_t kAtOnce = 64;
    for (size_t i = 0; i < listed_.size(); i += kAtOnce) {
      const Slot* slots = &listed_[i];
      const size_t n = std::min(kAtOnce, listed_.size() - i);
      for (size_t f = 0; f < n; ++f) __builtin_prefetch(&entries_[heads_[slots[f]]]);
      catch_up(slots, n);
      has_avx2() ? add_avx2(slots, n, columns, used, blocks)
                 : add<0>(slots, n, columns, used, blocks);
    }
    for (const Slot slot : listed_) heads_[slot] = 0;
    forget();
    visited_ = 0;
  }

  // Number by number in the order in which they came; columns are those from `start` to n.
  template <class Archive>
  void state(Archive& archive, size_t slots, size_t start, size_t n_columns) {
    heads_.resize(slots);
    if constexpr (Archive::reading) {
      const auto of_slots = archive.template any_array<uint32_t>("sketch.lists.slot");
      const auto columns = archive.template any_array<uint32_t>("sketch.lists.column");
      const auto values = archive.template any_array<T>("sketch.lists.value");
      if (columns.size() != of_slots.size() || values.size() != of_slots.size())
        archive.fail("sketch.lists.slot", "has the wrong length");
      std::fill(heads_.begin(), heads_.end(), 0);
      forget();
      for (size_t i = 0; i < of_slots.size(); ++i) {
        if (of_slots[i] == kInterceptSlot || of_slots[i] >= slots)
          archive.fail("sketch.lists.slot", "is out of range");
        if (columns[i] < (i > 0 ? columns[i - 1] : start) || columns[i] >= n_columns)
          archive.fail("sketch.lists.column", "is out of range");
        make_room(1);
        add_entry(i + 1, of_slots[i], columns[i], values[i]);
      }
      listed_.resize(features_listed_);
    } else {
      std::vector<uint32_t> of_slots(slots_.begin() + 1, slots_.end()), columns;
      std::vector<T> values;
      for (size_t at = 1; at < entries_.size(); ++at) {
        columns.push_back(entries_[at].column);
        values.push_back(entries_[at].value);
      }
      archive.array("sketch.lists.slot", of_slots);
      archive.array("sketch.lists.column", columns);
      archive.array("sketch.lists.value", values);
    }
  }

 private:
  // A number of a feature in a row of the epoch, and where the one before it is; 0 if there is
  // none.
  struct Entry {
    uint32_t before = 0, column = 0;
    T value = 0;
  };

  void make_room(size_t n) {
    entries_.resize(entries_.size() + n);
    slots_.resize(entries_.size());
    listed_.resize(features_listed_ + n);
  }
  [[gnu::always_inline]] inline void add_entry(size_t at, Slot slot, size_t column, T value) {
    uint32_t& head = heads_[slot];
    entries_[at] = {head, static_cast<uint32_t>(column), value};
    slots_[at] = slot;
    listed_[features_listed_] = slot;
    features_listed_ += head == 0;
    head = static_cast<uint32_t>(at);
  }
  void forget() {
    entries_.resize(1);
    slots_.resize(1);
    listed_.clear();
    features_listed_ = 0;
  }

  SONLINE_AVX2 void add_avx2(const Slot* slots, size_t n, const Matrix& columns, size_t used,
                             const BlockStore<T>& blocks) {
    columns.cols() == 3 * kQuad ? add<3>(slots, n, columns, used, blocks)
                                : add<0>(slots, n, columns, used, blocks);
  }
  // Of n features. Compiled for a common width, in quads, or for any if that is 0.
  template <size_t quads>
  [[gnu::always_inline]] inline void add(const Slot* slots, size_t n, const Matrix& columns,
                                         size_t used, const BlockStore<T>& blocks) {
    const size_t width = columns.cols();
    const Entry* entries = entries_.data();
    const uint32_t* heads = heads_.data();
    Vector sums(width);
    for (size_t f = 0; f < n; ++f) {
      Quad few[std::max<size_t>(quads, 1)] = {};
      if constexpr (quads == 0) std::fill(sums.begin(), sums.end(), 0.0);
      for (uint32_t at = heads[slots[f]]; at != 0; at = entries[at].before) {
        const double value = entries[at].value, *column = columns[entries[at].column];
        if constexpr (quads > 0)
          for (size_t q = 0; q < quads; ++q) few[q] += value * load_quad(column + q * kQuad);
        else
          for (size_t i = 0; i < width; i += kQuad)
            store_quad(&sums[i], load_quad(&sums[i]) + value * load_quad(column + i));
      }
      if constexpr (quads > 0)
        for (size_t q = 0; q < quads; ++q) store_quad(&sums[q * kQuad], few[q]);
      T* block = blocks.at(slots[f]);
      for (size_t i = 0; i < used; ++i) block[i] = static_cast<T>(block[i] + sums[i]);
    }
  }

  std::vector<Entry> entries_ = std::vector<Entry>(1);  // the first is none
  std::vector<Slot> slots_ = std::vector<Slot>(1);      // of the entries
  std::vector<uint32_t> heads_;                         // by slot: the last entry
  std::vector<Slot> listed_;                            // the features that have entries
  size_t features_listed_ = 0;
  uint64_t visited_ = 0;  // entries read in this epoch

  // The row at hand.
  uint64_t read_ = 0;  // entries
  std::vector<uint32_t> open_;
  std::vector<T> values_;
  Vector sums_;
};

}  // namespace sonline
