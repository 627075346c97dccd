// What a margin z costs an expert of an ensemble where labels are -1 and +1: the Brier score of the
// probability 1 / (1 + e^-z), with the rate 1 for which it is mixable (Vovk & Zhdanov, JMLR 2009).
// Unlike the logistic loss it does not prefer an expert for being ever surer of what all predict.
#pragma once

namespace sonline {

// Of 1 + exp(y z).
template <class V>
[[gnu::always_inline]] inline V brier_score(V whole) {
  return 2.0 / (whole * whole);
}

}  // namespace sonline
