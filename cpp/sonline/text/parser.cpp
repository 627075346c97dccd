#include "sonline/text/parser.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "sonline/text/chars.hpp"

namespace sonline::text {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

const char* find_newline(const char* data, size_t size) {
  return size == 0 ? nullptr : static_cast<const char*>(std::memchr(data, '\n', size));
}

// The bytes from `start` to the next blank, one to forty; the first byte of the line if there are
// none.
std::string_view word_at(std::string_view line, size_t start, size_t length) {
  constexpr size_t kLongest = 40;
  std::string_view word = line.substr(start < line.size() ? start : 0, kLongest);
  if (length != 0) return word.substr(0, length);
  const size_t end = word.find_first_of(" \t\r", 1);
  return word.substr(0, end);
}

// Copies the entries with ids >= known and returns how many there are now.
uint64_t copy_new(const NameTable& table, uint64_t known, Strings& target) {
  for (uint64_t id = known; id < table.size(); ++id) target.push_back(table.name(id));
  return table.size();
}

}  // namespace

Parser::Parser(const Options& options, Position start, Dictionaries known)
    : options_(options), dictionaries_(std::move(known)), position_(start) {
  switch (options_.format) {
    case Format::kSvmlight:
      format_ = make_svmlight_parser(options_, dictionaries_);
      break;
    case Format::kVowpalWabbit:
      format_ = make_vw_parser(options_, dictionaries_);
      break;
    case Format::kCsv:
      format_ = make_csv_parser(options_, dictionaries_);
      break;
    case Format::kJsonLines:
      format_ = make_json_parser(options_, dictionaries_);
      break;
  }
  multiline_ = options_.format == Format::kCsv;
  names_reported_ = dictionaries_.features.size();
  labels_reported_ = dictionaries_.labels.size();
  namespaces_reported_ = dictionaries_.namespaces.size();
}

Batch Parser::feed(const char* data, size_t size) {
  if (failed_) throw std::logic_error("this parser stopped at an error; make a new one to go on");
  Batch batch(options_.double_values);
  const char* p = data;
  const char* const end = data + size;
  while (!failed_) {
    const char* newline = find_newline(p, static_cast<size_t>(end - p));
    if (newline == nullptr) {
      if (multiline_) format_->goes_on(p, end);
      hold(p, static_cast<size_t>(end - p));
      break;
    }
    const auto length = static_cast<size_t>(newline - p);
    if (multiline_ && format_->goes_on(p, newline + 1)) {
      hold(p, length + 1);
      ++held_breaks_;
    } else if (held_ == 0 && static_cast<size_t>(end - newline) >= kPadding) {
      take_line(p, length, 1, batch);
    } else {  // it started in an earlier chunk, or ends too close to the end of this one
      hold(p, length);
      take_held_line(1, batch);
    }
    p = newline + 1;
  }
  report_new_names(batch);
  return batch;
}

Batch Parser::end_file() {
  if (failed_) throw std::logic_error("this parser stopped at an error; make a new one to go on");
  Batch batch(options_.double_values);
  if (held_ != 0) take_held_line(0, batch);
  format_->begin_line();
  report_new_names(batch);
  return batch;
}

void Parser::seek(Position position) {
  if (held_ != 0) throw std::logic_error("a line has not come to its end");
  position_ = position;
}

// A line that is too long is an error in any case: the bytes past the limit are counted, not
// stored.
void Parser::hold(const char* data, size_t size) {
  const size_t room = options_.max_line_bytes - std::min(options_.max_line_bytes, held_);
  line_.insert(line_.end(), data, data + std::min(size, room));
  held_ += size;
}

void Parser::take_held_line(size_t newline_bytes, Batch& batch) {
  const size_t length = held_;
  line_.push_back('\n');
  line_.resize(line_.size() + kPadding);
  take_line(line_.data(), length, newline_bytes, batch);
  if (failed_) return;
  line_.clear();
  held_ = 0;
  held_breaks_ = 0;
  if (line_.capacity() > (size_t{1} << 20)) line_.shrink_to_fit();  // a long line is rare
}

