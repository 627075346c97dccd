// One bit for each byte of a line: is it a digit?
//
// It is made in one pass over the line, before its numbers are read. A few bit operations then find
// where the next numbers end, without waiting for the numbers before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sonline/bytes.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sonline::text {

// Bit i is set if p[i] is not a digit, for i < 64.
inline uint64_t find_others(const char* p) {
  uint64_t others = 0;
#if defined(__SSE2__)
  for (unsigned i = 0; i < 64; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i));
    // Comparison is signed: after the shift the digits are the ten smallest numbers.
    const __m128i shifted = _mm_add_epi8(bytes, _mm_set1_epi8(static_cast<char>(128 - '0')));
    const __m128i digits = _mm_cmplt_epi8(shifted, _mm_set1_epi8(-128 + 10));
    others |= uint64_t{static_cast<uint16_t>(~_mm_movemask_epi8(digits))} << i;
  }
#else
  for (unsigned i = 0; i < 64; ++i) {
    others |= uint64_t{static_cast<uint8_t>(p[i] - '0') > 9} << i;
  }
#endif
  return others;
}

class DigitMap {
 public:
  static constexpr unsigned kWindow = 57;

  // Looks at the bytes from `first` up to and including `last`, and at up to 63 bytes behind them.
  void build(const char* first, const char* last) {
    first_ = first;
    const size_t words = static_cast<size_t>(last - first) / 64 + 1;
    if (words_.size() < words + 1) words_.resize(words + 1 + words / 2);
    for (size_t i = 0; i < words; ++i) words_[i] = to_little_endian(find_others(first + 64 * i));
    words_[words] = ~uint64_t{0};
  }

  // Bit i is set if p[i] is not a digit, for i < kWindow and p within the bytes above. After them,
  // and in the bits from kWindow on, it may be set for digits as well.
  uint64_t others_at(const char* p) const {
    const auto offset = static_cast<size_t>(p - first_);
    const auto* bytes = reinterpret_cast<const char*>(words_.data());
    return load64(bytes + offset / 8) >> offset % 8 | ~uint64_t{0} << kWindow;
  }

 private:
  const char* first_ = nullptr;
  std::vector<uint64_t> words_;
};

}  // namespace sonline::text
