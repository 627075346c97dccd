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
#include "sonline/text/line_parser.hpp"
#include "sonline/text/ngrams.hpp"
#include "sonline/text/number.hpp"

namespace sonline::text {

namespace {

constexpr unsigned kDeepest = 500;
constexpr uint32_t kNoColumn = UINT32_MAX;

// The first byte at or after p that may end a JSON string, or needs special care: a quotation mark,
// a backslash or a control byte.
inline const char* find_string_end(const char* p) {
  constexpr uint64_t kHigh = repeat_byte(0x80);
  const auto zeros = [](uint64_t x) { return (x - repeat_byte(1)) & ~x & kHigh; };
  for (;; p += 8) {
    const uint64_t word = load64(p);
    const uint64_t ends = ((word - repeat_byte(0x20)) & ~word & kHigh) |
                          zeros(word ^ repeat_byte('"')) | zeros(word ^ repeat_byte('\\'));
    if (ends != 0) return p + std::countr_zero(ends) / 8;
  }
}

bool read_hex(const char* p, uint32_t& code) {
  code = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = p[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return false;
    code = code * 16 + static_cast<uint32_t>(digit);
  }
  return true;
}

void append_utf8(std::string& text, uint32_t code) {
  const auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

// A number as a word, spelled as Python spells it: 1.0 and 1 are the same word.
std::string number_word(std::string_view written, double value) {
  const bool integer = written.find_first_of(".eE") == std::string_view::npos;
  if (integer) return written == "-0" ? "0" : std::string(written);
  char digits[400];
  char* const last = digits + sizeof digits;
  if (value == std::trunc(value)) {
    return {digits, std::to_chars(digits, last, value + 0.0, std::chars_format::fixed, 0).ptr};
  }
  const char* end = std::to_chars(digits, last, value, std::chars_format::scientific).ptr;
  const char* const e = std::find(static_cast<const char*>(digits), end, 'e');
  int exponent = 0;
  std::from_chars(e + 1 + (e[1] == '+'), end, exponent);
  if (exponent >= -4 && exponent < 16) {
    end = std::to_chars(digits, last, value, std::chars_format::fixed).ptr;
  }
  return std::string(static_cast<const char*>(digits), end);
}

template <class Value>
class JsonParser final : public LineParser {
 public:
  JsonParser(const Options& options, Dictionaries& dictionaries)
      : options_(options), dictionaries_(dictionaries), keys_(options, dictionaries.features) {
    columns_.emplace_back();  // the row itself
  }

  std::vector<std::string> columns() const override {
    std::vector<std::string> names;
    for (const Column& column : columns_) names.emplace_back(path(column));
    return names;
  }

  void set_json_layout(JsonLayout layout) override {
    layout_ = std::move(layout);
    products_.resize(layout_.products.size());
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
    result.column = fault_ == kNoColumn ? std::string_view() : path(columns_[fault_]);
    return result;
  }

 private:
  static constexpr int64_t kNoKey = -3;

  enum class Type : uint8_t { kUnknown, kNumber, kText, kDate };

  struct Children {
    NameTable keys;
    std::vector<uint32_t> columns;
  };

  struct Column {
    std::string name = "=";  // its path and an equals sign: the prefix of text features
    size_t key_size = 0;     // length of its key, the end of the path
    uint32_t parent = kNoColumn;
    uint32_t first = kNoColumn;  // the first key of the last object here
    uint32_t next = kNoColumn;   // the key after this one in the last object
    int64_t feature = kNoKey;    // numbers: the key, once it is known
    uint64_t row = 0;            // the last row with this column, and where
    const char* where = nullptr;
    CellKind role = CellKind::kNumber;
    Type type = Type::kUnknown;
    CellKind kind = CellKind::kUnknown;  // kDate or kAmount, if that is known
    bool as_text = false;
    bool multiplied = false;
    size_t ngrams = 0;
    std::unique_ptr<Children> children = {};
    std::vector<std::pair<std::string, double>> features = {};  // of this row, if multiplied
  };

  static std::string_view path(const Column& column) {
    return std::string_view(column.name).substr(0, column.name.size() - 1);
  }

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
    for (size_t k = 0; k < products_.size(); ++k) {
      if (reason = multiply(k); reason != Reason::kNone) return reason;
    }
    return Reason::kNone;
  }

  Reason fail(Reason reason, const char* where) {
    where_ = where;
    word_ = std::string_view(where, static_cast<size_t>(last_ - where)).substr(0, 40);
    return reason;
  }

  // A value that its column cannot hold; the error points to the key of the column.
  Reason fail_value(Reason reason, uint32_t id, const char* from, const char* to) {
    where_ = key_;
    word_ = std::string_view(from, static_cast<size_t>(to - from)).substr(0, 40);
    fault_ = id;
    return reason;
  }

  void skip_space(const char*& p) const {
    while (p != last_ && (*p == ' ' || *p == '\t' || *p == '\r')) ++p;
  }

  // The string at p, which is a quotation mark; in `scratch` if it has escapes.
  Reason read_string(const char*& p, std::string_view& text, std::string& scratch) {
    const char* const first = p + 1;
    const char* q = find_string_end(first);
    if (*q == '"') [[likely]] {
      text = {first, static_cast<size_t>(q - first)};
      p = q + 1;
      return Reason::kNone;
    }
    scratch.assign(first, q);
    while (*q != '"') {
      if (*q != '\\') return fail(Reason::kJsonString, q == last_ ? p : q);
      const char* const escape = q++;
      switch (*q++) {
        case '"':
          scratch += '"';
          break;
        case '\\':
          scratch += '\\';
          break;
        case '/':
          scratch += '/';
          break;
        case 'b':
          scratch += '\b';
          break;
        case 'f':
          scratch += '\f';
          break;
        case 'n':
          scratch += '\n';
          break;
        case 'r':
          scratch += '\r';
          break;
        case 't':
          scratch += '\t';
          break;
        case 'u': {
          uint32_t code, low;
          if (!read_hex(q, code)) return fail(Reason::kJsonEscape, escape);
          q += 4;
          if (code >= 0xD800 && code < 0xDC00 && q[0] == '\\' && q[1] == 'u' &&
              read_hex(q + 2, low) && low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            q += 6;
          }
          if (code >= 0xD800 && code < 0xE000) return fail(Reason::kJsonSurrogate, escape);
          append_utf8(scratch, code);
          break;
        }
        default:
          return fail(Reason::kJsonEscape, escape);
      }
      const char* const piece = q;
      q = find_string_end(q);
      scratch.append(piece, q);
    }
    text = scratch;
    p = q + 1;
    return Reason::kNone;
  }

  // The number at p, which is a digit or a minus sign.
  Reason read_number(const char*& p, double& value) {
    const char* const first = p;
    const char* q = p;
    const bool negative = *q == '-';
    q += negative;
    const bool zero = *q == '0';
    uint64_t mantissa = 0;
    size_t digits = read_digits(q, mantissa);
    if (digits == 0 || (zero && digits > 1)) return fail(Reason::kJsonNumber, first);
    size_t decimals = 0;
    if (*q == '.') {
      ++q;
      decimals = read_digits(q, mantissa);
      if (decimals == 0) return fail(Reason::kJsonNumber, first);
      digits += decimals;
    }
    if (digits <= 19 && (*q | 32) != 'e') [[likely]] {
      value = mantissa >> 53 == 0 ? exact_quotient(mantissa, decimals, negative)
                                  : long_quotient(mantissa, decimals, negative);
      p = q;
      return Reason::kNone;
    }
    if ((*q | 32) == 'e') {
      ++q;
      q += *q == '+' || *q == '-';
      if (!is_digit(*q)) return fail(Reason::kJsonNumber, first);
      while (is_digit(*q)) ++q;
    }
    p = q;
    return read_any_number(first, q, value);
  }

  // Moves p past a word; false if the word is not at p.
  static bool skip_word(const char*& p, std::string_view word) {
    if (std::string_view(p, word.size()) != word) return false;
    p += word.size();
    return true;
  }

  static bool skip_not_finite(const char*& p) {
    return skip_word(p, "NaN") || skip_word(p, "Infinity") || skip_word(p, "-Infinity");
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
      const uint32_t id = column_of(parent, key, previous);
      if (depth == 1) key_ = key_at;
      Column& column = columns_[id];
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
      if (!set_type(id, Type::kText)) return fail_value(Reason::kJsonNested, id, begin, p);
      return add_words(id, words);
    }
    p = begin;
    if (columns_[id].type != Type::kUnknown) return fail_nested(id, p, depth);
    ++p;
    uint32_t previous = kNoColumn;
    for (uint64_t index = 0;; ++index) {
      skip_space(p);
      char digits[20];
      const char* const end = std::to_chars(digits, digits + sizeof digits, index).ptr;
      previous = column_of(id, {digits, static_cast<size_t>(end - digits)}, previous);
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
        if (columns_[id].type != Type::kUnknown) return fail_nested(id, p, depth);
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
    if (role == CellKind::kIgnored || (null && role != CellKind::kWeight)) {
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

  // Skips any well-formed value.
  Reason skip_value(const char*& p, unsigned depth) {
    const char* const first = p;
    if (*p == '"') {
      std::string_view text;
      return read_string(p, text, scratch_);
    }
    if (*p == '{' || *p == '[') return skip_nested(p, depth + 1);
    if (skip_word(p, "null") || skip_word(p, "true") || skip_word(p, "false") ||
        skip_not_finite(p)) {
      return Reason::kNone;
    }
    if (*p != '-' && !is_digit(*p)) return fail(Reason::kJsonValue, first);
    double value;
    const Reason reason = read_number(p, value);
    return reason == Reason::kJsonNumber ? reason : Reason::kNone;
  }

  Reason skip_nested(const char*& p, unsigned depth) {
    if (depth > kDeepest) return fail(Reason::kJsonDeep, p);
    const bool object = *p == '{';
    const char close = object ? '}' : ']';
    ++p;
    skip_space(p);
    if (*p == close) {
      ++p;
      return Reason::kNone;
    }
    for (;; ++p) {
      skip_space(p);
      if (object) {
        if (*p != '"') return fail(Reason::kJsonKey, p);
        std::string_view key;
        const Reason reason = read_string(p, key, scratch_);
        if (reason != Reason::kNone) return reason;
        skip_space(p);
        if (*p != ':') return fail(Reason::kJsonColon, p);
        ++p;
        skip_space(p);
      }
      const Reason reason = skip_value(p, depth);
      if (reason != Reason::kNone) return reason;
      skip_space(p);
      if (*p == close) {
        ++p;
        return Reason::kNone;
      }
      if (*p != ',') return fail(Reason::kJsonComma, p);
    }
  }

  // The column of a key. Most rows have the same keys in the same order, so the key that followed
  // `previous` in the last row is tried first.
  uint32_t column_of(uint32_t parent, std::string_view key, uint32_t previous) {
    const bool begins = previous == kNoColumn;
    const uint32_t guess = begins ? columns_[parent].first : columns_[previous].next;
    if (guess != kNoColumn && columns_[guess].parent == parent) {
      const std::string_view name = path(columns_[guess]);
      if (name.substr(name.size() - columns_[guess].key_size) == key) return guess;
    }
    if (columns_[parent].children == nullptr) {
      columns_[parent].children = std::make_unique<Children>();
    }
    Children& children = *columns_[parent].children;
    const uint64_t number = children.keys.insert(key);
    if (number == children.columns.size()) children.columns.push_back(make_column(parent, key));
    const uint32_t id = children.columns[number];
    (begins ? columns_[parent].first : columns_[previous].next) = id;
    return id;
  }

  uint32_t make_column(uint32_t parent, std::string_view key) {
    const auto id = static_cast<uint32_t>(columns_.size());
    Column column;
    column.name = path(columns_[parent]);
    if (parent != 0) column.name += '.';
    column.name += key;
    column.key_size = key.size();
    column.parent = parent;
    if (const auto role = layout_.roles.find(column.name); role != layout_.roles.end()) {
      column.role = role->second;
    }
    column.as_text = layout_.text.contains(column.name);
    if (const auto kind = layout_.kinds.find(column.name); kind != layout_.kinds.end()) {
      column.kind = kind->second;
    }
    if (const auto most = layout_.ngrams.find(column.name); most != layout_.ngrams.end()) {
      column.ngrams = most->second;
    }
    for (size_t k = 0; k < products_.size(); ++k) {
      const auto& [one, other] = layout_.products[k];
      if (column.name == one) products_[k].first.push_back(id);
      if (column.name == other) products_[k].second.push_back(id);
      column.multiplied |= column.name == one || column.name == other;
    }
    column.name += '=';
    columns_.push_back(std::move(column));
    return id;
  }

  // The type of a column is that of its first value; false if it holds objects or arrays.
  bool set_type(uint32_t id, Type type) {
    Column& column = columns_[id];
    if (column.type != Type::kUnknown) return true;
    if (column.children != nullptr) return false;
    column.type = type;
    Strings& columns = type == Type::kNumber ? batch_->number_columns
                       : type == Type::kText ? batch_->text_columns
                                             : batch_->date_columns;
    columns.push_back(path(column));
    return true;
  }

  Reason add_number(uint32_t id, double value, const char* from, const char* to) {
    Column& column = columns_[id];
    if (column.as_text) [[unlikely]] {
      const std::string_view written(from, static_cast<size_t>(to - from));
      const bool truth = *from == 't' || *from == 'f';
      return add_text(id, truth ? (value != 0 ? "1" : "0") : number_word(written, value), from, to);
    }
    if (column.type == Type::kUnknown && !set_type(id, Type::kNumber)) [[unlikely]] {
      return fail_value(Reason::kJsonNested, id, from, to);
    }
    if (value == 0) return Reason::kNone;
    if (collecting_ != 0) collected_.push_back({std::string(path(column)), value});
    if (column.feature < 0) {
      column.feature = keys_.of_name(path(column));
      if (column.feature == FeatureKeys::kNoIndex) return fail_name(id, path(column));
      new_keys_.push_back(id);
    }
    const Reason reason = add(column.feature, value);
    return reason == Reason::kNone ? reason : fail_value(reason, id, from, to);
  }

  // The first text of a column decides whether it holds dates.
  bool holds_dates(const Column& column, std::string_view text) const {
    double days;
    if (column.type == Type::kDate || column.kind == CellKind::kDate) return true;
    return column.type == Type::kUnknown && column.kind == CellKind::kUnknown && !column.as_text &&
           column.ngrams == 0 && read_date(text, days);
  }

  // Only the days are multiplied with other columns.
  Reason add_date(uint32_t id, std::string_view text, const char* from, const char* to) {
    double days;
    if (!read_date(text, days)) return fail_value(Reason::kNotADate, id, from, to);
    if (!set_type(id, Type::kDate)) return fail_value(Reason::kJsonNested, id, from, to);
    const auto parts = date_parts(days);
    Reason reason = add_number(id, parts[0], from, to);
    for (size_t k = 1; k < parts.size() && reason == Reason::kNone; ++k) {
      if (parts[k] == 0) continue;
      scratch_ = path(columns_[id]);
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
    if (!set_type(id, Type::kText)) return fail_value(Reason::kJsonNested, id, from, to);
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
    for (const uint32_t one : products_[k].first) {
      for (const uint32_t other : products_[k].second) {
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

  struct Product {
    std::vector<uint32_t> first, second;  // the columns of these names
  };

  const Options& options_;
  Dictionaries& dictionaries_;
  FeatureKeys keys_;
  JsonLayout layout_;
  std::vector<Product> products_;
  std::vector<Column> columns_;
  uint64_t row_ = 0;

  // The current row.
  const char* last_ = nullptr;
  const char* key_ = nullptr;  // the key of the current column
  Batch* batch_ = nullptr;
  RowHead* head_ = nullptr;
  size_t before_ = 0;  // features of the batch's rows
  size_t count_ = 0;   // features of this row
  bool has_label_ = false;
  size_t collecting_ = 0;  // number of multiplied columns that contain the value
  std::vector<std::pair<std::string, double>> collected_;
  std::vector<uint32_t> new_keys_;  // columns whose feature was looked up in this row
  std::string scratch_;
  std::string tag_;

  // The error of the current row.
  const char* where_ = nullptr;
  std::string_view word_;
  std::string name_;
  uint32_t fault_ = kNoColumn;
};

}  // namespace

std::unique_ptr<LineParser> make_json_parser(const Options& options, Dictionaries& dictionaries) {
  if (options.double_values) return std::make_unique<JsonParser<double>>(options, dictionaries);
  return std::make_unique<JsonParser<float>>(options, dictionaries);
}

}  // namespace sonline::text
