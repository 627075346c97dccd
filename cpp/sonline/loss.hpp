// Losses: pure scalar functions of the raw prediction z and the label y.
//
// To add a loss, write a struct like those in loss/ and add its line to kLosses below; Python, the
// command line, the messages and the conformance tests take their names from that table.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "sonline/exponential.hpp"
#include "sonline/loss/hinge.hpp"
#include "sonline/loss/logistic.hpp"
#include "sonline/loss/quantile.hpp"
#include "sonline/loss/squared.hpp"
#include "sonline/loss/squared_hinge.hpp"

namespace sonline {

struct Loss {
  std::string_view name;
  bool binary;   // labels are -1 / +1 rather than real numbers
  bool hessian;  // has a second derivative that is worth sketching
  double (*value)(double z, double y, double level);
  double (*slope)(double z, double y, double level);
  double (*curvature)(double z, double y, double level);
  // For each of n predictions, of the experts of an ensemble: how well it fits, which is e^-l where
  // labels are classes and l where they are numbers, and z' - z for the z' with z' + q l'(z') = z:
  // how far a step that looks ahead (an implicit one) moves it. The difference, because short steps
  // would be lost in z'.
  void (*judge)(const double* z, double y, const double* q, size_t n, double level, double* fits,
                double* moves);
  // The sigma of Assumption 2 and the L of Assumption 1 that hold for |z| <= C and |y| <= C.
  double (*sigma)(double C);
  double (*lipschitz)(double C, double level);
};

// A loss has judge() of its own, or move() of one prediction.
template <class L>
void judge(const double* z, double y, const double* q, size_t n, double level, double* fits,
           double* moves) {
  if constexpr (requires { L::judge(z, y, q, n, fits, moves); }) {
    L::judge(z, y, q, n, fits, moves);
  } else {
    for (size_t i = 0; i < n; ++i) {
      fits[i] = L::value(z[i], y, level);
      if (L::binary) fits[i] = exp_of(-std::min(fits[i], 30.0));
      moves[i] = L::move(z[i], y, q[i], level);
    }
  }
}

template <class L>
constexpr Loss describe() {
  return {L::name,      L::binary, L::hessian, L::value,    L::slope,
          L::curvature, judge<L>,  L::sigma,   L::lipschitz};
}

inline constexpr std::array kLosses = {
    describe<SquaredLoss>(),      describe<LogisticLoss>(), describe<HingeLoss>(),
    describe<SquaredHingeLoss>(), describe<QuantileLoss>(),
};

inline const Loss* find_loss(std::string_view name) {
  for (const Loss& loss : kLosses)
    if (loss.name == name) return &loss;
  return nullptr;
}

}  // namespace sonline
