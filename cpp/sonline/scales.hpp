// The scales of the features, x̃ = (x - centre) / scale. A feature has two numbers, a mean square
// and how often it was there. Few features have a centre, see warm_up.hpp.
//
//   none      1
//   rms       root of the mean square of the first values of the feature that are not zero
//   auto      the same, but
//             - times (n / 4)^¼ if the feature is there n > 4 times as often as features are in the
//               mean: a word of nearly every text tells little. Tables have no such feature.
//             - one unit for all features within a factor of 4 of it, if the first rows have few
//               others (warm_up.hpp). Then the features are measured alike, as pixels, words of a
//               text or parts of a rotated vector are, and their sizes tell something.
//             - features with a large offset are centred, and their scale is twice the root
//               mean square of x - centre
// The paper's diagonal adaptation depends on gradients, and is a part of an output: adaptation.hpp.
//
// x̃ must stay bounded: the second value of a feature may be a million times the first. RMS scales
// need no label, so for young features, whose scale rests on a few values, the scale that a row is
// predicted and learned with includes the row. Once a feature is settled, its scale stays: weights
// would lose their meaning, and those of a column that grows would always be too small. Values of a
// feature that is not young count as a limit if they are beyond it: predictions are linear in
// between. The limit is kFar scales at first. After a value beyond it the count halves, so that the
// scale moves again if more follow. A value
//   up to twice the limit  belongs to a long tail, or the feature grows: it counts as the limit,
//                          which doubles after the row;
//   beyond that            is an error, or the start of another unit: it does not count, and after
//                          several in a row the feature is young again.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sonline/ablation.hpp"
#include "sonline/columns.hpp"
#include "sonline/config.hpp"
#include "sonline/cpu.hpp"
#include "sonline/errors.hpp"
#include "sonline/forgetting.hpp"
#include "sonline/row.hpp"

namespace sonline {

// Within this factor of the common unit, features are alike; of squares.
inline constexpr double kAlikeSquares = 16;

template <class T>
class FeatureScales {
 public:
  FeatureScales(Scaling scaling, bool forgets) : scaling_(scaling), forgets_(forgets) {}

  // How many numbers a feature has.
  size_t width() const { return !counts_rows() ? 0 : forgets_ ? 3 : 2; }

  size_t bytes() const {
    return limits_.size() * (sizeof(std::pair<Slot, T>) + sizeof(void*)) +
           centres_.size() * sizeof(double);
  }

  // What is subtracted from the values of a feature, by slot; later features have no centre.
  const Vector& centres() const { return centres_; }
  double centre(Slot slot) const { return slot < centres_.size() ? centres_[slot] : 0.0; }
  // Begins with a common unit (squared, or 0) and centres.
  void start(double unit, const Vector& centres) {
    unit_ = static_cast<T>(unit);
    centres_ = centres;
  }

  // `numbers` are those of the feature, in what follows.
  double of(Slot slot, const T* numbers, const Clock& clock) const {
    if (scaling_ == Scaling::rms) return std::sqrt(numbers[kSquare]);
    if (scaling_ != Scaling::automatic) return 1;
    return std::sqrt(in_unit(numbers[kSquare], slot) *
                     common(count(numbers, clock) * frequency_unit_));
  }

  // The root mean square of a feature, if it is known.
  double usual_size(const T* numbers) const {
    return counts_rows() ? std::sqrt(numbers[kSquare]) : 1.0;
  }

  // The squared scale of a feature, and of how many rows it is the mean.
  double square(const T* numbers) const { return counts_rows() ? numbers[kSquare] : 1.0; }
  bool counts_rows() const { return scaling_ == Scaling::rms || scaling_ == Scaling::automatic; }
  // How many rows there were, or what is left of them.
  T count(const T* numbers, const Clock& clock) const {
    if (!forgets_) return numbers[kCount];
    return static_cast<T>(numbers[kCount] * clock.carried_since(numbers[kEpoch]) / clock.weight());
  }
  void set(T* numbers, double square, double count) const {
    numbers[kSquare] = static_cast<T>(square);
    numbers[kCount] = static_cast<T>(count);
    if (!std::isfinite(numbers[kSquare]))
      throw Diverged("a scale is too large for the number type");
  }

