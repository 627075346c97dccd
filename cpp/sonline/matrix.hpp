// Small dense matrices in double, for the sketches.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "sonline/cpu.hpp"

namespace sonline {

using Vector = std::vector<double>;

class Matrix {
 public:
  Matrix() = default;
  Matrix(size_t rows, size_t cols) : rows_(rows), cols_(cols), values_(rows * cols, 0.0) {}

  static Matrix identity(size_t n) {
    Matrix eye(n, n);
    for (size_t i = 0; i < n; ++i) eye(i, i) = 1.0;
    return eye;
  }

  size_t rows() const { return rows_; }
  size_t cols() const { return cols_; }
  double* operator[](size_t row) { return values_.data() + row * cols_; }
  const double* operator[](size_t row) const { return values_.data() + row * cols_; }
  double& operator()(size_t i, size_t j) { return values_[i * cols_ + j]; }
  double operator()(size_t i, size_t j) const { return values_[i * cols_ + j]; }
  Vector& values() { return values_; }
  const Vector& values() const { return values_; }

  // Sets all numbers but those of the first rows and columns to 0.
  void clear_beyond(size_t rows, size_t cols) {
    for (size_t i = 0; i < rows_; ++i)
      for (size_t j = i < rows ? cols : 0; j < cols_; ++j) (*this)(i, j) = 0;
  }

 private:
  size_t rows_ = 0, cols_ = 0;
  Vector values_;
};

inline Pair larger_sizes(Pair a, Pair b) {  // the larger of |a| and |b|; NaN in b stays
  typedef long long Bits __attribute__((vector_size(16)));
  constexpr long long kAllButSign = ~(1LL << 63);
  const Bits first = reinterpret_cast<Bits>(a) & kAllButSign;
  const Bits second = reinterpret_cast<Bits>(b) & kAllButSign;
  const Bits mask = reinterpret_cast<Pair>(first) >= reinterpret_cast<Pair>(second);
  return reinterpret_cast<Pair>((mask & first) | (~mask & second));
}

inline double dot(const double* a, const double* b, size_t n) {
  Pair even{}, odd{};
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    even += load_pair(a + i) * load_pair(b + i);
    odd += load_pair(a + i + 2) * load_pair(b + i + 2);
  }
  if (i + 2 <= n) {
    even += load_pair(a + i) * load_pair(b + i);
    i += 2;
  }
  even += odd;
  double sum = even[0] + even[1];
  if (i < n) sum += a[i] * b[i];
  return sum;
}

namespace detail {

// Four at a time. Those that are left at the end are computed with some of those before them once
// more.
[[gnu::always_inline]] inline void dots_any(const Matrix& A, size_t rows, const double* x, size_t n,
                                            double* out) {
  for (size_t first = 0; first < rows; first += kQuad) {
    const size_t i = std::min(first, rows - kQuad);
    const double* const row[kQuad] = {A[i], A[i + 1], A[i + 2], A[i + 3]};
    Quad sums[kQuad] = {};
    size_t j = 0;
    for (; j + kQuad <= n; j += kQuad) {
      const Quad numbers = load_quad(x + j);
      for (size_t r = 0; r < kQuad; ++r) sums[r] += load_quad(row[r] + j) * numbers;
    }
    if (j + 2 <= n) {
      const Pair numbers = load_pair(x + j);
      for (size_t r = 0; r < kQuad; ++r)
        sums[r] += __builtin_shufflevector(load_pair(row[r] + j) * numbers, Pair{}, 0, 1, 2, 3);
      j += 2;
    }
    const auto halves = [](Quad a, Quad b) __attribute__((always_inline)) {
      return __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
    };
    const Quad even = halves(sums[0], sums[2]), odd = halves(sums[1], sums[3]);
    Quad total = __builtin_shufflevector(even, odd, 0, 4, 2, 6) +
                 __builtin_shufflevector(even, odd, 1, 5, 3, 7);
    if (j < n) total += Quad{row[0][j], row[1][j], row[2][j], row[3][j]} * x[j];
    store_quad(out + i, total);
  }
}
SONLINE_AVX2 inline void dots_avx2(const Matrix& A, size_t rows, const double* x, size_t n,
                                   double* out) {
  dots_any(A, rows, x, n, out);
}

// Columns of A·B from j on: `quads` vectors of four and `pairs` of two.
template <size_t quads, size_t pairs>
[[gnu::always_inline]] inline void multiply_columns(const Matrix& A, const Matrix& B, size_t n,
                                                    size_t j, Matrix& product) {
  const size_t stride = B.cols();
  for (size_t i = 0; i < n; ++i) {
    const double* a = A[i];
    const double* b = B[0] + j;
    Quad sums[quads ? quads : 1] = {};
    Pair last[pairs ? pairs : 1] = {};
    for (size_t l = 0; l < n; ++l, b += stride) {
      for (size_t q = 0; q < quads; ++q) sums[q] += a[l] * load_quad(b + kQuad * q);
      for (size_t p = 0; p < pairs; ++p) last[p] += a[l] * load_pair(b + kQuad * quads + 2 * p);
    }
    double* out = product[i] + j;
    for (size_t q = 0; q < quads; ++q) store_quad(out + kQuad * q, sums[q]);
    for (size_t p = 0; p < pairs; ++p) store_pair(out + kQuad * quads + 2 * p, last[p]);
  }
}

// The columns that are left at the end are computed with some of those before them once more.
[[gnu::always_inline]] inline void multiply_wide(const Matrix& A, const Matrix& B, size_t n,
                                                 Matrix& product) {
  size_t j = 0;
  for (; j + 10 <= n && n - j != 11; j += 10) multiply_columns<2, 1>(A, B, n, j, product);
  for (; j + 8 <= n; j += 8) multiply_columns<2, 0>(A, B, n, j, product);
  for (; j + 4 <= n; j += 4) multiply_columns<1, 0>(A, B, n, j, product);
  if (j < n) multiply_columns<1, 0>(A, B, n, n - 4, product);
}
// Without AVX2 vectors of four are two in name only, and fill the registers.
[[gnu::always_inline]] inline void multiply_narrow(const Matrix& A, const Matrix& B, size_t n,
                                                   Matrix& product) {
  size_t j = 0;
  for (; j + 10 <= n; j += 10) multiply_columns<0, 5>(A, B, n, j, product);
  for (; j + 4 <= n; j += 4) multiply_columns<0, 2>(A, B, n, j, product);
  for (; j + 2 <= n; j += 2) multiply_columns<0, 1>(A, B, n, j, product);
  if (j < n)
    for (size_t i = 0; i < n; ++i) {
      double sum = 0;
      for (size_t l = 0; l < n; ++l) sum += A(i, l) * B(l, j);
      product(i, j) = sum;
    }
}

SONLINE_AVX2 inline void multiply_avx2(const Matrix& A, const Matrix& B, size_t n,
                                       Matrix& product) {
  n >= kQuad ? multiply_wide(A, B, n, product) : multiply_narrow(A, B, n, product);
}
inline void multiply_plain(const Matrix& A, const Matrix& B, size_t n, Matrix& product) {
  multiply_narrow(A, B, n, product);
}

}  // namespace detail

