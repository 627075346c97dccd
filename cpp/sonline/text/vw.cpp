// Vowpal Wabbit text:  [label [importance [base]]] ['tag] |namespace[:weight] feature[:value] ...
//
// As in Vowpal Wabbit, the last word before the first '|' is a tag if it starts with an apostrophe
// or touches the bar ("1 1.0 tag|a b"), a feature without a value has the value 1, and features
// without a name are numbered within their namespace (":0.5 :0.7" are the features 0 and 1). A
// feature's full name is namespace^feature, or the feature alone in the default namespace. The
// constant feature is not added here, and features of value 0 are kept.
#include <charconv>
#include <cmath>
#include <cstring>
#include <vector>

#include "sonline/text/line_parser.hpp"
#include "sonline/text/short_number.hpp"

namespace sonline::text {

namespace {

constexpr uint8_t kWordEnds = kBlank | kControl | kBar;

template <class Value>
class VwParser final : public LineParser {
 public:
  VwParser(const Options& options, Dictionaries& dictionaries)
      : options_(options), dictionaries_(dictionaries), keys_(options, dictionaries.features) {}

  LineResult parse(const char* first, const char* last, RowHead& head, Batch& batch) override {
    const char* const start = skip_blanks(first);
    if (start >= last) return LineResult::nothing();
    const auto size = static_cast<size_t>(last - start);
    const auto* bar = static_cast<const char*>(std::memchr(start, '|', size));
    if (bar == nullptr) return LineResult::failed(Reason::kBarMissing, start);
    const char* base = nullptr;  // a base prediction, if there is one
    if (const LineResult failure = read_head(start, bar, head, base);
        failure.reason != Reason::kNone) {
      return failure;
    }
    const LineResult result = read_features(bar, last, batch);
    if (result.reason != Reason::kNone || base == nullptr) return result;
    return LineResult::failed(Reason::kBasePrediction, base);
  }

 private:
  struct Word {
    const char* first;
    const char* last;
    std::string_view text() const { return {first, static_cast<size_t>(last - first)}; }
  };

  LineResult read_head(const char* p, const char* bar, RowHead& head, const char*& base) {
    constexpr size_t kMaxWords = 4;
    Word words[kMaxWords];
    size_t count = 0;
    for (p = skip_blanks(p); p != bar; p = skip_blanks(p)) {
      if (count == kMaxWords) return LineResult::failed(Reason::kTooManyLabelFields, p);
      const char* end = p;
      while (!is_any_of(*end, kWordEnds)) ++end;
      if (is_any_of(*end, kControl)) return LineResult::failed(Reason::kControlByte, end);
      words[count++] = {p, end};
      p = end;
    }
    if (count != 0 && (words[count - 1].last == bar || *words[count - 1].first == '\'')) {
      const Word& word = words[--count];
      if (!is_utf8(word.text())) return LineResult::failed(Reason::kInvalidUtf8, word.first);
      head.tag = word.text();
      if (head.tag.front() == '\'') head.tag.remove_prefix(1);
    }
    if (count == 0) {
      if (options_.allow_unlabelled) return {};
      return LineResult::failed(Reason::kLabelMissing, bar);
    }
    if (count > 3) return LineResult::failed(Reason::kTooManyLabelFields, words[3].first);
    if (options_.labels == LabelMode::kToken) {
      const std::string_view token = words[0].text();
      if (!is_utf8(token)) return LineResult::failed(Reason::kInvalidUtf8, words[0].first);
      head.label_code = static_cast<int64_t>(dictionaries_.labels.insert(token));
    }
    double base_prediction = 0;
    double* const numbers[] = {&head.label, &head.weight, &base_prediction};
    for (size_t i = options_.labels == LabelMode::kToken ? 1 : 0; i < count; ++i) {
      const char* q = words[i].first;
      const Reason reason = read_number<kWordEnds>(q, *numbers[i]);
      if (reason != Reason::kNone) return LineResult::failed(reason, words[i].first);
    }
    if (head.weight < 0) return LineResult::failed(Reason::kNegativeWeight, words[1].first);
    if (base_prediction != 0) base = words[2].first;
    return {};
  }

