// The basis V = F Z of a sketch in factored form, and the weights w = w̄ + Vᵀβ on it (factored.hpp):
// how it is kept exact. What changes all features is lazy (lazy.hpp).
//
// Rounding slowly takes the orthonormality of V away. A sweep over all features measures the Gram
// matrix and restores it, once the non-zeros that were read have paid for that.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/blocks.hpp"
#include "sonline/columns.hpp"
#include "sonline/errors.hpp"
#include "sonline/knowledge.hpp"
#include "sonline/matrix.hpp"
#include "sonline/row.hpp"
#include "sonline/sketch/contract.hpp"
#include "sonline/sketch/lazy.hpp"
#include "sonline/sketch/sweep.hpp"

namespace sonline {

template <class T, class Rule>
class Basis {
 public:
  double tail() const { return rule_.tail(); }
  const Upkeep& upkeep() const { return upkeep_; }
  size_t rank() const { return k_; }
  Vector eigenvalues() const {
    return Vector(rule_.ev().begin(), rule_.ev().begin() + static_cast<std::ptrdiff_t>(k_));
  }
  size_t bytes() const { return lazy_.bytes() + lazy_.bytes_of_tags(); }

  // The weights of a feature and its column of V, as they are now.
  [[gnu::cold]] void read(Slot slot, const T* block, double* weights, double* v) const {
    typename LazyColumns<T>::Room room(lazy_);
    const double* read = lazy_.read(slot, block, room);
    Vector now(read, read + K_ + m_);
    if (slot == kInterceptSlot)
      for (size_t j = 0; j < K_ + m_; ++j) now[j] += intercept_[j];
    for (size_t i = 0; i < k_; ++i) v[i] = dot(F_[i], &now[K_], k_);
    for (size_t e = 0; e < K_; ++e) weights[e] = now[e] + dot(beta_[e], v, k_);
  }

  [[gnu::cold]] void write_knowledge(StateWriter& archive, const BlockStore<T>&, size_t,
                                     double counted) const {
    Vector ev = eigenvalues();
    for (double& value : ev) value *= counted;
    archive.array("ev", ev);
    archive.scalar("capacity", m_);
    rule_.write_knowledge(archive, counted);
  }

  // Takes over weights and directions that the blocks hold.
  [[gnu::cold]] void read_knowledge(StateReader& archive, const BlockStore<T>& blocks,
                                    size_t slots) {
    const Vector ev = archive.any_array<double>("ev");
    if (fill_blocks(archive, "weights", K_, blocks, slots, 0) != K_)
      archive.fail("weights", "has the wrong shape");
    if (fill_blocks(archive, "directions", m_, blocks, slots, K_) != ev.size())
      archive.fail("ev", "has the wrong length");
    k_ = ev.size();
    rule_.read_knowledge(archive, ev);
    lazy_.admit(slots);
    for (size_t i = 0; i < k_; ++i) F_(i, i) = 1;
    rule_.rebased(F_, k_);
    if (first_)
      for (size_t j = 0; j < K_ + m_; ++j)
        intercept_[j] = std::exchange(blocks.at(kInterceptSlot)[j], T{0});
    for (Slot slot = kInterceptSlot + 1; slot < std::min(slots, lazy_.most_exact()); ++slot)
      std::copy_n(blocks.at(slot), K_ + m_, lazy_.exact(slot));
    if (k_ > 0) sweep(blocks, slots);
  }

  // The feature is new again.
  [[gnu::cold]] void forget_feature(Slot slot) { lazy_.clear_exact(slot); }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, size_t slots) {
    archive.scalar("sketch.rank", k_);
    if constexpr (Archive::reading)
      if (k_ > m_) archive.fail("sketch.rank", "exceeds the sketch size");
    if constexpr (!Archive::reading) {  // equal models have equal files: no rest of a larger rank
      F_.clear_beyond(k_, k_);
      beta_.clear_beyond(K_, k_);
    }
    upkeep_.state(archive);
    archive.matrix("sketch.F", F_);
    archive.matrix("sketch.beta", beta_);
    archive.array("sketch.intercept", intercept_);
    rule_.state(archive, k_);
    if (m_ > 0) lazy_.state(archive, slots);
  }

 protected:
  static constexpr bool kFloat = std::is_same_v<T, float>;
  // Magnification of rounding errors in V by one row after which V is to be made orthonormal soon.
  static constexpr double kStrained = kFloat ? 30 : 1e3;
  // Features that are kept in double, see lazy.hpp.
  static constexpr size_t kExact = 256;

  [[gnu::cold]] explicit Basis(const SketchConfig& config)
      : K_(config.weights),
        m_(Rule::capacity(config.size)),
        first_(config.intercept ? 1 : 0),
        rule_(config, m_),
        lazy_(K_, m_, m_ > 0 ? kExact : 0),
        F_(m_, m_),
        beta_(K_, m_),
        intercept_(K_ + m_),
        room_(lazy_) {}

  // w̄ ← w̄ + Vᵀβ, β ← 0.
  void fold() {
    Matrix b(K_, m_);
    for (size_t e = 0; e < K_; ++e)
      for (size_t i = 0; i < k_; ++i)
        for (size_t j = 0; j < k_; ++j) b(e, j) += beta_(e, i) * F_(i, j);
    if (!lazy_.can_fold(b)) {
      renew();
      return;
    }
    for (size_t e = 0; e < K_; ++e) intercept_[e] += dot(b[e], &intercept_[K_], k_);
    lazy_.fold(b, k_);
    std::fill(beta_.values().begin(), beta_.values().end(), 0.0);
    ++upkeep_.folds;
  }

