// Eigenvalues and eigenvectors of diag(d) + q q^T for d in descending order, in O(n^2).
//
// The eigenvalues are the roots of the secular equation 1 + sum_i q_i^2 / (d_i - s) = 0, one
// between every two poles. Each is found relative to its nearest pole, so that the differences d_i
// - s keep all their digits, by the rational iteration of R.-C. Li (LAPACK Working Note 89, "the
// middle way") inside a bracket. The eigenvectors are those of a q that fits the computed roots
// exactly (Gu & Eisenstat 1994), which makes them orthonormal to working precision whatever the
// gaps.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sonline/matrix.hpp"

namespace sonline {

class SecularSolver {
 public:
  Vector values;   // eigenvalues, descending
  Matrix vectors;  // row j (its first n entries) is the unit eigenvector of values[j]

  void solve(const double* d_in, const double* q_in, size_t n) {
    has_avx2() ? solve_avx2(d_in, q_in, n) : solve_plain(d_in, q_in, n);
  }

 private:
  SONLINE_AVX2 [[gnu::flatten]] void solve_avx2(const double* d_in, const double* q_in, size_t n) {
    solve_any(d_in, q_in, n);
  }
  void solve_plain(const double* d_in, const double* q_in, size_t n) { solve_any(d_in, q_in, n); }

  void solve_any(const double* d_in, const double* q_in, size_t n) {
    prepare(d_in, q_in, n);
    const size_t active = poles_.size();
    roots_.resize(active);
    if (gaps_.rows() < n) {
      gaps_ = Matrix(n, whole_quads(n));
      inverse_ = Matrix(n, whole_quads(n));
    }
    invert_distances();
    for (size_t j = 0; j < active; ++j) find_root(j);
    fit_weights();
    assemble(n);
  }

  // Deflation (Dongarra & Sorensen 1987): components of q that are zero, and all but one of several
  // equal poles (after a rotation among them), have nothing to solve for.
  void prepare(const double* d_in, const double* q_in, size_t n) {
    d_.assign(d_in, d_in + n);
    q_.assign(q_in, q_in + n);
    rotations_.clear();
    poles_.clear();
    double norm = 0;
    for (size_t i = 0; i < n; ++i) norm += q_[i] * q_[i];
    const double eps = std::numeric_limits<double>::epsilon();
    const double tolerance = 8 * eps * std::max(n > 0 ? std::fabs(d_[0]) : 0.0, norm);
    active_.assign(n, false);
    size_t last = n;  // the previous active pole
    for (size_t i = 0; i < n; ++i) {
      if (std::fabs(q_[i]) * std::sqrt(norm) <= tolerance) {
        q_[i] = 0;
        continue;
      }
      if (last < n) {
        const double r = std::sqrt(q_[last] * q_[last] + q_[i] * q_[i]);
        const double c = q_[i] / r, s = q_[last] / r;
        if (std::fabs((d_[last] - d_[i]) * c * s) <= tolerance) {
          // Rotate the weight of `last` into i; what is left of `last` is an eigenvector.
          q_[i] = r;
          q_[last] = 0;
          active_[last] = false;
          const double dl = d_[last], di = d_[i];
          d_[last] = dl * c * c + di * s * s;
          d_[i] = dl * s * s + di * c * c;
          rotations_.push_back({last, i, c, s});
        }
      }
      active_[i] = true;
      last = i;
    }
    for (size_t i = 0; i < n; ++i)
      if (active_[i]) poles_.push_back(i);
    const size_t padded = whole_quads(poles_.size());
    d_active_.resize(padded);
    w_.resize(padded);
    products_.resize(padded);
    q_active_.resize(padded);
    for (size_t k = 0; k < poles_.size(); ++k) {
      d_active_[k] = d_[poles_[k]];
      q_active_[k] = q_[poles_[k]];
      w_[k] = q_active_[k] * q_active_[k];
    }
    for (size_t k = poles_.size(); k < padded; ++k) {  // poles without weight, far away
      d_active_[k] = -std::numeric_limits<double>::infinity();
      w_[k] = 0;
      q_active_[k] = 0;
    }
  }

