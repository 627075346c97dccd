// CSV:  cell,cell,"a cell with , or ""quotation marks"" or line breaks",...
//
// A column of numbers is one feature with its name; a cell of text is the feature column=cell of
// value 1 (or its n-grams, with their counts). Missing cells and zeros are absent.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "sonline/text/cells.hpp"
#include "sonline/text/csv_cells.hpp"
#include "sonline/text/line_parser.hpp"
#include "sonline/text/ngrams.hpp"
#include "sonline/text/number.hpp"

namespace sonline::text {

namespace {

// A short number: digits, perhaps with a point, up to the delimiter or the end of the row.
inline bool read_short_cell(const char*& p, const char* last, char delimiter, double& value) {
  const char* q = p;
  const bool negative = *q == '-';
  q += negative;
  uint64_t mantissa = 0;
  size_t digits = read_digits(q, mantissa);
  size_t decimals = 0;
  if (*q == '.' && delimiter != '.') {
    ++q;
    decimals = read_digits(q, mantissa);
    digits += decimals;
  }
  if (digits - 1 >= 19 || (*q != delimiter && q != last) || mantissa >> 53 != 0) return false;
  value = exact_quotient(mantissa, decimals, negative);
  p = q;
  return true;
}

template <class Value>
class CsvParser final : public LineParser {
 public:
  CsvParser(const Options& options, Dictionaries& dictionaries)
      : options_(options), dictionaries_(dictionaries), keys_(options, dictionaries.features) {
    for (const std::string& word : options.na_values) {
      if (word.empty()) continue;
      may_be_missing_[static_cast<uint8_t>(word.front())] = true;
    }
  }

  void set_layout(CsvLayout layout) override {
    layout_ = std::move(layout);
    delimiter_ = layout_.delimiter;
    columns_.clear();
    for (const CsvColumn& column : layout_.columns) columns_.push_back({column.name + "="});
    for (const auto& [one, other] : layout_.products) {
      columns_.at(one).multiplied = columns_.at(other).multiplied = true;
    }
  }

  bool goes_on(const char* first, const char* last) override {
    if (first == last) return at_ == At::kQuoted;
    const auto size = static_cast<size_t>(last - first);
    const bool line_break = last[-1] == '\n';
    if (at_ != At::kQuoted && std::memchr(first, kQuote, size) == nullptr) {
      at_ = line_break || last[-1] == delimiter_ ? At::kStart : At::kPlain;
      return false;
    }
    for (const char* p = first; p != last; ++p) at_ = after(at_, *p, delimiter_);
    if (line_break && at_ != At::kQuoted) at_ = At::kStart;
    return at_ == At::kQuoted;
  }

  void begin_line() override { at_ = At::kStart; }

  LineResult parse(const char* first, const char* last, RowHead& head, Batch& batch) override {
    if (first == last) return LineResult::nothing();
    const uint64_t names = dictionaries_.features.size();
    LineResult result = read_row(first, last, head, batch);
    if (result.reason == Reason::kNone) return result;
    if (dictionaries_.features.size() != names) forget_keys();  // the driver removes the new names
    const size_t cells = count_cells(first, last, delimiter_);
    if (cells != columns_.size() && result.reason != Reason::kQuoteOpen) {
      result = LineResult::failed(Reason::kCellCount, first);
      result.cell = static_cast<int64_t>(cells);
      result.length = static_cast<size_t>(last - first);
    }
    return result;
  }

 private:
  static constexpr int64_t kNoKey = -3;
  static constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

  struct Column {
    std::string name;      // text: the prefix of its features, column=
    int64_t key = kNoKey;  // numbers: the key, once it is known
    bool multiplied = false;
    std::vector<std::pair<std::string, double>> features = {};  // of this row, if multiplied
  };

  LineResult read_row(const char* first, const char* last, RowHead& head, Batch& batch) {
    const std::string_view row(first, static_cast<size_t>(last - first));
    if (!is_utf8(row) || std::memchr(first, 0, row.size()) != nullptr) {
      return LineResult::failed(Reason::kInvalidUtf8, first);
    }
    before_ = batch.features();
    count_ = 0;
    room(batch, columns_.size());
    tag_.clear();
    const char* p = first;
    for (size_t number = 0;; ++number, ++p) {
      if (number == columns_.size()) return LineResult::failed(Reason::kCellCount, first);
      const char* const start = p;
      const Reason reason = read(p, last, number, head, batch);
      if (reason != Reason::kNone) {
        LineResult result = LineResult::failed(reason, start == last ? first : start);
        result.cell = static_cast<int64_t>(number);
        const Cell cell = read_cell(start, last, delimiter_, scratch_);
        const size_t size = cell.open ? cell.text.size() : static_cast<size_t>(cell.end - start);
        result.length = std::max<size_t>(size, 1);
        return result;
      }
      if (p == last) {
        if (number + 1 != columns_.size()) return LineResult::failed(Reason::kCellCount, first);
        break;
      }
    }
    for (size_t k = 0; k < layout_.products.size(); ++k) {
      if (const Reason reason = multiply(k, batch); reason != Reason::kNone) {
        LineResult result = LineResult::failed(reason, first);
        result.cell = static_cast<int64_t>(columns_.size() + k);
        return result;
      }
    }
    head.tag = tag_;
    return LineResult::row(count_);
  }

