// Words out of bytes, the same on every machine.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sonline {

// The unsigned integer whose little-endian form starts at p; p need not be aligned.
template <class Word>
inline Word load_little_endian(const char* p) {
  Word word = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&word, p, sizeof word);
  } else {
    for (size_t i = sizeof word; i-- > 0;) word = word << 8 | static_cast<uint8_t>(p[i]);
  }
  return word;
}

inline uint64_t load64(const char* p) { return load_little_endian<uint64_t>(p); }
inline uint32_t load32(const char* p) { return load_little_endian<uint32_t>(p); }

// The word whose form in memory is the little-endian form of `word`.
inline uint64_t to_little_endian(uint64_t word) {
  return load64(reinterpret_cast<const char*>(&word));
}

// The word whose bytes are all `byte`.
constexpr uint64_t repeat_byte(uint8_t byte) { return 0x0101010101010101u * byte; }

}  // namespace sonline
