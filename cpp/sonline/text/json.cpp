// JSON lines:  {"label": 1, "age": 42, "city": "Rome", "tags": ["a", "b"], "user": {"id": 7}}
//
// A number is one feature with the name of its column, text the feature column=text of value 1 (or
// its n-grams, with their counts); null and zeros are absent. Objects within an object have the
// columns column.key, arrays column.0, column.1, ...; arrays of words are counts of column=word.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sonline/text/cells.hpp"
#include "sonline/text/json_columns.hpp"
#include "sonline/text/json_scanner.hpp"
#include "sonline/text/line_parser.hpp"
#include "sonline/text/ngrams.hpp"
#include "sonline/text/number.hpp"

namespace sonline::text {

namespace {

template <class Value>
class JsonParser final : public LineParser, private JsonScanner {
 public:
  JsonParser(const Options& options, Dictionaries& dictionaries)
      : options_(options), dictionaries_(dictionaries), keys_(options, dictionaries.features) {}

  std::vector<std::string> columns() const override {
    std::vector<std::string> names;
    for (const JsonColumn& column : columns_.all()) names.emplace_back(column.path());
    return names;
  }

  void set_json_layout(JsonLayout layout) override {
    has_offsets_ = false;
    for (const auto& [name, role] : layout.roles) has_offsets_ |= role == CellKind::kOffset;
    columns_.set_layout(std::move(layout));
  }

  LineResult parse(const char* first, const char* last, RowHead& head, Batch& batch) override {
    last_ = last;
    const char* p = first;
    skip_space(p);
    if (p == last) return LineResult::nothing();
    begin_row(batch, head);
    Reason reason = read_row(first, p);
    if (reason == Reason::kNone) {
      head.tag = tag_;
      return LineResult::row(count_);
    }
    for (const uint32_t id : new_keys_) columns_[id].feature = kNoKey;  // the names are removed
    LineResult result = LineResult::failed(reason, std::min(where_, last - 1));
    result.word = word_.empty() ? std::string_view(result.where, 1) : word_;
    result.column = fault_ == kNoColumn ? std::string_view() : columns_[fault_].path();
    return result;
  }

 private:
  void begin_row(Batch& batch, RowHead& head) {
    batch_ = &batch;
    head_ = &head;
    before_ = batch.features();
    count_ = 0;
    ++row_;
    collecting_ = 0;
    collected_.clear();
    new_keys_.clear();
    tag_.clear();
    has_label_ = false;
    where_ = nullptr;
    word_ = {};
    fault_ = kNoColumn;
    if (has_offsets_) head.offset = std::numeric_limits<double>::quiet_NaN();
  }

  Reason read_row(const char* first, const char* p) {
    const std::string_view line(first, static_cast<size_t>(last_ - first));
    if (const size_t valid = valid_utf8(line); valid != line.size()) {
      return fail(Reason::kInvalidUtf8, first + valid);
    }
    if (*p != '{') return fail(Reason::kJsonObject, p);
    Reason reason = read_object(0, p, 1);
    if (reason != Reason::kNone) return reason;
    skip_space(p);
    if (p != last_) return fail(Reason::kJsonRest, p);
    if (!has_label_ && !options_.allow_unlabelled) return fail(Reason::kLabelMissing, first);
    for (size_t k = 0; k < columns_.products().size(); ++k) {
      if (reason = multiply(k); reason != Reason::kNone) return reason;
    }
    return Reason::kNone;
  }

  // A value that its column cannot hold; the error points to the key of the column.
  Reason fail_value(Reason reason, uint32_t id, const char* from, const char* to) {
    where_ = key_;
    word_ = std::string_view(from, static_cast<size_t>(to - from)).substr(0, 40);
    fault_ = id;
    return reason;
  }

  Reason read_object(uint32_t parent, const char*& p, unsigned depth) {
    if (depth > kDeepest) return fail(Reason::kJsonDeep, p);
    ++p;
    skip_space(p);
    if (*p == '}') {
      ++p;
      return Reason::kNone;
    }
    for (uint32_t previous = kNoColumn;;) {
      if (*p != '"') return fail(Reason::kJsonKey, p);
      const char* const key_at = p;
      std::string_view key;
      Reason reason = read_string(p, key, scratch_);
      if (reason != Reason::kNone) return reason;
      const uint32_t id = columns_.of(parent, key, previous);
      if (depth == 1) key_ = key_at;
      JsonColumn& column = columns_[id];
      if (column.row == row_) {
        reason = fail_value(Reason::kJsonTwice, id, key_at, p);
        where_ = column.where;
        return reason;
      }
      column.row = row_;
      column.where = key_at;
      skip_space(p);
      if (*p != ':') return fail(Reason::kJsonColon, p);
      ++p;
      skip_space(p);
      reason = read_cell(id, p, depth);
      if (reason != Reason::kNone) return reason;
      previous = id;
      skip_space(p);
      if (*p == '}') {
        ++p;
        return Reason::kNone;
      }
      if (*p != ',') return fail(Reason::kJsonComma, p);
      ++p;
      skip_space(p);
    }
  }

