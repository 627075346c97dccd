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

#include "sonline/exponential.hpp"
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
  SONLINE_AVX2 [[gnu::flatten, gnu::noinline]] void solve_avx2(const double* d_in,
                                                               const double* q_in, size_t n) {
    solve_any(d_in, q_in, n);
  }
  [[gnu::noinline]] void solve_plain(const double* d_in, const double* q_in, size_t n) {
    solve_any(d_in, q_in, n);
  }

  void solve_any(const double* d_in, const double* q_in, size_t n) {
    prepare(d_in, q_in, n);
    const size_t active = poles_.size();
    roots_.resize(active);
    if (gaps_.rows() < n) {
      gaps_ = Matrix(n, whole_quads(n));
      inverse_ = Matrix(n, whole_quads(n));
    }
    invert_distances();
    guess_roots();
    for (size_t j = 0; j < active; j += kQuad) find_roots(j);
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
    const double length = std::sqrt(norm);
    size_t last = n;  // the previous active pole
    for (size_t i = 0; i < n; ++i) {
      if (std::fabs(q_[i]) * length <= tolerance) {
        q_[i] = 0;
        continue;
      }
      if (last < n) {
        const double squares = q_[last] * q_[last] + q_[i] * q_[i];
        if (std::fabs((d_[last] - d_[i]) * q_[i] * q_[last]) <= tolerance * squares) {
          const double r = std::sqrt(squares), c = q_[i] / r, s = q_[last] / r;
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
    before_.resize(padded);
    guesses_.resize(padded + 1);
    sum_of_weights_ = norm * (1 + 1e-12);  // the first root may be the bound itself
    for (size_t k = 0; k < poles_.size(); ++k) {
      d_active_[k] = d_[poles_[k]];
      q_active_[k] = q_[poles_[k]];
      w_[k] = q_active_[k] * q_active_[k];
      before_[k] = d_active_[k > 0 ? k - 1 : 0];
    }
    for (size_t k = poles_.size(); k < padded; ++k) {  // poles without weight, far away
      d_active_[k] = -std::numeric_limits<double>::infinity();
      w_[k] = 0;
      q_active_[k] = 0;
    }
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

  // A root that moves little from its pole is about w_j / (1 + what the other poles say there).
  void guess_roots() {
    const size_t n = poles_.size();
    for (size_t j = 0; j < n; j += kQuad) {
      Quad sum{};
      for (size_t i = 0; i < n; ++i) sum += w_[i] * load_quad(inverse_[i] + j);
      store_quad(&guesses_[j + 1], load_quad(&w_[j]) / (1.0 - sum));
    }
  }

  // Over whole quads: the numbers beyond n are 0.
  [[gnu::always_inline]] static inline double dot_quads(const double* a, const double* b,
                                                        size_t n) {
    Quad sum{};
    for (size_t i = 0; i < n; i += kQuad) sum += load_quad(a + i) * load_quad(b + i);
    return sum_of(sum);
  }

  // Four roots at a time, from `first` on. Root j
  // lies in (d_j, d_{j-1}), root 0 in (d_0, d_0 + |q|²). It is found as d_base + s, where d_base is
  // the nearer pole: on which side of the middle the root is, the sign of f says there. Leaves d_i
  // - root in row j of gaps_.
  [[gnu::always_inline]] inline void find_roots(size_t first) {
    const size_t n = poles_.size();
    const double *d = d_active_.data(), *w = w_.data();
    const Quad pole = load_quad(d + first), before = load_quad(&before_[first]);
    const auto single = pole == before;
    const Quad none{}, width = single ? none + sum_of_weights_ : before - pole;
    const Quad half = 0.5 * width;
    Quad middle = Quad{} + 1.0;
    for (size_t i = 0; i < n; ++i) middle += w[i] / ((d[i] - pole) - half);
    const auto near = single | (middle >= 0.0);
    const Quad origin = near ? pole : before;
    Quad low = near ? none : -half, high = single ? width : near ? half : none;
    Quad s = near ? load_quad(&guesses_[first + 1]) : load_quad(&guesses_[first]);
    s = (s > low) & (s < high) ? s : 0.5 * (low + high);

    constexpr double eps = std::numeric_limits<double>::epsilon();
    auto open = load_quad(w + first) > 0.0;
    for (int iteration = 0; iteration < 100 && any_of(open); ++iteration) {
      // φ: poles to the right, positive terms; ψ: those to the left.
      Quad phi{}, phi_slope{}, psi{}, psi_slope{};
      const auto term_of = [&](size_t i, Quad& term, Quad& slope)
                               __attribute__((always_inline)) -> Quad {
        const Quad gap = (d[i] - origin) - s, inverse = 1.0 / gap;
        term = w[i] * inverse;
        slope = term * inverse;
        return gap;
      };
      Quad term, slope;
      size_t i = 0;
      for (; i < first; ++i) {
        term_of(i, term, slope);
        phi += term;
        phi_slope += slope;
      }
      for (; i < std::min(first + kQuad - 1, n); ++i) {
        const auto right = term_of(i, term, slope) > 0.0;
        phi += chosen(term, right);
        phi_slope += chosen(slope, right);
        psi += chosen(term, ~right);
        psi_slope += chosen(slope, ~right);
      }
      for (; i < n; ++i) {
        term_of(i, term, slope);
        psi += term;
        psi_slope += slope;
      }
      const Quad f = (1.0 + psi) + phi;
      open &= size_of(f) > eps * static_cast<double>(n) * ((1.0 + phi) - psi);
      low = f < 0.0 ? s : low;
      high = f < 0.0 ? high : s;
      const Quad left = (pole - origin) - s, right = (before - origin) - s;
      Quad next = s + (single ? one_pole(f, left, psi_slope)
                              : two_poles(f, left, right, psi_slope, phi_slope));
      const auto inside = (next > low) & (next < high);
      next = inside ? next : 0.5 * (low + high);
      const Quad moved = size_of(next - s);
      s = open ? next : s;
      // Convergence is quadratic: after so small a step nothing is left to gain.
      open &= ~((inside & (moved <= 1e-9 * size_of(s))) |
                (high - low <= eps * larger_of(size_of(low), size_of(high))));
    }
    for (size_t l = 0; l < kQuad && first + l < n; ++l) {
      double* gaps = gaps_[first + l];
      for (size_t i = 0; i < n; i += kQuad)
        store_quad(gaps + i, (load_quad(d + i) - origin[l]) - s[l]);
      roots_[first + l] = origin[l] + s[l];
    }
  }

  // A step for f ~ c + w / (d_0 - s), and for f ~ c + terms of the poles on both sides.
  [[gnu::always_inline]] static inline Quad one_pole(Quad f, Quad left, Quad slope) {
    return f * left / (f - left * slope);
  }
  [[gnu::always_inline]] static inline Quad two_poles(Quad f, Quad left, Quad right, Quad psi_slope,
                                                      Quad phi_slope) {
    const Quad c = (f - left * psi_slope) - right * phi_slope;
    const Quad a = (left + right) * f - left * right * (psi_slope + phi_slope);
    const Quad b = left * right * f;
    const Quad root = square_root(larger_of(a * a - 4.0 * b * c, Quad{}));
    return a > 0.0 ? 2.0 * b / (a + root) : (a - root) / (2.0 * c);
  }
  [[gnu::always_inline]] static inline Quad square_root(Quad quad) {
    Quad root;
    for (size_t l = 0; l < kQuad; ++l) root[l] = std::sqrt(quad[l]);
    return root;
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
    values.resize(n);
    if (vectors.rows() < n) vectors = Matrix(n, whole_quads(n));
    if (poles_.size() < n) {
      assemble_deflated(n);
      return;
    }
    for (size_t r = 0; r < n; ++r) {
      values[r] = roots_[r];
      unit_quotient(gaps_[r], n, vectors[r]);
    }
  }

  [[gnu::noinline]] void assemble_deflated(size_t n) {
    order_.clear();
    for (size_t j = 0; j < poles_.size(); ++j) order_.push_back({roots_[j], j});
    for (size_t i = 0; i < n; ++i)
      if (!active_[i]) order_.push_back({d_[i], n + i});
    std::stable_sort(order_.begin(), order_.end(),
                     [](const Ranked& a, const Ranked& b) { return a.value > b.value; });
    for (size_t r = 0; r < n; ++r) {
      values[r] = order_[r].value;
      double* row = vectors[r];
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
  Vector before_, guesses_;  // of each pole: the one before it, and how far that one's root may be
  double sum_of_weights_ = 0;
  Vector d_, q_;
  Matrix gaps_, inverse_;
  std::vector<unsigned char> active_;
  std::vector<size_t> poles_;
  std::vector<Rotation> rotations_;
  std::vector<Ranked> order_;
};

}  // namespace sonline
