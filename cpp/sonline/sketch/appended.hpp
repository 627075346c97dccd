// The sketch in appended form: V = F Y and w = w̄ + Yᵀb, for the sketches that lose a direction in
// most rounds (fd, rfd).
//
// Y holds the directions that an epoch started with and the ĝ/|ĝ| of its rows, all as columns of
// the blocks: a row that the sketch takes in fills one more column, and F and b get one more entry
// for it. No inverse, no condition number, whatever is lost. When the columns are full the epoch
// ends: V takes their place, which is one lazy generation (lazy.hpp), as is the Gram–Schmidt of a
// sweep.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "sonline/sketch/lazy.hpp"
#include "sonline/sketch/spectral.hpp"
#include "sonline/sketch/sweep.hpp"

namespace sonline {

template <class T>
class Appended {
 public:
  static constexpr bool kAbsorbFirst = false;
  static constexpr bool kTakesCurvature = true;

  [[gnu::cold]] explicit Appended(const SketchConfig& config)
      : m_(Spectrum::capacity(config)),
        N_(columns_for(m_)),
        width_(padded_width(used())),
        first_(config.intercept ? 1 : 0),
        cancellation_(config.cancellation > 0 ? config.cancellation : kCancellation),
        spectrum_(config, m_),
        lazy_(1, m_, N_),
        F_(m_, used()),
        b_(used()),
        intercept_(1 + N_),
        next_F_(m_, used()),
        b_before_(used()),
        sums_(width_),
        Yx_(N_),
        along_(m_),
        factors_(m_),
        p_(m_),
        next_p_(m_),
        p_hat_(m_),
        room_(lazy_.room()) {
    for (size_t width = kVector; columns_.empty() || width <= width_; width += kVector)
      columns_.push_back(Columns<T>::of_width(std::min(width, width_)));
  }

  size_t width() const { return width_; }
  size_t used() const { return 1 + N_; }
  double tail() const { return spectrum_.tail; }
  const Upkeep& upkeep() const { return upkeep_; }
  size_t rank() const { return k_; }
  Vector eigenvalues() const {
    return Vector(spectrum_.ev.begin(), spectrum_.ev.begin() + static_cast<std::ptrdiff_t>(k_));
  }
  size_t bytes() const { return lazy_.bytes() + lazy_.bytes_of_tags(); }

  void refresh(const Row<T>& row) {
    if (m_ == 0) return;
    upkeep_.caught_up += lazy_.catch_up(row, first_, room_.data());
  }
  void view(Row<T>& row) {
    if (m_ > 0) lazy_.view(row, first_, width_, copies_, room_.data());
  }

  void project(const Row<T>& row) {
    const size_t last = n_ / kVector, width = std::min((last + 1) * kVector, width_);
    columns_[last].gather(row.blocks.data(), row.x, row.size, width, sums_.data());
    const double x0 = first_ ? row.x[0] : 0.0;
    for (size_t j = 0; j < n_; ++j) Yx_[j] = sums_[1 + j] + intercept_[1 + j] * x0;
    for (size_t i = 0; i < k_; ++i) p_[i] = dot(F_[i], Yx_.data(), n_);
    margin_ = sums_[0] + intercept_[0] * x0 + dot(b_.data(), Yx_.data(), n_);
    energy_ = row.energy;
    rest_ = outside(p_.data(), k_);
    kappa_ = 0;
    b_before_ = b_;
    absorbed_ = false;
  }

  double margin(size_t) const { return margin_; }

  double energy(size_t, double alpha) const {
    double shrunk = 0;
    for (size_t i = 0; i < k_; ++i) shrunk += shrink(i, alpha) * p_[i] * p_[i];
    return rest_ + shrunk;
  }

  // w ← w − step · αA⁻¹x: along x to w̄, on V to b = b + Fᵀ(h∘p).
  void descend(size_t, double step, double alpha) {
    const Vector& p = absorbed_ ? next_p_ : p_;
    const size_t k = absorbed_ ? next_rank_ : k_;
    const double along_x = rest_ > 0 ? 1.0 : 0.0;
    kappa_ -= step * along_x;
    for (size_t i = 0; i < k; ++i) along_[i] = step * (along_x - shrink(i, alpha)) * p[i];
    const Matrix& F = absorbed_ ? next_F_ : F_;
    if (k > 0) has_avx2() ? add_rows_avx2(F, k) : add_rows(F, k);
  }

