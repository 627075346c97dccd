// The features of a learner: the slot of each, its block of numbers, and its scale.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/batch.hpp"
#include "sonline/blocks.hpp"
#include "sonline/columns.hpp"
#include "sonline/config.hpp"
#include "sonline/features.hpp"
#include "sonline/merge_slots.hpp"
#include "sonline/resolve.hpp"
#include "sonline/row.hpp"
#include "sonline/scales.hpp"

namespace sonline {

template <class T>
struct FeatureTable {
  FeatureIndex index;
  // In the padding of the sketch's columns where there is room: that is multiplied by zero in
  // scatter and ignored in gather.
  FeatureScales<T> scales;
  BlockStore<T> blocks;

  // With blocks for a sketch.
  template <class S>
  FeatureTable(Scaling scaling, const S& sketch)
      : scales(scaling, std::min(sketch.width(), sketch.used())),
        blocks(padded_width(scales.end())) {
    blocks.reserve(1);
  }

  size_t size() const { return index.size(); }
  size_t bytes() const { return blocks.bytes() + index.bytes() + scales.bytes(); }

  // Makes `row` that of the batch, with the blocks of its features.
  template <bool add>
  [[gnu::noinline]] void resolve(const Batch& batch, size_t row_number, const Config& config,
                                 Row<T>& row) {
    find_features<add>(batch, row_number, config.intercept, config.hash_bits, scales.centres(),
                       index, merge_, row);
    if (add) blocks.reserve(index.size());
    locate(row);
  }
  void locate(Row<T>& row) const {
    if (!row.located) blocks.locate(row.slots.data(), row.size, row.blocks.data());
    row.located = true;
  }

  // Removes the features of rows that were not learned: those from `slots` on.
  [[gnu::cold]] void remove_from(size_t slots) {
    if (index.size() == slots) return;
    std::vector<Key> keys = index.keys();
    keys.resize(slots);
    index = FeatureIndex::restore(keys);
  }

  // By slot.
  [[gnu::cold]] Vector usual_sizes() const {
    Vector sizes(size());
    for (Slot slot = 0; slot < sizes.size(); ++slot)
      sizes[slot] = scales.usual_size(blocks.at(slot));
    return sizes;
  }
  [[gnu::cold]] Vector limits() const {
    Vector limits(size());
    for (Slot slot = 0; slot < limits.size(); ++slot)
      limits[slot] = scales.limit(slot, blocks.at(slot));
    return limits;
  }
  [[gnu::cold]] Vector centres() const {
    Vector centres = scales.centres();
    centres.resize(size());
    return centres;
  }

  // See knowledge.hpp.
  [[gnu::cold]] void write_knowledge(StateWriter& archive) const {
    Vector squares(size()), counts(size());
    for (Slot slot = 0; slot < size(); ++slot) {
      squares[slot] = scales.square(blocks.at(slot));
      if (scales.counts_rows()) counts[slot] = scales.count(blocks.at(slot));
    }
    archive.array("features", index.keys());
    archive.array("squares", squares);
    archive.array("counts", counts);
  }
  [[gnu::cold]] void read_knowledge(StateReader& archive) {
    const auto keys = archive.any_array<Key>("features");
    const auto squares = archive.any_array<double>("squares");
    const auto counts = archive.any_array<double>("counts");
    if (keys.empty() || squares.size() != keys.size() || counts.size() != keys.size())
      StateReader::fail("features", "has the wrong length");
    index = FeatureIndex::restore(keys);
    blocks.reserve(keys.size());
    for (Slot slot = 0; slot < keys.size(); ++slot)
      scales.set(blocks.at(slot), squares[slot], counts[slot]);
    scales.check_centres(archive, size());
  }

  // The scales have a state beside their numbers in the blocks, which is to be read before.
  template <class Archive>
  [[gnu::cold]] void state(Archive& archive) {
    const size_t bytes = blocks.stride() * sizeof(T);
    if constexpr (Archive::reading) {
      const auto keys = archive.template any_array<Key>("features");
      if (keys.empty()) archive.fail("features", "is empty");
      const auto& stored = archive.template get<T>("blocks", 2);
      archive.check_shape("blocks", stored, keys.size(), blocks.stride());
      index = FeatureIndex::restore(keys);
      blocks = BlockStore<T>(blocks.stride());
      blocks.reserve(size());
      for (Slot slot = 0; slot < size(); ++slot) {
        std::memcpy(blocks.at(slot), stored.bytes.data() + slot * bytes, bytes);
        archive.check_finite("blocks", blocks.at(slot), blocks.stride());
      }
      scales.check_centres(archive, size());
    } else {
      archive.array("features", index.keys());
      Tensor stored{tensor_type<T>(), {size(), blocks.stride()}, {}};
      stored.bytes.resize(size() * bytes);
      for (Slot slot = 0; slot < size(); ++slot)
        std::memcpy(stored.bytes.data() + slot * bytes, blocks.at(slot), bytes);
      archive.state["blocks"] = std::move(stored);
    }
  }

 private:
  SlotMerger merge_;
};

}  // namespace sonline
