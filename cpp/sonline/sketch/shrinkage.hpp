// The factors αA⁻¹ on the directions of a basis, for several weight vectors, each with its α.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "sonline/columns.hpp"
#include "sonline/cpu.hpp"
#include "sonline/exponential.hpp"
#include "sonline/matrix.hpp"

namespace sonline {

class Shrinkage {
 public:
  Shrinkage(size_t K, size_t m)
      : K_(K),
        m_(m),
        factors_(K, whole_quads(m)),
        alphas_(K),
        squares_(whole_quads(m)),
        ev_(whole_quads(m)) {}

  // The eigenvalues have changed, or the smallest factor.
  void forget() {
    std::fill(alphas_.begin(), alphas_.end(), std::numeric_limits<double>::quiet_NaN());
  }

  // The factors of a weight vector, which are at least `least`.
  const double* factors(size_t expert, double alpha, const double* ev, double least) {
    double* factors = factors_[expert];
    if (alpha == alphas_[expert]) return factors;
    has_avx2() ? shrink_avx2(alpha, ev, least, factors) : shrink(alpha, ev, least, factors);
    alphas_[expert] = alpha;
    return factors;
  }

  // The same after energies().
  const double* known(size_t expert) const { return factors_[expert]; }

  // For each weight vector, the sum of factors times p², of k directions, and `rest`.
  void energies(const double* alphas, const double* ev, double least, const double* p, size_t k,
                double rest, double* out) {
    has_avx2() ? energies_avx2(alphas, ev, least, p, k, rest, out)
               : energies_any(alphas, ev, least, p, k, rest, out);
  }

 private:
  [[gnu::always_inline]] inline void shrink(double alpha, const double* ev, double least,
                                            double* factors) const {
    for (size_t i = 0; i < m_; ++i) factors[i] = std::max(alpha / (alpha + ev[i]), least);
  }
  SONLINE_AVX2 void shrink_avx2(double alpha, const double* ev, double least,
                                double* factors) const {
    shrink(alpha, ev, least, factors);
  }
  [[gnu::always_inline]] inline void energies_any(const double* alphas, const double* eigenvalues,
                                                  double least, const double* p, size_t k,
                                                  double rest, double* out) {
    const size_t used = whole_quads(k);
    double *ev = ev_.data(), *squares = squares_.data();
    std::copy_n(eigenvalues, m_, ev);
    for (size_t i = 0; i < k; ++i) squares[i] = p[i] * p[i];
    std::fill(squares + k, squares + used, 0.0);
    for (size_t e = 0; e < K_; ++e) {
      const double alpha = alphas_[e] = alphas[e];
      double* factors = factors_[e];
      Quad sum{};
      for (size_t i = 0; i < used; i += kQuad) {
        const Quad factor = larger_of(all<Quad>(least), alpha / (alpha + load_quad(ev + i)));
        store_quad(factors + i, factor);
        sum += factor * load_quad(squares + i);
      }
      out[e] = rest + sum_of(sum);
    }
  }
  SONLINE_AVX2 void energies_avx2(const double* alphas, const double* ev, double least,
                                  const double* p, size_t k, double rest, double* out) {
    energies_any(alphas, ev, least, p, k, rest, out);
  }

  size_t K_, m_;
  Matrix factors_;
  Vector alphas_;        // for which they were computed
  Vector squares_, ev_;  // room, in whole quads
};

}  // namespace sonline
