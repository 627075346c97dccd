// Curves: the columns of a table as sums of hat functions, so that a linear model learns curves.
//
// A column with three values or more gets knots, and a row gets, beside x̃ of the column, the values
// of the hats that belong to the knots:
//   base     A hat is 1 at its knot, 0 at the knots beside it and a line in between. Knots are
//            quantiles of the first values, or all of them if they are few. Beyond the outermost
//            knots hats are constant, and the curve continues as the line of the column.
//   finer    Between knots that have seen many rows a new one appears, at the median of the values.
//            Its hat is 1 there and 0 at both ends of the piece. It begins with weight 0, as any
//            new feature does, and no other hat changes: what has been learned stays exact.
// So every feature is a line in each piece of a column, and a piece knows its lines. 0 is always a
// knot, and has no hat: a value that is 0 adds nothing to a row, whether it is stored or absent.
//
// Pairs of columns (pairs.hpp) are further features of such a row. Features of a row with hats
// ("curved" rows) have slots of their own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/cpu.hpp"
#include "sonline/features.hpp"
#include "sonline/matrix.hpp"
#include "sonline/pairs.hpp"
#include "sonline/row.hpp"

namespace sonline {

class Curves {
 public:
  static constexpr double kHeight = Pairs::kHeight;  // of hats; x̃ of columns is 1 in the mean
  static constexpr size_t kColumns = 256;            // the first features, which may have curves

  bool on() const { return on_; }
  const Pairs& pairs() const { return pairs_; }
  size_t slots() const { return next_; }
  // The slot of a feature of the inputs in curved rows.
  Slot own(Slot slot) const { return own_[slot]; }
  // Of |x|² of the curved rows: with the row at hand, and without.
  double mean_energy() const { return mean_energy_; }
  double mean_energy_before() const { return before_; }
  size_t bytes() const;

  // Takes in the values of a row before the start.
  template <class T>
  void look_at(const InputRow<T>& row) {
    for (size_t i = 0; i < row.size; ++i)
      if (Column* column = column_of(row.slots[i])) column->wait(row.raw[i]);
  }
  // Begins with the columns that have shown enough; whether there is one, or a pair to look at.
  bool start(size_t slots, size_t rows, bool pairs);

  // The curved row of a row that is predicted, or learned next.
  template <class T>
  void expand(const InputRow<T>& row, InputRow<T>& to) {
    has_avx2() ? expand_avx2(row, to) : expand_any(row, to);
  }
  template <class T>
  SONLINE_AVX2 [[gnu::flatten]] void expand_avx2(const InputRow<T>& row, InputRow<T>& to) {
    expand_any(row, to);
  }
  template <class T>
  void expand_any(const InputRow<T>& row, InputRow<T>& to) {
    to.reserve(row.size * (1 + kParts) + pairs_.size());
    found_.resize(std::max(found_.size(), row.size));
    size_t size = row.size;
    T* x = to.scaled.data();
    Slot* slots = to.slots.data();
    for (size_t i = 0; i < row.size; ++i) {
      slots[i] = own_[row.slots[i]];
      x[i] = row.x[i];
    }
    for (size_t i = 0; i < row.size; ++i) {
      const Slot slot = row.slots[i];
      found_[i] = nullptr;
      if (slot >= columns_.size() || columns_[slot].pieces.empty()) continue;
      found_[i] = &columns_[slot].piece(row.raw[i]);
      for (size_t bytes = 0; bytes < sizeof(Piece); bytes += 64)
        __builtin_prefetch(reinterpret_cast<const char*>(found_[i]) + bytes, 1);
    }
    for (size_t i = 0; i < row.size; ++i) {
      if (!found_[i]) continue;
      const Piece& piece = *found_[i];
      const double t = piece.position(row.raw[i]);
      for (const Part& part : piece.parts) {
        slots[size] = part.slot;
        x[size] = static_cast<T>(kHeight * (part.low + t * part.step));
        size += x[size] != 0;
      }
    }
    pairs_.expand(row, slots, x, size);
    to.x = x;
    to.size = size;
    to.slots_seen = next_;
    to.unknown = row.unknown;
    to.same_keys = 0;
    to.measure();
  }
  // The same for a row that is learned next, the last of `rows`. Returns its curved row in `to`.
  template <class T>
  void take(const InputRow<T>& row, double rows, InputRow<T>& to) {
    before_ = mean_energy_;
    while (own_.size() < row.slots_seen) own_.push_back(next_++);
    expand(row, to);
    mean_energy_ += (to.energy - mean_energy_) / rows;
  }
  // Takes back a row that could not be learned, or only its features, those from `slots` on.
  void undo() { mean_energy_ = before_; }
  void remove_from(size_t slots) {
    for (; own_.size() > std::max<size_t>(slots, 1); own_.pop_back()) --next_;
  }
  // Ends the round of the row of take(), with the code of its label: later rows may have more hats.
  template <class T>
  void commit(const InputRow<T>& row, uint64_t code) {
    for (size_t i = 0; i < row.size; ++i)
      if (found_[i]) {
        if (found_[i]->see(row.raw[i], depth_)) divide(columns_[row.slots[i]], *found_[i]);
      } else if (Column* column = column_of(row.slots[i])) {
        if (column->wait(row.raw[i])) draw_late(*column);
      }
    if (pairs_.on() && pairs_.see(code)) {
      next_ = pairs_.add(next_);
      open_stage();
    }
  }