  // Root j lies in (d_j, d_{j-1}), the first one in (d_0, d_0 + |q|^2).
  void find_root(size_t j) {
    const double* d = d_active_.data();
    const size_t n = poles_.size();
    double width = 0;
    if (j == 0) {
      for (size_t i = 0; i < n; ++i) width += w_[i];
      width *= 1 + 1e-12;  // the root may be the bound itself
    } else {
      width = d[j - 1] - d[j];
    }
    // A root that moves little from its pole is about w_j / (1 + what the other poles say there).
    const double guess = w_[j] / others_at(j);
    if (j == 0 || (guess > 0 && guess < 0.25 * width)) {
      const double s = refine(j, j, 0, width, guess);
      if (j == 0 || s <= 0.5 * width) return;
    }
    // The nearer pole is the better origin; on which side of the middle the root is, f says there.
    const double *w = w_.data(), pole = d[j], half = 0.5 * width;
    Quad middle{};
    for (size_t i = 0; i < n; i += kQuad)
      middle += load_quad(w + i) / ((load_quad(d + i) - pole) - half);
    if (1 + sum_of(middle) >= 0)
      refine(j, j, 0, 0.5 * width, guess);
    else
      refine(j, j - 1, -0.5 * width, 0, w_[j - 1] / others_at(j - 1));
  }

  // 1 / (d_i − d_j) in row j, and 0 on the diagonal.
  void invert_distances() {
    const size_t n = poles_.size();
    const double* d = d_active_.data();
    for (size_t j = 0; j < n; ++j) {
      double *inverse = inverse_[j], pole = d[j];
      for (size_t i = 0; i < n; i += kQuad)
        store_quad(inverse + i, 1.0 / (load_quad(d + i) - pole));
      inverse[j] = 0;
    }
  }

  // The secular function at a pole without that pole's own term.
  double others_at(size_t j) const { return 1 + dot_quads(w_.data(), inverse_[j], poles_.size()); }

  // Over whole quads: the numbers beyond n are 0.
  [[gnu::always_inline]] static inline double dot_quads(const double* a, const double* b,
                                                        size_t n) {
    Quad sum{};
    for (size_t i = 0; i < n; i += kQuad) sum += load_quad(a + i) * load_quad(b + i);
    return sum_of(sum);
  }

  // Solves for root j as d_base + s in the bracket; leaves d_i - root in row j of gaps_.
  double refine(size_t j, size_t base, double low, double high, double s) {
    const size_t n = poles_.size();
    const double *d = d_active_.data(), *w = w_.data(), origin = d[base];
    double* delta = gaps_[j];
    if (!(s > low && s < high)) s = 0.5 * (low + high);
    constexpr double eps = std::numeric_limits<double>::epsilon();
    for (int iteration = 0; iteration < 100; ++iteration) {
      // φ: poles to the right, positive terms; ψ: those to the left.
      Quad phis{}, phi_slopes{}, psis{}, psi_slopes{};
      for (size_t i = 0; i < n; i += kQuad) {
        const Quad gap = (load_quad(d + i) - origin) - s, inverse = 1.0 / gap;
        const Quad term = load_quad(w + i) * inverse, slope = term * inverse;
        const auto right = gap > 0;
        store_quad(delta + i, gap);
        phis += chosen(term, right);
        psis += chosen(term, ~right);
        phi_slopes += chosen(slope, right);
        psi_slopes += chosen(slope, ~right);
      }
      const Pair values = sums_of(phis, psis), slopes = sums_of(phi_slopes, psi_slopes);
      const double phi = values[0], phi_slope = slopes[0], psi = values[1], psi_slope = slopes[1];
      const double f = 1 + psi + phi;
      if (std::fabs(f) <= eps * static_cast<double>(n) * (1 + phi - psi)) break;
      (f < 0 ? low : high) = s;
      double next = s + next_step(j, f, psi_slope, phi_slope, delta);
      const bool inside = next > low && next < high;
      if (!inside) next = 0.5 * (low + high);
      const double moved = std::fabs(next - s);
      s = next;
      // Convergence is quadratic: after so small a step nothing is left to gain.
      if ((inside && moved <= 1e-9 * std::fabs(s)) ||
          high - low <= eps * std::max(std::fabs(low), std::fabs(high)))
        break;
    }
    for (size_t i = 0; i < n; i += kQuad) store_quad(delta + i, (load_quad(d + i) - origin) - s);
    roots_[j] = origin + s;
    return s;
  }

