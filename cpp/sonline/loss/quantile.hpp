// The quantile (pinball) loss at `level`: max(level (y - z), (level - 1) (y - z)).
#pragma once

#include <algorithm>

namespace sonline {

struct QuantileLoss {
  static constexpr const char* name = "quantile";
  static constexpr bool binary = false;
  static constexpr bool hessian = false;
  static double value(double z, double y, double level) {
    return y > z ? level * (y - z) : (level - 1.0) * (y - z);
  }
  static double slope(double z, double y, double level) {
    return y > z ? -level : (y < z ? 1.0 - level : 0.0);
  }
  static double curvature(double, double, double) { return 0.0; }
  static double move(double z, double y, double q, double level) {
    return y > z ? std::min(q * level, y - z) : std::max(q * (level - 1.0), y - z);
  }
  static double sigma(double) { return 0.0; }
  static double lipschitz(double, double level) { return std::max(level, 1.0 - level); }
};

}  // namespace sonline
