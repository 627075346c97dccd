// The incremental parser: chunks of bytes in, batches of complete rows out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sonline/text/batch.hpp"
#include "sonline/text/dictionaries.hpp"
#include "sonline/text/line_parser.hpp"
#include "sonline/text/options.hpp"

namespace sonline::text {

// A position where parsing can start: the first byte of a line.
struct Position {
  int64_t line = 1;    // counted from 1
  int64_t offset = 0;  // bytes of input before it
  int64_t rows = 0;    // rows before it, with bad rows
};

// Chunks may end anywhere: the rows do not depend on it. Memory is bounded by one chunk, one line
// and the dictionaries. Not thread-safe.
class Parser {
 public:
  // The dictionaries are those of an earlier run that is being resumed, or empty.
  explicit Parser(const Options& options, Position start = {}, Dictionaries known = {});

  // All rows that end within this chunk. With ErrorMode::kStop a bad line ends the batch, and the
  // parser has failed: position() is that line, and nothing more can be fed.
  Batch feed(const char* data, size_t size);
  // The row of a last line without a newline, if there is one. The next chunk starts another file.
  Batch end_file();

  // Sets the position of the next line, between two files.
  void seek(Position position);
  // Sets the columns of the CSV that is fed next.
  void set_layout(CsvLayout layout) { format_->set_layout(std::move(layout)); }
  // The same for JSON lines, before anything is fed.
  void set_json_layout(JsonLayout layout) { format_->set_json_layout(std::move(layout)); }

  std::vector<std::string> columns() const { return format_->columns(); }

  Position position() const { return position_; }  // of the first line that is not parsed yet
  size_t pending() const { return held_; }         // bytes of that line that have been fed
  bool failed() const { return failed_; }
  const Options& options() const { return options_; }
  const Dictionaries& dictionaries() const { return dictionaries_; }

 private:
  void hold(const char* data, size_t size);
  void take_held_line(size_t newline_bytes, Batch& batch);
  void take_line(const char* first, size_t size, size_t newline_bytes, Batch& batch);
  void add_row(const RowHead& head, size_t features, int64_t end, Batch& batch);
  void add_error(const LineResult& result, size_t column, const char* first, size_t size,
                 Batch& batch);
  void report_new_names(Batch& batch);

  const Options options_;
  Dictionaries dictionaries_;
  std::unique_ptr<LineParser> format_;
  Position position_;
  std::vector<char> line_;   // the start of an incomplete line, at most max_line_bytes
  size_t held_ = 0;          // its true length so far
  int64_t held_breaks_ = 0;  // line breaks within it
  bool multiline_ = false;   // rows may have line breaks
  uint64_t names_reported_ = 0;
  uint64_t labels_reported_ = 0;
  uint64_t namespaces_reported_ = 0;
  bool failed_ = false;
};

}  // namespace sonline::text
