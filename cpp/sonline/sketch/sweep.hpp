// The one loop over all features: every block [w̄ | z] becomes [w̄ + (B z)_w | (B z)_v + …], in
// double, rounded once. Both factored and appended sketches rebase with it.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "sonline/blocks.hpp"
#include "sonline/errors.hpp"
#include "sonline/matrix.hpp"

namespace sonline {

// B has one row for each of the K weight vectors and then one for each new direction; `old`
// columns, one for each row of Z. extra(slot, out) adds what does not come from the block. `m` is
// the number of columns of the block that directions may use; those not used become 0. Returns the
// Gram matrix of the new directions as they are stored (m x m, both triangles).
template <class T, class Extra>
Matrix sweep(const BlockStore<T>& blocks, size_t slots, size_t K, size_t m, const Matrix& B,
             size_t rows, size_t old, Extra&& extra) {
  const size_t rank = rows - K;
  const size_t width = (rows + 3) / 4 * 4;  // whole vectors
  // Transposed, so that the inner loops run along the outputs.
  std::vector<double> columns(old * width, 0.0), out(width), v(width), gram(m * width, 0.0);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < old; ++j) columns[j * width + i] = B(i, j);
  for (size_t slot = 0; slot < slots; ++slot) {
    T* block = blocks.at(static_cast<Slot>(slot));
    for (size_t i = 0; i < width; ++i) out[i] = 0;
    for (size_t j = 0; j < old; ++j) {
      const double z = block[K + j];
      const double* column = &columns[j * width];
      for (size_t i = 0; i < width; ++i) out[i] += column[i] * z;
    }
    extra(static_cast<Slot>(slot), out.data());
    for (size_t e = 0; e < K; ++e) {
      block[e] = static_cast<T>(static_cast<double>(block[e]) + out[e]);
      if (!std::isfinite(block[e])) throw Diverged("a weight is too large for the number type");
    }
    for (size_t j = 0; j < m; ++j) block[K + j] = j < rank ? static_cast<T>(out[K + j]) : T{0};
    for (size_t j = 0; j < rank; ++j) v[j] = block[K + j];
    for (size_t i = 0; i < rank; ++i) {
      const double vi = v[i];
      double* row = &gram[i * width];
      for (size_t j = 0; j < width; ++j) row[j] += vi * v[j];
    }
  }
  Matrix result(m, m);
  for (size_t i = 0; i < rank; ++i)
    for (size_t j = 0; j < rank; ++j) result(i, j) = gram[i * width + j];
  return result;
}

// Factors the Gram matrix of the directions in the blocks, which are orthonormal up to rounding, in
// place. A direction that turns out to depend on the others (all of it was rounding, which float32
// can mistake for news) is taken out of the blocks, and `forget(i)` is told. Returns the rank.
template <class T, class Forget>
size_t orthonormalise(const BlockStore<T>& blocks, size_t slots, size_t K, size_t m, size_t rank,
                      Matrix& gram, Forget&& forget) {
  constexpr double kOwn = 1e-3;
  for (;;) {
    Matrix factor = gram;
    const size_t bad = cholesky_until(factor, rank, kOwn);
    if (bad == rank) {
      gram = factor;
      return rank;
    }
    Matrix keep(K + rank - 1, rank);
    for (size_t i = 0; i + 1 < rank; ++i) keep(K + i, i < bad ? i : i + 1) = 1;
    gram = sweep(blocks, slots, K, m, keep, K + rank - 1, rank, [](Slot, double*) {});
    forget(bad);
    --rank;
  }
}

}  // namespace sonline
