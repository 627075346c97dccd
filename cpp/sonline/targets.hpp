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

  // `kept` is what the losses before still count.
  void take_in(double loss, double kept) {
    count_ *= kept;
    if (loss > limit()) {
      loss = limit();
      count_ = std::max(0.5 * count_, kYoung);
    }
    ++count_;
    mean_ += (loss - mean_) / count_;
  }

  // The same for losses whose mean a rare label may make: one row adds at most as much as all rows
  // before it.
  void take_in_rare(double loss) {
    ++count_;
    mean_ += (std::min(loss, count_ * std::max(mean_, 1.0)) - mean_) / count_;
  }
  // The mean, as if some rows of loss 1/2 had come first.
  double cautious_mean() const { return (mean_ * count_ + 0.5 * kYoung) / (count_ + kYoung); }

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

  // The best prediction that is the same for all rows, less the offset.
  double base(const Config& config) const {
    if (!config.intercept || weight_ == 0 || !SONLINE_KEEPS(base_rate)) return 0;
    if (config.loss->log_link)
      return std::clamp(log_of_mean() - offset_, -config.bound, config.bound);
    if (!config.loss->binary) return 0;  // the offset: an outlier does not move it
    // One half of a row of each class is added. Opposite labels give exactly the opposite.
    const double base =
        std::log((1 + mean_) * weight_ + unit_) - std::log((1 - mean_) * weight_ + unit_);
    return std::clamp(base, -config.bound, config.bound);
  }

  // Takes in a label of the row number `row` (from 1 on).
  void take(const Config& config, double y, double weight, uint64_t row, double unit_of_weights) {
    low_ = std::min(low_, y);
    high_ = std::max(high_, y);
    weight_ = weight_ * config.kept + weight;
    unit_ = unit_of_weights;
    mean_ += weight / weight_ * (y - mean_);
    if (SONLINE_KEEPS(label_offset) && !config.loss->binary && !config.loss->log_link &&
        config.unit_free && config.intercept && row <= kFirstLabels)
      offset_ += (y - offset_) / static_cast<double>(row);
    if (config.loss->log_link && positives_ < kFirstPositives && config.unit_free &&
        config.intercept)
      offset_ = log_of_mean();
    positives_ += y > 0;
  }
  // A label of numbers as the members see it.
  double less_offset(const Config& config, double y) const {
    return config.loss->log_link ? y * exp_of(-offset_) : y - offset_;
  }
  // The size of a typical label.
  double size(const Config& config) const {
    if (config.loss->binary || config.loss->log_link) return 1;
    return std::max({std::fabs(low_ - offset_), std::fabs(high_ - offset_), 1e-300});
  }

  // With `clip`: to the labels seen, but never beyond the bound.
  double clipped(const Config& config, double z) const {
    if (!config.clip) return z;
    if (low_ <= high_ && config.loss->log_link)
      z = std::clamp(z, log_of_label(low_) - offset_, log_of_label(high_) - offset_);
    else if (low_ <= high_)
      z = std::clamp(z, low_ - offset_, high_ - offset_);
    return std::clamp(z, -config.bound, config.bound);
  }

  // Adds the losses of the predictions for the next row (z) and for later rows to the typical ones;
  // returns the label to learn, which is moved towards z if it is an outlier.
  // The row counts as `rows` rows.
  [[gnu::noinline]] double take_loss(const Config& config, double z, double later, double y,
                                     double rows) {
    if (config.unit_free && config.loss->hessian)
      config.loss->set_scale(typical_.mean() > 0 ? std::sqrt(2 * typical_.mean()) : kNoScale);
    const double cost = config.loss->typical(z, y), limit = typical_.limit();
    const double cost_later = config.loss->typical(later, y);
    if (config.loss->log_link) {
      typical_.take_in_rare(rows * cost);
      typical_later_.take_in_rare(rows * cost_later);
      return y;
    }
    const double cost_base = has_unit(config) ? config.loss->typical(base(config), y) : 0.0;
    if (!std::isfinite(cost) || !std::isfinite(cost_later) || !std::isfinite(cost_base))
      throw Diverged("the loss is too large");
    if (SONLINE_KEEPS(outliers) && config.unit_free && config.loss->hessian && cost > limit)
      y = z + (y - z) * std::sqrt(limit / cost);
    // What is left of the losses must not vanish beside rounding, where the fit is exact.
    const double least = config.forgets() ? config.loss->value(kRounding * size(config), 0) : 0.0;
    typical_.take_in(std::max(cost, least), config.kept);
    typical_later_.take_in(std::max(cost_later, least), config.kept);
    typical_base_.take_in(std::max(cost_base, least), config.kept);
    if (config.loss->level() > 0) keep_level(config, z, later, y);
    return y;
  }

  // The slope of a loss that grows like |y - z| has no unit; the weights have that of the labels.
  double pull(const Config& config) const {
    const bool linear = !config.loss->binary && !config.loss->hessian;
    return SONLINE_KEEPS(pull) && config.unit_free && linear ? 2 * typical_.mean() : 1.0;
  }

  // Whether losses have a unit in which predictions can be calibrated: none for classes; for
  // numbers, the variance of the labels.
  static bool has_unit(const Config& config) {
    return config.loss->binary || (config.loss->hessian && !config.loss->log_link);
  }
  void divide_by_unit(const Config& config, double* slopes, double* curvatures, size_t n) const {
    if (config.loss->binary) return;
    const double unit = 2 * typical_base_.mean(), scale = unit > 0 ? 1 / unit : 0.0;
    const double largest = std::sqrt(4 * kLargestLoss * typical_.mean());  // one error, an outlier
    for (size_t i = 0; i < n; ++i) {
      slopes[i] = scale * std::clamp(slopes[i], -largest, largest);
      curvatures[i] *= scale;
    }
  }

  // The unit of gradients, for steps that must not depend on that of the labels.
  double unit_of_gradients(const Config& config) const {
    const bool has_unit = !config.loss->binary && !config.loss->log_link && config.loss->hessian &&
                          typical_.mean() > 0;
    return has_unit ? std::sqrt(2 * typical_.mean()) : 1.0;
  }

  // The unit of α, which is in rows: with a log link, those of an uncertain label tell less.
  double unit_of_alpha(const Config& config) const {
    return config.loss->log_link && config.unit_free ? 2 * typical_.cautious_mean() : 1.0;
  }

  // With a log link, keeps the mean of the predictions that of the labels, in spite of the curved
  // exponential. Steps follow the parabola at the weights of the row before; on other rows, they
  // make predictions larger by half of δᵀAδ times the third derivative, on average. `squares` is
  // that square of the row at hand, and the offset takes it back. And a blend of logarithms is less
  // than the logarithm of a blend, by half the variance of the members: `variance`, of a row that
  // counts as `rows` rows.
  void balance(const Config& config, double squares, double variance, double rows) {
    if (!config.loss->log_link || !config.unit_free || positives_ < kFirstPositives) return;
    const double seen = weight_ * config.loss->weight_of_offset(base(config));
    offset_ -=
        std::clamp(0.5 * config.loss->skew() * squares / seen, -kLargestBalance, kLargestBalance);
    const double rate = kLastRows * rows / (weight_ / unit_ + kLastRows);
    gap_ += std::min(rate, 0.5) * (0.5 * variance - gap_);
  }
  double gap() const { return gap_; }

  // Turns the fits of predictions (see Loss::fits) into likelihoods. Losses of numbers have a unit:
  // a typical loss counts 1/2, as in a normal distribution. There is room for whole quads.
  void become_likelihoods(const Config& config, bool later, double* fits, size_t n) const {
    if (config.loss->binary) return;
    const double typical = (later ? typical_later_ : typical_).mean();
    const double unit = !SONLINE_KEEPS(likelihood_unit) ? 1.0
                        : config.loss->log_link
                            ? 2 * (later ? typical_later_ : typical_).cautious_mean()
                            : 2 * typical;
    const double least = *std::min_element(fits, fits + n);
    if (unit > 0)
      for (size_t i = 0; i < n; ++i) fits[i] = -std::min((fits[i] - least) / unit, kLargestLoss);
    else
      std::fill_n(fits, n, 0.0);
    exponentials(fits, whole_quads(n), fits);
  }

  // The labels are those of the opposite class.
  void mirror() {
    std::swap(low_, high_);
    low_ = -low_;
    high_ = -high_;
    mean_ = -mean_;
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, bool log_link) {
    archive.scalar("label.low", low_);
    archive.scalar("label.high", high_);
    archive.scalar("label.offset", offset_);
    archive.scalar("label.mean", mean_);
    archive.scalar("label.weight", weight_);
    archive.scalar("label.unit", unit_);
    if (log_link) archive.scalar("label.positives", positives_);
    bool has_gap = log_link || gap_ != 0;  // of numbers with a log link, and of quantiles
    if constexpr (Archive::reading) has_gap = log_link || archive.has("label.gap");
    if (has_gap)
      archive.scalar("label.gap", gap_);
    else
      gap_ = 0;
    typical_.state(archive);
    archive.within("later.", [&] { typical_later_.state(archive); });
    archive.within("base.", [&] { typical_base_.state(archive); });
    if constexpr (Archive::reading)
      if (weight_ < 0 || unit_ < 0) archive.fail("label.weight", "is negative");
  }

 private:
  // Of a quantile: moves the gap until as many labels as it says are below the predictions, on
  // average over those for the next row (z) and for later rows. Members see to that on rows that
  // they have learned; on others, the noise of their steps, and drift, leave predictions too close
  // to the middle of the labels.
  void keep_level(const Config& config, double z, double later, double y) {
    if (!config.unit_free || !config.intercept) return;
    const double level = config.loss->level(), spread = level * (1 - level);
    const double rate = std::max(1 / (weight_ / unit_ + kLastRows), kLevelRate);
    // For normal errors, about the inverse of the density of the labels there.
    const double width = typical_later_.mean() / (4 * spread * spread);
    const double below = 0.5 * ((y < z + gap_) + (y < later + gap_));
    gap_ += rate * width * (level - below);
  }

  // As long as all labels are 0: of half a row with a label of 1.
  double log_of_mean() const {
    return log_of_label(mean_ > 0 ? mean_ : 0.5 * unit_ / (weight_ + 0.5 * unit_));
  }
  // Of a number that is not negative; very small for 0.
  static double log_of_label(double y) {
    y = std::max(y, 1e-300);
    return log_of(Pair{y, y})[0];
  }

  static constexpr uint64_t kFirstLabels = 16;  // their mean is the offset
  // With a log link, the offset is the logarithm of the mean up to so many labels above 0.
  static constexpr double kFirstPositives = 32, kLargestBalance = 0.1, kLastRows = 16;
  static constexpr double kLevelRate = 1.0 / 200;
  static constexpr double kNoScale = 1e150;  // as long as no error is known
  static constexpr double kRounding = 1e-6;  // of labels
  static constexpr double kLargestLoss = 5;  // typical losses that a row can count

  // The range of the labels; empty (low > high) before the first label.
  double low_ = std::numeric_limits<double>::max();
  double high_ = std::numeric_limits<double>::lowest();
  double offset_ = 0;
  double mean_ = 0, weight_ = 0;                        // of all labels
  double unit_ = 0;                                     // weight of one effective row
  double positives_ = 0;                                // labels above 0; only used with a log link
  double gap_ = 0;                                      // see balance() and keep_level()
  TypicalLoss typical_, typical_later_, typical_base_;  // base: of the base rate
};

}  // namespace sonline
