// Vectors of two numbers, which every processor has, and of four, for loops that are compiled
// twice: for every processor of the platform, and for those with AVX2. The results do not depend on
// which is chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sonline {

typedef double Pair __attribute__((vector_size(16)));
typedef double PairInMemory __attribute__((vector_size(16), aligned(alignof(double)), may_alias));

inline Pair load_pair(const double* from) { return *reinterpret_cast<const PairInMemory*>(from); }
inline void store_pair(double* to, Pair pair) { *reinterpret_cast<PairInMemory*>(to) = pair; }

inline constexpr size_t kQuad = 4;
typedef double Quad __attribute__((vector_size(32)));
typedef double QuadInMemory __attribute__((vector_size(32), aligned(alignof(double)), may_alias));

[[gnu::always_inline]] inline Quad load_quad(const double* from) {
  return *reinterpret_cast<const QuadInMemory*>(from);
}
[[gnu::always_inline]] inline void store_quad(double* to, Quad quad) {
  *reinterpret_cast<QuadInMemory*>(to) = quad;
}
[[gnu::always_inline]] inline double sum_of(Quad quad) {
  return (quad[0] + quad[1]) + (quad[2] + quad[3]);
}
// The sums of two.
[[gnu::always_inline]] inline Pair sums_of(Quad a, Quad b) {
  const Quad pairs =
      __builtin_shufflevector(a, b, 0, 4, 2, 6) + __builtin_shufflevector(a, b, 1, 5, 3, 7);
  return Pair{pairs[0], pairs[1]} + Pair{pairs[2], pairs[3]};
}
inline size_t whole_quads(size_t n) { return (n + kQuad - 1) / kQuad * kQuad; }

// Four numbers of another type.
template <class T>
struct FourOf {
  typedef T Vector __attribute__((vector_size(kQuad * sizeof(T))));
  typedef T InMemory
      __attribute__((vector_size(kQuad * sizeof(T)), aligned(alignof(T)), may_alias));
};
template <class T>
[[gnu::always_inline]] inline Quad widen_quad(const T* from) {
  // One by one: GCC compiles this to one instruction, and __builtin_convertvector to four.
  return Quad{static_cast<double>(from[0]), static_cast<double>(from[1]),
              static_cast<double>(from[2]), static_cast<double>(from[3])};
}
// Bit j is set where number j is not 0; at most 64 numbers.
template <class T>
[[gnu::always_inline]] inline uint64_t nonzeros(const T* from, size_t n) {
  uint64_t bits = 0;
  size_t j = 0;
#if defined(__SSE2__)
  if constexpr (sizeof(T) == sizeof(float)) {
    const auto zeros = [&](size_t at) __attribute__((always_inline)) {
      return _mm_castps_si128(_mm_cmpeq_ps(_mm_loadu_ps(from + at), _mm_setzero_ps()));
    };
    for (; j + 16 <= n; j += 16) {
      const __m128i low = _mm_packs_epi32(zeros(j), zeros(j + 4));
      const __m128i high = _mm_packs_epi32(zeros(j + 8), zeros(j + 12));
      const int zero = _mm_movemask_epi8(_mm_packs_epi16(low, high));
      bits |= static_cast<uint64_t>(~zero & 0xFFFF) << j;
    }
    for (; j + 4 <= n; j += 4) {
      const int zero = _mm_movemask_ps(_mm_castsi128_ps(zeros(j)));
      bits |= static_cast<uint64_t>(~zero & 0xF) << j;
    }
  }
#endif
  for (; j < n; ++j) bits |= static_cast<uint64_t>(from[j] != 0) << j;
  return bits;
}
// Whether all numbers fit into type T, infinities and NaN excluded. An int and no early exit: the
// loop becomes vector code.
template <class T, class U>
[[gnu::always_inline]] inline bool all_fit(const U* values, size_t n) {
  constexpr U kLargest = std::numeric_limits<T>::max();
  int beyond = 0;
  for (size_t i = 0; i < n; ++i) beyond |= !(values[i] <= kLargest) | !(values[i] >= -kLargest);
  return !beyond;
}

// The variable is for tests: they compare both versions.
inline bool has_avx2() {
#if defined(__x86_64__)
  static const bool has = !std::getenv("SONLINE_PORTABLE") && __builtin_cpu_supports("avx2");
  return has;
#else
  return false;
#endif
}

#if defined(__x86_64__)
#define SONLINE_AVX2 [[gnu::target("avx2")]]
#else
#define SONLINE_AVX2
#endif

}  // namespace sonline