  void absorb(double c, double, double t, size_t features, double times) {
    c *= std::sqrt(times);
    const double total = c * c * energy_;
    if (total == 0) return;
    double on_V = 0;
    for (size_t i = 0; i < k_; ++i) {
      p_hat_[i] = c * p_[i];
      on_V += p_hat_[i] * p_hat_[i];
    }
    double rho2 = std::max(total - on_V, 0.0);
    if (rho2 <= kSpan * total || features <= k_) rho2 = 0;
    rho_ = std::sqrt(rho2);
    next_rank_ = spectrum_.absorb({c, energy_, t, 1.0, static_cast<double>(features), k_, p_.data(),
                                   p_hat_.data(), nullptr, rho2, nullptr});
    if (m_ == 0) return;  // no directions: only rfd's tail has grown
    has_avx2() ? next_basis_avx2(c) : next_basis_plain(c);
    rest_ = outside(next_p_.data(), next_rank_);
    absorbed_ = true;
  }

  void commit(const Row<T>& row, const BlockStore<T>& blocks, size_t slots, double scale) {
    write(row);
    upkeep_.work += row.size;
    if (m_ == 0) return;
    const bool full = n_ == N_;
    if (full)
      end_epoch();
    else if (cancels(row, scale))
      fold();
    const bool due = upkeep_.paid(slots, upkeep_.strain > kMagnified, kStrained) ||
                     lazy_.bytes() > slots * blocks.stride() * sizeof(T) || lazy_.full();
    if (due) sweep(blocks, slots);
  }

  void undo() {
    b_ = b_before_;
    if (absorbed_) spectrum_.undo();
  }

  [[gnu::cold]] void read(Slot slot, const T* block, double* weights, double* v) const {
    Vector now(lazy_.room());
    lazy_.read(slot, block, now.data());
    if (slot == kInterceptSlot)
      for (size_t j = 0; j <= N_; ++j) now[j] += intercept_[j];
    weights[0] = now[0] + dot(b_.data(), &now[1], n_);
    for (size_t i = 0; i < k_; ++i) v[i] = dot(F_[i], &now[1], n_);
  }

  [[gnu::cold]] void write_knowledge(StateWriter& archive, const BlockStore<T>&, size_t) const {
    Vector ev = eigenvalues();
    archive.array("ev", ev);
    archive.scalar("capacity", m_);
    archive.scalar("tail", spectrum_.tail);
  }

  [[gnu::cold]] void read_knowledge(StateReader& archive, const BlockStore<T>& blocks,
                                    size_t slots) {
    const Vector ev = archive.any_array<double>("ev");
    if (fill_blocks(archive, "weights", 1, blocks, slots, 0) != 1)
      archive.fail("weights", "has the wrong shape");
    if (fill_blocks(archive, "directions", m_, blocks, slots, 1) != ev.size())
      archive.fail("ev", "has the wrong length");
    k_ = n_ = ev.size();
    std::copy(ev.begin(), ev.end(), spectrum_.ev.begin());
    archive.scalar("tail", spectrum_.tail);
    lazy_.admit(slots);
    for (size_t i = 0; i < k_; ++i) F_(i, i) = 1;
    if (first_)
      for (size_t j = 0; j <= N_; ++j)
        intercept_[j] = std::exchange(blocks.at(kInterceptSlot)[j], T{0});
    if (k_ > 0) sweep(blocks, slots);
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, size_t slots) {
    archive.scalar("sketch.rank", k_);
    archive.scalar("sketch.columns", n_);
    upkeep_.state(archive);
    archive.array("sketch.intercept", intercept_);
    archive.array("sketch.b", b_);
    archive.matrix("sketch.F", F_);
    spectrum_.state(archive);
    if (m_ > 0) lazy_.state(archive, slots);
    if constexpr (Archive::reading)
      // An epoch that is full has ended; without directions there are no columns.
      if (k_ > m_ || k_ > n_ || (m_ > 0 ? n_ >= N_ : n_ > 0))
        archive.fail("sketch.rank", "exceeds the sketch size");
  }

 private:
  // |x|² outside of a basis on which x has the coordinates p. As little as rounding may leave
  // counts as nothing: 1/α would magnify it. Such a step moves along the basis only.
  double outside(const double* p, size_t rank) const {
    const double rest = energy_ - dot(p, p, rank);
    return rest > kInside * energy_ ? rest : 0.0;
  }

  // The factor αA⁻¹ on direction i. If x has a part outside of the basis, it is at least the
  // rounding error of |x|² - |Vx|²: V is orthonormal up to rounding only, and could otherwise take
  // back more of a step than there is, which would lead away from the label.
  double shrink(size_t i, double alpha) const {
    const double factor = alpha / (alpha + spectrum_.ev[i]);
    return rest_ > 0 ? std::max(factor, kLeast) : factor;
  }