// `size` bytes without the newline; only the first max_line_bytes of them need to be there.
void Parser::take_line(const char* first, size_t size, size_t newline_bytes, Batch& batch) {
  Position next = {position_.line + held_breaks_ + 1,
                   position_.offset + static_cast<int64_t>(size + newline_bytes), position_.rows};
  if (size > options_.max_line_bytes) {
    add_error({Reason::kLineTooLong}, options_.max_line_bytes + 1, first, options_.max_line_bytes,
              batch);
    ++next.rows;
  } else {
    const char* begin = first;
    const char* last = first + size;
    if (position_.offset == 0 && std::string_view(first, size).starts_with(kByteOrderMark)) {
      begin += kByteOrderMark.size();
    }
    if (last != begin && last[-1] == '\r') --last;
    const uint64_t names = dictionaries_.features.size();
    const uint64_t labels = dictionaries_.labels.size();
    const uint64_t namespaces = dictionaries_.namespaces.size();
    const size_t unknown = batch.unknown_features;
    RowHead head;
    const LineResult result = format_->parse(begin, last, head, batch);
    if (result.reason != Reason::kNone) {
      dictionaries_.features.truncate(names);
      dictionaries_.labels.truncate(labels);
      dictionaries_.namespaces.truncate(namespaces);
      batch.unknown_features = unknown;
      add_error(result, static_cast<size_t>(result.where - first) + 1, first, size, batch);
      ++next.rows;
    } else if (result.is_row) {
      add_row(head, result.features, next.offset, batch);
      ++next.rows;
      if (multiline_) {
        batch.next_lines.push_back(next.line);
        batch.row_ends.push_back(next.rows);
      }
    }
  }
  if (!failed_) position_ = next;
}

void Parser::add_row(const RowHead& head, size_t features, int64_t end, Batch& batch) {
  const size_t rows = batch.rows();
  if (options_.labels == LabelMode::kNumber) {
    batch.labels.push_back(head.label);
    batch.unlabelled += head.label != head.label;
  } else {
    batch.label_codes.push_back(head.label_code);
    batch.unlabelled += head.label_code < 0;
  }
  batch.weights.append(rows, head.weight);
  batch.offsets.append(rows, head.offset);
  if (!head.tag.empty() || batch.tags.size() != 0) {
    while (batch.tags.size() < rows) batch.tags.push_back({});
    batch.tags.push_back(head.tag);
  }
  batch.lines.push_back(position_.line);
  batch.ends.push_back(end);
  const size_t total = batch.features() + features;
  batch.indptr.push_back(static_cast<int64_t>(total));
  batch.indices.set_size(total);
  (options_.double_values ? batch.values64.set_size(total) : batch.values32.set_size(total));
  if (options_.namespaces) batch.namespaces.set_size(total);
}

void Parser::add_error(const LineResult& result, size_t column, const char* first, size_t size,
                       Batch& batch) {
  batch.errors.push_back({result.reason, position_.line, static_cast<int64_t>(column),
                          position_.offset, position_.rows, result.cell});
  batch.error_lines.push_back({first, std::min(size, options_.max_error_bytes)});
  batch.error_words.push_back(
      result.word.empty() ? word_at({first, size}, column - 1, result.length) : result.word);
  batch.error_columns.push_back(result.column);
  failed_ = options_.on_error == ErrorMode::kStop;
}

void Parser::report_new_names(Batch& batch) {
  names_reported_ = copy_new(dictionaries_.features, names_reported_, batch.new_names);
  labels_reported_ = copy_new(dictionaries_.labels, labels_reported_, batch.new_labels);
  namespaces_reported_ =
      copy_new(dictionaries_.namespaces, namespaces_reported_, batch.new_namespaces);
}

}  // namespace sonline::text
