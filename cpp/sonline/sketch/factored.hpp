// The sketch in factored form: V = F Z with Z in the blocks of the features (sparsely updatable)
// and F small, and the weights as w = w̄ + Vᵀβ. This is the paper's sparse implementation
// (Algorithms 4 and 5) with two changes: β holds the coordinates on V itself instead of b on Z (b =
// Fᵀβ), which makes every step on it diagonal or O(m), and F and Z are rebased when they must be
// (below).
//
// A Rule (oja.hpp, spectral.hpp) says how the sketch takes in ĝ = c x. It works on small matrices
// only and describes the new basis twice:
//   sparse:  Z' = Z + δ ĝᵀ (or one more row ĝ),  F' — costs O(m) a non-zero;
//   dense:   V' = R [V; q̂],  q̂ the unit residual of ĝ — costs O(m²) a feature seen, always stable.
// The sparse way loses digits when F becomes ill-conditioned (the rows of Z turn to one direction)
// and when w̄ and Vᵀβ cancel. Both are watched; before digits are lost the step is done the dense
// way, in double, which also makes V orthonormal again and leaves F = I, β = 0 behind: a rebase.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "sonline/archive.hpp"
#include "sonline/blocks.hpp"
#include "sonline/columns.hpp"
#include "sonline/errors.hpp"
#include "sonline/matrix.hpp"
#include "sonline/row.hpp"
#include "sonline/sketch/contract.hpp"
#include "sonline/sketch/sweep.hpp"

namespace sonline {

// What a Rule sees of the row and the basis, all in double.
struct Absorption {
  double c;             // ĝ = c x
  double energy;        // |x|²
  double t;             // this round, counted from 1
  double stands_for;    // times that what is discarded counts, more than once if c leaves some out
  double features;      // features seen, the intercept included
  size_t k;             // rank of V
  const double* p;      // V x
  const double* p_hat;  // V ĝ
  const double* Zx;
  double rho2;  // |ĝ|² - |V ĝ|², the energy of the residual; 0 if it is rounding only
  const Matrix* F;
};

// What a Rule answers.
struct Transition {
  size_t rank = 0;       // of the new V
  bool sparse = true;    // whether the sparse description below is there
  bool append = false;   // Z gets the row ĝ/|ĝ|; otherwise Z' = Z + δ ĝᵀ
  double condition = 1;  // how much rounding errors in Z are amplified in V' = F' Z'
  Matrix F;              // F', rank x rank
  Vector delta;          // δ, on the rows of Z
  Vector mu;             // δ on the rows of V: F δ
  Vector p;              // V' x
};

template <class T, class Rule>
class Factored {
 public:
  static constexpr bool kTwoScales = true;

  explicit Factored(const SketchConfig& config)
      : K_(config.experts),
        m_(Rule::capacity(config.size)),
        width_(padded_width(K_ + m_)),
        columns_(Columns<T>::of_width(width_)),
        weight_columns_(Columns<T>::of_width(K_)),
        rule_(config, m_),
        F_(m_, m_),
        R_(m_, m_ + 1),
        beta_(K_, m_),
        beta_after_(K_, m_),
        beta_next_(K_, m_),
        kappa_(K_),
        kappa_after_(K_),
        kappa_next_(K_),
        sums_(width_),
        known_sums_(width_),
        update_(width_),
        margins_(K_),
        p_(m_),
        p_hat_(m_),
        Zx_(m_) {
    next_.F = Matrix(m_, m_);
    next_.delta.resize(m_);
    next_.mu.resize(m_);
    next_.p.resize(m_);
  }

  // Numbers a block holds for the sketch and the weights.
  size_t width() const { return width_; }
  size_t used() const { return K_ + m_; }
  double tail() const { return rule_.tail(); }
  int64_t rebases() const { return rebases_; }
  size_t rank() const { return k_; }
  Vector eigenvalues() const {
    return Vector(rule_.ev().begin(), rule_.ev().begin() + static_cast<std::ptrdiff_t>(k_));
  }

