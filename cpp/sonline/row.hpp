// One row, resolved: for every non-zero the block of its feature and the number that multiplies it.
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include "sonline/features.hpp"

namespace sonline {

template <class T>
struct Row {
  // A squared norm so small that x / |x| cannot be had in this number type counts as none.
  static constexpr double kTiny = std::is_same_v<T, float> ? 1e-74 : 1e-290;

  std::vector<Slot> slots;
  std::vector<T*> blocks;
  std::vector<T> raw;  // the values as they came
  std::vector<T> x;    // the values after scaling: what the sketch sees
  double energy = 0;   // |x|^2
  size_t size = 0;
  bool unknown = false;  // it had features that were never seen, which are left out

  // Room for n non-zeros; what is there may be lost.
  void reserve(size_t n) {
    if (n <= blocks.size()) return;
    const size_t capacity = 2 * n;
    slots.resize(capacity);
    blocks.resize(capacity);
    raw.resize(capacity);
    x.resize(capacity);
  }

  void measure() {
    double sums[4] = {};  // four chains, for the latency of the addition
    size_t i = 0;
    for (; i + 4 <= size; i += 4)
      for (size_t j = 0; j < 4; ++j) sums[j] += static_cast<double>(x[i + j]) * x[i + j];
    for (; i < size; ++i) sums[0] += static_cast<double>(x[i]) * x[i];
    energy = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    if (energy < kTiny) energy = 0;
  }
};

}  // namespace sonline
