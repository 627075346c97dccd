// The first rows of a stream, kept until they show what the inputs are like.
//
// A model learns them as they come, with plain scales. After kRows rows it makes all choices
// together, starts again with them and learns the same rows once more:
//   unit      Features are measured alike if most values are within a factor of 4 of a common size.
//             Then they share that size as their scale (scales.hpp).
//   centres   A year, a temperature in kelvin or a latitude varies little beside its mean. Divided
//             by its root mean square it is nearly constant, and its steps are too short by far. So
//             features that are in all rows can get their mean as a centre. A feature is centred if
//             its mean is more than kOffset standard deviations, and there are more such features
//             than the sketch has directions; or so many that hardly a thousandth of its mean
//             square is variance. The first rows of a stream in order of time may be alike: a
//             feature whose values follow each other more closely than independent ones is not
//             centred. Centres never move, so that the model stays linear in x.
//   wide      Rows of which each has few of many features, as texts have. More than two classes
//   then
//             learn without sketches, by steps per feature (diagonal.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/batch.hpp"
#include "sonline/config.hpp"
#include "sonline/features.hpp"
#include "sonline/matrix.hpp"

namespace sonline {

struct Choices {
  double unit = 0;  // squared; 0 if there is none
  Vector centres;   // by slot; empty if there are none
  bool wide = false;
  size_t features = 0;
};

class WarmUp {
 public:
  static constexpr size_t kRows = 32;

  explicit WarmUp(const Config& config)
      : config_(config), open_(config.scaling == Scaling::automatic || !config.diagonal.empty()) {}

  // Whether rows are still to be added.
  bool open() const { return open_; }
  void close() {
    open_ = false;
    keys_ = {};
    values_ = labels_ = weights_ = {};
    ends_ = {0};
  }

  // Adds a row that has been learned; true if it was the last one.
  bool add(const Batch& batch, size_t row_number, double label, double weight);

  Choices choices(const FeatureIndex& index) const;

  // The rows as a batch; valid while they are.
  Batch batch() const {
    Batch batch;
    batch.rows = labels_.size();
    batch.values = values_.data();
    batch.index_type = Batch::Index::u64;
    batch.indices = keys_.data();
    batch.indptr = ends_.data();
    batch.stored = keys_.size();
    batch.checked = true;
    return batch;
  }
  const Vector& labels() const { return labels_; }
  bool table() const { return table_; }
  const Vector& weights() const { return weights_; }

  // `rounds` is how many rows the model has learned.
  template <class Archive>
  void state(Archive& archive, uint64_t rounds, const FeatureIndex& index) {
    archive.scalar("warm_up.open", open_);
    if (!open_) return;
    if (config_.curves == CurvesChoice::automatic) archive.scalar("warm_up.table", table_);
    if constexpr (Archive::reading) {
      if (rounds >= kRows) archive.fail("warm_up.open", "does not fit the rows");
      keys_ = archive.template any_array<Key>("warm_up.keys");
      archive.array_of(keys_.size(), "warm_up.values", values_);
      archive.array_of(rounds + 1, "warm_up.ends", ends_);
      archive.array_of(rounds, "warm_up.labels", labels_);
      archive.array_of(rounds, "warm_up.weights", weights_);
      check(archive, index);
    } else {
      archive.array("warm_up.keys", keys_);
      archive.array("warm_up.values", values_);
      archive.array("warm_up.ends", ends_);
      archive.array("warm_up.labels", labels_);
      archive.array("warm_up.weights", weights_);
    }
  }

 private:
  static constexpr size_t kTableColumns = 256;               // of a row: beyond, nothing is centred
  static constexpr double kOffset = 9, kLargeOffset = 1000;  // squared, in standard deviations
  static constexpr double kIndependent = 1.2;  // variances of a step; independent values have 2
  static constexpr double kRounding = 1e-24;   // of the mean square
  static constexpr double kAlikeShare = 0.8;   // of the values: then there is a unit
  static constexpr double kFewValues = 16;     // of a feature: its size is known vaguely
  static constexpr double kWideFeatures = 128,
                          kWideRows = 8;  // features: at all, and times a row's

  struct Moments;
  double unit(const std::vector<Moments>& features) const;
  Vector centres(const std::vector<Moments>& features, const FeatureIndex& index) const;

  size_t begin(size_t row) const { return static_cast<size_t>(ends_[row]); }

  template <class Archive>
  void check(Archive& archive, const FeatureIndex& index) const {
    if (ends_[0] != 0 || !std::is_sorted(ends_.begin(), ends_.end()) ||
        begin(labels_.size()) != keys_.size())
      archive.fail("warm_up.ends", "does not fit the rows");
    for (Key key : keys_) {
      if (config_.hash_bits >= 0 && !(key & kNamed))
        key = hash_slot(key, static_cast<unsigned>(config_.hash_bits));
      if (index.find(key) == kInterceptSlot) archive.fail("warm_up.keys", "has an unknown feature");
    }
    for (const double weight : weights_)
      if (!(weight > 0)) archive.fail("warm_up.weights", "has a number that is not positive");
  }

  Config config_;
  bool open_, table_ = true;  // all rows so far are those of tables
  std::vector<Key> keys_;
  Vector values_, labels_, weights_;
  std::vector<int64_t> ends_ = {0};  // of the rows in keys and values
};

}  // namespace sonline