  // Sx, and w·x with the scales known before; starts a step.
  void project(const Row<T>& row) {
    if (row.x == row.known || k_ == 0) {
      columns_.gather(row.blocks.data(), row.known, row.size, width_, sums_.data());
      read_directions(sums_);
      read_margins(sums_);
    } else {
      columns_.gather_two(row.blocks.data(), row.known, row.x, row.size, width_, known_sums_.data(),
                          sums_.data());
      read_directions(known_sums_);
      read_margins(known_sums_);
      read_directions(sums_);
    }
    energy_ = row.energy;
    std::fill(kappa_.begin(), kappa_.end(), 0.0);
    absorbed_ = false;
  }

  double margin(size_t expert) const { return margins_[expert]; }

  // α xᵀA⁻¹x, as a sum of non-negative terms: the paper's difference cancels when x is in the span.
  // Not less than its rounding error, or a projection onto the bound would magnify that of w·x.
  double energy(double alpha) const {
    double along = 0, shrunk = 0;
    for (size_t i = 0; i < k_; ++i) {
      const double square = p_[i] * p_[i];
      along += square;
      shrunk += alpha / (alpha + rule_.ev()[i]) * square;
    }
    return std::max(std::max(energy_ - along, 0.0) + shrunk, kSpan * energy_);
  }

  // w_expert ← w_expert − step · αA⁻¹x.
  void descend(size_t expert, double step, double alpha) {
    if (absorbed_) {
      kappa_after_[expert] -= step;
      for (size_t i = 0; i < next_.rank; ++i)
        beta_after_(expert, i) += step * (rule_.ev()[i] / (alpha + rule_.ev()[i])) * next_.p[i];
    } else {
      kappa_[expert] -= step;
      for (size_t i = 0; i < k_; ++i)
        beta_(expert, i) += step * (rule_.ev()[i] / (alpha + rule_.ev()[i])) * p_[i];
    }
  }

  // SketchUpdate(c x), `times` times; the weights keep their value.
  void absorb(double c, double, double t, size_t features, double times) {
    if (c == 0 || energy_ == 0) return;
    const double counted = rule_.times_counted(c * c * energy_, k_, times);
    c *= std::sqrt(counted);
    double along = 0;
    for (size_t i = 0; i < k_; ++i) {
      p_hat_[i] = c * p_[i];
      along += p_hat_[i] * p_hat_[i];
    }
    const double total = c * c * energy_;
    double rho2 = std::max(total - along, 0.0);
    if (rho2 <= kSpan * total || static_cast<double>(features) <= static_cast<double>(k_)) rho2 = 0;
    c_ = c;
    rho_ = std::sqrt(rho2);
    rule_.absorb({c, energy_, t, times / counted, static_cast<double>(features), k_, p_.data(),
                  p_hat_.data(), Zx_.data(), rho2, &F_},
                 next_);
    absorbed_ = true;
    std::fill(kappa_after_.begin(), kappa_after_.end(), 0.0);
    std::fill(beta_after_.values().begin(), beta_after_.values().end(), 0.0);
  }

