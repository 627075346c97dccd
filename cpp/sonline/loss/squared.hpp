// Half the squared error, 1/2 (z - y)^2.
#pragma once

namespace sonline {

struct SquaredLoss {
  static constexpr const char* name = "squared";
  static constexpr bool binary = false;
  static constexpr bool hessian = true;
  static double value(double z, double y) { return 0.5 * (z - y) * (z - y); }
  static double slope(double z, double y) { return z - y; }
  static double curvature(double, double) { return 1.0; }
  static double implicit_step(double z, double y, double q) { return q / (1 + q) * (y - z); }
  // |z - y| <= 2C, and 1/2 D^2 >= sigma/2 (z - y)^2 D^2. (The paper's (z - y)^2 has 1 / (8C^2).)
  static double sigma(double C) { return 1.0 / (4.0 * C * C); }
  static double lipschitz(double C) { return 2.0 * C; }
};

}  // namespace sonline
