// The logistic loss, log(1 + exp(-y z)), written so that no exponential can overflow.
#pragma once

#include <cmath>

#include "sonline/exponential.hpp"
#include "sonline/loss/exp_concave.hpp"

namespace sonline {

struct LogisticLoss {
  static constexpr const char* name = "logistic";
  static constexpr bool binary = true;
  static constexpr bool hessian = true;
  static double value(double z, double y) {
    const double margin = y * z;
    return margin > 0 ? std::log1p(std::exp(-margin)) : std::log1p(std::exp(margin)) - margin;
  }
  static double slope(double z, double y) { return -y / (1.0 + exp_of(y * z)); }
  static double curvature(double z, double) {
    const double e = exp_of(-std::fabs(z));
    return e / ((1.0 + e) * (1.0 + e));
  }
  // The same from e^-l.
  static double slope_of_fit(double fit, double y) { return -y * (1 - fit); }
  static double curvature_of_fit(double fit) { return fit * (1 - fit); }
  static void fits(const double* z, double y, size_t n, double* fits) {
    has_avx2() ? fits_avx2(z, y, n, fits) : fits_of<Pair>(z, y, n, fits);
  }
  static void implicit_steps(const double* z, const double* y, const double* q, size_t n,
                             double* fits, double* steps) {
    has_avx2() ? implicit_steps_avx2(z, y, q, n, fits, steps)
               : implicit_steps_of<Pair>(z, y, q, n, fits, steps);
  }
  static double implicit_step(double z, double y, double q) {
    return has_avx2() ? implicit_step_avx2(z, y, q) : implicit_step_any(z, y, q);
  }
  static double lipschitz(double C) { return 1.0 / (1.0 + exp_of(-C)); }
  static double sigma(double C) { return sigma_of_exp_concave(exp_of(-C), C, lipschitz(C)); }

 private:
  static constexpr double kSmallestLikelihood = 9.357622968839299e-14;  // e^-30
  static constexpr double kLargestLikelihood = 1 - 1e-13;

  // The probability of the label, but at least so large that quotients of two are meaningful. `e`
  // are the odds.
  template <class V>
  [[gnu::always_inline]] static V likelihood(V e) {
    return larger_of(all<V>(kSmallestLikelihood),
                     smaller_of(all<V>(kLargestLikelihood), e * (1.0 / (1.0 + e))));
  }
  template <class V>
  [[gnu::always_inline]] static void fits_of(const double* z, double y, size_t n, double* fits) {
    for (size_t i = 0; i < n; i += detail::kLanes<V>) {
      const V e = exp_of(y * load_some<V>(z + i, n - i));
      store_some(fits + i, n - i, likelihood(e));
    }
  }
  SONLINE_AVX2 static void fits_avx2(const double* z, double y, size_t n, double* fits) {
    fits_of<Quad>(z, y, n, fits);
  }

  SONLINE_AVX2 static void implicit_steps_avx2(const double* z, const double* y, const double* q,
                                               size_t n, double* fits, double* steps) {
    implicit_steps_of<Quad>(z, y, q, n, fits, steps);
  }
  [[gnu::always_inline]] static double implicit_step_any(double z, double y, double q) {
    return y * steps_of(exp_of(Pair{y * z, y * z}), Pair{y * z, y * z}, Pair{q, q})[0];
  }
  SONLINE_AVX2 static double implicit_step_avx2(double z, double y, double q) {
    return implicit_step_any(z, y, q);
  }

  template <class V>
  [[gnu::always_inline]] static void implicit_steps_of(const double* z, const double* y,
                                                       const double* q, size_t n, double* fits,
                                                       double* steps) {
    for (size_t i = 0; i < n; i += detail::kLanes<V>) {
      const V labels = load_some<V>(y + i, n - i), margins = labels * load_some<V>(z + i, n - i);
      const V reach = load_some<V>(q + i, n - i);
      const V e = exp_of(margins);
      store_some(fits + i, n - i, likelihood(e));
      store_some(steps + i, n - i, labels * steps_of(e, margins, reach));
    }
  }

