#include "sonline/curves.hpp"

#include <cmath>
#include <limits>
#include <set>

namespace sonline {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kClose = 1e-9;  // of their size: knots that are closer are one

bool apart(double left, double right) {
  if (std::isinf(left) || std::isinf(right)) return true;
  return right - left > kClose * std::max(std::fabs(left), std::fabs(right)) &&
         std::isnormal(right - left);
}

}  // namespace

void Curves::Piece::measure() {
  const bool inner = std::isfinite(left) && std::isfinite(right);
  from = inner ? left : 0.0;
  per_width = inner ? 1 / (right - left) : 0.0;
}

bool Curves::start(size_t slots, size_t rows, bool pairs) {
  if (pairs) pairs_.start();
  while (own_.size() < slots) own_.push_back(next_++);
  for (Column& column : columns_)
    if (2 * column.values.size() >= rows && draw(column)) on_ = true;
  open_stage();
  on_ |= pairs_.counting();  // of categories only: without any curve
  for (Column& column : columns_) column.values.clear();
  count_columns();
  return on_;
}

// Chooses knots by the values that a column has seen. Fewer than three values are on a line.
bool Curves::draw(Column& column) {
  std::vector<double> values = column.values;
  std::sort(values.begin(), values.end());
  std::vector<double> knots;
  const auto add = [&](double value) {
    if (knots.empty() || apart(knots.back(), value)) knots.push_back(value);
  };
  for (const double value : values) add(value);
  if (knots.size() < 3) return false;
  if (knots.size() > kEach) {
    knots.clear();
    for (size_t i = 0; i <= kIntervals; ++i) add(values[i * (values.size() - 1) / kIntervals]);
  }
  std::erase_if(knots,
                [](double knot) { return !apart(std::min(knot, 0.0), std::max(knot, 0.0)); });
  knots.insert(std::lower_bound(knots.begin(), knots.end(), 0.0), 0.0);
  std::vector<Slot> hats;
  for (const double knot : knots) hats.push_back(knot == 0 ? kInterceptSlot : next_++);
  const auto part = [&](Piece& piece, size_t knot, double low, double step) {
    if (hats[knot] != kInterceptSlot) piece.parts.push_back({hats[knot], low, step});
  };
  const size_t last = knots.size() - 1;
  column.pieces.emplace_back(-kInfinity, knots[0]);
  part(column.pieces.back(), 0, 1, 0);
  for (size_t i = 0; i < last; ++i) {
    column.pieces.emplace_back(knots[i], knots[i + 1]);
    part(column.pieces.back(), i, 1, -1);
    part(column.pieces.back(), i + 1, 0, 1);
  }
  column.pieces.emplace_back(knots[last], kInfinity);
  part(column.pieces.back(), last, 1, 0);
  column.ends = std::move(knots);
  pairs_.draw(static_cast<Slot>(&column - columns_.data()), values);
  return true;
}

void Curves::draw_late(Column& column) {
  const bool drawn = draw(column);
  const std::vector<double> values = std::move(column.values);
  column.values.clear();
  if (!drawn) return;
  count_columns();
  for (const double value : values) {
    Piece& piece = column.piece(value);
    if (piece.see(value, depth_)) divide(column, piece);
  }
}

void Curves::divide(Column& column, Piece& piece) {
  const auto at = static_cast<size_t>(&piece - column.pieces.data());
  std::vector<double> values = std::move(piece.values);
  std::sort(values.begin(), values.end());
  const double middle = values[values.size() / 2];
  piece.values.clear();
  if (!apart(piece.left, middle) || !apart(middle, piece.right)) {
    piece.depth = kMostDepth;  // it stays whole
    return;
  }
  const double t = piece.position(middle);
  const bool first = at == 0, last = at + 1 == column.pieces.size();
  ++piece.depth;
  Piece right = piece;
  piece.right = right.left = middle;
  piece.measure();
  right.measure();
  if (!first && !last)
    for (size_t i = 0; i < piece.parts.size(); ++i) {
      const double step = piece.parts[i].step;
      right.parts[i].low += t * step;
      right.parts[i].step = (1 - t) * step;
      piece.parts[i].step = t * step;
    }
  const Slot slot = next_++;
  piece.parts.push_back({slot, first ? 1.0 : 0.0, first ? 0.0 : 1.0});
  right.parts.push_back({slot, 1.0, last ? 0.0 : -1.0});
  size_t below = 0;
  for (const double value : values) {
    below += value < middle;
    if (value != middle) (value < middle ? piece : right).values.push_back(value);
  }
  right.rows = std::floor(piece.rows * static_cast<double>(values.size() - below) /
                          static_cast<double>(values.size()));
  piece.rows -= right.rows;
  column.ends.insert(column.ends.begin() + static_cast<std::ptrdiff_t>(at), middle);
  column.pieces.insert(column.pieces.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                       std::move(right));
}