  // Words of an array are counted; elements of other arrays are columns with their index as key.
  Reason read_array(uint32_t id, const char*& p, unsigned depth) {
    if (depth > kDeepest) return fail(Reason::kJsonDeep, p);
    const char* const begin = p++;
    skip_space(p);
    if (*p == ']') {
      ++p;
      return Reason::kNone;
    }
    WordCounts words;
    if (read_words(p, words)) {
      if (!set_type(id, JsonType::kText)) return fail_value(Reason::kJsonNested, id, begin, p);
      return add_words(id, words);
    }
    p = begin;
    if (columns_[id].type != JsonType::kUnknown) return fail_nested(id, p, depth);
    ++p;
    uint32_t previous = kNoColumn;
    for (uint64_t index = 0;; ++index) {
      skip_space(p);
      char digits[20];
      const char* const end = std::to_chars(digits, digits + sizeof digits, index).ptr;
      previous = columns_.of(id, {digits, static_cast<size_t>(end - digits)}, previous);
      columns_[previous].row = row_;
      const Reason reason = read_cell(previous, p, depth);
      if (reason != Reason::kNone) return reason;
      skip_space(p);
      if (*p == ']') {
        ++p;
        return Reason::kNone;
      }
      if (*p != ',') return fail(Reason::kJsonComma, p);
      ++p;
    }
  }

  // Whether the rest of an array holds only words.
  bool read_words(const char*& p, WordCounts& words) {
    for (;; ++p) {
      skip_space(p);
      std::string_view word;
      if (*p != '"' || read_string(p, word, scratch_) != Reason::kNone) return false;
      words.add(std::string(word));
      skip_space(p);
      if (*p == ']') {
        ++p;
        return true;
      }
      if (*p != ',') return false;
    }
  }

  // Reads the value at p for its column.
  Reason read_cell(uint32_t id, const char*& p, unsigned depth) {
    if (columns_[id].role != CellKind::kNumber) return read_special(id, p, depth);
    if (!columns_[id].multiplied) return read_features(id, p, depth);
    const size_t start = collected_.size();
    ++collecting_;
    const Reason reason = read_features(id, p, depth);
    --collecting_;
    columns_[id].features.assign(collected_.begin() + static_cast<ptrdiff_t>(start),
                                 collected_.end());
    return reason;
  }

  Reason read_features(uint32_t id, const char*& p, unsigned depth) {
    const char* const first = p;
    switch (*p) {
      case '"': {
        std::string_view text;
        const Reason reason = read_string(p, text, scratch_);
        return reason != Reason::kNone ? reason : add_text(id, text, first, p);
      }
      case '{':
        if (columns_[id].type != JsonType::kUnknown) return fail_nested(id, p, depth);
        return read_object(id, p, depth + 1);
      case '[':
        return read_array(id, p, depth + 1);
      case 'n':
        if (!skip_word(p, "null")) return fail(Reason::kJsonValue, first);
        if (options_.refuse_missing) return fail_value(Reason::kCellMissing, id, first, p);
        return options_.mark_missing ? add_word(id, kMissingWord, 1) : Reason::kNone;
      case 't':
        return skip_word(p, "true") ? add_number(id, 1, first, p) : fail(Reason::kJsonValue, first);
      case 'f':
        return skip_word(p, "false") ? add_number(id, 0, first, p)
                                     : fail(Reason::kJsonValue, first);
      default:
        break;
    }
    double value;
    const Reason reason = read_finite(id, p, value);
    return reason != Reason::kNone ? reason : add_number(id, value, first, p);
  }

  Reason read_finite(uint32_t id, const char*& p, double& value) {
    const char* const first = p;
    if (skip_not_finite(p)) return fail_value(Reason::kNotFinite, id, first, p);
    if (*p != '-' && !is_digit(*p)) return fail(Reason::kJsonValue, p);
    const Reason reason = read_number(p, value);
    if (reason == Reason::kNone || reason == Reason::kJsonNumber) return reason;
    return fail_value(reason, id, first, p);
  }

