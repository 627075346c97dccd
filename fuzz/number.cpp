// Fuzz target: a number has the value that the C library gives it, bit for bit, and `index:value`
// means the same to the fast path and to the general functions.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "check.hpp"
#include "sonline/text/short_number.hpp"

namespace {

using namespace sonline::text;

constexpr uint8_t kEnds = kBlank | kControl | kHash;

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// strtod accepts more than the format does: leading blanks, hexadecimal numbers.
bool is_decimal(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0 || std::strchr("+-.eE", c) != nullptr;
  });
}

void check_number(const std::string& padded) {
  const char* const first = padded.data();
  const char* last = first;
  while (!is_any_of(*last, kEnds)) ++last;
  const std::string token(first, last);
  const char* p = first;
  double value = -77;
  const Reason reason = read_number<kEnds>(p, value);
  char* end = nullptr;
  const double expected = std::strtod(token.c_str(), &end);
  const bool whole = !token.empty() && end == token.c_str() + token.size() && is_decimal(token);
  if (reason == Reason::kNone) {
    CHECK(p == last && whole && std::isfinite(expected) && same_bits(value, expected));
  } else if (reason == Reason::kOverflow) {
    CHECK(whole && std::isinf(expected));
  } else {
    CHECK(!whole);
  }
}

void check_feature(const std::string& padded) {
  const char* p = padded.data();
  uint64_t index = 0;
  double value = 0;
  DigitMap map;
  map.build(p, p + std::min(padded.find_first_of("\r\n"), padded.size()));
  if (!read_short_feature<kEnds>(map.others_at(p), p, index, value)) return;
  const char* q = padded.data();
  uint64_t general_index = 0;
  double general_value = 0;
  CHECK(read_index(q, general_index) == Reason::kNone && *q == ':');
  ++q;
  CHECK(read_number<kEnds>(q, general_value) == Reason::kNone);
  CHECK(q == p && index == general_index && same_bits(value, general_value));
  CHECK(std::isfinite(static_cast<float>(value)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string padded(reinterpret_cast<const char*>(data), size);
  padded += '\n';
  padded.append(kPadding, '7');  // digits: nothing may be read as if it belonged to the line
  check_number(padded);
  check_feature(padded);
  return 0;
}
