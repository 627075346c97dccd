// The JSON of a line: values are read or skipped, and faults have their place.
#pragma once

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sonline/bytes.hpp"
#include "sonline/text/chars.hpp"
#include "sonline/text/number.hpp"
#include "sonline/text/reason.hpp"

namespace sonline::text {

// The first byte at or after p that may end a JSON string, or needs special care: a quotation mark,
// a backslash or a control byte.
inline const char* find_string_end(const char* p) {
  constexpr uint64_t kHigh = repeat_byte(0x80);
  const auto zeros = [](uint64_t x) { return (x - repeat_byte(1)) & ~x & kHigh; };
  for (;; p += 8) {
    const uint64_t word = load64(p);
    const uint64_t ends = ((word - repeat_byte(0x20)) & ~word & kHigh) |
                          zeros(word ^ repeat_byte('"')) | zeros(word ^ repeat_byte('\\'));
    if (ends != 0) return p + std::countr_zero(ends) / 8;
  }
}

inline bool read_hex(const char* p, uint32_t& code) {
  code = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = p[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return false;
    code = code * 16 + static_cast<uint32_t>(digit);
  }
  return true;
}

inline void append_utf8(std::string& text, uint32_t code) {
  const auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

// A number as a word, spelled as Python spells it: 1.0 and 1 are the same word.
inline std::string number_word(std::string_view written, double value) {
  const bool integer = written.find_first_of(".eE") == std::string_view::npos;
  if (integer) return written == "-0" ? "0" : std::string(written);
  char digits[400];
  char* const last = digits + sizeof digits;
  if (value == std::trunc(value)) {
    return {digits, std::to_chars(digits, last, value + 0.0, std::chars_format::fixed, 0).ptr};
  }
  const char* end = std::to_chars(digits, last, value, std::chars_format::scientific).ptr;
  const char* const e = std::find(static_cast<const char*>(digits), end, 'e');
  int exponent = 0;
  std::from_chars(e + 1 + (e[1] == '+'), end, exponent);
  if (exponent >= -4 && exponent < 16) {
    end = std::to_chars(digits, last, value, std::chars_format::fixed).ptr;
  }
  return std::string(static_cast<const char*>(digits), end);
}

// Reads within the line that ends at `last_`. All functions move p past what they have read.
class JsonScanner {
 protected:
  static constexpr unsigned kDeepest = 500;

  Reason fail(Reason reason, const char* where) {
    where_ = where;
    word_ = std::string_view(where, static_cast<size_t>(last_ - where)).substr(0, 40);
    return reason;
  }

  void skip_space(const char*& p) const {
    while (p != last_ && (*p == ' ' || *p == '\t' || *p == '\r')) ++p;
  }

  // The string at p, which is a quotation mark; in `scratch` if it has escapes.
  Reason read_string(const char*& p, std::string_view& text, std::string& scratch) {
    const char* const first = p + 1;
    const char* q = find_string_end(first);
    if (*q == '"') [[likely]] {
      text = {first, static_cast<size_t>(q - first)};
      p = q + 1;
      return Reason::kNone;
    }
    scratch.assign(first, q);
    while (*q != '"') {
      if (*q != '\\') return fail(Reason::kJsonString, q == last_ ? p : q);
      const char* const escape = q++;
      switch (*q++) {
        case '"':
          scratch += '"';
          break;
        case '\\':
          scratch += '\\';
          break;
        case '/':
          scratch += '/';
          break;
        case 'b':
          scratch += '\b';
          break;
        case 'f':
          scratch += '\f';
          break;
        case 'n':
          scratch += '\n';
          break;
        case 'r':
          scratch += '\r';
          break;
        case 't':
          scratch += '\t';
          break;
        case 'u': {
          uint32_t code, low;
          if (!read_hex(q, code)) return fail(Reason::kJsonEscape, escape);
          q += 4;
          if (code >= 0xD800 && code < 0xDC00 && q[0] == '\\' && q[1] == 'u' &&
              read_hex(q + 2, low) && low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            q += 6;
          }
          if (code >= 0xD800 && code < 0xE000) return fail(Reason::kJsonSurrogate, escape);
          append_utf8(scratch, code);
          break;
        }
        default:
          return fail(Reason::kJsonEscape, escape);
      }
      const char* const piece = q;
      q = find_string_end(q);
      scratch.append(piece, q);
    }
    text = scratch;
    p = q + 1;
    return Reason::kNone;
  }

  // The number at p, which is a digit or a minus sign.
  Reason read_number(const char*& p, double& value) {
    const char* const first = p;
    const char* q = p;
    const bool negative = *q == '-';
    q += negative;
    const bool zero = *q == '0';
    uint64_t mantissa = 0;
    size_t digits = read_digits(q, mantissa);
    if (digits == 0 || (zero && digits > 1)) return fail(Reason::kJsonNumber, first);
    size_t decimals = 0;
    if (*q == '.') {
      ++q;
      decimals = read_digits(q, mantissa);
      if (decimals == 0) return fail(Reason::kJsonNumber, first);
      digits += decimals;
    }
    if (digits <= 19 && (*q | 32) != 'e') [[likely]] {
      value = mantissa >> 53 == 0 ? exact_quotient(mantissa, decimals, negative)
                                  : long_quotient(mantissa, decimals, negative);
      p = q;
      return Reason::kNone;
    }
    if ((*q | 32) == 'e') {
      ++q;
      q += *q == '+' || *q == '-';
      if (!is_digit(*q)) return fail(Reason::kJsonNumber, first);
      while (is_digit(*q)) ++q;
    }
    p = q;
    return read_any_number(first, q, value);
  }

  // Moves p past a word; false if the word is not at p.
  static bool skip_word(const char*& p, std::string_view word) {
    if (std::string_view(p, word.size()) != word) return false;
    p += word.size();
    return true;
  }

  static bool skip_not_finite(const char*& p) {
    return skip_word(p, "NaN") || skip_word(p, "Infinity") || skip_word(p, "-Infinity");
  }

  // Skips any well-formed value.
  Reason skip_value(const char*& p, unsigned depth) {
    const char* const first = p;
    if (*p == '"') {
      std::string_view text;
      return read_string(p, text, scratch_);
    }
    if (*p == '{' || *p == '[') return skip_nested(p, depth + 1);
    if (skip_word(p, "null") || skip_word(p, "true") || skip_word(p, "false") ||
        skip_not_finite(p)) {
      return Reason::kNone;
    }
    if (*p != '-' && !is_digit(*p)) return fail(Reason::kJsonValue, first);
    double value;
    const Reason reason = read_number(p, value);
    return reason == Reason::kJsonNumber ? reason : Reason::kNone;
  }

  Reason skip_nested(const char*& p, unsigned depth) {
    if (depth > kDeepest) return fail(Reason::kJsonDeep, p);
    const bool object = *p == '{';
    const char close = object ? '}' : ']';
    ++p;
    skip_space(p);
    if (*p == close) {
      ++p;
      return Reason::kNone;
    }
    for (;; ++p) {
      skip_space(p);
      if (object) {
        if (*p != '"') return fail(Reason::kJsonKey, p);
        std::string_view key;
        const Reason reason = read_string(p, key, scratch_);
        if (reason != Reason::kNone) return reason;
        skip_space(p);
        if (*p != ':') return fail(Reason::kJsonColon, p);
        ++p;
        skip_space(p);
      }
      const Reason reason = skip_value(p, depth);
      if (reason != Reason::kNone) return reason;
      skip_space(p);
      if (*p == close) {
        ++p;
        return Reason::kNone;
      }
      if (*p != ',') return fail(Reason::kJsonComma, p);
    }
  }

  const char* last_ = nullptr;
  std::string scratch_;

  // The error of the current row.
  const char* where_ = nullptr;
  std::string_view word_;
};

}  // namespace sonline::text
