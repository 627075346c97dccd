// The rows that a model has learned: how many, how long, how heavy.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "sonline/ablation.hpp"
#include "sonline/config.hpp"
#include "sonline/forgetting.hpp"
#include "sonline/hashing.hpp"

namespace sonline {

// How many rows of equal weight tell as much as the rows so far, (Σw)² / Σw² (Kish 1965): if one
// row of a thousand weighs as much as all others, memories and shares are not those of a thousand
// rows.
class EffectiveRows {
 public:
  void add(double weight, double kept) {
    sum_ = sum_ * kept + weight;
    squares_ = squares_ * kept + weight * weight;
  }
  double count() const { return sum_ / unit(); }
  // The weight of one of them; 1 if the squares are beyond the range of numbers.
  double unit() const {
    return SONLINE_KEEPS(effective_rows) && std::isnormal(squares_) ? squares_ / sum_ : 1.0;
  }

  template <class Archive>
  void state(Archive& archive) {
    archive.scalar("weights.sum", sum_);
    archive.scalar("weights.squares", squares_);
    if constexpr (Archive::reading)
      if (sum_ < 0 || squares_ < 0) archive.fail("weights.sum", "is negative");
  }

 private:
  double sum_ = 0, squares_ = 0;
};

struct RowsSeen {
  uint64_t count = 0;
  uint64_t nonzeros = 0;   // of the first kLastCounted rows
  double mean_energy = 0;  // of |x̃|²
  EffectiveRows effective;
  // What is left of the rows and of their non-zeros, and the weight of the next row.
  double rows = 0, values = 0;
  Clock clock;

  // `kept` is what the rows before still count.
  void add(size_t size, double energy, double weight, double kept) {
    ++count;
    if (count < kLastCounted) nonzeros += size;
    rows = rows * kept + 1;
    values = kept < 1 ? values * kept + static_cast<double>(size) : static_cast<double>(nonzeros);
    if (SONLINE_KEEPS(running_energy) || count == 1) mean_energy += (energy - mean_energy) / rows;
    effective.add(weight, kept);
  }

  // The sketch takes in one row out of each group of this many rows, and counts it that often. If
  // sketch_every is 0 ("auto"): every row at first, later one of two, and so on up to one of 32.
  size_t per_draw(size_t sketch_every) const {
    constexpr uint64_t kFirstDrawn = 1024;
    constexpr size_t kLargestGroup = 32;
    if (sketch_every > 0) return sketch_every;
    if (!SONLINE_KEEPS(drawn_rows)) return 1;
    size_t every = 1;
    while (every < kLargestGroup && rows >= static_cast<double>(kFirstDrawn * every)) every *= 2;
    return every;
  }
  // Whether that row is the next one. It is drawn at random, so that a periodic stream is sampled
  // fairly.
  bool next_is_drawn(size_t every) const {
    return every == 1 || count % every == mix_bits(count / every) % every;
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, bool forgets) {
    archive.scalar("rounds", count);
    archive.scalar("mean_energy", mean_energy);
    archive.scalar("nonzeros", nonzeros);
    if constexpr (Archive::reading)
      if (mean_energy < 0) archive.fail("mean_energy", "is negative");
    effective.state(archive);
    if (forgets) {
      archive.scalar("recent.rows", rows);
      archive.scalar("recent.values", values);
    } else if constexpr (Archive::reading) {
      rows = static_cast<double>(count);
      values = static_cast<double>(nonzeros);
    }
    if constexpr (Archive::reading)
      if (rows < 0 || values < 0) archive.fail("recent.rows", "is negative");
  }
};

}  // namespace sonline
