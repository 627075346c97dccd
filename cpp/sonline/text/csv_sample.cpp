#include "sonline/text/csv_sample.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sonline/text/csv_cells.hpp"
#include "sonline/text/number.hpp"

namespace sonline::text {

// The end of the row at p: its line break, or `last`.
static const char* row_end(const char* p, const char* last, char delimiter) {
  At at = At::kStart;
  for (; p != last && (*p != '\n' || at == At::kQuoted); ++p) at = after(at, *p, delimiter);
  return p;
}

std::pair<std::vector<std::vector<std::string>>, size_t> split_csv(std::string_view text,
                                                                   char delimiter, size_t most) {
  std::vector<std::vector<std::string>> rows;
  std::string scratch;
  const char* p = text.data();
  const char* const last = p + text.size();
  while (p != last && rows.size() < most) {
    const char* end = row_end(p, last, delimiter);
    if (end == last && !rows.empty()) break;
    const char* const next = end == last ? last : end + 1;
    if (end != p && end[-1] == '\r') --end;
    if (end != p) {
      std::vector<std::string>& row = rows.emplace_back();
      for (;; ++p) {
        const Cell cell = read_cell(p, end, delimiter, scratch);
        row.emplace_back(cell.text);
        p = cell.end;
        if (p == end) break;
      }
    }
    p = next;
  }
  return {std::move(rows), static_cast<size_t>(p - text.data())};
}

namespace {

bool is_number(std::string_view cell) {
  const std::string_view word = trimmed(cell);
  if (is_word(word, "true") || is_word(word, "false")) return true;
  double value;
  return read_any_number(word.data(), word.data() + word.size(), value) != Reason::kNotANumber;
}

bool has_decimal_comma(std::string_view cell) {
  std::string word(trimmed(cell));
  const size_t comma = word.find(',');
  if (comma == 0 || comma == std::string::npos || comma + 1 == word.size()) return false;
  word[comma] = '.';
  return word.find_first_not_of("+-.0123456789") == std::string::npos && is_number(word) &&
         word[comma - 1] >= '0' && word[comma - 1] <= '9';
}

}  // namespace

std::vector<CsvCells> describe_csv(std::string_view text, char delimiter, size_t columns,
                                   const std::vector<std::string>& na_values) {
  std::vector<CsvCells> found(columns);
  std::vector<std::pair<size_t, size_t>> cells;  // of a row, in `row`
  std::string row, scratch;
  const char* p = text.data();
  const char* const last = p + text.size();
  while (p != last) {
    const char* end = row_end(p, last, delimiter);
    if (end == last) break;
    const char* const next = end + 1;
    if (end != p && end[-1] == '\r') --end;
    cells.clear();
    row.clear();
    for (; p != end || !cells.empty(); ++p) {
      const Cell cell = read_cell(p, end, delimiter, scratch);
      cells.push_back({row.size(), cell.text.size()});
      row += cell.text;
      p = cell.end;
      if (p == end) break;
    }
    p = next;
    if (cells.size() != columns) continue;
    for (size_t i = 0; i < columns; ++i) {
      const std::string_view cell =
          trimmed(std::string_view(row).substr(cells[i].first, cells[i].second));
      if (cell.empty()) continue;
      CsvCells& column = found[i];
      if (std::find(na_values.begin(), na_values.end(), cell) != na_values.end()) continue;
      const bool number = is_number(cell);
      ++column.count;
      if (number) continue;
      if (column.words++ == 0) column.word = cell;
      column.decimal_commas += has_decimal_comma(cell);
    }
  }
  return found;
}

}  // namespace sonline::text
