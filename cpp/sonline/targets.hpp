// The labels of one output: what members learn instead of them, and predictions in their unit.
//
// Classes are -1 and 1. Numbers have an offset and a unit: with `unit_free`, w·x̃ predicts
// y - offset, losses count in units of a typical loss, and y is moved towards the prediction where
// it is an outlier.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "sonline/ablation.hpp"
#include "sonline/archive.hpp"
#include "sonline/config.hpp"
#include "sonline/errors.hpp"
#include "sonline/exponential.hpp"
#include "sonline/matrix.hpp"

namespace sonline {

// The mean of the losses of a regression, in which one outlier counts for little. If more follow at
// once, each counts more than the one before: then the stream has changed.
class TypicalLoss {
 public:
  double mean() const { return mean_; }
  double limit() const {
    return SONLINE_KEEPS(typical_loss) && count_ >= kYoung && mean_ > 0
               ? kOutlier * mean_
               : std::numeric_limits<double>::infinity();
  }

  void take_in(double loss) {
    if (loss > limit()) {
      loss = limit();
      count_ = std::max(0.5 * count_, kYoung);
    }
    ++count_;
    mean_ += (loss - mean_) / count_;
  }

  template <class Archive>
  void state(Archive& archive) {
    archive.scalar("loss.mean", mean_);
    archive.scalar("loss.rows", count_);
  }

 private:
  static constexpr double kYoung = 16, kOutlier = 1024;  // of squares: 32 standard deviations
  double mean_ = 0, count_ = 0;
};

class Targets {
 public:
  double offset() const { return offset_; }
  double low() const { return low_; }
  double high() const { return high_; }
  void start_range(double low, double high) {
    low_ = low;
    high_ = high;
  }

  // The best prediction that is the same for all rows, less the offset: predictions are shrunk
  // towards it.
  double base(const Config& config) const {
    if (!config.intercept || weight_ == 0 || !SONLINE_KEEPS(base_rate)) return 0;
    return std::clamp(unbounded_base(config), -config.bound, config.bound);
  }

  // Takes in a label of the row number `row` (from 1 on).
  void take(const Config& config, double y, double weight, uint64_t row, double unit_of_weights) {
    low_ = std::min(low_, y);
    high_ = std::max(high_, y);
    weight_ += weight;
    unit_ = unit_of_weights;
    mean_ += weight / weight_ * (y - mean_);
    if (SONLINE_KEEPS(label_offset) && !config.loss->binary && config.unit_free &&
        config.intercept && row <= kFirstLabels)
      offset_ += (y - offset_) / static_cast<double>(row);
  }
  // The size of a typical label.
  double size(const Config& config) const {
    if (config.loss->binary) return 1;
    return std::max({std::fabs(low_ - offset_), std::fabs(high_ - offset_), 1e-300});
  }

  // With `clip`: to the labels seen, but never beyond the bound.
  double clipped(const Config& config, double z) const {
    if (!config.clip) return z;
    if (low_ <= high_) z = std::clamp(z, low_ - offset_, high_ - offset_);
    return std::clamp(z, -config.bound, config.bound);
  }

  // Adds the losses of the predictions for the next row (z) and for later rows to the typical ones;
  // returns the label to learn, which is moved towards z if it is an outlier.
  [[gnu::noinline]] double take_loss(const Config& config, double z, double later, double y) {
    const double cost = config.loss->value(z, y), limit = typical_.limit();
    const double cost_later = config.loss->value(later, y);
    if (!std::isfinite(cost) || !std::isfinite(cost_later)) throw Diverged("the loss is too large");
    if (SONLINE_KEEPS(outliers) && config.unit_free && config.loss->hessian && cost > limit)
      y = z + (y - z) * std::sqrt(limit / cost);
    typical_.take_in(cost);
    typical_later_.take_in(cost_later);
    return y;
  }

  // The slope of a loss that grows like |y - z| has no unit; the weights have that of the labels.
  double pull(const Config& config) const {
    const bool linear = !config.loss->binary && !config.loss->hessian;
    return SONLINE_KEEPS(pull) && config.unit_free && linear ? 2 * typical_.mean() : 1.0;
  }

  // The unit of gradients, for steps that must not depend on that of the labels.
  double unit_of_gradients(const Config& config) const {
    const bool has_unit = !config.loss->binary && config.loss->hessian && typical_.mean() > 0;
    return has_unit ? std::sqrt(2 * typical_.mean()) : 1.0;
  }

  // Turns the fits of predictions (see Loss::fits) into likelihoods. Losses of numbers have a unit:
  // a typical loss counts 1/2, as in a normal distribution.
  void become_likelihoods(const Config& config, bool later, double* fits, size_t n) const {
    if (config.loss->binary) return;
    const double typical = (later ? typical_later_ : typical_).mean();
    const double unit = SONLINE_KEEPS(likelihood_unit) ? 2 * typical : 1.0;
    const double least = *std::min_element(fits, fits + n);
    for (size_t i = 0; i < n; ++i)
      fits[i] = unit > 0 ? -std::min((fits[i] - least) / unit, kLargestLoss) : 0.0;
    exponentials(fits, n, fits);
  }

  // The labels are those of the opposite class.
  void mirror() {
    std::swap(low_, high_);
    low_ = -low_;
    high_ = -high_;
    mean_ = -mean_;
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive) {
    archive.scalar("label.low", low_);
    archive.scalar("label.high", high_);
    archive.scalar("label.offset", offset_);
    archive.scalar("label.mean", mean_);
    archive.scalar("label.weight", weight_);
    archive.scalar("label.unit", unit_);
    typical_.state(archive);
    archive.within("later.", [&] { typical_later_.state(archive); });
    if constexpr (Archive::reading)
      if (weight_ < 0 || unit_ < 0) archive.fail("label.weight", "is negative");
  }

 private:
  double unbounded_base(const Config& config) const {
    if (!config.loss->binary) return config.loss->hessian ? mean_ - offset_ : 0.0;
    // One half of a row of each class is added. Opposite labels give exactly the opposite.
    return std::log((1 + mean_) * weight_ + unit_) - std::log((1 - mean_) * weight_ + unit_);
  }

  static constexpr uint64_t kFirstLabels = 16;  // their mean is the offset
  static constexpr double kLargestLoss = 5;     // typical losses that a row can count

  // The range of the labels; empty (low > high) before the first label.
  double low_ = std::numeric_limits<double>::max();
  double high_ = std::numeric_limits<double>::lowest();
  double offset_ = 0;
  double mean_ = 0, weight_ = 0;  // of all labels
  double unit_ = 0;               // weight of one effective row
  TypicalLoss typical_, typical_later_;
};

}  // namespace sonline
