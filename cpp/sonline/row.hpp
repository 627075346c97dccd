// One row, resolved: for every non-zero the block of its feature and the number that multiplies it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "sonline/cpu.hpp"
#include "sonline/features.hpp"
#include "sonline/prepared.hpp"

namespace sonline {

template <class T>
struct Row {
  // A squared norm below this counts as 0: x / |x| cannot be computed in this number type.
  static constexpr double kTiny = std::is_same_v<T, float> ? 1e-74 : 1e-290;

  std::vector<Slot> slots;
  std::vector<Key> new_keys;  // of the slots that this row added
  std::vector<T*> blocks;
  std::vector<uint32_t> times;  // by slot: how often it has a feature, if that may be centred
  std::vector<T> raw;           // the unscaled values
  std::vector<T> scaled;        // … divided by the scales
  const T* x = nullptr;         // what is learned from: one of the two
  double energy = 0;            // |x|^2
  size_t size = 0;
  size_t slots_seen = 0;  // slots assigned when this row was resolved, including its own
  bool unknown = false;   // it had features that were never seen; they are left out
  // Which batch and which index the slots come from; 0 if they are to be looked up.
  uint64_t same_keys = 0, index = 0;
  bool located = false;                      // the blocks are those of the slots
  const PreparedRow<T>* prepared = nullptr;  // by another learner, if it is to be learned

  // Makes room for n non-zeros; may lose the content.
  void reserve(size_t n) {
    if (n <= blocks.size()) return;
    const size_t capacity = 2 * n;
    slots.resize(capacity);
    blocks.resize(capacity);
    raw.resize(capacity);
    scaled.resize(capacity);
  }

  // Makes this row what another learner has prepared; the blocks are missing.
  void take_over(const PreparedRow<T>& other) {
    size = other.slots.size();
    reserve(size);
    std::copy(other.slots.begin(), other.slots.end(), slots.begin());
    slots_seen = other.slots_seen;
    unknown = false;
    same_keys = 0;
    located = false;
    prepared = &other;
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

}  // namespace sonline
