// The paper's diagonal adaptation, scaling="gradient": x̃_i = x_i / √D_i, D_i = D_1 + Σ (g x_i)².
// It depends on the gradients of an output, so each output has its D.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/blocks.hpp"
#include "sonline/columns.hpp"
#include "sonline/errors.hpp"
#include "sonline/row.hpp"

namespace sonline {

template <class T>
class Adaptation {
 public:
  static constexpr double kFirstSquare = 0.1;  // D_1

  Adaptation() : sums_(1) { sums_.reserve(1); }

  double scale(Slot slot) const { return std::sqrt(kFirstSquare + sums_.at(slot)[0]); }
  double square(Slot slot) const { return kFirstSquare + sums_.at(slot)[0]; }
  size_t bytes() const { return sums_.bytes(); }
  double& mean_energy() { return mean_energy_; }  // of |x̃|²
  void make_room(size_t slots) { sums_.reserve(slots); }

  // The row divided by the roots of D.
  const InputRow<T>& apply(const InputRow<T>& row) {
    sums_.reserve(row.slots_seen);
    if (sums_of_row_.size() < row.size) sums_of_row_.resize(2 * row.size);
    for (size_t i = 0; i < row.size; ++i) sums_of_row_[i] = sums_.at(row.slots[i])[0];
    return divided(row, applied_);
  }

  // The mean of |x̃|² over all rows, with that of the row at hand, the `count`-th.
  double mean_with_row(uint64_t count) const {
    return mean_energy_ + (taken_.energy - mean_energy_) / static_cast<double>(count);
  }

  // The same once D has taken in the gradient g x of the row.
  const InputRow<T>& take(const InputRow<T>& row, double g) {
    const T gradient = static_cast<T>(g);
    for (size_t i = 0; i < row.size; ++i) {
      const T gx = gradient * row.raw[i];
      sums_of_row_[i] += gx * gx;
    }
    if (!all_fit<T>(sums_of_row_.data(), row.size))
      throw Diverged("the scale of a feature is too large for the number type");
    return divided(row, taken_);
  }
  void commit(const InputRow<T>& row, double mean_energy) {
    mean_energy_ = mean_energy;
    for (size_t i = 0; i < row.size; ++i) sums_.at(row.slots[i])[0] = sums_of_row_[i];
  }

  [[gnu::cold]] void set(Slot slot, double square) {
    const T sum = static_cast<T>(std::max(square - kFirstSquare, 0.0));
    if (!std::isfinite(sum)) throw Diverged("a scale is too large for the number type");
    sums_.at(slot)[0] = sum;
  }
  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, size_t slots) {
    sums_.reserve(slots);
    sums_.state(archive, "adaptation", slots);
    archive.scalar("adaptation.energy", mean_energy_);
  }

 private:
  const InputRow<T>& divided(const InputRow<T>& row, InputRow<T>& to) const {
    to.slots.assign(row.slots.begin(), row.slots.begin() + static_cast<std::ptrdiff_t>(row.size));
    to.scaled.resize(row.size);
    for (size_t i = 0; i < row.size; ++i)
      to.scaled[i] = row.raw[i] / std::sqrt(static_cast<T>(kFirstSquare) + sums_of_row_[i]);
    to.size = row.size;
    to.slots_seen = row.slots_seen;
    to.x = to.scaled.data();
    to.measure();
    return to;
  }

  BlockStore<T> sums_;
  double mean_energy_ = 0;
  std::vector<T> sums_of_row_;
  InputRow<T> applied_, taken_;  // the row at hand, without and with its gradient in D
};

}  // namespace sonline
