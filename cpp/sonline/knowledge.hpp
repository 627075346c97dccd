// The knowledge of a learner in a form that does not depend on its sketch; merging reads and writes
// it. Over the slots, the intercept first:
//   weights      K x slots, of the scaled features
//   directions   k x slots, the orthonormal rows of V; ev, their k eigenvalues
//   squares      of the scales; counts of the rows, for RMS scales
// and, for some sketches, tail, total (Σ|ĝ|²), gradients (AdaGrad), dense (full).
#pragma once

#include "sonline/archive.hpp"
#include "sonline/blocks.hpp"
#include "sonline/errors.hpp"

namespace sonline {

// Writes a matrix with a column per slot into the blocks, its first row at `at`; returns its rows.
template <class T>
size_t fill_blocks(StateReader& archive, const char* name, size_t most, const BlockStore<T>& blocks,
                   size_t slots, size_t at) {
  const Tensor& tensor = archive.get<double>(name, 2);
  const size_t rows = tensor.shape[0];
  if (rows > most || tensor.shape[1] != slots) archive.fail(name, "has the wrong shape");
  Matrix values(rows, slots);
  archive.matrix(name, values);
  for (size_t i = 0; i < rows; ++i)
    for (Slot slot = 0; slot < slots; ++slot) {
      const T value = static_cast<T>(values(i, slot));
      if (!std::isfinite(value)) throw Diverged("a number is too large for the number type");
      blocks.at(slot)[at + i] = value;
    }
  return rows;
}

}  // namespace sonline
