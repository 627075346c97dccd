// Forgetting: in row t, row s counts 2^-((t - s) / half_life).
//
// That is the same as if row t counted 2^(t / half_life) and no row were forgotten, because only
// ratios matter. So eigenvalues, G and the counts of features are sums in which later rows weigh
// more, and a row changes nothing but what it would change anyway. Before a weight leaves the range
// of float32, an epoch ends: sums of the epoch before then count 2^-kBits, which is exact. A sketch
// is carried over at once, a feature when a row has it next.
//
// What is one number for all features (rows, means, shares) is multiplied by `kept` in each row.
#pragma once

#include <cmath>
#include <cstdint>

namespace sonline {

class Clock {
 public:
  // Of the row that is learned next.
  double weight() const { return weight_; }
  uint64_t epoch() const { return epoch_; }

  // After a row; `kept` is what it counts from then on.
  void tick(double kept) {
    weight_ /= kept;
    if (weight_ < kLargest) return;
    weight_ /= kLargest;
    ++epoch_;
  }

  // The same, where there are no rows but epochs.
  void pass(int64_t epochs) { epoch_ += static_cast<uint64_t>(epochs); }

  // What a sum counts after so many epochs; a negative number of them takes that back.
  static double carried(int64_t epochs) {
    return epochs == 0           ? 1.0
           : epochs > kForgotten ? 0.0
                                 : std::ldexp(1.0, -kBits * static_cast<int>(epochs));
  }

  // The epoch as a number of a feature, and what a sum of that epoch counts now.
  template <class T>
  T stamp() const {
    return static_cast<T>(epoch_ % kStamps);
  }
  template <class T>
  double carried_since(T stamp) const {
    if (!(stamp >= 0 && stamp < static_cast<T>(kStamps))) return 0;  // of a forged file
    return carried(static_cast<int64_t>((epoch_ - static_cast<uint64_t>(stamp)) % kStamps));
  }

  // A sum of squares of which so little is left that its root has lost its digits is none.
  template <class T>
  static T left(T sum) {
    return sum < T{1e-30f} ? T{0} : sum;
  }

  template <class Archive>
  void state(Archive& archive) {
    archive.scalar("clock.weight", weight_);
    archive.scalar("clock.epoch", epoch_);
    if constexpr (Archive::reading)
      if (!(weight_ >= 1 && weight_ < kLargest))
        archive.fail("clock.weight", "is not the weight of a row");
  }

 private:
  static constexpr int kBits = 16;  // half-lives of an epoch; squares of weights fit float32
  static constexpr double kLargest = 1 << kBits;
  static constexpr int64_t kForgotten = 60;               // epochs; then nothing is left
  static constexpr uint64_t kStamps = uint64_t{1} << 24;  // whole numbers of float32

  double weight_ = 1;
  uint64_t epoch_ = 0;
};

}  // namespace sonline
