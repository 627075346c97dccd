#include "sonline/pairs.hpp"

#include <cmath>
#include <set>
#include <utility>

namespace sonline {

void Pairs::draw(Slot slot, const std::vector<double>& values) {
  if (!on_ || slot > kColumns) return;
  if (columns_.size() <= slot) columns_.resize(slot + 1);
  Column& column = columns_[slot];
  if (!column.points.empty()) return;
  std::vector<double> points = values;
  points.erase(std::unique(points.begin(), points.end()), points.end());
  column.few = points.size() <= kFew;
  if (!column.few) points = {points.front(), points[points.size() / 2], points.back()};
  if (!column.few &&
      !(std::isnormal(points[1] - points[0]) && std::isnormal(points[2] - points[1])))
    return;
  column.points = std::move(points);
}

void Pairs::open_stage() {
  candidates_.clear();
  codes_.clear();
  sums_.clear();
  rows_ = 0;
  if (!on_ || stage_ >= kStages || size() >= kMostPairs) return;
  for (Slot slot = 1; slot < columns_.size(); ++slot)
    if (!columns_[slot].points.empty()) candidates_.push_back(slot);
  if (candidates_.size() < 2) candidates_.clear();
  halves_.assign(candidates_.size() + 1, 1.0);
}

bool Pairs::see(uint64_t code) {
  for (Pair& pair : pairs_)
    if (heights_[pair.a] != 0 && heights_[pair.b] != 0) ++pair.rows[pair.cell(sides_)];
  if (!on_ || stage_ >= kStages || size() >= kMostPairs) return false;
  const size_t n = candidates_.size() + 1;
  // The numbers of classes depend on whether they were declared, their order in the rows does not.
  const auto at =
      static_cast<size_t>(std::find(codes_.begin(), codes_.end(), code) - codes_.begin());
  if (counting() && at < kCodes) {
    if (at == codes_.size()) codes_.push_back(code);
    for (size_t i = 1; i < n; ++i) {
      const Slot slot = candidates_[i - 1];
      halves_[i] = heights_[slot] != 0 && columns_[slot].upper(sides_[slot]) ? 1.0 : -1.0;
    }
    if (sums_.size() <= at) sums_.emplace_back(triangle(n));
    double* sums = sums_[at].data();
    for (size_t i = 0; i < n; ++i) {
      const double half = halves_[i];
      const double* halves = halves_.data() + i;
      for (size_t j = 0; j < n - i; ++j) sums[j] += half * halves[j];
      sums += n - i;
    }
  }
  return ++rows_ >= stage_rows();
}

// How much of the variance of the codes the four quadrants of two columns explain beyond the sum of
// both columns, in units of what they explain by chance.
double Pairs::gain(size_t i, size_t j, const Vector& all) const {
  const size_t n = candidates_.size() + 1;
  const auto at = [&](size_t a, size_t b) { return triangle(n) - triangle(n - a) + b - a; };
  const double rows = all[0], a = all[at(0, i)] / rows, b = all[at(0, j)] / rows;
  const double ab = all[at(i, j)] / rows;
  // The product less its projection on both columns.
  const double aa = 1 - a * a, bb = 1 - b * b, between = ab - a * b;
  const double determinant = aa * bb - between * between;
  if (!(determinant > 1e-6)) return 0;
  const double of_a = b - a * ab, of_b = a - b * ab;
  const double by_a = (of_a * bb - of_b * between) / determinant;
  const double by_b = (of_b * aa - of_a * between) / determinant;
  const double left = 1 - ab * ab - by_a * of_a - by_b * of_b;
  if (!(left > 0.01)) return 0;
  double gained = 0, variance = 0;
  for (const Vector& sums : sums_) {
    const double share = sums[0] / rows;
    const double with_a = sums[at(0, i)] / rows - a * share;
    const double with_b = sums[at(0, j)] / rows - b * share;
    const double with_ab = sums[at(i, j)] / rows - ab * share;
    const double own = with_ab - by_a * with_a - by_b * with_b;
    gained += own * own / left;
    variance += share * (1 - share);
  }
  return variance > 0 ? rows * gained / variance : 0;
}

Slot Pairs::add(Slot next) {
  const size_t n = candidates_.size();
  const bool all_fit = n * (n - 1) / 2 <= kMostPairs;
  Vector all(triangle(n + 1));
  for (const Vector& sums : sums_)
    for (size_t i = 0; i < all.size(); ++i) all[i] += sums[i];
  std::vector<std::pair<double, Pair>> found;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i + 1; j < n; ++j) {
      const Slot a = candidates_[i], b = candidates_[j];
      if (std::any_of(pairs_.begin(), pairs_.end(),
                      [&](const Pair& pair) { return pair.a == a && pair.b == b; }))
        continue;
      const double gained = all[0] > 0 ? gain(i + 1, j + 1, all) : 0;
      if (all_fit || gained > kChance)
        found.push_back({gained, {a, b, 0, columns_[b].sides(), {}}});
    }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& x, const auto& y) { return x.first > y.first; });
  const size_t room = std::min(all_fit ? kMostPairs : kPerStage, kMostPairs - size());
  for (size_t i = 0; i < std::min(room, found.size()); ++i) {
    Pair& pair = found[i].second;
    pair.first = next;
    pair.rows.resize(columns_[pair.a].sides() * pair.width);
    next += static_cast<Slot>(pair.rows.size());
    pairs_.push_back(std::move(pair));
  }
  ++stage_;
  return next;
}

