// The sketch in appended form: V = F Y and w = w̄ + Yᵀb, for the sketches that lose a direction in
// most rounds (fd, rfd).
//
// Y holds the directions Z that an epoch started with, which are columns of the blocks, and the
// ĝ/|ĝ| of its rows, which are lists beside them (lists.hpp). A row that the sketch takes in adds
// one number to the list of each of its features, and F and b get one more entry for it. No
// inverse, no condition number, whatever is lost. When an epoch ends V takes the place of Z and the
// lists become empty: a linear map of every feature. Those with a list do it at once, all others
// lazily (lazy.hpp), as they do the Gram–Schmidt of a sweep.
//
// An epoch ends when reading the lists has cost as much as its end will, so it is short where rows
// are dense and long where they are sparse.
//
// F is kept as two factors, F = A [C 0; 0 I]: a row changes A only, which is small, and after every
// few rows A goes into C. In the same way w has a part b on Y and a part a on the rows of
// W = [C 0; 0 I] Y.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "sonline/forgetting.hpp"
#include "sonline/sketch/lazy.hpp"
#include "sonline/sketch/lists.hpp"
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
        N_(m_ == 0 ? 0 : m_ + (config.condition > 0 ? kForcedRows : kMostRows)),
        width_(padded_width(used())),
        columns_(Columns<T>::of_width(width_)),
        first_(config.intercept ? 1 : 0),
        cancellation_(config.cancellation > 0 ? config.cancellation : kCancellation),
        spectrum_(config, m_),
        lazy_(1, m_),
        most_recent_(whole_quads(m_ + kRecent) - m_),
        A_(m_, m_ + most_recent_),
        C_(m_, whole_quads(N_)),
        a_(A_.cols()),
        b_(C_.cols()),
        intercept_(1 + N_),
        next_A_(m_, A_.cols()),
        next_C_(m_, C_.cols()),
        sum_(C_.cols()),
        a_before_(a_),
        sums_(width_),
        Yx_(C_.cols()),
        Wx_(A_.cols()),
        along_(m_),
        factors_(whole_quads(m_)),
        p_(whole_quads(m_)),
        next_p_(m_),
        p_hat_(whole_quads(m_)),
        room_(lazy_) {}

  size_t width() const { return width_; }
  size_t used() const { return 1 + m_; }
  double tail() const { return spectrum_.tail; }
  const Upkeep& upkeep() const { return upkeep_; }
  size_t rank() const { return k_; }
  Vector eigenvalues() const {
    return Vector(spectrum_.ev.begin(), spectrum_.ev.begin() + static_cast<std::ptrdiff_t>(k_));
  }
  size_t bytes() const { return lazy_.bytes() + lazy_.bytes_of_tags() + lists_.bytes(); }

  void refresh(const Row<T>& row) {
    if (m_ == 0) return;
    // The end of the epoch did not fit the type.
    if (n_ == N_) throw Diverged("a weight is too large for the number type");
    lists_.reserve(row.slots_seen);
    upkeep_.caught_up += lazy_.catch_up(row, first_, room_);
  }
  void view(Row<T>& row) {
    if (m_ == 0) return;
    lists_.reserve(row.slots_seen);
    lazy_.view(row, first_, width_, copies_, room_);
  }

  void project(const Row<T>& row) {
    columns_.gather(row.blocks.data(), row.x, row.size, width_, sums_.data());
    const double x0 = first_ ? row.x[0] : 0.0;
    for (size_t j = 0; j < start_; ++j) Yx_[j] = sums_[1 + j];
    std::fill(Yx_.data() + start_, Yx_.data() + whole_quads(n_), 0.0);
    lists_.sum(row, first_, start_, n_, Yx_.data());
    for (size_t j = 0; j < n_; ++j) Yx_[j] += intercept_[1 + j] * x0;
    has_avx2() ? project_avx2() : project_any();
    margin_ = sums_[0] + intercept_[0] * x0 + on_columns_;
    energy_ = row.energy;
    rest_ = outside(p_.data(), k_);
    kappa_ = 0;
    a_before_ = a_;
    absorbed_ = false;
  }

  double margin(size_t) const { return margin_; }

  double energy(size_t, double alpha) const {
    double shrunk = 0;
    for (size_t i = 0; i < k_; ++i) shrunk += shrink(i, alpha) * p_[i] * p_[i];
    return rest_ + shrunk;
  }

  // w ← w − step · αA⁻¹x: along x to w̄, on V to a.
  void descend(size_t, double step, double alpha) {
    const Vector& p = absorbed_ ? next_p_ : p_;
    const size_t k = absorbed_ ? next_rank_ : k_;
    const double along_x = rest_ > 0 ? 1.0 : 0.0;
    kappa_ -= step * along_x;
    for (size_t i = 0; i < k; ++i) along_[i] = step * (along_x - shrink(i, alpha)) * p[i];
    const Matrix& A = absorbed_ ? next_A_ : A_;
    if (k > 0) has_avx2() ? add_rows_avx2(A, k) : add_rows(A, k);
  }

  void absorb(double c, double, double t, size_t features, double times, double unit) {
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
    next_rank_ = spectrum_.absorb({c, energy_, t, unit, 1.0, static_cast<double>(features), k_,
                                   p_.data(), p_hat_.data(), nullptr, rho2, nullptr});
    if (m_ == 0) return;  // no directions: only rfd's tail has grown
    has_avx2() ? next_basis_avx2(c) : next_basis(c);
    rest_ = outside(next_p_.data(), next_rank_);
    absorbed_ = true;
  }

  void commit(const Row<T>& row, const BlockStore<T>& blocks, size_t slots, double scale) {
    write(row);
    upkeep_.work += row.size;
    lists_.count_read();
    if (m_ == 0) return;
    if (recent_ == most_recent_) merge_factors();
    if (n_ == N_ || lists_.are_long() || cancels(row, scale)) end_epoch(blocks);
    const bool due = upkeep_.paid(slots, upkeep_.strain > kMagnified, kStrained) ||
                     upkeep_.work >= kSweep * slots ||
                     lazy_.bytes() > slots * blocks.stride() * sizeof(T) || lazy_.full();
    if (due) sweep(blocks, slots);
  }

  void undo() {
    a_ = a_before_;
    if (std::exchange(absorbed_, false)) spectrum_.undo();
  }

  void pass(int64_t epochs) { spectrum_.pass(Clock::carried(epochs)); }

  [[gnu::cold]] void read(Slot slot, const T* block, double* weights, double* v) const {
    typename LazyColumns<T>::Room room(lazy_);
    const double* now = lazy_.read(slot, block, room);
    Vector y(n_);
    std::copy_n(now + 1, start_, y.begin());
    weights[0] = now[0];
    lists_.each(slot, [&](size_t column, double value) { y[column] += value; });
    if (slot == kInterceptSlot) {
      weights[0] += intercept_[0];
      for (size_t j = 0; j < n_; ++j) y[j] += intercept_[1 + j];
    }
    Vector on_W(based_on_ + recent_);
    for (size_t i = 0; i < based_on_; ++i) on_W[i] = dot(C_[i], y.data(), n_ - recent_);
    std::copy(y.end() - static_cast<std::ptrdiff_t>(recent_), y.end(),
              on_W.end() - static_cast<std::ptrdiff_t>(recent_));
    weights[0] += dot(b_.data(), y.data(), n_) + dot(a_.data(), on_W.data(), on_W.size());
    for (size_t i = 0; i < k_; ++i) v[i] = dot(A_[i], on_W.data(), on_W.size());
  }

  [[gnu::cold]] void write_knowledge(StateWriter& archive, const BlockStore<T>&, size_t,
                                     double counted) const {
    Vector ev = eigenvalues();
    for (double& value : ev) value *= counted;
    archive.array("ev", ev);
    archive.scalar("capacity", m_);
    archive.scalar("tail", counted * spectrum_.tail);
  }

  [[gnu::cold]] void read_knowledge(StateReader& archive, const BlockStore<T>& blocks,
                                    size_t slots) {
    const Vector ev = archive.any_array<double>("ev");
    if (fill_blocks(archive, "weights", 1, blocks, slots, 0) != 1)
      archive.fail("weights", "has the wrong shape");
    if (fill_blocks(archive, "directions", m_, blocks, slots, 1) != ev.size())
      archive.fail("ev", "has the wrong length");
    k_ = ev.size();
    std::copy(ev.begin(), ev.end(), spectrum_.ev.begin());
    archive.scalar("tail", spectrum_.tail);
    lazy_.admit(slots);
    start_epoch(Matrix::identity(k_));
    if (first_)
      for (size_t j = 0; j <= m_; ++j)
        intercept_[j] = std::exchange(blocks.at(kInterceptSlot)[j], T{0});
    if (k_ > 0) sweep(blocks, slots);
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, size_t slots) {
    archive.scalar("sketch.rank", k_);
    archive.scalar("sketch.columns", n_);
    archive.scalar("sketch.start", start_);
    archive.scalar("sketch.based_on", based_on_);
    archive.scalar("sketch.recent", recent_);
    archive.scalar("sketch.visited", lists_.visited());
    if constexpr (!Archive::reading) {  // equal models have equal files: no rest of a refused row
      A_.clear_beyond(k_, based_on_ + recent_);
      C_.clear_beyond(based_on_, n_ - recent_);
    }
    upkeep_.state(archive);
    archive.array("sketch.intercept", intercept_);
    archive.array("sketch.a", a_);
    archive.array("sketch.b", b_);
    archive.matrix("sketch.A", A_);
    archive.matrix("sketch.C", C_);
    spectrum_.state(archive);
    if constexpr (Archive::reading) measure_b();
    if constexpr (Archive::reading)
      // Without directions there are no columns.
      if (k_ > m_ || start_ > m_ || based_on_ > m_ || recent_ >= most_recent_ ||
          k_ > based_on_ + recent_ || start_ + recent_ > n_ || n_ > N_)
        archive.fail("sketch.rank", "exceeds the sketch size");
    if (m_ > 0) {
      lazy_.state(archive, slots);
      lists_.state(archive, slots, start_, n_);
    }
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
    return rest_ > 0 ? std::max(factor, kSmallestFactor) : factor;
  }

  static constexpr bool kFloat = std::is_same_v<T, float>;
  static constexpr double kSpan = kFloat ? 1e-5 : 1e-12, kInside = kFloat ? 2e-6 : 1e-12;
  static constexpr double kSmallestFactor =
      kFloat ? 1e-6 : 1e-12;  // that a step along V shrinks to
  // Magnification of rounding errors in V by one row: a sweep is to come early, or soon.
  static constexpr double kMagnified = 4, kStrained = kFloat ? 30 : 1e3;
  static constexpr double kCancellation = kFloat ? 64 : 1 << 20;
  // Non-zeros a feature from one sweep to the next: every epoch rounds all of V in the same way.
  static constexpr uint64_t kSweep = kFloat ? 10 : 64;

  static constexpr size_t kMostRows = 128;  // of an epoch
  static constexpr size_t kForcedRows = 6;  // for tests
  static constexpr size_t kRecent = 5;      // and a few more: rows before A goes into C

  // Wx, p = A Wx and what w has on the columns.
  [[gnu::always_inline]] inline void project_any() {
    const size_t n0 = n_ - recent_, n = based_on_ + recent_;
    for (size_t i = 0; i < based_on_; ++i) Wx_[i] = dot_quads(C_[i], Yx_.data(), n0);
    std::copy_n(Yx_.begin() + static_cast<std::ptrdiff_t>(n0), recent_,
                Wx_.begin() + static_cast<std::ptrdiff_t>(based_on_));
    std::fill(Wx_.begin() + static_cast<std::ptrdiff_t>(n), Wx_.end(), 0.0);
    for (size_t i = 0; i < k_; ++i) p_[i] = dot_quads(A_[i], Wx_.data(), n);
    std::fill(p_.begin() + static_cast<std::ptrdiff_t>(k_), p_.end(), 0.0);
    on_columns_ = dot_quads(b_.data(), Yx_.data(), n0) + dot_quads(a_.data(), Wx_.data(), n);
  }
  SONLINE_AVX2 void project_avx2() { project_any(); }
  // The first factor is 0 from n on, up to a whole quad.
  [[gnu::always_inline]] static inline double dot_quads(const double* a, const double* b,
                                                        size_t n) {
    Quad sum{};
    for (size_t i = 0; i < n; i += kQuad) sum += load_quad(a + i) * load_quad(b + i);
    return sum_of(sum);
  }

  // a += Aᵀ along.
  [[gnu::always_inline]] inline void add_rows(const Matrix& A, size_t k) {
    double* a = a_.data();
    const double* along = along_.data();
    for (size_t j = 0; j < a_.size(); j += kQuad) {
      Quad sum = load_quad(a + j);
      for (size_t i = 0; i < k; ++i) sum += along[i] * load_quad(A[i] + j);
      store_quad(a + j, sum);
    }
  }
  SONLINE_AVX2 void add_rows_avx2(const Matrix& A, size_t k) { add_rows(A, k); }

  // V' = U (V; q̂) = (U₁ − u₂p̂ᵀ/ρ) V + u₂ ĝᵀ/ρ.
  [[gnu::always_inline]] inline void next_basis(double c) {
    const Matrix& U = spectrum_.eigen.vectors;
    const size_t k = k_, n = based_on_ + recent_;
    const double norm = c * std::sqrt(energy_);
    double amplified = 0;
    for (size_t j = 0; j < next_rank_; ++j) {
      const double *u = U[j], u2 = rho_ > 0 ? u[k] / rho_ : 0.0;
      double *factors = factors_.data(), *out = next_A_[j];
      for (size_t l = 0; l < k; l += kQuad)
        store_quad(factors + l, load_quad(u + l) - u2 * load_quad(&p_hat_[l]));
      combine(factors, k, A_, n, out);
      next_p_[j] = dot_quads(p_.data(), u, k);
      out[n] = u2 * norm;  // 0, too: a row that was refused may have left a number there
      amplified = std::max(amplified, std::fabs(out[n]));
      if (rho_ > 0) next_p_[j] += u[k] * rho_ / c;
    }
    next_strain_ = std::max(upkeep_.strain, amplified);
  }
  SONLINE_AVX2 void next_basis_avx2(double c) { next_basis(c); }
  void write(const Row<T>& row) {
    const bool appends = absorbed_ && rho_ > 0;
    const T kappa = static_cast<T>(kappa_);
    const double unit = 1 / std::sqrt(energy_);
    T* const* blocks = row.blocks.data();
    const T* x = row.x;
    check_room(blocks + first_, x + first_, row.size - first_, energy_, &kappa, 1);
    if (kappa != 0)
      for (size_t i = first_; i < row.size; ++i) blocks[i][0] += x[i] * kappa;
    if (first_) intercept_[0] += kappa_ * x[0];
    if (!absorbed_) return;
    std::swap(A_, next_A_);
    k_ = next_rank_;
    upkeep_.strain = next_strain_;
    if (!appends) return;
    lists_.append(row, first_, n_, static_cast<T>(unit));
    if (first_) intercept_[1 + n_] += unit * x[0];
    ++n_;
    ++recent_;
  }

  // As in factored.hpp: whether w̄·x has parts so large that w·x has lost too many digits.
  bool cancels(const Row<T>& row, double scale) const {
    const double limit = cancellation_ * scale;
    double bound = size_of_b_;  // all columns have length 1
    for (const double part : a_) bound += std::fabs(part);
    if (bound * std::sqrt(energy_) <= limit) return false;
    double squares = 0;
    for (size_t i = first_; i < row.size; ++i) {
      const double part = static_cast<double>(row.blocks[i][0]) * row.x[i];
      squares += part * part;
    }
    return !(squares <= limit * limit);
  }

  // C ← A [C 0; 0 I], A ← I; b gets what w has on W.
  void merge_factors() { has_avx2() ? merge_factors_avx2() : merge_factors_any(); }
  SONLINE_AVX2 void merge_factors_avx2() { merge_factors_any(); }
  [[gnu::always_inline]] inline void merge_factors_any() {
    const size_t n0 = n_ - recent_;
    const auto multiply = [&](const double* row, double* out) __attribute__((always_inline)) {
      combine(row, based_on_, C_, n0, out);
      std::copy_n(row + based_on_, recent_, out + n0);
    };
    for (size_t i = 0; i < k_; ++i) multiply(A_[i], next_C_[i]);
    multiply(a_.data(), sum_.data());
    for (size_t j = 0; j < n_; ++j) b_[j] += sum_[j];
    measure_b();
    std::swap(C_, next_C_);
    restart_factors();
  }
  void measure_b() {
    size_of_b_ = 0;
    for (const double part : b_) size_of_b_ += std::fabs(part);
  }
  void restart_factors() {
    std::fill(A_.values().begin(), A_.values().end(), 0.0);
    std::fill(next_A_.values().begin(), next_A_.values().end(), 0.0);
    std::fill(a_.begin(), a_.end(), 0.0);
    for (size_t i = 0; i < k_; ++i) A_(i, i) = 1;
    based_on_ = k_;
    recent_ = 0;
  }

  // V takes the place of Z, and w̄ gets what w has on the columns. False, and nothing is changed, if
  // that does not fit the type.
  bool end_epoch(const BlockStore<T>& blocks) {
    merge_factors();
    if (!weights_fit(blocks)) return false;
    Matrix map(1 + k_, n_);
    std::copy_n(b_.begin(), n_, map[0]);
    for (size_t i = 0; i < k_; ++i) std::copy_n(C_[i], n_, map[1 + i]);
    const Vector before = intercept_;
    intercept_[0] += dot(map[0], &before[1], n_);
    for (size_t j = 0; j < N_; ++j)
      intercept_[1 + j] = j < k_ ? dot(map[1 + j], &before[1], n_) : 0.0;
    lazy_.next_generation(map, start_);
    empty_lists(map, blocks);
    start_epoch(Matrix::identity(k_));
    ++upkeep_.generations;
    return true;
  }

  // The numbers in the lists go to V and w̄: first the features catch up, then each of them adds all
  // its numbers, in double, and is rounded once.
  void empty_lists(const Matrix& map, const BlockStore<T>& blocks) {
    Matrix columns(n_, whole_quads(1 + k_));
    for (size_t j = start_; j < n_; ++j)
      for (size_t i = 0; i <= k_; ++i) columns(j, i) = map(i, j);
    lists_.empty(columns, 1 + k_, blocks, [&](const Slot* slots, size_t n) {
      lazy_.catch_up(blocks, n, [&](size_t f) { return slots[f]; }, room_);
    });
  }
  // The blocks hold columns of which the rows of F make V.
  void start_epoch(const Matrix& F) {
    n_ = start_ = k_;
    std::fill(C_.values().begin(), C_.values().end(), 0.0);
    std::fill(next_C_.values().begin(), next_C_.values().end(), 0.0);
    for (size_t i = 0; i < k_; ++i) std::copy_n(F[i], k_, C_[i]);
    std::fill(b_.begin(), b_.end(), 0.0);
    size_of_b_ = 0;
    restart_factors();
  }

  bool weights_fit(const BlockStore<T>& blocks) const {
    constexpr double kSmall = std::numeric_limits<T>::max() / (uint64_t{1} << 40);
    if (size_of_b_ <= kSmall) return true;
    for (const Slot slot : lists_.features()) {
      const T* block = blocks.at(slot);
      double weight = block[0];
      for (size_t j = 0; j < start_; ++j) weight += b_[j] * block[1 + j];
      double most = std::fabs(weight);  // of all that the weight is on the way
      lists_.each(slot,
                  [&](size_t column, double value) { most += std::fabs(b_[column] * value); });
      if (!(most <= std::numeric_limits<T>::max())) return false;
    }
    return true;
  }

  // Brings all features up to date and makes V orthonormal.
  void sweep(const BlockStore<T>& blocks, size_t slots) {
    upkeep_.work = 0;
    if (!end_epoch(blocks)) return;
    --upkeep_.generations;
    GramSum sum(k_);
    sum.add(&intercept_[1]);
    const auto after_intercept = [](size_t i) { return static_cast<Slot>(kInterceptSlot + 1 + i); };
    if (!lazy_.catch_up(blocks, slots - 1, after_intercept, room_)) return;
    for (Slot slot = kInterceptSlot + 1; slot < slots; ++slot) sum.add(blocks.at(slot) + 1);
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
    start_epoch(invert_lower(gram, k_));
    lazy_.forget();
    upkeep_.swept();
  }

  size_t m_, N_, width_;
  Columns<T> columns_;
  size_t first_;  // of the non-zeros that are no intercept
  double cancellation_;

  // What the sketch knows, beside the blocks.
  Spectrum spectrum_;
  LazyColumns<T> lazy_;
  size_t k_ = 0, n_ = 0, start_ = 0;  // directions, and columns: all, and those of the blocks
  FeatureLists<T> lists_;
  size_t most_recent_, based_on_ = 0, recent_ = 0;  // rows of C, and columns that only A has
  Matrix A_, C_;
  Vector a_, b_, intercept_;
  double size_of_b_ = 0;  // Σ|b_j|
  Upkeep upkeep_;

  // The round at hand.
  Matrix next_A_, next_C_;
  Vector sum_, a_before_;
  std::vector<T> sums_, copies_;
  Vector Yx_, Wx_, along_, factors_, p_, next_p_, p_hat_;
  typename LazyColumns<T>::Room room_;
  double margin_ = 0, on_columns_ = 0, energy_ = 0, rest_ = 0, kappa_ = 0, rho_ = 0;
  double next_strain_ = 1;
  size_t next_rank_ = 0;
  bool absorbed_ = false;
};

}  // namespace sonline
