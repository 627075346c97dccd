// Decimal numbers in text: a fast exact path for short ones, std::from_chars for all others.
//
// Every function here may read up to eight bytes past the end of the line it works on (see
// kPadding). That does not change the result, because a line ends with a byte that cannot be part
// of a number.
//
// Digits are read eight at a time, as Lemire describes ("Quickly parsing eight digits", 2018, and
// "Fast float parsing in practice", Software: Practice and Experience, 2021). A decimal
// mantissa below 2^53 and a power of ten up to 10^22 are both exact doubles, so one division rounds
// correctly (Clinger, "How to read floating point numbers accurately", 1990).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "sonline/bytes.hpp"
#include "sonline/text/chars.hpp"
#include "sonline/text/reason.hpp"

namespace sonline::text {

inline constexpr uint64_t kPowersOfTen[] = {1,      10,      100,      1000,     10000,
                                            100000, 1000000, 10000000, 100000000};
// The powers of ten that are exact doubles, and their negatives. (32 to a row: a cheap index.)
inline constexpr auto kExactPowersOfTen = [] {
  std::array<std::array<double, 32>, 2> powers{};
  double power = 1;
  for (size_t i = 0; i <= 22; ++i, power *= 10) {
    powers[0][i] = power;
    powers[1][i] = -power;
  }
  return powers;
}();

// The number of digits at the start of a little-endian word: 0 to 8.
inline unsigned count_digits(uint64_t word) {
  const uint64_t digits = word ^ repeat_byte('0');  // 0..9 exactly where the byte is a digit
  // Adding 0x76 sets the high bit of a byte above 9. Only a byte that is not a digit can carry, so
  // a carry changes only bytes that no longer matter.
  const uint64_t others = ((digits + repeat_byte(0x76)) | digits) & repeat_byte(0x80);
  return static_cast<unsigned>(std::countr_zero(others)) / 8;
}

// The value of eight bytes 0..9, the first one the most significant: neighbours are joined to four
// numbers below 100, and two multiplications weigh those and add them in their upper halves.
inline uint64_t join_eight(uint64_t digits) {
  constexpr uint64_t kEveryOther = 0x000000FF000000FFu;
  const uint64_t pairs = digits * 10 + (digits >> 8);
  return ((pairs & kEveryOther) * (100 + (uint64_t{1000000} << 32)) +
          ((pairs >> 16) & kEveryOther) * (1 + (uint64_t{10000} << 32))) >>
         32;
}

// The value of the first `count` (1 to 8) digits of a word.
inline uint64_t join_some(uint64_t word, uint64_t count) {
  const uint64_t digits = word ^ repeat_byte('0');
  return join_eight(digits << (64 - 8 * count));  // leading zeros push the other bytes out
}

// Reads all digits at p, appends their value to `value` (modulo 2^64) and returns their number.
inline size_t read_digits(const char*& p, uint64_t& value) {
  size_t total = 0;
  for (;;) {
    const uint64_t word = load64(p);
    const unsigned count = count_digits(word);
    if (count == 0) return total;
    value = value * kPowersOfTen[count] + join_some(word, count);
    total += count;
    p += count;
    if (count < 8) return total;
  }
}

// +-mantissa / 10^decimals, correctly rounded, for mantissa < 2^53 and decimals <= 22. The sign
// comes from the divisor, because a branch on it could not be predicted in most data.
inline double exact_quotient(uint64_t mantissa, size_t decimals, bool negative) {
  return static_cast<double>(static_cast<int64_t>(mantissa)) /
         kExactPowersOfTen[negative][decimals];
}

// The same for any mantissa but 0, and decimals <= 27: the quotient of integers is rounded once,
// with a bit for the remainder.
double long_quotient(uint64_t mantissa, size_t decimals, bool negative);

// The general case of read_number: any length, any exponent; the reason if [first, last) is no
// finite decimal number.
Reason read_any_number(const char* first, const char* last, double& value);

// Reads an index of decimal digits from 0 to 2^63 - 1 at p, and moves p past it.
inline Reason read_index(const char*& p, uint64_t& index) {
  const char* const first = p;
  index = 0;
  const size_t digits = read_digits(p, index);
  if (digits == 0) return Reason::kIndexNotInteger;
  if (digits > 18) [[unlikely]] {  // 18 digits always fit; more may, or may be leading zeros
    const char* q = first;
    while (*q == '0') ++q;
    if (p - q > 19 || index >> 63 != 0) return Reason::kIndexTooLarge;
  }
  return Reason::kNone;
}

// Reads a number that starts at p and runs up to a byte of the classes `Ends`, where p is left.
// Accepted are [+-] digits [. digits] [e [+-] digits] with at least one digit before the exponent.
template <uint8_t Ends>
inline Reason read_number(const char*& p, double& value) {
  const char* q = p;
  const bool negative = *q == '-';
  q += negative || *q == '+';
  uint64_t mantissa = 0;
  size_t digits = read_digits(q, mantissa);
  size_t decimals = 0;
  if (*q == '.') {
    ++q;
    decimals = read_digits(q, mantissa);
    digits += decimals;
  }
  if (digits - 1 < 19 && is_any_of(*q, Ends)) [[likely]] {  // 19 digits fit into the mantissa
    value = mantissa >> 53 == 0 ? exact_quotient(mantissa, decimals, negative)
                                : long_quotient(mantissa, decimals, negative);
    p = q;
    return Reason::kNone;
  }
  const char* last = p;
  while (!is_any_of(*last, Ends)) ++last;
  const Reason reason = read_any_number(p, last, value);
  if (reason == Reason::kNone) p = last;
  return reason;
}

}  // namespace sonline::text
