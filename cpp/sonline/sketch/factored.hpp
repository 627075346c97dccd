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
// (lazy.hpp): a feature catches up when a row has it next.
//
// Rounding slowly takes the orthonormality of V away. A sweep over all features measures the Gram
// matrix and restores it, once the non-zeros that were read have paid for that.
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
#include "sonline/knowledge.hpp"
#include "sonline/matrix.hpp"
#include "sonline/row.hpp"
#include "sonline/sketch/contract.hpp"
#include "sonline/sketch/lazy.hpp"
#include "sonline/sketch/sweep.hpp"

namespace sonline {

// What a Rule sees of the row and the basis, all in double.
struct Absorption {
  double c;             // ĝ = c x
  double energy;        // |x|²
  double t;             // this round, counted from 1
  double stands_for;    // weight of what is discarded, more than 1 if c stands for part of the row
  double features;      // features seen, the intercept included
  size_t k;             // rank of V
  const double* p;      // V x
  const double* p_hat;  // V ĝ
  const double* Zx;
  double rho2;  // |ĝ|² - |V ĝ|², the energy of the residual; 0 if it is rounding only
  const Matrix* F;
  double tolerated = 0;  // condition above which the step is done the dense way
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
  static constexpr bool kTakesCurvature = Rule::kTakesCurvature;

  [[gnu::cold]] explicit Factored(const SketchConfig& config)
      : K_(config.weights),
        m_(Rule::capacity(config.size)),
        width_(padded_width(K_ + m_)),
        columns_(Columns<T>::of_width(width_)),
        weight_columns_(Columns<T>::of_width(weights_width())),
        first_(config.intercept ? 1 : 0),
        condition_(config.condition > 0 ? config.condition : kCondition),
        cancellation_(config.cancellation > 0 ? config.cancellation : kCancellation),
        rule_(config, m_),
        lazy_(K_, m_, m_ > 0 ? kExact : 0),
        F_(m_, m_),
        beta_(K_, m_),
        intercept_(K_ + m_),
        beta_before_(K_, m_),
        beta_after_(K_, m_),
        beta_next_(K_, m_),
        factors_(K_, m_),
        factors_for_(K_),
        kappa_(K_),
        kappa_after_(K_),
        kappa_next_(K_),
        sums_(width_),
        update_(width_),
        exact_sums_(whole_quads(K_ + m_)),
        exact_update_(K_ + m_),
        margins_(K_),
        p_(m_),
        p_hat_(m_),
        Zx_(m_),
        room_(lazy_) {
    next_.F = Matrix(m_, m_);
    next_.delta.resize(m_);
    next_.mu.resize(m_);
    next_.p.resize(m_);
  }

  // Numbers a block holds for the sketch and the weights.
  size_t width() const { return width_; }
  size_t used() const { return K_ + m_; }
  double tail() const { return rule_.tail(); }
  const Upkeep& upkeep() const { return upkeep_; }
  size_t rank() const { return k_; }
  Vector eigenvalues() const {
    return Vector(rule_.ev().begin(), rule_.ev().begin() + static_cast<std::ptrdiff_t>(k_));
  }
  size_t bytes() const { return lazy_.bytes() + lazy_.bytes_of_tags(); }

  // Brings the features of a row that is to be learned up to date.
  void refresh(const Row<T>& row) {
    if (m_ == 0) return;
    upkeep_.caught_up += lazy_.catch_up(row, first_, room_);
    current_ = true;
  }

  // The same for a row that is only predicted: its blocks become copies.
  void view(Row<T>& row) {
    // Numbers in double are read where they are, see sum_exact().
    if (m_ > 0 && !lazy_.all_exact()) lazy_.view(row, first_, width_, copies_, room_);
    current_ = false;
  }

  // Sx and w·x; starts a step.
  void project(const Row<T>& row) {
    exact_ = !kFloat || lazy_.all_exact();
    if (kFloat && exact_)
      has_avx2() ? sum_exact_avx2(row) : sum_exact(row);
    else
      sum_blocks(row);
    for (size_t i = 0; i < k_; ++i) p_[i] = dot(F_[i], Zx_.data(), Rule::kLower ? i + 1 : k_);
    for (size_t e = 0; e < K_; ++e) margins_[e] += dot(beta_[e], p_.data(), k_);
    energy_ = row.energy;
    rest_ = outside(p_.data(), k_);
    std::fill(kappa_.begin(), kappa_.end(), 0.0);
    forget_factors();
    beta_before_ = beta_;
    absorbed_ = false;
  }

