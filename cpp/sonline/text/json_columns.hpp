// The columns of JSON lines: one for each key of the objects, found again by path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sonline/names.hpp"
#include "sonline/text/options.hpp"

namespace sonline::text {

inline constexpr uint32_t kNoColumn = UINT32_MAX;
inline constexpr int64_t kNoKey = -3;

enum class JsonType : uint8_t { kUnknown, kNumber, kText, kDate };

struct JsonChildren {
  NameTable keys;
  std::vector<uint32_t> columns;
};

struct JsonColumn {
  std::string name = "=";  // its path and an equals sign: the prefix of text features
  size_t key_size = 0;     // length of its key, the end of the path
  uint32_t parent = kNoColumn;
  uint32_t first = kNoColumn;  // the first key of the last object here
  uint32_t next = kNoColumn;   // the key after this one in the last object
  int64_t feature = kNoKey;    // numbers: the key, once it is known
  uint64_t row = 0;            // the last row with this column, and where
  const char* where = nullptr;
  CellKind role = CellKind::kNumber;
  JsonType type = JsonType::kUnknown;
  CellKind kind = CellKind::kUnknown;  // kDate or kAmount, if that is known
  bool as_text = false;
  bool multiplied = false;
  size_t ngrams = 0;
  std::unique_ptr<JsonChildren> children = {};
  std::vector<std::pair<std::string, double>> features = {};  // of this row, if multiplied

  std::string_view path() const { return std::string_view(name).substr(0, name.size() - 1); }
};

// The columns of these names are multiplied.
struct JsonProduct {
  std::vector<uint32_t> first, second;
};

class JsonColumns {
 public:
  JsonColumns() { columns_.emplace_back(); }  // the row itself

  void set_layout(JsonLayout layout) {
    layout_ = std::move(layout);
    products_.resize(layout_.products.size());
  }

  JsonColumn& operator[](uint32_t id) { return columns_[id]; }
  const std::vector<JsonColumn>& all() const { return columns_; }
  const std::vector<JsonProduct>& products() const { return products_; }

  // The column of a key. Most rows have the same keys in the same order, so the key that followed
  // `previous` in the last row is tried first.
  uint32_t of(uint32_t parent, std::string_view key, uint32_t previous) {
    const bool begins = previous == kNoColumn;
    const uint32_t guess = begins ? columns_[parent].first : columns_[previous].next;
    if (guess != kNoColumn && columns_[guess].parent == parent) {
      const std::string_view name = columns_[guess].path();
      if (name.substr(name.size() - columns_[guess].key_size) == key) return guess;
    }
    if (columns_[parent].children == nullptr) {
      columns_[parent].children = std::make_unique<JsonChildren>();
    }
    JsonChildren& children = *columns_[parent].children;
    const uint64_t number = children.keys.insert(key);
    if (number == children.columns.size()) children.columns.push_back(make_column(parent, key));
    const uint32_t id = children.columns[number];
    (begins ? columns_[parent].first : columns_[previous].next) = id;
    return id;
  }

 private:
  uint32_t make_column(uint32_t parent, std::string_view key) {
    const auto id = static_cast<uint32_t>(columns_.size());
    JsonColumn column;
    column.name = columns_[parent].path();
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

  JsonLayout layout_;
  std::vector<JsonProduct> products_;
  std::vector<JsonColumn> columns_;
};

}  // namespace sonline::text