// dot() of x and each of the first rows of A.
inline void dots(const Matrix& A, size_t rows, const double* x, size_t n, double* out) {
  if (rows < kQuad)
    for (size_t i = 0; i < rows; ++i) out[i] = dot(A[i], x, n);
  else
    has_avx2() ? detail::dots_avx2(A, rows, x, n, out) : detail::dots_any(A, rows, x, n, out);
}

namespace detail {

template <size_t quads>
[[gnu::always_inline]] inline void combine_at(const double* factors, size_t rows, const Matrix& M,
                                              size_t at, double* out) {
  Quad sums[quads] = {};
  const double* row = M[0] + at;
  for (size_t l = 0; l < rows; ++l, row += M.cols())
    for (size_t q = 0; q < quads; ++q) sums[q] += factors[l] * load_quad(row + q * kQuad);
  for (size_t q = 0; q < quads; ++q) store_quad(out + at + q * kQuad, sums[q]);
}

}  // namespace detail

// out = Σ factors[l] · row l, the first n numbers and up to a whole quad.
[[gnu::always_inline]] inline void combine(const double* factors, size_t rows, const Matrix& M,
                                           size_t n, double* out) {
  size_t i = 0;
  for (; i + 3 * kQuad < n; i += 4 * kQuad) detail::combine_at<4>(factors, rows, M, i, out);
  if (i + 2 * kQuad < n) return detail::combine_at<3>(factors, rows, M, i, out);
  for (; i < n; i += kQuad) detail::combine_at<1>(factors, rows, M, i, out);
}

// The leading n x n part of A·B.
inline void multiply(const Matrix& A, const Matrix& B, size_t n, Matrix& product) {
  (has_avx2() ? detail::multiply_avx2 : detail::multiply_plain)(A, B, n, product);
}

// The largest size of an entry of the leading n x n part.
inline double largest_entry(const Matrix& A, size_t n) {
  Pair most{};
  double last = 0;
  for (size_t i = 0; i < n; ++i) {
    size_t j = 0;
    for (; j + 2 <= n; j += 2) most = larger_sizes(most, load_pair(A[i] + j));
    if (j < n) last = std::max(last, std::fabs(A(i, j)));
  }
  return std::max(last, std::max(most[0], most[1]));
}

// The lower Cholesky factor of the leading n x n part of `gram`, in place of its lower triangle.
// Returns n, or the first row that depends on those before it: less than `least` of it is
// independent.
inline size_t cholesky_until(Matrix& gram, size_t n, double least) {
  for (size_t i = 0; i < n; ++i) {
    const double whole = gram(i, i);
    for (size_t j = 0; j <= i; ++j) {
      const double rest = gram(i, j) - dot(gram[i], gram[j], j);
      if (i == j) {
        if (!(rest > least * whole)) return i;
        gram(i, i) = std::sqrt(rest);
      } else {
        gram(i, j) = rest / gram(j, j);
      }
    }
  }
  return n;
}

// The same for a matrix that must be positive definite; false if it is not.
inline bool cholesky(Matrix& gram, size_t n) { return cholesky_until(gram, n, 0.0) == n; }

// The inverse of the leading n x n lower triangle L, zeros above the diagonal.
inline Matrix invert_lower(const Matrix& L, size_t n) {
  Matrix inverse(L.rows(), L.cols());
  for (size_t j = 0; j < n; ++j) {
    inverse(j, j) = 1.0 / L(j, j);
    for (size_t i = j + 1; i < n; ++i) {
      double sum = 0;
      for (size_t k = j; k < i; ++k) sum += L(i, k) * inverse(k, j);
      inverse(i, j) = -sum / L(i, i);
    }
  }
  return inverse;
}

}  // namespace sonline
