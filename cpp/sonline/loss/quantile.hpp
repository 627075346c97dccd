// The quantile (pinball) loss at `level`: max(level (y - z), (level - 1) (y - z)).
#pragma once

#include <algorithm>

#include "sonline/loss/parameters.hpp"

namespace sonline {

struct QuantileLoss {
  static constexpr const char* name = "quantile";
  static constexpr bool binary = false;
  static constexpr bool hessian = false;
  static constexpr bool quantile = true;
  explicit QuantileLoss(const LossParameters& parameters) : level(parameters.quantile) {}
  double value(double z, double y) const {
    return y > z ? level * (y - z) : (level - 1.0) * (y - z);
  }
  double slope(double z, double y) const { return y > z ? -level : (y < z ? 1.0 - level : 0.0); }
  static double curvature(double, double) { return 0.0; }
  double implicit_step(double z, double y, double q) const {
    return y > z ? std::min(q * level, y - z) : std::max(q * (level - 1.0), y - z);
  }
  static double sigma(double) { return 0.0; }
  double lipschitz(double) const { return std::max(level, 1.0 - level); }

  double level;
};

}  // namespace sonline
