// The logistic loss, log(1 + exp(-y z)), written so that no exponential can overflow.
#pragma once

#include <algorithm>
#include <cmath>

#include "sonline/loss/exp_concave.hpp"

namespace sonline {

struct LogisticLoss {
  static constexpr const char* name = "logistic";
  static constexpr bool binary = true;
  static constexpr bool hessian = true;
  static double value(double z, double y, double) {
    const double margin = y * z;
    return margin > 0 ? std::log1p(std::exp(-margin)) : std::log1p(std::exp(margin)) - margin;
  }
  static double slope(double z, double y, double) { return -y / (1.0 + std::exp(y * z)); }
  static double curvature(double z, double, double) {
    const double e = std::exp(-std::fabs(z));
    return e / ((1.0 + e) * (1.0 + e));
  }
  // With m = y z: d = q / (1 + exp(m + d)), where d minus the right side increases with a slope of
  // at least 1. Halley's method inside a bracket: from d = 0 where the step is short, otherwise
  // from where the answer is if the exponential is next to nothing (q, far from the boundary) or
  // all that counts (m + d is about log q).
  static double move(double z, double y, double q, double) {
    const double m = y * z;
    double s = 1.0 / (1.0 + std::exp(m));
    double low = 0, high = q * s, at = 0, last = 2 * high;
    if (high >= 1) {
      at = m + q <= 0 ? high : std::clamp(std::log1p(m + q) - m, 0.0, high);
      s = 1.0 / (1.0 + std::exp(m + at));
    }
    for (int iteration = 0; iteration < 100; ++iteration) {
      const double gap = at - q * s;
      (gap < 0 ? low : high) = at;
      const double bend = q * s * (1.0 - s), rise = 1.0 + bend;
      double next = at - 2 * gap * rise / (2 * rise * rise + gap * bend * (1.0 - 2 * s));
      // Steps that do not halve could go to and fro for ever.
      if (!(next >= low && next <= high) || std::fabs(next - at) > 0.5 * last)
        next = 0.5 * (low + high);
      last = std::fabs(next - at);
      at = next;
      if (last <= 4e-6 + 1e-12 * at) break;  // its third power is below the rounding
      s = 1.0 / (1.0 + std::exp(m + at));
    }
    return y * at;
  }
  static double lipschitz(double C, double) { return 1.0 / (1.0 + std::exp(-C)); }
  static double sigma(double C) { return sigma_of_exp_concave(std::exp(-C), C, lipschitz(C, 0)); }
};

}  // namespace sonline