  // Reads the value of a label, weight, tag or ignored column.
  Reason read_special(uint32_t id, const char*& p, unsigned depth) {
    const char* const first = p;
    const CellKind role = columns_[id].role;
    const bool null = *p == 'n';
    if (role == CellKind::kIgnored ||
        (null && role != CellKind::kWeight && role != CellKind::kOffset)) {
      return skip_value(p, depth);
    }
    const bool word_fits = role == CellKind::kTag ||
                           (role == CellKind::kLabel && options_.labels == LabelMode::kToken);
    double value = 0;
    std::string word;
    if (*p == '"' && word_fits) {
      std::string_view text;
      const Reason reason = read_string(p, text, scratch_);
      if (reason != Reason::kNone) return reason;
      word = text;
    } else if (*p == '"' || *p == '{' || *p == '[' || null) {
      const Reason reason = skip_value(p, depth);
      return reason != Reason::kNone ? reason : fail_value(Reason::kJsonKind, id, first, p);
    } else if (skip_word(p, "true")) {
      value = 1;
      word = "1";
    } else if (skip_word(p, "false")) {
      word = "0";
    } else {
      const Reason reason = read_finite(id, p, value);
      if (reason != Reason::kNone) return reason;
      if (word_fits) word = number_word({first, static_cast<size_t>(p - first)}, value);
    }
    if (role == CellKind::kTag) {
      tag_ = std::move(word);
    } else if (role == CellKind::kWeight) {
      if (value < 0) return fail_value(Reason::kNegativeWeight, id, first, p);
      head_->weight = value;
    } else if (role == CellKind::kOffset) {
      head_->offset = value;
    } else {
      has_label_ = true;
      if (word_fits) {
        head_->label_code = static_cast<int64_t>(dictionaries_.labels.insert(word));
      } else {
        head_->label = value;
      }
    }
    return Reason::kNone;
  }

  // An object or array in a column of numbers or text.
  Reason fail_nested(uint32_t id, const char*& p, unsigned depth) {
    const char* const first = p;
    const Reason reason = skip_value(p, depth);
    return reason != Reason::kNone ? reason : fail_value(Reason::kJsonNested, id, first, p);
  }

  // The type of a column is that of its first value; false if it holds objects or arrays.
  bool set_type(uint32_t id, JsonType type) {
    JsonColumn& column = columns_[id];
    if (column.type != JsonType::kUnknown) return true;
    if (column.children != nullptr) return false;
    column.type = type;
    Strings& columns = type == JsonType::kNumber ? batch_->number_columns
                       : type == JsonType::kText ? batch_->text_columns
                                                 : batch_->date_columns;
    columns.push_back(column.path());
    return true;
  }

  Reason add_number(uint32_t id, double value, const char* from, const char* to) {
    JsonColumn& column = columns_[id];
    if (column.as_text) [[unlikely]] {
      const std::string_view written(from, static_cast<size_t>(to - from));
      const bool truth = *from == 't' || *from == 'f';
      return add_text(id, truth ? (value != 0 ? "1" : "0") : number_word(written, value), from, to);
    }
    if (column.type == JsonType::kUnknown && !set_type(id, JsonType::kNumber)) [[unlikely]] {
      return fail_value(Reason::kJsonNested, id, from, to);
    }
    if (value == 0) return Reason::kNone;
    if (collecting_ != 0) collected_.push_back({std::string(column.path()), value});
    if (column.feature < 0) {
      column.feature = keys_.of_name(column.path());
      if (column.feature == FeatureKeys::kNoIndex) return fail_name(id, column.path());
      new_keys_.push_back(id);
    }
    const Reason reason = add(column.feature, value);
    return reason == Reason::kNone ? reason : fail_value(reason, id, from, to);
  }

  // The first text of a column decides whether it holds dates.
  bool holds_dates(const JsonColumn& column, std::string_view text) const {
    double days;
    if (column.type == JsonType::kDate || column.kind == CellKind::kDate) return true;
    return column.type == JsonType::kUnknown && column.kind == CellKind::kUnknown &&
           !column.as_text && column.ngrams == 0 && read_date(text, days);
  }

