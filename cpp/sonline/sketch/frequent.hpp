// The numbers of frequent features, which are kept in double (lazy.hpp): sums over a row, and
// steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sonline/columns.hpp"
#include "sonline/cpu.hpp"
#include "sonline/features.hpp"
#include "sonline/matrix.hpp"
#include "sonline/row.hpp"
#include "sonline/sketch/lazy.hpp"

namespace sonline {

template <class T>
class FrequentFeatures {
 public:
  using Room = typename LazyColumns<T>::Room;

  // Blocks have room for `width` numbers of the sketch, of which `used` are used.
  FrequentFeatures(size_t used, size_t width)
      : width_(width), sums_(whole_quads(used)), update_(whole_quads(used)) {}

  // Sums of the numbers times x, if all features of the row from `first` on are kept in double.
  // Then a column with a mean of 2,000 and a standard deviation of 2, such as a year, differs from
  // the intercept. If the row is not `current`, it is only predicted: its features do not catch up.
  const Vector& sum(const Row<T>& row, size_t first, const LazyColumns<T>& lazy, bool current,
                    Room& room) {
    has_avx2() ? sum_avx2(row, first, lazy, current, room)
               : sum_any(row, first, lazy, current, room);
    return sums_;
  }

  // What a step adds to the numbers of a feature whose x is 1.
  Vector& update() { return update_; }

  // Adds the first `written` numbers of the update; the blocks become copies.
  void write(const Row<T>& row, size_t first, LazyColumns<T>& lazy, size_t written) {
    has_avx2() ? write_avx2(row, first, lazy, written) : write_any(row, first, lazy, written);
  }

 private:
  [[gnu::always_inline]] inline void sum_any(const Row<T>& row, size_t first,
                                             const LazyColumns<T>& lazy, bool current, Room& room) {
    size_t at = 0;
    for (; at + 4 * kQuad <= sums_.size(); at += 4 * kQuad)
      sum_quads<4>(row, first, lazy, current, room, at);
    for (; at < sums_.size(); at += kQuad) sum_quads<1>(row, first, lazy, current, room, at);
  }
  SONLINE_AVX2 void sum_avx2(const Row<T>& row, size_t first, const LazyColumns<T>& lazy,
                             bool current, Room& room) {
    sum_any(row, first, lazy, current, room);
  }
  template <size_t quads>
  [[gnu::always_inline]] inline void sum_quads(const Row<T>& row, size_t first,
                                               const LazyColumns<T>& lazy, bool current, Room& room,
                                               size_t at) {
    Quad sums[quads] = {};
    const auto add = [&](double x, const double* numbers) __attribute__((always_inline)) {
      for (size_t q = 0; q < quads; ++q) sums[q] += x * load_quad(numbers + at + q * kQuad);
    };
    if (current) {
      const double* exact = lazy.exact_numbers();
      const size_t width = lazy.width();
      for (size_t i = first; i < row.size; ++i) add(row.x[i], exact + row.slots[i] * width);
    } else {
      for (size_t i = first; i < row.size; ++i) {
        const Slot slot = row.slots[i];
        const bool known = lazy.is_current(slot);
        add(row.x[i], known ? lazy.exact(slot) : lazy.read(slot, row.blocks[i], room));
      }
    }
    for (size_t q = 0; q < quads; ++q) store_quad(&sums_[at + q * kQuad], sums[q]);
  }

  [[gnu::always_inline]] inline void write_any(const Row<T>& row, size_t first,
                                               LazyColumns<T>& lazy, size_t written) {
    const size_t padded = whole_quads(written);
    const size_t quads =
        padded <= width_ ? padded : 0;  // updates of 0 in whole vectors, if they fit
    const size_t n = find(row, first, lazy.most_exact());
    switch (quads) {  // common numbers of quads
      case kQuad:
        return write_found<kQuad>(row, lazy, n, quads, quads);
      case 2 * kQuad:
        return write_found<2 * kQuad>(row, lazy, n, quads, quads);
      case 3 * kQuad:
        return write_found<3 * kQuad>(row, lazy, n, quads, quads);
      case 4 * kQuad:
        return write_found<4 * kQuad>(row, lazy, n, quads, quads);
      default:
        return write_found<0>(row, lazy, n, quads, std::max(quads, written));
    }
  }
  SONLINE_AVX2 void write_avx2(const Row<T>& row, size_t first, LazyColumns<T>& lazy,
                               size_t written) {
    write_any(row, first, lazy, written);
  }
  // Where in the row they are. The processor cannot guess it: a loop without a branch.
  [[gnu::always_inline]] inline size_t find(const Row<T>& row, size_t first,
                                            size_t slots_in_double) {
    const size_t size = row.size;
    if (found_.size() <= size) found_.resize(2 * size + 1);
    uint32_t* at = found_.data();
    const Slot* slots = row.slots;
    size_t n = 0;
    for (size_t i = first; i < size; ++i) {
      at[n] = static_cast<uint32_t>(i);
      n += slots[i] < slots_in_double;
    }
    return n;
  }
  // Of n features. Compiled for a common number of quads, or for any if that is 0.
  template <size_t common>
  [[gnu::always_inline]] inline void write_found(const Row<T>& row, LazyColumns<T>& lazy, size_t n,
                                                 size_t quads, size_t written) {
    using Four = FourOf<T>;
    // All in local variables: to the compiler, writing a block might change any member.
    const double* update = update_.data();
    double* exact = lazy.exact_numbers();
    const size_t width = lazy.width();
    const uint32_t* at = found_.data();
    const Slot* slots = row.slots;
    T* const* blocks = row.blocks.data();
    const T* values = row.x;
    if (common > 0) quads = written = common;
    for (size_t l = 0; l < n; ++l) {
      const size_t i = at[l];
      double* numbers = exact + slots[i] * width;
      T* block = blocks[i];
      const double x = values[i];
      size_t j = 0;
      for (; j < quads; j += kQuad) {
        const Quad sum = load_quad(numbers + j) + x * load_quad(update + j);
        store_quad(numbers + j, sum);
        *reinterpret_cast<typename Four::InMemory*>(block + j) =
            __builtin_convertvector(sum, typename Four::Vector);
      }
      for (; j < written; ++j) {
        numbers[j] += x * update[j];
        block[j] = static_cast<T>(numbers[j]);
      }
    }
  }

  size_t width_;
  Vector sums_, update_;  // in whole quads
  std::vector<uint32_t> found_;
};

}  // namespace sonline