// With many columns, each has fewer hats: they are what a row costs.
void Curves::count_columns() {
  const auto curved = static_cast<size_t>(std::count_if(
      columns_.begin(), columns_.end(), [](const Column& c) { return !c.pieces.empty(); }));
  depth_ = curved <= 8 ? 3 : curved <= 16 ? 2 : curved <= 32 ? 1 : 0;
}

// Columns of one or two values are in pairs, too: categories.
void Curves::open_stage() {
  for (Slot slot = 1; slot < columns_.size(); ++slot)
    if (std::vector<double> values = columns_[slot].values; !values.empty() && values.size() <= 2) {
      std::sort(values.begin(), values.end());
      pairs_.draw(slot, values);
    }
  pairs_.open_stage();
}

size_t Curves::bytes() const {
  size_t bytes = own_.size() * sizeof(Slot) + pairs_.bytes();
  for (const Column& column : columns_) {
    bytes += sizeof column + (column.values.size() + column.ends.size()) * sizeof(double);
    for (const Piece& piece : column.pieces)
      bytes += sizeof piece + piece.parts.size() * sizeof(Part) + piece.values.size() * 8;
  }
  return bytes;
}

Curves::Shape Curves::shape(Slot slot) const {
  Shape shape;
  if (slot >= columns_.size()) return shape;
  const Column& column = columns_[slot];
  shape.knots = column.ends;
  for (const Piece& piece : column.pieces) shape.rows.push_back(piece.rows);
  for (size_t i = 0; i < column.ends.size(); ++i) {
    shape.hats.emplace_back();
    for (const Part& part : column.pieces[i + 1].parts)  // the knot is its left end
      shape.hats.back().emplace_back(part.slot, part.low);
  }
  return shape;
}

