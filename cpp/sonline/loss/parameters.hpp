// The parameters of all losses. A loss that has one takes it in its constructor.
#pragma once

namespace sonline {

struct LossParameters {
  double quantile = 0.5;
};

}  // namespace sonline