  // Raises the limits of the features with large values in the row, once it has been learned.
  [[gnu::noinline]] void raise_limits(const InputRow<T>& row) {
    for (const size_t i : beyond_) {
      const Slot slot = row.slots[i];
      const T limit = limit_of(slot, old_squares_[i]);
      if (row.raw[i] * row.raw[i] <= 4 * limit && std::isfinite(4 * limit))
        limits_[slot] = 4 * limit;
      else if (new_counts_[i] < kYoungRows)
        limits_.erase(slot);
    }
  }

  // Takes back what the last row did to the scales.
  void undo(const InputRow<T>& row) {
    for (size_t i = 0; i < changed_; ++i) {
      row.numbers[i][kSquare] = old_squares_[i];
      row.numbers[i][kCount] = old_counts_[i];
      if (forgets_) row.numbers[i][kEpoch] = old_epochs_[i];
    }
  }

  // How many features there are, and how many values have been seen of all of them.
  void count_values(double features, double values) {
    if (scaling_ != Scaling::automatic || !SONLINE_KEEPS(frequent_features)) return;
    frequency_unit_ = values > 0 ? static_cast<T>(features / (kCommon * values)) : T{0};
  }

  template <class Archive>
  void state(Archive& archive) {
    double unit = unit_;
    archive.scalar("scales.unit", unit);
    if constexpr (Archive::reading) {
      if (!(unit >= 0 && unit <= std::numeric_limits<T>::max()))
        archive.fail("scales.unit", "is not a positive number");
      unit_ = static_cast<T>(unit);
    }
    limits_state(archive);
    if constexpr (Archive::reading)
      centres_ = archive.template any_array<double>("scales.centres");
    else
      archive.array("scales.centres", centres_);
  }

  // Centres that were read must be those of features, without zeros at the end.
  template <class Archive>
  void check_centres(Archive& archive, size_t slots) const {
    if (centres_.size() > slots || centre(kInterceptSlot) != 0 ||
        (!centres_.empty() && centres_.back() == 0))
      archive.fail("scales.centres", "does not fit the features");
  }

  // Up to which size values count as they are.
  double limit(Slot slot, const T* numbers, const Clock& clock) const {
    const bool cut =
        SONLINE_KEEPS(value_limits) && counts_rows() && count(numbers, clock) >= kYoungRows;
    return cut ? std::sqrt(limit_of(slot, numbers[kSquare]))
               : std::numeric_limits<double>::infinity();
  }

  // Computes row.x for a prediction. `every` as in take_in.
  void apply(InputRow<T>& row, size_t every, const Clock& clock) {
    has_avx2() ? apply_avx2(row, every, clock) : apply_any(row, every, clock);
  }

  // Computes row.x, the same, for a row to be learned, and takes the row into RMS scales. How often
  // a settled feature is there is known from a sample: of each `every` rows one is `drawn` and
  // counts for all of them.
  void take_in(InputRow<T>& row, size_t every, bool drawn, const Clock& clock) {
    has_avx2() ? take_in_avx2(row, every, drawn, clock) : take_in_any(row, every, drawn, clock);
  }

 private:
  static constexpr size_t kSquare = 0, kCount = 1, kEpoch = 2;  // of the numbers of a feature
  static constexpr T kCountLimit = kLastCounted;
  static constexpr T kCommon = 4;      // times the mean count: features that are there more often
  static constexpr T kYoungRows = 16;  // with a feature, that its scale includes at once
  static constexpr T kSettledRows = 128;  // with a feature: its scale is their mean square
  static constexpr T kFar = 8;            // scales: the first limit
  static constexpr T kAlike =
      kAlikeSquares;                  // times the unit, of squares: its limits for a feature
  static constexpr T kNotAlike = 64;  // from here on, a feature has its own scale
  static constexpr T kCentred = 4;    // the squared scale of a centred feature, in mean squares