  // Only the days are multiplied with other columns.
  Reason add_date(uint32_t id, std::string_view text, const char* from, const char* to) {
    double days;
    if (!read_date(text, days)) return fail_value(Reason::kNotADate, id, from, to);
    if (!set_type(id, JsonType::kDate)) return fail_value(Reason::kJsonNested, id, from, to);
    const auto parts = date_parts(days);
    Reason reason = add_number(id, parts[0], from, to);
    for (size_t k = 1; k < parts.size() && reason == Reason::kNone; ++k) {
      if (parts[k] == 0) continue;
      scratch_ = columns_[id].path();
      scratch_ += kDateParts[k];
      const int64_t key = keys_.of_name(scratch_);
      reason = key == FeatureKeys::kNoIndex ? fail_name(id, scratch_) : add(key, parts[k]);
    }
    return reason;
  }

  Reason add_text(uint32_t id, std::string_view text, const char* from, const char* to) {
    if (columns_[id].kind == CellKind::kAmount) {
      double value;
      if (read_amount(text, value)) return add_number(id, value, from, to);
      return fail_value(Reason::kNotANumber, id, from, to);
    }
    if (holds_dates(columns_[id], text)) return add_date(id, text, from, to);
    if (!set_type(id, JsonType::kText)) return fail_value(Reason::kJsonNested, id, from, to);
    if (columns_[id].ngrams != 0) return add_words(id, ngrams(text, columns_[id].ngrams));
    return add_word(id, text, 1);
  }

  Reason add_words(uint32_t id, const WordCounts& words) {
    for (const auto& [word, count] : words) {
      if (const Reason reason = add_word(id, word, count); reason != Reason::kNone) return reason;
    }
    return Reason::kNone;
  }

  Reason add_word(uint32_t id, std::string_view word, double value) {
    std::string& name = columns_[id].name;
    const size_t prefix = name.size();
    name += word;
    const int64_t key = keys_.of_name(name);
    if (collecting_ != 0) collected_.push_back({name, value});
    name.resize(prefix);
    return key == FeatureKeys::kNoIndex ? fail_name(id, word) : add(key, value);
  }

  Reason fail_name(uint32_t id, std::string_view name) {
    where_ = key_;
    name_ = name;
    word_ = name_;
    fault_ = id;
    return Reason::kNameNotIndex;
  }

  Reason multiply(size_t k) {
    const auto& [first, second] = columns_.products()[k];
    for (const uint32_t one : first) {
      for (const uint32_t other : second) {
        if (columns_[one].row != row_ || columns_[other].row != row_) continue;
        for (const auto& [name, value] : columns_[one].features) {
          for (const auto& [other_name, other_value] : columns_[other].features) {
            scratch_ = name;
            (scratch_ += '*') += other_name;
            const int64_t key = keys_.of_name(scratch_);
            key_ = columns_[one].where;
            if (key == FeatureKeys::kNoIndex) return fail_name(one, scratch_);
            const Reason reason = add(key, value * other_value);
            if (reason != Reason::kNone) return fail_value(reason, one, key_, key_ + 1);
          }
        }
      }
    }
    return Reason::kNone;
  }

  Reason add(int64_t key, double value) {
    if (key == FeatureKeys::kUnknown) {
      ++batch_->unknown_features;
      return Reason::kNone;
    }
    const size_t at = before_ + count_++;
    batch_->indices.reserve(at + 1);
    batch_->values<Value>().reserve(at + 1);
    batch_->indices[at] = key;
    const auto stored = static_cast<Value>(value);
    batch_->values<Value>()[at] = stored;
    return check_value(stored, options_);
  }

  const Options& options_;
  Dictionaries& dictionaries_;
  FeatureKeys keys_;
  JsonColumns columns_;
  bool has_offsets_ = false;
  uint64_t row_ = 0;

  // The current row.
  const char* key_ = nullptr;  // the key of the current column
  Batch* batch_ = nullptr;
  RowHead* head_ = nullptr;
  size_t before_ = 0;  // features of the batch's rows
  size_t count_ = 0;   // features of this row
  bool has_label_ = false;
  size_t collecting_ = 0;  // number of multiplied columns that contain the value
  std::vector<std::pair<std::string, double>> collected_;
  std::vector<uint32_t> new_keys_;  // columns whose feature was looked up in this row
  std::string tag_;

  std::string name_;  // that is at fault, or the column
  uint32_t fault_ = kNoColumn;
};

}  // namespace

std::unique_ptr<LineParser> make_json_parser(const Options& options, Dictionaries& dictionaries) {
  if (options.double_values) return std::make_unique<JsonParser<double>>(options, dictionaries);
  return std::make_unique<JsonParser<float>>(options, dictionaries);
}

}  // namespace sonline::text
