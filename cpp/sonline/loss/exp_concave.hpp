// The sigma of Assumption 2 that exp-concavity guarantees (Hazan, Agarwal & Kale 2007, Lemma 3):
// with exp-concavity constant a, slope at most L and predictions that differ by at most 2C, sigma =
// 1/2 min(1 / (4 * 2CL), a).
#pragma once

#include <algorithm>

namespace sonline {

inline double sigma_of_exp_concave(double a, double C, double L) {
  return 0.5 * std::min(1.0 / (8.0 * C * L), a);
}

}  // namespace sonline
