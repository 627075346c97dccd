// The two loops that do all the work per non-zero: gather (sum += x_i * block_i) and scatter
// (block_i += x_i * update), over the first `width` numbers of each block.
//
// Every column is summed separately, in the order of the non-zeros (narrow blocks in two
// interleaved halves, for the latency of the addition), so the result does not depend on the vector
// length of the machine.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "sonline/cpu.hpp"
#include "sonline/errors.hpp"

namespace sonline {

inline constexpr size_t kMaxFixedWidth = 48;
inline constexpr size_t kWidthStep = 4;

// Widths above two are padded to whole vectors of four; the padding holds zeros and stays zero.
inline size_t padded_width(size_t width) {
  return width <= 2 ? width : (width + kWidthStep - 1) / kWidthStep * kWidthStep;
}

namespace detail {

template <class T, size_t kLanes>
struct Simd {
  typedef T Vector __attribute__((vector_size(kLanes * sizeof(T))));
  typedef T InMemory
      __attribute__((vector_size(kLanes * sizeof(T)), aligned(alignof(T)), may_alias));
};

template <class T>
struct Simd<T, 1> {
  using Vector = T;
  using InMemory = T;
};

}  // namespace detail

template <class T>
struct Columns {
  using Gather = void (*)(T* const* blocks, const T* x, size_t n, size_t width, T* sum);
  using Scatter = void (*)(T* const* blocks, const T* x, size_t n, size_t width, const T* update);

  Gather gather;
  Scatter scatter;

  static Columns of_width(size_t width) { return choose<kMaxFixedWidth>(width); }

 private:
  template <size_t W>
  static Columns choose(size_t width) {
    if (width == W) return fixed<W>();
    if constexpr (W > kWidthStep) return choose<W - kWidthStep>(width);
    if (width == 1) return fixed<1>();
    if (width == 2) return fixed<2>();
    if (has_avx2()) return {&gather_any_avx2, &scatter_any_avx2};
    return {&gather_any, &scatter_any};
  }

  template <size_t W>
  static Columns fixed() {
    if constexpr (W * sizeof(T) % kWide == 0)
      if (has_avx2()) return {&gather_avx2<W>, &scatter_avx2<W>};
    return {&gather_fixed<W>, &scatter_fixed<W>};
  }

  static constexpr size_t kWide = 32;  // bytes of a vector with AVX2
  template <size_t W>
  SONLINE_AVX2 static void gather_avx2(T* const* blocks, const T* x, size_t n, size_t, T* sum) {
    gather_of<Lanes<W, kWide>>(blocks, x, n, sum);
  }
  template <size_t W>
  SONLINE_AVX2 static void scatter_avx2(T* const* blocks, const T* x, size_t n, size_t,
                                        const T* update) {
    scatter_of<Lanes<W, kWide>>(blocks, x, n, update);
  }
  template <size_t W>
  static void gather_fixed(T* const* blocks, const T* x, size_t n, size_t, T* sum) {
    gather_of<Lanes<W>>(blocks, x, n, sum);
  }
  template <size_t W>
  static void scatter_fixed(T* const* blocks, const T* x, size_t n, size_t, const T* update) {
    scatter_of<Lanes<W>>(blocks, x, n, update);
  }

  // W numbers as explicit vectors: otherwise the compiler handles them one by one.
  template <size_t W, size_t kBytes = 16>
  struct Lanes {
    static constexpr size_t kWidth = W;
    static constexpr size_t kLanes = W * sizeof(T) % kBytes ? 1 : kBytes / sizeof(T);
    static constexpr size_t kCount = W / kLanes;
    using Vector = typename detail::Simd<T, kLanes>::Vector;
    using InMemory = typename detail::Simd<T, kLanes>::InMemory;
    Vector v[kCount];

    [[gnu::always_inline]] static Lanes zero() {
      Lanes lanes;
      for (size_t j = 0; j < kCount; ++j) lanes.v[j] = Vector{};
      return lanes;
    }
    [[gnu::always_inline]] static Lanes load(const T* from) {
      Lanes lanes;
      for (size_t j = 0; j < kCount; ++j)
        lanes.v[j] = *reinterpret_cast<const InMemory*>(from + j * kLanes);
      return lanes;
    }
    [[gnu::always_inline]] void store(T* to) const {
      for (size_t j = 0; j < kCount; ++j) *reinterpret_cast<InMemory*>(to + j * kLanes) = v[j];
    }
    [[gnu::always_inline]] void add(T factor, const Lanes& other) {
      for (size_t j = 0; j < kCount; ++j) v[j] += factor * other.v[j];
    }
  };

