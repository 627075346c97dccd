// Vectors of two numbers, which every processor has, and of four, for loops that are compiled
// twice: for every processor of the platform, and for those with AVX2. The results do not depend on
// which is chosen.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <limits>

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
// The numbers where the mask is set, and 0 elsewhere.
template <class Mask>
[[gnu::always_inline]] inline Quad chosen(Quad quad, Mask mask) {
  return reinterpret_cast<Quad>(reinterpret_cast<Mask>(quad) & mask);
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
  const typename FourOf<T>::Vector four =
      *reinterpret_cast<const typename FourOf<T>::InMemory*>(from);
  return __builtin_convertvector(four, Quad);
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
