// A row on its way through the model: as the inputs prepare it, and as a sketch sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "sonline/blocks.hpp"
#include "sonline/cpu.hpp"
#include "sonline/features.hpp"

namespace sonline {

// The features of a row and their values x̃. Filled by inputs.hpp.
template <class T>
struct InputRow {
  // A squared norm below this counts as 0: x / |x| cannot be computed in this number type.
  static constexpr double kTiny = std::is_same_v<T, float> ? 1e-74 : 1e-290;

  std::vector<Slot> slots;
  std::vector<T*> numbers;      // of the scales of each feature
  std::vector<uint32_t> times;  // by slot: how often the row has a feature that may be centred
  std::vector<T> raw;           // the unscaled values
  std::vector<T> scaled;        // … divided by the scales
  const T* x = nullptr;         // what is learned from: one of the two
  double energy = 0;            // |x̃|²
  size_t size = 0;
  size_t slots_seen = 0;  // slots assigned when this row was resolved, including its own
  bool unknown = false;   // it had features that were never seen; they are left out
  // Rows with the same two numbers have the same slots; 0 says nothing.
  uint64_t same_keys = 0, index = 0;
  bool located = false;  // `numbers` are those of the slots

  // Makes room for n non-zeros; may lose the content.
  void reserve(size_t n) {
    if (n <= slots.size()) return;
    const size_t capacity = 2 * n;
    slots.resize(capacity);
    numbers.resize(capacity);
    raw.resize(capacity);
    scaled.resize(capacity);
  }

  void measure() {
    Pair even{}, odd{};  // two chains of two, for the latency of the addition
    size_t i = 0;
    for (; i + 4 <= size; i += 4) {
      const Pair first{static_cast<double>(x[i]), static_cast<double>(x[i + 1])};
      const Pair second{static_cast<double>(x[i + 2]), static_cast<double>(x[i + 3])};
      even += first * first;
      odd += second * second;
    }
    for (; i < size; ++i) even[0] += static_cast<double>(x[i]) * x[i];
    energy = (even[0] + even[1]) + (odd[0] + odd[1]);
    if (energy < kTiny) energy = 0;
  }
};

// What a sketch sees of it: x̃, and for each non-zero the block of the feature.
template <class T>
struct Row {
  const Slot* slots = nullptr;
  const T* x = nullptr;
  std::vector<T*> blocks;
  double energy = 0;
  size_t size = 0, slots_seen = 0;
  bool unknown = false;
  uint64_t same_keys = 0, index = 0;  // of the row that the blocks were located for

  // Uses the values of a row, with its blocks in a store.
  void see(const InputRow<T>& row, const BlockStore<T>& store) {
    x = row.x;
    energy = row.energy;
    slots = row.slots.data();
    slots_seen = row.slots_seen;
    unknown = row.unknown;
    const bool same = row.same_keys != 0 && row.same_keys == same_keys && row.index == index;
    if (same && row.size == size) return;
    size = row.size;
    same_keys = row.same_keys;
    index = row.index;
    if (blocks.size() < size) blocks.resize(2 * size);
    store.locate(slots, size, blocks.data());
  }
  // The blocks are not those of the store any more.
  void forget_blocks() { same_keys = 0; }
};

}  // namespace sonline
