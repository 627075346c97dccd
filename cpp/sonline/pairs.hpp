// Pairs: what two columns do together, beside their curves.
//
// A column that takes part has sides, by its first values:
//   numbers     below and above the median. On a side, the column is 0 at the median and 1 at the
//               lowest or highest value, and beyond.
//   few values  each value is a side, on which the column is kLevel; so are categories.
// A pair has a feature for each two sides: the product of both columns there. So a row has one
// non-zero more for each pair, and none where one of the columns is 0 or absent. Such a product is
// 0 along both medians: what it would be there is part of the curves.
//
// Pairs are chosen from the rows, in stages. A stage counts, for each two columns and each code of
// a row (its class; for numbers, whether the label is above the prediction), how often both columns
// are on the same half. From that follows how much better the four quadrants of a pair tell the
// code than its two columns do by themselves, as in FAST (Lou et al. 2013). The best are added,
// if that is more than chance, and the next stage is four times as long. With up to eight columns
// there are all pairs from the first stage on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/features.hpp"
#include "sonline/matrix.hpp"
#include "sonline/row.hpp"

namespace sonline {

class Pairs {
 public:
  static constexpr double kHeight = 2;    // of the products
  static constexpr size_t kColumns = 64;  // the first features, which may be in pairs

  bool on() const { return on_; }
  size_t size() const { return pairs_.size(); }
  // Whether the stage has columns that could be paired.
  bool counting() const { return !candidates_.empty(); }
  void start() { on_ = true; }
  size_t bytes() const;

  // Gives a column its sides by its first values (sorted), once.
  void draw(Slot slot, const std::vector<double>& values);
  // Opens a stage for the columns with sides so far.
  void open_stage();

  // Adds the features of the pairs to a curved row.
  template <class T>
  void expand(const InputRow<T>& row, Slot* slots, T* x, size_t& size) {
    if (columns_.empty()) return;
    std::fill_n(heights_.begin(), columns_.size(), 0.0);
    for (size_t i = 0; i < row.size; ++i) {
      const Slot slot = row.slots[i];
      if (slot >= columns_.size() || columns_[slot].points.empty() || row.raw[i] == 0) continue;
      columns_[slot].place(row.raw[i], sides_[slot], heights_[slot]);
    }
    for (const Pair& pair : pairs_) {
      const double product = heights_[pair.a] * heights_[pair.b];
      slots[size] = pair.first + pair.cell(sides_);
      x[size] = static_cast<T>(kHeight * product);
      size += x[size] != 0;
    }
  }

  // Takes in the row that was expanded last, whose label has this code. Whether the stage ends.
  bool see(uint64_t code);
  // Ends the stage: adds pairs, with features from slot `next` on; returns the slot after them.
  Slot add(Slot next);

  // A pair as a map: for each two sides, how many rows were there, and which feature it is.
  struct Map {
    Slot a, b, first;
    std::vector<double> rows;
  };
  struct Sides {
    std::vector<double> points;  // the few values, or the lowest, the median and the highest
    bool few = false;
  };
  std::vector<Map> maps() const;
  Sides sides(Slot slot) const { return {columns_[slot].points, columns_[slot].few}; }
  // Calls use(slot) for each feature of a pair.
  template <class Use>
  void each_slot(Use&& use) const {
    for (const Pair& pair : pairs_)
      for (size_t i = 0; i < pair.rows.size(); ++i) use(pair.first + i);
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, size_t slots);

 private:
  static constexpr double kLevel = 0.7;  // of few values
  static constexpr size_t kFew = 8;      // so many values are few
  static constexpr size_t kMostPairs = 32;
  static constexpr size_t kMerged = 128;  // … of models that were merged
  static constexpr size_t kPerStage = 8;  // where not all columns can be paired
  static constexpr size_t kStages = 5;
  static constexpr uint64_t kFirstStage = 32;  // rows
  static constexpr size_t kCodes = 32;         // later classes do not help to choose
  static constexpr double kChance = 2;         // what pairs gain by chance is 1 in the mean

  struct Column {
    std::vector<double> points;
    bool few = false;

    size_t sides() const { return few ? points.size() : 2; }
    void place(double value, uint32_t& side, double& height) const {
      if (few) {
        uint32_t at = 0;
        for (size_t i = 1; i < points.size(); ++i)
          at += value >= 0.5 * points[i - 1] + 0.5 * points[i] ? 1 : 0;
        side = at;
        height = kLevel;
        return;
      }
      side = value >= points[1] ? 1 : 0;
      const double end = points[side == 1 ? 2 : 0];
      height = std::min((value - points[1]) / (end - points[1]), 1.0);
    }
    // Whether a side is one of the upper half.
    bool upper(uint32_t side) const { return 2 * side + 1 >= sides(); }
  };
  struct Pair {
    Slot a, b, first;
    size_t width;              // the sides of b
    std::vector<double> rows;  // by feature

    template <class Sides>
    size_t cell(const Sides& sides) const {
      return sides[a] * width + sides[b];
    }
  };

  uint64_t stage_rows() const { return kFirstStage << (2 * stage_); }
  static size_t triangle(size_t n) { return n * (n + 1) / 2; }
  double gain(size_t i, size_t j, const Vector& all) const;

  bool on_ = false;
  std::vector<Column> columns_;  // by slot of the inputs; without points there are no sides
  std::vector<Pair> pairs_;
  uint64_t stage_ = 0, rows_ = 0;  // rows in the stage
  std::vector<Slot> candidates_;   // the columns that the stage counts, behind the constant one
  std::vector<uint64_t> codes_;    // in the order in which the stage has seen them
  std::vector<Vector> sums_;       // by code: of the products of halves, the upper triangle
  // Of the row at hand: by column, and by candidate.
  std::vector<uint32_t> sides_ = std::vector<uint32_t>(kColumns + 1);
  Vector heights_ = Vector(kColumns + 1), halves_;
};

}  // namespace sonline
