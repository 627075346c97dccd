// Losses of numbers beside the squared and the quantile loss: huber (outliers pull no more than
// delta), expectile (errors of one side count more) and epsilon_insensitive (small errors do not
// count).
#pragma once

#include <algorithm>
#include <cmath>

#include "sonline/loss/parameters.hpp"

namespace sonline {

// 1/2 r² up to |r| = delta · scale, and a line from there on.
struct HuberLoss {
  static constexpr const char* name = "huber";
  static constexpr bool binary = false;
  static constexpr bool hessian = true;
  explicit HuberLoss(const LossParameters& parameters) : delta(parameters.delta) {}
  double value(double z, double y) const {
    const double size = std::fabs(z - y), end = delta * scale;
    return size <= end ? 0.5 * size * size : end * (size - 0.5 * end);
  }
  double slope(double z, double y) const {
    return std::clamp(z - y, -delta * scale, delta * scale);
  }
  double curvature(double z, double y) const { return std::fabs(z - y) <= delta * scale ? 1 : 0; }
  // Errors are cut, so that the scale that they give is not that of the outliers.
  double typical(double z, double y) const { return 0.5 * slope(z, y) * slope(z, y); }
  // From the root of the mean square of errors that are cut.
  void set_scale(double cut) { scale = cut * std::sqrt(1 + 1 / (delta * delta)); }
  double implicit_step(double z, double y, double q) const {
    const double longest = q * delta * scale;
    return std::clamp(q / (1 + q) * (y - z), -longest, longest);
  }
  double sigma(double C) const { return 2 * C <= delta * scale ? 1 / (4 * C * C) : 0.0; }
  double lipschitz(double C) const { return std::min(delta * scale, 2 * C); }

  double delta;
  double scale = 1;  // of the residuals: see Loss::set_scale
};

// |level - (y < z)| (y - z)².
struct ExpectileLoss {
  static constexpr const char* name = "expectile";
  static constexpr bool binary = false;
  static constexpr bool hessian = true;
  explicit ExpectileLoss(const LossParameters& parameters) : level(parameters.quantile) {}
  double value(double z, double y) const { return 0.5 * curvature(z, y) * (z - y) * (z - y); }
  double slope(double z, double y) const { return curvature(z, y) * (z - y); }
  double curvature(double z, double y) const { return 2 * (y > z ? level : 1 - level); }
  double implicit_step(double z, double y, double q) const {
    const double pull = q * curvature(z, y);
    return pull / (1 + pull) * (y - z);
  }
  double sigma(double C) const {
    return 2 * std::min(level, 1 - level) / (lipschitz(C) * lipschitz(C));
  }
  double lipschitz(double C) const { return 4 * std::max(level, 1 - level) * C; }

  double level;
};

// max(0, |y - z| - epsilon).
struct EpsilonInsensitiveLoss {
  static constexpr const char* name = "epsilon_insensitive";
  static constexpr bool binary = false;
  static constexpr bool hessian = false;
  explicit EpsilonInsensitiveLoss(const LossParameters& parameters) : epsilon(parameters.epsilon) {}
  double value(double z, double y) const { return std::max(std::fabs(z - y) - epsilon, 0.0); }
  double slope(double z, double y) const {
    return std::fabs(z - y) > epsilon ? std::copysign(1.0, z - y) : 0.0;
  }
  static double curvature(double, double) { return 0; }
  double implicit_step(double z, double y, double q) const {
    return std::copysign(std::min(q, value(z, y)), y - z);
  }
  static double sigma(double) { return 0; }
  double lipschitz(double C) const { return 2 * C > epsilon ? 1 : 0; }

  double epsilon;
};

}  // namespace sonline