  // One or two vectors of sums would wait for each other.
  static constexpr bool in_halves(size_t width) { return width <= 2 * kWidthStep; }

  template <class L>
  [[gnu::always_inline]] static void gather_of(T* const* blocks, const T* x, size_t n, T* sum) {
    L even = L::zero();
    size_t i = 0;
    if constexpr (in_halves(L::kWidth)) {
      L odd = L::zero();
      for (; i + 1 < n; i += 2) {
        even.add(x[i], L::load(blocks[i]));
        odd.add(x[i + 1], L::load(blocks[i + 1]));
      }
      if (i < n) even.add(x[i], L::load(blocks[i]));
      even.add(1, odd);
    } else {
      for (; i < n; ++i) even.add(x[i], L::load(blocks[i]));
    }
    even.store(sum);
  }

  template <class L>
  [[gnu::always_inline]] static void scatter_of(T* const* blocks, const T* x, size_t n,
                                                const T* update) {
    const L u = L::load(update);
#pragma GCC unroll 4
    for (size_t i = 0; i < n; ++i) {
      L block = L::load(blocks[i]);
      block.add(x[i], u);
      block.store(blocks[i]);
    }
  }

  // Wider blocks in parts: as many sums at a time as fit in the registers.
  template <size_t kBytes>
  [[gnu::always_inline]] static void gather_parts(T* const* blocks, const T* x, size_t n,
                                                  size_t width, T* sum) {
    size_t at = 0;
    for (; at + kPart<kBytes> <= width; at += kPart<kBytes>)
      gather_part<Lanes<kPart<kBytes>, kBytes>>(blocks, x, n, at, sum);
    for (; at + kWidthStep <= width; at += kWidthStep)
      gather_part<Lanes<kWidthStep>>(blocks, x, n, at, sum);
  }
  template <class L>
  [[gnu::always_inline]] static void gather_part(T* const* blocks, const T* x, size_t n, size_t at,
                                                 T* sum) {
    L sums = L::zero();
    for (size_t i = 0; i < n; ++i) sums.add(x[i], L::load(blocks[i] + at));
    sums.store(sum + at);
  }
  template <size_t kBytes>
  [[gnu::always_inline]] static void scatter_parts(T* const* blocks, const T* x, size_t n,
                                                   size_t width, const T* update) {
    for (size_t i = 0; i < n; ++i) {
      size_t at = 0;
      for (; at + kPart<kBytes> <= width; at += kPart<kBytes>)
        scatter_part<Lanes<kPart<kBytes>, kBytes>>(blocks[i] + at, x[i], update + at);
      for (; at + kWidthStep <= width; at += kWidthStep)
        scatter_part<Lanes<kWidthStep>>(blocks[i] + at, x[i], update + at);
    }
  }
  template <class L>
  [[gnu::always_inline]] static void scatter_part(T* block, T x, const T* update) {
    L numbers = L::load(block);
    numbers.add(x, L::load(update));
    numbers.store(block);
  }
  template <size_t kBytes>
  static constexpr size_t kPart = 8 * kBytes / sizeof(T);

  static void gather_any(T* const* blocks, const T* x, size_t n, size_t width, T* sum) {
    gather_parts<16>(blocks, x, n, width, sum);
  }
  static void scatter_any(T* const* blocks, const T* x, size_t n, size_t width, const T* update) {
    scatter_parts<16>(blocks, x, n, width, update);
  }
  SONLINE_AVX2 static void gather_any_avx2(T* const* blocks, const T* x, size_t n, size_t width,
                                           T* sum) {
    gather_parts<kWide>(blocks, x, n, width, sum);
  }
  SONLINE_AVX2 static void scatter_any_avx2(T* const* blocks, const T* x, size_t n, size_t width,
                                            const T* update) {
    scatter_parts<kWide>(blocks, x, n, width, update);
  }
};

// Throws if block_i += x_i * update would leave the range of T. Steps far smaller than that range
// are not checked: no stream is long enough for them to add up to it.
template <class T>
void check_room(T* const* blocks, const T* x, size_t n, double energy, const T* update,
                size_t width) {
  constexpr double kSmall = std::numeric_limits<T>::max() / (uint64_t{1} << 40);
  double size = 0;
  for (size_t j = 0; j < width; ++j) size += std::fabs(static_cast<double>(update[j]));
  if (size * std::sqrt(energy) <= kSmall && size <= kSmall) return;
  bool fits = std::isfinite(size);
  for (size_t i = 0; i < n && fits; ++i)
    for (size_t j = 0; j < width; ++j)
      fits = fits && std::isfinite(blocks[i][j] + x[i] * update[j]);
  if (!fits) throw Diverged("a step is too large for the number type");
}

}  // namespace sonline