  // Reads the cell at p and moves p past it.
  Reason read(const char*& p, const char* last, size_t number, RowHead& head, Batch& batch) {
    CsvColumn& column = layout_.columns[number];
    if (column.kind == CellKind::kUnknown) decide(p, last, column, batch);
    if (column.kind == CellKind::kNumber) {
      double value;
      const Reason reason = read_number(p, last, value);
      if (reason != Reason::kNone) return reason;
      return std::isnan(value) ? add_missing(number, batch) : add_number(number, value, batch);
    }
    const Cell cell = read_cell(p, last, delimiter_, scratch_);
    if (cell.open) return Reason::kQuoteOpen;
    const char* const start = p;
    p = cell.end;
    switch (column.kind) {
      case CellKind::kText:
        return add_text(number, cell.text, batch);
      case CellKind::kDate:
        return add_date(number, trimmed(cell.text), batch);
      case CellKind::kAmount: {
        double value;
        const std::string_view word = trimmed(cell.text);
        if (is_missing(word)) return add_missing(number, batch);
        if (!read_amount(word, value)) return Reason::kNotANumber;
        return add_number(number, value, batch);
      }
      case CellKind::kTag:
        if (!is_missing(cell.text)) tag_ = cell.text;
        return Reason::kNone;
      case CellKind::kLabel:
        if (is_missing(trimmed(cell.text))) {
          return options_.allow_unlabelled ? Reason::kNone : Reason::kLabelMissing;
        }
        if (options_.labels == LabelMode::kToken) {
          head.label_code = static_cast<int64_t>(dictionaries_.labels.insert(cell.text));
          return Reason::kNone;
        }
        p = start;
        return read_number(p, last, head.label);
      case CellKind::kWeight: {
        if (is_missing(trimmed(cell.text))) return Reason::kNegativeWeight;
        p = start;
        const Reason reason = read_number(p, last, head.weight);
        if (reason != Reason::kNone) return reason;
        return head.weight >= 0 ? Reason::kNone : Reason::kNegativeWeight;
      }
      case CellKind::kOffset:
        p = start;
        return read_number(p, last, head.offset);
      case CellKind::kUnknown:
        return add_missing(number, batch);  // any other cell would have decided the kind
      default:
        return Reason::kNone;
    }
  }

  // Decides the kind of a column by the cell at p, unless that is missing.
  void decide(const char* p, const char* last, CsvColumn& column, Batch& batch) {
    const Cell cell = read_cell(p, last, delimiter_, scratch_);
    if (cell.open || is_missing(trimmed(cell.text))) return;
    double value;
    if (read_date(trimmed(cell.text), value)) {
      column.kind = CellKind::kDate;
      batch.date_columns.push_back(column.name);
      return;
    }
    column.kind =
        read_number(p, last, value) == Reason::kNotANumber ? CellKind::kText : CellKind::kNumber;
    (column.kind == CellKind::kNumber ? batch.number_columns : batch.text_columns)
        .push_back(column.name);
  }

  // Reads a cell that holds a number, true or false; NaN for a missing cell.
  [[gnu::always_inline]] inline Reason read_number(const char*& p, const char* last,
                                                   double& value) {
    if (read_short_cell(p, last, delimiter_, value)) [[likely]]
      return Reason::kNone;
    if (p != last && *p != delimiter_) return read_long_number(p, last, value);
    value = kMissing;
    return Reason::kNone;
  }

  Reason read_long_number(const char*& p, const char* last, double& value) {
    const Cell cell = read_cell(p, last, delimiter_, scratch_);
    if (cell.open) return Reason::kQuoteOpen;
    const std::string_view word = trimmed(cell.text);
    p = cell.end;
    value = is_missing(word) ? kMissing : 0;
    if (std::isnan(value) || is_word(word, "false")) return Reason::kNone;
    if (is_word(word, "true")) {
      value = 1;
      return Reason::kNone;
    }
    return read_any_number(word.data(), word.data() + word.size(), value);
  }

  bool is_missing(std::string_view cell) const {
    if (cell.empty()) return true;
    if (!may_be_missing_[static_cast<uint8_t>(cell.front())]) return false;
    return std::find(options_.na_values.begin(), options_.na_values.end(), cell) !=
           options_.na_values.end();
  }

