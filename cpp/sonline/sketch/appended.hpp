// The sketch in appended form: V = F (Z; R) and w = w̄ + (Z; R)ᵀb, for the sketches that lose a
// direction in most rounds (fd, rfd).
//
// Every ĝ becomes one more row of R, kept as the sparse row it is, and F gets one more column: no
// inverse, no condition number, whatever is lost. After a number of rounds R is folded into Z: a
// rebase, O(m²) a feature seen. It is done when the work that R has caused since the last one (its
// part of F, and the dot products with x) equals that of the rebase, so that both together are
// within a factor two of the best schedule in hindsight.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sonline/sketch/spectral.hpp"
#include "sonline/sketch/sweep.hpp"

namespace sonline {

// Sparse rows with the transposed view that a dot product with another sparse row needs: for each
// slot the list of the rows that have it.
template <class T>
class PendingRows {
 public:
  size_t size() const { return count_; }

  void append(const Row<T>& row, double scale, size_t slots) {
    if (heads_.size() < slots) heads_.resize(slots, kEnd);
    for (size_t i = 0; i < row.size; ++i) {
      nodes_.push_back({static_cast<T>(scale * row.x[i]), static_cast<uint32_t>(count_),
                        heads_[row.slots[i]], row.slots[i]});
      heads_[row.slots[i]] = static_cast<uint32_t>(nodes_.size() - 1);
    }
    ++count_;
  }

  // Calls visit(row, value) for each entry at a slot.
  template <class Visit>
  void at(Slot slot, Visit&& visit) const {
    if (slot >= heads_.size()) return;
    for (uint32_t i = heads_[slot]; i != kEnd; i = nodes_[i].next)
      visit(nodes_[i].row, nodes_[i].value);
  }

  void clear() {
    for (const Node& node : nodes_) heads_[node.slot] = kEnd;
    nodes_.clear();
    count_ = 0;
  }

  template <class Archive>
  void state(Archive& archive, size_t slots) {
    std::vector<T> values;
    std::vector<uint64_t> places;  // (row, slot) pairs
    if constexpr (Archive::reading) {
      values = archive.template any_array<T>("sketch.R.values");
      places = archive.template any_array<uint64_t>("sketch.R.places");
      if (places.size() != 2 * values.size())
        archive.fail("sketch.R.places", "has the wrong length");
      archive.scalar("sketch.R.rows", count_);
      nodes_.clear();
      heads_.assign(slots, kEnd);
      for (size_t i = 0; i < values.size(); ++i) {
        const uint64_t row = places[2 * i], slot = places[2 * i + 1];
        if (row >= count_ || slot >= slots) archive.fail("sketch.R.places", "is out of range");
        nodes_.push_back(
            {values[i], static_cast<uint32_t>(row), heads_[slot], static_cast<Slot>(slot)});
        heads_[slot] = static_cast<uint32_t>(i);
      }
    } else {
      for (const Node& node : nodes_) {
        values.push_back(node.value);
        places.push_back(node.row);
        places.push_back(node.slot);
      }
      archive.array("sketch.R.values", values);
      archive.array("sketch.R.places", places);
      archive.scalar("sketch.R.rows", count_);
    }
  }

 private:
  static constexpr uint32_t kEnd = ~uint32_t{0};
  struct Node {
    T value;
    uint32_t row, next;
    Slot slot;
  };
  std::vector<uint32_t> heads_;  // by slot
  std::vector<Node> nodes_;
  size_t count_ = 0;
};

template <class T, Truncation kind>
class Appended {
 public:
  static constexpr bool kTwoScales = false;

  explicit Appended(const SketchConfig& config)
      : m_(Spectrum<kind>::capacity(config.size)),
        width_(padded_width(1 + m_)),
        columns_(Columns<T>::of_width(width_)),
        first_(config.intercept ? 1 : 0),
        spectrum_(config, m_),
        F_(m_, m_ + kMaxPending),
        next_F_(m_, m_ + kMaxPending),
        b_(m_ + kMaxPending),
        sums_(width_),
        update_(width_),
        products_(m_ + kMaxPending),
        p_(m_),
        next_p_(m_),
        p_hat_(m_),
        mix_(m_) {}

