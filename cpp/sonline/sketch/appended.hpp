// The sketch in appended form: V = F (Z; R) and w = w̄ + (Z; R)ᵀb, for the sketches that lose a
// direction in most rounds (fd, rfd).
//
// Every ĝ becomes one more row of R, kept as the sparse row it is, and F gets one more column: no
// inverse, no condition number, whatever is lost. After a number of rounds, an epoch, R is folded
// into Z and F becomes the identity: at once for the features in R, for all others when a row has
// them again (missed.hpp). A rebase brings all features up to date and V back to orthonormal rows.
//
// Each is put off until as much work has been spent on what it does away with: the columns of F for
// R, and the products of maps. So both together cost within a factor two of the best schedule in
// hindsight, and a row hardly more the more features there are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sonline/sketch/missed.hpp"
#include "sonline/sketch/pending.hpp"
#include "sonline/sketch/spectral.hpp"
#include "sonline/sketch/sweep.hpp"

namespace sonline {

template <class T, Truncation kind>
class Appended {
 public:
  static constexpr bool kAbsorbFirst = false;

  explicit Appended(const SketchConfig& config)
      : m_(Spectrum<kind>::capacity(config.size)),
        width_(padded_width(used())),
        columns_(Columns<T>::of_width(width_)),
        first_(config.intercept ? 1 : 0),
        spectrum_(config, m_),
        missed_(m_),
        F_(m_, m_ + kMaxPending),
        next_F_(m_, m_ + kMaxPending),
        b_(m_ + kMaxPending),
        sums_(width_),
        update_(width_),
        products_(m_ + kMaxPending),
        extra_(missed_.width()),
        room_(missed_.width()),
        p_(m_),
        next_p_(m_),
        p_hat_(m_) {}

  size_t width() const { return width_; }
  size_t used() const { return m_ == 0 ? 1 : 2 + m_; }  // w̄, z, the epoch
  double tail() const { return spectrum_.tail; }
  int64_t rebases() const { return rebases_; }
  size_t rank() const { return k_; }
  Vector eigenvalues() const {
    return Vector(spectrum_.ev.begin(), spectrum_.ev.begin() + static_cast<std::ptrdiff_t>(k_));
  }

  size_t bytes() const {
    return (F_.values().size() + next_F_.values().size()) * sizeof(double) + missed_.bytes() +
           pending_.bytes();
  }

  // Brings the features of a row that is to be learnt up to date.
  void refresh(const Row<T>& row) {
    if (m_ == 0) return;
    for (size_t i = 0; i < row.size; ++i) {
      T* block = row.blocks[i];
      if (!misses_some(block)) continue;
      carry(block, block);
      if (!std::isfinite(block[0])) throw Diverged("a weight is too large for the number type");
      ++late_;
    }
  }

  // The same for a row that is only looked at: its blocks become copies.
  void view(Row<T>& row) {
    if (m_ == 0) return;
    copies_.resize(std::max(copies_.size(), row.size * width_));
    for (size_t i = 0; i < row.size; ++i)
      if (misses_some(row.blocks[i])) {
        T* copy = &copies_[i * width_];
        carry(row.blocks[i], copy);
        row.blocks[i] = copy;
      }
  }

  // Whether a block can be one of this sketch.
  bool accepts(const T* block) const {
    if (m_ == 0) return true;
    const T epoch = block[1 + m_];
    return epoch >= 0 && epoch <= static_cast<T>(missed_.epoch()) && epoch == std::floor(epoch);
  }

  void project(const Row<T>& row) {
    columns_.gather(row.blocks.data(), row.x, row.size, width_, sums_.data());
    const size_t n = columns_of_F();
    std::fill(products_.begin(), products_.begin() + static_cast<std::ptrdiff_t>(n), 0.0);
    for (size_t j = 0; j < z_; ++j) products_[j] = sums_[1 + j];
    visited_ = 0;
    if (pending_.size())
      for (size_t i = 0; i < row.size; ++i)
        pending_.at(row.slots[i], [&](uint32_t r, T value) {
          products_[z_ + r] += static_cast<double>(value) * row.x[i];
          ++visited_;
        });
    for (size_t i = 0; i < k_; ++i) p_[i] = dot(F_[i], products_.data(), n);
    margin_ = sums_[0] + (first_ ? rest_ * row.x[0] : 0.0) + dot(b_.data(), products_.data(), n);
    energy_ = row.energy;
    kappa_ = 0;
    absorbed_ = false;
  }