  [[gnu::always_inline]] inline Reason add_number(size_t number, double value, Batch& batch) {
    Column& column = columns_[number];
    if (column.multiplied) {
      column.features.clear();
      if (value != 0) column.features.push_back({layout_.columns[number].name, value});
    }
    if (value == 0) return Reason::kNone;
    if (column.key < 0) {
      column.key = keys_.of_name(layout_.columns[number].name);
      if (column.key == FeatureKeys::kNoIndex) return Reason::kNameNotIndex;
    }
    return add(column.key, value, batch);
  }

  // Only the days are multiplied with other columns.
  Reason add_date(size_t number, std::string_view word, Batch& batch) {
    if (is_missing(word)) return add_missing(number, batch);
    double days;
    if (!read_date(word, days)) return Reason::kNotADate;
    room(batch, columns_.size() + kDateParts.size());
    const auto parts = date_parts(days);
    Reason reason = add_number(number, parts[0], batch);
    for (size_t k = 1; k < parts.size() && reason == Reason::kNone; ++k) {
      if (parts[k] == 0) continue;
      scratch_ = layout_.columns[number].name;
      scratch_ += kDateParts[k];
      const int64_t key = keys_.of_name(scratch_);
      reason = key == FeatureKeys::kNoIndex ? Reason::kNameNotIndex : add(key, parts[k], batch);
    }
    return reason;
  }

  Reason add_missing(size_t number, Batch& batch) {
    columns_[number].features.clear();
    if (options_.refuse_missing) return Reason::kCellMissing;
    return options_.mark_missing ? add_feature(columns_[number], kMissingWord, 1, batch)
                                 : Reason::kNone;
  }

  Reason add_text(size_t number, std::string_view cell, Batch& batch) {
    Column& column = columns_[number];
    column.features.clear();
    if (is_missing(trimmed(cell))) return add_missing(number, batch);
    if (layout_.columns[number].ngrams != 0) return add_ngrams(number, cell, batch);
    return add_feature(column, cell, 1, batch);
  }

  Reason add_feature(Column& column, std::string_view word, double value, Batch& batch) {
    const size_t prefix = column.name.size();
    column.name += word;
    const int64_t key = keys_.of_name(column.name);
    if (column.multiplied) column.features.push_back({column.name, value});
    column.name.resize(prefix);
    if (key == FeatureKeys::kNoIndex) return Reason::kNameNotIndex;
    return add(key, value, batch);
  }

  // The value of an n-gram is its count.
  Reason add_ngrams(size_t number, std::string_view cell, Batch& batch) {
    const WordCounts grams = ngrams(cell, layout_.columns[number].ngrams);
    room(batch, columns_.size() + grams.size());
    for (const auto& [gram, count] : grams) {
      const Reason reason = add_feature(columns_[number], gram, count, batch);
      if (reason != Reason::kNone) return reason;
    }
    return Reason::kNone;
  }

  Reason multiply(size_t k, Batch& batch) {
    const auto [first, second] = layout_.products[k];
    const Column &left = columns_[first], &right = columns_[second];
    room(batch, left.features.size() * right.features.size());
    for (const auto& [name, value] : left.features) {
      for (const auto& [other_name, other_value] : right.features) {
        scratch_ = name;
        (scratch_ += '*') += other_name;
        const int64_t key = keys_.of_name(scratch_);
        if (key == FeatureKeys::kNoIndex) return Reason::kNameNotIndex;
        const Reason reason = add(key, value * other_value, batch);
        if (reason != Reason::kNone) return reason;
      }
    }
    return Reason::kNone;
  }

  Reason add(int64_t key, double value, Batch& batch) {
    if (key == FeatureKeys::kUnknown) {
      ++batch.unknown_features;
      return Reason::kNone;
    }
    const size_t at = before_ + count_++;
    batch.indices[at] = key;
    const auto stored = static_cast<Value>(value);
    batch.values<Value>()[at] = stored;
    return check_value(stored, options_);
  }

  // Makes room for `more` features of this row.
  void room(Batch& batch, size_t more) {
    batch.indices.reserve(before_ + count_ + more);
    batch.values<Value>().reserve(before_ + count_ + more);
  }

  void forget_keys() {
    for (Column& column : columns_) column.key = kNoKey;
  }

  const Options& options_;
  char delimiter_ = ',';
  Dictionaries& dictionaries_;
  FeatureKeys keys_;
  CsvLayout layout_;
  std::vector<Column> columns_;
  std::array<bool, 256> may_be_missing_{};  // by the first byte
  At at_ = At::kStart;
  size_t before_ = 0;  // features of the batch's rows
  size_t count_ = 0;   // features of this row
  std::string scratch_;
  std::string tag_;
};

}  // namespace

std::unique_ptr<LineParser> make_csv_parser(const Options& options, Dictionaries& dictionaries) {
  if (options.double_values) return std::make_unique<CsvParser<double>>(options, dictionaries);
  return std::make_unique<CsvParser<float>>(options, dictionaries);
}

}  // namespace sonline::text
