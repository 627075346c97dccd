// From the keys and values of a batch to the slots of a row.
#pragma once

#include "sonline/batch.hpp"
#include "sonline/features.hpp"
#include "sonline/matrix.hpp"
#include "sonline/merge_slots.hpp"
#include "sonline/row.hpp"

namespace sonline {

// Fills `row` with the intercept, if there is one, and the non-zeros of features that the index
// knows or, with `add`, gets to know. Indices below kNamed are hashed to `hash_bits` bits unless
// that is negative. `centres` are subtracted, in double; an absent feature is 0 before that.
// Compiled once for each number type, not for each sketch.
template <bool add, class T>
void find_features(const Batch& batch, size_t row_number, bool intercept, int hash_bits,
                   const Vector& centres, FeatureIndex& index, SlotMerger& merger,
                   InputRow<T>& row);

}  // namespace sonline
