// The scales of the features, x̃ = x / scale: kept in the block of each feature, behind what the
// sketch keeps there.
//
//   none      1
//   rms       root of the mean square of the feature where it is not zero (square and count)
//   gradient  the paper's diagonal adaptation, root of D_1 + Σ(gx)²
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "sonline/config.hpp"
#include "sonline/errors.hpp"
#include "sonline/row.hpp"

namespace sonline {

template <class T>
class FeatureScales {
 public:
  // `at` is the place of the first number in a block.
  FeatureScales(Scaling scaling, size_t at) : scaling_(scaling), at_(at) {}

  // How many numbers of a block there are.
  size_t width() const {
    return scaling_ == Scaling::rms ? 2 : scaling_ == Scaling::gradient ? 1 : 0;
  }
  // Where they end.
  size_t end() const { return at_ + width(); }

  bool any() const { return scaling_ != Scaling::none; }
  // Whether they need no gradient, and so can be known before the prediction.
  bool only_rows() const { return scaling_ == Scaling::rms; }

  double of(const T* block) const {
    switch (scaling_) {
      case Scaling::none:
        return 1;
      case Scaling::gradient:
        return std::sqrt(kFirstSquare + block[at_]);
      case Scaling::rms:
        return std::sqrt(block[at_]);
    }
    return 1;
  }

  // x with the scales that are known: what predictions are made with.
  void apply(Row<T>& row) {
    if (scaling_ == Scaling::none) {
      row.known = row.raw.data();
    } else {
      const T offset = scaling_ == Scaling::gradient ? static_cast<T>(kFirstSquare) : T{0};
      squares_.resize(std::max(squares_.size(), row.size));
      T* squares = squares_.data();
#pragma GCC unroll 4
      for (size_t i = 0; i < row.size; ++i) squares[i] = offset + row.blocks[i][at_];
      divide_by_root(row.raw.data(), squares_.data(), row.size, row.known_scaled.data());
      row.known = row.known_scaled.data();
    }
    row.x = row.known;
  }

  // Takes the row (and, for the paper's diagonal adaptation, its gradient) into the scales, after
  // apply() has read them. RMS scales are learnt from a sample: of each `every` rows one is `drawn`
  // and counts for all of them. What is far beyond its scale, which may be out of date, is not left
  // to the draw: it counts in every row, for that row only. A feature that was hardly ever counted
  // takes in every row. Read, compute, write: the middle is then vector code.
  void update(Row<T>& row, double g, size_t every, bool drawn) {
    const size_t n = row.size;
    const T* raw = row.raw.data();
    T* squares = squares_.data();
    T check = 0;  // becomes NaN if any scale becomes infinite
    if (scaling_ == Scaling::rms) {
      counts_.resize(squares_.size());
      T* counts = counts_.data();
      T* const* blocks = row.blocks.data();
#pragma GCC unroll 4
      for (size_t i = 0; i < n; ++i) counts[i] = blocks[i][at_ + 1];
      if (!drawn) {
        int any = 0;  // and |, not ||: the loop becomes vector code
        for (size_t i = 0; i < n; ++i)
          any |= (counts[i] < kYoung) | (raw[i] * raw[i] > kFar * squares[i]);
        if (!any) return;
      }
      const T rows = static_cast<T>(every), in_sample = drawn ? T{1} : T{0};
      for (size_t i = 0; i < n; ++i) {
        const T square = raw[i] * raw[i];
        const bool young = counts[i] < kYoung;
        const T stands_for = young ? T{1} : rows, count = counts[i] + stands_for;
        // However many rows it stands for, a row is no large part of what is known.
        const T part = std::min(stands_for / count, young ? T{1} : 1 / kYoung);
        const T weight = young ? T{1} : square > kFar * squares[i] ? 1 / rows : in_sample;
        squares[i] += (square - squares[i]) * (part * weight);
        counts[i] = young || drawn ? std::min(count, kCountLimit) : counts[i];
      }
      for (size_t i = 0; i < n; ++i) {
        row.blocks[i][at_] = squares[i];
        row.blocks[i][at_ + 1] = counts[i];
        check += squares[i] * 0;
      }
    } else {
      const T gradient = static_cast<T>(g);
      for (size_t i = 0; i < n; ++i) {
        const T gx = gradient * raw[i];
        const T square = row.blocks[i][at_] += gx * gx;
        squares[i] = static_cast<T>(kFirstSquare) + square;
        check += square * 0;
      }
    }
    if (!(check == 0)) throw Diverged("the scale of a feature is too large for the number type");
    divide_by_root(raw, squares, n, row.new_scaled.data());
    row.x = row.new_scaled.data();
  }

 private:
  static constexpr double kFirstSquare = 0.1;  // D_1
  static constexpr T kCountLimit = 1 << 24;    // float counts no further by ones
  static constexpr T kYoung = 16;              // counted less often; later no row is a larger part
  static constexpr T kFar = 64;                // times the mean square

  // x / √squares, and 0 where there is no square yet. Vector code, root and division included.
  static void divide_by_root(const T* raw, const T* squares, size_t n, T* x) {
    for (size_t i = 0; i < n; ++i) {
      const T square = squares[i], value = raw[i];
      const T scaled = value / std::sqrt(square);
      x[i] = square > 0 ? scaled : T{0};
    }
  }

  Scaling scaling_;
  size_t at_;
  std::vector<T> squares_, counts_;  // of the row at hand
};

}  // namespace sonline
