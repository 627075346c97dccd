// The fast path for numbers of a few digits, alone or as `index:value`.
//
// If these functions return true, the result is that of number.hpp to the last bit; otherwise p
// does not move, and the general functions decide. `others` is DigitMap::others_at(p). A bit that
// is wrongly set for a digit can only make the result false, because the byte at each end found is
// checked.
#pragma once

#include <bit>
#include <cstdint>

#include "sonline/text/digit_map.hpp"
#include "sonline/text/number.hpp"

namespace sonline::text {

inline uint64_t first_of(uint64_t mask) { return static_cast<uint64_t>(std::countr_zero(mask)); }

// Reads a number at p of up to 8 digits, or of up to 7 with a point, without plus sign or exponent,
// and moves p to the byte of the classes `Ends` after it.
template <uint8_t Ends>
[[gnu::always_inline]] inline bool read_short_number(uint64_t others, const char*& p,
                                                     double& value) {
  const uint64_t negative = *p == '-';
  others &= others - negative;
  const char* const start = p + negative;
  const char* end = p + first_of(others);
  uint64_t digits = static_cast<uint64_t>(end - start);
  uint64_t decimals = 0;
  uint64_t word = load64(start);
  if (*end == '.') {
    // Remove the point, so that all digits are converted at once.
    const uint64_t behind = ~uint64_t{0} << (8 * digits & 63);
    word ^= (word ^ word >> 8) & behind;
    const char* const point = end;
    end = p + first_of(others & (others - 1));
    decimals = static_cast<uint64_t>(end - point) - 1;
    digits += decimals;
    if (digits == 0) return false;
  }
  // The number, with its point, may not be longer than a word.
  if (static_cast<uint64_t>(end - start) - 1 > 7 || !is_any_of(*end, Ends)) return false;
  value = exact_quotient(join_some(word, digits), decimals, negative);
  p = end;
  return true;
}

// Reads `index:value` at p, the index of up to 8 digits and the value as above.
template <uint8_t Ends>
[[gnu::always_inline]] inline bool read_short_feature(uint64_t others, const char*& p,
                                                      uint64_t& index, double& value) {
  const uint64_t colon = first_of(others);
  if (colon - 1 > 7 || p[colon] != ':') return false;
  const char* q = p + colon + 1;
  if (!read_short_number<Ends>(others >> (colon + 1), q, value)) return false;
  index = join_some(load64(p), colon);
  p = q;
  return true;
}

}  // namespace sonline::text
