// The fast path for `index:value`.
#pragma once

#include <bit>
#include <cstdint>

#include "sonline/text/digit_map.hpp"
#include "sonline/text/number.hpp"

namespace sonline::text {

// Reads `index:value` at p if it has the common short form (an index of up to 8 digits, a value of
// up to 8 digits or of up to 7 with a point, no plus sign, no exponent) and moves p to the byte of
// the classes `Ends` behind it. Otherwise returns false and leaves p: the general functions of
// number.hpp decide. Where both apply they agree to the last bit.
//
// `others` is DigitMap::others_at(p). A bit that is set for a digit can only make the answer false:
// the byte at each place that is found is looked at, and none of those may be a digit.
template <uint8_t Ends>
[[gnu::always_inline]] inline bool read_short_feature(uint64_t others, const char*& p,
                                                      uint64_t& index, double& value) {
  const auto first_of = [](uint64_t mask) { return static_cast<uint64_t>(std::countr_zero(mask)); };
  const auto without_first = [](uint64_t mask) { return mask & (mask - 1); };
  const uint64_t colon = first_of(others);
  const uint64_t negative = p[colon + 1] == '-';
  others = without_first(others);
  others &= others - negative;
  const uint64_t start = colon + 1 + negative;
  uint64_t end = first_of(others);
  uint64_t digits = end - start;
  uint64_t decimals = 0;
  uint64_t word = load64(p + start);
  if (p[end] == '.') {
    // Close the gap of the point, so that all digits are joined at once.
    const uint64_t behind = ~uint64_t{0} << (8 * digits & 63);
    word ^= (word ^ word >> 8) & behind;
    decimals = first_of(without_first(others)) - end - 1;
    end += 1 + decimals;
    digits += decimals;
    if (digits == 0) return false;
  }
  // Neither the index nor the value, with its point, may be longer than a word.
  if (((colon - 1) | (end - start - 1)) > 7 || p[colon] != ':' || !is_any_of(p[end], Ends)) {
    return false;
  }
  index = join_some(load64(p), colon);
  value = exact_quotient(join_some(word, digits), decimals, negative);
  p += end;
  return true;
}

}  // namespace sonline::text
