// Diagonal AdaGrad (Duchi, Hazan & Singer 2011), the baseline: A = α diag(G)^½, G = Σ g² per
// feature.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/blocks.hpp"
#include "sonline/columns.hpp"
#include "sonline/errors.hpp"
#include "sonline/forgetting.hpp"
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

  explicit AdaGrad(const SketchConfig& config) : forgets_(config.forgets) {}

  size_t width() const { return forgets_ ? 3 : 2; }
  size_t used() const { return width(); }
  double tail() const { return 0; }
  Upkeep upkeep() const { return {}; }
  size_t rank() const { return 0; }
  Vector eigenvalues() const { return {}; }

  // Reads the row's blocks once.
  void project(const Row<T>& row) {
    const size_t n = row.size;
    if (weights_.size() < n)
      for (std::vector<T>* room : {&weights_, &before_squares_, &squares_, &directions_})
        room->resize(2 * n);
    T* const* blocks = row.blocks.data();
    T *weights = weights_.data(), *squares = before_squares_.data();
#pragma GCC unroll 4
    for (size_t i = 0; i < n; ++i) {
      weights[i] = blocks[i][kWeight];
      squares[i] = blocks[i][kSquares];
    }
    if (forgets_)
      for (size_t i = 0; i < n; ++i) squares[i] = Clock::left<T>(squares[i] * carried(blocks[i]));
    row_ = &row;
    has_avx2() ? sum_margin_avx2() : sum_margin();
    before_ = after_ = g_ = 0;
    prepared_ = kNothing;
  }

  double margin(size_t) const { return margin_; }

  // Σ x²/√(Σ(gx)²), with the gradient of this round if it has been absorbed. Leaves the squares and
  // x/√squares for commit().
  double energy(size_t, double) {
    prepare();
    return energy_;
  }

  void descend(size_t, double step, double) { (g_ != 0 ? after_ : before_) -= step; }

  void absorb(double, double g, double, size_t, double, double) {
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
    if (!(has_avx2() ? weights_fit_avx2() : weights_fit()))
      throw Diverged("a step is too large for the number type");
    const size_t n = row.size;
    const T *squares = squares_.data(), *weights = weights_.data();
    T* const* blocks = row.blocks.data();
#pragma GCC unroll 4
    for (size_t i = 0; i < n; ++i) {
      blocks[i][kSquares] = squares[i];
      blocks[i][kWeight] = weights[i];
    }
    if (forgets_)
      for (size_t i = 0; i < n; ++i) blocks[i][kEpoch] = clock_.stamp<T>();
  }

  void undo() {}  // commit() changes nothing if it fails
  void pass(int64_t epochs) { clock_.pass(epochs); }

  void read(Slot, const T* block, double* weights, double*) const { weights[0] = block[kWeight]; }

  [[gnu::cold]] void write_knowledge(StateWriter& archive, const BlockStore<T>& blocks,
                                     size_t slots, double counted) const {
    Matrix squares(1, slots);
    for (Slot slot = 0; slot < slots; ++slot) {
      squares(0, slot) = blocks.at(slot)[kSquares];
      if (forgets_) squares(0, slot) *= counted * counted * carried(blocks.at(slot));
    }
    archive.matrix("gradients", squares);
  }
  [[gnu::cold]] void read_knowledge(StateReader& archive, const BlockStore<T>& blocks,
                                    size_t slots) {
    fill_blocks(archive, "weights", 1, blocks, slots, kWeight);
    fill_blocks(archive, "gradients", 1, blocks, slots, kSquares);
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, size_t) {
    if (!forgets_) return;
    uint64_t epoch = clock_.epoch();
    archive.scalar("sketch.passed", epoch);
    if constexpr (Archive::reading) {
      clock_ = Clock();
      clock_.pass(static_cast<int64_t>(epoch));
    }
  }

 private:
  static constexpr size_t kWeight = 0, kSquares = 1, kEpoch = 2;

  // What G of a feature counts now: weights of rows are squared there.
  T carried(const T* block) const {
    const double factor = clock_.carried_since(block[kEpoch]);
    return static_cast<T>(factor * factor);
  }

  static constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

  // Squares with the gradient g_, x/√squares (0 where there is no square yet), and the sum of
  // x²/√squares.
  void prepare() {
    has_avx2() ? prepare_avx2() : prepare_any();
    prepared_ = g_;
  }
  SONLINE_AVX2 void prepare_avx2() { prepare_any(); }
  [[gnu::always_inline]] inline void prepare_any() {
    const size_t n = row_->size;
    const T *x = row_->x, *before = before_squares_.data(), g = static_cast<T>(g_);
    T *squares = squares_.data(), *directions = directions_.data();
    Lanes sums{};
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const Lanes values = load(x + i), gx = g * values, square = load(before + i) + gx * gx;
      Lanes direction;
      for (size_t l = 0; l < kLanes; ++l) direction[l] = values[l] / std::sqrt(square[l]);
      direction = square > T{0} ? direction : Lanes{};
      store(squares + i, square);
      store(directions + i, direction);
      sums += values * direction;
    }
    energy_ = 0;
    for (; i < n; ++i) {
      const T gx = g * x[i], square = before[i] + gx * gx;
      squares[i] = square;
      directions[i] = square > 0 ? x[i] / std::sqrt(square) : T{0};
      energy_ += x[i] * directions[i];
    }
    for (size_t l = 0; l < kLanes; ++l) energy_ += sums[l];
  }

  // Takes the steps; whether the results fit their type.
  [[gnu::always_inline]] inline bool weights_fit() {
    const size_t n = row_->size;
    const T before = static_cast<T>(before_), after = static_cast<T>(after_);
    const T *squares = squares_.data(), *directions = directions_.data();
    T* weights = weights_.data();
    if (before != 0) {
      const T* projection = g_ != 0 ? projection_.data() : directions;
      for (size_t i = 0; i < n; ++i) weights[i] += before * projection[i];
    }
    for (size_t i = 0; i < n; ++i) weights[i] += after * directions[i];
    return all_fit<T>(squares, n) && all_fit<T>(weights, n);
  }
  SONLINE_AVX2 bool weights_fit_avx2() { return weights_fit(); }

  [[gnu::always_inline]] inline void sum_margin() {
    const size_t n = row_->size;
    const T *x = row_->x, *weights = weights_.data();
    Lanes sums{};
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) sums += load(x + i) * load(weights + i);
    T rest = 0;
    for (; i < n; ++i) rest += x[i] * weights[i];
    for (size_t l = 0; l < kLanes; ++l) rest += sums[l];
    margin_ = rest;
  }
  SONLINE_AVX2 void sum_margin_avx2() { sum_margin(); }

  static constexpr size_t kLanes = 32 / sizeof(T);
  using Lanes = typename detail::Simd<T, kLanes>::Vector;
  using LanesInMemory = typename detail::Simd<T, kLanes>::InMemory;
  [[gnu::always_inline]] static inline Lanes load(const T* from) {
    return *reinterpret_cast<const LanesInMemory*>(from);
  }
  [[gnu::always_inline]] static inline void store(T* to, Lanes lanes) {
    *reinterpret_cast<LanesInMemory*>(to) = lanes;
  }

  // The round at hand: the steps before and after the gradient was absorbed, and what prepare()
  // leaves for the gradient `prepared_`.
  bool forgets_;
  Clock clock_;
  const Row<T>* row_ = nullptr;
  std::vector<T> weights_, before_squares_;  // of the row
  std::vector<T> squares_, directions_, projection_;
  double margin_ = 0, energy_ = 0, before_ = 0, after_ = 0, g_ = 0, prepared_ = kNothing;
};

}  // namespace sonline