  double margin(size_t) const { return margin_; }

  double energy(double alpha) const {
    double along = 0, shrunk = 0;
    for (size_t i = 0; i < k_; ++i) {
      const double square = p_[i] * p_[i];
      along += square;
      shrunk += alpha / (alpha + spectrum_.ev[i]) * square;
    }
    return std::max(std::max(energy_ - along, 0.0) + shrunk, kSpan * energy_);
  }

  // w ← w − step · αA⁻¹x: along x to w̄, on V to b = b + Fᵀ(h∘p).
  void descend(size_t, double step, double alpha) {
    kappa_ -= step;
    const Matrix& F = absorbed_ ? next_F_ : F_;
    const Vector& p = absorbed_ ? next_p_ : p_;
    const size_t k = absorbed_ ? next_rank_ : k_, n = columns_of_F() + (absorbed_ && rho_ > 0);
    for (size_t i = 0; i < k; ++i) {
      const double along = step * (spectrum_.ev[i] / (alpha + spectrum_.ev[i])) * p[i];
      strain_ += std::fabs(along);
      const double* row = F[i];
      for (size_t j = 0; j < n; ++j) b_[j] += along * row[j];
    }
  }

  void absorb(double c, double, double t, size_t features, double times) {
    if (c == 0 || energy_ == 0) return;
    c *= std::sqrt(times);
    double on_V = 0;
    for (size_t i = 0; i < k_; ++i) {
      p_hat_[i] = c * p_[i];
      on_V += p_hat_[i] * p_hat_[i];
    }
    const double total = c * c * energy_;
    double rho2 = std::max(total - on_V, 0.0);
    if (rho2 <= kSpan * total || features <= k_) rho2 = 0;
    rho_ = std::sqrt(rho2);
    next_rank_ = spectrum_.absorb({c, energy_, t, 1.0, static_cast<double>(features), k_, p_.data(),
                                   p_hat_.data(), nullptr, rho2, nullptr});
    if (m_ == 0) return;  // no directions: only rfd's tail has grown
    // V' = U (V; q̂) = (U₁ − u₂p̂ᵀ/ρ) V + u₂ ĝᵀ/ρ.
    const size_t n = columns_of_F();
    const Matrix& U = spectrum_.eigen.vectors;
    double amplified = 0;
    for (size_t j = 0; j < next_rank_; ++j) {
      const double u2 = rho_ > 0 ? U(j, k_) / rho_ : 0.0;
      double* out = next_F_[j];
      std::fill(out, out + n + 1, 0.0);
      size_t l = 0;  // two at a time: half the traffic
      for (; l + 2 <= k_; l += 2) {
        const double one = U(j, l) - u2 * p_hat_[l], two = U(j, l + 1) - u2 * p_hat_[l + 1];
        const double *first = F_[l], *second = F_[l + 1];
        for (size_t i = 0; i < n; ++i) out[i] += one * first[i] + two * second[i];
      }
      if (l < k_) {
        const double one = U(j, l) - u2 * p_hat_[l];
        for (size_t i = 0; i < n; ++i) out[i] += one * F_(l, i);
      }
      out[n] = u2 * c * std::sqrt(energy_);
      amplified = std::max(amplified, std::fabs(out[n]));
      next_p_[j] = dot(U[j], p_.data(), k_) + (rho_ > 0 ? U(j, k_) * rho_ / c : 0.0);
    }
    condition_ *= std::max(amplified / 2, 1.0);
    b_[n] = 0;
    absorbed_ = true;
  }

  void commit(const Row<T>& row, const BlockStore<T>& blocks, size_t slots, double scale) {
    if (absorbed_) {
      std::swap(F_, next_F_);
      k_ = next_rank_;
      if (rho_ > 0 && k_ > 0) pending_.append(row, 1 / std::sqrt(row.energy), slots);
      debt_ += visited_ + k_ * k_ * pending_.size();
      std::fill(update_.begin(), update_.end(), T{0});
    }
    if (kappa_ != 0) {
      strain_ += std::fabs(kappa_) * std::sqrt(energy_);
      update_[0] = static_cast<T>(kappa_);
      if (!std::isfinite(update_[0])) throw Diverged("a step is too large for the number type");
      columns_.scatter(row.blocks.data() + first_, row.x + first_, row.size - first_, width_,
                       update_.data());
      if (first_) rest_ += kappa_ * row.x[0];
    }
    if (m_ == 0) return;
    debt_of_maps_ += row.size;  // however few maps there are, rounding adds up as well
    const uint64_t work = (m_ + 1) * (m_ + 2);  // of mapping one feature
    const uint64_t hot = pending_.features() - std::min(pending_.features(), late_);
    if (!(condition_ <= kCondition) || std::max(debt_, debt_of_maps_) >= slots * work ||
        missed_.epoch() == MissedMaps<T>::kMostEpochs)
      rebase(blocks, slots);
    else if (debt_ > (missed_.epoch() * m_ + hot) * work || pending_.size() == kMaxPending ||
             cancels(row, scale))
      end_epoch(blocks);
  }

