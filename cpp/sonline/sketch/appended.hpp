// The sketch in appended form: V = F Y and w = w̄ + Yᵀb, for the sketches that lose a direction in
// most rounds (fd, rfd).
//
// Y holds the directions Z that an epoch started with, which are columns of the blocks, and the
// ĝ/|ĝ| of its rows, which are lists beside them: a feature has a number there for each row of the
// epoch that had it. A row that the sketch takes in adds one number to the list of each of its
// features, and F and b get one more entry for it. No inverse, no condition number, whatever is
// lost. When an epoch ends V takes the place of Z and the lists become empty: a linear map of every
// feature. Those with a list do it at once, all others lazily (lazy.hpp), as they do the
// Gram–Schmidt of a sweep.
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
        entries_(1),
        slots_(1),
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
        sums_of_lists_(2 * C_.cols()),
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
  size_t bytes() const {
    return lazy_.bytes() + lazy_.bytes_of_tags() + entries_.capacity() * sizeof(Entry) +
           (heads_.capacity() + slots_.capacity()) * sizeof(uint32_t);
  }

  void refresh(const Row<T>& row) {
    if (m_ == 0) return;
    // The end of the epoch did not fit the type.
    if (n_ == N_) throw Diverged("a weight is too large for the number type");
    heads_.resize(row.slots_seen);
    upkeep_.caught_up += lazy_.catch_up(row, first_, room_);
  }
  void view(Row<T>& row) {
    if (m_ == 0) return;
    heads_.resize(std::max(heads_.size(), row.slots_seen));
    lazy_.view(row, first_, width_, copies_, room_);
  }

  void project(const Row<T>& row) {
    columns_.gather(row.blocks.data(), row.x, row.size, width_, sums_.data());
    const double x0 = first_ ? row.x[0] : 0.0;
    for (size_t j = 0; j < start_; ++j) Yx_[j] = sums_[1 + j];
    std::fill(Yx_.data() + start_, Yx_.data() + whole_quads(n_), 0.0);
    read_ = 0;
    if (n_ > start_) read_lists(row);
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
    visited_ += read_;
    if (m_ == 0) return;
    if (recent_ == most_recent_) merge_factors();
    if (n_ == N_ || lists_are_long() || cancels(row, scale)) end_epoch(blocks);
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
    for (uint32_t at = slot < heads_.size() ? heads_[slot] : 0; at != 0; at = entries_[at].before)
      y[entries_[at].column] += entries_[at].value;
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
    archive.scalar("sketch.visited", visited_);
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
      lists_state(archive, slots);
    }
  }

 private:
  // A number of a feature in a row of the epoch, and where the one before it is; 0 if there is
  // none.
  struct Entry {
    uint32_t before = 0, column = 0;
    T value = 0;
  };

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

  // Of the row x: Yx for the rows of the epoch. One list after the other would be one wrong guess
  // of the processor for each; so the last numbers of all lists are read first, then those before.
  void read_lists(const Row<T>& row) {
    open_.resize(std::max(open_.size(), row.size));
    values_.resize(open_.size());
    uint32_t* open = open_.data();
    T* values = values_.data();
    const uint32_t* heads = heads_.data();
    const Entry* entries = entries_.data();
    // Two for each column: in dense rows the same column comes often in turn.
    double* sums = sums_of_lists_.data();
    std::fill(sums + 2 * start_, sums + 2 * n_, 0.0);
    size_t n = 0;
    for (size_t i = first_; i < row.size; ++i) {
      open[n] = heads[row.slots[i]];
      values[n] = row.x[i];
      n += open[n] != 0;
    }
    for (size_t left; n > 0; n = left) {
      read_ += n;
      left = 0;
      for (size_t i = 0; i < n; ++i) {
        const Entry& entry = entries[open[i]];
        const T value = values[i];
        sums[2 * entry.column + i % 2] += static_cast<double>(entry.value) * value;
        open[left] = entry.before;
        values[left] = value;
        left += entry.before != 0;
      }
    }
    for (size_t j = start_; j < n_; ++j) Yx_[j] = sums[2 * j] + sums[2 * j + 1];
  }

  // Whether reading the lists has cost as much as an end of the epoch.
  bool lists_are_long() const {
    constexpr uint64_t kPerFeature = 8, kPerEpoch = 1200;  // in numbers that are read
    return visited_ > kPerFeature * listed_.size() + kPerEpoch;
  }

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
  // out = Σ factors[l] · row l, the first n numbers and up to a whole quad.
  [[gnu::always_inline]] static inline void combine(const double* factors, size_t rows,
                                                    const Matrix& M, size_t n, double* out) {
    size_t i = 0;
    for (; i + 3 * kQuad < n; i += 4 * kQuad) combine<4>(factors, rows, M, i, out);
    if (i + 2 * kQuad < n) return combine<3>(factors, rows, M, i, out);
    for (; i < n; i += kQuad) combine<1>(factors, rows, M, i, out);
  }
  template <size_t quads>
  [[gnu::always_inline]] static inline void combine(const double* factors, size_t rows,
                                                    const Matrix& M, size_t at, double* out) {
    Quad sums[quads] = {};
    const double* row = M[0] + at;
    for (size_t l = 0; l < rows; ++l, row += M.cols())
      for (size_t q = 0; q < quads; ++q) sums[q] += factors[l] * load_quad(row + q * kQuad);
    for (size_t q = 0; q < quads; ++q) store_quad(out + at + q * kQuad, sums[q]);
  }

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
    append(row, static_cast<T>(unit));
    if (first_) intercept_[1 + n_] += unit * x[0];
    ++n_;
    ++recent_;
  }

  // Column n of the features of the row: x · unit.
  void append(const Row<T>& row, T unit) {
    const size_t n = row.size - first_, at = entries_.size();
    make_room(n);
    for (size_t i = 0; i < n; ++i)
      add_entry(at + i, row.slots[first_ + i], n_, row.x[first_ + i] * unit);
    listed_.resize(features_listed_);
  }
  void make_room(size_t n) {
    entries_.resize(entries_.size() + n);
    slots_.resize(entries_.size());
    listed_.resize(features_listed_ + n);
  }
  [[gnu::always_inline]] inline void add_entry(size_t at, Slot slot, size_t column, T value) {
    uint32_t& head = heads_[slot];
    entries_[at] = {head, static_cast<uint32_t>(column), value};
    slots_[at] = slot;
    listed_[features_listed_] = slot;
    features_listed_ += head == 0;
    head = static_cast<uint32_t>(at);
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
    constexpr size_t kAtOnce = 64;
    for (size_t i = 0; i < listed_.size(); i += kAtOnce) {
      const Slot* slots = &listed_[i];
      const size_t n = std::min(kAtOnce, listed_.size() - i);
      for (size_t f = 0; f < n; ++f) __builtin_prefetch(&entries_[heads_[slots[f]]]);
      lazy_.catch_up(blocks, n, [&](size_t f) { return slots[f]; }, room_);
      has_avx2() ? add_lists_avx2(slots, n, columns, blocks)
                 : add_lists<0>(slots, n, columns, blocks);
    }
    for (const Slot slot : listed_) heads_[slot] = 0;
    forget_lists();
  }
  SONLINE_AVX2 void add_lists_avx2(const Slot* slots, size_t n, const Matrix& columns,
                                   const BlockStore<T>& blocks) {
    columns.cols() == 3 * kQuad ? add_lists<3>(slots, n, columns, blocks)
                                : add_lists<0>(slots, n, columns, blocks);
  }
  // Of n features. Compiled for a common width, in quads, or for any if that is 0.
  template <size_t quads>
  [[gnu::always_inline]] inline void add_lists(const Slot* slots, size_t n, const Matrix& columns,
                                               const BlockStore<T>& blocks) {
    const size_t width = columns.cols(), used = 1 + k_;
    const Entry* entries = entries_.data();
    const uint32_t* heads = heads_.data();
    Vector sums(width);
    for (size_t f = 0; f < n; ++f) {
      Quad few[std::max<size_t>(quads, 1)] = {};
      if constexpr (quads == 0) std::fill(sums.begin(), sums.end(), 0.0);
      for (uint32_t at = heads[slots[f]]; at != 0; at = entries[at].before) {
        const double value = entries[at].value, *column = columns[entries[at].column];
        if constexpr (quads > 0)
          for (size_t q = 0; q < quads; ++q) few[q] += value * load_quad(column + q * kQuad);
        else
          for (size_t i = 0; i < width; i += kQuad)
            store_quad(&sums[i], load_quad(&sums[i]) + value * load_quad(column + i));
      }
      if constexpr (quads > 0)
        for (size_t q = 0; q < quads; ++q) store_quad(&sums[q * kQuad], few[q]);
      T* block = blocks.at(slots[f]);
      for (size_t i = 0; i < used; ++i) block[i] = static_cast<T>(block[i] + sums[i]);
    }
  }
  void forget_lists() {
    entries_.resize(1);
    slots_.resize(1);
    listed_.clear();
    features_listed_ = 0;
  }

  // The blocks hold columns of which the rows of F make V.
  void start_epoch(const Matrix& F) {
    n_ = start_ = k_;
    visited_ = 0;
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
    for (const Slot slot : listed_) {
      const T* block = blocks.at(slot);
      double weight = block[0];
      for (size_t j = 0; j < start_; ++j) weight += b_[j] * block[1 + j];
      double most = std::fabs(weight);  // of all that the weight is on the way
      for (uint32_t at = heads_[slot]; at != 0; at = entries_[at].before)
        most += std::fabs(b_[entries_[at].column] * entries_[at].value);
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

  // The lists, number by number in the order in which they came.
  template <class Archive>
  void lists_state(Archive& archive, size_t slots) {
    heads_.resize(slots);
    if constexpr (Archive::reading) {
      const auto of_slots = archive.template any_array<uint32_t>("sketch.lists.slot");
      const auto columns = archive.template any_array<uint32_t>("sketch.lists.column");
      const auto values = archive.template any_array<T>("sketch.lists.value");
      if (columns.size() != of_slots.size() || values.size() != of_slots.size())
        archive.fail("sketch.lists.slot", "has the wrong length");
      std::fill(heads_.begin(), heads_.end(), 0);
      forget_lists();
      for (size_t i = 0; i < of_slots.size(); ++i) {
        if (of_slots[i] == kInterceptSlot || of_slots[i] >= slots)
          archive.fail("sketch.lists.slot", "is out of range");
        if (columns[i] < (i > 0 ? columns[i - 1] : start_) || columns[i] >= n_)
          archive.fail("sketch.lists.column", "is out of range");
        make_room(1);
        add_entry(i + 1, of_slots[i], columns[i], values[i]);
      }
      listed_.resize(features_listed_);
    } else {
      std::vector<uint32_t> of_slots(slots_.begin() + 1, slots_.end()), columns;
      std::vector<T> values;
      for (size_t at = 1; at < entries_.size(); ++at) {
        columns.push_back(entries_[at].column);
        values.push_back(entries_[at].value);
      }
      archive.array("sketch.lists.slot", of_slots);
      archive.array("sketch.lists.column", columns);
      archive.array("sketch.lists.value", values);
    }
  }

  size_t m_, N_, width_;
  Columns<T> columns_;
  size_t first_;  // of the non-zeros that are no intercept
  double cancellation_;

  // What the sketch knows, beside the blocks.
  Spectrum spectrum_;
  LazyColumns<T> lazy_;
  size_t k_ = 0, n_ = 0, start_ = 0;  // directions, and columns: all, and those of the blocks
  std::vector<Entry> entries_;        // the first is none
  std::vector<uint32_t> heads_;       // by slot: the last entry
  std::vector<Slot> slots_;           // of the entries
  std::vector<Slot> listed_;          // the features that have entries
  size_t features_listed_ = 0;
  uint64_t visited_ = 0;                            // entries read in this epoch
  size_t most_recent_, based_on_ = 0, recent_ = 0;  // rows of C, and columns that only A has
  Matrix A_, C_;
  Vector a_, b_, intercept_;
  double size_of_b_ = 0;  // Σ|b_j|
  Upkeep upkeep_;

  // The round at hand.
  Matrix next_A_, next_C_;
  Vector sum_;
  Vector a_before_;
  std::vector<T> sums_, copies_, values_;
  std::vector<uint32_t> open_;
  Vector Yx_, sums_of_lists_, Wx_, along_, factors_, p_, next_p_, p_hat_;
  typename LazyColumns<T>::Room room_;
  double margin_ = 0, on_columns_ = 0, energy_ = 0, rest_ = 0, kappa_ = 0, rho_ = 0;
  double next_strain_ = 1;
  size_t next_rank_ = 0, read_ = 0;  // entries
  bool absorbed_ = false;
};

}  // namespace sonline
