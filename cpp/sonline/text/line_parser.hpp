// The interface between the driver, which splits the input into lines, and a format, which parses
// a line.
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
  size_t features = 0;           // number of features written after those of the batch's rows
  int64_t cell = -1;             // CSV: see LineError
  size_t length = 0;             // of the word at fault; 0 if it ends at a blank
  std::string_view word = {};    // JSON: the word at fault, if it is not at `where`
  std::string_view column = {};  // JSON: its column

  static LineResult failed(Reason reason, const char* where) { return {reason, where}; }
  static LineResult nothing() { return {}; }
  static LineResult row(size_t features) { return {Reason::kNone, nullptr, true, features}; }
};

// Why the value of a feature cannot be used; kNone if it can.
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
  // read. Writes features after those of the batch's rows and fills `head`; the driver adds the row
  // or, after a failure, removes the new entries of the dictionaries.
  virtual LineResult parse(const char* first, const char* last, RowHead& head, Batch& batch) = 0;

  // For formats whose rows may contain line breaks: reads the next bytes of a row, up to a line
  // break or the end of the input so far, and returns whether the row continues after them.
  virtual bool goes_on(const char*, const char*) { return false; }
  // The next bytes are the start of a row.
  virtual void begin_line() {}
  virtual void set_layout(CsvLayout) { throw std::logic_error("only CSV has columns"); }
  // The columns that rows had so far, where the parser finds them by itself.
  virtual std::vector<std::string> columns() const { return {}; }
  virtual void set_json_layout(JsonLayout) { throw std::logic_error("only for JSON lines"); }
};

std::unique_ptr<LineParser> make_svmlight_parser(const Options& options,
                                                 Dictionaries& dictionaries);
std::unique_ptr<LineParser> make_vw_parser(const Options& options, Dictionaries& dictionaries);
std::unique_ptr<LineParser> make_csv_parser(const Options& options, Dictionaries& dictionaries);
std::unique_ptr<LineParser> make_json_parser(const Options& options, Dictionaries& dictionaries);

}  // namespace sonline::text
