// What the features that no row had lately have missed.
//
// The end of an epoch changes every feature by the same linear map, [w̄ | z] → [w̄ + b·z | F z]; only
// those in the rows of the epoch get more than that. So it is done to these at once, and to all
// others when a row has them again: a feature carries the number of the epoch that it is up to date
// with, and here is, for each such number, the product of all maps since then.
#pragma once

#include <algorithm>
#include <cstddef>

#include "sonline/sketch/sweep.hpp"

namespace sonline {

namespace detail {

// [w̄ | z] → [w̄ + e + b·z | f + F z] for one feature, in double and rounded once. `map` has a column
// (b; F) for each of the m numbers of z, of `width` numbers, a multiple of four; (e; f) is `extra`.
// What lies behind z stays as it is. `now` has room for `width` numbers. All versions give the same
// bits.
template <class T>
struct Carry {
  using Loop = void (*)(const double* map, size_t m, size_t width, const double* extra,
                        const T* from, T* to, double* now);
  static Loop best();
};

template <class T>
struct Quads {
  typedef T Values __attribute__((vector_size(kQuad * sizeof(T))));
  typedef T InMemory
      __attribute__((vector_size(kQuad * sizeof(T)), aligned(alignof(T)), may_alias));
};

// Outputs of `quads` vectors; the first number of the first is a weight.
template <size_t quads, bool first, class T>
[[gnu::always_inline]] inline void carry_some(const double* map, size_t m, size_t width,
                                              const double* extra, const double* now, T* to) {
  Quad sums[quads];
  for (size_t q = 0; q < quads; ++q) sums[q] = load_quad(extra + q * kQuad);
  for (size_t j = 0; j < m; ++j)
    for (size_t q = 0; q < quads; ++q)
      sums[q] += now[1 + j] * load_quad(map + j * width + q * kQuad);
  if (first) sums[0][0] += now[0];
  for (size_t q = 0; q < quads; ++q)
    *reinterpret_cast<typename Quads<T>::InMemory*>(to + q * kQuad) =
        __builtin_convertvector(sums[q], typename Quads<T>::Values);
}

template <class T>
[[gnu::always_inline]] inline void carry_loop(const double* map, size_t m, size_t width,
                                              const double* extra, const T* from, T* to,
                                              double* now) {
  for (size_t i = 0; i < width; i += kQuad)
    store_quad(now + i, __builtin_convertvector(
                            *reinterpret_cast<const typename Quads<T>::InMemory*>(from + i), Quad));
  size_t i = 0;
  if (width == 3 * kQuad) {  // up to m = 11: the sums fit into registers at once
    carry_some<3, true>(map, m, width, extra, now, to);
  } else {
    carry_some<1, true>(map, m, width, extra, now, to);
    for (i = kQuad; i + 4 * kQuad <= width; i += 4 * kQuad)
      carry_some<4, false>(map + i, m, width, extra + i, now, to + i);
    for (; i < width; i += kQuad) carry_some<1, false>(map + i, m, width, extra + i, now, to + i);
  }
  for (i = 1 + m; i < width; ++i) to[i] = static_cast<T>(now[i]);
}

template <class T>
SONLINE_AVX2 inline void carry_avx2(const double* map, size_t m, size_t width, const double* extra,
                                    const T* from, T* to, double* now) {
  carry_loop(map, m, width, extra, from, to, now);
}
template <class T>
void carry_plain(const double* map, size_t m, size_t width, const double* extra, const T* from,
                 T* to, double* now) {
  carry_loop(map, m, width, extra, from, to, now);
}

template <class T>
typename Carry<T>::Loop Carry<T>::best() {
  return has_avx2() ? &carry_avx2<T> : &carry_plain<T>;
}

}  // namespace detail

template <class T>
class MissedMaps {
 public:
  explicit MissedMaps(size_t m)
      : m_(m), width_(whole_quads(1 + m)), out_(detail::kSweepBatch * width_), zeros_(width_) {}

  // The number of the epoch at hand: how many have ended since the last rebase.
  size_t epoch() const { return epoch_; }
  // A map has a column for each row of Z: b's number above F's column, and zeros up to the width.
  size_t width() const { return width_; }
  size_t bytes() const { return columns_.capacity() * sizeof(double); }

  // Ends the epoch with this map: each column of each product is one more thing to be mapped.
  void append(const Vector& map) {
    using detail::kSweepBatch;
    for (size_t start = 0; start < epoch_ * m_; start += kSweepBatch) {
      double* column = columns_.data() + start * width_;
      loops_.apply(map.data(), width_, column + 1, width_, m_, out_.data());
      for (size_t s = 0; s < kSweepBatch; ++s, column += width_) {
        column[0] += out_[s * width_];
        std::copy_n(&out_[s * width_ + 1], m_, column + 1);
      }
    }
    ++epoch_;
    reserve();
    std::copy(map.begin(), map.end(), columns_.begin() + offset(epoch_ - 1));
  }

  // A block that was up to date in `epoch`, as it is now. `room` is for width() numbers.
  void carry(size_t epoch, const T* from, T* to, double* room) const {
    carry_(columns_.data() + offset(epoch), m_, width_, zeros_.data(), from, to, room);
  }

  // The same with one map, and something more.
  void carry(const Vector& map, const Vector& extra, T* block, double* room) const {
    carry_(map.data(), m_, width_, extra.data(), block, block, room);
  }

  void clear() { epoch_ = 0; }

  template <class Archive>
  void state(Archive& archive) {
    archive.scalar("sketch.epoch", epoch_);
    if constexpr (Archive::reading)
      if (epoch_ > kMostEpochs) archive.fail("sketch.epoch", "is out of range");
    Matrix used = archive.matrix_of("sketch.missed", epoch_ * m_, width_);
    if constexpr (!Archive::reading)
      std::copy_n(columns_.begin(), used.values().size(), used.values().begin());
    archive.matrix("sketch.missed", used);
    if constexpr (Archive::reading) {
      reserve();
      std::copy(used.values().begin(), used.values().end(), columns_.begin());
    }
  }

  static constexpr size_t kMostEpochs = 4096;  // float32 counts so far, and memory is bounded

 private:
  std::ptrdiff_t offset(size_t epoch) const {
    return static_cast<std::ptrdiff_t>(epoch * m_ * width_);
  }

  // Whole batches; what is beyond the last epoch is never used.
  void reserve() {
    using detail::kSweepBatch;
    const size_t columns = (epoch_ * m_ + kSweepBatch - 1) / kSweepBatch * kSweepBatch;
    if (columns_.size() < columns * width_) columns_.resize(columns * width_, 0.0);
  }

  const detail::SweepLoops& loops_ = detail::SweepLoops::best();
  typename detail::Carry<T>::Loop carry_ = detail::Carry<T>::best();
  size_t m_, width_, epoch_ = 0;
  Vector columns_;
  Vector out_, zeros_;
};

}  // namespace sonline
