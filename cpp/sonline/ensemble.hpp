// Several weight vectors that share one sketch, weighted by how well they have predicted lately:
// exponential weights with a fixed share (Herbster & Warmuth 1998). The blend of linear predictions
// is itself linear, so the model stays one weight vector to the outside.
#pragma once

#include <algorithm>

#include "sonline/archive.hpp"
#include "sonline/exponential.hpp"
#include "sonline/matrix.hpp"

namespace sonline {

class Ensemble {
 public:
  explicit Ensemble(size_t experts) : share_(experts, 1.0 / static_cast<double>(experts)) {}

  const Vector& shares() const { return share_; }

  double blend(const Vector& margins) const {
    return share_.size() == 1 ? margins[0] : dot(share_.data(), margins.data(), share_.size());
  }

  // Takes in what the experts' predictions cost in this round, and leaves the factors of their
  // shares there. `blended` is the loss of the blend; with natural = false (regression) costs have
  // a unit, and the running mean of `blended` takes it away so that a typical cost is 1/2, as in
  // the log-likelihood of a normal distribution.
  void learn(Vector& costs, double blended, bool natural) {
    if (share_.size() == 1) return;
    double unit = 1;
    if (!natural) {
      ++rounds_;
      mean_loss_ += (blended - mean_loss_) / rounds_;
      unit = 2 * mean_loss_;
      if (!(unit > 0)) return;  // the blend was always right
    }
    double least = costs[0], sum = 0;
    for (const double cost : costs) least = std::min(least, cost);
    for (double& cost : costs) cost = -std::min((cost - least) / unit, kWorst);
    exponentials(costs.data(), costs.size(), costs.data());
    for (size_t e = 0; e < share_.size(); ++e) sum += share_[e] *= costs[e];
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