  // Takes back what was done since project(), if it was not committed.
  void undo() {
    beta_ = beta_before_;
    if (absorbed_) rule_.undo();
  }

  double margin(size_t expert) const { return margins_[expert]; }

  // α xᵀA⁻¹x, as a sum of non-negative terms: the paper's difference cancels when x is in the span.
  // Not less than its rounding error, or a projection onto the bound would magnify that of w·x.
  [[gnu::noinline]] double energy(size_t expert, double alpha) {
    if (k_ == 0) return rest_;
    const double* factors = shrink(expert, alpha);
    double shrunk = 0;
    for (size_t i = 0; i < k_; ++i) shrunk += factors[i] * p_[i] * p_[i];
    return rest_ + shrunk;
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
    for (size_t i = 0; i < k; ++i) beta[i] += step * (along_x - factors[i]) * p[i];
  }

  // SketchUpdate(c x), `times` times; the weights keep their value.
  void absorb(double c, double, double t, size_t features, double times) {
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
    rule_.absorb({c, energy_, t, times / counted, static_cast<double>(features), k_, p_.data(),
                  p_hat_.data(), Zx_.data(), rho2, &F_, condition_},
                 next_);
    absorbed_ = true;
    rest_ = outside(next_.p.data(), next_.rank);
    forget_factors();
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
    if (cancels(row, scale)) fold();
    if (sweep_is_paid(slots, blocks.stride() * sizeof(T), !sparse)) sweep(blocks, slots);
  }

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

  [[gnu::cold]] void write_knowledge(StateWriter& archive, const BlockStore<T>&, size_t) const {
    Vector ev = eigenvalues();
    archive.array("ev", ev);
    archive.scalar("capacity", m_);
    rule_.write_knowledge(archive);
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

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, size_t slots) {
    archive.scalar("sketch.rank", k_);
    upkeep_.state(archive);
    archive.matrix("sketch.F", F_);
    archive.matrix("sketch.beta", beta_);
    archive.array("sketch.intercept", intercept_);
    rule_.state(archive);
    if (m_ > 0) lazy_.state(archive, slots);
    if constexpr (Archive::reading)
      if (k_ > m_) archive.fail("sketch.rank", "exceeds the sketch size");
  }

 private:
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
    double* factors = factors_[expert];
    if (alpha == factors_for_[expert]) return factors;
    has_avx2() ? shrink_avx2(alpha, factors) : shrink_any(alpha, factors);
    factors_for_[expert] = alpha;
    return factors;
  }
  [[gnu::always_inline]] inline void shrink_any(double alpha, double* factors) const {
    const double *ev = rule_.ev().data(), floor = rest_ > 0 ? least() : 0.0;
    for (size_t i = 0; i < m_; ++i) factors[i] = std::max(alpha / (alpha + ev[i]), floor);
  }
  SONLINE_AVX2 void shrink_avx2(double alpha, double* factors) const { shrink_any(alpha, factors); }
  // A, or what of x is outside of V, has changed.
  void forget_factors() {
    std::fill(factors_for_.begin(), factors_for_.end(), std::numeric_limits<double>::quiet_NaN());
  }

  // w̄·x and Zx of the blocks.
  void sum_blocks(const Row<T>& row) {
    columns_.gather(row.blocks.data(), row.x, row.size, width_, sums_.data());
    const double x0 = first_ ? row.x[0] : 0.0;
    for (size_t j = 0; j < k_; ++j) Zx_[j] = sums_[K_ + j] + intercept_[K_ + j] * x0;
    for (size_t e = 0; e < K_; ++e) margins_[e] = sums_[e] + intercept_[e] * x0;
  }