  SONLINE_AVX2 [[gnu::flatten]] void apply_avx2(InputRow<T>& row, size_t every,
                                                const Clock& clock) {
    apply_any(row, every, clock);
  }
  void apply_any(InputRow<T>& row, size_t every, const Clock& clock) {
    if (!counts_rows()) {
      row.x = row.raw.data();
      return;
    }
    read(row, clock);
    if (any_rare(row, kYoungRows)) {
      if (update(row, every, false))
        for (size_t i = 0; i < row.size; ++i)
          if (is_beyond(row, i)) used_[i] *= excess(row, i);
      squares_.swap(used_);
    } else {
      use_unit(row, squares_);
    }
    divide_by_root(row);
  }

  SONLINE_AVX2 [[gnu::flatten]] void take_in_avx2(InputRow<T>& row, size_t every, bool drawn,
                                                  const Clock& clock) {
    take_in_any(row, every, drawn, clock);
  }
  void take_in_any(InputRow<T>& row, size_t every, bool drawn, const Clock& clock) {
    changed_ = 0;
    beyond_.clear();
    if (!counts_rows()) {
      row.x = row.raw.data();
      return;
    }
    read(row, clock);
    if (drawn || any_rare(row, kSettledRows)) {
      const size_t n = row.size;
      if (update(row, every, drawn))
        for (size_t i = 0; i < n; ++i) {
          if (!is_beyond(row, i)) continue;
          beyond_.push_back(i);
          const T limit = limit_of(row.slots[i], squares_[i]), excess = this->excess(row, i);
          const bool tail = excess <= 4;
          used_[i] *= excess;
          stored_[i] = tail ? squares_[i] + (limit - squares_[i]) / std::max(counts_[i], kYoungRows)
                            : squares_[i];
          new_counts_[i] = std::max(counts_[i] / 2, tail ? kYoungRows : T{0});
        }
      squares_.swap(used_);
      refuse_overflow(n);
      remember(row);
      for (size_t i = 0; i < n; ++i) {
        row.numbers[i][kSquare] = stored_[i];
        row.numbers[i][kCount] = new_counts_[i];
      }
      if (forgets_)
        for (size_t i = 0; i < n; ++i) {
          row.numbers[i][kCount] = static_cast<T>(new_counts_[i] * clock.weight());
          row.numbers[i][kEpoch] = clock.template stamp<T>();
        }
    } else {
      use_unit(row, squares_);
    }
    divide_by_root(row);
  }

  // Read, compute, write: the middle is then vector code.
  void read(const InputRow<T>& row, const Clock& clock) {
    const size_t n = row.size;
    squares_.resize(std::max(squares_.size(), (n + kLanes - 1) / kLanes * kLanes));
    counts_.resize(squares_.size());
    T* squares = squares_.data();
    T* counts = counts_.data();
    T* const* numbers = row.numbers.data();
#pragma GCC unroll 4
    for (size_t i = 0; i < n; ++i) {
      squares[i] = numbers[i][kSquare];
      counts[i] = numbers[i][kCount];
    }
    if (forgets_)
      for (size_t i = 0; i < n; ++i) counts[i] = count(numbers[i], clock);
  }

  // Whether any feature was there in fewer rows than that, or is far beyond its scale.
  bool any_rare(const InputRow<T>& row, T rows) const {
    const T *raw = row.raw.data(), *squares = squares_.data(), *counts = counts_.data();
    int any = 0;  // and |, not ||: the loop becomes vector code
    for (size_t i = 0; i < row.size; ++i)
      any |= (counts[i] < rows) | (raw[i] * raw[i] > kFar * kFar * squares[i]);
    return any;
  }

  // The square of the limit of an established feature.
  [[gnu::noinline]] T limit_of(Slot slot, T square) const {
    const T first = kFar * kFar * square;
    const auto raised = limits_.find(slot);
    return raised == limits_.end() ? first : std::max(first, raised->second);
  }

