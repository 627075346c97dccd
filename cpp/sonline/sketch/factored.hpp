// The sketch in factored form: V = F Z with Z in the blocks of the features (sparsely updatable)
// and F small, and the weights as w = w̄ + Vᵀβ. This is the paper's sparse implementation
// (Algorithms 4 and 5) with two changes: β holds the coordinates on V itself instead of b on Z (b =
// Fᵀβ), which makes every step on it diagonal or O(m), and what would lose digits is done another
// way (below).
//
// A Rule (oja.hpp, spectral.hpp) says how the sketch takes in ĝ = c x. It works on small matrices
// only and describes the new basis twice:
//   sparse:  Z' = Z + δ ĝᵀ (or one more row ĝ),  F' — costs O(m) a non-zero;
//   dense:   V' = R [V; q̂],  q̂ the unit residual of ĝ — a linear map of every feature, always
//   stable.
// The sparse way loses digits when F becomes ill-conditioned (the rows of Z turn to one direction);
// then the step is done the dense way, which leaves F = I and β = 0. It also loses digits when w̄
// and Vᵀβ cancel; then Vᵀβ is folded into w̄. Both change all features, and both are lazy
// (basis.hpp): a feature catches up when a row has it next.
//
// The intercept and the most frequent features are written in most rounds. In float32 their small
// late changes would be lost by rounding, always in the same direction: the directions would become
// shorter, and steps would leak through them. So these features are kept in double, apart from
// their blocks (docs/decisions/frequent-features-in-double.md). A table of so few features is
// computed in double throughout.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/blocks.hpp"
#include "sonline/columns.hpp"
#include "sonline/errors.hpp"
#include "sonline/exponential.hpp"
#include "sonline/forgetting.hpp"
#include "sonline/knowledge.hpp"
#include "sonline/matrix.hpp"
#include "sonline/row.hpp"
#include "sonline/sketch/basis.hpp"
#include "sonline/sketch/contract.hpp"
#include "sonline/sketch/frequent.hpp"
#include "sonline/sketch/lazy.hpp"
#include "sonline/sketch/rule.hpp"
#include "sonline/sketch/shrinkage.hpp"

namespace sonline {

template <class T, class Rule>
class Factored : public Basis<T, Rule> {
  using Base = Basis<T, Rule>;
  using Base::K_, Base::m_, Base::k_, Base::first_, Base::F_, Base::beta_, Base::intercept_;
  using Base::rule_, Base::lazy_, Base::upkeep_, Base::room_, Base::kFloat;

 public:
  static constexpr bool kAbsorbFirst = false;
  static constexpr bool kTakesCurvature = Rule::kTakesCurvature;

  [[gnu::cold]] explicit Factored(const SketchConfig& config)
      : Base(config),
        width_(padded_width(K_ + m_)),
        columns_(Columns<T>::of_width(width_)),
        weight_columns_(Columns<T>::of_width(weights_width())),
        condition_(config.condition > 0 ? config.condition : kCondition),
        cancellation_(config.cancellation > 0 ? config.cancellation : kCancellation),
        beta_before_(K_, m_),
        beta_after_(K_, m_),
        beta_next_(K_, m_),
        shrinkage_(K_, m_),
        kappa_(K_),
        kappa_after_(K_),
        kappa_next_(K_),
        sums_(width_),
        update_(width_),
        frequent_(K_ + m_, width_),
        margins_(K_),
        p_(m_),
        p_hat_(m_),
        Zx_(m_),
        on_V_(K_) {
    next_.F = Matrix(m_, m_);
    next_.delta.resize(m_);
    next_.mu.resize(m_);
    next_.p.resize(m_);
  }

  // Numbers a block holds for the sketch and the weights.
  size_t width() const { return width_; }
  size_t used() const { return K_ + m_; }
  // Brings the features of a row that is to be learned up to date.
  void refresh(const Row<T>& row) {
    if (m_ == 0) return;
    upkeep_.caught_up += lazy_.catch_up(row, first_, room_);
    current_ = true;
  }

