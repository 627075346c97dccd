// Half the squared hinge, 1/2 max(0, 1 - y z)^2. With Hessian curvature and the full matrix this is
// AROW (Crammer, Kulesza & Dredze 2009).
#pragma once

#include "sonline/loss/exp_concave.hpp"

namespace sonline {

struct SquaredHingeLoss {
  static constexpr const char* name = "squared_hinge";
  static constexpr bool binary = true;
  static constexpr bool hessian = true;
  static double value(double z, double y) {
    const double gap = 1.0 - y * z;
    return gap > 0 ? 0.5 * gap * gap : 0.0;
  }
  static double slope(double z, double y) {
    const double gap = 1.0 - y * z;
    return gap > 0 ? -y * gap : 0.0;
  }
  // A bound of 1 puts predictions exactly there: rounding must not decide.
  static constexpr double kKink = 1.0 - 1e-9;
  static double curvature(double z, double y) { return y * z < kKink ? 1.0 : 0.0; }
  static double implicit_step(double z, double y, double q) {
    const double gap = 1.0 - y * z;
    return gap > 0 ? q / (1 + q) * gap * y : 0.0;
  }
  static double lipschitz(double C) { return 1.0 + C; }
  static double sigma(double C) {
    return sigma_of_exp_concave(1.0 / ((1.0 + C) * (1.0 + C)), C, lipschitz(C));
  }
};

}  // namespace sonline
