// The sketches that keep the top eigenvectors of what they have seen: Frequent Directions (paper:
// Algorithm 2), robust FD (L. Luo et al., JMLR 2019) and tail-isotropic truncation.
//
// Each round solves the small eigenproblem of diag(ev, 0) + q qᵀ, q = (p̂, ρ), on the basis (V; q̂).
// When there is no room for all, the smallest eigenvalue λ, with eigenvector y, is discarded:
//   fd          ev' = Σ − λ                    (m − 1 directions, as the paper's S has a zero row)
//   rfd         ev' = Σ − λ,  tail += λ / 2
//   isotropic   ev' = Σ,      tail += λ / (features − m)   (m directions)
// The paper's sparse form of this step inverts a singular matrix (N₁). Here the new basis is reached
// in one sparse step from the old one: the kept subspace is that of V + μĝᵀ, μ_i = p̂_i / (ev_i − λ),
// and V' = M (V + μĝᵀ) with M = Σ⁻¹ U diag(ev), U the kept eigenvectors on V. M is singular only if a
// direction of V is really lost; then the step is done the dense way.
#pragma once

#include <algorithm>
#include <cmath>

#include "sonline/secular.hpp"
#include "sonline/sketch/factored.hpp"

namespace sonline {

enum class Truncation { fd, rfd, isotropic };

template <Truncation kind>
class SpectralRule {
 public:
  Vector ev;
  double tail = 0;

  static size_t capacity(size_t size) {
    return kind == Truncation::isotropic || size == 0 ? size : size - 1;
  }

  SpectralRule(const SketchConfig& config, size_t m)
      : ev(m), size_(config.size), m_(m), F_inverse_(m, m), next_inverse_(m, m), M_(m, m),
        M_inverse_(m, m), d_(m + 1), q_(m + 1) {}

  void absorb(const Absorption& in, Transition& out) {
    const size_t k = in.k;
    if (size_ == 0 && kind != Truncation::isotropic) {  // no sketch at all
      unchanged(in, out);
      return;
    }
    const bool residual = in.rho2 > 0;
    const size_t n = k + residual;
    std::copy(ev.begin(), ev.begin() + k, d_.begin());
    std::copy(in.p_hat, in.p_hat + k, q_.begin());
    const double rho = std::sqrt(in.rho2);
    if (residual) {
      d_[k] = 0;
      q_[k] = rho;
    }
    eigen_.solve(d_.data(), q_.data(), n);
    if (n > m_) {
      truncate(in, out);
    } else if (residual) {
      append(in, rho, out);
    } else {
      rotate(in, out);
    }
    for (size_t j = 0; j < out.rank; ++j) {
      const double* u = eigen_.vectors[j];
      out.p[j] = dot(u, in.p, k) + (residual ? u[k] * rho / in.c : 0.0);
    }
  }

  void carry(const Transition& next, size_t k, const double* beta, double* out) const {
    if (next.append || rotated_) {  // β' = U [β; 0]
      for (size_t j = 0; j < next.rank; ++j) out[j] = dot(eigen_.vectors[j], beta, k);
      return;
    }
    for (size_t j = 0; j < next.rank; ++j) {  // β' = M⁻ᵀβ
      out[j] = 0;
      for (size_t i = 0; i < k; ++i) out[j] += M_inverse_(i, j) * beta[i];
    }
  }

  void dense(const Transition& next, size_t k, double, const double*, Matrix& R) const {
    for (size_t j = 0; j < next.rank; ++j)
      for (size_t i = 0; i <= k; ++i)
        R(j, i) = i < eigen_.vectors.cols() ? eigen_.vectors(j, i) : 0.0;
  }

  void accept(const Transition&) { std::swap(F_inverse_, next_inverse_); }

  void rebased(const Matrix& L, size_t rank) {
    F_inverse_ = Matrix(m_, m_);
    for (size_t i = 0; i < rank; ++i)
      for (size_t j = 0; j <= i; ++j) F_inverse_(i, j) = L(i, j);
  }

  template <class Archive>
  void state(Archive& archive) {
    archive.array("sketch.ev", ev);
    archive.scalar("sketch.tail", tail);
    archive.matrix("sketch.F_inverse", F_inverse_);
  }

 private:
  void unchanged(const Absorption& in, Transition& out) {
    out.rank = in.k;
    out.sparse = true;
    out.append = false;
    out.condition = 1;
  }

