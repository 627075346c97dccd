// What no learner and no parser can beat on this machine: touching the memory. Compiled for this
// very processor and called from Python on the rows and the text that the others get.
#include <cstddef>
#include <cstdint>

namespace {

// Reads the block of every non-zero and writes it back; adding a number keeps the compiler from
// leaving it out.
template <size_t stride>
void touch(const uint32_t* slots, const float* values, size_t count, float* blocks) {
  for (size_t i = 0; i < count; ++i) {
    float* block = blocks + slots[i] * stride;
    for (size_t j = 0; j < stride; ++j) block[j] += values[i];
  }
}

using Loop = void (*)(const uint32_t* slots, const float* values, size_t count, float* blocks);

template <size_t stride>
Loop loop_for(size_t wanted) {
  if (wanted == stride) return &touch<stride>;
  if constexpr (stride > 1) return loop_for<stride - 1>(wanted);
  return nullptr;
}

}  // namespace

// False if there is no loop for this number of floats in a block.
extern "C" bool touch_blocks(size_t stride, const uint32_t* slots, const float* values,
                             size_t count, float* blocks) {
  const Loop loop = loop_for<64>(stride);
  if (loop) loop(slots, values, count, blocks);
  return loop;
}

// Looks at every byte of a text once: how many separate numbers.
extern "C" size_t scan_bytes(const unsigned char* text, size_t size) {
  size_t separators = 0;
  for (size_t i = 0; i < size; ++i)
    separators += text[i] == ' ' || text[i] == ':' || text[i] == '\n';
  return separators;
}
