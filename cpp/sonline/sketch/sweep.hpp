// The one loop over all features: every block [w̄ | z] becomes [w̄ + (B z)_w | (B z)_v + …], in
// double, rounded once. Both factored and appended sketches rebase with it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "sonline/blocks.hpp"
#include "sonline/errors.hpp"
#include "sonline/matrix.hpp"

namespace sonline {
namespace detail {

inline constexpr size_t kSweepBatch = 8;  // features at a time, so that sums stay in registers
// So many batches are added up by themselves, or millions of small products would each round the
// sum that the large ones have made.
inline constexpr size_t kSweepPart = 128;  // batches

// The two loops of a sweep over a batch of features. Every number is a sum by itself in a fixed
// order, so all versions give the same bits.
struct SweepLoops {
  // out[s] = columns · z[s] for the n numbers at z + s · stride; `width`, the number of outputs, is
  // a multiple of four.
  void (*apply)(const double* columns, size_t width, const double* z, size_t stride, size_t n,
                double* out);
  // sums += Σ v[s] v[s]ᵀ, the lower triangle and a little more; `width` is a multiple of four.
  void (*add_products)(const double* v, size_t rank, size_t width, double* sums);

  static const SweepLoops& best();
};

// Outputs i .. i + 4·quads of `together` features.
template <size_t together, size_t quads>
[[gnu::always_inline]] inline void apply_some(const double* columns, size_t width, const double* z,
                                              size_t stride, size_t n, double* out) {
  Quad sums[together][quads] = {};
  for (size_t j = 0; j < n; ++j)
    for (size_t q = 0; q < quads; ++q) {
      const Quad column = load_quad(columns + j * width + q * kQuad);
      for (size_t t = 0; t < together; ++t) sums[t][q] += z[t * stride + j] * column;
    }
  for (size_t t = 0; t < together; ++t)
    for (size_t q = 0; q < quads; ++q) store_quad(out + t * width + q * kQuad, sums[t][q]);
}

template <size_t together>
[[gnu::always_inline]] inline void apply_loop(const double* columns, size_t width, const double* z,
                                              size_t stride, size_t n, double* out) {
  for (size_t s = 0; s < kSweepBatch; s += together) {
    size_t i = 0;
    for (; i + 2 * kQuad <= width; i += 2 * kQuad)
      apply_some<together, 2>(columns + i, width, z + s * stride, stride, n, out + s * width + i);
    if (i < width)
      apply_some<together, 1>(columns + i, width, z + s * stride, stride, n, out + s * width + i);
  }
}

[[gnu::always_inline]] inline void products_loop(const double* v, size_t rank, size_t width,
                                                 double* sums) {
  for (size_t i = 0; i < rank; ++i)
    for (size_t j = 0; j <= i; j += kQuad) {
      Quad sum = load_quad(&sums[i * width + j]);
      for (size_t s = 0; s < kSweepBatch; ++s)
        sum += v[s * width + i] * load_quad(&v[s * width + j]);
      store_quad(&sums[i * width + j], sum);
    }
}

SONLINE_AVX2 inline void apply_avx2(const double* columns, size_t width, const double* z,
                                    size_t stride, size_t n, double* out) {
  apply_loop<4>(columns, width, z, stride, n, out);
}
SONLINE_AVX2 inline void products_avx2(const double* v, size_t rank, size_t width, double* sums) {
  products_loop(v, rank, width, sums);
}
inline void apply_plain(const double* columns, size_t width, const double* z, size_t stride,
                        size_t n, double* out) {
  apply_loop<2>(columns, width, z, stride, n, out);
}
inline void products_plain(const double* v, size_t rank, size_t width, double* sums) {
  products_loop(v, rank, width, sums);
}

inline const SweepLoops& SweepLoops::best() {
  static const SweepLoops loops = has_avx2() ? SweepLoops{&apply_avx2, &products_avx2}
                                             : SweepLoops{&apply_plain, &products_plain};
  return loops;
}

}  // namespace detail

// Adds up the products of the directions, feature by feature.
class GramSum {
 public:
  explicit GramSum(size_t rank)
      : rank_(rank),
        width_(whole_quads(rank)),
        v_(detail::kSweepBatch * width_, 0.0),
        part_(rank * width_, 0.0),
        sums_(rank * width_, 0.0) {}

  template <class T>
  void add(const T* v) {
    for (size_t j = 0; j < rank_; ++j) v_[held_ * width_ + j] = v[j];
    if (++held_ == detail::kSweepBatch) multiply();
  }

  // m x m, both triangles.
  Matrix total(size_t m) {
    std::fill(v_.begin() + static_cast<std::ptrdiff_t>(held_ * width_), v_.end(), 0.0);
    multiply();
    end_part();
    Matrix gram(m, m);
    for (size_t i = 0; i < rank_; ++i)
      for (size_t j = 0; j <= i; ++j) gram(i, j) = gram(j, i) = sums_[i * width_ + j];
    return gram;
  }

 private:
  void multiply() {
    loops_.add_products(v_.data(), rank_, width_, part_.data());
    held_ = 0;
    if (++batches_ % detail::kSweepPart == 0) end_part();
  }

  void end_part() {
    for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += part_[i];
    std::fill(part_.begin(), part_.end(), 0.0);
  }

  const detail::SweepLoops& loops_ = detail::SweepLoops::best();
  size_t rank_, width_, held_ = 0, batches_ = 0;
  Vector v_, part_, sums_;
};

// B has one row for each of the K weight vectors and then one for each new direction; `old`
// columns, one for each row of Z. extra(slot, out) adds what does not come from the block. `m` is
// the number of columns of the block that directions may use; those not used become 0. Returns the
// Gram matrix of the new directions as they are stored.
template <class T, class Extra>
Matrix sweep(const BlockStore<T>& blocks, size_t slots, size_t K, size_t m, const Matrix& B,
             size_t rows, size_t old, Extra&& extra) {
  using detail::kSweepBatch;
  const auto& loops = detail::SweepLoops::best();
  const size_t rank = rows - K, width = whole_quads(rows);
  // Transposed, so that the inner loops run along the outputs.
  Vector columns(old * width, 0.0), z(kSweepBatch * old), out(kSweepBatch * width);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < old; ++j) columns[j * width + i] = B(i, j);
  GramSum gram(rank);
  for (size_t start = 0; start < slots; start += kSweepBatch) {
    const size_t n = std::min(kSweepBatch, slots - start);
    for (size_t s = 0; s < n; ++s) {
      const T* block = blocks.at(static_cast<Slot>(start + s));
      for (size_t j = 0; j < old; ++j) z[s * old + j] = block[K + j];
    }
    loops.apply(columns.data(), width, z.data(), old, old, out.data());
    for (size_t s = 0; s < n; ++s) {
      T* block = blocks.at(static_cast<Slot>(start + s));
      double* result = &out[s * width];
      extra(static_cast<Slot>(start + s), result);
      for (size_t e = 0; e < K; ++e) {
        block[e] = static_cast<T>(static_cast<double>(block[e]) + result[e]);
        if (!std::isfinite(block[e])) throw Diverged("a weight is too large for the number type");
      }
      for (size_t j = 0; j < m; ++j) block[K + j] = j < rank ? static_cast<T>(result[K + j]) : T{0};
      gram.add(block + K);
    }
  }
  return gram.total(m);
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
