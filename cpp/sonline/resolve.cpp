#include "sonline/resolve.hpp"

namespace sonline {

namespace {

template <class T>
Slot added(Key key, FeatureIndex& index, Row<T>& row) {
  row.new_keys.push_back(key);
  return index.add(key);
}

}  // namespace

template <bool add, class T>
void find_features(const Batch& batch, size_t row_number, bool intercept, int hash_bits,
                   FeatureIndex& index, Row<T>& row) {
  with_row(batch, row_number, [&](auto keys, auto values, size_t n) {
    row.reserve(n + 1);
    row.unknown = false;
    row.prepared = nullptr;
    row.new_keys.clear();
    size_t size = 0;
    Slot* slots = row.slots.data();
    T* raw = row.raw.data();
    if (intercept) {
      slots[0] = kInterceptSlot;
      raw[0] = T{1};
      size = 1;
    }
    const size_t known =
        hash_bits < 0 ? index.find_all(keys, values, n, slots + size) : FeatureIndex::kUnusual;
    if (known == n || (add && known < n)) {
      if (known < n)
        for (size_t i = 0; i < n; ++i)
          if (slots[size + i] == kInterceptSlot)
            slots[size + i] = added(static_cast<Key>(keys[i]), index, row);
      for (size_t i = 0; i < n; ++i) raw[size + i] = static_cast<T>(values[i]);
      row.size = size + n;
      row.slots_seen = index.size();
      row.ascending = true;
      return;
    }
    Key previous = 0;
    bool ascending = true;
    for (size_t i = 0; i < n; ++i) {
      if (values[i] == 0) continue;
      auto key = static_cast<Key>(keys[i]);
      if (hash_bits >= 0 && !(key & kNamed)) key = hash_slot(key, static_cast<unsigned>(hash_bits));
      ascending &= key >= previous;
      previous = key + 1;
      Slot slot = index.find(key);
      if (slot == kInterceptSlot) {
        if (!add) {
          row.unknown = true;
          continue;
        }
        slot = added(key, index, row);
      }
      slots[size] = slot;
      raw[size] = static_cast<T>(values[i]);
      ++size;
    }
    row.size = size;
    row.slots_seen = index.size();
    row.ascending = ascending;
  });
}

template void find_features<false>(const Batch&, size_t, bool, int, FeatureIndex&, Row<float>&);
template void find_features<true>(const Batch&, size_t, bool, int, FeatureIndex&, Row<float>&);
template void find_features<false>(const Batch&, size_t, bool, int, FeatureIndex&, Row<double>&);
template void find_features<true>(const Batch&, size_t, bool, int, FeatureIndex&, Row<double>&);

}  // namespace sonline
