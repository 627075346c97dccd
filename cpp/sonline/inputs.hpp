// The inputs of a model: which features there are, and how a row becomes x̃ = (x - centre) / scale.
// All outputs of a model learn from the same x̃, which does not depend on labels.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/batch.hpp"
#include "sonline/blocks.hpp"
#include "sonline/config.hpp"
#include "sonline/features.hpp"
#include "sonline/merge_slots.hpp"
#include "sonline/resolve.hpp"
#include "sonline/row.hpp"
#include "sonline/rows_seen.hpp"
#include "sonline/scales.hpp"

namespace sonline {

template <class T>
class Inputs {
 public:
  explicit Inputs(const Config& config)
      : config_(config), scales_(config.scaling, config.forgets()), numbers_(scales_.width()) {
    if (scales_.width() > 0) numbers_.reserve(1);
  }

  const FeatureIndex& index() const { return index_; }
  const FeatureScales<T>& scales() const { return scales_; }
  const RowsSeen& seen() const { return seen_; }
  const RowsSeen& seen_before() const { return before_; }  // … without the row at hand
  size_t slots() const { return index_.size(); }
  size_t features() const { return features_of(slots()); }
  size_t features_of(size_t slots) const { return slots - !config_.intercept; }
  size_t bytes() const { return numbers_.bytes() + index_.bytes() + scales_.bytes(); }

  // Fills `row` with the features of a row of the batch; new ones are entered if `add`.
  template <bool add>
  [[gnu::noinline]] void resolve(const Batch& batch, size_t row_number, InputRow<T>& row) {
    find_features<add>(batch, row_number, config_.intercept, config_.hash_bits, scales_.centres(),
                       index_, merger_, row);
    if (scales_.width() == 0) return;
    if (add) numbers_.reserve(index_.size());
    if (std::exchange(row.located_in, index_.number()) != index_.number()) row.located.clear();
    if (!same_slots(row.slots.data(), row.size, row.located))
      numbers_.locate(row.slots.data(), row.size, row.numbers.data());
  }

  // Computes x̃ of a row that is only predicted.
  void apply(InputRow<T>& row) {
    scales_.apply(row, seen_.per_draw(config_.sketch_every), seen_.clock);
    row.measure();
  }

  // Computes x̃ of a row to be learned, and lets the scales and counters take the row in. Returns
  // how often sketches count the row, 0 for most rows late in a stream.
  size_t take(InputRow<T>& row, double weight) {
    before_ = seen_;
    const size_t every = seen_.per_draw(config_.sketch_every);
    const size_t times = seen_.next_is_drawn(every) ? every : 0;
    scales_.take_in(row, every, times > 0, seen_.clock);
    row.measure();
    seen_.add(row.size, row.energy, weight, config_.kept);
    return times;
  }
  // Ends the round: later rows may have other limits.
  void commit(const InputRow<T>& row) {
    count_features(features_of(row.slots_seen));
    scales_.raise_limits(row);
    if (config_.forgets()) seen_.clock.tick(config_.kept);
  }
  // Takes back a row that could not be learned.
  void undo(const InputRow<T>& row) {
    scales_.undo(row);
    seen_ = before_;
  }

  // Removes the features of rows that were not learned: those from `slots` on.
  [[gnu::cold]] void remove_from(size_t slots) {
    if (index_.size() == slots) return;
    std::vector<Key> keys = index_.keys();
    keys.resize(slots);
    index_ = FeatureIndex::restore(keys);
  }

  // The choices of the warm-up, before the first row.
  void start(double unit, const Vector& centres) { scales_.start(unit, centres); }

  double scale(Slot slot) const { return scales_.of(slot, numbers(slot), seen_.clock); }
  // By slot.
  [[gnu::cold]] Vector usual_sizes() const {
    Vector sizes(slots());
    for (Slot slot = 0; slot < slots(); ++slot) sizes[slot] = scales_.usual_size(numbers(slot));
    return sizes;
  }
  [[gnu::cold]] Vector limits() const {
    Vector limits(slots());
    for (Slot slot = 0; slot < slots(); ++slot)
      limits[slot] = scales_.limit(slot, numbers(slot), seen_.clock);
    return limits;
  }
  [[gnu::cold]] Vector centres() const {
    Vector centres = scales_.centres();
    centres.resize(slots());
    return centres;
  }

  // See knowledge.hpp.
  [[gnu::cold]] void write_knowledge(StateWriter& archive) {
    seen_.state(archive, config_.forgets());
    scales_.state(archive);
    Vector squares(slots()), counts(slots());
    for (Slot slot = 0; slot < slots(); ++slot) {
      squares[slot] = scales_.square(numbers(slot));
      if (scales_.counts_rows()) counts[slot] = scales_.count(numbers(slot), seen_.clock);
    }
    archive.array("features", index_.keys());
    archive.array("squares", squares);
    archive.array("counts", counts);
  }
  [[gnu::cold]] void read_knowledge(StateReader& archive) {
    seen_.state(archive, config_.forgets());
    scales_.state(archive);
    const auto keys = archive.any_array<Key>("features");
    const auto squares = archive.any_array<double>("squares");
    const auto counts = archive.any_array<double>("counts");
    if (keys.empty() || squares.size() != keys.size() || counts.size() != keys.size())
      StateReader::fail("features", "has the wrong length");
    set_keys(keys);
    if (scales_.width() > 0)
      for (Slot slot = 0; slot < slots(); ++slot)
        scales_.set(numbers_.at(slot), squares[slot], counts[slot]);
    scales_.check_centres(archive, slots());
    count_features(features());
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive) {
    seen_.state(archive, config_.forgets());
    if (config_.forgets()) seen_.clock.state(archive);
    scales_.state(archive);
    if constexpr (Archive::reading) {
      const auto keys = archive.template any_array<Key>("features");
      if (keys.empty()) archive.fail("features", "is empty");
      set_keys(keys);
      scales_.check_centres(archive, slots());
    } else {
      archive.array("features", index_.keys());
    }
    numbers_.state(archive, "scales.numbers", slots());
    if constexpr (Archive::reading) count_features(features());
  }

 private:
  const T* numbers(Slot slot) const { return scales_.width() > 0 ? numbers_.at(slot) : nullptr; }

  void set_keys(const std::vector<Key>& keys) {
    index_ = FeatureIndex::restore(keys);
    numbers_ = BlockStore<T>(scales_.width());
    if (scales_.width() > 0) numbers_.reserve(keys.size());
  }

  void count_features(size_t features) {
    scales_.count_values(static_cast<double>(features), seen_.values);
  }

  Config config_;
  FeatureIndex index_;
  FeatureScales<T> scales_;
  BlockStore<T> numbers_;  // of the scales
  RowsSeen seen_, before_;
  SlotMerger merger_;
};

}  // namespace sonline
