// The maps of generations, each of which gives the columns of all features a new meaning
// (lazy.hpp), and their products: a feature that has missed G generations needs at most 1 + log₁₆ G
// of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "sonline/columns.hpp"
#include "sonline/matrix.hpp"

namespace sonline {

template <class T>
class GenerationMaps {
 public:
  static constexpr size_t kMostMaps =
      16;  // to the current generation; there are at most 2³¹ < 16¹⁵
  static constexpr size_t kKnownPaths = 72;

  // The way from an older generation to the current one.
  struct Path {
    size_t count = 0;  // of maps; 0 if it is not known yet
    const T* maps[kMostMaps];
  };

  // For features with K weights and m columns. Those in double need products in double as well:
  // all of them if T is double, or some.
  GenerationMaps(size_t K, size_t m, bool some_in_double)
      : K_(K),
        m_(m),
        width_(whole_quads(K + m)),
        in_double_(std::is_same_v<T, double> || some_in_double) {
    // A map changes the weights by what it adds to them. What others keep behind the columns of a
    // block, in the same quad, is not to change at all.
    for (size_t j = 0; j < width_; ++j) exact_keep_.push_back(j < K || j >= K + m);
    keep_.assign(width_, 1);
    forget();
  }

  // Numbers of a column of a map: those of the weights and then those of the columns.
  size_t width() const { return width_; }
  // In bytes, without the products that are recent.
  size_t bytes() const {
    size_t exact = maps_.size(), rounded = 0;
    for (const Level& level : levels_) {
      exact += level.exact.ups.size();
      rounded += level.rounded.ups.size();
    }
    return exact * sizeof(double) + rounded * sizeof(T);
  }

  // Adds a map, which `fill` writes: m columns of zeros.
  template <class Fill>
  void add(const Fill& fill) {
    maps_.resize(maps_.size() + numbers_of_map());
    fill(maps_.data() + maps_.size() - numbers_of_map());
    multiply_out();
  }

  void forget() {
    count_ = 0;
    maps_.clear();
    levels_.assign(1, Level{});
    for (Path& path : paths_) path.count = 0;
  }

  // That of `count` maps.
  template <class Archive>
  void state(Archive& archive, size_t count) {
    archive.array_of(count * numbers_of_map(), "sketch.maps", maps_);
    if constexpr (Archive::reading) {
      count_ = 0;
      levels_.assign(1, Level{});
      while (count_ < count) multiply_out();
    }
  }

  // By how many generations were missed, each once it has been asked for; the last for others.
  Path* paths() { return paths_.data(); }

  // The maps that lead from a generation to the current one, in order; returns their number.
  template <class U>
  size_t path(size_t g, const U** maps) const {
    const size_t end = count_;
    size_t count = 0;
    for (size_t level = 0, bits = 0; g < end;) {  // a unit is 2^bits generations
      const Products<U>& at = products<U>(levels_[level]);
      const size_t units = (end >> bits) - (g >> bits);
      if (units == 0) {  // it is the start of the last unit, which is not over
        --level;
        bits -= kUnitBits;
      } else if (units * numbers_of_map() <= at.recent.size()) {
        maps[count++] = at.recent.data() + (units - 1) * numbers_of_map();
        break;
      } else {
        maps[count++] = at.ups.data() + (g >> bits) * numbers_of_map();
        ++level;
        bits += kUnitBits;
        g = ((g >> bits) + 1) << bits;
      }
    }
    return count;
  }

  // out = [w̄ | 0] + map · z.
  template <class U>
  [[gnu::always_inline]] inline void apply(const U* map, const U* now, U* out) const {
    size_t i = 0;
    for (; i + 16 <= width_; i += 16) apply_strip<16>(map, now, i, out);
    for (; i + 12 <= width_; i += 12) apply_strip<12>(map, now, i, out);
    for (; i < width_; i += 4) apply_strip<4>(map, now, i, out);
  }

  // Two chains of additions. M is the number of columns, or 0.
  template <size_t M, class U, size_t W>
  [[gnu::always_inline]] inline void add_columns(const U* map, size_t width, const U* z,
                                                 detail::Strip<U, W>& numbers) const {
    using Strip = detail::Strip<U, W>;
    const size_t m = M > 0 ? M : m_;
    const auto column = [&](size_t j)
                            __attribute__((always_inline)) { return Strip::load(map + j * width); };
    if (m < 2) {
      if (m > 0) numbers.add(z[0], column(0));
      return;
    }
    Strip even = Strip::product(z[0], column(0)), odd = Strip::product(z[1], column(1));
    size_t j = 2;
#pragma GCC unroll 8
    for (; j + 1 < m; j += 2) {
      even.add(z[j], column(j));
      odd.add(z[j + 1], column(j + 1));
    }
    if (j < m) even.add(z[j], column(j));
    even.add(odd);
    numbers.add(even);  // last, so that it is rounded once
  }