std::vector<Pairs::Map> Pairs::maps() const {
  std::vector<Map> maps;
  for (const Pair& pair : pairs_) maps.push_back({pair.a, pair.b, pair.first, pair.rows});
  return maps;
}

size_t Pairs::bytes() const {
  size_t bytes = columns_.size() * sizeof(Column) + pairs_.size() * sizeof(Pair);
  for (const Column& column : columns_) bytes += column.points.size() * sizeof(double);
  for (const Pair& pair : pairs_) bytes += pair.rows.size() * sizeof(double);
  for (const Vector& sums : sums_) bytes += sums.size() * sizeof(double);
  return bytes;
}

template <class Archive>
void Pairs::state(Archive& archive, size_t slots) {
  if constexpr (!Archive::reading) {
    if (!on_) return;
  } else {
    on_ = archive.has("curves.pairs.stage");
    if (!on_) return;
  }
  archive.scalar("curves.pairs.stage", stage_);
  archive.scalar("curves.pairs.seen", rows_);
  std::vector<uint64_t> columns, few, counts, of, first, candidates;
  Vector points, rows, sums;
  const auto put = [](const auto& from, auto& to) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (Slot slot = 0; slot < columns_.size(); ++slot) {
    const Column& column = columns_[slot];
    if (column.points.empty()) continue;
    columns.push_back(slot);
    few.push_back(column.few);
    counts.push_back(column.points.size());
    put(column.points, points);
  }
  for (const Pair& pair : pairs_) {
    put(std::vector<uint64_t>{pair.a, pair.b}, of);
    first.push_back(pair.first);
    put(pair.rows, rows);
  }
  put(candidates_, candidates);
  for (const Vector& of_code : sums_) put(of_code, sums);
  if constexpr (!Archive::reading) {
    archive.array("curves.pairs.columns", columns);
    archive.array("curves.pairs.few", few);
    archive.array("curves.pairs.counts", counts);
    archive.array("curves.pairs.points", points);
    archive.array("curves.pairs.of", of);
    archive.array("curves.pairs.first", first);
    archive.array("curves.pairs.rows", rows);
    archive.array("curves.pairs.candidates", candidates);
    archive.array("curves.pairs.codes", codes_);
    archive.array("curves.pairs.sums", sums);
  } else {
    const auto numbers = [&](const char* name) {
      return archive.template any_array<uint64_t>(name);
    };
    if (stage_ > kStages) archive.fail("curves.pairs.stage", "is out of range");
    if (stage_ < kStages && rows_ >= stage_rows())
      archive.fail("curves.pairs.seen", "is out of range");
    columns = numbers("curves.pairs.columns");
    archive.array_of(columns.size(), "curves.pairs.few", few);
    archive.array_of(columns.size(), "curves.pairs.counts", counts);
    points = archive.template any_array<double>("curves.pairs.points");
    columns_.clear();
    size_t at = 0;
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] == kInterceptSlot || columns[i] > kColumns || columns[i] >= slots ||
          (i > 0 && columns[i] <= columns[i - 1]))
        archive.fail("curves.pairs.columns", "does not fit the features");
      columns_.resize(columns[i] + 1);
      Column& column = columns_.back();
      column.few = few[i] != 0;
      const bool right = column.few ? counts[i] > 0 && counts[i] <= kFew : counts[i] == 3;
      if (!right || counts[i] > points.size() - at)
        archive.fail("curves.pairs.counts", "is out of range");
      column.points.assign(points.begin() + static_cast<std::ptrdiff_t>(at),
                           points.begin() + static_cast<std::ptrdiff_t>(at + counts[i]));
      at += counts[i];
      for (size_t j = 1; j < column.points.size(); ++j)
        if (!(column.points[j] - column.points[j - 1] > 0))
          archive.fail("curves.pairs.points", "is not ascending");
    }
    if (at != points.size()) archive.fail("curves.pairs.points", "has the wrong length");
    const auto has_sides = [&](uint64_t slot) {
      return slot < columns_.size() && !columns_[slot].points.empty();
    };
    of = numbers("curves.pairs.of");
    if (of.size() > 2 * kMerged || of.size() % 2 > 0)
      archive.fail("curves.pairs.of", "has the wrong length");
    archive.array_of(of.size() / 2, "curves.pairs.first", first);
    rows = archive.template any_array<double>("curves.pairs.rows");
    pairs_.clear();
    at = 0;
    for (size_t i = 0; i < first.size(); ++i) {
      const uint64_t a = of[2 * i], b = of[2 * i + 1];
      if (a >= b || !has_sides(a) || !has_sides(b))
        archive.fail("curves.pairs.of", "has a column that is not in pairs");
      const size_t width = columns_[b].sides(), cells = columns_[a].sides() * width;
      if (cells > rows.size() - at) archive.fail("curves.pairs.rows", "has the wrong length");
      if (first[i] > UINT32_MAX - cells)
        archive.fail("curves.pairs.first", "does not fit the features");
      pairs_.push_back({static_cast<Slot>(a), static_cast<Slot>(b), static_cast<Slot>(first[i]),
                        width, Vector(cells)});
      for (double& count : pairs_.back().rows) {
        count = rows[at++];
        if (count < 0) archive.fail("curves.pairs.rows", "is negative");
      }
    }
    if (at != rows.size()) archive.fail("curves.pairs.rows", "has the wrong length");
    candidates = numbers("curves.pairs.candidates");
    sums = archive.template any_array<double>("curves.pairs.sums");
    for (size_t i = 0; i < candidates.size(); ++i)
      if (!has_sides(candidates[i]) || (i > 0 && candidates[i] <= candidates[i - 1]))
        archive.fail("curves.pairs.candidates", "has a column without sides");
    candidates_.assign(candidates.begin(), candidates.end());
    halves_.assign(candidates_.size() + 1, 1.0);
    const size_t n = triangle(halves_.size());
    codes_ = numbers("curves.pairs.codes");
    if (codes_.size() > kCodes || (candidates.empty() && !codes_.empty()) ||
        std::set(codes_.begin(), codes_.end()).size() < codes_.size())
      archive.fail("curves.pairs.codes", "is out of range");
    if (sums.size() != n * codes_.size()) archive.fail("curves.pairs.sums", "has the wrong length");
    sums_.clear();
    for (size_t i = 0; i < sums.size(); i += n)
      sums_.emplace_back(sums.begin() + static_cast<std::ptrdiff_t>(i),
                         sums.begin() + static_cast<std::ptrdiff_t>(i + n));
  }
}

template void Pairs::state(StateReader&, size_t);
template void Pairs::state(StateWriter&, size_t);

}  // namespace sonline
