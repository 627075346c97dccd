// Eigenvalues and eigenvectors of diag(d) + q q^T for d in descending order, in O(n^2).
//
// The eigenvalues are the roots of the secular equation 1 + sum_i q_i^2 / (d_i - s) = 0, one
// between every two poles. Each is found relative to its nearest pole, so that the differences d_i
// - s keep all their digits, by the rational iteration of Borges and Gragg (see R.-C. Li, LAPACK
// Working Note 89) inside a bracket. The eigenvectors are those of a q that fits the computed roots
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

  // d and q in a unit, a power of four, in which the largest number is about 1: products of some of
  // them are then within the range of numbers. Returns |q|² in that unit.
  double normalize(const double* d, const double* q, size_t n) {
    double norm = 0;
    for (size_t i = 0; i < n; ++i) norm += q[i] * q[i];
    int exponent = 0;
    std::frexp(std::max(n > 0 ? std::fabs(d[0]) : 0.0, norm), &exponent);
    exponent = std::clamp(exponent / 2, -500, 500);
    const double shrink = std::ldexp(1.0, -exponent), twice = shrink * shrink;
    unit_ = 1 / twice;
    d_.resize(n);
    q_.resize(n);
    for (size_t i = 0; i < n; ++i) {
      d_[i] = d[i] * twice;
      q_[i] = q[i] * shrink;
    }
    return norm * twice;
  }

  // Deflation (Dongarra & Sorensen 1987): components of q that are zero, and all but one of several
  // equal poles (after a rotation among them), have nothing to solve for.
  void prepare(const double* d_in, const double* q_in, size_t n) {
    const double norm = normalize(d_in, q_in, n);
    rotations_.clear();
    poles_.clear();
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
    other_.resize(padded);
    guesses_.resize(padded + 1);
    sum_of_weights_ = norm * (1 + 1e-12);  // the first root may be the bound itself
    for (size_t k = 0; k < poles_.size(); ++k) {
      d_active_[k] = d_[poles_[k]];
      q_active_[k] = q_[poles_[k]];
      w_[k] = q_active_[k] * q_active_[k];
      if (k > 0) other_[k] = d_active_[k - 1];
    }
    if (!poles_.empty()) other_[0] = poles_.size() > 1 ? d_active_[1] : d_active_[0] - w_[0];
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

  // Four roots at a time, from `first` on. Root j lies in (d_j, d_{j-1}), root 0 in (d_0, d_0 +
  // |q|²). It is found as d_base + s, where d_base is the nearer pole. Leaves d_i - root in row j
  // of gaps_.
  [[gnu::always_inline]] inline void find_roots(size_t first) {
    const size_t n = poles_.size();
    const double *d = d_active_.data(), *w = w_.data();
    const Quad none{}, pole = load_quad(d + first), other = load_quad(&other_[first]);
    const auto top = other < pole;  // root 0: the other pole is the next one
    const Quad half = 0.5 * (top ? none + sum_of_weights_ : other - pole);
    // The other terms of f grow with s, so that a guess for one pole is never too close to it: if
    // it is on the pole's side of the middle, so is the root. Otherwise the sign of f in the middle
    // says where it is.
    const Quad up = load_quad(&guesses_[first + 1]), down = load_quad(&guesses_[first]);
    auto near = top | ((up > 0.0) & (up <= half));
    const auto sure = near | ((down < 0.0) & (down >= -half)) | ~(load_quad(w + first) > 0.0);
    if (any_of(~sure)) {
      Quad middle = none + 1.0;
      for (size_t i = 0; i < n; ++i) middle += w[i] / ((d[i] - pole) - half);
      near |= ~sure & (middle >= 0.0);
    }
    const Quad origin = near ? pole : other;
    Quad low = near ? none : -half, high = top ? 2.0 * half : near ? half : none;
    Quad s = near ? up : down;
    s = (s > low) & (s < high) ? s : 0.5 * (low + high);

    constexpr double eps = std::numeric_limits<double>::epsilon();
    auto open = load_quad(w + first) > 0.0;
    for (int iteration = 0; iteration < 100 && any_of(open); ++iteration) {
      Quad f = none + 1.0, size = f, slope{}, bend{};  // f, its terms' sizes, f', f''/2
      for (size_t i = 0; i < n; ++i) {
        const Quad inverse = 1.0 / ((d[i] - origin) - s);
        const Quad of_f = w[i] * inverse, of_slope = of_f * inverse;
        f += of_f;
        size += size_of(of_f);
        slope += of_slope;
        bend += of_slope * inverse;
      }
      open &= size_of(f) > eps * static_cast<double>(n) * size;
      low = f < 0.0 ? s : low;
      high = f < 0.0 ? high : s;
      Quad next = s + two_poles(f, slope, bend, (pole - origin) - s, (other - origin) - s, top);
      const auto inside = (next > low) & (next < high);
      next = inside ? next : 0.5 * (low + high);
      const Quad moved = size_of(next - s);
      s = open ? next : s;
      // Convergence is cubic: after so small a step nothing is left to gain.
      open &= ~((inside & (moved <= 1e-6 * size_of(s))) |
                (high - low <= eps * larger_of(size_of(low), size_of(high))));
    }
    for (size_t l = 0; l < kQuad && first + l < n; ++l) {
      double* gaps = gaps_[first + l];
      for (size_t i = 0; i < n; i += kQuad)
        store_quad(gaps + i, (load_quad(d + i) - origin[l]) - s[l]);
      roots_[first + l] = origin[l] + s[l];
    }
  }

  // The step to the root of c + a / (d_j - s) + b / (d_other - s) that has the f, f' and f''/2 of
  // the point at hand; `left` and `right` are the distances from there to the poles. It is the root
  // between the poles, or beyond both for the top one.
  template <class Mask>
  [[gnu::always_inline]] static inline Quad two_poles(Quad f, Quad slope, Quad bend, Quad left,
                                                      Quad right, Mask top) {
    const Quad sum = left + right, product = left * right;
    const Quad a = sum * f - product * slope, b = product * f;
    const Quad c = (f - sum * slope) + product * bend;
    const Quad root = square_root(larger_of(a * a - 4.0 * b * c, Quad{}));
    const auto positive = a > 0.0;
    const Quad part = positive ? a + root : a - root;
    const auto inverse = positive ^ top;
    return (inverse ? 2.0 * b : part) / (inverse ? part : 2.0 * c);
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
    // q / (d - root), to unit length.
    const double* q = q_active_.data();
    double* lengths = products_.data();
    for (size_t r = 0; r < n; ++r) {
      values[r] = unit_ * roots_[r];
      double *row = vectors[r], *gaps = gaps_[r];
      for (size_t k = 0; k < n; k += kQuad)
        store_quad(row + k, load_quad(q + k) / load_quad(gaps + k));
      lengths[r] = dot_quads(row, row, n);
    }
    for (size_t r = 0; r < n; r += kQuad)
      store_quad(lengths + r, 1.0 / square_root(load_quad(lengths + r)));
    for (size_t r = 0; r < n; ++r) {
      double *row = vectors[r], factor = lengths[r];
      for (size_t k = 0; k < n; k += kQuad) store_quad(row + k, factor * load_quad(row + k));
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
      values[r] = unit_ * order_[r].value;
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
  Vector other_;    // of each root: the pole on its other side, or the second one for the first
  Vector guesses_;  // from 1 on, of each pole: how far a root may be
  double sum_of_weights_ = 0, unit_ = 1;
  Vector d_, q_;
  Matrix gaps_, inverse_;
  std::vector<unsigned char> active_;
  std::vector<size_t> poles_;
  std::vector<Rotation> rotations_;
  std::vector<Ranked> order_;
};

}  // namespace sonline
