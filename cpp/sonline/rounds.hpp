// What the rounds of a learner (learner.hpp) and of a group of outputs (group.hpp) have in common.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "sonline/hashing.hpp"

namespace sonline {

inline constexpr double kLargestSquare = 1e280;    // sums of them must stay finite
inline constexpr double kSmallestSquare = 1e-290;  // its digits must be normal numbers
inline constexpr double kFewRows = 64;             // up to here, no step is long
inline constexpr double kShortMemory = 1000;       // rows, of classes

// The sketch takes in one row out of each group of this many rounds, and counts it that often. If
// sketch_every is 0 ("auto"): every row at first, later one of two, and so on up to one of 32.
inline size_t rows_per_draw(size_t sketch_every, uint64_t rounds) {
  constexpr uint64_t kFirstRare = 1024;
  constexpr size_t kMostRare = 32;
  if (sketch_every > 0) return sketch_every;
  size_t every = 1;
  while (every < kMostRare && rounds >= kFirstRare * every) every *= 2;
  return every;
}

// Whether that row is the next one. It is drawn at random, so that a periodic stream is sampled
// fairly.
inline bool is_drawn(uint64_t rounds, size_t every) {
  return every == 1 || rounds % every == mix_bits(rounds / every) % every;
}

// Which part of A an expert with a memory of so many rows keeps after `rows` rows.
inline double part_of_memory(double memory, double rows) {
  return rows > memory ? memory / rows : 1.0;
}

// The margin by which an expert with a short memory is judged: few rows can often be separated, so
// being surer than all others counts neither for it nor against it.
inline double as_sure_as_others(const double* margins, size_t experts, size_t expert) {
  double most = 1;
  for (size_t e = 0; e < experts; ++e)
    if (e != expert) most = std::max(most, std::fabs(margins[e]));
  return std::clamp(margins[expert], -most, most);
}

}  // namespace sonline