  // The same for a row that is only predicted: its blocks become copies.
  void view(Row<T>& row) {
    // Numbers in double are read where they are, see frequent.hpp.
    if (m_ > 0 && !lazy_.all_exact()) lazy_.view(row, first_, width_, copies_, room_);
    current_ = false;
  }

  // Sx and w·x; starts a step.
  void project(const Row<T>& row) {
    exact_ = !kFloat || lazy_.all_exact();
    if (kFloat && exact_)
      take_sums(row, frequent_.sum(row, first_, lazy_, current_, room_));
    else
      take_sums(row, sum_blocks(row));
    if constexpr (Rule::kLower)
      for (size_t i = 0; i < k_; ++i) p_[i] = dot(F_[i], Zx_.data(), i + 1);
    else
      dots(F_, k_, Zx_.data(), k_, p_.data());
    dots(beta_, K_, p_.data(), k_, on_V_.data());
    for (size_t e = 0; e < K_; ++e) margins_[e] += on_V_[e];
    energy_ = row.energy;
    rest_ = outside(p_.data(), k_);
    std::fill(kappa_.begin(), kappa_.end(), 0.0);
    shrinkage_.forget();
    beta_before_ = beta_;
    absorbed_ = false;
  }

  // Takes back what was done since project(), if it was not committed.
  void undo() {
    beta_ = beta_before_;
    if (std::exchange(absorbed_, false)) rule_.undo();
  }

  void pass(int64_t epochs) {
    rule_.pass(Clock::carried(epochs));
    shrinkage_.forget();
  }

  double margin(size_t expert) const { return margins_[expert]; }
  // The part of |x|² that is not along the directions.
  double outside() const { return rest_; }

  // α xᵀA⁻¹x, as a sum of non-negative terms: the paper's difference cancels when x is in the span.
  // Not less than its rounding error, or a projection onto the bound would magnify that of w·x.
  [[gnu::noinline]] double energy(size_t expert, double alpha) {
    if (k_ == 0) return rest_;
    const double* factors = shrink(expert, alpha);
    double shrunk = 0;
    for (size_t i = 0; i < k_; ++i) shrunk += factors[i] * p_[i] * p_[i];
    return rest_ + shrunk;
  }

  // The same for all weight vectors, each with its α.
  void energies(const double* alphas, double* out) {
    if (k_ == 0)
      std::fill_n(out, K_, rest_);
    else
      shrinkage_.energies(alphas, rule_.ev().data(), smallest_factor(), p_.data(), k_, rest_, out);
  }

  // w_expert ← w_expert − step · αA⁻¹x.
  void descend(size_t expert, double step, double alpha) {
    const double along_x = rest_ > 0 ? 1.0 : 0.0;
    (absorbed_ ? kappa_after_ : kappa_)[expert] -= step * along_x;
    const size_t k = absorbed_ ? next_.rank : k_;
    if (k == 0) return;
    const double* factors = shrink(expert, alpha);
    const double* p = (absorbed_ ? next_.p : p_).data();
    double* beta = (absorbed_ ? beta_after_ : beta_)[expert];
    move(step, along_x, factors, p, k, beta);
  }
  // The same for all weight vectors, with the alphas of energies(); 0 is no step.
  void descend(const double* steps) { has_avx2() ? descend_avx2(steps) : descend_any(steps); }

  // SketchUpdate(c x), `times` times; the weights keep their value.
  void absorb(double c, double, double t, size_t features, double times, double unit) {
    if (c * c * energy_ == 0) return;
    const double counted = rule_.times_counted(c * c * energy_, k_, times);
    c *= std::sqrt(counted);
    double along = 0;
    for (size_t i = 0; i < k_; ++i) {
      p_hat_[i] = c * p_[i];
      along += p_hat_[i] * p_hat_[i];
    }
    const double total = c * c * energy_;
    double rho2 = std::max(total - along, 0.0);
    if (rho2 <= span() * total || static_cast<double>(features) <= static_cast<double>(k_))
      rho2 = 0;
    c_ = c;
    rho_ = std::sqrt(rho2);
    rule_.absorb({c, energy_, t, unit, times / counted, static_cast<double>(features), k_,
                  p_.data(), p_hat_.data(), Zx_.data(), rho2, &F_, condition_},
                 next_);
    absorbed_ = true;
    rest_ = outside(next_.p.data(), next_.rank);
    shrinkage_.forget();
    std::fill(kappa_after_.begin(), kappa_after_.end(), 0.0);
    std::fill(beta_after_.values().begin(), beta_after_.values().end(), 0.0);
  }