  // Writes the step to the blocks. `scale` is the size of a typical label: errors are judged by it.
  void commit(const Row<T>& row, const BlockStore<T>& blocks, size_t features, double scale) {
    work_ += row.size;
    if (absorbed_ && next_.sparse) {
      // The part of w on V moves to V'; what V' has too much along x goes to w̄.
      for (size_t e = 0; e < K_; ++e) {
        rule_.carry(next_, k_, beta_[e], beta_next_[e]);
        for (size_t i = 0; i < next_.rank; ++i) beta_next_(e, i) += beta_after_(e, i);
        kappa_next_[e] = kappa_[e] + kappa_after_[e];
        if (!next_.append) kappa_next_[e] -= c_ * dot(next_.mu.data(), beta_[e], k_);
      }
    } else {
      kappa_next_ = kappa_;
    }
    if (m_ > 0 && needs_rebase(features, scale)) {
      rebase(row, blocks, features);
      return;
    }
    bool any = absorbed_;
    for (size_t e = 0; e < K_; ++e) {
      update_[e] = static_cast<T>(kappa_next_[e]);
      any = any || kappa_next_[e] != 0;
    }
    if (!any) return;
    for (size_t j = K_; j < width_; ++j) update_[j] = 0;
    if (absorbed_) {
      if (next_.append) {
        update_[K_ + k_] = static_cast<T>(1 / std::sqrt(energy_));
      } else {
        for (size_t j = 0; j < k_; ++j) update_[K_ + j] = static_cast<T>(c_ * next_.delta[j]);
      }
    }
    for (const T value : update_)
      if (!std::isfinite(value)) throw Diverged("a step is too large for the number type");
    if (absorbed_) {
      std::swap(F_, next_.F);
      std::swap(beta_, beta_next_);
      k_ = next_.rank;
      rule_.accept(next_);
    }
    if (absorbed_)
      columns_.scatter(row.blocks.data(), row.x, row.size, width_, update_.data());
    else
      weight_columns_.scatter(row.blocks.data(), row.x, row.size, K_, update_.data());
  }

  // w of one expert in a block, and the block's column of V.
  double weight(Slot, const T* block, size_t expert) const {
    double w = block[expert];
    for (size_t i = 0; i < k_; ++i) {
      double v = 0;
      for (size_t j = 0; j < k_; ++j) v += F_(i, j) * block[K_ + j];
      w += v * beta_(expert, i);
    }
    return w;
  }

  void direction(Slot, const T* block, double* v) const {
    for (size_t i = 0; i < k_; ++i) {
      v[i] = 0;
      for (size_t j = 0; j < k_; ++j) v[i] += F_(i, j) * block[K_ + j];
    }
  }

  template <class Archive>
  void state(Archive& archive, size_t) {
    archive.scalar("sketch.rank", k_);
    archive.scalar("sketch.rebases", rebases_);
    archive.scalar("sketch.work", work_);
    archive.matrix("sketch.F", F_);
    archive.matrix("sketch.beta", beta_);
    rule_.state(archive);
    if constexpr (Archive::reading)
      if (k_ > m_) archive.fail("sketch.rank", "exceeds the sketch size");
  }

 private:
  static constexpr bool kSingle = std::is_same_v<T, float>;
  static constexpr double kSpan = kSingle ? 1e-5 : 1e-12;
  // Amplification of rounding errors in Z that is tolerated: 6e-8 · 30 and 1e-16 · 1e3.
  static constexpr double kCondition = kSingle ? 30 : 1e3;
  // How much larger than a label the cancelling parts of w·x may be: leaves about four digits of
  // float and nine of double.
  static constexpr double kCancellation = kSingle ? 2048 : 1 << 23;
  // Rounding drifts slowly even when nothing is strained: rebase once the non-zeros read since the
  // last time are so many that the rebase costs a few per cent of what they did.
  static constexpr double kMaintenance = 512;

  void read_directions(const std::vector<T>& sums) {
    for (size_t j = 0; j < k_; ++j) Zx_[j] = sums[K_ + j];
    for (size_t i = 0; i < k_; ++i) p_[i] = dot(F_[i], Zx_.data(), k_);
  }

  void read_margins(const std::vector<T>& sums) {
    for (size_t e = 0; e < K_; ++e)
      margins_[e] = static_cast<double>(sums[e]) + dot(beta_[e], p_.data(), k_);
  }

  bool needs_rebase(size_t features, double scale) const {
    if (absorbed_ && (!next_.sparse || !(next_.condition <= kCondition))) return true;
    if (k_ > 0 && static_cast<double>(work_) > kMaintenance * static_cast<double>(features))
      return true;
    const Matrix& beta = absorbed_ ? beta_next_ : beta_;
    const size_t k = absorbed_ ? next_.rank : k_;
    if (k == 0) return false;
    const double limit = kCancellation * scale;
    for (size_t e = 0; e < K_; ++e) {
      const double along = std::sqrt(dot(beta[e], beta[e], k) * energy_);
      if (!(along <= limit) || !(std::fabs(kappa_next_[e]) * energy_ <= limit)) return true;
    }
    return false;
  }