  // The d = q / (1 + exp(m + d)) of a margin m = y z, with e = exp(m). A step of Halley's method
  // from d = 0 comes close if q / (1 + e) is at most 1; then one more is mostly enough, or two.
  // Between them the exponential changes so little that a short series does. What is chosen for a
  // number does not depend on the others.
  template <class V>
  [[gnu::always_inline]] static V steps_of(V e, V m, V q) {
    const V missed = 1.0 / (1.0 + e), high = q * missed;
    V guess = halley(V{}, q, missed), there = e * exp_of_small(guess);
    if (const auto is_small = size_of(guess) <= kSmallExponent; any_of(~is_small)) {
      const auto is_long = high > 1.0;
      if (any_of(is_long)) guess = is_long ? guess_of_long(e, q, high) : guess;
      there = is_small ? there : exp_of(m + guess);
    }
    const V first = halley(guess, q, 1.0 / (1.0 + there)), moved = first - guess;
    const auto is_first = size_of(moved) <= kShort;
    if (!any_of(~is_first)) return first;
    const V second = halley(first, q, 1.0 / (1.0 + there * exp_of_small(moved)));
    const auto is_second = (size_of(moved) <= kSmallExponent) & (size_of(second - first) <= kShort);
    const V found = is_first ? first : second;
    const auto done = is_first | is_second;
    return any_of(~done) ? done ? found : search(m, q, guess) : found;
  }

  // If q / (1 + e) is more than 1, d is about W if the 1 does not count, with W e^W = q / e (a
  // fraction in log(1 + q / e) has it to 0.02), about q / (1 + e) if the exponential does not
  // change, and a little less than both in between.
  template <class V>
  [[gnu::always_inline]] static V guess_of_long(V e, V q, V high) {
    const V log = rough_log(1.0 + q / e);
    const V W = log - 0.51 * log * log / (1.0 + (1.16 + 0.12 * log) * log);
    const V less = smaller_of(W, high), ratio = less / larger_of(W, high);
    return less * (1.0 - 0.3 * ratio * ratio);
  }

  // The same for any guess: d minus the right side increases with a slope of at least 1. Halley's
  // method inside a bracket.
  template <class V>
  [[gnu::always_inline]] static V search(V m, V q, V at) {
    const V none = V{};
    V missed = 1.0 / (1.0 + exp_of(m)), low = none, high = q * missed, last = high;
    // Never more than what makes the exponential alone as large as q: halving must come to an end.
    const auto extreme = high > 100.0;
    if (any_of(extreme))
      high = extreme ? smaller_of(high, 2.0 + larger_of(rough_log(1.0 + q) - m, none)) : high;
    at = larger_of(low, smaller_of(at, high));
    auto open = high > 0.0;
    for (int iteration = 0; iteration < 100 && any_of(open); ++iteration) {
      missed = 1.0 / (1.0 + exp_of(m + at));
      const auto below = at < q * missed;
      low = below ? at : low;
      high = below ? high : at;
      V next = halley(at, q, missed);
      // Steps that do not halve could oscillate for ever.
      const auto fine = (next >= low) & (next <= high) & (size_of(next - at) <= 0.5 * last);
      next = fine ? next : 0.5 * (low + high);
      last = size_of(next - at);
      at = open ? next : at;
      open &= last > (fine ? all<V>(kShort) : none) + 1e-12 * at;
    }
    return at;
  }
  static constexpr double kShort = 1e-4;  // the error after such a step is below 1e-12

  // One step for d - q s, with s = 1 / (1 + exp(m + d)).
  template <class V>
  [[gnu::always_inline]] static V halley(V at, V q, V s) {
    const V reach = q * s, gap = at - reach, bend = reach * (1.0 - s), rise = 1.0 + bend;
    return at - 2.0 * gap * rise / (2.0 * rise * rise + gap * bend * (1.0 - 2.0 * s));
  }
};

}  // namespace sonline