  LineResult read_features(const char* p, const char* last, Batch& batch) {
    const size_t before = batch.features();
    // A feature takes at least one byte and its separator.
    const size_t room = static_cast<size_t>(last - p) / 2 + 1;
    batch.indices.reserve(before + room);
    batch.values<Value>().reserve(before + room);
    if (options_.namespaces) batch.namespaces.reserve(before + room);
    int64_t* const indices = batch.indices.data() + before;
    Value* const values = batch.values<Value>().data() + before;
    uint32_t* const spaces = options_.namespaces ? batch.namespaces.data() + before : nullptr;
    size_t count = 0;
    digits_.build(p, last);
    uint32_t space_id = 0;
    double scale = 1;
    uint64_t unnamed = 0;
    bool skipped = false;
    while (p < last) {
      if (*p == '|') {
        ++p;
        const char space = is_any_of(*p, kWordEnds) ? ' ' : *p;  // the default namespace
        if (const LineResult failure = open_namespace(p, last, scale, space_id);
            failure.reason != Reason::kNone) {
          return failure;
        }
        unnamed = 0;
        skipped = options_.skipped_spaces[static_cast<uint8_t>(space)];
        continue;
      }
      if (is_any_of(*p, kBlank)) {
        ++p;
        continue;
      }
      const char* const start = p;
      bool ascii;
      p = find_name_end(p, ascii);
      const std::string_view name(start, static_cast<size_t>(p - start));
      if (!ascii && !is_utf8(name)) return LineResult::failed(Reason::kInvalidUtf8, start);
      double value = 1;
      if (*p == ':') {
        const char* const number = ++p;
        if (is_any_of(*p, kWordEnds)) return LineResult::failed(Reason::kValueMissing, start);
        if (!read_short_number<kWordEnds>(digits_.others_at(p), p, value)) {
          const Reason reason = read_number<kWordEnds>(p, value);
          if (reason != Reason::kNone) return LineResult::failed(reason, number);
        }
      } else if (is_any_of(*p, kControl) && p < last) {
        return LineResult::failed(Reason::kControlByte, p);
      }
      if (skipped) continue;
      const int64_t key = name.empty() ? key_of_number(unnamed++) : key_of(name);
      if (key == FeatureKeys::kNoIndex) return LineResult::failed(Reason::kNameNotIndex, start);
      if (key == FeatureKeys::kUnknown) {
        ++batch.unknown_features;
        continue;
      }
      const auto scaled = static_cast<Value>(value * scale);
      if (const Reason why = check_value(scaled, options_); why != Reason::kNone) {
        return LineResult::failed(why, start);
      }
      indices[count] = key;
      values[count] = scaled;
      if (spaces != nullptr) spaces[count] = space_id;
      ++count;
    }
    return LineResult::row(count);
  }

  // Reads the word directly after a bar and makes it the current namespace.
  LineResult open_namespace(const char*& p, const char* last, double& scale, uint32_t& space_id) {
    const char* const start = p;
    bool ascii;
    p = find_name_end(p, ascii);
    const std::string_view name(start, static_cast<size_t>(p - start));
    if (!ascii && !is_utf8(name)) return LineResult::failed(Reason::kInvalidUtf8, start);
    scale = 1;
    if (*p == ':') {
      if (name.empty()) return LineResult::failed(Reason::kNamespaceMissing, start);
      const char* const number = ++p;
      if (is_any_of(*p, kWordEnds)) return LineResult::failed(Reason::kValueMissing, start);
      const Reason reason = read_number<kWordEnds>(p, scale);
      if (reason != Reason::kNone) return LineResult::failed(reason, number);
    } else if (is_any_of(*p, kControl) && p < last) {
      return LineResult::failed(Reason::kControlByte, p);
    }
    prefix_size_ = 0;
    if (!name.empty()) {
      prefix_size_ = name.size() + 1;
      if (full_name_.size() < prefix_size_) full_name_.resize(prefix_size_);
      name.copy(full_name_.data(), name.size());
      full_name_[name.size()] = '^';
    }
    if (options_.namespaces)
      space_id = static_cast<uint32_t>(dictionaries_.namespaces.insert(name));
    return {};
  }

  // Names are copied in pieces of a fixed size, which is faster than copying the exact length. The
  // bytes after a name can be read: they are part of a padded line, or of `digits` below.
  int64_t key_of(std::string_view name) {
    if (prefix_size_ == 0) return keys_.of_name(name);
    constexpr size_t kPiece = 16;
    const size_t size = prefix_size_ + name.size();
    if (full_name_.size() < size + kPiece) full_name_.resize(2 * size + kPiece);
    for (size_t i = 0; i < name.size(); i += kPiece) {
      std::memcpy(full_name_.data() + prefix_size_ + i, name.data() + i, kPiece);
    }
    return keys_.of_name({full_name_.data(), size});
  }

  int64_t key_of_number(uint64_t number) {
    char digits[32] = {};
    const char* end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    return key_of({digits, static_cast<size_t>(end - digits)});
  }

  const Options& options_;
  Dictionaries& dictionaries_;
  FeatureKeys keys_;
  DigitMap digits_;
  std::vector<char> full_name_;  // starts with the current namespace and '^'
  size_t prefix_size_ = 0;       // of those; 0 in the default namespace
};

}  // namespace

std::unique_ptr<LineParser> make_vw_parser(const Options& options, Dictionaries& dictionaries) {
  if (options.double_values) return std::make_unique<VwParser<double>>(options, dictionaries);
  return std::make_unique<VwParser<float>>(options, dictionaries);
}

}  // namespace sonline::text
