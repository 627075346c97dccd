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
#include "sonline/knowledge.hpp"
#include "sonline/row.hpp"
#include "sonline/sketch/contract.hpp"
#include "sonline/sketch/sweep.hpp"

namespace sonline {

template <class T>
class AdaGrad {
 public:
  // A has nothing along a new feature before it has taken in the gradient.
  static constexpr bool kAbsorbFirst = true;
  static constexpr bool kTakesCurvature = false;  // but the gradient

  explicit AdaGrad(const SketchConfig&) {}

  size_t width() const { return 2; }
  size_t used() const { return 2; }
  double tail() const { return 0; }
  Upkeep upkeep() const { return {}; }
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
    prepared_ = kNothing;
  }

  double margin(size_t) const { return margin_; }

  // Σ x²/√(Σ(gx)²), with the gradient of this round if it has been absorbed. Leaves the squares and
  // x/√squares for commit().
  double energy(size_t, double) {
    prepare();
    return has_avx2() ? sum_of_parts_avx2() : sum_of_parts();
  }

  void descend(size_t, double step, double) { (g_ != 0 ? after_ : before_) -= step; }

  void absorb(double, double g, double, size_t, double) {
    // A projection was a step with the gradients of the rounds before.
    if (before_ != 0) {
      prepare();
      projection_ = directions_;
    }
    g_ = g;
  }

  // Compute, check, write.
  void commit(const Row<T>& row, const BlockStore<T>&, size_t, double) {
    if (before_ == 0 && g_ == 0) return;
    if (!(prepared_ == g_)) prepare();
    const size_t n = row.size;
    const T before = static_cast<T>(before_), after = static_cast<T>(after_);
    const T *squares = squares_.data(), *directions = directions_.data();
    T* weights = parts_.data();
    for (size_t i = 0; i < n; ++i) weights[i] = row.blocks[i][kWeight];
    if (before != 0) {
      const T* projection = g_ != 0 ? projection_.data() : directions;
      for (size_t i = 0; i < n; ++i) weights[i] += before * projection[i];
    }
    for (size_t i = 0; i < n; ++i) weights[i] += after * directions[i];
    if (!all_fit<T>(squares, n) || !all_fit<T>(weights, n))
      throw Diverged("a step is too large for the number type");
    for (size_t i = 0; i < n; ++i) {
      row.blocks[i][kSquares] = squares[i];
      row.blocks[i][kWeight] = weights[i];
    }
  }

  void undo() {}  // commit() changes nothing if it fails

  void read(Slot, const T* block, double* weights, double*) const { weights[0] = block[kWeight]; }

  [[gnu::cold]] void write_knowledge(StateWriter& archive, const BlockStore<T>& blocks,
                                     size_t slots) const {
    Matrix squares(1, slots);
    for (Slot slot = 0; slot < slots; ++slot) squares(0, slot) = blocks.at(slot)[kSquares];
    archive.matrix("gradients", squares);
  }
  [[gnu::cold]] void read_knowledge(StateReader& archive, const BlockStore<T>& blocks,
                                    size_t slots) {
    fill_blocks(archive, "weights", 1, blocks, slots, kWeight);
    fill_blocks(archive, "gradients", 1, blocks, slots, kSquares);
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive&, size_t) {}

 private:
  static constexpr size_t kWeight = 0, kSquares = 1;
  static constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

  [[gnu::always_inline]] inline double sum_of_parts() const {
    const size_t n = row_->size;
    const T *x = row_->x, *directions = directions_.data();
    Quad even{}, odd{};
    size_t i = 0;
    for (; i + 2 * kQuad <= n; i += 2 * kQuad) {
      even += part_of(x + i, directions + i);
      odd += part_of(x + i + kQuad, directions + i + kQuad);
    }
    double rest = 0;
    for (; i < n; ++i) rest += x[i] * directions[i];
    return sum_of(even + odd) + rest;
  }
  SONLINE_AVX2 double sum_of_parts_avx2() const { return sum_of_parts(); }
  [[gnu::always_inline]] static inline Quad part_of(const T* x, const T* directions) {
    T parts[kQuad];
    for (size_t j = 0; j < kQuad; ++j) parts[j] = x[j] * directions[j];
    return widen_quad(parts);
  }

  // Squares with the gradient g_, and x/√squares; 0 where there is no square yet. The loops are
  // vector code, roots and divisions included.
  void prepare() {
    const size_t n = row_->size;
    const T* x = row_->x;
    const T g = static_cast<T>(g_);
    for (std::vector<T>* room : {&squares_, &directions_, &parts_})
      if (room->size() < n) room->resize(n);
    T *squares = squares_.data(), *directions = directions_.data();
    for (size_t i = 0; i < n; ++i) squares[i] = row_->blocks[i][kSquares];
    for (size_t i = 0; i < n; ++i) {
      const T gx = g * x[i];
      const T square = squares[i] + gx * gx, direction = x[i] / std::sqrt(square);
      squares[i] = square;
      directions[i] = square > 0 ? direction : T{0};
    }
    prepared_ = g_;
  }

  // The round at hand: the steps before and after the gradient was absorbed, and what prepare()
  // leaves for the gradient `prepared_`.
  const Row<T>* row_ = nullptr;
  std::vector<T> squares_, directions_, projection_, parts_;
  double margin_ = 0, before_ = 0, after_ = 0, g_ = 0, prepared_ = kNothing;
};

}  // namespace sonline