  // The same in double, if all features are kept so: then a column with a mean of 2,000 and a
  // standard deviation of 2, such as a year, is told from the intercept.
  [[gnu::always_inline]] inline void sum_exact(const Row<T>& row) {
    size_t at = 0;
    for (; at + 4 * kQuad <= exact_sums_.size(); at += 4 * kQuad) sum_quads<4>(row, at);
    for (; at < exact_sums_.size(); at += kQuad) sum_quads<1>(row, at);
    const double x0 = first_ ? row.x[0] : 0.0;
    for (size_t j = 0; j < k_; ++j) Zx_[j] = exact_sums_[K_ + j] + intercept_[K_ + j] * x0;
    for (size_t e = 0; e < K_; ++e) margins_[e] = exact_sums_[e] + intercept_[e] * x0;
  }
  template <size_t quads>
  [[gnu::always_inline]] inline void sum_quads(const Row<T>& row, size_t at) {
    Quad sums[quads] = {};
    for (size_t i = first_; i < row.size; ++i) {
      const double* numbers = exact_numbers(row, i) + at;
      const double x = row.x[i];
      for (size_t q = 0; q < quads; ++q) sums[q] += x * load_quad(numbers + q * kQuad);
    }
    for (size_t q = 0; q < quads; ++q) store_quad(&exact_sums_[at + q * kQuad], sums[q]);
  }
  SONLINE_AVX2 void sum_exact_avx2(const Row<T>& row) { sum_exact(row); }

  // As they are now: a row that is only predicted does not bring its features up to date.
  [[gnu::always_inline]] inline const double* exact_numbers(const Row<T>& row, size_t i) {
    const Slot slot = row.slots[i];
    if (current_ || lazy_.is_current(slot)) return lazy_.exact(slot);
    return lazy_.read(slot, row.blocks[i], room_);
  }

