// The first rows of a stream, kept until they show which features have a large offset.
//
// A year, a temperature in kelvin or a latitude varies little beside its mean. Divided by its root
// mean square it is nearly constant, and its steps are those of a constant: too short by far. So
// after kRows rows, features that were in all of them can get their mean as a centre. Then the
// learner starts again with these rows and x - centre. Centres never move, so that the model stays
// linear in x.
//
// A feature is centred if its mean is
//   more than kOffset standard deviations, and more features are in all rows than the sketch has
//     directions, or more than twice as many in some: those of small variance would be in its
//     tail; or
//   so many that hardly a thousandth of its mean square is variance.
// The first rows of a stream in order of time may be alike; a feature whose values follow each
// other more closely than independent ones is not centred.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sonline/ablation.hpp"
#include "sonline/archive.hpp"
#include "sonline/batch.hpp"
#include "sonline/config.hpp"
#include "sonline/features.hpp"
#include "sonline/matrix.hpp"

namespace sonline {

class FirstRows {
 public:
  explicit FirstRows(bool wanted) : open_(wanted) {}
  static bool may_centre(const Config& config) {
    return SONLINE_KEEPS(centring) && config.scaling == Scaling::automatic && config.intercept &&
           config.hash_bits < 0;
  }

  // Whether rows are still to be added.
  bool open() const { return open_; }
  void close() { *this = FirstRows(false); }

  // Adds a row that has been learned; true if it was the last one.
  bool add(const Batch& batch, size_t row_number, double label, double weight);

  // The centres by slot, beside a sketch of so many directions; empty if there are none.
  Vector centres(const FeatureIndex& index, size_t directions) const;

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
  const double* labels() const { return labels_.data(); }
  const double* weights() const { return weights_.data(); }

  // `rounds` is how many rows the learner has learned.
  template <class Archive>
  void state(Archive& archive, uint64_t rounds, const FeatureIndex& index) {
    if constexpr (Archive::reading) {
      if (rounds == 0) return;
      if (!open_ || !archive.has("first.labels")) return close();
      keys_ = archive.template any_array<Key>("first.keys");
      archive.array_of(keys_.size(), "first.values", values_);
      archive.array_of(rounds + 1, "first.ends", ends_);
      archive.array_of(rounds, "first.labels", labels_);
      archive.array_of(rounds, "first.weights", weights_);
      check(archive, index);
    } else if (open_ && rounds > 0) {
      archive.array("first.keys", keys_);
      archive.array("first.values", values_);
      archive.array("first.ends", ends_);
      archive.array("first.labels", labels_);
      archive.array("first.weights", weights_);
    }
  }

 private:
  static constexpr size_t kRows = 32;
  static constexpr size_t kMostFeatures = 256;  // of a row: a table, and what absent ones may cost
  static constexpr double kOffset = 9, kLargeOffset = 1000;  // squared, in standard deviations
  static constexpr double kIndependent = 1.2;  // variances of a step; independent values have 2
  static constexpr double kRounding = 1e-24;   // of the mean square

  size_t begin(size_t row) const { return static_cast<size_t>(ends_[row]); }

  template <class Archive>
  void check(Archive& archive, const FeatureIndex& index) const {
    if (labels_.size() >= kRows || ends_[0] != 0 || !std::is_sorted(ends_.begin(), ends_.end()) ||
        begin(labels_.size()) != keys_.size())
      archive.fail("first.ends", "does not fit the rows");
    for (const Key key : keys_)
      if (index.find(key) == kInterceptSlot) archive.fail("first.keys", "has an unknown feature");
    for (const double weight : weights_)
      if (!(weight > 0)) archive.fail("first.weights", "has a number that is not positive");
  }

  bool open_;
  std::vector<Key> keys_;
  Vector values_, labels_, weights_;
  std::vector<int64_t> ends_ = {0};  // of the rows in keys and values
};

}  // namespace sonline
