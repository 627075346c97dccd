// One row, resolved: for every non-zero the block of its feature and the number that multiplies it.
#pragma once

#include <cstddef>
#include <vector>

#include "sonline/features.hpp"

namespace sonline {

template <class T>
struct Row {
  std::vector<Slot> slots;
  std::vector<T*> blocks;
  std::vector<T> raw;  // the values as they came
  std::vector<T> x;    // the values after scaling: what the sketch sees
  double energy = 0;   // |x|^2
  size_t size = 0;

  void clear() { size = 0; }

  void push(Slot slot, T* block, T value) {
    if (size == blocks.size()) {
      const size_t capacity = size ? 2 * size : 64;
      slots.resize(capacity);
      blocks.resize(capacity);
      raw.resize(capacity);
      x.resize(capacity);
    }
    slots[size] = slot;
    blocks[size] = block;
    raw[size] = value;
    ++size;
  }

  void measure() {
    double sum = 0;
    for (size_t i = 0; i < size; ++i) sum += static_cast<double>(x[i]) * x[i];
    energy = sum;
  }
};

}  // namespace sonline
