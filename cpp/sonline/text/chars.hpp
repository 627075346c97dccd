// Classes of bytes, and the scan for the end of a name.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sonline/bytes.hpp"

namespace sonline::text {

// A parser may read this many bytes past the end of a line (whose last byte is followed by a
// carriage return or a newline).
inline constexpr size_t kPadding = 80;

inline constexpr uint8_t kBlank = 1;    // space and tab
inline constexpr uint8_t kControl = 2;  // all other bytes below 0x20, including newlines
inline constexpr uint8_t kHash = 4;
inline constexpr uint8_t kBar = 8;

inline constexpr std::array<uint8_t, 256> kClasses = [] {
  std::array<uint8_t, 256> classes{};
  for (size_t c = 0; c < 0x20; ++c) classes[c] = kControl;
  classes[' '] = classes['\t'] = kBlank;
  classes['#'] = kHash;
  classes['|'] = kBar;
  return classes;
}();

inline bool is_any_of(char c, uint8_t classes) {
  return (kClasses[static_cast<uint8_t>(c)] & classes) != 0;
}

inline bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

inline const char* skip_blanks(const char* p) {
  while (is_any_of(*p, kBlank)) ++p;
  return p;
}

// The first byte at or after p that ends a name: a blank, a control byte, ':' or '|'. Sets `ascii`
// to whether all bytes before it are ASCII.
inline const char* find_name_end(const char* p, bool& ascii) {
  constexpr uint64_t kHigh = repeat_byte(0x80);
  uint64_t seen = 0;
  for (;; p += 8) {
    const uint64_t word = load64(p);
    // In each line the high bit of the lowest byte that fits is set; bits above it may be wrong.
    const auto zeros = [](uint64_t x) { return (x - repeat_byte(1)) & ~x & kHigh; };
    const uint64_t small = (word - repeat_byte(0x21)) & ~word & kHigh;
    const uint64_t ends = small | zeros(word ^ repeat_byte(':')) | zeros(word ^ repeat_byte('|'));
    if (ends != 0) {
      const int bit = std::countr_zero(ends);  // 8 * position + 7
      seen |= word & ((uint64_t{1} << (bit & ~7)) - 1);
      ascii = (seen & kHigh) == 0;
      return p + bit / 8;
    }
    seen |= word;
  }
}

// The number of bytes at the beginning that are well-formed UTF-8 (no overlong forms, surrogates or
// values past U+10FFFF).
size_t valid_utf8(std::string_view text);
inline bool is_utf8(std::string_view text) { return valid_utf8(text) == text.size(); }

}  // namespace sonline::text
