// The two loops that do all the work per non-zero: gather (sum += x_i * block_i) and scatter
// (block_i += x_i * update), over the first `width` numbers of each block.
//
// Every column is summed separately, in two interleaved halves of the non-zeros (for the latency of
// the addition), so the result depends neither on the vector length of the machine nor on the width
// of the blocks: one of several outputs has the bits of a single one.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

// W numbers in registers: vectors of 32 bytes and, for the rest, of four numbers.
template <class U, size_t W>
struct Strip {
  static constexpr size_t kWidth = W;
  static constexpr size_t kWide = 32 / sizeof(U), kWides = W / kWide,
                          kFours = W % kWide / kQuad;  // 0 or 1
  static_assert(kWides * kWide + kFours * kQuad == W);
  using Wide = Simd<U, kWide>;
  using Four = Simd<U, kQuad>;
  typename Wide::Vector wides[kWides + 1];
  typename Four::Vector fours[kFours + 1];

  [[gnu::always_inline]] static Strip zero() {
    Strip strip;
    for (size_t q = 0; q < kWides; ++q) strip.wides[q] = typename Wide::Vector{};
    for (size_t q = 0; q < kFours; ++q) strip.fours[q] = typename Four::Vector{};
    return strip;
  }
  [[gnu::always_inline]] static Strip load(const U* from) {
    Strip strip;
    for (size_t q = 0; q < kWides; ++q) strip.wides[q] = wide_at(from, q);
    for (size_t q = 0; q < kFours; ++q) strip.fours[q] = four_at(from, q);
    return strip;
  }
  [[gnu::always_inline]] void multiply(const Strip& factors) {
    for (size_t q = 0; q < kWides; ++q) wides[q] *= factors.wides[q];
    if constexpr (kFours > 0) fours[0] *= factors.fours[0];
  }
  [[gnu::always_inline]] static Strip product(U factor, const Strip& other) {
    const typename Wide::Vector factors = factor - typename Wide::Vector{};
    Strip strip;
    for (size_t q = 0; q < kWides; ++q) strip.wides[q] = factors * other.wides[q];
    if constexpr (kFours > 0) strip.fours[0] = first_four(factors) * other.fours[0];
    return strip;
  }
  [[gnu::always_inline]] void add(U factor, const Strip& other) { add(product(factor, other)); }
  [[gnu::always_inline]] void add(const Strip& other) {
    for (size_t q = 0; q < kWides; ++q) wides[q] += other.wides[q];
    if constexpr (kFours > 0) fours[0] += other.fours[0];
  }
  // Whether all are finite: x - x is 0 then, and NaN otherwise.
  [[gnu::always_inline]] bool fit() const {
    typename Wide::Vector total{};
    for (size_t q = 0; q < kWides; ++q) total += wides[q] - wides[q];
    auto four = first_four(total) + last_four(total);
    if constexpr (kFours > 0) four += fours[0] - fours[0];
    uint64_t words[sizeof four / sizeof(uint64_t)], any = 0;
    std::memcpy(words, &four, sizeof four);
    for (const uint64_t word : words) any |= word;
    return any == 0;
  }
  [[gnu::always_inline]] void store(U* to) const {
    for (size_t q = 0; q < kWides; ++q)
      *reinterpret_cast<typename Wide::InMemory*>(to + q * kWide) = wides[q];
    for (size_t q = 0; q < kFours; ++q)
      *reinterpret_cast<typename Four::InMemory*>(to + kWides * kWide + q * kQuad) = fours[q];
  }

 private:
  [[gnu::always_inline]] static typename Wide::Vector wide_at(const U* from, size_t q) {
    return *reinterpret_cast<const typename Wide::InMemory*>(from + q * kWide);
  }
  [[gnu::always_inline]] static typename Four::Vector first_four(typename Wide::Vector wide) {
    if constexpr (kWide == kQuad)
      return wide;
    else
      return __builtin_shufflevector(wide, wide, 0, 1, 2, 3);
  }
  [[gnu::always_inline]] static typename Four::Vector last_four(typename Wide::Vector wide) {
    if constexpr (kWide == kQuad)
      return wide;
    else
      return __builtin_shufflevector(wide, wide, 4, 5, 6, 7);
  }
  [[gnu::always_inline]] static typename Four::Vector four_at(const U* from, size_t q) {
    return *reinterpret_cast<const typename Four::InMemory*>(from + kWides * kWide + q * kQuad);
  }
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
    if constexpr (W % kWidthStep == 0 && W * sizeof(T) >= kWide)
      if (has_avx2()) return {&gather_avx2<W>, &scatter_avx2<W>};
    return {&gather_fixed<W>, &scatter_fixed<W>};
  }

  static constexpr size_t kWide = 32;  // bytes of a vector with AVX2
  template <size_t W>
  SONLINE_AVX2 static void gather_avx2(T* const* blocks, const T* x, size_t n, size_t, T* sum) {
    gather_of<detail::Strip<T, W>>(blocks, x, n, 0, sum);
  }
  template <size_t W>
  SONLINE_AVX2 static void scatter_avx2(T* const* blocks, const T* x, size_t n, size_t,
                                        const T* update) {
    scatter_of<detail::Strip<T, W>>(blocks, x, n, update);
  }
  template <size_t W>
  static void gather_fixed(T* const* blocks, const T* x, size_t n, size_t, T* sum) {
    gather_of<Lanes<W>>(blocks, x, n, 0, sum);
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

  template <class L>
  [[gnu::always_inline]] static void gather_of(T* const* blocks, const T* x, size_t n, size_t at,
                                               T* sum) {
    L even = L::zero(), odd = L::zero();
    size_t i = 0;
    for (; i + 1 < n; i += 2) {
      even.add(x[i], L::load(blocks[i] + at));
      odd.add(x[i + 1], L::load(blocks[i + 1] + at));
    }
    if (i < n) even.add(x[i], L::load(blocks[i] + at));
    even.add(1, odd);
    even.store(sum + at);
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
      gather_of<Lanes<kPart<kBytes>, kBytes>>(blocks, x, n, at, sum);
    for (; at + kWidthStep <= width; at += kWidthStep)
      gather_of<Lanes<kWidthStep>>(blocks, x, n, at, sum);
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
  static constexpr size_t kPart = 4 * kBytes / sizeof(T);

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