  // Writes the step. `scale` is the size of a typical label: errors are judged by it.
  void commit(const Row<T>& row, const BlockStore<T>& blocks, size_t slots, double scale) {
    const bool sparse = !absorbed_ || keeps_digits(scale);
    if (sparse)
      write(row);
    else
      change_basis(row);
    upkeep_.work += row.size;
    if (k_ == 0) return;
    if (cancels(row, scale)) this->fold();
    if (this->sweep_is_paid(slots, blocks.stride() * sizeof(T), !sparse))
      this->sweep(blocks, slots);
  }

 private:
  // The part of a step on V.
  [[gnu::always_inline]] static inline void move(double step, double along_x,
                                                 const double* __restrict factors,
                                                 const double* __restrict p, size_t k,
                                                 double* __restrict beta) {
    size_t i = 0;
    for (; i + kQuad <= k; i += kQuad)
      store_quad(beta + i, load_quad(beta + i) +
                               step * (along_x - load_quad(factors + i)) * load_quad(p + i));
    for (; i < k; ++i) beta[i] += step * (along_x - factors[i]) * p[i];
  }
  // The steps of all weight vectors before the absorption, with the factors of energies().
  [[gnu::always_inline]] inline void descend_any(const double* steps) {
    const double along_x = rest_ > 0 ? 1.0 : 0.0;
    for (size_t e = 0; e < K_; ++e) {
      if (steps[e] == 0) continue;
      kappa_[e] -= steps[e] * along_x;
      if (k_ > 0) move(steps[e], along_x, shrinkage_.known(e), p_.data(), k_, beta_[e]);
    }
  }
  SONLINE_AVX2 void descend_avx2(const double* steps) { descend_any(steps); }

  // |x|² outside of a basis on which x has the coordinates p. As little as rounding may leave
  // counts as nothing: 1/α would magnify it. Such a step moves along the basis only.
  double outside(const double* p, size_t rank) const {
    const double rest = energy_ - dot(p, p, rank);
    return rest > inside() * energy_ ? rest : 0.0;
  }

  // The factors αA⁻¹ on the directions. If x has a part outside of the basis, they are at least the
  // rounding error of |x|² - |Vx|²: V is orthonormal up to rounding only, and could otherwise take
  // back more of a step than there is, which would lead away from the label.
  const double* shrink(size_t expert, double alpha) {
    return shrinkage_.factors(expert, alpha, rule_.ev().data(), smallest_factor());
  }
  double smallest_factor() const { return rest_ > 0 ? least() : 0.0; }

  // w̄·x and Zx of the blocks.
  const std::vector<T>& sum_blocks(const Row<T>& row) {
    columns_.gather(row.blocks.data(), row.x, row.size, width_, sums_.data());
    return sums_;
  }
  template <class U>
  void take_sums(const Row<T>& row, const std::vector<U>& sums) {
    const double x0 = first_ ? row.x[0] : 0.0;
    for (size_t j = 0; j < k_; ++j) Zx_[j] = sums[K_ + j] + intercept_[K_ + j] * x0;
    for (size_t e = 0; e < K_; ++e) margins_[e] = sums[e] + intercept_[e] * x0;
  }