  double weight(Slot slot, const T* block, size_t) const {
    const std::vector<T> now = at_present(block);
    double w = now[0] + (slot == kInterceptSlot ? rest_ : 0.0);
    for (size_t j = 0; j < z_; ++j) w += b_[j] * now[1 + j];
    pending_.at(slot, [&](uint32_t r, T value) { w += b_[z_ + r] * value; });
    return w;
  }

  void direction(Slot slot, const T* block, double* v) const {
    const std::vector<T> now = at_present(block);
    for (size_t i = 0; i < k_; ++i) {
      v[i] = 0;
      for (size_t j = 0; j < z_; ++j) v[i] += F_(i, j) * now[1 + j];
    }
    pending_.at(slot, [&](uint32_t r, T value) {
      for (size_t i = 0; i < k_; ++i) v[i] += F_(i, z_ + r) * value;
    });
  }

  template <class Archive>
  void state(Archive& archive, size_t slots) {
    archive.scalar("sketch.rank", k_);
    archive.scalar("sketch.rows_of_Z", z_);
    archive.scalar("sketch.rebases", rebases_);
    archive.scalar("sketch.debt", debt_);
    archive.scalar("sketch.debt_of_maps", debt_of_maps_);
    archive.scalar("sketch.late", late_);
    archive.scalar("sketch.strain", strain_);
    archive.scalar("sketch.condition", condition_);
    Vector rest{rest_};
    archive.array("sketch.rest", rest);
    rest_ = rest[0];
    spectrum_.state(archive);
    pending_.state(archive, slots);
    missed_.state(archive);
    if constexpr (Archive::reading)
      if (k_ > m_ || z_ > m_ || pending_.size() >= kMaxPending)  // full, it would have been folded
        archive.fail("sketch.rank", "exceeds the sketch size");
    // What is in use of (b; F): the rest is room, and holds what earlier rounds left there.
    Matrix used = archive.matrix_of("sketch.bF", 1 + k_, columns_of_F());
    std::copy_n(b_.data(), used.cols(), used[0]);
    for (size_t i = 0; i < k_; ++i) std::copy_n(F_[i], used.cols(), used[1 + i]);
    archive.matrix("sketch.bF", used);
    if constexpr (Archive::reading) {
      std::copy_n(used[0], used.cols(), b_.data());
      for (size_t i = 0; i < k_; ++i) std::copy_n(used[1 + i], used.cols(), F_[i]);
    }
  }

 private:
  static constexpr bool kSingle = std::is_same_v<T, float>;
  static constexpr double kSpan = kSingle ? 1e-5 : 1e-12;
  static constexpr size_t kMaxPending = 512;
  static constexpr double kCondition = kSingle ? 20 : 500;
  static constexpr double kCancellation = kSingle ? 256 : 1 << 20;

  size_t columns_of_F() const { return z_ + pending_.size(); }

  // As in factored.hpp: whether w̄·x has parts so large that w·x has lost too many digits.
  bool cancels(const Row<T>& row, double scale) const {
    const double limit = kCancellation * scale;
    if (strain_ * std::sqrt(energy_) <= limit) return false;
    double squares = 0;
    for (size_t i = first_; i < row.size; ++i) {
      const double part = static_cast<double>(row.blocks[i][0]) * row.x[i];
      squares += part * part;
    }
    return !(squares <= limit * limit);
  }

  bool misses_some(const T* block) const {
    return block[1 + m_] != static_cast<T>(missed_.epoch());
  }

  std::vector<T> at_present(const T* block) const {
    std::vector<T> now(block, block + width_);
    Vector room(missed_.width());
    if (m_ > 0 && misses_some(block))
      missed_.carry(static_cast<size_t>(block[1 + m_]), block, now.data(), room.data());
    return now;
  }

