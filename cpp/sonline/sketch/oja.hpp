// Oja's sketch (paper: Algorithm 3, Eq. 3; sparse: Algorithm 5).
//
//   V' = orth(V + γ p̂ ĝᵀ),  p̂ = V ĝ,  ev = tΛ
//
// Two departures. Gram–Schmidt has a closed form: (V + γp̂ĝᵀ)(·)ᵀ = I + c̄ p̂p̂ᵀ with
// c̄ = 2γ + γ²|ĝ|², whose Cholesky factor L is known from the partial sums s_i = 1 + c̄ Σ_{j≤i} p̂_j²,
// so F' = L⁻¹F costs O(m²) and neither K nor Decompose is needed. And V is not drawn at random: the
// first m linearly independent ĝ start it, so no dimension must be known and Z stays sparse.
#pragma once

#include <algorithm>
#include <cmath>

#include "sonline/sketch/factored.hpp"

namespace sonline {

class OjaRule {
 public:
  static constexpr bool kLower = true;  // F is a lower triangle
  static constexpr bool kTakesCurvature = true;

  static size_t capacity(size_t size) { return size; }

  OjaRule(const SketchConfig& config, size_t m)
      : ev_(m),
        m_(m),
        step_(config.oja_step),
        scale_free_(config.scale_free),
        keep_(m),
        mix_(m),
        running_(m),
        roots_(m + 1, 1.0) {}

  const Vector& ev() const { return ev_; }
  double tail() const { return 0; }

  static double times_counted(double, size_t, double times) { return times; }

  void absorb(const Absorption& in, Transition& out) {
    const size_t k = in.k;
    const double nu = in.c * in.c * in.energy;
    ev_before_ = ev_;
    total_before_ = total_;
    growth_before_ = growth_;
    total_ += nu;
    // With γ = c/t the running mean Λ, times t, obeys ev ← decay·ev + gain·p̂²; both are 1 for c
    // = 1.
    double decay = 1, gain = 1, gamma;
    if (scale_free_) {
      gamma = static_cast<double>(m_) / total_;
    } else {
      gamma = std::min(step_ / in.t, 1 / in.unit);
      if (step_ != 1.0) {
        decay = in.t > in.unit ? (1 - gamma * in.unit) * (in.t / (in.t - in.unit)) : 0.0;
        gain = gamma * in.t;
      }
    }
    for (size_t i = 0; i < k; ++i) ev_[i] = decay * ev_[i] + gain * in.p_hat[i] * in.p_hat[i];

    out.sparse = true;
    out.append = k < m_ && in.rho2 > 0;
    if (out.append) {
      const double rho = std::sqrt(in.rho2);
      ev_[k] = gain * in.rho2;
      out.rank = k + 1;
      append_residual(in, rho, out);
      out.p[k] = rho / in.c;
      std::copy(in.p, in.p + k, out.p.begin());
      // The new row of F is the larger, the more of ĝ lies in V.
      growth_ *= std::max(nu / in.rho2, 1.0);
      next_growth_ = growth_;
      if (next_growth_ > in.tolerated * in.tolerated) next_growth_ = measured_growth(out.F, k + 1);
      out.condition = std::sqrt(next_growth_);
      return;
    }
    out.rank = k;
    gamma_ = gamma = std::min(gamma, kLargestPush / nu);
    const double cc = growth_rate_ = 2 * gamma + gamma * (gamma * nu);
    double s = 1;
    double* roots = roots_.data();  // of s before each direction, and after it
    for (size_t i = 0; i < k; ++i) roots[i + 1] = s += cc * in.p_hat[i] * in.p_hat[i];
    for (size_t i = 1; i <= k; ++i) roots[i] = std::sqrt(roots[i]);
    multiples(in, gamma, nu, out);
    std::fill(running_.begin(), running_.end(), 0.0);
    for (size_t i = 0; i < k; ++i) next_row(i, (*in.F)[i], in.p_hat[i], out.F[i]);
    p_hat_ = in.p_hat;
    next_growth_ = growth_ * s;
    if (next_growth_ > in.tolerated * in.tolerated) next_growth_ = measured_growth(out.F, k);
    out.condition = std::sqrt(next_growth_);
  }

  // β' with V'ᵀβ' = (V + μĝᵀ)ᵀβ: β' = Lᵀβ.
  void carry(const Transition& next, size_t k, const double* beta, double* out) const {
    if (next.append) {
      std::copy(beta, beta + k, out);
      out[k] = 0;
      return;
    }
    double later = 0;
    for (size_t i = k; i-- > 0;) {
      out[i] = beta[i] / keep_[i] + mix_[i] * later;
      later += p_hat_[i] * beta[i];
    }
  }

  // V' = R [V; q̂], R = L⁻¹ [I + γp̂p̂ᵀ, γρp̂], multiplied out: when γ|ĝ|² is large the factors have
  // lost the I, the product has not.
  void dense(const Transition& next, size_t k, double rho, const double* p_hat, Matrix& R) {
    if (next.append) {
      for (size_t i = 0; i <= k; ++i)
        for (size_t j = 0; j <= k; ++j) R(i, j) = i == j;
      return;
    }
    for (size_t i = 0; i < k; ++i)
      for (size_t j = 0; j <= k; ++j) {
        const double q = j < k ? p_hat[j] : rho;
        const double push = j < i ? gamma_ - growth_rate_ : gamma_;
        R(i, j) = (i == j ? keep_[i] : 0.0) + mix_[i] / growth_rate_ * push * q;
      }
  }

