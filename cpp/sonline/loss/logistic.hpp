// The logistic loss, log(1 + exp(-y z)), written so that no exponential can overflow.
#pragma once

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
  static double lipschitz(double C, double) { return 1.0 / (1.0 + std::exp(-C)); }
  static double sigma(double C) { return sigma_of_exp_concave(std::exp(-C), C, lipschitz(C, 0)); }
};

}  // namespace sonline