  // Applies to the features of the row, which are up to date, what the others catch up with later.
  void map_row(const Row<T>& row, const Matrix& map, const Vector& of_x) {
    const size_t n = row.size - first_, used = K_ + m_;
    mapped_.resize(std::max(mapped_.size(), n * used));
    for (size_t i = 0; i < n; ++i) {
      const T* block = row.blocks[first_ + i];
      const double* now = lazy_.read(row.slots[first_ + i], block, room_);
      apply(map, of_x, row.x[first_ + i], now, &mapped_[i * used]);
    }
    for (size_t j = 0; j < n * used; ++j)
      if (!std::isfinite(static_cast<T>(mapped_[j])))
        throw Diverged("a step is too large for the number type");
    for (size_t i = 0; i < n; ++i) {
      std::copy_n(&mapped_[i * used], used, row.blocks[first_ + i]);
      if (double* numbers = lazy_.exact(row.slots[first_ + i]))
        std::copy_n(&mapped_[i * used], used, numbers);
    }
    if (first_) {
      const Vector before = intercept_;
      apply(map, of_x, row.x[0], before.data(), intercept_.data());
    }
  }

  void apply(const Matrix& map, const Vector& of_x, double x, const double* from,
             double* to) const {
    for (size_t i = 0; i < K_ + m_; ++i) {
      to[i] = i < K_ ? from[i] : 0.0;
      if (i < map.rows()) to[i] += dot(map[i], from + K_, k_) + of_x[i] * x;
    }
  }

  // The blocks now hold the basis itself, of `rank` directions: F = I.
  void next_generation(const Matrix& map, size_t rank) {
    lazy_.next_generation(map, k_);
    k_ = rank;
    F_ = Matrix(m_, m_);
    for (size_t i = 0; i < k_; ++i) F_(i, i) = 1;
    rule_.rebased(F_, k_);
    std::fill(beta_.values().begin(), beta_.values().end(), 0.0);
    ++upkeep_.generations;
  }

  bool sweep_is_paid(size_t slots, size_t bytes_of_block, bool at_generation) const {
    return upkeep_.paid(slots, at_generation, kStrained) ||
           lazy_.bytes() > slots * bytes_of_block || lazy_.full();
  }

  // Begins a generation with the same V and the same weights: F = I, β = 0.
  void renew() {
    Matrix map(K_ + k_, std::max<size_t>(k_, 1));
    for (size_t i = 0; i < k_; ++i)
      for (size_t j = 0; j < k_; ++j) {
        map(K_ + i, j) = F_(i, j);
        for (size_t e = 0; e < K_; ++e) map(e, j) += beta_(e, i) * F_(i, j);
      }
    const Vector before = intercept_, nothing(K_ + k_, 0.0);
    apply(map, nothing, 0.0, before.data(), intercept_.data());
    next_generation(map, k_);
  }

  // Brings all features up to date and makes V orthonormal.
  void sweep(const BlockStore<T>& blocks, size_t slots) {
    renew();
    --upkeep_.generations;
    GramSum sum(k_);
    sum.add(&intercept_[K_]);
    upkeep_.work = 0;
    const auto after_intercept = [](size_t i) { return static_cast<Slot>(kInterceptSlot + 1 + i); };
    if (!lazy_.catch_up(blocks, slots - 1, after_intercept, room_)) return;
    for (Slot slot = kInterceptSlot + 1; slot < slots; ++slot)
      if (const double* numbers = lazy_.exact(slot))
        sum.add(numbers + K_);
      else
        sum.add(blocks.at(slot) + K_);
    Matrix gram = sum.total(m_);
    for (size_t lost; (lost = dependent_row(gram, k_)) < k_;) forget(blocks, slots, lost, gram);
    F_ = invert_lower(gram, k_);
    rule_.rebased(gram, k_);
    lazy_.forget();
    upkeep_.swept();
  }

  // Removes a direction that was only rounding from V.
  void forget(const BlockStore<T>& blocks, size_t slots, size_t lost, Matrix& gram) {
    const auto remove = [&](auto* z) {
      std::copy(z + lost + 1, z + k_, z + lost);
      z[k_ - 1] = 0;
    };
    remove(&intercept_[K_]);
    for (Slot slot = kInterceptSlot + 1; slot < slots; ++slot) {
      remove(blocks.at(slot) + K_);
      if (double* numbers = lazy_.exact(slot)) remove(numbers + K_);
    }
    remove_row_and_column(gram, k_, lost);
    rule_.forget(lost);
    --k_;
  }

  size_t K_, m_;  // K weight vectors
  size_t first_;  // of the non-zeros that are no intercept

  // What the sketch knows, beside the blocks.
  Rule rule_;
  LazyColumns<T> lazy_;
  size_t k_ = 0;
  Matrix F_, beta_;
  Vector intercept_;  // w̄ and z of the intercept
  Upkeep upkeep_;

  typename LazyColumns<T>::Room room_;
  Vector mapped_;
};

}  // namespace sonline
