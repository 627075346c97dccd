// The hinge loss, max(0, 1 - y z): convex, no curvature.
#pragma once

#include <algorithm>

namespace sonline {

struct HingeLoss {
  static constexpr const char* name = "hinge";
  static constexpr bool binary = true;
  static constexpr bool hessian = false;
  static double value(double z, double y) { return y * z < 1.0 ? 1.0 - y * z : 0.0; }
  static double slope(double z, double y) { return y * z < 1.0 ? -y : 0.0; }
  static double curvature(double, double) { return 0.0; }
  static double implicit_step(double z, double y, double q) {
    return y * std::min(std::max(1.0 - y * z, 0.0), q);
  }
  static double sigma(double) { return 0.0; }
  static double lipschitz(double) { return 1.0; }
};

}  // namespace sonline