  // A feature of which nothing but 0 is known, by rounding, is young.
  bool is_young(size_t i) const { return counts_[i] < kYoungRows || squares_[i] == 0; }
  bool is_beyond(const InputRow<T>& row, size_t i) const {
    const T square = row.raw[i] * row.raw[i];
    return SONLINE_KEEPS(value_limits) && square > kFar * kFar * squares_[i] && !is_young(i) &&
           square > limit_of(row.slots[i], squares_[i]);
  }

  // What the row does to the scales, for values within their limits; whether there may be others.
  bool update(const InputRow<T>& row, size_t every, bool drawn) {
    for (std::vector<T>* room : {&used_, &stored_, &new_counts_}) room->resize(squares_.size());
    const T *raw = row.raw.data(), *squares = squares_.data(), *counts = counts_.data();
    for (size_t i = 0; i < row.size; ++i) used_[i] = raw[i] * raw[i];
    int far = 0;
    for (size_t i = 0; i < row.size; ++i)
      far |= (counts[i] >= kYoungRows) & (used_[i] > kFar * kFar * squares[i]);
    update_within(row.size, static_cast<T>(every), drawn);
    use_unit(row, used_);
    return far;
  }
  // Vectors and choices: GCC makes branches of these.
  void update_within(size_t n, T group, bool drawn) {
    const Lanes none{}, one = none + 1, groups = none + group, most = none + kCountLimit;
    const auto draw = none < (none + (drawn ? T{1} : T{0}));
    for (size_t i = 0; i < n; i += kLanes) {
      const Lanes before = load(squares_, i), seen = load(counts_, i), square = load(used_, i);
      const auto unknown = before == none, young = (seen < kYoungRows) | unknown,
                 settles = (seen < kSettledRows) | unknown;
      const Lanes count = seen + (settles ? one : groups);
      const Lanes mean = before + (square - before) / count;
      store(used_, i, (SONLINE_KEEPS(young_scales) ? young : unknown) ? mean : before);
      store(stored_, i, settles ? mean : before);
      store(new_counts_, i, settles | draw ? (count < most ? count : most) : seen);
    }
  }
  static constexpr size_t kLanes = 32 / sizeof(T);
  using Lanes = typename detail::Simd<T, kLanes>::Vector;
  using LanesInMemory = typename detail::Simd<T, kLanes>::InMemory;
  [[gnu::always_inline]] static inline Lanes load(const std::vector<T>& from, size_t i) {
    return *reinterpret_cast<const LanesInMemory*>(from.data() + i);
  }
  [[gnu::always_inline]] static inline void store(std::vector<T>& to, size_t i, Lanes lanes) {
    *reinterpret_cast<LanesInMemory*>(to.data() + i) = lanes;
  }

  // The square of a value over that of its limit. A value that is cut has the scale that makes it
  // as large as its limit.
  [[gnu::noinline]] T excess(const InputRow<T>& row, size_t i) const {
    return row.raw[i] * row.raw[i] / limit_of(row.slots[i], squares_[i]);
  }

  // The squared scale of a feature with this mean square: that of the unit if they are alike, its
  // own if they are not, and a line between the two in between. The intercept and centred features
  // have no unit. Centred ones count less than others: they were nearly constant.
  T in_unit(T square, Slot slot) const {
    if (centre(slot) != 0) return kCentred * square;
    return unit_ > 0 && slot != kInterceptSlot ? measured(square, unit_) : square;
  }
  static T measured(T square, T unit) {
    constexpr T slope = (kNotAlike - 1) / (kNotAlike - kAlike);
    const T ratio = square > unit ? square / unit : unit / square;
    const T factor = std::max(T{1}, std::min(ratio, slope * (ratio - kAlike) + 1));
    return square > unit ? unit * factor : unit / factor;
  }
  void use_unit(const InputRow<T>& row, std::vector<T>& of_row) const {
    if (row.size == 0 || (unit_ == 0 && centres_.empty())) return;
    if (!centres_.empty()) {
      for (size_t i = 0; i < row.size; ++i) of_row[i] = in_unit(of_row[i], row.slots[i]);
      return;
    }
    T* __restrict squares = of_row.data();
    const T unit = unit_, first = squares[0];
    if (row.slots[0] == kInterceptSlot) squares[0] = unit;
    int unlike = 0;  // most tables: no divisions
    for (size_t i = 0; i < row.size; ++i)
      unlike |= (squares[i] > kAlike * unit) | (kAlike * squares[i] < unit);
    if (unlike)
      for (size_t i = 0; i < row.size; ++i) squares[i] = measured(squares[i], unit);
    else
      std::fill_n(squares, row.size, unit);
    if (row.slots[0] == kInterceptSlot) squares[0] = first;
  }