  static constexpr bool kFloat = std::is_same_v<T, float>;
  static constexpr double kSpan = kFloat ? 1e-5 : 1e-12, kInside = kFloat ? 2e-6 : 1e-12;
  static constexpr double kLeast = kFloat ? 1e-6 : 1e-12;  // that a step along V shrinks to
  // Magnification of rounding errors in V by one row: a sweep is to come early, or soon.
  static constexpr double kMagnified = 4, kStrained = kFloat ? 30 : 1e3;
  static constexpr double kCancellation = kFloat ? 64 : 1 << 20;

  // Columns of a block: the directions, and rows for about two and a half times as many rounds.
  // Together with the weight they fill whole vectors.
  static constexpr size_t kVector = 8;
  static size_t columns_for(size_t m) {
    return m == 0 ? 0 : (1 + 3 * m + m / 2 + kVector - 1) / kVector * kVector - 1;
  }

  // b += Fᵀ along.
  [[gnu::always_inline]] inline void add_rows(const Matrix& F, size_t k) {
    double* b = b_.data();
    const double* along = along_.data();
    for (size_t j = 0; j <= n_; j += kQuad) {
      Quad sum = load_quad(b + j);
      for (size_t i = 0; i < k; ++i) sum += along[i] * load_quad(F[i] + j);
      store_quad(b + j, sum);
    }
  }
  SONLINE_AVX2 void add_rows_avx2(const Matrix& F, size_t k) { add_rows(F, k); }

  // V' = U (V; q̂) = (U₁ − u₂p̂ᵀ/ρ) V + u₂ ĝᵀ/ρ.
  [[gnu::always_inline]] void next_basis(double c) {
    const Matrix& U = spectrum_.eigen.vectors;
    const size_t k = k_, stride = F_.cols(), used = whole_quads(n_ + 1);
    const double *F = F_[0], *p_hat = p_hat_.data(), *p = p_.data();
    double amplified = 0;
    for (size_t j = 0; j < next_rank_; ++j) {
      const double *u = U[j], u2 = rho_ > 0 ? u[k] / rho_ : 0.0;
      double *factors = factors_.data(), *out = next_F_[j];
      for (size_t l = 0; l < k; ++l) factors[l] = u[l] - u2 * p_hat[l];
      size_t i = 0;
      for (; i + 4 * kQuad <= used; i += 4 * kQuad) combine<4>(factors, k, F + i, stride, out + i);
      for (; i + 2 * kQuad <= used; i += 2 * kQuad) combine<2>(factors, k, F + i, stride, out + i);
      for (; i < used; i += kQuad) combine<1>(factors, k, F + i, stride, out + i);
      next_p_[j] = dot(u, p, k);
      if (rho_ > 0) {
        out[n_] = u2 * c * std::sqrt(energy_);
        amplified = std::max(amplified, std::fabs(out[n_]));
        next_p_[j] += u[k] * rho_ / c;
      }
    }
    next_strain_ = std::max(upkeep_.strain, amplified);
    if (rho_ > 0) b_[n_] = 0;
  }
  // out = Σ factors[l] · row l.
  template <size_t quads>
  [[gnu::always_inline]] static inline void combine(const double* factors, size_t k,
                                                    const double* row, size_t stride, double* out) {
    Quad sums[quads] = {};
    for (size_t l = 0; l < k; ++l, row += stride)
      for (size_t q = 0; q < quads; ++q) sums[q] += factors[l] * load_quad(row + q * kQuad);
    for (size_t q = 0; q < quads; ++q) store_quad(out + q * kQuad, sums[q]);
  }
  SONLINE_AVX2 void next_basis_avx2(double c) { next_basis(c); }
  void next_basis_plain(double c) { next_basis(c); }

  void write(const Row<T>& row) {
    const bool appends = absorbed_ && rho_ > 0;
    const T kappa = static_cast<T>(kappa_);
    const double unit = 1 / std::sqrt(energy_);
    const T *x = row.x, length = static_cast<T>(unit);
    T* const* blocks = row.blocks.data();
    check_room(blocks + first_, x + first_, row.size - first_, energy_, &kappa, 1);
    const size_t n = row.size, next = 1 + n_;
    if (appends)
      for (size_t i = first_; i < n; ++i) {
        T* block = blocks[i];
        block[0] += x[i] * kappa;
        block[next] = x[i] * length;
      }
    else if (kappa != 0)
      for (size_t i = first_; i < n; ++i) blocks[i][0] += x[i] * kappa;
    if (first_) {
      intercept_[0] += kappa_ * x[0];
      if (appends) intercept_[1 + n_] += unit * x[0];
    }
    if (!absorbed_) return;
    std::swap(F_, next_F_);
    k_ = next_rank_;
    n_ += appends;
    upkeep_.strain = next_strain_;
  }

