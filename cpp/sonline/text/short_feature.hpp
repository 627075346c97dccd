// The fast path for `index:value`: one look at 32 bytes finds all of its parts at once.
//
// Reading a number digit by digit, or even word by word, makes each step wait for the one before
// it. Here a bit mask of the bytes that are no digits gives the places of ':', '.' and the end with
// a few bit operations, and the processor works on several features at the same time.
#pragma once

#include <bit>
#include <cstdint>

#include "sonline/text/number.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sonline::text {

// Bit i is set if p[i] is no digit, for i < 32. Bits 32 to 35 are always set.
inline uint64_t find_others(const char* p) {
  uint32_t digits = 0;
#if defined(__SSE2__)
  const auto half = [](const char* q) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(q));
    // Comparison is signed: after the shift the digits are the ten smallest numbers.
    const __m128i shifted = _mm_add_epi8(bytes, _mm_set1_epi8(static_cast<char>(128 - '0')));
    return static_cast<uint32_t>(
        _mm_movemask_epi8(_mm_cmplt_epi8(shifted, _mm_set1_epi8(-128 + 10))));
  };
  digits = half(p) | half(p + 16) << 16;
#else
  for (uint32_t i = 0; i < 32; ++i) {
    digits |= static_cast<uint32_t>(static_cast<uint8_t>(p[i] - '0') <= 9) << i;
  }
#endif
  return ~digits | uint64_t{15} << 32;
}

// Reads `index:value` at p if it has the common short form (an index of up to 8 digits, a value of
// up to 8 digits or of up to 7 with a point, no plus sign, no exponent) and moves p to the byte of
// the classes `Ends` behind it. Otherwise returns false and leaves p: the general functions of
// number.hpp decide. Where both apply they agree to the last bit.
template <uint8_t Ends>
[[gnu::always_inline]] inline bool read_short_feature(const char*& p, uint64_t& index,
                                                      double& value) {
  const auto first_of = [](uint64_t mask) { return static_cast<unsigned>(std::countr_zero(mask)); };
  const auto without_first = [](uint64_t mask) { return mask & (mask - 1); };
  // Where a place is 32 or more, all bytes before it are digits and the checks below still hold.
  uint64_t others = find_others(p);
  const unsigned colon = first_of(others);
  const bool negative = p[colon + 1] == '-';
  others = without_first(others);
  others &= others - negative;
  const unsigned start = colon + 1 + negative;
  unsigned end = first_of(others);
  unsigned digits = end - start;
  unsigned decimals = 0;
  uint64_t word = load64(p + start);
  if (p[end] == '.') {
    // Close the gap of the point, so that all digits are joined at once.
    const uint64_t before = (uint64_t{1} << (8 * digits % 64)) - 1;
    if (digits > 7) return false;
    word = (word >> 8) ^ ((word ^ word >> 8) & before);
    const unsigned point = end;
    end = first_of(without_first(others));
    decimals = end - point - 1;
    digits += decimals;
    if (digits > 7) return false;
  }
  if (((colon - 1) | (digits - 1)) > 7 || p[colon] != ':' || !is_any_of(p[end], Ends)) return false;
  index = join_some(load64(p), colon);
  value = exact_quotient(join_some(word, digits), decimals, negative);
  p += end;
  return true;
}

}  // namespace sonline::text
