#include "sonline/text/chars.hpp"

namespace sonline::text {

// The ranges are those of table 3-7 of the Unicode standard, "Well-formed UTF-8 byte sequences".
size_t valid_utf8(std::string_view text) {
  const size_t size = text.size();
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  for (size_t i = 0; i < size;) {
    const uint8_t lead = byte(i);
    if (lead < 0x80) {
      i += i + 8 <= size && (load64(&text[i]) & repeat_byte(0x80)) == 0 ? 8 : 1;
      continue;
    }
    if (lead < 0xC2 || lead > 0xF4) return i;
    const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (size - i < length) return i;
    const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(i + 1) < low || byte(i + 1) > high) return i;
    for (size_t k = 2; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    }
    i += length;
  }
  return size;
}

}  // namespace sonline::text