  static double next_step(size_t j, double f, double psi_slope, double phi_slope,
                          const double* delta) {
    const double left = delta[j];  // negative: the pole d_j is to the left
    if (j == 0) {
      // One pole: f ~ c + w / (d_0 - s).
      const double c = f - left * psi_slope;
      return c == 0 ? 0 : f * left / c;
    }
    const double right = delta[j - 1];
    const double c = f - left * psi_slope - right * phi_slope;
    const double a = (left + right) * f - left * right * (psi_slope + phi_slope);
    const double b = left * right * f;
    if (c == 0) return b / a;
    const double root = std::sqrt(std::max(a * a - 4 * b * c, 0.0));
    return a <= 0 ? (a - root) / (2 * c) : 2 * b / (a + root);
  }

  // The q for which the computed roots are exact: q_i^2 = prod_j (s_j - d_i) / prod_{j!=i} (d_j -
  // d_i).
  void fit_weights() {
    const size_t n = poles_.size();
    std::fill(products_.begin(), products_.end(), 1.0);
    double* products = products_.data();
    for (size_t j = 0; j < n; ++j) {
      const double *gaps = gaps_[j], *inverse = inverse_[j];
      const double diagonal = products[j] * -gaps[j];  // s_j - d_j > 0
      for (size_t i = 0; i < n; i += kQuad)
        store_quad(products + i,
                   load_quad(products + i) * (load_quad(gaps + i) * load_quad(inverse + i)));
      products[j] = diagonal;
    }
    for (size_t i = 0; i < n; ++i)
      q_active_[i] = std::copysign(std::sqrt(std::max(products_[i], 0.0)), q_active_[i]);
  }

  void assemble(size_t n) {
    order_.clear();
    for (size_t j = 0; j < poles_.size(); ++j) order_.push_back({roots_[j], j});
    for (size_t i = 0; i < n; ++i)
      if (!active_[i]) order_.push_back({d_[i], n + i});
    if (poles_.size() < n)  // otherwise the roots are in order already
      std::stable_sort(order_.begin(), order_.end(),
                       [](const Ranked& a, const Ranked& b) { return a.value > b.value; });
    values.resize(n);
    if (vectors.rows() < n) vectors = Matrix(n, whole_quads(n));
    for (size_t r = 0; r < n; ++r) {
      values[r] = order_[r].value;
      double* row = vectors[r];
      if (poles_.size() == n) {
        unit_quotient(gaps_[order_[r].pole], n, row);
        continue;
      }
      std::fill(row, row + n, 0.0);
      if (order_[r].pole >= n) {
        row[order_[r].pole - n] = 1;
      } else {
        const double* delta = gaps_[order_[r].pole];
        double norm = 0;
        for (size_t k = 0; k < poles_.size(); ++k) {
          const double u = q_active_[k] / delta[k];
          row[poles_[k]] = u;
          norm += u * u;
        }
        const double scale = 1 / std::sqrt(norm);
        for (size_t k = 0; k < poles_.size(); ++k) row[poles_[k]] *= scale;
      }
      for (auto it = rotations_.rbegin(); it != rotations_.rend(); ++it) {
        const double a = row[it->from], b = row[it->into];
        row[it->from] = it->c * a + it->s * b;
        row[it->into] = it->c * b - it->s * a;
      }
    }
  }

  // row = q / delta, to unit length.
  void unit_quotient(const double* delta, size_t n, double* row) const {
    const double* q = q_active_.data();
    for (size_t k = 0; k < n; k += kQuad)
      store_quad(row + k, load_quad(q + k) / load_quad(delta + k));
    const double scale = 1 / std::sqrt(dot_quads(row, row, n));
    for (size_t k = 0; k < n; k += kQuad) store_quad(row + k, scale * load_quad(row + k));
  }

  struct Ranked {
    double value;
    size_t pole;  // active index, or n + position of a deflated one
  };
  struct Rotation {
    size_t from, into;
    double c, s;
  };

  // Of the active poles, padded to whole quads (but for the roots), as are the scratch vectors.
  Vector d_active_, w_, products_, q_active_, roots_;
  Vector d_, q_;
  Matrix gaps_, inverse_;
  std::vector<unsigned char> active_;
  std::vector<size_t> poles_;
  std::vector<Rotation> rotations_;
  std::vector<Ranked> order_;
};

}  // namespace sonline
