// How a row of CSV is split into cells.
//
// A quotation mark has a meaning at the start of a cell only, so that 5" pipe is a cell.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "sonline/text/chars.hpp"

namespace sonline::text {

inline constexpr char kQuote = '"';

// The state after a byte of a row.
enum class At : uint8_t {
  kStart,       // at the start of a cell
  kPlain,       // in a cell
  kQuoted,      // between quotation marks
  kAfterQuote,  // after a quotation mark, which closes the cell or is the first of a pair
};

inline At after(At at, char byte, char delimiter) {
  if (at == At::kQuoted) return byte == kQuote ? At::kAfterQuote : At::kQuoted;
  if (byte == delimiter) return At::kStart;
  if (byte == kQuote && at != At::kPlain) return At::kQuoted;
  return At::kPlain;
}

struct Cell {
  std::string_view text;
  const char* end;  // the delimiter after it, or the end of the row
  bool open = false;
};

// The cell at p. Quotation marks are removed from it: then the text is in `scratch`.
inline Cell read_cell(const char* p, const char* last, char delimiter, std::string& scratch) {
  if (p == last || *p != kQuote) {
    const auto size = static_cast<size_t>(last - p);
    const auto* end =
        static_cast<const char*>(size == 0 ? nullptr : std::memchr(p, delimiter, size));
    if (end == nullptr) end = last;
    return {{p, static_cast<size_t>(end - p)}, end};
  }
  scratch.clear();
  At at = At::kQuoted;
  for (++p; p != last; ++p) {
    const At next = after(at, *p, delimiter);
    if (next == At::kStart) break;
    // Drops the first mark of a pair, and the mark that closes the cell.
    if (next != At::kAfterQuote) scratch += *p;
    at = next;
  }
  return {scratch, p, at == At::kQuoted};
}

inline size_t count_cells(const char* p, const char* last, char delimiter) {
  size_t count = 1;
  At at = At::kStart;
  for (; p != last; ++p) {
    at = after(at, *p, delimiter);
    count += at == At::kStart;
  }
  return count;
}

inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

inline bool is_word(std::string_view text, std::string_view lower) {
  return text.size() == lower.size() &&
         std::equal(text.begin(), text.end(), lower.begin(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

}  // namespace sonline::text
