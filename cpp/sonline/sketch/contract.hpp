// The contract between the learner (Algorithm 1) and a sketch. Every vector that Algorithm 1
// touches is a multiple of the row x, so a sketch is given the row once and then only numbers:
//
//   project(row)                    x̂ = Sx and w·x; starts the round
//   margin(e)                       w·x of expert e
//   energy(alpha)                   α xᵀA⁻¹x
//   descend(e, step, alpha)         w_e ← w_e − step · αA⁻¹x, with the current S
//   absorb(c, g, t, features, times)  SketchUpdate(c x), `times` times; w keeps its value
//   commit(row, blocks, …, scale)   writes the round to the blocks of the row's features
//
// A sketch that puts off what a row does to the features of other rows also has refresh(row), which
// brings the features of a row to be learnt up to date, view(row), which does so to copies for a
// prediction, and accepts(block), whether a saved block can be its own (appended.hpp).
//
// One whose memory grows with the features or the stream says how much there is: bytes().
//
// And for looking inside: width, tail (what the sketch adds to alpha), rank, eigenvalues, rebases,
// weight, direction, state. To add a sketch, write such a class (or a Rule for factored.hpp) and
// add its line to the table in model.cpp.
#pragma once

#include <cstddef>

namespace sonline {

struct SketchConfig {
  size_t size = 10;         // m
  size_t experts = 1;       // weight vectors that share the sketch, see learner.hpp
  bool intercept = true;    // the first non-zero of every row is the intercept
  double oja_step = 1.0;    // c of Γ_t = c/t
  bool scale_free = false;  // γ_t = m / Σ|ĝ|² instead
  double alpha = 1.0;       // α where it is a plain number (used by full only)
  bool fixed_alpha = true;
};

}  // namespace sonline
