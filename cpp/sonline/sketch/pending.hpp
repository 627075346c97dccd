// The rows that an epoch has appended to the sketch, see appended.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sonline/row.hpp"

namespace sonline {

// Sparse rows with the transposed view that a dot product with another sparse row needs: for each
// slot the list of the rows that have it.
template <class T>
class PendingRows {
 public:
  size_t size() const { return count_; }
  size_t features() const { return features_; }
  size_t bytes() const {
    return heads_.capacity() * sizeof(uint32_t) + nodes_.capacity() * sizeof(Node);
  }

  void append(const Row<T>& row, double scale, size_t slots) {
    if (heads_.size() < slots) heads_.resize(slots, kEnd);
    for (size_t i = 0; i < row.size; ++i) {
      features_ += heads_[row.slots[i]] == kEnd;
      nodes_.push_back({static_cast<T>(scale * row.x[i]), static_cast<uint32_t>(count_),
                        heads_[row.slots[i]], row.slots[i]});
      heads_[row.slots[i]] = static_cast<uint32_t>(nodes_.size() - 1);
    }
    ++count_;
  }

  bool has(Slot slot) const { return slot < heads_.size() && heads_[slot] != kEnd; }

  // Calls visit(row, value) for each entry at a slot.
  template <class Visit>
  void at(Slot slot, Visit&& visit) const {
    if (slot >= heads_.size()) return;
    for (uint32_t i = heads_[slot]; i != kEnd; i = nodes_[i].next)
      visit(nodes_[i].row, nodes_[i].value);
  }

  // Calls visit(slot) for each feature that a row has, and forgets all.
  template <class Visit>
  void take(Visit&& visit) {
    for (const Node& node : nodes_) {
      if (heads_[node.slot] == kEnd) continue;
      visit(node.slot);
      heads_[node.slot] = kEnd;
    }
    nodes_.clear();
    count_ = features_ = 0;
  }

  template <class Archive>
  void state(Archive& archive, size_t slots) {
    std::vector<T> values;
    std::vector<uint64_t> places;  // (row, slot) pairs
    if constexpr (Archive::reading) {
      values = archive.template any_array<T>("sketch.R.values");
      places = archive.template any_array<uint64_t>("sketch.R.places");
      if (places.size() != 2 * values.size())
        archive.fail("sketch.R.places", "has the wrong length");
      archive.scalar("sketch.R.rows", count_);
      nodes_.clear();
      heads_.assign(slots, kEnd);
      features_ = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        const uint64_t row = places[2 * i], slot = places[2 * i + 1];
        if (row >= count_ || slot >= slots) archive.fail("sketch.R.places", "is out of range");
        features_ += heads_[slot] == kEnd;
        nodes_.push_back(
            {values[i], static_cast<uint32_t>(row), heads_[slot], static_cast<Slot>(slot)});
        heads_[slot] = static_cast<uint32_t>(i);
      }
    } else {
      for (const Node& node : nodes_) {
        values.push_back(node.value);
        places.push_back(node.row);
        places.push_back(node.slot);
      }
      archive.array("sketch.R.values", values);
      archive.array("sketch.R.places", places);
      archive.scalar("sketch.R.rows", count_);
    }
  }

 private:
  static constexpr uint32_t kEnd = ~uint32_t{0};
  struct Node {
    T value;
    uint32_t row, next;
    Slot slot;
  };
  std::vector<uint32_t> heads_;  // by slot
  std::vector<Node> nodes_;
  size_t count_ = 0, features_ = 0;
};

}  // namespace sonline
