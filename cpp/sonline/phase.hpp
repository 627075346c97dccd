// When members that follow the last rows are judged for later rows.
//
// Such a member is close to the next row, which says little about rows some hundreds later. So rows
// come in cycles of three blocks. Its weights for later rows are those at the end of the first
// block
// (`learn`), and the third (`judge`) tells how good they still are.
#pragma once

#include <cstdint>

namespace sonline {

enum class Phase { learn, wait, judge };

struct Cycle {
  uint64_t number;
  Phase phase;
};

inline Cycle cycle_at(uint64_t row) {
  constexpr uint64_t kBlock = 211;  // rows of a block; at first they are a sixth of the rows so far
  uint64_t start = 0, block = 1, number = 0;
  while (block < kBlock && row >= start + 3 * block) {
    start += 3 * block;
    ++number;
    block = start < 6 ? 1 : start / 6 < kBlock ? start / 6 : kBlock;
  }
  const uint64_t blocks = (row - start) / block;
  return {number + blocks / 3, static_cast<Phase>(blocks % 3)};
}
inline Phase phase_of(uint64_t row) { return cycle_at(row).phase; }

}  // namespace sonline
