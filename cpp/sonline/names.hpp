// Exact names: a table of byte strings with ids 0, 1, 2, ... in the order of their first insertion.
//
// The bytes lie one after another in one arena, with the offset of each name's end beside them; an
// open-addressing index over them answers "which id has this name" in O(1). The arena and the
// offsets alone are the saved form; the index is rebuilt from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "sonline/hashing.hpp"

namespace sonline {

class NameTable {
 public:
  // More names than this are refused: an index slot holds 32 bits of hash and 32 bits of id.
  static constexpr uint64_t kMaxNames = uint64_t{1} << 31;

  uint64_t size() const { return ends_.size() - 1; }
  bool empty() const { return size() == 0; }

  // The id of `name`, a new one if it was not known. May move the arena: views end here.
  uint64_t insert(std::string_view name) {
    if ((size() + 1) * 2 > slots_.size()) grow_index();
    const uint32_t tag = tag_of(name);
    Slot& slot = slots_[find_slot(name, tag)];
    if (slot.id_plus_one != 0) return slot.id_plus_one - 1;
    if (size() >= kMaxNames) throw std::length_error("a name table holds at most 2^31 names");
    arena_.insert(arena_.end(), name.begin(), name.end());
    ends_.push_back(arena_.size());
    slot = {tag, static_cast<uint32_t>(size())};
    return size() - 1;
  }

  std::optional<uint64_t> find(std::string_view name) const {
    if (slots_.empty()) return std::nullopt;
    const Slot& slot = slots_[find_slot(name, tag_of(name))];
    if (slot.id_plus_one == 0) return std::nullopt;
    return slot.id_plus_one - 1;
  }

  // The name with this id (id < size()); valid until the next insert or truncate.
  std::string_view name(uint64_t id) const {
    return {arena_.data() + ends_[id], static_cast<size_t>(ends_[id + 1] - ends_[id])};
  }

  // Forgets the names with ids >= new_size, as if they had never been inserted. The last one in is
  // the last one of its probe chain, so removal in reverse order leaves every other chain whole.
  void truncate(uint64_t new_size) {
    while (size() > new_size) {
      const std::string_view last = name(size() - 1);
      slots_[find_slot(last, tag_of(last))] = {};
      ends_.pop_back();
      arena_.resize(ends_.back());
    }
  }

  void clear() { *this = NameTable(); }

  // The saved form: all names without separators, and size() + 1 offsets that start with 0.
  std::span<const char> blob() const { return arena_; }
  std::span<const uint64_t> offsets() const { return ends_; }

  // A table from its saved form; std::invalid_argument if that was not made by blob() and
  // offsets().
  static NameTable restore(std::span<const char> blob, std::span<const uint64_t> offsets) {
    if (offsets.empty() || offsets.front() != 0 || offsets.back() != blob.size()) {
      throw std::invalid_argument("name offsets must start with 0 and end with the blob's size");
    }
    for (size_t i = 1; i < offsets.size(); ++i) {
      if (offsets[i] < offsets[i - 1])
        throw std::invalid_argument("name offsets must not decrease");
    }
    NameTable table;
    table.arena_.reserve(blob.size());
    table.ends_.reserve(offsets.size());
    for (size_t i = 1; i < offsets.size(); ++i) {
      const std::string_view name(blob.data() + offsets[i - 1], offsets[i] - offsets[i - 1]);
      if (table.insert(name) != i - 1) throw std::invalid_argument("names must be distinct");
    }
    return table;
  }

 private:
  struct Slot {
    uint32_t tag = 0;
    uint32_t id_plus_one = 0;  // 0 marks a free slot
  };

  static uint32_t tag_of(std::string_view name) {
    return static_cast<uint32_t>(hash_bytes(name) >> 32);
  }

  // The slot that holds `name`, or the free one where it belongs. Always ends: half are free.
  size_t find_slot(std::string_view wanted, uint32_t tag) const {
    const size_t mask = slots_.size() - 1;
    for (size_t i = tag & mask;; i = (i + 1) & mask) {
      const Slot& slot = slots_[i];
      if (slot.id_plus_one == 0) return i;
      if (slot.tag == tag && name(slot.id_plus_one - 1) == wanted) return i;
    }
  }

  void grow_index() {
    std::vector<Slot> old(slots_.empty() ? 16 : slots_.size() * 2);
    old.swap(slots_);
    // In the order of ids, so that the index is the one that plain insertions would have built and
    // truncate() may rely on it.
    std::vector<uint32_t> tags(size());
    for (const Slot& slot : old) {
      if (slot.id_plus_one != 0) tags[slot.id_plus_one - 1] = slot.tag;
    }
    const size_t mask = slots_.size() - 1;
    for (size_t id = 0; id < tags.size(); ++id) {
      size_t i = tags[id] & mask;
      while (slots_[i].id_plus_one != 0) i = (i + 1) & mask;
      slots_[i] = {tags[id], static_cast<uint32_t>(id + 1)};
    }
  }

  std::vector<char> arena_;
  std::vector<uint64_t> ends_ = {0};
  std::vector<Slot> slots_;
};

}  // namespace sonline
