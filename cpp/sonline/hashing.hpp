// A 64-bit hash of byte strings and the rule that turns feature keys into slots of a hashed table.
//
// The values are part of the saved-model format: a hashed model is only usable by a program that
// hashes the same way. Words are read as little-endian on every machine, and the tests pin values.
//
// The mixing step is a folded 64x64 -> 128-bit multiplication, the idea of wyhash (Wang Yi, 2019).
// Not cryptographic: names chosen by an adversary can be made to collide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sonline/bytes.hpp"

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

namespace sonline {

namespace hashing_detail {

// The first 64 fractional bits of sqrt(2), sqrt(3), sqrt(5) and sqrt(7), the last bit set.
inline constexpr uint64_t kSeed = 0x6A09E667F3BCC909u;
inline constexpr uint64_t kFirst = 0xBB67AE8584CAA73Bu;
inline constexpr uint64_t kSecond = 0x3C6EF372FE94F82Bu;
inline constexpr uint64_t kLast = 0xA54FF53A5F1D36F1u;

// Folds the 128-bit product of a and b to 64 bits. Adding a and b themselves (by xor) keeps the
// information in one of them if the other is zero, and so the product.
inline uint64_t fold(uint64_t a, uint64_t b) {
#if defined(_MSC_VER) && !defined(__clang__)
  uint64_t high;
  const uint64_t low = _umul128(a, b, &high);
#else
  __extension__ using uint128 = unsigned __int128;
  const uint128 product = static_cast<uint128>(a) * b;
  const auto low = static_cast<uint64_t>(product);
  const auto high = static_cast<uint64_t>(product >> 64);
#endif
  return low ^ high ^ a ^ b;
}

}  // namespace hashing_detail

// The hash of `size` bytes. One or two multiplications up to 16 bytes, one more per further 16.
inline uint64_t hash_bytes(const char* data, size_t size, uint64_t seed = 0) {
  using namespace hashing_detail;
  uint64_t state = fold(seed ^ kSeed, kFirst);
  uint64_t head = 0;
  uint64_t tail = 0;
  if (size > 16) {
    const char* p = data;
    const char* last = data + size - 16;  // the final words may overlap those of the loop
    for (; p < last; p += 16) state = fold(load64(p) ^ kFirst ^ state, load64(p + 8) ^ kSecond);
    head = load64(last);
    tail = load64(last + 8);
  } else if (size >= 8) {
    head = load64(data);
    tail = load64(data + size - 8);
  } else if (size >= 4) {
    head = load32(data);
    tail = load32(data + size - 4);
  } else if (size > 0) {
    const auto byte = [&](size_t i) {
      return static_cast<uint64_t>(static_cast<uint8_t>(data[i]));
    };
    head = byte(0) << 16 | byte(size / 2) << 8 | byte(size - 1);
  }
  state = fold(head ^ kFirst ^ state, tail ^ kSecond);
  return fold(state ^ kLast, size ^ kSecond);
}

inline uint64_t hash_bytes(std::string_view text, uint64_t seed = 0) {
  return hash_bytes(text.data(), text.size(), seed);
}

// A bijection of 64-bit integers that spreads every bit over all others.
inline uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
  return x ^ (x >> 32);
}

// The slot in [0, 2^bits) of an integer key: itself where it fits, so that indices stay readable.
inline uint64_t hash_slot(uint64_t index, unsigned bits) {
  if (bits >= 64 || index >> bits == 0) return index;
  return bits == 0 ? 0 : mix_bits(index) >> (64 - bits);
}

// Whether a name is the plain decimal spelling of an integer below 2^63: "0" or "17", but not
// "017",
// "+17" or "1e3".
inline bool spells_index(std::string_view name, uint64_t& index) {
  const size_t size = name.size();
  if (size == 0 || size > 19 || (name[0] == '0' && size > 1)) return false;
  index = 0;  // 19 digits cannot overflow 64 bits
  for (const char c : name) {
    const auto digit = static_cast<uint8_t>(c - '0');
    if (digit > 9) return false;
    index = index * 10 + digit;
  }
  return index >> 63 == 0;
}

// The slot in [0, 2^bits) of a named key. A name that spells an index has the slot of that index,
// so a feature called 17 is the same feature whichever format or dictionary it came from. Indices
// of a namespace (space^17) are consecutive from a slot that the namespace determines, as in Vowpal
// Wabbit: two of them do not collide as long as they are below 2^bits.
inline uint64_t hash_slot(std::string_view name, unsigned bits, uint64_t seed = 0) {
  uint64_t index;
  if (spells_index(name, index)) return hash_slot(index, bits);
  if (!name.empty() && static_cast<uint8_t>(name.back() - '0') <= 9 && bits > 0 && bits < 64) {
    const size_t number = name.rfind('^') + 1;  // 0 if there is none
    if (number != 0 && spells_index(name.substr(number), index)) {
      const uint64_t first = hash_bytes(name.substr(0, number), seed) >> (64 - bits);
      return (first + hash_slot(index, bits)) & ((uint64_t{1} << bits) - 1);
    }
  }
  const uint64_t hash = hash_bytes(name, seed);
  if (bits >= 64) return hash;
  return bits == 0 ? 0 : hash >> (64 - bits);
}

}  // namespace sonline
