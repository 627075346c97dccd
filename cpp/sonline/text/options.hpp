// The options of the text parser.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sonline::text {

enum class Format : uint8_t { kSvmlight, kVowpalWabbit, kCsv, kJsonLines };
enum class LabelMode : uint8_t {
  kNumber,  // float64
  kToken,   // any text, as a code into a dictionary
};
enum class FeatureMode : uint8_t {
  kIndex,  // the integer as written
  kName,   // an id into a dictionary of exact names
  kHash,   // a slot in [0, 2^hash_bits)
};
enum class ErrorMode : uint8_t { kStop, kSkip };

struct Options {
  Format format = Format::kSvmlight;
  LabelMode labels = LabelMode::kNumber;
  FeatureMode features = FeatureMode::kIndex;
  ErrorMode on_error = ErrorMode::kStop;
  unsigned hash_bits = 18;        // 1 to 62
  uint64_t hash_seed = 0;         // chooses the hash function of names
  bool allow_unlabelled = false;  // rows without a label are not errors
  bool double_values = false;     // float64 rather than float32
  bool namespaces = false;        // the namespace of each feature, too
  bool frozen_names = false;      // drop and count features whose name is not known yet
  bool label_weights = false;     // svmlight: a weight may follow the label, as in 1:0.5
  std::array<bool, 256> skipped_spaces = {};  // vw: namespaces left out, by their first byte
  // The largest absolute value of a feature that is allowed.
  double largest_value = std::numeric_limits<double>::max();
  size_t max_line_bytes = size_t{64} << 20;
  size_t max_error_bytes = size_t{64} << 10;  // how much of a bad line is kept
  std::vector<std::string> na_values = {};    // CSV: markers of missing cells
  bool refuse_missing = false;                // a missing cell makes its row a bad row
  bool mark_missing = false;                  // a missing cell is the feature column=(missing)
};

inline constexpr std::string_view kMissingWord = "(missing)";  // what marks a missing cell

// The content of a CSV column.
enum class CellKind : uint8_t {
  kIgnored,
  kNumber,
  kText,
  kDate,
  kAmount,   // numbers with separators, signs of currencies or per cent
  kUnknown,  // the first cell that is not missing decides: kNumber, kDate or kText
  kLabel,
  kWeight,
  kOffset,
  kTag,
};

struct CsvColumn {
  std::string name;
  CellKind kind = CellKind::kIgnored;
  size_t ngrams = 0;  // text: the largest n of its n-grams; 0 if the cell is one word
};

// The columns of a file of CSV, and the pairs of columns whose features are multiplied.
struct CsvLayout {
  std::vector<CsvColumn> columns;
  std::vector<std::pair<size_t, size_t>> products;
  char delimiter = ',';
};

// The columns of JSON lines by name; columns that are not listed are features.
struct JsonLayout {
  std::map<std::string, CellKind, std::less<>> roles;
  std::map<std::string, CellKind, std::less<>> kinds;  // of dates and amounts that are text
  std::set<std::string, std::less<>> text;             // columns that are categories
  std::map<std::string, size_t, std::less<>> ngrams;
  std::vector<std::pair<std::string, std::string>> products;
};

}  // namespace sonline::text
