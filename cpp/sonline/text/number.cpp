#include "sonline/text/number.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <system_error>

namespace sonline::text {

namespace {

// Whether a decimal number that is out of the range of a double is so by being too large. Looks at
// the power of ten of its first non-zero digit, with exponents of any length.
bool is_huge(const char* p, const char* last) {
  int64_t power = 0;  // of the first non-zero digit, before the exponent is applied
  bool point = false;
  bool nonzero = false;
  for (; p != last && (is_digit(*p) || *p == '.'); ++p) {
    if (*p == '.') {
      point = true;
    } else if (nonzero) {
      power += !point;
    } else if (*p != '0') {
      nonzero = true;
      power -= point;
    } else {
      power -= point;
    }
  }
  int64_t exponent = 0;
  if (p != last) {
    ++p;  // e or E
    const bool negative = *p == '-';
    p += negative || *p == '+';
    for (; p != last; ++p) {
      exponent = std::min(exponent * 10 + (*p - '0'), int64_t{1} << 56);
    }
    if (negative) exponent = -exponent;
  }
  return power + exponent > 0;
}

constexpr auto kPowersOfFive = [] {
  std::array<uint64_t, 28> powers{};  // 5^27 is the last one below 2^63
  uint64_t power = 1;
  for (uint64_t& entry : powers) {
    entry = power;
    power *= 5;
  }
  return powers;
}();

}  // namespace

double long_quotient(uint64_t mantissa, size_t decimals, bool negative) {
  __extension__ using uint128 = unsigned __int128;
  const uint64_t five = kPowersOfFive[decimals];
  const int shift = std::countl_zero(mantissa);
  const int five_shift = std::countl_zero(five);
  // Both have their highest bit set, so the quotient has 63 or 64 bits: more than a double, and its
  // last bit can stand for the remainder.
  const uint128 numerator = static_cast<uint128>(mantissa << shift) << 63;
  const uint64_t divisor = five << five_shift;
  const auto quotient = static_cast<uint64_t>(numerator / divisor);
  const bool rest = numerator != static_cast<uint128>(quotient) * divisor;
  const int power = five_shift - shift - 63 - static_cast<int>(decimals);  // from -100 to 0
  const double scale = std::bit_cast<double>(static_cast<uint64_t>(1023 + power) << 52);
  const double magnitude = static_cast<double>(quotient | rest) * scale;
  return negative ? -magnitude : magnitude;
}

Reason read_any_number(const char* first, const char* last, double& value) {
  if (first == last) return Reason::kNotANumber;
  const bool negative = *first == '-';
  if (negative || *first == '+') ++first;
  // from_chars takes a minus sign of its own.
  if (first == last || *first == '-') return Reason::kNotANumber;
  double magnitude = 0;
  const auto [end, error] = std::from_chars(first, last, magnitude);
  if (end != last || error == std::errc::invalid_argument) return Reason::kNotANumber;
  if (error == std::errc::result_out_of_range) {
    if (is_huge(first, last)) return Reason::kOverflow;
    magnitude = 0;
  }
  if (!std::isfinite(magnitude)) {
    return is_digit(*first) || *first == '.' ? Reason::kOverflow : Reason::kNotFinite;
  }
  value = negative ? -magnitude : magnitude;
  return Reason::kNone;
}

}  // namespace sonline::text
