// What a rule and the factored sketch (factored.hpp) exchange about a row.
#pragma once

#include <algorithm>
#include <cstddef>

#include "sonline/matrix.hpp"

namespace sonline {

// What a Rule sees of the row and the basis, all in double.
struct Absorption {
  double c;             // ĝ = c x
  double energy;        // |x|²
  double t;             // weight of the rounds so far, with this one
  double unit;          // … of this one
  double stands_for;    // weight of what is discarded, more than 1 if c stands for part of the row
  double features;      // features seen, the intercept included
  size_t k;             // rank of V
  const double* p;      // V x
  const double* p_hat;  // V ĝ
  const double* Zx;
  double rho2;  // |ĝ|² - |V ĝ|², the energy of the residual; 0 if it is rounding only
  const Matrix* F;
  double tolerated = 0;  // condition above which the step is done the dense way
};

// What a Rule answers.
struct Transition {
  size_t rank = 0;       // of the new V
  bool sparse = true;    // whether the sparse description below is there
  bool append = false;   // Z gets the row ĝ/|ĝ|; otherwise Z' = Z + δ ĝᵀ
  double condition = 1;  // how much rounding errors in Z are amplified in V' = F' Z'
  Matrix F;              // F', rank x rank
  Vector delta;          // δ, on the rows of Z
  Vector mu;             // δ on the rows of V: F δ
  Vector p;              // V' x
};

// What independent rounding errors of size 1 in the rows of Z = F⁻¹V, each relative to the row,
// become in the worst row of V = F Z, squared. Needs the squared norms of the rows of Z.
inline double squared_amplification(const Matrix& F, const Vector& squares_of_Z, size_t k) {
  double worst = 0;
  for (size_t i = 0; i < k; ++i) {
    double sum = 0;
    for (size_t j = 0; j < k; ++j) sum += F(i, j) * F(i, j) * squares_of_Z[j];
    worst = std::max(worst, sum);
  }
  return worst;
}

}  // namespace sonline
