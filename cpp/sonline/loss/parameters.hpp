// The parameters of all losses. A loss that has one takes it in its constructor.
#pragma once

namespace sonline {

struct LossParameters {
  double quantile = 0.5;
  double power = 1.5;
  double delta = 1.345;
  double epsilon = 0.1;
};

}  // namespace sonline
