// What a sweep over all features needs: the Gram matrix of the directions, and when to do one.
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
// This many batches are added up separately, or millions of small products would each round the
// sum that the large ones have made.
inline constexpr size_t kSweepPart = 128;  // batches

// The loop of a sweep over a batch of features. Every number is a sum by itself in a fixed order,
// so all versions give the same bits.
struct SweepLoops {
  // sums += Σ v[s] v[s]ᵀ, the lower triangle and a little more; `width` is a multiple of four.
  void (*add_products)(const double* v, size_t rank, size_t width, double* sums);

  static const SweepLoops& best();
};

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

SONLINE_AVX2 inline void products_avx2(const double* v, size_t rank, size_t width, double* sums) {
  products_loop(v, rank, width, sums);
}
inline void products_plain(const double* v, size_t rank, size_t width, double* sums) {
  products_loop(v, rank, width, sums);
}

inline const SweepLoops& SweepLoops::best() {
  static const SweepLoops loops =
      has_avx2() ? SweepLoops{&products_avx2} : SweepLoops{&products_plain};
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

// Factors the Gram matrix of directions that are orthonormal up to rounding, in place; returns the
// rank, or the first direction that depends on those before it: all of it was rounding, which
// float32 can mistake for a new direction.
inline size_t dependent_row(Matrix& gram, size_t rank) {
  constexpr double kIndependent = 1e-3;
  Matrix factor = gram;
  const size_t bad = cholesky_until(factor, rank, kIndependent);
  if (bad == rank) gram = factor;
  return bad;
}

inline void remove_row_and_column(Matrix& A, size_t n, size_t lost) {
  for (size_t i = 0; i + 1 < n; ++i)
    for (size_t j = 0; j + 1 < n; ++j) A(i, j) = A(i + (i >= lost), j + (j >= lost));
  for (size_t i = 0; i < n; ++i) A(i, n - 1) = A(n - 1, i) = 0;
}

// What keeping a factored sketch exact has cost, and how strained it is.
struct Upkeep {
  uint64_t work = 0;  // non-zeros read since the last sweep
  double strain = 1;  // the largest magnification of rounding errors by a row since then
  int64_t sweeps = 0, generations = 0, folds = 0, caught_up = 0;

  // Whether the non-zeros read since the last sweep have paid for one over all features. It is a
  // few per cent of what they cost at the end of a generation, which has often lost digits, and
  // less otherwise, because rounding drifts even when nothing is strained. Where a row was so
  // nearly in the span of V that rounding is much of what is new in it, the sweep must come soon:
  // it may cost a few times what the non-zeros did.
  bool paid(size_t features, bool at_generation, double strained) const {
    constexpr uint64_t kStrained = 1, kAtGeneration = 8, kAlways = 64;
    const uint64_t each = strain > strained ? kStrained : at_generation ? kAtGeneration : kAlways;
    return work >= each * features;
  }

  // Counts those of another sketch, too.
  void add(const Upkeep& other) {
    sweeps += other.sweeps;
    generations += other.generations;
    folds += other.folds;
    caught_up += other.caught_up;
  }

  void swept() {
    work = 0;
    strain = 1;
    ++sweeps;
  }

  template <class Archive>
  void state(Archive& archive) {
    archive.scalar("sketch.work", work);
    archive.scalar("sketch.strain", strain);
    archive.scalar("sketch.sweeps", sweeps);
    archive.scalar("sketch.generations", generations);
    archive.scalar("sketch.folds_made", folds);
    archive.scalar("sketch.caught_up", caught_up);
    if constexpr (Archive::reading)  // sums over many outputs must not overflow
      for (const int64_t count : {sweeps, generations, folds, caught_up})
        if (count > int64_t{1} << 44) archive.fail("sketch.sweeps", "is out of range");
  }
};

}  // namespace sonline
