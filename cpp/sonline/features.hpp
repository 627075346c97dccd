// Which slot a feature has: integer keys of up to 63 bits and named features share one sequence of
// slots, assigned in order of first appearance. Slot 0 belongs to the intercept.
//
// Keys that are small compared to the number of features seen are looked up in a plain array (one
// load); the others in an open-addressing table. So a file with contiguous indices costs four bytes
// and one load per feature, and an index of 2^60 costs no more than any other.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "sonline/hashing.hpp"

namespace sonline {

using Key = uint64_t;
using Slot = uint32_t;

inline constexpr Key kNamed = Key{1} << 63;  // marks the id of a name, see NameTable
inline constexpr Slot kInterceptSlot = 0;    // also means "never seen"

class FeatureIndex {
 public:
  // Of this index: features never change their slots in it.
  uint64_t number() const { return number_; }

  // Slots assigned, including the intercept's.
  Slot size() const { return next_; }

  [[gnu::always_inline]] Slot find(Key key) const {
    return key < direct_.size() ? direct_[key] : find_beyond(key);
  }

  // The usual row, fast: no zeros, keys that ascend and are all within the plain array, or all of
  // them names. Returns how many of the features are known, the others get the intercept's slot; or
  // kUnusual, and `slots` is unspecified.
  static constexpr size_t kUnusual = ~size_t{0};
  template <class Keys, class Values>
  size_t find_all(const Keys& keys, const Values& values, size_t n, Slot* slots) const {
    if (n == 0) return kUnusual;
    const Key first = static_cast<Key>(keys[0]) & kNamed;
    const std::vector<Slot>& table = first ? named_ : direct_;
    if (!(static_cast<Key>(keys[n - 1]) - first < table.size())) return kUnusual;
    int unusual = 0;  // an int and no early exit: the loops become vector code
    for (size_t i = 0; i < n; ++i) unusual |= values[i] == 0;
    for (size_t i = 1; i < n; ++i) unusual |= !(keys[i] > keys[i - 1]);
    if (unusual) return kUnusual;
    const Slot* direct = table.data();
    if (first)
      for (size_t i = 0; i < n; ++i) slots[i] = direct[static_cast<Key>(keys[i]) - first];
    else
#pragma GCC unroll 4
      for (size_t i = 0; i < n; ++i) slots[i] = direct[static_cast<Key>(keys[i])];
    size_t known = 0;
    for (size_t i = 0; i < n; ++i) known += slots[i] != kInterceptSlot;
    return known;
  }

  // A slot for a key that find() does not know.
  Slot add(Key key) {
    if (next_ == std::numeric_limits<Slot>::max())
      throw std::length_error("a learner holds at most 2^32 - 1 features");
    if (key & kNamed) {
      const Key id = key & ~kNamed;
      if (id >= named_.size()) named_.resize(id + 1, kInterceptSlot);
      return named_[id] = next_++;
    }
    // The array may be at most eight times as long as it has entries (and a little more, so that
    // ordinary small data never uses the table).
    if (key >= direct_.size() && key < 8 * (Key{next_} + 1024)) widen_direct(key);
    if (key < direct_.size()) return direct_[key] = next_++;
    if ((far_count_ + 1) * 2 > far_.size()) grow_far();
    far_[probe(key)] = {key, next_};
    ++far_count_;
    return next_++;
  }

  // The keys by slot; entry 0 (the intercept) is 0.
  std::vector<Key> keys() const {
    std::vector<Key> keys(next_, 0);
    for (Key key = 0; key < direct_.size(); ++key)
      if (direct_[key]) keys[direct_[key]] = key;
    for (Key id = 0; id < named_.size(); ++id)
      if (named_[id]) keys[named_[id]] = id | kNamed;
    for (const Entry& entry : far_)
      if (entry.slot) keys[entry.slot] = entry.key;
    return keys;
  }

  static FeatureIndex restore(const std::vector<Key>& keys) {
    FeatureIndex index;
    for (size_t slot = 1; slot < keys.size(); ++slot)
      if (index.find(keys[slot]) || index.add(keys[slot]) != slot)
        throw std::invalid_argument("a feature occurs twice");
    return index;
  }

  size_t bytes() const {
    return direct_.capacity() * sizeof(Slot) + named_.capacity() * sizeof(Slot) +
           far_.capacity() * sizeof(Entry);
  }

 private:
  struct Entry {
    Key key = 0;
    Slot slot = kInterceptSlot;
  };

  Slot find_beyond(Key key) const {
    if (key & kNamed) {
      const Key id = key & ~kNamed;
      return id < named_.size() ? named_[id] : kInterceptSlot;
    }
    return far_.empty() ? kInterceptSlot : far_[probe(key)].slot;
  }

  void widen_direct(Key key) {
    size_t length = 1024;
    while (length <= key) length *= 2;
    direct_.resize(length, kInterceptSlot);
    if (far_count_ == 0) return;
    std::vector<Entry> old;
    old.swap(far_);
    far_.resize(old.size());
    far_count_ = 0;
    for (const Entry& entry : old) {
      if (!entry.slot) continue;
      if (entry.key < direct_.size()) {
        direct_[entry.key] = entry.slot;
      } else {
        far_[probe(entry.key)] = entry;
        ++far_count_;
      }
    }
  }

  void grow_far() {
    std::vector<Entry> old(far_.empty() ? 64 : far_.size() * 2);
    old.swap(far_);
    for (const Entry& entry : old)
      if (entry.slot) far_[probe(entry.key)] = entry;
  }

  // The position of `key`, or the free position where it belongs; at least half are free.
  size_t probe(Key key) const {
    const size_t mask = far_.size() - 1;
    size_t i = mix_bits(key) & mask;
    while (far_[i].slot && far_[i].key != key) i = (i + 1) & mask;
    return i;
  }

  static inline std::atomic<uint64_t> last_number_ = 0;

  uint64_t number_ = ++last_number_;
  std::vector<Slot> direct_;
  std::vector<Slot> named_;
  std::vector<Entry> far_;
  size_t far_count_ = 0;
  Slot next_ = 1;
};

}  // namespace sonline
