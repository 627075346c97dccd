// The sketches that keep the top eigenvectors of what they have seen: Frequent Directions (paper:
// Algorithm 2), robust FD (L. Luo et al., JMLR 2019) and tail-isotropic truncation.
//
// Each round solves the small eigenproblem of diag(ev, 0) + q qᵀ, q = (p̂, ρ), on the basis (V; q̂).
// When there is no room for all, the smallest eigenvalue λ is discarded:
//   fd          ev' = Σ − λ                    (m − 1 directions, as the paper's S has a zero row)
//   rfd         ev' = Σ − λ,  tail += λ / 2
//   isotropic   ev' = Σ,      tail += λ / (features − m)   (m directions)
#pragma once

#include <algorithm>
#include <cmath>

#include "sonline/ablation.hpp"
#include "sonline/secular.hpp"
#include "sonline/sketch/factored.hpp"

namespace sonline {

class Spectrum {
 public:
  Vector ev;        // descending
  double tail = 0;  // what the discarded directions add to alpha
  SecularSolver eigen;
  Vector old_ev;  // before the last absorb

  static size_t capacity(const SketchConfig& config) {
    return config.truncation == Truncation::isotropic || config.size == 0 ? config.size
                                                                          : config.size - 1;
  }

  Spectrum(const SketchConfig& config, size_t m)
      : ev(m),
        old_ev(m),
        kind_(config.truncation),
        size_(config.size),
        m_(m),
        d_(m + 1),
        q_(m + 1) {}

  // Takes in q = (p̂, ρ); the new rank. Row j of eigen.vectors is the j-th new direction on (V; q̂).
  size_t absorb(const Absorption& in) {
    const size_t k = in.k;
    old_tail_ = tail;
    old_ev = ev;
    if (size_ == 0 && kind_ != Truncation::isotropic) return 0;  // no sketch at all
    const bool residual = in.rho2 > 0;
    const size_t n = k + residual;
    std::copy(ev.begin(), ev.begin() + k, d_.begin());
    std::copy(in.p_hat, in.p_hat + k, q_.begin());
    if (residual) {
      d_[k] = 0;
      q_[k] = std::sqrt(in.rho2);
    }
    eigen.solve(d_.data(), q_.data(), n);
    const size_t most = std::min(n, m_);
    const double lambda = n > m_ ? std::max(eigen.values[m_], 0.0) : 0.0;
    std::fill(ev.begin(), ev.end(), 0.0);
    for (size_t j = 0; j < most; ++j)
      ev[j] = kind_ == Truncation::isotropic ? eigen.values[j] : eigen.values[j] - lambda;
    if (kind_ == Truncation::rfd) tail += lambda / 2;
    if (kind_ == Truncation::isotropic && SONLINE_KEEPS(isotropic_tail))
      tail += in.stands_for * lambda / std::max(in.features - static_cast<double>(m_), 1.0);
    size_t rank = most;
    while (rank > 0 && !(ev[rank - 1] > kNegligible * eigen.values[0])) ev[--rank] = 0;
    return rank;
  }

  // Takes the last absorb back.
  void undo() {
    ev.swap(old_ev);
    tail = old_tail_;
  }

  void pass(double factor) {
    for (double& value : ev) value *= factor;
    tail *= factor;
  }

  // Direction i was rounding only.
  void forget(size_t i) {
    ev.erase(ev.begin() + static_cast<std::ptrdiff_t>(i));
    ev.push_back(0.0);
  }

  const Vector& q() const { return q_; }

  template <class Archive>
  void state(Archive& archive) {
    archive.array("sketch.ev", ev);
    archive.scalar("sketch.tail", tail);
  }

 private:
  static constexpr double kNegligible = 1e-14;  // of the largest eigenvalue
  Truncation kind_;
  size_t size_, m_;
  double old_tail_ = 0;
  Vector d_, q_;
};

// The spectral step in the push form of factored.hpp. The paper's sparse form of it inverts a
// singular matrix (N₁). Here the new basis is reached in one sparse step from the old one: with y
// the discarded eigenvector, the kept subspace is that of V + μĝᵀ, μ_i = −y_i / q·y = p̂_i / (ev_i −
// λ), and V' = M (V + μĝᵀ) with M = Σ⁻¹ U diag(ev), U the kept eigenvectors on V. M is singular
// only if a direction of V is really lost; then the step is done the dense way. A sketch that does
// not shrink loses directions rarely, which is why this form serves isotropic; fd and rfd lose one
// in most rounds and live in appended.hpp.
class PushRule {
 public:
  static constexpr bool kLower = false;
  static constexpr bool kTakesCurvature = true;

  static size_t capacity(size_t size) { return size; }

