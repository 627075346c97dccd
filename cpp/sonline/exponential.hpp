// Exponentials of several numbers at a time: a row needs a dozen. The C library's differ in the
// last bit between processors with and without FMA, so no number of a model is computed with it.
//
// V is a Pair, which every processor has, or a Quad with AVX2. Every number is computed separately,
// so the results do not depend on the choice.
#pragma once

#include <algorithm>

#include "sonline/cpu.hpp"

namespace sonline {

namespace detail {

template <class V>
inline constexpr size_t kLanes = sizeof(V) / sizeof(double);

template <class V>
struct BitsOf {
  typedef long long Type __attribute__((vector_size(sizeof(V))));
};
template <class V>
using Bits = typename BitsOf<V>::Type;

}  // namespace detail

template <class V>
[[gnu::always_inline]] inline V all(double x) {
  return V{} + x;
}
// If the second is NaN, so is the result.
template <class V>
[[gnu::always_inline]] inline V smaller_of(V a, V b) {
  return a < b ? a : b;
}
template <class V>
[[gnu::always_inline]] inline V larger_of(V a, V b) {
  return a > b ? a : b;
}
template <class V>
[[gnu::always_inline]] inline V size_of(V a) {
  return reinterpret_cast<V>(reinterpret_cast<detail::Bits<V>>(a) & ~(1LL << 63));
}
template <class Mask>
[[gnu::always_inline]] inline bool any_of(Mask mask) {
  long long any = 0;
  for (size_t i = 0; i < sizeof(Mask) / sizeof any; ++i) any |= mask[i];
  return any != 0;
}

// The first n numbers, if there are so many, and zeros.
template <class V>
[[gnu::always_inline]] inline V load_some(const double* from, size_t n) {
  V v{};
  if (n >= detail::kLanes<V>)
    std::copy_n(from, detail::kLanes<V>, reinterpret_cast<double*>(&v));
  else
    for (size_t i = 0; i < n; ++i) v[i] = from[i];
  return v;
}
template <class V>
[[gnu::always_inline]] inline void store_some(double* to, size_t n, V v) {
  if (n >= detail::kLanes<V>)
    std::copy_n(reinterpret_cast<const double*>(&v), detail::kLanes<V>, to);
  else
    for (size_t i = 0; i < n; ++i) to[i] = v[i];
}

// eˣ to about one unit in the last place. Beyond ±708 the result is that for ±708, close to the
// largest and the smallest number.
template <class V>
[[gnu::always_inline]] inline V exp_of(V x) {
  // x = k ln 2 + r with a whole k: adding 1.5 · 2⁵² leaves k in the lowest bits.
  constexpr double kShift = 0x1.8p52;
  x = larger_of(all<V>(-708), smaller_of(all<V>(708), x));
  const V shifted = x * 0x1.71547652b82fep0 + kShift;
  const V k = shifted - kShift;
  const V r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
  // The series up to r¹², |r| ≤ ln 2 / 2, in Estrin's order.
  const V r2 = r * r, r4 = r2 * r2;
  const V low = (1.0 + r) + (1.0 / 2 + r * (1.0 / 6)) * r2;
  const V middle = (1.0 / 24 + r * (1.0 / 120)) + (1.0 / 720 + r * (1.0 / 5040)) * r2;
  const V high = (1.0 / 40320 + r * (1.0 / 362880)) + (1.0 / 3628800 + r * (1.0 / 39916800)) * r2 +
                 r4 * (1.0 / 479001600);
  const V series = low + (middle + high * r4) * r4;
  using Bits = detail::Bits<V>;
  return reinterpret_cast<V>(reinterpret_cast<Bits>(series) +
                             (reinterpret_cast<Bits>(shifted) << 52));
}

// The same for |x| ≤ kSmallExponent, to 1e-13.
inline constexpr double kSmallExponent = 0.125;
template <class V>
[[gnu::always_inline]] inline V exp_of_small(V x) {
  const V x2 = x * x, x4 = x2 * x2;
  const V low = (1.0 + x) + (1.0 / 2 + x * (1.0 / 6)) * x2;
  const V high = (1.0 / 24 + x * (1.0 / 120)) + (1.0 / 720 + x * (1.0 / 5040)) * x2;
  return low + (high + x4 * (1.0 / 40320)) * x4;
}

inline double exp_of(double x) { return exp_of(Pair{x, x})[0]; }

// log x of normal x > 0, to 0.01: a starting point for a search.
template <class V>
[[gnu::always_inline]] inline V rough_log(V x) {
  using Bits = detail::Bits<V>;
  const Bits bits = reinterpret_cast<Bits>(x);
  constexpr long long kFraction = (1LL << 52) - 1, kOne = 1023LL << 52, kWhole = 1075LL << 52;
  const V exponent = reinterpret_cast<V>((bits >> 52) | kWhole) - (0x1p52 + 1023);
  const V f = reinterpret_cast<V>((bits & kFraction) | kOne) - 1.0;
  return (exponent + f * (1.3437 - 0.3437 * f)) * 0.6931471805599453;
}

// log x of normal x > 0, to a few units in the last place: Halley's method for exp_of(y) = x.
template <class V>
[[gnu::always_inline]] inline V log_of(V x) {
  V y = rough_log(x);
  for (int i = 0; i < 2; ++i) {
    const V e = exp_of(y);
    y += 2.0 * (x - e) / (x + e);
  }
  return y;
}

namespace detail {

template <class V>
[[gnu::always_inline]] inline void exponentials_of(const double* x, size_t n, double* out) {
  for (size_t i = 0; i < n; i += kLanes<V>)
    store_some(out + i, n - i, exp_of(load_some<V>(x + i, n - i)));
}
SONLINE_AVX2 inline void exponentials_avx2(const double* x, size_t n, double* out) {
  exponentials_of<Quad>(x, n, out);
}

}  // namespace detail

inline void exponentials(const double* x, size_t n, double* out) {
  has_avx2() ? detail::exponentials_avx2(x, n, out) : detail::exponentials_of<Pair>(x, n, out);
}

}  // namespace sonline