  void carry(const T* from, T* to) {
    missed_.carry(static_cast<size_t>(from[1 + m_]), from, to, room_.data());
    to[1 + m_] = static_cast<T>(missed_.epoch());
  }

  // Folds R into Z for the features that it has; the others will miss it. The row at hand has been
  // brought up to date, so the intercept has.
  void end_epoch(const BlockStore<T>& blocks) {
    const size_t width = missed_.width(), n = columns_of_F();
    Vector map(m_ * width, 0.0);
    Matrix columns(n - z_, width);  // for the rows of R
    for (size_t j = 0; j < n; ++j) {
      double* to = j < z_ ? &map[j * width] : columns[j - z_];
      to[0] = b_[j];
      for (size_t i = 0; i < k_; ++i) to[1 + i] = F_(i, j);
    }
    const auto fold = [&](Slot slot) {
      T* block = blocks.at(slot);
      std::fill(extra_.begin(), extra_.end(), 0.0);
      pending_.at(slot, [&](uint32_t r, T value) {
        const double* of_row = columns[r];
        for (size_t i = 0; i < width; ++i) extra_[i] += of_row[i] * value;
      });
      if (slot == kInterceptSlot) extra_[0] += rest_;
      missed_.carry(map, extra_, block, room_.data());
      block[1 + m_] = static_cast<T>(missed_.epoch() + 1);
      if (!std::isfinite(block[0])) throw Diverged("a weight is too large for the number type");
    };
    if (first_ && !pending_.has(kInterceptSlot)) fold(kInterceptSlot);
    pending_.take(fold);
    missed_.append(map);
    rest_ = 0;
    z_ = k_;
    for (size_t i = 0; i < k_; ++i) std::fill_n(F_[i], z_, 0.0);
    for (size_t i = 0; i < k_; ++i) F_(i, i) = 1;
    std::fill_n(b_.begin(), z_, 0.0);
    debt_ = late_ = 0;
    strain_ = 0;
    debt_of_maps_ += missed_.epoch() * m_ * (m_ + 1) * (m_ + 2);
  }

  void rebase(const BlockStore<T>& blocks, size_t slots) {
    end_epoch(blocks);
    GramSum sum(k_);
    for (Slot slot = 0; slot < slots; ++slot) {
      T* block = blocks.at(slot);
      if (misses_some(block)) carry(block, block);
      if (!std::isfinite(block[0])) throw Diverged("a weight is too large for the number type");
      block[1 + m_] = 0;
      sum.add(block + 1);
    }
    Matrix gram = sum.total(m_);
    k_ = orthonormalise(blocks, slots, 1, m_, k_, gram, [&](size_t i) { spectrum_.forget(i); });
    const Matrix inverse = invert_lower(gram, k_);
    for (size_t i = 0; i < k_; ++i)
      for (size_t j = 0; j <= i; ++j) F_(i, j) = inverse(i, j);
    missed_.clear();
    z_ = k_;
    debt_of_maps_ = 0;
    condition_ = 1;
    ++rebases_;
  }

  size_t m_, width_;
  Columns<T> columns_;
  size_t first_;  // of the non-zeros that are no intercept
  Spectrum<kind> spectrum_;
  PendingRows<T> pending_;
  MissedMaps<T> missed_;
  Matrix F_, next_F_;
  Vector b_;  // w = w̄ + (Z; R)ᵀb
  std::vector<T> sums_, update_, copies_;
  Vector products_;      // (Z; R) x
  Vector extra_, room_;  // of one feature
  Vector p_, next_p_, p_hat_;
  double rest_ = 0;  // what the intercept's w̄ has gathered in this epoch
  double margin_ = 0, energy_ = 0, kappa_ = 0, rho_ = 0;
  double strain_ = 0;     // how far w̄ and (Z; R)ᵀb may have moved apart in this epoch
  double condition_ = 1;  // how much the errors of V were magnified since the last rebase
  size_t k_ = 0, next_rank_ = 0;
  size_t z_ = 0;               // rows of Z in use
  uint64_t debt_ = 0;          // work for R in this epoch
  uint64_t debt_of_maps_ = 0;  // for the products of maps since the last rebase
  uint64_t late_ = 0;          // features that were brought up to date in this epoch
  uint64_t visited_ = 0;
  int64_t rebases_ = 0;
  bool absorbed_ = false;
};

}  // namespace sonline