  PushRule(const SketchConfig& config, size_t m)
      : spectrum_(config, m),
        m_(m),
        inverse_(m, m),
        next_inverse_(m, m),
        M_(m, m),
        M_inverse_(m, m),
        ratio_(m),
        inverse_ev_(m) {}

  const Vector& ev() const { return spectrum_.ev; }
  double tail() const { return spectrum_.tail; }

  // A row that counts several times is not to weigh more than the weakest direction, or it would
  // replace that one at once, which needs a dense step. The rest of it counts in
  // the tail.
  double times_counted(double energy, size_t k, double times) const {
    if (k < m_ || m_ == 0 || !SONLINE_KEEPS(repeated_row)) return times;
    return std::clamp(spectrum_.ev[k - 1] / energy, 1.0, times);
  }

  void absorb(const Absorption& in, Transition& out) {
    has_avx2() ? absorb_avx2(in, out) : absorb_any(in, out);
  }
  SONLINE_AVX2 [[gnu::flatten]] void absorb_avx2(const Absorption& in, Transition& out) {
    absorb_any(in, out);
  }
  void absorb_any(const Absorption& in, Transition& out) {
    const size_t k = in.k;
    const bool residual = in.rho2 > 0;
    const double rho = std::sqrt(in.rho2);
    out.rank = spectrum_.absorb(in);
    out.append = false;
    rotated_ = false;
    if (out.rank < k) {  // directions of V are lost
      out.sparse = false;
    } else if (residual && out.rank == k) {
      truncate(in, out);
    } else if (residual) {
      append(in, rho, out);
    } else {
      rotate(in, out);
    }
    const Matrix& U = spectrum_.eigen.vectors;
    dots(U, out.rank, in.p, k, out.p.data());
    for (size_t j = 0; residual && j < out.rank; ++j) out.p[j] += U(j, k) * rho / in.c;
  }

  void carry(const Transition& next, size_t k, const double* beta, double* out) const {
    // β' = U [β; 0] or M⁻ᵀβ.
    dots(next.append || rotated_ ? spectrum_.eigen.vectors : M_inverse_, next.rank, beta, k, out);
  }

  void dense(const Transition& next, size_t k, double, const double*, Matrix& R) const {
    const size_t n = spectrum_.eigen.values.size();
    for (size_t j = 0; j < next.rank; ++j)
      for (size_t i = 0; i <= k; ++i) R(j, i) = i < n ? spectrum_.eigen.vectors(j, i) : 0.0;
  }

  void accept(const Transition&) { std::swap(inverse_, next_inverse_); }

  void forget(size_t i) { spectrum_.forget(i); }
  void undo() { spectrum_.undo(); }
  void pass(double factor) { spectrum_.pass(factor); }
  template <class Archive>
  void write_knowledge(Archive& archive, double counted) const {
    archive.scalar("tail", counted * spectrum_.tail);
  }
  template <class Archive>
  void read_knowledge(Archive& archive, const Vector& ev) {
    std::copy(ev.begin(), ev.end(), spectrum_.ev.begin());
    archive.scalar("tail", spectrum_.tail);
  }

  void rebased(const Matrix& L, size_t rank) {
    inverse_ = Matrix(m_, m_);
    for (size_t i = 0; i < rank; ++i)
      for (size_t j = 0; j <= i; ++j) inverse_(j, i) = L(i, j);
  }

  template <class Archive>
  void state(Archive& archive, size_t rank) {
    spectrum_.state(archive);
    if constexpr (!Archive::reading) inverse_.clear_beyond(rank, rank);
    Matrix F_inverse = transposed(inverse_);
    archive.matrix("sketch.F_inverse", F_inverse);
    if constexpr (Archive::reading) inverse_ = transposed(F_inverse);
  }

 private:
  static constexpr double kDefect = 1e-12;

  // Room for one more direction: V' = U (V; q̂) over Z' = (Z; ĝ/|ĝ|).
  void append(const Absorption& in, double rho, Transition& out) {
    const size_t k = in.k;
    const double norm = in.c * std::sqrt(in.energy);  // |ĝ|
    out.sparse = out.append = true;
    for (size_t j = 0; j <= k; ++j) {
      const double* u = spectrum_.eigen.vectors[j];
      double* F = out.F[j];
      for (size_t i = 0; i < k; ++i) {
        F[i] = 0;
        for (size_t l = 0; l < k; ++l) F[i] += (u[l] - u[k] * in.p_hat[l] / rho) * (*in.F)(l, i);
      }
      F[k] = u[k] * norm / rho;
      // (Z; ĝ/|ĝ|) = [F⁻¹ 0; p̂ᵀ/|ĝ| ρ/|ĝ|] (V; q̂)
      row_of_inverse(u, k, next_inverse_[j]);
      next_inverse_(j, k) = (dot(in.p_hat, u, k) + rho * u[k]) / norm;
    }
    out.condition = condition(out.F, next_inverse_, k + 1, in.tolerated);
  }