  size_t width() const { return width_; }
  size_t used() const { return 1 + m_; }
  double tail() const { return spectrum_.tail; }
  int64_t rebases() const { return rebases_; }
  size_t rank() const { return k_; }
  Vector eigenvalues() const {
    return Vector(spectrum_.ev.begin(), spectrum_.ev.begin() + static_cast<std::ptrdiff_t>(k_));
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
      debt_ += visited_ + k_ * k_ * pending_.size() + row.size;
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
    const size_t rebase_work = slots * (m_ + 1) * (m_ + 2);
    if (m_ > 0 && (pending_.size() == kMaxPending || debt_ >= rebase_work ||
                   !(condition_ <= kCondition) || cancels(row, scale)))
      rebase(blocks, slots);
  }

  double weight(Slot slot, const T* block, size_t) const {
    double w = block[0] + (slot == kInterceptSlot ? rest_ : 0.0);
    for (size_t j = 0; j < z_; ++j) w += b_[j] * block[1 + j];
    pending_.at(slot, [&](uint32_t r, T value) { w += b_[z_ + r] * value; });
    return w;
  }

  void direction(Slot slot, const T* block, double* v) const {
    for (size_t i = 0; i < k_; ++i) {
      v[i] = 0;
      for (size_t j = 0; j < z_; ++j) v[i] += F_(i, j) * block[1 + j];
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
    archive.scalar("sketch.strain", strain_);
    archive.scalar("sketch.condition", condition_);
    Vector rest{rest_};
    archive.array("sketch.rest", rest);
    rest_ = rest[0];
    spectrum_.state(archive);
    pending_.state(archive, slots);
    if constexpr (Archive::reading)
      if (k_ > m_ || z_ > m_ || pending_.size() > kMaxPending)
        archive.fail("sketch.rank", "exceeds the sketch size");
    // What is in use of (b; F): the rest is room, and holds what earlier rounds left there.
    Matrix used(1 + k_, columns_of_F());
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

  void rebase(const BlockStore<T>& blocks, size_t slots) {
    const size_t rows = 1 + k_;
    Matrix B(rows, columns_of_F() + 1);  // (b; F)
    for (size_t j = 0; j < columns_of_F(); ++j) {
      B(0, j) = b_[j];
      for (size_t i = 0; i < k_; ++i) B(1 + i, j) = F_(i, j);
    }
    Matrix columns(pending_.size(), rows);  // of B, for the pending rows
    for (size_t r = 0; r < pending_.size(); ++r)
      for (size_t i = 0; i < rows; ++i) columns(r, i) = B(i, z_ + r);
    Matrix gram = sweep(blocks, slots, 1, m_, B, rows, z_, [&](Slot slot, double* out) {
      pending_.at(slot, [&](uint32_t r, T value) {
        const double* column = columns[r];
        for (size_t i = 0; i < rows; ++i) out[i] += column[i] * value;
      });
      if (slot == kInterceptSlot) out[0] += rest_;
    });
    rest_ = 0;
    k_ = orthonormalise(blocks, slots, 1, m_, k_, gram, [&](size_t i) { spectrum_.forget(i); });
    const Matrix inverse = invert_lower(gram, k_);
    std::fill(F_.values().begin(), F_.values().end(), 0.0);
    for (size_t i = 0; i < k_; ++i)
      for (size_t j = 0; j <= i; ++j) F_(i, j) = inverse(i, j);
    std::fill(b_.begin(), b_.end(), 0.0);
    pending_.clear();
    z_ = k_;
    debt_ = 0;
    strain_ = 0;
    condition_ = 1;
    ++rebases_;
  }

  size_t m_, width_;
  Columns<T> columns_;
  size_t first_;  // of the non-zeros that are no intercept
  Spectrum<kind> spectrum_;
  PendingRows<T> pending_;
  Matrix F_, next_F_;
  Vector b_;  // w = w̄ + (Z; R)ᵀb
  std::vector<T> sums_, update_;
  Vector products_;  // (Z; R) x
  Vector p_, next_p_, p_hat_, mix_;
  double rest_ = 0;  // what the intercept's w̄ has gathered since the last rebase
  double margin_ = 0, energy_ = 0, kappa_ = 0, rho_ = 0;
  double strain_ = 0;     // how far w̄ and (Z; R)ᵀb may have moved apart since the last rebase
  double condition_ = 1;  // how much the errors of V were magnified since the last rebase
  size_t k_ = 0, next_rank_ = 0;
  size_t z_ = 0;  // rows of Z in use
  uint64_t debt_ = 0, visited_ = 0;
  int64_t rebases_ = 0;
  bool absorbed_ = false;
};

}  // namespace sonline