  // A column as a curve: where its pieces begin and end, with how many rows were there, and the
  // value of each hat at these points.
  struct Shape {
    Vector knots, rows;  // rows: of the pieces, one more than knots
    std::vector<std::vector<std::pair<Slot, double>>> hats;  // by knot
  };
  Shape shape(Slot slot) const;

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, size_t slots);

 private:
  static constexpr size_t kIntervals = 4;  // with as many values each
  static constexpr size_t kKept = 32;      // values by which knots are chosen
  static constexpr size_t kMostDepth = 3;  // how often a piece may be divided
  static constexpr size_t kParts = 2 + kMostDepth;
  static constexpr size_t kEach = 8;  // a column of so few values has a knot at each

  // A feature in a piece: its values at the left end, and how much more it is at the right end.
  struct Part {
    Slot slot;
    double low, step;
  };
  struct Parts {
    Part at[kParts];
    size_t count = 0;

    void push_back(const Part& part) { at[count++] = part; }
    size_t size() const { return count; }
    Part& operator[](size_t i) { return at[i]; }
    const Part* begin() const { return at; }
    const Part* end() const { return at + count; }
  };
  struct Piece {
    double left, right;
    double from, per_width;  // left and 1 / width; 0 for the outermost, where all is constant
    double rows = 0;
    size_t depth = 0;
    Parts parts;
    std::vector<double> values;  // some of those seen, if it may be divided

    Piece(double left, double right) : left(left), right(right) { measure(); }
    void measure();
    double position(double value) const { return (value - from) * per_width; }
    // Takes in a value; whether the piece is to be divided now.
    bool see(double value, size_t most_depth) {
      ++rows;
      if (depth >= most_depth || value == left) return false;
      if (values.size() < kKept) values.push_back(value);
      return values.size() == kKept && rows >= static_cast<double>(kKept << depth);
    }
  };
  struct Column {
    std::vector<double> ends;    // of all pieces but the last
    std::vector<Piece> pieces;   // none before it has knots
    std::vector<double> values;  // then: those seen. Of the first two there is one of a kind.

    Piece& piece(double value) {
      const double* __restrict from = ends.data();
      const size_t n = ends.size();
      int64_t at = 0;
      for (size_t i = 0; i < n; ++i) at += value >= from[i] ? 1 : 0;  // vector code
      return pieces[static_cast<size_t>(at)];
    }
    // Takes in a value; whether there are enough to choose knots by.
    bool wait(double value) {
      if (values.size() <= 2 && std::find(values.begin(), values.end(), value) != values.end())
        return false;
      values.push_back(value);
      return values.size() >= kKept;
    }
  };

  // The column of a slot, if it may have a curve.
  Column* column_of(Slot slot) {
    if (slot == kInterceptSlot || slot > kColumns) return nullptr;
    if (columns_.size() <= slot) columns_.resize(slot + 1);
    return &columns_[slot];
  }

  bool draw(Column& column);
  void draw_late(Column& column);
  void divide(Column& column, Piece& piece);
  void count_columns();
  void open_stage();
  template <class Archive>
  void check(Archive& archive) const;

  bool on_ = false;
  std::vector<Slot> own_ = {kInterceptSlot};  // by slot of the inputs
  Slot next_ = 1;
  std::vector<Column> columns_;  // by slot of the inputs
  size_t depth_ = kMostDepth;    // up to which pieces are divided
  double mean_energy_ = 0, before_ = 0;
  Pairs pairs_;
  std::vector<Piece*> found_;  // in which piece each value of the row at hand is, if any
};

}  // namespace sonline
