// Changes of all features at once that cost nothing at once.
//
// The block of a feature holds K weights w̄ and n columns z, of which a generation starts with the
// first m filled. A sketch changes them for all features alike in two ways:
//   fold        w̄ ← w̄ + b z              what the weights have on the columns is written into w̄
//   generation  w̄ ← w̄ + C_w z, z ← C_z z   the columns get a new meaning
// Neither is done to any feature when it happens. It becomes an event; every feature has a tag, the
// last event that it has seen, and catches up when a row has it next. So no data can make a row
// cost more than its own non-zeros ask for:
//   - within a generation the folds add up to r, and a feature misses r_now - r_then: K n products;
//   - across generations it needs the product of the maps since. Those of the last few are kept
//     ready, and, for features that have missed more, products over aligned powers of two: a
//     feature that has missed G generations needs at most 1 + 2 log₂ G maps of (K + m) n products.
// Everything is computed in double and rounded once, in the same order on every processor.
//
// A sweep over all features, which lets the events be forgotten, is left to the sketch: it does one
// when the non-zeros read since the last have paid for it, or when bytes() exceeds the blocks'.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/errors.hpp"
#include "sonline/features.hpp"
#include "sonline/matrix.hpp"
#include "sonline/row.hpp"

namespace sonline {
namespace detail {

// out = map · z for maps with a column of `width` numbers, whole quads, for each of the n numbers.
template <size_t quads>
[[gnu::always_inline]] inline void map_quads(const double* map, size_t width, const double* z,
                                             size_t n, double* out) {
  Quad sums[quads] = {};
  for (size_t j = 0; j < n; ++j) {
    if (z[j] == 0) continue;  // most columns of a feature that was in few rows of an epoch
    for (size_t q = 0; q < quads; ++q) sums[q] += z[j] * load_quad(map + j * width + q * kQuad);
  }
  for (size_t q = 0; q < quads; ++q) store_quad(out + q * kQuad, sums[q]);
}
[[gnu::always_inline]] inline void map_loop(const double* map, size_t width, const double* z,
                                            size_t n, double* out) {
  size_t i = 0;
  for (; i + 4 * kQuad <= width; i += 4 * kQuad) map_quads<4>(map + i, width, z, n, out + i);
  if (i + 3 * kQuad <= width) {
    map_quads<3>(map + i, width, z, n, out + i);
    i += 3 * kQuad;
  } else if (i + 2 * kQuad <= width) {
    map_quads<2>(map + i, width, z, n, out + i);
    i += 2 * kQuad;
  }
  if (i < width) map_quads<1>(map + i, width, z, n, out + i);
}

// w_k += (b_k - a_k)·z for `K` rows of `n` numbers, whole quads.
[[gnu::always_inline]] inline void fold_loop(const double* b, const double* a, size_t K, size_t n,
                                             const double* z, double* w) {
  for (size_t k = 0; k < K; ++k, a += n, b += n) {
    Quad sum{};
    for (size_t j = 0; j < n; j += kQuad)
      sum += (load_quad(b + j) - load_quad(a + j)) * load_quad(z + j);
    w[k] += sum_of(sum);
  }
}

}  // namespace detail

template <class T>
class LazyColumns {
 public:
  LazyColumns(size_t K, size_t m, size_t n)
      : K_(K), m_(m), n_(n), width_(whole_quads(K + m)), row_(whole_quads(n)), out_(width_) {
    forget();
  }

  // Room that the functions below need for one feature: [w̄ | z], and zeros.
  size_t room() const { return K_ + row_ + kQuad; }

  uint32_t now() const { return static_cast<uint32_t>(generation_.size() - 1); }
  size_t generations() const { return generation_.back(); }
  size_t bytes() const {
    size_t numbers = folds_.size();
    for (const Vector& level : levels_) numbers += level.size();
    return numbers * sizeof(double) + 2 * generation_.size() * sizeof(uint32_t);
  }
  size_t bytes_of_tags() const { return tags_.capacity() * sizeof(uint32_t); }
  // So many events fit into a tag.
  bool full() const { return generation_.size() >= kMostEvents; }

  // Features below `slots` exist. New ones hold zeros and have missed nothing. (There may be fewer
  // than before: those of a row that could not be learnt are forgotten.)
  void admit(size_t slots) {
    if (tags_.size() != slots) tags_.resize(slots, now());
  }
  bool is_stale(Slot slot) const { return slot < tags_.size() && tags_[slot] != now(); }
  void mark(Slot slot) { tags_[slot] = now(); }

  // w̄ and z of a block as they are now.
  void read(Slot slot, const T* block, double* now) const {
    has_avx2() ? read_avx2(slot, block, now) : read_any(slot, block, now);
  }

  // Brings a feature up to date; false, and nothing is changed, if it does not fit its type.
  bool catch_up(Slot slot, T* block, double* room) {
    return has_avx2() ? catch_up_avx2(slot, block, room) : catch_up_any(slot, block, room);
  }