  // How much of |x|² may be rounding: of x in the span of V; of a step along V.
  double span() const { return exact_ ? 1e-12 : 1e-5; }
  double inside() const { return exact_ ? 1e-12 : 2e-6; }
  double least() const { return exact_ ? 1e-12 : 1e-6; }
  // Amplification of rounding errors in Z that is tolerated.
  static constexpr double kCondition = kFloat ? 10 : 1e2;
  // Z grows where F shrinks: long before it leaves the range of its type, F becomes I again.
  static constexpr double kSmallest = 1e-6;
  // How much larger than a label the cancelling parts of w·x may be.
  static constexpr double kCancellation = kFloat ? 64 : 1 << 20;

  // Columns that are written if the sketch does not change: whole vectors are faster, and adding 0
  // to some directions changes nothing.
  size_t weights_width() const { return std::min(padded_width(K_), width_); }

  // Whether the sparse way of absorbing the row loses few digits: of Z, which F amplifies; of w̄,
  // which gets what V' has too much along x; and none by leaving the range of the type.
  bool keeps_digits(double scale) const {
    if (m_ == 0) return true;  // there is no basis, whatever a forged file says of its condition
    if (!next_.sparse || !(next_.condition <= condition_)) return false;
    if (next_.append || next_.rank == 0) return true;
    constexpr double kLargest = 16;  // beside what a fold would be for
    for (size_t e = 0; e < K_; ++e) {
      const double moved = c_ * dot(next_.mu.data(), beta_[e], k_) * energy_;
      if (!(std::fabs(moved) <= kLargest * cancellation_ * scale)) return false;
    }
    return std::fabs(next_.F(0, 0)) >= kSmallest || largest_entry(next_.F, next_.rank) >= kSmallest;
  }

  // The sparse way.
  void write(const Row<T>& row) {
    if (absorbed_) {
      // The part of w on V moves to V'; what V' has too much along x goes to w̄.
      if (!next_.append) dots(beta_, K_, next_.mu.data(), k_, on_V_.data());
      for (size_t e = 0; e < K_; ++e) {
        rule_.carry(next_, k_, beta_[e], beta_next_[e]);
        for (size_t i = 0; i < next_.rank; ++i) beta_next_(e, i) += beta_after_(e, i);
        kappa_next_[e] = kappa_[e] + kappa_after_[e];
        if (!next_.append) kappa_next_[e] -= c_ * on_V_[e];
      }
    } else {
      kappa_next_ = kappa_;
    }
    Vector& update = frequent_.update();
    bool any = absorbed_;
    for (size_t e = 0; e < K_; ++e) {
      update[e] = kappa_next_[e];
      any = any || kappa_next_[e] != 0;
    }
    if (!any) return;
    std::fill(update.begin() + static_cast<std::ptrdiff_t>(K_), update.end(), 0.0);
    if (absorbed_ && next_.append)
      update[K_ + k_] = 1 / std::sqrt(energy_);
    else if (absorbed_)
      for (size_t j = 0; j < k_; ++j) update[K_ + j] = c_ * next_.delta[j];
    const size_t written = absorbed_ ? K_ + m_ : K_;
    std::fill(update_.begin() + static_cast<std::ptrdiff_t>(written), update_.end(), T{0});
    for (size_t j = 0; j < written; ++j) update_[j] = static_cast<T>(update[j]);
    T* const* changed = row.blocks.data() + first_;
    const T* x = row.x + first_;
    const size_t n = row.size - first_;
    check_room(changed, x, n, energy_, update_.data(), written);
    if (absorbed_) {
      std::swap(F_, next_.F);
      std::swap(beta_, beta_next_);
      k_ = next_.rank;
      rule_.accept(next_);
    }
    if (!(kFloat && lazy_.all_exact()))  // otherwise all of them are written below
      (absorbed_ ? columns_ : weight_columns_)
          .scatter(changed, x, n, absorbed_ ? width_ : weights_width(), update_.data());
    if (first_)
      for (size_t j = 0; j < written; ++j) intercept_[j] += update[j] * row.x[0];
    if (kFloat && m_ > 0) frequent_.write(row, first_, lazy_, written);
  }