  void pass(double factor) {
    for (double& value : ev_) value *= factor;
    total_ *= factor;
  }
  void accept(const Transition&) { growth_ = next_growth_; }
  void undo() {
    ev_ = ev_before_;
    total_ = total_before_;
    growth_ = growth_before_;
  }
  template <class Archive>
  void write_knowledge(Archive& archive, double counted) const {
    archive.scalar("total", counted * total_);
  }
  template <class Archive>
  void read_knowledge(Archive& archive, const Vector& ev) {
    std::copy(ev.begin(), ev.end(), ev_.begin());
    archive.scalar("total", total_);
  }
  void rebased(const Matrix&, size_t) { growth_ = 1; }
  void forget(size_t i) {  // direction i was rounding only
    ev_.erase(ev_.begin() + static_cast<std::ptrdiff_t>(i));
    ev_.push_back(0.0);
  }

  template <class Archive>
  void state(Archive& archive, size_t) {
    archive.array("sketch.ev", ev_);
    archive.scalar("sketch.total", total_);
    archive.scalar("sketch.growth", growth_);
  }

 private:
  // What is proportional to p̂, p and Zx. All in local variables, so that it becomes vector code.
  void multiples(const Absorption& in, double gamma, double nu, Transition& out) {
    const size_t k = in.k;
    const double *p = in.p, *p_hat = in.p_hat, *Zx = in.Zx, *roots = roots_.data();
    const double cc = growth_rate_, longer = 1 + gamma * nu, along = gamma * in.c;
    double* __restrict keep = keep_.data(), * __restrict mix = mix_.data();
    double* __restrict next_p = out.p.data(), * __restrict mu = out.mu.data();
    double* __restrict delta = out.delta.data();
    for (size_t i = 0; i < k; ++i) {
      const double before = roots[i], after = roots[i + 1], inverse = 1 / (before * after);
      keep[i] = before * before * inverse;
      mix[i] = cc * p_hat[i] * inverse;
      next_p[i] = p[i] * inverse * longer;
      mu[i] = gamma * p_hat[i];
      delta[i] = along * Zx[i];
    }
  }

  // Row i of F' = L⁻¹F; running_ is the sum of the rows before, times p̂. Both triangles are lower,
  // so whole pairs may reach beyond the diagonal: there is nothing there.
  void next_row(size_t i, const double* F, double p_hat, double* next) {
    double* running = running_.data();
    size_t j = 0;
    for (; j <= i && j + 2 <= m_; j += 2) {
      const Pair row = load_pair(F + j), before = load_pair(running + j);
      store_pair(next + j, keep_[i] * row - mix_[i] * before);
      store_pair(running + j, before + p_hat * row);
    }
    if (j <= i) {
      next[j] = keep_[i] * F[j] - mix_[i] * running[j];
      running[j] += p_hat * F[j];
      ++j;
    }
    std::fill(next + j, next + m_, 0.0);
  }

  // A γ|ĝ|² beyond this turns V no further, and its square must stay finite.
  static constexpr double kLargestPush = 1e60;

  // The determinant overstates the condition the more, the larger m is. Twice what it really is, so
  // that it need not be measured again soon.
  static double measured_growth(const Matrix& F, size_t k) {
    const Matrix inverse = invert_lower(F, k);
    Vector squares(k);
    for (size_t j = 0; j < k; ++j) squares[j] = dot(inverse[j], inverse[j], k);
    return 4 * squared_amplification(F, squares, k);
  }

  // F' = [F 0; −p̂ᵀF/ρ |ĝ|/ρ] over Z' = [Z; ĝ/|ĝ|].
  static void append_residual(const Absorption& in, double rho, Transition& out) {
    const size_t k = in.k, m = out.F.cols();
    for (size_t j = 0; j < m; ++j) out.F(k, j) = 0;
    for (size_t i = 0; i < k; ++i)
      for (size_t j = 0; j < m; ++j) {
        out.F(i, j) = (*in.F)(i, j);
        out.F(k, j) -= in.p_hat[i] * (*in.F)(i, j) / rho;
      }
    out.F(k, k) = in.c * std::sqrt(in.energy) / rho;
  }

  Vector ev_;
  size_t m_;
  double step_;
  bool scale_free_;
  double total_ = 0;   // Σ|ĝ|²
  double growth_ = 1;  // det of all L Lᵀ since the last rebase: bounds the square of cond(F)
  double next_growth_ = 1;
  Vector ev_before_;  // the last absorb
  double total_before_ = 0, growth_before_ = 1;
  double gamma_ = 0;
  double growth_rate_ = 0;         // c̄
  const double* p_hat_ = nullptr;  // of the row at hand
  Vector keep_, mix_, running_;    // the rows of L⁻¹: keep on the diagonal, mix before it
  Vector roots_;                   // the first is 1
};

}  // namespace sonline
