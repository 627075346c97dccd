// svmlight / libsvm:  label [qid:n] index:value index:value ... [# comment]
#include <cmath>

#include "sonline/text/line_parser.hpp"
#include "sonline/text/short_number.hpp"

namespace sonline::text {

namespace {

constexpr uint8_t kTokenEnds = kBlank | kControl | kHash;

template <class Value>
class SvmlightParser final : public LineParser {
 public:
  SvmlightParser(const Options& options, Dictionaries& dictionaries)
      : options_(options), labels_(dictionaries.labels), keys_(options, dictionaries.features) {}

  LineResult parse(const char* first, const char* last, RowHead& head, Batch& batch) override {
    const char* p = skip_blanks(first);
    if (p >= last || *p == '#') return LineResult::nothing();
    if (const LineResult failure = read_label(p, head); failure.reason != Reason::kNone) {
      return failure;
    }
    if (const LineResult failure = read_query(p); failure.reason != Reason::kNone) {
      return failure;
    }
    return read_features(p, last, batch);
  }

 private:
  LineResult read_label(const char*& p, RowHead& head) {
    if (is_any_of(*p, kControl)) return LineResult::failed(Reason::kControlByte, p);
    const char* end = p;
    bool colon = false;
    for (; !is_any_of(*end, kTokenEnds); ++end) colon |= *end == ':';
    if (colon && options_.label_weights) {
      const char* weight = end;
      while (weight[-1] != ':') --weight;
      if (weight == end) return LineResult::failed(Reason::kValueMissing, p);
      const char* number = weight;
      const Reason reason = read_number<kTokenEnds>(number, head.weight);
      if (reason != Reason::kNone) return {reason, weight};
      if (head.weight < 0) return LineResult::failed(Reason::kNegativeWeight, weight);
      return read_token(p, weight - 1, end, head);
    }
    if (colon) {
      if (options_.allow_unlabelled) return {};
      return LineResult::failed(Reason::kLabelIsFeature, p);
    }
    if (options_.labels == LabelMode::kNumber) {
      const char* const start = p;
      const Reason reason = read_number<kTokenEnds>(p, head.label);
      return {reason, start};
    }
    return read_token(p, end, end, head);
  }

  // Takes [p, last) as the label and moves p to `end`.
  LineResult read_token(const char*& p, const char* last, const char* end, RowHead& head) {
    const std::string_view token(p, static_cast<size_t>(last - p));
    if (token.empty()) return LineResult::failed(Reason::kLabelMissing, p);
    if (options_.labels == LabelMode::kNumber) {
      const Reason reason = read_any_number(p, last, head.label);
      if (reason != Reason::kNone) return LineResult::failed(reason, p);
    } else {
      if (!is_utf8(token)) return LineResult::failed(Reason::kInvalidUtf8, p);
      head.label_code = static_cast<int64_t>(labels_.insert(token));
    }
    p = end;
    return {};
  }

  static bool is_query(const char* p) {
    return p[0] == 'q' && p[1] == 'i' && p[2] == 'd' && p[3] == ':';
  }

  // Query ids are checked, and not used.
  static LineResult read_query(const char*& p) {
    p = skip_blanks(p);
    if (!is_query(p)) return {};
    const char* q = p + 4;
    uint64_t qid;
    if (read_index(q, qid) != Reason::kNone || !is_any_of(*q, kTokenEnds)) {
      return LineResult::failed(Reason::kQueryNotInteger, p);
    }
    p = q;
    return {};
  }

  LineResult read_features(const char* p, const char* last, Batch& batch) {
    const size_t before = batch.features();
    // A feature takes at least four bytes, the last one of a line three.
    const size_t room = static_cast<size_t>(last - p) / 4 + 1;
    batch.indices.reserve(before + room);
    batch.values<Value>().reserve(before + room);
    int64_t* const indices = batch.indices.data() + before;
    Value* const values = batch.values<Value>().data() + before;
    size_t count = 0;
    digits_.build(p, last);
    for (;;) {
      uint64_t short_index;
      double short_value;
      if (read_short_feature<kTokenEnds>(digits_.others_at(p), p, short_index, short_value)) {
        indices[count] = static_cast<int64_t>(short_index);
        values[count] = static_cast<Value>(short_value);
        ++count;
        if (*p == ' ') [[likely]] {
          ++p;
          continue;
        }
      }
      const char* const start = skip_blanks(p);
      if (start != p) {
        p = start;
        continue;
      }
      uint64_t index;
      const Reason index_reason = read_index(p, index);
      if (index_reason != Reason::kNone || *p != ':') [[unlikely]] {
        if (start >= last || *start == '#') break;
        if (index_reason == Reason::kIndexTooLarge) {
          return LineResult::failed(index_reason, start);
        }
        return why_no_feature(start, p);
      }
      ++p;
      if (is_any_of(*p, kTokenEnds)) [[unlikely]] {
        return LineResult::failed(Reason::kValueMissing, start);
      }
      double value;
      const char* const value_start = p;
      const Reason reason = read_number<kTokenEnds>(p, value);
      if (reason != Reason::kNone) [[unlikely]] {
        return LineResult::failed(reason, value_start);
      }
      indices[count] = static_cast<int64_t>(index);
      values[count] = static_cast<Value>(value);
      if (const Reason why = check_value(values[count], options_); why != Reason::kNone)
          [[unlikely]] {
        return LineResult::failed(why, value_start);
      }
      ++count;
    }
    if (options_.features != FeatureMode::kIndex) count = replace_by_keys(batch, before, count);
    return LineResult::row(count);
  }

  // Turns the indices of a row into keys, drops unknown ones, and returns how many are left.
  size_t replace_by_keys(Batch& batch, size_t before, size_t count) {
    int64_t* const indices = batch.indices.data() + before;
    Value* const values = batch.values<Value>().data() + before;
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
      const int64_t key = keys_.of_index(static_cast<uint64_t>(indices[i]));
      indices[kept] = key;
      values[kept] = values[i];
      kept += key != FeatureKeys::kUnknown;
    }
    batch.unknown_features += count - kept;
    return kept;
  }

  LineResult why_no_feature(const char* start, const char* after_digits) {
    if (is_query(start)) return LineResult::failed(Reason::kQueryMisplaced, start);
    if (after_digits != start && is_any_of(*after_digits, kTokenEnds)) {
      return LineResult::failed(Reason::kColonMissing, start);
    }
    const bool control = is_any_of(*start, kControl);
    return LineResult::failed(control ? Reason::kControlByte : Reason::kIndexNotInteger, start);
  }

  const Options& options_;
  NameTable& labels_;
  FeatureKeys keys_;
  DigitMap digits_;
};

}  // namespace

std::unique_ptr<LineParser> make_svmlight_parser(const Options& options,
                                                 Dictionaries& dictionaries) {
  if (options.double_values) return std::make_unique<SvmlightParser<double>>(options, dictionaries);
  return std::make_unique<SvmlightParser<float>>(options, dictionaries);
}

}  // namespace sonline::text