  // The same for the features of a row from `first` on; returns how many were stale.
  size_t catch_up(const Row<T>& row, size_t first, double* room) {
    admit(row.slots_seen);
    const uint32_t event = now();
    size_t stale = 0;
    for (size_t i = first; i < row.size; ++i) {
      if (tags_[row.slots[i]] == event) continue;
      if (!catch_up(row.slots[i], row.blocks[i], room))
        throw Diverged("a weight is too large for the number type");
      ++stale;
    }
    return stale;
  }

  // The same for a row that is only looked at: stale blocks become copies, `width` numbers apart.
  void view(Row<T>& row, size_t first, size_t width, std::vector<T>& copies, double* room) const {
    copies.resize(std::max(copies.size(), row.size * width));
    for (size_t i = first; i < row.size; ++i) {
      if (!is_stale(row.slots[i])) continue;
      T* copy = &copies[i * width];
      read(row.slots[i], row.blocks[i], room);
      std::copy_n(room, K_ + n_, copy);
      row.blocks[i] = copy;
    }
  }

  // w̄ ← w̄ + b z; b has K rows of which the first `columns` numbers count.
  void fold(const Matrix& b, size_t columns) {
    const uint32_t last = fold_.back();
    folds_.resize(folds_.size() + K_ * row_);
    double* next = folds_.data() + folds_.size() - K_ * row_;
    std::copy_n(fold_at(last), K_ * row_, next);
    for (size_t k = 0; k < K_; ++k)
      for (size_t j = 0; j < columns; ++j) next[k * row_ + j] += b(k, j);
    generation_.push_back(generation_.back());
    fold_.push_back(static_cast<uint32_t>(folds_.size() / (K_ * row_) - 1));
  }

  // w̄ ← w̄ + C_w z, z ← C_z z. C has K rows and then one for each new column that is not zero, and
  // `columns` columns.
  void next_generation(const Matrix& C, size_t columns) {
    Vector map(n_ * width_, 0.0);
    const double* r = fold_at(fold_.back());
    for (size_t j = 0; j < columns; ++j)
      for (size_t i = 0; i < C.rows(); ++i) map[j * width_ + i] = C(i, j);
    for (size_t j = 0; j < n_; ++j)
      for (size_t k = 0; k < K_; ++k) map[j * width_ + k] += r[k * row_ + j];
    append(std::move(map));
    generation_.push_back(generation_.back() + 1);
    fold_.push_back(0);
  }

  // After all features have caught up: there are no events any more.
  void forget() {
    std::fill(tags_.begin(), tags_.end(), 0);
    generation_.assign(1, 0);
    fold_.assign(1, 0);
    folds_.assign(K_ * row_, 0.0);
    levels_.clear();
    recent_.clear();
  }

  template <class Archive>
  void state(Archive& archive, size_t slots) {
    admit(slots);
    if constexpr (Archive::reading) {
      tags_ = archive.template any_array<uint32_t>("sketch.tags");
      generation_ = archive.template any_array<uint32_t>("sketch.events");
      fold_ = archive.template any_array<uint32_t>("sketch.events_fold");
      check_events(archive, slots);
    } else {
      archive.array("sketch.tags", tags_);
      archive.array("sketch.events", generation_);
      archive.array("sketch.events_fold", fold_);
    }
    const size_t folds = 1 + *std::max_element(fold_.begin(), fold_.end());
    archive.array_of(folds * K_ * row_, "sketch.folds", folds_);
    Vector maps(levels_.empty() ? Vector{} : levels_[0]);
    archive.array_of(generations() * n_ * width_, "sketch.maps", maps);
    if constexpr (Archive::reading) {
      levels_.clear();
      recent_.clear();
      for (size_t g = 0; g < generations(); ++g) {
        const auto from = maps.begin() + static_cast<std::ptrdiff_t>(g * n_ * width_);
        append(Vector(from, from + static_cast<std::ptrdiff_t>(n_ * width_)));
      }
    }
  }

 private:
  static constexpr size_t kMostEvents = size_t{1} << 31;
  static constexpr size_t kRecent = 16;

  template <class Archive>
  void check_events(Archive& archive, size_t slots) const {
    if (tags_.size() != slots) archive.fail("sketch.tags", "has the wrong length");
    if (generation_.empty() || generation_[0] != 0)
      archive.fail("sketch.events", "does not begin with 0");
    for (size_t e = 1; e < generation_.size(); ++e)
      if (generation_[e] - generation_[e - 1] > 1) archive.fail("sketch.events", "has a gap");
    if (fold_.size() != generation_.size() || fold_[0] != 0)
      archive.fail("sketch.events_fold", "has the wrong length");
    for (const uint32_t tag : tags_)
      if (tag >= generation_.size()) archive.fail("sketch.tags", "is out of range");
  }