  static constexpr bool kFloat = std::is_same_v<T, float>;
  // How much of |x|² may be rounding: of x in the span of V; of a step along V.
  double span() const { return exact_ ? 1e-12 : 1e-5; }
  double inside() const { return exact_ ? 1e-12 : 2e-6; }
  double least() const { return exact_ ? 1e-12 : 1e-6; }
  // Amplification of rounding errors in Z that is tolerated.
  static constexpr double kCondition = kFloat ? 10 : 1e2;
  // Magnification of rounding errors in V by one row after which V is to be made orthonormal soon.
  static constexpr double kStrained = kFloat ? 30 : 1e3;
  // Z grows where F shrinks: long before it leaves the range of its type, F becomes I again.
  static constexpr double kSmallest = 1e-6;
  // Features that are kept in double, see lazy.hpp.
  static constexpr size_t kExact = 256;
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
      for (size_t e = 0; e < K_; ++e) {
        rule_.carry(next_, k_, beta_[e], beta_next_[e]);
        for (size_t i = 0; i < next_.rank; ++i) beta_next_(e, i) += beta_after_(e, i);
        kappa_next_[e] = kappa_[e] + kappa_after_[e];
        if (!next_.append) kappa_next_[e] -= c_ * dot(next_.mu.data(), beta_[e], k_);
      }
    } else {
      kappa_next_ = kappa_;
    }
    bool any = absorbed_;
    for (size_t e = 0; e < K_; ++e) {
      exact_update_[e] = kappa_next_[e];
      any = any || kappa_next_[e] != 0;
    }
    if (!any) return;
    std::fill(exact_update_.begin() + static_cast<std::ptrdiff_t>(K_), exact_update_.end(), 0.0);
    if (absorbed_ && next_.append)
      exact_update_[K_ + k_] = 1 / std::sqrt(energy_);
    else if (absorbed_)
      for (size_t j = 0; j < k_; ++j) exact_update_[K_ + j] = c_ * next_.delta[j];
    const size_t written = absorbed_ ? K_ + m_ : K_;
    std::fill(update_.begin() + static_cast<std::ptrdiff_t>(written), update_.end(), T{0});
    for (size_t j = 0; j < written; ++j) update_[j] = static_cast<T>(exact_update_[j]);
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
    if (!(kFloat && lazy_.all_exact()))  // otherwise write_exact() writes all of them
      (absorbed_ ? columns_ : weight_columns_)
          .scatter(changed, x, n, absorbed_ ? width_ : weights_width(), update_.data());
    if (first_)
      for (size_t j = 0; j < written; ++j) intercept_[j] += exact_update_[j] * row.x[0];
    if (kFloat && m_ > 0) has_avx2() ? write_exact_avx2(row, written) : write_exact(row, written);
  }

  // The same for the features that are kept in double; their blocks become copies.
  [[gnu::always_inline]] inline void write_exact(const Row<T>& row, size_t written) {
    const size_t padded = whole_quads(written);
    const size_t quads = padded <= K_ + m_ ? padded : written / kQuad * kQuad;  // updates of 0
    if (quads == kQuad && quads == padded)                                      // only weights
      write_exact<kQuad>(row, quads, quads);
    else if (quads == 2 * kQuad && quads == padded)
      write_exact<2 * kQuad>(row, quads, quads);
    else
      write_exact<0>(row, quads, std::max(quads, written));
  }
  // Compiled for a common number of quads, or for any if that is 0.
  template <size_t common>
  [[gnu::always_inline]] inline void write_exact(const Row<T>& row, size_t quads, size_t written) {
    using Four = FourOf<T>;
    // All in local variables: to the compiler, writing a block might change any member.
    const double* update = exact_update_.data();
    double* exact = lazy_.exact_numbers();
    const size_t most = lazy_.most_exact(), width = lazy_.width(), size = row.size;
    const Slot* slots = row.slots;
    T* const* blocks = row.blocks.data();
    const T* values = row.x;
    if (common > 0) quads = written = common;
    for (size_t i = first_; i < size; ++i) {
      if (slots[i] >= most) continue;
      double* numbers = exact + slots[i] * width;
      T* block = blocks[i];
      const double x = values[i];
      size_t j = 0;
      for (; j < quads; j += kQuad) {
        const Quad sum = load_quad(numbers + j) + x * load_quad(update + j);
        store_quad(numbers + j, sum);
        *reinterpret_cast<typename Four::InMemory*>(block + j) =
            __builtin_convertvector(sum, typename Four::Vector);
      }
      for (; j < written; ++j) {
        numbers[j] += x * update[j];
        block[j] = static_cast<T>(numbers[j]);
      }
    }
  }
  SONLINE_AVX2 void write_exact_avx2(const Row<T>& row, size_t written) {
    write_exact(row, written);
  }

  // Whether the sum w·x = w̄·x + βᵀVx has lost too many digits. Blocks round only when they are
  // written, so what matters is the size of the parts of w̄·x in the rows that come. It is at most
  // |β||x|, which costs nothing to check; in wide data it is far less.
  bool cancels(const Row<T>& row, double scale) const {
    const double limit = cancellation_ * scale;
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
    map_row(row, map, of_x);
    // The rounding errors that it magnifies are smaller if all features are kept in double.
    const double rounding = kFloat && exact_ ? 1e-6 : 1.0;
    for (size_t i = 0; i < rank; ++i)
      upkeep_.strain =
          std::max(upkeep_.strain, rounding * std::fabs(of_x[K_ + i]) * std::sqrt(energy_));
    rule_.accept(next_);
    next_generation(map, rank);
    for (size_t i = first_; i < row.size; ++i) lazy_.mark(row.slots[i]);
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

  size_t K_, m_, width_;  // K weight vectors
  Columns<T> columns_, weight_columns_;
  size_t first_;                     // of the non-zeros that are no intercept
  double condition_, cancellation_;  // limits

  // What the sketch knows, beside the blocks.
  Rule rule_;
  LazyColumns<T> lazy_;
  size_t k_ = 0;
  Matrix F_, beta_;
  Vector intercept_;  // w̄ and z of the intercept
  Upkeep upkeep_;

  // The round at hand: the step along x (kappa) and on V (beta), and the step after the
  // absorption, on V'.
  Matrix beta_before_, beta_after_, beta_next_;
  Matrix factors_;      // of each expert: see shrink()
  Vector factors_for_;  // the alpha for which they were computed
  Vector kappa_, kappa_after_, kappa_next_;
  std::vector<T> sums_, update_, copies_;
  Vector exact_sums_, exact_update_, margins_, p_, p_hat_, Zx_, mapped_;
  typename LazyColumns<T>::Room room_;
  Transition next_;
  double energy_ = 0, rest_ = 0, c_ = 0, rho_ = 0;  // rest: |x|² outside of the basis
  bool absorbed_ = false;
  bool current_ = false;  // the features of the row are up to date
  bool exact_ = false;    // all features are kept in double
};

}  // namespace sonline
