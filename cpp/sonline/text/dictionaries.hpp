// The state of a parser between lines: the names read so far, and how features become keys.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

#include "sonline/hashing.hpp"
#include "sonline/names.hpp"
#include "sonline/text/options.hpp"

namespace sonline::text {

struct Dictionaries {
  NameTable features;
  NameTable labels;
  NameTable namespaces;
};

// Turns indices and names into the keys that a batch holds.
class FeatureKeys {
 public:
  static constexpr int64_t kUnknown = -1;  // the names are frozen and this one is new
  static constexpr int64_t kNoIndex = -2;  // features are read by index, and this name is not one

  FeatureKeys(const Options& options, NameTable& names)
      : mode_(options.features),
        bits_(options.hash_bits),
        seed_(options.hash_seed),
        frozen_(options.frozen_names),
        names_(names) {}

  // index < 2^63
  [[gnu::always_inline]] inline int64_t of_index(uint64_t index) {
    if (mode_ == FeatureMode::kIndex) return static_cast<int64_t>(index);
    if (mode_ == FeatureMode::kHash) return static_cast<int64_t>(hash_slot(index, bits_));
    return of_spelled(index);
  }

  int64_t of_name(std::string_view name) {
    if (mode_ == FeatureMode::kHash) return static_cast<int64_t>(hash_slot(name, bits_, seed_));
    if (mode_ == FeatureMode::kName) return of_table(name);
    uint64_t index;
    return spells_index(name, index) ? static_cast<int64_t>(index) : kNoIndex;
  }

 private:
  [[gnu::noinline]] int64_t of_spelled(uint64_t index) {
    char digits[20];
    const char* end = std::to_chars(digits, digits + sizeof digits, index).ptr;
    return of_table({digits, static_cast<size_t>(end - digits)});
  }

  int64_t of_table(std::string_view name) {
    if (!frozen_) return static_cast<int64_t>(names_.insert(name));
    const auto id = names_.find(name);
    return id ? static_cast<int64_t>(*id) : kUnknown;
  }

  FeatureMode mode_;
  unsigned bits_;
  uint64_t seed_;
  bool frozen_;
  NameTable& names_;
};

}  // namespace sonline::text