  // As in factored.hpp: whether w̄·x has parts so large that w·x has lost too many digits.
  bool cancels(const Row<T>& row, double scale) const {
    const double limit = cancellation_ * scale;
    double bound = 0;  // the columns that are rows have length 1
    for (size_t j = 0; j < n_; ++j) bound += std::fabs(b_[j]);
    if (bound * std::sqrt(energy_) <= limit) return false;
    double squares = 0;
    for (size_t i = first_; i < row.size; ++i) {
      const double part = static_cast<double>(row.blocks[i][0]) * row.x[i];
      squares += part * part;
    }
    return !(squares <= limit * limit);
  }

  void fold() {
    Matrix b(1, N_);
    std::copy_n(b_.begin(), n_, b[0]);
    if (!lazy_.can_fold(b)) {
      end_epoch();
      return;
    }
    intercept_[0] += dot(b[0], &intercept_[1], n_);
    lazy_.fold(b, n_);
    std::fill(b_.begin(), b_.end(), 0.0);
    ++upkeep_.folds;
  }

  // The columns become V, and w̄ gets what w has on them.
  void end_epoch() {
    Matrix map(1 + k_, n_);
    std::copy_n(b_.begin(), n_, map[0]);
    for (size_t i = 0; i < k_; ++i) std::copy_n(F_[i], n_, map[1 + i]);
    const Vector before = intercept_;
    intercept_[0] += dot(map[0], &before[1], n_);
    for (size_t j = 0; j < N_; ++j)
      intercept_[1 + j] = j < k_ ? dot(map[1 + j], &before[1], n_) : 0.0;
    lazy_.next_generation(map, n_);
    n_ = k_;
    clear_basis();
    for (size_t i = 0; i < k_; ++i) F_(i, i) = 1;
    std::fill(b_.begin(), b_.end(), 0.0);
    ++upkeep_.generations;
  }

  // Columns that are not in use are 0.
  void clear_basis() {
    std::fill(F_.values().begin(), F_.values().end(), 0.0);
    std::fill(next_F_.values().begin(), next_F_.values().end(), 0.0);
  }

  // Brings all features up to date and makes V orthonormal.
  void sweep(const BlockStore<T>& blocks, size_t slots) {
    end_epoch();
    --upkeep_.generations;
    GramSum sum(k_);
    sum.add(&intercept_[1]);
    upkeep_.work = 0;
    for (Slot slot = kInterceptSlot + 1; slot < slots; ++slot) {
      T* block = blocks.at(slot);
      if (lazy_.is_stale(slot) && !lazy_.catch_up(slot, block, room_.data())) return;
      sum.add(block + 1);
    }
    Matrix gram = sum.total(m_);
    for (size_t lost; (lost = dependent_row(gram, k_)) < k_;) {
      const auto remove = [&](auto* z) {
        std::copy(z + lost + 1, z + k_, z + lost);
        z[k_ - 1] = 0;
      };
      remove(&intercept_[1]);
      for (Slot slot = kInterceptSlot + 1; slot < slots; ++slot) remove(blocks.at(slot) + 1);
      remove_row_and_column(gram, k_, lost);
      spectrum_.forget(lost);
      --k_;
    }
    n_ = k_;
    const Matrix inverse = invert_lower(gram, k_);
    clear_basis();
    for (size_t i = 0; i < k_; ++i) std::copy_n(inverse[i], i + 1, F_[i]);
    lazy_.forget();
    upkeep_.swept();
  }

  size_t m_, N_, width_;
  std::vector<Columns<T>> columns_;  // by the last vector that is in use
  size_t first_;                     // of the non-zeros that are no intercept
  double cancellation_;

  // What the sketch knows, beside the blocks.
  Spectrum spectrum_;
  LazyColumns<T> lazy_;
  size_t k_ = 0, n_ = 0;  // directions, and columns in use
  Matrix F_;
  Vector b_, intercept_;
  Upkeep upkeep_;

  // The round at hand.
  Matrix next_F_;
  Vector b_before_;
  std::vector<T> sums_, copies_;
  Vector Yx_, along_, factors_, p_, next_p_, p_hat_, room_;
  double margin_ = 0, energy_ = 0, rest_ = 0, kappa_ = 0, rho_ = 0, next_strain_ = 1;
  size_t next_rank_ = 0;
  bool absorbed_ = false;
};

}  // namespace sonline
