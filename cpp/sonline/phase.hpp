// When members that follow the last rows are judged for later rows.
//
// Such a member is close to the next row, which says little about rows some hundreds later. So rows
// come in cycles of three blocks. Its weights for later rows are those at the end of the first
// block (`learn`), and the third (`judge`) tells how good they still are.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

namespace sonline {

enum class Phase { learn, wait, judge };

struct Cycle {
  uint64_t number;
  Phase phase;
};

namespace detail {

inline constexpr uint64_t kBlock = 211;  // rows of a block; at first a sixth of the rows so far

// Where the cycle of a row starts, and how long its blocks are; of long blocks, the first cycle.
struct Blocks {
  uint64_t start = 0, size = 1, number = 0;
};
// … of the cycle after it.
constexpr Blocks next_of(Blocks at) {
  at.start += 3 * at.size;
  ++at.number;
  at.size = at.start < 6 ? 1 : at.start / 6 < kBlock ? at.start / 6 : kBlock;
  return at;
}
constexpr Blocks long_blocks() {
  Blocks at;
  while (at.size < kBlock) at = next_of(at);
  return at;
}
inline constexpr Blocks kLongBlocks = long_blocks();
// The cycles before them.
constexpr auto short_blocks() {
  std::array<Blocks, kLongBlocks.number> cycles;
  for (Blocks at; at.number < cycles.size(); at = next_of(at)) cycles[at.number] = at;
  return cycles;
}
inline constexpr auto kShortBlocks = short_blocks();

constexpr Cycle cycle_in(const Blocks& at, uint64_t row) {
  const uint64_t blocks = (row - at.start) / at.size;
  return {at.number + blocks / 3, static_cast<Phase>(blocks % 3)};
}

}  // namespace detail

inline Cycle cycle_at(uint64_t row) {
  using namespace detail;  // most rows: divided by a constant
  if (row >= kLongBlocks.start) return cycle_in(kLongBlocks, row);
  return cycle_in(*std::prev(std::upper_bound(
                      kShortBlocks.begin(), kShortBlocks.end(), row,
                      [](uint64_t at, const Blocks& blocks) { return at < blocks.start; })),
                  row);
}
inline Phase phase_of(uint64_t row) { return cycle_at(row).phase; }

}  // namespace sonline
