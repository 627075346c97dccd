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
// The intercept is in every row, so that its numbers would be rounded in every round, and its parts
// of w̄ and Vᵀβ drift fastest; what it has gathered since the last rebase is kept in double (rest_).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

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
  double tolerated = 0;  // condition beyond which the step is done the dense way
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

// What independent rounding errors of size 1 in the rows of Z = F⁻¹V, each relative to the row,
// become in the worst row of V = F Z, squared. Needs the squared norms of the rows of Z.
inline double squared_amplification(const Matrix& F, const Vector& squares_of_Z, size_t k) {
  double worst = 0;
  for (size_t i = 0; i < k; ++i) {
    double sum = 0;
    for (size_t j = 0; j < k; ++j) sum += F(i, j) * F(i, j) * squares_of_Z[j];
    worst = std::max(worst, sum);
  }
  return worst;
}

template <class T, class Rule>
class Factored {
 public:
  static constexpr bool kAbsorbFirst = false;

  explicit Factored(const SketchConfig& config)
      : K_(config.experts),
        m_(Rule::capacity(config.size)),
        width_(padded_width(K_ + m_)),
        columns_(Columns<T>::of_width(width_)),
        weight_columns_(Columns<T>::of_width(weights_width())),
        first_(config.intercept ? 1 : 0),
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
        totals_(K_ + m_),
        update_(width_),
        exact_update_(K_ + m_),
        rest_(K_ + m_),
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