  // Whether the sum w·x = w̄·x + βᵀVx has lost too many digits. Blocks round only when they are
  // written, so what matters is the size of the parts of w̄·x in the rows that come. It is at most
  // |β||x|, which costs nothing to check; in wide data it is far less.
  bool cancels(const Row<T>& row, double scale) const {
    const double limit = cancellation_ * scale, *beta = beta_.values().data();
    // That of all weight vectors together is at least as large.
    if (dot(beta, beta, beta_.values().size()) * energy_ <= limit * limit) return false;
    for (size_t e = 0; e < K_; ++e) {
      if (dot(beta_[e], beta_[e], k_) * energy_ <= limit * limit) continue;
      double squares = 0;
      for (size_t i = first_; i < row.size; ++i) {
        const double part = static_cast<double>(row.blocks[i][e]) * row.x[i];
        squares += part * part;
      }
      if (!(squares <= limit * limit)) return true;
    }
    return false;
  }

  // The dense way. With V' = R (V; q̂) and q̂ = (ĝ − Vᵀp̂)/ρ, a feature's new column of V' and its new
  // weights are linear in its column of Z and its x: v' = G z + r₂(c/ρ) x, G = (R₁ − r₂p̂ᵀ/ρ) F, and
  // w' = w̄ + (βᵀF + β'ᵀG) z + (κ + κ' + β'ᵀr₂ c/ρ) x, with β', κ' the step after the absorption.
  void change_basis(const Row<T>& row) {
    const size_t rank = next_.rank;
    Matrix R(m_, m_ + 1), map(K_ + rank, std::max<size_t>(k_, 1));
    Vector of_x(K_ + rank, 0.0);
    rule_.dense(next_, k_, rho_, p_hat_.data(), R);
    for (size_t i = 0; i < rank; ++i) {
      const double r2 = rho_ > 0 ? R(i, k_) / rho_ : 0.0;
      for (size_t l = 0; l < k_; ++l) {
        const double factor = R(i, l) - r2 * p_hat_[l];
        for (size_t j = 0; j < k_; ++j) map(K_ + i, j) += factor * F_(l, j);
      }
      of_x[K_ + i] = r2 * c_;
    }
    for (size_t e = 0; e < K_; ++e) {
      of_x[e] = kappa_[e] + kappa_after_[e];
      for (size_t i = 0; i < k_; ++i)
        for (size_t j = 0; j < k_; ++j) map(e, j) += beta_(e, i) * F_(i, j);
      for (size_t i = 0; i < rank; ++i) {
        of_x[e] += beta_after_(e, i) * of_x[K_ + i];
        for (size_t j = 0; j < k_; ++j) map(e, j) += beta_after_(e, i) * map(K_ + i, j);
      }
    }
    this->map_row(row, map, of_x);
    // The rounding errors that it magnifies are smaller if all features are kept in double.
    const double rounding = kFloat && exact_ ? 1e-6 : 1.0;
    for (size_t i = 0; i < rank; ++i)
      upkeep_.strain =
          std::max(upkeep_.strain, rounding * std::fabs(of_x[K_ + i]) * std::sqrt(energy_));
    rule_.accept(next_);
    this->next_generation(map, rank);
    for (size_t i = first_; i < row.size; ++i) lazy_.mark(row.slots[i]);
  }

  size_t width_;
  Columns<T> columns_, weight_columns_;
  double condition_, cancellation_;  // limits

  // The round at hand: the step along x (kappa) and on V (beta), and the step after the
  // absorption, on V'.
  Matrix beta_before_, beta_after_, beta_next_;
  Shrinkage shrinkage_;
  Vector kappa_, kappa_after_, kappa_next_;
  std::vector<T> sums_, update_, copies_;
  FrequentFeatures<T> frequent_;
  Vector margins_, p_, p_hat_, Zx_;
  Vector on_V_;  // products of β, by weight vector
  Transition next_;
  double energy_ = 0, rest_ = 0, c_ = 0, rho_ = 0;  // rest: |x|² outside of the basis
  bool absorbed_ = false;
  bool current_ = false;  // the features of the row are up to date
  bool exact_ = false;    // all features are kept in double
};

}  // namespace sonline
