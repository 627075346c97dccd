// The two loops that do all the work per non-zero: gather (sum += x_i * block_i) and scatter
// (block_i += x_i * update), over the first `width` numbers of each block.
//
// Every column is summed by itself in the order of the non-zeros (in two interleaved halves, for
// the latency of the addition), so the result does not depend on the vector length of the machine.
#pragma once

#include <cstddef>

namespace sonline {

inline constexpr size_t kMaxFixedWidth = 48;
inline constexpr size_t kWidthStep = 4;

// Widths above two are padded to whole vectors of four; the padding holds zeros and stays zero.
inline size_t padded_width(size_t width) {
  return width <= 2 ? width : (width + kWidthStep - 1) / kWidthStep * kWidthStep;
}

template <class T>
struct Columns {
  using Gather = void (*)(T* const* blocks, const T* x, size_t n, size_t width, T* sum);
  using Scatter = void (*)(T* const* blocks, const T* x, size_t n, size_t width, const T* update);

  Gather gather;
  Scatter scatter;

  static Columns of_width(size_t width) { return choose<kMaxFixedWidth>(width); }

 private:
  template <size_t W>
  static Columns choose(size_t width) {
    if (width == W) return {&gather_fixed<W>, &scatter_fixed<W>};
    if constexpr (W > kWidthStep) return choose<W - kWidthStep>(width);
    if (width == 1) return {&gather_fixed<1>, &scatter_fixed<1>};
    return {&gather_any, &scatter_any};
  }

  template <size_t W>
  static void gather_fixed(T* const* blocks, const T* x, size_t n, size_t, T* sum) {
    alignas(64) T even[W] = {};
    alignas(64) T odd[W] = {};
    size_t i = 0;
    for (; i + 1 < n; i += 2) {
      const T* a = blocks[i];
      const T* b = blocks[i + 1];
      for (size_t j = 0; j < W; ++j) even[j] += x[i] * a[j];
      for (size_t j = 0; j < W; ++j) odd[j] += x[i + 1] * b[j];
    }
    if (i < n)
      for (size_t j = 0; j < W; ++j) even[j] += x[i] * blocks[i][j];
    for (size_t j = 0; j < W; ++j) sum[j] = even[j] + odd[j];
  }

  template <size_t W>
  static void scatter_fixed(T* const* blocks, const T* x, size_t n, size_t, const T* update) {
    alignas(64) T u[W];
    for (size_t j = 0; j < W; ++j) u[j] = update[j];
    for (size_t i = 0; i < n; ++i) {
      T* a = blocks[i];
      for (size_t j = 0; j < W; ++j) a[j] += x[i] * u[j];
    }
  }

  static void gather_any(T* const* blocks, const T* x, size_t n, size_t width, T* sum) {
    for (size_t start = 0; start < width; start += kMaxFixedWidth) {
      const size_t end = start + kMaxFixedWidth < width ? start + kMaxFixedWidth : width;
      T even[kMaxFixedWidth] = {};
      T odd[kMaxFixedWidth] = {};
      for (size_t i = 0; i < n; ++i) {
        T* half = i % 2 ? odd : even;
        for (size_t j = start; j < end; ++j) half[j - start] += x[i] * blocks[i][j];
      }
      for (size_t j = start; j < end; ++j) sum[j] = even[j - start] + odd[j - start];
    }
  }

  static void scatter_any(T* const* blocks, const T* x, size_t n, size_t width, const T* update) {
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < width; ++j) blocks[i][j] += x[i] * update[j];
  }
};

}  // namespace sonline
