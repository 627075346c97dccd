// A row on its way through the model: as the inputs prepare it, and as a sketch sees it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "sonline/blocks.hpp"
#include "sonline/cpu.hpp"
#include "sonline/features.hpp"

namespace sonline {

// Whether slots are the same as those of the row before, in `last`; there they are kept. Rows of a
// table have the same slots, and their blocks need not be found again.
inline bool same_slots(const Slot* slots, size_t n, std::vector<Slot>& last) {
  if (last.size() == n && std::equal(last.begin(), last.end(), slots)) return true;
  last.assign(slots, slots + n);
  return false;
}

// The features of a row and their values x̃. Filled by inputs.hpp.
template <class T>
struct InputRow {
  // A squared norm below this counts as 0: x / |x| cannot be computed in this number type.
  static constexpr double kTiny = std::is_same_v<T, float> ? 1e-74 : 1e-290;

  static constexpr size_t kLanes = 32 / sizeof(T);  // of the widest vector that reads x

  std::vector<Slot> slots;
  std::vector<T*> numbers;      // of the scales of each feature
  std::vector<uint32_t> times;  // by slot: how often the row has a feature that may be centred
  std::vector<T> raw;           // the unscaled values
  std::vector<T> scaled;        // … divided by the scales
  const T* x = nullptr;         // what is learned from: one of the two
  double energy = 0;            // |x̃|²
  size_t size = 0;
  size_t slots_seen = 0;  // slots assigned when this row was resolved, including its own
  uint32_t unknown = 0;   // features that were never seen; they are left out
  // Rows with the same two numbers have the same slots; 0 says nothing.
  uint64_t same_keys = 0, index = 0;
  std::vector<Slot> located;  // the slots of `numbers`
  uint64_t located_in = 0;    // … and the number of the index that they belong to

  // Makes room for n non-zeros and one more vector; may lose the content.
  void reserve(size_t n) {
    if (n + kLanes <= slots.size()) return;
    const size_t capacity = 2 * n + kLanes;
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
  std::vector<Slot> located;  // the slots of these blocks
  double energy = 0;
  size_t size = 0, slots_seen = 0;
  uint32_t unknown = 0;

  // Finds the blocks of the row that is seen next, and fetches them.
  void look_ahead(const InputRow<T>& next, const BlockStore<T>& store) {
    const Slot* slots_of_next = next.slots.data();
    if (are(located, slots_of_next, next.size)) return;
    located_ahead.assign(slots_of_next, slots_of_next + next.size);
    if (ahead.size() < next.size) ahead.resize(2 * next.size);
    store.locate(slots_of_next, next.size, ahead.data());
  }
  // Uses the values of a row, with its blocks in a store.
  void see(const InputRow<T>& row, const BlockStore<T>& store) {
    x = row.x;
    energy = row.energy;
    slots = row.slots.data();
    slots_seen = row.slots_seen;
    unknown = row.unknown;
    size = row.size;
    if (are(located, slots, size)) return;  // as all rows of a table have them
    if (!are(located_ahead, slots, size)) look_ahead(row, store);
    located.swap(located_ahead);
    blocks.swap(ahead);
  }
  // The blocks are not those of the store any more.
  void forget_blocks() { located.clear(); }

 private:
  static bool are(const std::vector<Slot>& known, const Slot* slots, size_t n) {
    return known.size() == n && std::equal(known.begin(), known.end(), slots);
  }

  std::vector<T*> ahead;
  std::vector<Slot> located_ahead;
};

}  // namespace sonline
