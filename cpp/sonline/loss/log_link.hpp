// Losses of means: half the deviance of a mean exp(z), where the variance of a label is the mean to
// the power p, times a constant. Counts have p = 1 (Poisson), amounts p = 2 (gamma), and amounts
// that are mostly 0 a p in between (Tweedie).
//
//   l'(z) = a - b,   l''(z) = (2 - p) a + (p - 1) b,   a = exp((2 - p) z), b = y exp((1 - p) z)
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "sonline/exponential.hpp"
#include "sonline/loss/exp_concave.hpp"
#include "sonline/loss/parameters.hpp"

namespace sonline {

class LogLinkLoss {
 public:
  static constexpr bool binary = false;
  static constexpr bool hessian = true;
  static constexpr bool log_link = true;

  explicit LogLinkLoss(double power) : p_(power) {}

  double value(double z, double y) const {
    return std::max(rising(parts(z, y), z, y) + least(y), 0.0);
  }
  double slope(double z, double y) const { return parts(z, y).slope(); }
  double curvature(double z, double y) const { return bend(parts(z, y)); }
  // Half of Pearson's statistic: its mean is half the dispersion, however rare labels above 0 are.
  double typical(double z, double y) const {
    const Parts at = parts(z, y);
    return 0.5 * at.slope() * (at.slope() / at.a);
  }
  // A row with an offset is one of exposure e^offset: its label is that of one unit.
  double label_of_unit(double y, double offset) const { return y * exp_of(-offset); }
  double weight_of_offset(double offset) const { return exp_of((2 - p_) * offset); }

  double skew() const { return 3 - 2 * p_; }

  void fits(const double* z, double y, size_t n, double* fits) const {
    const double low = least(y);
    for (size_t i = 0; i < n; ++i) fits[i] = std::max(rising(parts(z[i], y), z[i], y) + low, 0.0);
  }

  // The root d of d + q l'(z + d), which increases with a slope of at least 1: Newton's method in a
  // bracket, because a step from far away would overshoot.
  double implicit_step(double z, double y, double q) const {
    const Parts at = parts(z, y);
    const double slope = at.slope();
    if (!(q > 0) || slope == 0) return 0;
    double low = 0, high = 0;
    if (slope < 0) {
      high = std::min(-q * slope, to_label(z, y));
    } else {
      low = std::max(-q * slope, y > 0 ? to_label(z, y) : -std::numeric_limits<double>::max());
      // d ≥ -q a exp((2 - p) d), so that d ≥ -1 or d ≥ -log(q a) / (2 - p).
      if (p_ < 2) low = std::max(low, -std::max(1.0, 0.1 + log(q) / (2 - p_) + z));
    }
    if (!(low < high)) return slope < 0 ? high : low;
    double d = -q * slope / (1 + q * bend(at)), last = high - low;
    for (int i = 0; i < 200; ++i) {
      if (!(d > low && d < high)) d = 0.5 * (low + high);
      // Exponentials of the difference: in z + d its digits could be lost.
      const Pair e = exp_of(Pair{(2 - p_) * d, (1 - p_) * d});
      const Parts there{at.a * e[0], at.b * e[1]};
      const double gap = d + q * there.slope();
      (gap < 0 ? low : high) = d;
      double next = d - gap / (1 + q * bend(there));
      // Steps that do not halve could go on for ever.
      if (!(std::fabs(next - d) <= 0.5 * last) || !(next >= low && next <= high))
        next = 0.5 * (low + high);
      last = std::fabs(next - d);
      d = next;
      if (last <= 1e-13 * std::fabs(d) || !(low < high)) break;
    }
    return d;
  }

  double lipschitz(double C) const {
    return std::max(exp_of((2 - p_) * C), C * exp_of((p_ - 1) * C) - exp_of((p_ - 2) * C));
  }
  // The least second derivative, divided by the square of the largest slope; 0 for amounts, whose
  // loss is a line where the label is close to 0.
  double sigma(double C) const {
    const double L = lipschitz(C);
    return p_ < 2 ? sigma_of_exp_concave((2 - p_) * exp_of((p_ - 2) * C) / (L * L), C, L) : 0.0;
  }

 private:
  struct Parts {
    double a, b;
    double slope() const { return a - b; }
  };

  Parts parts(double z, double y) const {
    const Pair e = exp_of(Pair{(2 - p_) * z, (1 - p_) * z});
    return {e[0], y * e[1]};
  }
  double bend(const Parts& at) const { return (2 - p_) * at.a + (p_ - 1) * at.b; }
  static double log(double x) {
    x = std::clamp(x, 1e-300, 1e300);
    return log_of(Pair{x, x})[0];
  }
  static double to_label(double z, double y) { return log(y) - z; }

  // The loss but for what does not depend on z, and the rest, which makes it 0 at z = log y.
  double rising(const Parts& at, double z, double y) const {
    if (p_ == 1) return at.a - y * z;
    if (p_ == 2) return at.b + z;
    return at.a / (2 - p_) + at.b / (p_ - 1);
  }
  double least(double y) const {
    if (!(y > 0)) return 0;
    const double log_y = log(y);
    if (p_ == 1) return y * (log_y - 1);
    if (p_ == 2) return -1 - log_y;
    return -exp_of((2 - p_) * log_y) / ((p_ - 1) * (2 - p_));
  }

  double p_;
};

struct PoissonLoss : LogLinkLoss {
  static constexpr const char* name = "poisson";
  PoissonLoss() : LogLinkLoss(1) {}
};

struct GammaLoss : LogLinkLoss {
  static constexpr const char* name = "gamma";
  static constexpr bool positive = true;  // labels of 0 are impossible
  GammaLoss() : LogLinkLoss(2) {}
};

struct TweedieLoss : LogLinkLoss {
  static constexpr const char* name = "tweedie";
  explicit TweedieLoss(const LossParameters& parameters) : LogLinkLoss(parameters.power) {}
};

}  // namespace sonline