template <class Archive>
void Curves::state(Archive& archive, size_t slots) {
  std::vector<uint64_t> own(own_.begin(), own_.end()), pieces, waiting, depths, parts, kept, hats;
  Vector ends, rows, lows, steps, values;
  const auto keep = [&](const std::vector<double>& from) {
    values.insert(values.end(), from.begin(), from.end());
  };
  for (const Column& column : columns_) {
    pieces.push_back(column.pieces.size());
    waiting.push_back(column.values.size());
    keep(column.values);
    ends.insert(ends.end(), column.ends.begin(), column.ends.end());
    for (const Piece& piece : column.pieces) {
      rows.push_back(piece.rows);
      depths.push_back(piece.depth);
      kept.push_back(piece.values.size());
      keep(piece.values);
      parts.push_back(piece.parts.size());
      for (const Part& part : piece.parts) {
        hats.push_back(part.slot);
        lows.push_back(part.low);
        steps.push_back(part.step);
      }
    }
  }
  archive.scalar("curves.mean_energy", mean_energy_);
  pairs_.state(archive, slots);
  if constexpr (!Archive::reading) {
    archive.array("curves.own", own);
    for (auto& [name, array] : {std::pair{"curves.pieces", &pieces},
                                {"curves.waiting", &waiting},
                                {"curves.depths", &depths},
                                {"curves.parts", &parts},
                                {"curves.kept", &kept},
                                {"curves.hats", &hats}})
      archive.array(name, *array);
    for (auto& [name, array] : {std::pair{"curves.ends", &ends},
                                {"curves.rows", &rows},
                                {"curves.lows", &lows},
                                {"curves.steps", &steps},
                                {"curves.values", &values}})
      archive.array(name, *array);
  } else {
    archive.array_of(slots, "curves.own", own);
    const auto counts = [&](const char* name) {
      return archive.template any_array<uint64_t>(name);
    };
    const auto numbers = [&](const char* name) { return archive.template any_array<double>(name); };
    pieces = counts("curves.pieces"), waiting = counts("curves.waiting");
    depths = counts("curves.depths"), parts = counts("curves.parts");
    kept = counts("curves.kept"), hats = counts("curves.hats");
    ends = numbers("curves.ends"), rows = numbers("curves.rows");
    lows = numbers("curves.lows"), steps = numbers("curves.steps");
    values = numbers("curves.values");
    if (mean_energy_ < 0) archive.fail("curves.mean_energy", "is negative");
    size_t end = 0, piece_at = 0, part_at = 0, value_at = 0;
    const auto take = [&](size_t& at, size_t n, size_t length, const char* name) {
      if (n > length - at) archive.fail(name, "has the wrong length");
      return std::exchange(at, at + n);
    };
    const auto take_values = [&](uint64_t n) {
      if (n > kKept) archive.fail("curves.values", "has the wrong length");
      const auto from = values.begin() + static_cast<std::ptrdiff_t>(
                                             take(value_at, n, values.size(), "curves.values"));
      return std::vector<double>(from, from + static_cast<std::ptrdiff_t>(n));
    };
    if (pieces.size() > std::min(slots, kColumns + 1) || waiting.size() != pieces.size() ||
        (!pieces.empty() && (pieces[0] > 0 || waiting[0] > 0)))
      archive.fail("curves.pieces", "has the wrong length");
    if (depths.size() != rows.size() || parts.size() != rows.size() || kept.size() != rows.size())
      archive.fail("curves.rows", "has the wrong length");
    if (lows.size() != hats.size() || steps.size() != hats.size())
      archive.fail("curves.hats", "has the wrong length");
    // Every slot is that of a feature or of a hat.
    std::set<uint64_t> features(own.begin(), own.end()), all = features;
    all.insert(hats.begin(), hats.end());
    pairs_.each_slot([&](uint64_t slot) {
      if (!all.insert(slot).second) archive.fail("curves.pairs.first", "is taken");
    });
    const auto hat_count = static_cast<size_t>(std::count_if(
        all.begin(), all.end(), [&](uint64_t slot) { return !features.contains(slot); }));
    if (own.empty() || own[0] != kInterceptSlot || features.size() != own.size() ||
        *all.rbegin() != all.size() - 1)
      archive.fail("curves.own", "does not fit the features");
    columns_.clear();
    for (size_t c = 0; c < pieces.size(); ++c) {
      Column& column = columns_.emplace_back();
      column.values = take_values(waiting[c]);
      const size_t n = pieces[c];
      if (n == 0) continue;
      if (n < 4 || !column.values.empty()) archive.fail("curves.pieces", "is out of range");
      const size_t from = take(end, n - 1, ends.size(), "curves.ends");
      take(piece_at, n, rows.size(), "curves.rows");
      column.ends.assign(ends.begin() + static_cast<std::ptrdiff_t>(from),
                         ends.begin() + static_cast<std::ptrdiff_t>(end));
      for (size_t i = 1; i < column.ends.size(); ++i)
        if (!apart(column.ends[i - 1], column.ends[i]))
          archive.fail("curves.ends", "is not ascending");
      for (size_t i = 0; i < n; ++i) {
        const size_t at = piece_at - n + i;
        Piece piece(i == 0 ? -kInfinity : column.ends[i - 1],
                    i + 1 == n ? kInfinity : column.ends[i]);
        piece.rows = rows[at];
        piece.depth = depths[at];
        if (piece.rows < 0 || piece.depth > kMostDepth || parts[at] > 2 + piece.depth)
          archive.fail("curves.rows", "is out of range");
        const size_t first = take(part_at, parts[at], hats.size(), "curves.hats");
        for (size_t j = first; j < part_at; ++j) {
          if (features.contains(hats[j]) || !(lows[j] >= 0 && lows[j] <= 1) ||
              !(lows[j] + steps[j] >= -1e-6 && lows[j] + steps[j] <= 1 + 1e-6) ||
              (piece.per_width == 0 && steps[j] != 0))
            archive.fail("curves.hats", "has a hat that is none");
          piece.parts.push_back({static_cast<Slot>(hats[j]), lows[j], steps[j]});
        }
        piece.values = take_values(kept[at]);
        for (const double value : piece.values)
          if (!(value > piece.left && value < piece.right))
            archive.fail("curves.values", "is not in its piece");
        column.pieces.push_back(std::move(piece));
      }
    }
    if (end != ends.size() || piece_at != rows.size() || part_at != hats.size() ||
        value_at != values.size())
      archive.fail("curves.ends", "has the wrong length");
    own_.assign(own.begin(), own.end());
    next_ = static_cast<Slot>(own.size() + hat_count);
    on_ = true;
    count_columns();
  }
}

template void Curves::state(StateReader&, size_t);
template void Curves::state(StateWriter&, size_t);

}  // namespace sonline
