// The contract between the driver, which knows lines, and a format, which knows what is in them.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sonline/text/batch.hpp"
#include "sonline/text/dictionaries.hpp"
#include "sonline/text/options.hpp"
#include "sonline/text/reason.hpp"

namespace sonline::text {

struct LineResult {
  Reason reason = Reason::kNone;
  const char* where = nullptr;   // the byte at fault
  bool is_row = false;           // false for blank lines and comments
  size_t features = 0;           // how many were written behind those of the batch's rows
  int64_t cell = -1;             // of CSV: see LineError
  size_t length = 0;             // of the word at fault; 0 if it ends at a blank
  std::string_view word = {};    // of JSON: the word at fault, where it is not at `where`
  std::string_view column = {};  // of JSON: its column

  static LineResult failed(Reason reason, const char* where) { return {reason, where}; }
  static LineResult nothing() { return {}; }
  static LineResult row(size_t features) { return {Reason::kNone, nullptr, true, features}; }
};

// Why the value of a feature cannot be taken; kNone if it can.
template <class Value>
Reason check_value(Value value, const Options& options) {
  if (std::fabs(value) <= options.largest_value) [[likely]]
    return Reason::kNone;
  if (std::isfinite(value)) return Reason::kValueTooLarge;
  return sizeof(Value) < sizeof(double) ? Reason::kOverflowFloat32 : Reason::kOverflow;
}

class LineParser {
 public:
  virtual ~LineParser() = default;

  // Parses the line [first, last). *last is '\r' or '\n', and kPadding bytes from `last` on can be
  // read. Writes features behind those of the batch's rows and fills `head`; the driver adds the
  // row or, after a failure, takes back what the dictionaries learned.
  virtual LineResult parse(const char* first, const char* last, RowHead& head, Batch& batch) = 0;

  // Where lines may have line breaks within them: looks at the next bytes of a line, up to a line
  // break or to the end of what is there, and returns whether the line goes on behind them.
  virtual bool goes_on(const char*, const char*) { return false; }
  // The next bytes begin a line.
  virtual void begin_line() {}
  virtual void set_layout(CsvLayout) { throw std::logic_error("only CSV has columns"); }
  virtual void set_json_layout(JsonLayout) { throw std::logic_error("only for JSON lines"); }
};

std::unique_ptr<LineParser> make_svmlight_parser(const Options& options,
                                                 Dictionaries& dictionaries);
std::unique_ptr<LineParser> make_vw_parser(const Options& options, Dictionaries& dictionaries);
std::unique_ptr<LineParser> make_csv_parser(const Options& options, Dictionaries& dictionaries);
std::unique_ptr<LineParser> make_json_parser(const Options& options, Dictionaries& dictionaries);

// The cells of the first rows of a piece of CSV, and how many bytes these are; without the last row
// if it is not complete, unless there is no other.
std::pair<std::vector<std::vector<std::string>>, size_t> split_csv(std::string_view text,
                                                                   char delimiter, size_t most);

// What the cells of a column look like, without missing ones.
struct CsvCells {
  size_t count = 0;
  size_t words = 0;           // that are no numbers
  size_t decimal_commas = 0;  // such as 1,5
  std::string word = {};      // the first of them
};

// The columns of a piece of CSV, as far as rows have so many cells and are complete.
std::vector<CsvCells> describe_csv(std::string_view text, char delimiter, size_t columns,
                                   const std::vector<std::string>& na_values);

}  // namespace sonline::text