  template <class U>
  const U* keep() const {
    if constexpr (std::is_same_v<U, double>)
      return exact_keep_.data();
    else
      return keep_.data();
  }

 private:
  static constexpr size_t kUnitBits = 4,
                          kUnits = size_t{1} << kUnitBits;  // of a level in a unit of the next

  // A unit of level l is 16ˡ generations and starts at a multiple of 16ˡ.
  template <class U>
  struct Products {
    std::vector<U> recent;  // from the start of each of the last whole units to now; the last first
    std::vector<U> ups;     // of each unit: from its start to the next unit of the level above
  };
  struct Level {
    Products<double> exact;
    Products<T> rounded;  // if T is not double
  };
  template <class U>
  static const Products<U>& products(const Level& level) {
    if constexpr (std::is_same_v<U, double>)
      return level.exact;
    else
      return level.rounded;
  }
  size_t numbers_of_map() const { return m_ * width_; }

  template <size_t W, class U>
  [[gnu::always_inline]] inline void apply_strip(const U* map, const U* now, size_t at,
                                                 U* out) const {
    auto sums = detail::Strip<U, W>::load(now + at);
    sums.multiply(detail::Strip<U, W>::load(keep<U>() + at));
    add_columns<0>(map + at, width_, now + K_, sums);
    sums.store(out + at);
  }

  // Brings the products up to date with the next map.
  void multiply_out() {
    const size_t n = numbers_of_map(), end = ++count_;
    const double* map = maps_.data() + (end - 1) * n;
    for (Level& level : levels_) multiply(map, level.exact.recent);
    // The first unit of a level is over, and perhaps the first of the next, and so on.
    Vector over(map, map + n);
    for (size_t level = 0, unit = 1;; ++level, unit *= kUnits) {
      if (level == levels_.size()) levels_.emplace_back();
      Vector& recent = levels_[level].exact.recent;
      recent.insert(recent.begin(), over.begin(), over.end());
      recent.resize(std::min(recent.size(), kUnits * n));
      if (end % (unit * kUnits) != 0) break;
      over.assign(recent.end() - static_cast<std::ptrdiff_t>(n), recent.end());
      add_ups(levels_[level]);
    }
    if constexpr (!std::is_same_v<T, double>)
      for (Level& level : levels_) {
        level.rounded.recent.clear();
        add_rounded(level.exact.recent.data(), level.exact.recent.size(), level.rounded.recent);
      }
    for (Path& path : paths_) path.count = 0;
  }
  void add_ups(Level& level) const {
    const auto n = static_cast<std::ptrdiff_t>(numbers_of_map());
    for (auto up = level.exact.recent.end(); up != level.exact.recent.begin();) {
      up -= n;
      if (in_double_) level.exact.ups.insert(level.exact.ups.end(), up, up + n);
      if constexpr (!std::is_same_v<T, double>)
        add_rounded(&*up, numbers_of_map(), level.rounded.ups);
    }
  }
  // Maps in T hold what they change: a 1 less a little would be rounded to 1 every time, and the
  // directions would become longer.
  void add_rounded(const double* maps, size_t n, std::vector<T>& to) const {
    for (size_t i = 0; i < n; ++i) {
      const size_t column = i / width_ % m_;
      to.push_back(static_cast<T>(maps[i] - (i % width_ == K_ + column ? 1.0 : 0.0)));
    }
  }

  // Each of the maps, and then `after`: each column is one more feature.
  void multiply(const double* after, Vector& maps) {
    scratch_.resize(maps.size());
    has_avx2() ? multiply_avx2(after, maps) : multiply_any(after, maps);
    maps.swap(scratch_);
  }
  [[gnu::always_inline]] inline void multiply_any(const double* after, const Vector& maps) {
    for (size_t j = 0; j < maps.size(); j += width_)
      apply(after, maps.data() + j, scratch_.data() + j);
  }
  SONLINE_AVX2 void multiply_avx2(const double* after, const Vector& maps) {
    multiply_any(after, maps);
  }

  size_t K_, m_, width_;
  bool in_double_;
  size_t count_ = 0;
  Vector maps_;                // in turn
  std::vector<Level> levels_;  // and their products
  std::vector<Path> paths_{kKnownPaths + 1};
  Vector scratch_;
  std::vector<T> keep_;  // 1 for what a map adds to, and 0 for what it replaces; in double, below
  Vector exact_keep_;
};

}  // namespace sonline