  // What the frequency of a feature does to its squared scale.
  static T common(T relative) { return std::sqrt(relative > 1 ? relative : T{1}); }

  // In the order of the slots, so that equal models have equal files.
  template <class Archive>
  void limits_state(Archive& archive) {
    std::vector<uint64_t> slots;
    Vector limits;
    if constexpr (Archive::reading) {
      slots = archive.template any_array<uint64_t>("scales.limited");
      limits = archive.template any_array<double>("scales.limits");
      if (slots.size() != limits.size()) archive.fail("scales.limits", "has the wrong length");
      limits_.clear();
      for (size_t i = 0; i < slots.size(); ++i) {
        if (!(limits[i] > 0 && limits[i] <= std::numeric_limits<T>::max()))
          archive.fail("scales.limits", "is not a positive number");
        limits_[static_cast<Slot>(slots[i])] = static_cast<T>(limits[i]);
      }
    } else {
      for (const auto& [slot, limit] : limits_) slots.push_back(slot);
      std::sort(slots.begin(), slots.end());
      for (const uint64_t slot : slots) limits.push_back(limits_.at(static_cast<Slot>(slot)));
      archive.array("scales.limited", slots);
      archive.array("scales.limits", limits);
    }
  }

  // After update(), and once its squares have changed places: `used_` are those before the row.
  void remember(const InputRow<T>& row) {
    const size_t n = changed_ = row.size;
    old_squares_.swap(used_);
    old_counts_.resize(counts_.size());
    std::copy_n(counts_.begin(), n, old_counts_.begin());
    if (!forgets_) return;
    old_epochs_.resize(counts_.size());
    for (size_t i = 0; i < n; ++i) {
      old_counts_[i] = row.numbers[i][kCount];
      old_epochs_[i] = row.numbers[i][kEpoch];
    }
  }

  void refuse_overflow(size_t n) const {
    if (!all_fit<T>(stored_.data(), n))
      throw Diverged("the scale of a feature is too large for the number type");
  }

  // x / √squares, and 0 where there is no square yet. Vector code, roots and division included.
  void divide_by_root(InputRow<T>& row) {
    int any_common = 0;
    const T *counts = counts_.data(), unit = frequency_unit_;
    if (unit > 0)
      for (size_t i = 0; i < row.size; ++i) any_common |= counts[i] * unit > 1;
    any_common ? divide(row, unit) : divide(row, nullptr);
  }
  template <class Unit>
  void divide(InputRow<T>& row, Unit unit) const {
    const T* __restrict raw = row.raw.data();
    const T* __restrict squares = squares_.data();
    const T* __restrict counts = counts_.data();
    T* __restrict x = row.scaled.data();
    for (size_t i = 0; i < row.size; ++i) {
      T square = squares[i];
      if constexpr (std::is_same_v<Unit, T>) square *= common(counts[i] * unit);
      const T scaled = raw[i] / std::sqrt(square);
      x[i] = square > 0 ? scaled : T{0};
    }
    row.x = x;
  }

  Scaling scaling_;
  bool forgets_;
  T frequency_unit_ = 0;  // features / (kCommon · values seen)
  T unit_ = 0;            // squared; 0 if there is none
  std::vector<T> squares_, counts_, used_, stored_, new_counts_;  // of the row at hand
  std::vector<T> old_squares_, old_counts_, old_epochs_;          // … before it
  size_t changed_ = 0;
  std::vector<size_t> beyond_;          // places in the row of values beyond their limits
  std::unordered_map<Slot, T> limits_;  // squared; of the features that have another than the first
  Vector centres_;                      // by slot, 0 if there is none
};

}  // namespace sonline
