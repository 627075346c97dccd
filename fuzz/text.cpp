// Fuzz target: the rows and errors of a text do not depend on how it is cut into chunks, and every
// batch keeps its promises. The first six bytes of the input choose the options and the cuts.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"
#include "sonline/text/parser.hpp"

namespace {

using namespace sonline::text;

// All that a run yields, in one place, so that two runs can be compared byte for byte.
struct Outcome {
  std::string rows;
  std::string errors;
  std::string error_words;
  std::string error_columns;
  std::string names;
  std::string number_columns;
  std::string text_columns;
  std::string labels;
  std::string namespaces;

  bool operator==(const Outcome&) const = default;
};

template <class T>
void put(std::string& target, const T* data, size_t count) {
  if (count != 0) target.append(reinterpret_cast<const char*>(data), count * sizeof(T));
}

template <class T>
void put_one(std::string& target, T value) {
  put(target, &value, 1);
}

// What the rows say, written row by row so that the borders of batches leave no trace.
void put_rows(std::string& target, const Batch& batch, const Options& options) {
  for (size_t row = 0; row < batch.rows(); ++row) {
    const auto from = static_cast<size_t>(batch.indptr[row]);
    const size_t count = static_cast<size_t>(batch.indptr[row + 1]) - from;
    put_one(target, count);
    put(target, batch.indices.data() + from, count);
    if (options.double_values) {
      put(target, batch.values64.data() + from, count);
    } else {
      put(target, batch.values32.data() + from, count);
    }
    if (options.namespaces && options.format == Format::kVowpalWabbit) {
      put(target, batch.namespaces.data() + from, count);
    }
    if (options.labels == LabelMode::kNumber) {
      put_one(target, batch.labels[row]);
    } else {
      put_one(target, batch.label_codes[row]);
    }
    put_one(target, batch.weights.column.empty() ? 1.0 : batch.weights.column[row]);
    if (batch.tags.size() != 0) target.append(batch.tags[row]);
    put_one(target, batch.lines[row]);
    put_one(target, batch.ends[row]);
    if (options.format == Format::kCsv) {
      put_one(target, batch.next_lines[row]);
      put_one(target, batch.row_ends[row]);
    }
  }
}

void put_strings(std::string& target, const Strings& strings) {
  for (size_t i = 0; i < strings.size(); ++i) target.append(strings[i]) += '\n';
}

void check_batch(const Batch& batch, const Options& options, std::string_view text) {
  const size_t rows = batch.rows();
  const size_t features = batch.features();
  CHECK(batch.indices.size() == features);
  CHECK((options.double_values ? batch.values64.size() : batch.values32.size()) == features);
  CHECK(batch.lines.size() == rows && batch.ends.size() == rows);
  CHECK(batch.weights.column.empty() || batch.weights.column.size() == rows);
  CHECK(batch.tags.size() == 0 || batch.tags.size() == rows);
  for (size_t row = 0; row < rows; ++row) {
    CHECK(batch.indptr[row] <= batch.indptr[row + 1]);
    const auto end = static_cast<size_t>(batch.ends[row]);
    CHECK(end <= text.size() && (end == text.size() || text[end - 1] == '\n'));
    CHECK(row == 0 || batch.lines[row - 1] < batch.lines[row]);
  }
  for (size_t i = 0; i < features; ++i) {
    CHECK(batch.indices[i] >= 0);
    CHECK(std::isfinite(options.double_values ? batch.values64[i] : batch.values32[i]));
  }
  for (size_t i = 0; i < batch.errors.size(); ++i) {
    const LineError& error = batch.errors[i];
    const auto start = static_cast<size_t>(error.offset);
    CHECK(start < text.size() && (start == 0 || text[start - 1] == '\n'));
    if (options.format == Format::kCsv) continue;  // a row may have line breaks
    const size_t length = std::min(text.find('\n', start), text.size()) - start;
    CHECK(error.column >= 1 && static_cast<size_t>(error.column) <= length);
    CHECK(batch.error_lines[i] ==
          text.substr(start, std::min({length, options.max_error_bytes, options.max_line_bytes})));
    CHECK(!batch.error_words[i].empty());
  }
}

void put_batch(Outcome& outcome, const Batch& batch, const Options& options,
               std::string_view text) {
  check_batch(batch, options, text);
  put_rows(outcome.rows, batch, options);
  for (const LineError& error : batch.errors) {
    put_one(outcome.errors, error.reason);
    put_one(outcome.errors, error.line);
    put_one(outcome.errors, error.column);
    put_one(outcome.errors, error.offset);
    put_one(outcome.errors, error.row);
    put_one(outcome.errors, error.cell);
  }
  put_strings(outcome.error_words, batch.error_words);
  put_strings(outcome.error_columns, batch.error_columns);
  put_strings(outcome.number_columns, batch.number_columns);
  put_strings(outcome.text_columns, batch.text_columns);
  put_strings(outcome.text_columns, batch.date_columns);
  put_strings(outcome.names, batch.new_names);
  put_strings(outcome.labels, batch.new_labels);
  put_strings(outcome.namespaces, batch.new_namespaces);
}

// Parses the text in chunks of pseudo-random length, or at once if `cuts` is 0. Each chunk is a
// copy of its own, so that AddressSanitizer sees a read past its end.
Outcome run(const Options& options, std::string_view text, uint32_t cuts) {
  Outcome outcome;
  Parser parser(options);
  if (options.format == Format::kCsv) {
    const bool other = options.double_values;  // other kinds of cells
    parser.set_layout({{{"y", CellKind::kLabel},
                        {"a", other ? CellKind::kAmount : CellKind::kNumber},
                        {"b", CellKind::kText},
                        {"c", CellKind::kText, 2},
                        {"w", CellKind::kWeight},
                        {"t", CellKind::kTag},
                        {"i", other ? CellKind::kDate : CellKind::kIgnored}},
                       {{1, 2}, {2, 3}},
                       options.features == FeatureMode::kHash ? ';' : ','});
  }
  if (options.format == Format::kJsonLines) {
    parser.set_json_layout({{{"y", CellKind::kLabel},
                             {"w", CellKind::kWeight},
                             {"t", CellKind::kTag},
                             {"i", CellKind::kIgnored}},
                            {{"m", CellKind::kAmount}, {"n", CellKind::kDate}},
                            {"x"},
                            {{"c", 2}},
                            {{"a", "b"}, {"b", "d.e"}}});
  }
  uint64_t state = cuts;
  for (size_t at = 0; at < text.size() && !parser.failed();) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const size_t length = cuts == 0 ? text.size() : (state >> 33) % (cuts % 97 + 2);
    const std::string_view part = text.substr(at, length);
    const std::vector<char> chunk(part.begin(), part.end());
    put_batch(outcome, parser.feed(chunk.data(), chunk.size()), options, text);
    at += part.size();
  }
  if (!parser.failed()) {
    put_batch(outcome, parser.end_file(), options, text);
    CHECK(parser.failed() || static_cast<size_t>(parser.position().offset) == text.size());
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kHeader = 6;
  if (size < kHeader) return 0;
  Options options;
  constexpr Format kFormats[] = {Format::kSvmlight, Format::kVowpalWabbit, Format::kCsv,
                                 Format::kJsonLines};
  options.format = kFormats[(data[0] & 1) | (data[0] >> 7 << 1)];
  options.na_values = {"NA", "?"};
  options.labels = data[0] & 2 ? LabelMode::kToken : LabelMode::kNumber;
  options.on_error = data[0] & 4 ? ErrorMode::kStop : ErrorMode::kSkip;
  options.allow_unlabelled = data[0] & 8;
  options.double_values = data[0] & 16;
  options.namespaces = data[0] & 32;
  options.frozen_names = data[0] & 64;
  constexpr FeatureMode kModes[] = {FeatureMode::kIndex, FeatureMode::kName, FeatureMode::kHash};
  options.features = kModes[data[1] % 3];
  options.hash_bits = data[1] % 62 + 1;
  options.refuse_missing = data[1] & 32;
  options.mark_missing = data[3] & 1;
  options.label_weights = data[1] & 64;
  options.skipped_spaces['a'] = data[1] & 128;
  if (data[2] != 0) options.max_line_bytes = data[2];
  options.max_error_bytes = data[3] < 128 ? data[3] : 65536;
  const uint32_t cuts = data[4] | data[5] << 8 | 1;
  const std::string_view text(reinterpret_cast<const char*>(data + kHeader), size - kHeader);

  CHECK(run(options, text, 0) == run(options, text, cuts));
  return 0;
}
