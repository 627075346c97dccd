// The contract between the learner (Algorithm 1) and a sketch. Every vector that Algorithm 1
// touches is a multiple of the row x, so a sketch gets the row once and then only numbers:
//
//   project(row)                    x̂ = Sx and w·x; starts the round
//   margin(e)                       w·x of expert e
//   energy(alpha)                   α xᵀA⁻¹x
//   descend(e, step, alpha)         w_e ← w_e − step · αA⁻¹x, with the current S
//   absorb(c, g, t, features, times, unit)  SketchUpdate(c x), `times` times; w keeps its value.
//                                   t is the sum of the weights of all rounds, `unit` of this one:
//                                   1, if nothing is forgotten
//   commit(row, blocks, …, scale)   writes the round to the blocks of the row's features
//   undo()                          takes back a round that could not be committed
//   pass(epochs)                    what was absorbed counts Clock::carried(epochs), between rounds
//
// A sketch that changes the features of other rows lazily also has refresh(row), which
// brings the features of a row to be learned up to date, and view(row), which does so to copies for
// a prediction. One whose memory grows with the features or the stream says how much there is:
// bytes().
//
// For inspection: width, tail (what the sketch adds to alpha), rank, eigenvalues, upkeep,
// read (weights and directions of a feature), write_knowledge (with what sums count now) and
// read_knowledge (knowledge.hpp), state. To add a sketch, write such a class (or a Rule for
// factored.hpp) and add its line to the table in sketches.hpp; the compiler checks the list below.
#pragma once

#include <concepts>
#include <cstddef>

#include "sonline/archive.hpp"
#include "sonline/blocks.hpp"
#include "sonline/row.hpp"
#include "sonline/sketch/sweep.hpp"

namespace sonline {

// What becomes of the smallest eigenvalue when there is no room for it, see spectral.hpp.
enum class Truncation { fd, rfd, isotropic };

struct SketchConfig {
  Truncation truncation = Truncation::isotropic;
  size_t size = 10;            // m
  size_t weights = 1;          // weight vectors that share the sketch, see round.hpp
  bool intercept = true;       // the first non-zero of every row is the intercept
  double oja_step = 1.0;       // c of Γ_t = c/t
  bool scale_free = false;     // γ_t = m / Σ|ĝ|² instead
  double alpha = 1.0;          // α where it is a plain number (used by full only)
  bool explicit_step = false;  // it is taken after the row has been absorbed
  bool fixed_alpha = true;
  bool forgets = false;  // rows, see forgetting.hpp
  // For tests: generations and folds as often as these ask for; 0 is the sketch's limit.
  double condition = 0;
  double cancellation = 0;
};

template <class S, class T>
concept Sketch = requires(S sketch, const S& fixed, const Row<T>& row, const BlockStore<T>& blocks,
                          size_t n, double number, int64_t epochs, double* out, const T* block,
                          Slot slot, StateWriter& writer, StateReader& reader) {
  { S::kAbsorbFirst } -> std::convertible_to<bool>;
  { S::kTakesCurvature } -> std::convertible_to<bool>;
  sketch.project(row);
  { fixed.margin(n) } -> std::same_as<double>;
  { sketch.energy(n, number) } -> std::same_as<double>;
  sketch.descend(n, number, number);
  sketch.absorb(number, number, number, n, number, number);
  sketch.pass(epochs);
  sketch.commit(row, blocks, n, number);
  sketch.undo();
  { fixed.width() } -> std::same_as<size_t>;
  { fixed.used() } -> std::same_as<size_t>;
  { fixed.tail() } -> std::same_as<double>;
  { fixed.rank() } -> std::same_as<size_t>;
  { fixed.eigenvalues() } -> std::same_as<Vector>;
  { fixed.upkeep() } -> std::convertible_to<Upkeep>;
  fixed.read(slot, block, out, out);
  fixed.write_knowledge(writer, blocks, n, number);
  sketch.read_knowledge(reader, blocks, n);
  sketch.state(writer, n);
  sketch.state(reader, n);
};

}  // namespace sonline
