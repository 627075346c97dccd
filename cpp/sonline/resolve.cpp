#include "sonline/resolve.hpp"

namespace sonline {

namespace {

// A value less its centre; counts how often the row has each centred feature.
template <class T>
T centred(const Vector& centres, Slot slot, double value, InputRow<T>& row) {
  if (slot >= centres.size() || centres[slot] == 0) return static_cast<T>(value);
  ++row.times[slot];
  return static_cast<T>(value - centres[slot]);
}

// A centred feature that is not in the row is 0 less its centre, and the centre of one that is
// there several times was subtracted too often. Values at their centre are left out, as zeros are.
template <class T>
void complete_centred(const Vector& centres, InputRow<T>& row) {
  const auto correction = [&](Slot slot) {
    return slot < centres.size() && centres[slot] != 0 ? (row.times[slot] - 1.0) * centres[slot]
                                                       : 0.0;
  };
  size_t size = 0;
  for (size_t i = 0; i < row.size; ++i) {
    const Slot slot = row.slots[i];
    if (const double missing = correction(slot); missing != 0) {
      row.raw[i] += static_cast<T>(missing);
      row.times[slot] = 1;
    }
    if (row.raw[i] == 0) continue;
    row.slots[size] = slot;
    row.raw[size++] = row.raw[i];
  }
  for (Slot slot = 0; slot < centres.size(); ++slot)
    if (const double missing = correction(slot); missing != 0) {
      row.slots[size] = slot;
      row.raw[size++] = static_cast<T>(missing);
    }
  row.size = size;
}

template <class Values>
bool no_zeros(const Values& values, size_t n) {
  int zeros = 0;  // an int and no early exit: the loop becomes vector code
  for (size_t i = 0; i < n; ++i) zeros |= values[i] == 0;
  return !zeros;
}

}  // namespace

template <bool add, class T>
void find_features(const Batch& batch, size_t row_number, bool intercept, int hash_bits,
                   const Vector& centres, FeatureIndex& index, SlotMerger& merger,
                   InputRow<T>& row) {
  with_row(batch, row_number, [&](auto keys, auto values, size_t n) {
    row.reserve(n + 1 + centres.size());
    row.unknown = 0;
    row.times.assign(centres.size(), 0);
    size_t size = 0;
    Slot* slots = row.slots.data();
    T* raw = row.raw.data();
    if (intercept) {
      slots[0] = kInterceptSlot;
      raw[0] = T{1};
      size = 1;
    }
    const bool again = batch.same_keys != 0 && row.same_keys == batch.same_keys &&
                       row.index == index.number() && no_zeros(values, n);
    row.same_keys = 0;
    const size_t known = again           ? n
                         : hash_bits < 0 ? index.find_all(keys, values, n, slots + size)
                                         : FeatureIndex::kUnusual;
    if (known == n || (add && known < n)) {
      if (known < n)
        for (size_t i = 0; i < n; ++i)
          if (slots[size + i] == kInterceptSlot)
            slots[size + i] = index.add(static_cast<Key>(keys[i]));
      row.size = size + n;
      row.slots_seen = index.size();
      if (centres.empty()) {
        T* __restrict to = raw + size;
        for (size_t i = 0; i < n; ++i) to[i] = static_cast<T>(values[i]);
        if (known == n) row.same_keys = batch.same_keys;
        row.index = index.number();
        return;
      }
      for (size_t i = 0; i < n; ++i)
        raw[size + i] = centred(centres, slots[size + i], static_cast<double>(values[i]), row);
      complete_centred(centres, row);
      return;
    }
    Key previous = 0;
    bool ascending = true;  // no key occurs twice
    for (size_t i = 0; i < n; ++i) {
      if (values[i] == 0) continue;
      auto key = static_cast<Key>(keys[i]);
      if (hash_bits >= 0 && !(key & kNamed)) key = hash_slot(key, static_cast<unsigned>(hash_bits));
      Slot slot = index.find(key);
      if (slot == kInterceptSlot) {
        if (!add) {
          ++row.unknown;
          continue;
        }
        slot = index.add(key);
      }
      ascending &= key >= previous;
      previous = key + 1;
      slots[size] = slot;
      raw[size++] = centred(centres, slot, static_cast<double>(values[i]), row);
    }
    row.size = size;
    row.slots_seen = index.size();
    if (!ascending) merger.sum_duplicates(row);
    if (!centres.empty()) complete_centred(centres, row);
  });
}

template void find_features<false>(const Batch&, size_t, bool, int, const Vector&, FeatureIndex&,
                                   SlotMerger&, InputRow<float>&);
template void find_features<true>(const Batch&, size_t, bool, int, const Vector&, FeatureIndex&,
                                  SlotMerger&, InputRow<float>&);
template void find_features<false>(const Batch&, size_t, bool, int, const Vector&, FeatureIndex&,
                                   SlotMerger&, InputRow<double>&);
template void find_features<true>(const Batch&, size_t, bool, int, const Vector&, FeatureIndex&,
                                  SlotMerger&, InputRow<double>&);

}  // namespace sonline