  // Sx and w·x; starts a step.
  void project(const Row<T>& row) {
    columns_.gather(row.blocks.data(), row.x, row.size, width_, sums_.data());
    take_totals(row.x, sums_);
    read_directions();
    read_margins();
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
                  p_hat_.data(), Zx_.data(), rho2, &F_, kCondition},
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
    if (m_ > 0 && needs_rebase(row, features, scale)) {
      rebase(row, blocks, features);
      return;
    }
    bool any = absorbed_;
    for (size_t e = 0; e < K_; ++e) {
      exact_update_[e] = kappa_next_[e];
      any = any || kappa_next_[e] != 0;
    }
    if (!any) return;
    if (absorbed_) {
      std::fill(exact_update_.begin() + static_cast<std::ptrdiff_t>(K_), exact_update_.end(), 0.0);
      if (next_.append) {
        exact_update_[K_ + k_] = 1 / std::sqrt(energy_);
      } else {
        for (size_t j = 0; j < k_; ++j) exact_update_[K_ + j] = c_ * next_.delta[j];
      }
    }
    const size_t written = absorbed_ ? K_ + m_ : K_;
    std::fill(update_.begin() + static_cast<std::ptrdiff_t>(written), update_.end(), T{0});
    for (size_t j = 0; j < written; ++j) {
      update_[j] = static_cast<T>(exact_update_[j]);
      if (!std::isfinite(update_[j])) throw Diverged("a step is too large for the number type");
    }
    if (absorbed_) {
      std::swap(F_, next_.F);
      std::swap(beta_, beta_next_);
      k_ = next_.rank;
      rule_.accept(next_);
    }
    T* const* changed = row.blocks.data() + first_;
    const T* x = row.x + first_;
    const size_t n = row.size - first_;
    if (absorbed_)
      columns_.scatter(changed, x, n, width_, update_.data());
    else
      weight_columns_.scatter(changed, x, n, weights_width(), update_.data());
    if (first_)
      for (size_t j = 0; j < written; ++j) rest_[j] += exact_update_[j] * row.x[0];
  }

  // w of one expert in a block, and the block's column of V.
  double weight(Slot slot, const T* block, size_t expert) const {
    Vector v(k_);
    direction(slot, block, v.data());
    return block[expert] + rest(slot, expert) + dot(beta_[expert], v.data(), k_);
  }

  void direction(Slot slot, const T* block, double* v) const {
    for (size_t i = 0; i < k_; ++i) {
      v[i] = 0;
      for (size_t j = 0; j < k_; ++j) v[i] += F_(i, j) * (block[K_ + j] + rest(slot, K_ + j));
    }
  }

  template <class Archive>
  void state(Archive& archive, size_t) {
    archive.scalar("sketch.rank", k_);
    archive.scalar("sketch.rebases", rebases_);
    archive.scalar("sketch.work", work_);
    archive.matrix("sketch.F", F_);
    archive.matrix("sketch.beta", beta_);
    archive.array("sketch.rest", rest_);
    rule_.state(archive);
    if constexpr (Archive::reading)
      if (k_ > m_) archive.fail("sketch.rank", "exceeds the sketch size");
  }

 private:
  static constexpr bool kSingle = std::is_same_v<T, float>;
  static constexpr double kSpan = kSingle ? 1e-5 : 1e-12;
  // Amplification of rounding errors in Z that is tolerated: 6e-8 · 30 and 1e-16 · 1e2. What
  // is left of a row outside of the span, a difference, loses as many digits again.
  static constexpr double kCondition = kSingle ? 30 : 1e2;
  // How much larger than a label the cancelling parts of w·x may be: leaves about five digits of
  // float and ten of double.
  static constexpr double kCancellation = kSingle ? 256 : 1 << 20;
  // Rounding drifts slowly even when nothing is strained: rebase once the non-zeros read since the
  // last time are so many that the rebase costs a few per cent of what they did.
  static constexpr double kMaintenance = 512;

  // Columns that are written if the sketch does not change: whole vectors are faster, and adding 0
  // to some directions changes nothing.
  size_t weights_width() const { return std::min(padded_width(K_), width_); }

  double rest(Slot slot, size_t j) const { return slot == kInterceptSlot ? rest_[j] : 0.0; }

  void take_totals(const T* x, const std::vector<T>& sums) {
    const double intercept = first_ ? x[0] : 0.0;
    for (size_t j = 0; j < K_ + k_; ++j) totals_[j] = sums[j] + rest_[j] * intercept;
  }

  void read_directions() {
    std::copy(totals_.begin() + static_cast<std::ptrdiff_t>(K_),
              totals_.begin() + static_cast<std::ptrdiff_t>(K_ + k_), Zx_.begin());
    for (size_t i = 0; i < k_; ++i) p_[i] = dot(F_[i], Zx_.data(), Rule::kLower ? i + 1 : k_);
  }

  void read_margins() {
    for (size_t e = 0; e < K_; ++e) margins_[e] = totals_[e] + dot(beta_[e], p_.data(), k_);
  }

  bool needs_rebase(const Row<T>& row, size_t features, double scale) const {
    if (absorbed_ && (!next_.sparse || !(next_.condition <= kCondition))) return true;
    if (k_ > 0 && static_cast<double>(work_) > kMaintenance * static_cast<double>(features))
      return true;
    return cancels(row, scale);
  }

  // Whether the sum w·x = w̄·x + βᵀVx has lost too many digits. Blocks round only when they are
  // written, so what matters is the size of the parts of w̄·x in the rows that come. It is at most
  // |β||x|, which costs nothing to check; in wide data it is far less.
  bool cancels(const Row<T>& row, double scale) const {
    const Matrix& beta = absorbed_ ? beta_next_ : beta_;
    const size_t k = absorbed_ ? next_.rank : k_;
    if (k == 0) return false;
    const double limit = kCancellation * scale;
    for (size_t e = 0; e < K_; ++e) {
      const double kappa = kappa_next_[e];
      const double along = std::sqrt(dot(beta[e], beta[e], k) * energy_);
      if (along <= limit && std::fabs(kappa) * energy_ <= limit) continue;
      double squares = 0;
      for (size_t i = first_; i < row.size; ++i) {
        const double x = row.x[i], part = (row.blocks[i][e] + kappa * x) * x;
        squares += part * part;
      }
      if (!(squares <= limit * limit)) return true;
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
    // The sweep goes through the slots in order, so the row must be in order, too.
    std::vector<size_t> order(row.size);
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return row.slots[a] < row.slots[b]; });
    auto next = order.begin();
    Matrix gram = sweep(blocks, slots, K_, m_, B, rows, k_, [&](Slot slot, double* out) {
      if (next != order.end() && row.slots[*next] == slot) {
        const double x = row.x[*next++];
        for (size_t i = 0; i < rows; ++i) out[i] += of_x[i] * x;
      }
      if (slot != kInterceptSlot) return;
      for (size_t i = 0; i < rows; ++i) out[i] += dot(B[i], &rest_[K_], k_);
      for (size_t e = 0; e < K_; ++e) out[e] += rest_[e];
    });
    std::fill(rest_.begin(), rest_.end(), 0.0);
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
  size_t first_;  // of the non-zeros that are no intercept
  Rule rule_;
  Matrix F_, R_;
  // The step so far: along x (kappa) and on V (beta), and what came after the absorption, on V'.
  Matrix beta_, beta_after_, beta_next_;
  Vector kappa_, kappa_after_, kappa_next_;
  std::vector<T> sums_;
  Vector totals_;
  std::vector<T> update_;
  Vector exact_update_, rest_;
  Vector margins_, p_, p_hat_, Zx_;
  Transition next_;
  double energy_ = 0, c_ = 0, rho_ = 0;
  size_t k_ = 0;
  uint64_t work_ = 0;
  int64_t rebases_ = 0;
  bool absorbed_ = false;
};

}  // namespace sonline