  [[gnu::always_inline]] inline void read_any(Slot slot, const T* block, double* now) const {
    for (size_t j = 0; j < K_ + n_; ++j) now[j] = block[j];
    for (size_t j = K_ + n_; j < room(); ++j) now[j] = 0;
    if (is_stale(slot)) advance(tags_[slot], now);
  }
  SONLINE_AVX2 void read_avx2(Slot slot, const T* block, double* now) const {
    read_any(slot, block, now);
  }

  [[gnu::always_inline]] inline bool catch_up_any(Slot slot, T* block, double* room) {
    read_any(slot, block, room);
    const bool same = generation_[tags_[slot]] == generation_.back();
    const size_t changed = same ? K_ : K_ + n_;
    if (!all_fit<T>(room, changed)) return false;
    for (size_t j = 0; j < changed; ++j) block[j] = static_cast<T>(room[j]);
    tags_[slot] = now();
    return true;
  }
  SONLINE_AVX2 bool catch_up_avx2(Slot slot, T* block, double* room) {
    return catch_up_any(slot, block, room);
  }

  // [w̄ | z] from an event to now.
  [[gnu::always_inline]] inline void advance(uint32_t event, double* now) const {
    const uint32_t then = fold_[event], last = fold_.back();
    size_t g = generation_[event];
    const size_t end = generation_.back();
    if (g == end) {
      detail::fold_loop(fold_at(last), fold_at(then), K_, row_, now + K_, now);
      return;
    }
    if (then > 0) detail::fold_loop(fold_at(0), fold_at(then), K_, row_, now + K_, now);
    const size_t recent = std::min(recent_.size(), end - g);
    size_t columns = n_;
    for (; g < end - recent; columns = m_) {
      // The largest aligned power of two that does not reach beyond the end.
      const auto aligned = static_cast<size_t>(std::countr_zero(g));
      const auto level =
          std::min(aligned, static_cast<size_t>(std::bit_width(end - recent - g) - 1));
      apply(&levels_[level][(g >> level) * n_ * width_], columns, now);
      g += size_t{1} << level;
    }
    apply(recent_[recent - 1].data(), columns, now);
    if (last > 0) detail::fold_loop(fold_at(last), fold_at(0), K_, row_, now + K_, now);
  }

  const double* fold_at(size_t number) const { return folds_.data() + number * K_ * row_; }

  // Of the columns only the first `columns` are not zero.
  [[gnu::always_inline]] inline void apply(const double* map, size_t columns, double* now) const {
    double* out = out_.data();
    detail::map_loop(map, width_, now + K_, columns, out);
    for (size_t k = 0; k < K_; ++k) now[k] += out[k];
    for (size_t j = 0; j < m_; ++j) now[K_ + j] = out[K_ + j];
    for (size_t j = m_; j < columns; ++j) now[K_ + j] = 0;
  }

  // Adds a map, and the products that it completes.
  void append(Vector map) {
    if (recent_.size() < kRecent) recent_.emplace_back();
    std::rotate(recent_.begin(), recent_.end() - 1, recent_.end());
    for (size_t i = 1; i < recent_.size(); ++i) recent_[i] = product(map.data(), recent_[i].data());
    recent_[0] = map;
    for (size_t level = 0;; ++level) {
      if (level == levels_.size()) levels_.emplace_back();
      Vector& maps = levels_[level];
      maps.insert(maps.end(), map.begin(), map.end());
      const size_t count = maps.size() / (n_ * width_);
      if (count % 2) return;
      map = product(&maps[(count - 1) * n_ * width_], &maps[(count - 2) * n_ * width_]);
    }
  }

  // The map that is first `before` and then `after`: each column is one more feature.
  Vector product(const double* after, const double* before) const {
    Vector both(n_ * width_, 0.0);
    Vector column(room(), 0.0);
    for (size_t j = 0; j < n_; ++j) {
      std::copy_n(before + j * width_, K_ + m_, column.begin());
      apply(after, m_, column.data());
      std::copy_n(column.begin(), K_ + m_, both.begin() + static_cast<std::ptrdiff_t>(j * width_));
    }
    return both;
  }

  size_t K_, m_, n_;
  size_t width_;                      // of a column of a map: w̄'s numbers and then z's
  size_t row_;                        // of a fold, for each of the K weights
  std::vector<uint32_t> tags_;        // by slot: the last event that the feature has seen
  std::vector<uint32_t> generation_;  // of each event
  std::vector<uint32_t> fold_;        // of each event: which r below
  Vector folds_;                      // r, K rows each; the first is 0
  std::vector<Vector> levels_;        // levels_[l]: products of 2^l maps in turn
  std::vector<Vector> recent_;        // recent_[i]: the product of the last i + 1 maps
  mutable Vector out_;
};

}  // namespace sonline
