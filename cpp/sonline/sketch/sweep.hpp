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
namespace detail {

// Σ v vᵀ, the lower triangle, over vectors that come one by one; several are added up at a time, so
// that the sums stay in registers.
class Gram {
 public:
  Gram(size_t rank, size_t width)
      : rank_(rank), width_(width), v_(kBatch * width), sums_(rank * width) {}

  double* next() { return &v_[waiting_ * width_]; }
  void push() {
    if (++waiting_ == kBatch) add_up();
  }

  Matrix matrix(size_t m) {
    add_up();
    Matrix result(m, m);
    for (size_t i = 0; i < rank_; ++i)
      for (size_t j = 0; j <= i; ++j) result(i, j) = result(j, i) = sums_[i * width_ + j];
    return result;
  }

 private:
  static constexpr size_t kBatch = 8;

  void add_up() {
    for (size_t i = 0; i < rank_; ++i)
      for (size_t j = 0; j <= i; j += 2) {
        Pair sum = load_pair(&sums_[i * width_ + j]);
        for (size_t s = 0; s < waiting_; ++s) {
          const double* v = &v_[s * width_];
          sum += v[i] * load_pair(v + j);
        }
        store_pair(&sums_[i * width_ + j], sum);
      }
    waiting_ = 0;
  }

  size_t rank_, width_, waiting_ = 0;
  Vector v_, sums_;
};

// out = columns · z for whole groups of eight outputs.
inline void apply(const double* columns, size_t width, const double* z, size_t n, double* out) {
  for (size_t i = 0; i < width; i += 8) {
    Pair sums[4] = {};
    const double* column = columns + i;
    for (size_t j = 0; j < n; ++j, column += width)
      for (size_t p = 0; p < 4; ++p) sums[p] += z[j] * load_pair(column + 2 * p);
    for (size_t p = 0; p < 4; ++p) store_pair(out + i + 2 * p, sums[p]);
  }
}

}  // namespace detail

// B has one row for each of the K weight vectors and then one for each new direction; `old`
// columns, one for each row of Z. extra(slot, out) adds what does not come from the block. `m` is
// the number of columns of the block that directions may use; those not used become 0. Returns the
// Gram matrix of the new directions as they are stored (m x m, both triangles).
template <class T, class Extra>
Matrix sweep(const BlockStore<T>& blocks, size_t slots, size_t K, size_t m, const Matrix& B,
             size_t rows, size_t old, Extra&& extra) {
  const size_t rank = rows - K;
  const size_t width = (rows + 7) / 8 * 8;
  // Transposed, so that the inner loops run along the outputs.
  Vector columns(old * width, 0.0), z(old), out(width);
  detail::Gram gram(rank, (rank + 1) / 2 * 2);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < old; ++j) columns[j * width + i] = B(i, j);
  for (size_t slot = 0; slot < slots; ++slot) {
    T* block = blocks.at(static_cast<Slot>(slot));
    for (size_t j = 0; j < old; ++j) z[j] = block[K + j];
    detail::apply(columns.data(), width, z.data(), old, out.data());
    extra(static_cast<Slot>(slot), out.data());
    for (size_t e = 0; e < K; ++e) {
      block[e] = static_cast<T>(static_cast<double>(block[e]) + out[e]);
      if (!std::isfinite(block[e])) throw Diverged("a weight is too large for the number type");
    }
    for (size_t j = 0; j < m; ++j) block[K + j] = j < rank ? static_cast<T>(out[K + j]) : T{0};
    double* v = gram.next();
    for (size_t j = 0; j < rank; ++j) v[j] = block[K + j];
    gram.push();
  }
  return gram.matrix(m);
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
