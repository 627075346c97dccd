// Small dense matrices in double: just what the sketches need.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

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

 private:
  size_t rows_ = 0, cols_ = 0;
  Vector values_;
};

inline double dot(const double* a, const double* b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// The lower Cholesky factor of the leading n x n part of `gram`, in place of its lower triangle.
// Returns n, or the first row that depends on those before it: less than `least` of it is its own.
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