  // Room for one more direction: V' = U (V; q̂) over Z' = (Z; ĝ/|ĝ|).
  void append(const Absorption& in, double rho, Transition& out) {
    const size_t k = in.k;
    const double norm = in.c * std::sqrt(in.energy);  // |ĝ|
    out.rank = k + 1;
    out.sparse = out.append = true;
    rotated_ = false;
    for (size_t j = 0; j <= k; ++j) {
      ev[j] = eigen_.values[j];
      const double* u = eigen_.vectors[j];
      double* F = out.F[j];
      for (size_t i = 0; i < k; ++i) {
        F[i] = 0;
        for (size_t l = 0; l < k; ++l)
          F[i] += (u[l] - u[k] * in.p_hat[l] / rho) * (*in.F)(l, i);
      }
      F[k] = u[k] * norm / rho;
      // (Z; ĝ/|ĝ|) = [F⁻¹ 0; p̂ᵀ/|ĝ| ρ/|ĝ|] (V; q̂)
      for (size_t i = 0; i < k; ++i) next_inverse_(i, j) = dot(F_inverse_[i], u, k);
      next_inverse_(k, j) = (dot(in.p_hat, u, k) + rho * u[k]) / norm;
    }
    out.condition = condition(out.F, next_inverse_, out.rank);
  }

  // ĝ lies in the span of V: only a rotation.
  void rotate(const Absorption& in, Transition& out) {
    const size_t k = in.k;
    out.rank = k;
    out.sparse = true;
    out.append = false;
    rotated_ = true;
    for (size_t j = 0; j < k; ++j) {
      ev[j] = eigen_.values[j];
      out.delta[j] = out.mu[j] = 0;
      const double* u = eigen_.vectors[j];
      for (size_t i = 0; i < k; ++i) {
        out.F(j, i) = 0;
        for (size_t l = 0; l < k; ++l) out.F(j, i) += u[l] * (*in.F)(l, i);
        next_inverse_(i, j) = dot(F_inverse_[i], u, k);
      }
    }
    out.condition = condition(out.F, next_inverse_, k);
  }

  // One direction too many: the last is discarded.
  void truncate(const Absorption& in, Transition& out) {
    const size_t k = in.k;
    const double lambda = std::max(eigen_.values[k], 0.0);
    const double* y = eigen_.vectors[k];
    out.append = false;
    rotated_ = false;
    const double qy = dot(q_.data(), y, k + 1);
    const double y2 = y[k];
    out.sparse = qy != 0 && std::fabs(y2) > 1e-8;
    if (out.sparse) {
      for (size_t i = 0; i < k; ++i) out.mu[i] = -y[i] / qy;
      for (size_t j = 0; j < k; ++j) {
        const double* u = eigen_.vectors[j];
        const double value = eigen_.values[j];
        for (size_t i = 0; i < k; ++i) {
          M_(j, i) = u[i] * ev[i] / value;
          M_inverse_(i, j) = (u[i] - y[i] * u[k] / y2) * value / ev[i];
        }
      }
      for (size_t j = 0; j < k; ++j)
        for (size_t i = 0; i < k; ++i) {
          double sum = 0, inverse = 0;
          for (size_t l = 0; l < k; ++l) {
            sum += M_(j, l) * (*in.F)(l, i);
            inverse += F_inverse_(j, l) * M_inverse_(l, i);
          }
          out.F(j, i) = sum;
          next_inverse_(j, i) = inverse;
        }
      for (size_t i = 0; i < k; ++i) out.delta[i] = dot(F_inverse_[i], out.mu.data(), k);
      out.condition = condition(out.F, next_inverse_, k);
    }
    // The eigenvalues of what is kept.
    size_t rank = k;
    for (size_t j = 0; j < k; ++j)
      ev[j] = kind == Truncation::isotropic ? eigen_.values[j] : eigen_.values[j] - lambda;
    while (rank > 0 && !(ev[rank - 1] > 1e-14 * eigen_.values[0])) --rank;
    if (rank < k) {
      out.sparse = false;
      std::fill(ev.begin() + rank, ev.end(), 0.0);
    }
    out.rank = rank;
    if (kind == Truncation::rfd) tail += lambda / 2;
    if (kind == Truncation::isotropic)
      tail += lambda / std::max(in.features - static_cast<double>(m_), 1.0);
  }

  static double condition(const Matrix& F, const Matrix& inverse, size_t n) {
    double a = 0, b = 0;
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) {
        a = std::max(a, std::fabs(F(i, j)));
        b = std::max(b, std::fabs(inverse(i, j)));
      }
    return a * b;
  }

  size_t size_, m_;
  Matrix F_inverse_, next_inverse_;
  Matrix M_, M_inverse_;
  Vector d_, q_;
  SecularSolver eigen_;
  bool rotated_ = false;
};

}  // namespace sonline
