// Several weight vectors that share one sketch, weighted by how well they have predicted lately:
// exponential weights with a fixed share (Herbster & Warmuth 1998). The blend of linear predictions
// is itself linear, so the model stays one weight vector to the outside.
#pragma once

#include <algorithm>
#include <cmath>

#include "sonline/archive.hpp"
#include "sonline/matrix.hpp"

namespace sonline {

// What an expert's margin z costs where labels are -1 and +1: the Brier score of the probability
// 1 / (1 + e^-z), with the rate 1 for which it is mixable (Vovk & Zhdanov, JMLR 2009). Unlike the
// logistic loss it does not prefer an expert for being ever surer of what all predict.
inline double brier_score(double z, double y) {
  const double missed = 1 / (1 + std::exp(y * z));
  return 2 * missed * missed;
}

class Ensemble {
 public:
  explicit Ensemble(size_t experts) : share_(experts, 1.0 / static_cast<double>(experts)) {}

  const Vector& shares() const { return share_; }

  double blend(const Vector& margins) const {
    return share_.size() == 1 ? margins[0] : dot(share_.data(), margins.data(), share_.size());
  }

  // Takes in the losses of the experts in this round. `blended` is the loss of the blend; with
  // natural = false (regression) losses have a unit, and the running mean of `blended` takes it
  // away so that a typical loss is 1/2, as in the log-likelihood of a normal distribution.
  void learn(Vector& losses, double blended, bool natural) {
    if (share_.size() == 1) return;
    double unit = 1;
    if (!natural) {
      ++rounds_;
      mean_loss_ += (blended - mean_loss_) / rounds_;
      unit = 2 * mean_loss_;
    }
    double least = losses[0], sum = 0;
    for (const double loss : losses) least = std::min(least, loss);
    for (size_t e = 0; e < share_.size(); ++e) {
      const double excess = unit > 0 ? (losses[e] - least) / unit : 0.0;
      share_[e] *= std::exp(-std::min(excess, kWorst));
      sum += share_[e];
    }
    const double even = 1.0 / static_cast<double>(share_.size());
    for (double& share : share_) share = (1 - kFixedShare) * (share / sum) + kFixedShare * even;
  }

  template <class Archive>
  void state(Archive& archive) {
    archive.array("ensemble.share", share_);
    archive.scalar("ensemble.mean_loss", mean_loss_);
    archive.scalar("ensemble.rounds", rounds_);
  }

 private:
  // One bad round cannot silence an expert, and none is ever out: what lets the blend follow a
  // change of the stream within a few rows.
  static constexpr double kWorst = 5, kFixedShare = 1e-3;

  Vector share_;
  double mean_loss_ = 0, rounds_ = 0;
};

}  // namespace sonline
