// Diagonal AdaGrad (Duchi, Hazan & Singer 2011), the baseline: A = α diag(G)^½, G = Σ g² per
// feature.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/blocks.hpp"
#include "sonline/errors.hpp"
#include "sonline/row.hpp"
#include "sonline/sketch/contract.hpp"

namespace sonline {

template <class T>
class AdaGrad {
 public:
  // A has nothing along a new feature before it has taken in the gradient.
  static constexpr bool kAbsorbFirst = true;

  explicit AdaGrad(const SketchConfig&) {}

  size_t width() const { return 2; }
  size_t used() const { return 2; }
  double tail() const { return 0; }
  int64_t rebases() const { return 0; }
  size_t rank() const { return 0; }
  Vector eigenvalues() const { return {}; }

  void project(const Row<T>& row) {
    T even = 0, odd = 0;
    size_t i = 0;
    for (; i + 1 < row.size; i += 2) {
      even += row.x[i] * row.blocks[i][kWeight];
      odd += row.x[i + 1] * row.blocks[i + 1][kWeight];
    }
    if (i < row.size) even += row.x[i] * row.blocks[i][kWeight];
    margin_ = even + odd;
    row_ = &row;
    before_ = after_ = g_ = 0;
  }

  double margin(size_t) const { return margin_; }

  double energy(double) const {
    double sum = 0;
    for (size_t i = 0; i < row_->size; ++i) {
      const double x = row_->x[i], gx = g_ * x;
      const double root = std::sqrt(row_->blocks[i][kSquares] + gx * gx);
      if (root > 0) sum += x * x / root;
    }
    return sum;
  }

  void descend(size_t, double step, double) { (g_ != 0 ? after_ : before_) -= step; }

  void absorb(double, double g, double, size_t, double) { g_ = g; }

  void commit(const Row<T>& row, const BlockStore<T>&, size_t, double) {
    T check = 0;  // becomes NaN if any number becomes infinite
    if (before_ != 0) {
      const T step = static_cast<T>(before_);
      for (size_t i = 0; i < row.size; ++i) {
        T* block = row.blocks[i];
        if (block[kSquares] > 0) block[kWeight] += step * row.x[i] / std::sqrt(block[kSquares]);
        check += block[kWeight] * 0;
      }
    }
    if (g_ != 0) check += take_step(row);
    if (!(check == 0)) throw Diverged("a step is too large for the number type");
  }

  double weight(Slot, const T* block, size_t) const { return block[kWeight]; }
  void direction(Slot, const T*, double*) const {}

  template <class Archive>
  void state(Archive&, size_t) {}

 private:
  // Read, compute, write: the middle loop is then vector code, roots and divisions included.
  // Returns 0, or NaN if a number became infinite.
  T take_step(const Row<T>& row) {
    const T g = static_cast<T>(g_), step = static_cast<T>(after_);
    squares_.resize(std::max(squares_.size(), row.size));
    changes_.resize(squares_.size());
    T* squares = squares_.data();
    T* changes = changes_.data();
    const T* x = row.x;
    for (size_t i = 0; i < row.size; ++i) squares[i] = row.blocks[i][kSquares];
    for (size_t i = 0; i < row.size; ++i) {
      const T gx = g * x[i];
      squares[i] += gx * gx;
      // No square yet means that x is (nearly) 0: the smallest number keeps 0 / 0 away.
      changes[i] = step * x[i] / std::sqrt(squares[i] + std::numeric_limits<T>::min());
    }
    T check = 0;
    for (size_t i = 0; i < row.size; ++i) {
      T* block = row.blocks[i];
      block[kSquares] = squares[i];
      block[kWeight] += changes[i];
      check += squares[i] * 0 + block[kWeight] * 0;
    }
    return check;
  }

  static constexpr size_t kWeight = 0, kSquares = 1;
  const Row<T>* row_ = nullptr;
  std::vector<T> squares_, changes_;  // of the row at hand
  double margin_ = 0, before_ = 0, after_ = 0, g_ = 0;
};

}  // namespace sonline