  // The dense way. With V' = R (V; q̂) and q̂ = (ĝ − Vᵀp̂)/ρ, a feature's new column of V' and its new
  // weights are linear in its column of Z and its x: v' = G z + r₂(c/ρ) x, G = (R₁ − r₂p̂ᵀ/ρ) F, and
  // w' = w̄ + (βᵀF + β'ᵀG) z + (κ + κ' + β'ᵀr₂ c/ρ) x, with β', κ' what came after the absorption.
  void rebase(const Row<T>& row, const BlockStore<T>& blocks, size_t slots) {
    const size_t rank = absorbed_ ? next_.rank : k_, rows = K_ + rank;
    Matrix B(rows, std::max<size_t>(k_, 1));
    Vector of_x(rows, 0.0);
    if (absorbed_) {
      rule_.dense(next_, k_, rho_, p_hat_.data(), R_);
      for (size_t i = 0; i < rank; ++i) {
        const double r2 = rho_ > 0 ? R_(i, k_) / rho_ : 0.0;
        for (size_t l = 0; l < k_; ++l) {
          const double factor = R_(i, l) - r2 * p_hat_[l];
          for (size_t j = 0; j < k_; ++j) B(K_ + i, j) += factor * F_(l, j);
        }
        of_x[K_ + i] = r2 * c_;
      }
    } else {
      for (size_t i = 0; i < rank; ++i)
        for (size_t j = 0; j < k_; ++j) B(K_ + i, j) = F_(i, j);
    }
    for (size_t e = 0; e < K_; ++e) {
      of_x[e] = kappa_[e];
      for (size_t i = 0; i < k_; ++i)
        for (size_t j = 0; j < k_; ++j) B(e, j) += beta_(e, i) * F_(i, j);
      if (!absorbed_) continue;
      of_x[e] += kappa_after_[e];
      for (size_t i = 0; i < rank; ++i) {
        of_x[e] += beta_after_(e, i) * of_x[K_ + i];
        for (size_t j = 0; j < k_; ++j) B(e, j) += beta_after_(e, i) * B(K_ + i, j);
      }
    }
    x_of_slot_.assign(slots, 0.0);
    for (size_t i = 0; i < row.size; ++i) x_of_slot_[row.slots[i]] = row.x[i];
    Matrix gram = sweep(blocks, slots, K_, m_, B, rows, k_, [&](Slot slot, double* out) {
      const double x = x_of_slot_[slot];
      if (x != 0)
        for (size_t i = 0; i < rows; ++i) out[i] += of_x[i] * x;
    });
    if (absorbed_) rule_.accept(next_);
    // V as stored is orthonormal up to rounding; F = L⁻¹ with Gram = L Lᵀ takes the rest away.
    k_ = orthonormalise(blocks, slots, K_, m_, rank, gram, [&](size_t i) { rule_.forget(i); });
    F_ = invert_lower(gram, k_);
    std::fill(beta_.values().begin(), beta_.values().end(), 0.0);
    rule_.rebased(gram, k_);
    absorbed_ = false;
    work_ = 0;
    ++rebases_;
  }

  size_t K_, m_, width_;
  Columns<T> columns_, weight_columns_;
  Rule rule_;
  Matrix F_, R_;
  // The step so far: along x (kappa) and on V (beta), and what came after the absorption, on V'.
  Matrix beta_, beta_after_, beta_next_;
  Vector kappa_, kappa_after_, kappa_next_;
  std::vector<T> sums_, known_sums_, update_;
  Vector margins_, p_, p_hat_, Zx_;
  Vector x_of_slot_;
  Transition next_;
  double energy_ = 0, c_ = 0, rho_ = 0;
  size_t k_ = 0;
  uint64_t work_ = 0;
  int64_t rebases_ = 0;
  bool absorbed_ = false;
};

}  // namespace sonline