  // ĝ lies in the span of V: only a rotation.
  void rotate(const Absorption& in, Transition& out) {
    const size_t k = in.k;
    out.sparse = true;
    rotated_ = true;
    std::fill(out.delta.begin(), out.delta.end(), 0.0);
    std::fill(out.mu.begin(), out.mu.end(), 0.0);
    multiply(spectrum_.eigen.vectors, *in.F, k, out.F);
    multiply(spectrum_.eigen.vectors, inverse_, k, next_inverse_);
    out.condition = condition(out.F, next_inverse_, k, in.tolerated);
  }

  // One direction too many: the last, y, is discarded.
  void truncate(const Absorption& in, Transition& out) {
    const size_t k = in.k;
    const Matrix& U = spectrum_.eigen.vectors;
    const double* y = U[k];
    const double qy = dot(spectrum_.q().data(), y, k + 1);
    out.sparse = qy != 0 && std::fabs(y[k]) > 1e-8;
    if (!out.sparse) return;
    for (size_t i = 0; i < k; ++i) out.mu[i] = -y[i] / qy;
    for (size_t i = 0; i < k; ++i) {
      ratio_[i] = y[i] / y[k];
      inverse_ev_[i] = 1 / spectrum_.old_ev[i];
    }
    for (size_t j = 0; j < k; ++j) {
      const double value = spectrum_.eigen.values[j], inverse_value = 1 / value, last = U(j, k);
      const double* u = U[j];
      const double* ev = spectrum_.old_ev.data();
      double* M = M_[j];
      double* M_inverse = M_inverse_[j];
      for (size_t i = 0; i < k; ++i) {
        M[i] = u[i] * (ev[i] * inverse_value);
        M_inverse[i] = (u[i] - ratio_[i] * last) * (value * inverse_ev_[i]);
      }
    }
    out.sparse = defect(in, out.mu) <= kDefect;
    if (!out.sparse) return;
    multiply(M_, *in.F, k, out.F);
    multiply(M_inverse_, inverse_, k, next_inverse_);
    row_of_inverse(out.mu.data(), k, out.delta.data());
    out.condition = condition(out.F, next_inverse_, k, in.tolerated);
  }

  // How far M (V + μĝᵀ) is from the orthonormal U (V; q̂) that it stands for: M divides by
  // eigenvalues, which magnifies the rounding errors of U where the spectrum is wide.
  double defect(const Absorption& in, const Vector& mu) const {
    const double rho = std::sqrt(in.rho2);
    Pair worst{};
    for (size_t j = 0; j < in.k; ++j) {
      const double* u = spectrum_.eigen.vectors[j];
      const double along = dot(M_[j], mu.data(), in.k);
      const double* M = M_[j];
      size_t i = 0;
      for (; i + 2 <= in.k; i += 2)
        worst = larger_sizes(worst,
                             load_pair(M + i) + along * load_pair(in.p_hat + i) - load_pair(u + i));
      const double odd = i < in.k ? M[i] + along * in.p_hat[i] - u[i] : 0.0;
      worst = larger_sizes(worst, Pair{odd, along * rho - u[in.k]});
    }
    return std::max(worst[0], worst[1]);
  }

  // xᵀF⁻ᵀ of the leading n numbers.
  void row_of_inverse(const double* x, size_t n, double* out) const {
    std::fill(out, out + n, 0.0);
    for (size_t l = 0; l < n; ++l) {
      const double* row = inverse_[l];
      for (size_t i = 0; i < n; ++i) out[i] += x[l] * row[i];
    }
  }

  static Matrix transposed(const Matrix& A) {
    Matrix out(A.cols(), A.rows());
    for (size_t i = 0; i < A.rows(); ++i)
      for (size_t j = 0; j < A.cols(); ++j) out(j, i) = A(i, j);
    return out;
  }

  static double condition(const Matrix& F, const Matrix& inverse, size_t n, double tolerated) {
    const double simple = largest_entry(F, n) * largest_entry(inverse, n);
    if (simple <= tolerated) return simple;
    Vector squares(n, 0.0);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) squares[j] += inverse(i, j) * inverse(i, j);
    return std::sqrt(squared_amplification(F, squares, n));
  }

  Spectrum spectrum_;
  size_t m_;
  Matrix inverse_, next_inverse_;  // F⁻ᵀ: transposed, so that all loops run along rows
  Matrix M_, M_inverse_;           // M and M⁻ᵀ
  Vector ratio_, inverse_ev_;
  bool rotated_ = false;
};

}  // namespace sonline
