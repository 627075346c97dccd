// Changes of all features that are applied to each feature when a row next has it.
//
// The block of a feature holds K weights w̄ and n columns z, of which a generation starts with the
// first m filled. A sketch changes them for all features alike in two ways:
//   fold        w̄ ← w̄ + b z              what the weights have on the columns is written into w̄
//   generation  w̄ ← w̄ + C_w z, z ← C_z z   the columns get a new meaning
// Neither is done to any feature when it happens. It becomes an event; every feature has a tag, the
// last event that it has seen, and catches up when a row has it next. So no data can make a row
// cost more than its own non-zeros:
//   - within a generation the folds add up to r, and a feature misses r_now - r_then: K n products;
//   - across generations it needs the product of the maps since. Those of the last eight are kept
//     ready, for older generations those to the next multiple of eight, and from the last eight
//     multiples to now, and so on: a feature that has missed G generations needs at most
//     1 + log₈ G maps of (K + m) n products.
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
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/columns.hpp"
#include "sonline/errors.hpp"
#include "sonline/features.hpp"
#include "sonline/matrix.hpp"
#include "sonline/row.hpp"

namespace sonline {
namespace detail {

// A part, `quads` wide, of one feature [w̄ | z] under a map, which has a column of `width` numbers
// for each number of z: sums += map · z. Of z, `dense` numbers are doubles; the rest is still in
// the block: columns that only few rows of an epoch have filled. `kDense` is `dense`
// where that is known when this is compiled, or 0.
template <size_t kDense, size_t quads, class T>
[[gnu::always_inline]] inline void map_quads(const double* map, size_t width, const double* z,
                                             size_t dense, const T* rest, const T* end,
                                             Quad (&sums)[quads]) {
  const auto add = [&](double number, const double* column) __attribute__((always_inline)) {
    for (size_t q = 0; q < quads; ++q) sums[q] += number * load_quad(column + q * kQuad);
  };
  if constexpr (kDense > 0) {
#pragma GCC unroll 16
    for (size_t j = 0; j < kDense; ++j) add(z[j], map + j * width);
  } else {
#pragma GCC unroll 4
    for (size_t j = 0; j < dense; ++j) add(z[j], map + j * width);
  }
  map += dense * width;
  // Few branches: which columns are filled cannot be predicted.
  for (size_t n; rest < end; rest += n, map += n * width) {
    n = std::min<size_t>(static_cast<size_t>(end - rest), 64);
    for (uint64_t filled = nonzeros(rest, n); filled != 0; filled &= filled - 1) {
      const size_t j = static_cast<size_t>(std::countr_zero(filled));
      add(rest[j], map + j * width);
    }
  }
}

// w_k += (b_k - a_k)·z for `K` rows, `stride` numbers apart, of which n count.
[[gnu::always_inline]] inline void fold_loop(const double* b, const double* a, size_t K,
                                             size_t stride, size_t n, const double* z, double* w) {
  for (size_t k = 0; k < K; ++k, a += stride, b += stride) {
    Quad sum{};
    size_t j = 0;
    for (; j + kQuad <= n; j += kQuad)
      sum += (load_quad(b + j) - load_quad(a + j)) * load_quad(z + j);
    double rest = 0;
    for (; j < n; ++j) rest += (b[j] - a[j]) * z[j];
    w[k] += sum_of(sum) + rest;
  }
}

}  // namespace detail

template <class T>
class LazyColumns {
 public:
  LazyColumns(size_t K, size_t m, size_t n, size_t exact = 0)
      : K_(K),
        m_(m),
        n_(n),
        width_(whole_quads(K + m)),
        row_(whole_quads(n)),
        most_exact_(std::is_same_v<T, float> ? exact : 0),
        exact_stride_(whole_quads(K + n)),
        keep_(width_) {
    // A map changes the weights by what it adds to them. What others keep behind the columns of a
    // block, in the same quad, is not to change at all.
    for (size_t j = 0; j < width_; ++j)
      keep_[j] = j < K || (n == m && j >= K + m) ? ~uint64_t{0} : 0;
    forget();
  }

  // Room that the functions below need for one feature; the first numbers are [w̄ | z].
  size_t room() const { return 2 * (K_ + row_ + width_); }

  uint32_t now() const { return static_cast<uint32_t>(generation_.size() - 1); }
  size_t generations() const { return generation_.back(); }
  size_t bytes() const { return bytes_with(K_); }
  // What it would be with K weights a feature.
  size_t bytes_with(size_t K) const {
    size_t columns = maps_.size() / width_;
    for (const Level& level : levels_) columns += level.ups.size() / width_;
    const size_t folds = K_ > 0 ? folds_.size() / K_ : 0;
    return (folds * K + columns * whole_quads(K + m_)) * sizeof(double) +
           2 * generation_.size() * sizeof(uint32_t);
  }
  size_t bytes_of_tags() const { return tags_.capacity() * sizeof(uint32_t); }
  // Whether a tag cannot hold more events.
  bool full() const { return generation_.size() >= kMostEvents; }

  // Features below `slots` exist. New ones hold zeros and are up to date. (There may be fewer than
  // before: those of a row that could not be learned are removed.)
  void admit(size_t slots) {
    if (tags_.size() == slots) return;
    tags_.resize(slots, now());
    exact_.resize(std::min(slots, most_exact_) * exact_stride_);
  }

  // The first features of a stream include the most frequent ones, whose numbers are rounded most
  // often. They are kept in double, and their blocks hold copies. Null for other features.
  double* exact(Slot slot) { return slot < most_exact_ ? &exact_[slot * exact_stride_] : nullptr; }
  const double* exact(Slot slot) const { return const_cast<LazyColumns*>(this)->exact(slot); }
  size_t most_exact() const { return most_exact_; }
  bool all_exact() const { return most_exact_ > 0 && tags_.size() <= most_exact_; }
  bool is_stale(Slot slot) const { return slot < tags_.size() && tags_[slot] != now(); }
  bool is_current(Slot slot) const { return slot < tags_.size() && tags_[slot] == now(); }
  void mark(Slot slot) { tags_[slot] = now(); }

  // w̄ and z of a block as they are now.
  void read(Slot slot, const T* block, double* now) const {
    if (const double* numbers = slot < tags_.size() ? exact(slot) : nullptr)
      read_from(slot, numbers, now);
    else
      read_from(slot, block, now);
  }

  template <class U>
  void read_from(Slot slot, const U* block, double* now) const {
    std::copy_n(block, K_ + n_, now);
    if (!is_stale(slot)) return;
    const uint32_t event = tags_[slot];
    if (is_of_last_generation(event)) {
      fold(fold_.back(), fold_[event], n_, now);
      return;
    }
    std::copy_n(advance(event, block, now + K_ + row_), K_ + m_, now);
    std::fill_n(now + K_ + m_, n_ - m_, 0.0);
  }

  // Brings a feature up to date; false, and nothing is changed, if it does not fit its type.
  bool catch_up(Slot slot, T* block, double* room) {
    if (slot >= most_exact_) return catch_up_of(slot, block, room);
    double* numbers = exact(slot);
    if (!catch_up_of(slot, numbers, room)) return false;
    round_to_block(numbers, block);
    return true;
  }
  void round_to_block(const double* numbers, T* block) const {
    for (size_t j = 0; j < K_ + n_; ++j) block[j] = static_cast<T>(numbers[j]);
  }

  // The same for the features of a row from `first` on; returns how many were stale.
  size_t catch_up(const Row<T>& row, size_t first, double* room) {
    admit(row.slots_seen);
    if (now() == 0) return 0;
    if (!has_avx2()) return catch_up_row<0, 0>(row, first, room);
    return width_ == 3 * kQuad && K_ + n_ > width_ ? catch_up_row_avx2<3, 1>(row, first, room)
           : width_ == 3 * kQuad                   ? catch_up_row_avx2<3, 0>(row, first, room)
           : width_ == 4 * kQuad                   ? catch_up_row_avx2<4, 0>(row, first, room)
                                                   : catch_up_row_avx2<0, 0>(row, first, room);
  }

  // The same for a row that is only predicted: stale blocks become copies, `width` numbers apart.
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

  // Whether a fold of this size keeps its digits beside the folds of the generation so far. If z
  // has grown since, it does not, and a new generation must begin. Weights k with heeds(k) decide.
  bool can_fold(const Matrix& b) const {
    return can_fold(b, [](size_t) { return true; });
  }
  template <class Heeds>
  bool can_fold(const Matrix& b, Heeds&& heeds) const {
    constexpr double kMost = 1e4;
    const auto larger = [](double a, double c) { return std::max(a, std::fabs(c)); };
    const double* last = fold_at(fold_.back());
    double before = 0, size = 0;
    for (size_t k = 0; k < K_; ++k) {
      if (!heeds(k)) continue;
      before = std::accumulate(last + k * row_, last + (k + 1) * row_, before, larger);
      size = std::accumulate(b[k], b[k] + b.cols(), size, larger);
    }
    return before <= kMost * size;
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
    maps_.resize(maps_.size() + n_ * width_);
    double* map = maps_.data() + maps_.size() - n_ * width_;
    const double* r = fold_at(fold_.back());
    for (size_t j = 0; j < columns; ++j)
      for (size_t i = 0; i < C.rows(); ++i) map[j * width_ + i] = C(i, j);
    for (size_t j = 0; j < n_; ++j)
      for (size_t k = 0; k < K_; ++k) map[j * width_ + k] += r[k * row_ + j];
    multiply_out(generations() + 1);
    generation_.push_back(generation_.back() + 1);
    fold_.push_back(0);
  }

  // Takes over the events of columns with other weights: weight k was there weight from[k].
  void take_over(const LazyColumns& other, const std::vector<size_t>& from) {
    const auto moved = [&](const Vector& maps) {
      Vector to(maps.size() / other.width_ * width_, 0.0);
      for (size_t j = 0; j < maps.size() / other.width_; ++j)
        other.take_feature(&maps[j * other.width_], from, m_, &to[j * width_]);
      return to;
    };
    tags_ = other.tags_;
    generation_ = other.generation_;
    fold_ = other.fold_;
    folds_.clear();
    for (size_t at = 0; at < other.folds_.size(); at += other.K_ * row_)
      for (const size_t k : from) {
        const double* row = &other.folds_[at + k * row_];
        folds_.insert(folds_.end(), row, row + row_);
      }
    maps_ = moved(other.maps_);
    levels_.clear();
    for (const Level& level : other.levels_) {
      levels_.emplace_back();
      for (const Vector& product : level.recent) levels_.back().recent.push_back(moved(product));
      levels_.back().ups = moved(level.ups);
    }
    exact_.assign(other.exact_.size() / other.exact_stride_ * exact_stride_, 0.0);
    for (size_t i = 0; i * exact_stride_ < exact_.size(); ++i)
      other.take_feature(&other.exact_[i * other.exact_stride_], from, n_,
                         &exact_[i * exact_stride_]);
  }

  // [w̄ | z] of one feature with other weights; z has n numbers.
  template <class U>
  void take_feature(const U* numbers, const std::vector<size_t>& from, size_t n, U* to) const {
    for (size_t k = 0; k < from.size(); ++k) to[k] = numbers[from[k]];
    std::copy_n(numbers + K_, n, to + from.size());
  }

  // After all features have caught up: there are no events any more.
  void forget() {
    std::fill(tags_.begin(), tags_.end(), 0);
    generation_.assign(1, 0);
    fold_.assign(1, 0);
    folds_.assign(K_ * row_, 0.0);
    maps_.clear();
    levels_.assign(1, Level{});
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
    archive.array_of(exact_.size(), "sketch.exact", exact_);
    const size_t folds = 1 + *std::max_element(fold_.begin(), fold_.end());
    archive.array_of(folds * K_ * row_, "sketch.folds", folds_);
    archive.array_of(generations() * n_ * width_, "sketch.maps", maps_);
    if constexpr (Archive::reading) {
      levels_.assign(1, Level{});
      for (size_t g = 1; g <= generations(); ++g) multiply_out(g);
    }
  }

 private:
  static constexpr size_t kMostEvents = size_t{1} << 31;
  static constexpr size_t kUnitBits = 3,
                          kUnits = size_t{1} << kUnitBits;  // of a level in a unit of the next
  static constexpr size_t kMostMaps = 16;                   // 8¹⁵ is more than kMostEvents

  // A unit of level l is 8ˡ generations and starts at a multiple of 8ˡ.
  struct Level {
    std::vector<Vector>
        recent;  // recent[i]: from the start of the i-th of the last whole units to now
    Vector ups;  // of each unit: from its start to the next unit of the level above
  };

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

  // Compiled for common cases: `quads` is the number of quads of [w̄ | z], or 0, and K the number of
  // weights if there are more columns than fit in there, or 0.
  template <size_t quads, size_t K>
  [[gnu::always_inline]] inline size_t catch_up_row(const Row<T>& row, size_t first, double* room) {
    const uint32_t event = now(), *tags = tags_.data();
    const Slot* slots = row.slots.data();
    size_t stale = 0;
    for (size_t i = first; i < row.size; ++i) {
      const Slot slot = slots[i];
      if (tags[slot] == event) continue;
      T* block = row.blocks[i];
      if ((slot < most_exact_ || !catch_up_soon<quads, K>(slot, block)) &&
          !catch_up(slot, block, room))
        throw Diverged("a weight is too large for the number type");
      ++stale;
    }
    return stale;
  }
  template <size_t quads, size_t K>
  SONLINE_AVX2 size_t catch_up_row_avx2(const Row<T>& row, size_t first, double* room) {
    return catch_up_row<quads, K>(row, first, room);
  }

  // What catch_up() does, to the bit, for a feature that has missed no fold, which is common;
  // false, and nothing is changed, for others.
  template <size_t quads, size_t K>
  [[gnu::always_inline]] inline bool catch_up_soon(Slot slot, T* block) {
    if constexpr (quads == 0) return false;
    const std::vector<Vector>& recent = levels_[0].recent;
    const uint32_t event = tags_[slot], g = generation_[event];
    const size_t missed = generation_.back() - g;
    if ((fold_[event] | fold_.back()) != 0) return false;
    const double* maps[kMostMaps];
    maps[0] = recent[std::min(missed, recent.size()) - 1].data();
    const size_t count = missed <= recent.size() ? 1 : path(g, maps);
    constexpr size_t kWidth = std::max<size_t>(quads, 1) * kQuad;
    double now[kWidth];
    Quad sums[kWidth / kQuad];
    for (size_t q = 0; q < quads; ++q) {
      const Quad quad = widen_quad(block + q * kQuad);
      store_quad(now + q * kQuad, quad);
      const bool of_weights = K == 0 || q * kQuad < K;  // the map replaces the others
      sums[q] = of_weights ? masked(quad, &keep_[q * kQuad]) : Quad{};
    }
    constexpr size_t kDense = K > 0 ? kWidth - K : 0;
    const size_t weights = K > 0 ? K : K_, dense = K > 0 ? kDense : n_;
    T *rest = block + weights + dense, *end = block + weights + n_;
    detail::map_quads<kDense>(maps[0], kWidth, now + weights, dense, rest, end, sums);
    for (size_t i = 1; i < count; ++i) {
      for (size_t q = 0; q < quads; ++q) {
        store_quad(now + q * kQuad, sums[q]);
        sums[q] = masked(sums[q], &keep_[q * kQuad]);
      }
      const T* none = nullptr;
      detail::map_quads<0>(maps[i], kWidth, now + weights, m_, none, none, sums);
    }
    typename FourOf<T>::Vector rounded[kWidth / kQuad], total{};
    for (size_t q = 0; q < quads; ++q) {
      rounded[q] = __builtin_convertvector(sums[q], typename FourOf<T>::Vector);
      total += rounded[q];
    }
    if (!all_zero(total - total)) return false;  // NaN instead of 0 if a number does not fit
    for (size_t q = 0; q < quads; ++q)
      *reinterpret_cast<typename FourOf<T>::InMemory*>(block + q * kQuad) = rounded[q];
    clear(rest, end);
    tags_[slot] = this->now();
    return true;
  }

  // Inline, because a call of memset would cost as much as the map.
  [[gnu::always_inline]] static inline void clear(T* from, T* end) {
    using Four = typename FourOf<T>::InMemory;
    for (; from + kQuad <= end; from += kQuad) *reinterpret_cast<Four*>(from) = Four{};
    for (; from < end; ++from) *from = 0;
  }

  // To the bit.
  [[gnu::always_inline]] static inline bool all_zero(typename FourOf<T>::Vector four) {
    uint64_t words[sizeof four / sizeof(uint64_t)], any = 0;
    std::memcpy(words, &four, sizeof four);
    for (const uint64_t word : words) any |= word;
    return any == 0;
  }

  [[gnu::always_inline]] static inline Quad masked(Quad quad, const uint64_t* keep) {
    typedef uint64_t Words __attribute__((vector_size(32)));
    typedef uint64_t WordsInMemory
        __attribute__((vector_size(32), aligned(alignof(uint64_t)), may_alias));
    return reinterpret_cast<Quad>(reinterpret_cast<Words>(quad) &
                                  *reinterpret_cast<const WordsInMemory*>(keep));
  }

  bool is_of_last_generation(uint32_t event) const {
    return generation_[event] == generation_.back();
  }

  template <class U>
  bool catch_up_of(Slot slot, U* block, double* room) {
    return has_avx2() ? catch_up_avx2(slot, block, room) : catch_up_any<false>(slot, block, room);
  }
  template <class U>
  SONLINE_AVX2 bool catch_up_avx2(Slot slot, U* block, double* room) {
    return catch_up_any<true>(slot, block, room);
  }
  template <bool avx2, class U>
  [[gnu::always_inline]] inline bool catch_up_any(Slot slot, U* block, double* room) {
    const uint32_t event = tags_[slot];
    if (is_of_last_generation(event)) {
      std::copy_n(block, K_ + n_, room);
      fold(fold_.back(), fold_[event], n_, room);
      if (!all_fit<T>(room, K_)) return false;
      for (size_t k = 0; k < K_; ++k) block[k] = static_cast<U>(room[k]);
    } else {
      const double* mapped =
          avx2 ? advance_any(event, block, room) : advance_plain(event, block, room);
      if (!all_fit<T>(mapped, K_ + m_)) return false;
      for (size_t j = 0; j < K_ + m_; ++j) block[j] = static_cast<U>(mapped[j]);
      for (size_t j = K_ + m_; j < K_ + n_; ++j) block[j] = 0;
    }
    tags_[slot] = now();
    return true;
  }

  // [w̄ | z], all of a block, by the maps from an event to the current generation: the result lies
  // somewhere in the room.
  template <class U>
  const double* advance(uint32_t event, const U* block, double* room) const {
    return has_avx2() ? advance_avx2(event, block, room) : advance_plain(event, block, room);
  }
  template <class U>
  [[gnu::always_inline]] inline const double* advance_any(uint32_t event, const U* block,
                                                          double* room) const {
    double *from = room, *to = room + width_;
    const size_t read = std::min(width_, K_ + n_);
    std::copy_n(block, read, from);
    std::fill(from + read, from + width_, 0.0);
    if (fold_[event] > 0) {
      double* all = room + 2 * width_;
      std::copy_n(block, K_ + n_, all);
      fold(0, fold_[event], n_, all);
      std::copy_n(all, K_, from);
    }
    const double* maps[kMostMaps];
    for (size_t i = 0, count = path(generation_[event], maps); i < count; ++i) {
      apply(maps[i], from, i == 0 ? block : static_cast<const U*>(nullptr), to);
      std::swap(from, to);
    }
    if (fold_.back() > 0) fold(fold_.back(), 0, m_, from);
    return from;
  }
  template <class U>
  SONLINE_AVX2 const double* advance_avx2(uint32_t event, const U* block, double* room) const {
    return advance_any(event, block, room);
  }
  template <class U>
  [[gnu::noinline]] const double* advance_plain(uint32_t event, const U* block,
                                                double* room) const {
    return advance_any(event, block, room);
  }

  // The maps that lead from a generation to the current one, in order; returns their number.
  size_t path(size_t g, const double** maps) const {
    const size_t end = generation_.back();
    size_t count = 0;
    for (size_t level = 0, bits = 0; g < end;) {  // a unit is 2^bits generations
      const Level& at = levels_[level];
      const size_t units = (end >> bits) - (g >> bits);
      if (units == 0) {  // it is the start of the last unit, which is not over
        --level;
        bits -= kUnitBits;
      } else if (units <= at.recent.size()) {
        maps[count++] = at.recent[units - 1].data();
        break;
      } else {
        maps[count++] = at.ups.data() + (g >> bits) * (level == 0 ? n_ : m_) * width_;
        ++level;
        bits += kUnitBits;
        g = ((g >> bits) + 1) << bits;
      }
    }
    return count;
  }

  // out = [w̄ | 0] + map · z. Of z the first m numbers are not zero, or all those of a block.
  template <class U>
  [[gnu::always_inline]] inline void apply(const double* map, const double* now, const U* block,
                                           double* out) const {
    size_t i = 0;
    for (; i + 4 * kQuad <= width_; i += 4 * kQuad) apply_quads<4>(map, now, block, i, out);
    for (; i + 3 * kQuad <= width_; i += 3 * kQuad) apply_quads<3>(map, now, block, i, out);
    for (; i < width_; i += kQuad) apply_quads<1>(map, now, block, i, out);
  }
  template <size_t quads, class U>
  [[gnu::always_inline]] inline void apply_quads(const double* map, const double* now,
                                                 const U* block, size_t at, double* out) const {
    const size_t dense = block ? std::min(n_, width_ - K_) : m_;
    Quad sums[quads];
    for (size_t q = 0; q < quads; ++q)
      sums[q] = masked(load_quad(now + at + q * kQuad), &keep_[at + q * kQuad]);
    detail::map_quads<0>(map + at, width_, now + K_, dense, block ? block + K_ + dense : block,
                         block ? block + K_ + n_ : block, sums);
    for (size_t q = 0; q < quads; ++q) store_quad(out + at + q * kQuad, sums[q]);
  }

  const double* fold_at(size_t number) const { return folds_.data() + number * K_ * row_; }

  // What fold `last` has added since fold `then` to the weights of a feature with n numbers z.
  [[gnu::always_inline]] inline void fold(size_t last, size_t then, size_t n, double* now) const {
    detail::fold_loop(fold_at(last), fold_at(then), K_, row_, n, now + K_, now);
  }

  // Brings the products up to date with the last map, which ends generation `end`.
  void multiply_out(size_t end) {
    const double* map = maps_.data() + (end - 1) * n_ * width_;  // of no numbers, without columns
    for (size_t level = 0; level < levels_.size(); ++level)
      for (Vector& product : levels_[level].recent) {
        multiply(map, product.data(), level == 0 ? n_ : m_, scratch_);
        product.swap(scratch_);
      }
    // The first unit of a level is over, and perhaps the first of the next, and so on.
    Vector over(map, map + n_ * width_);
    for (size_t level = 0, unit = 1;; ++level, unit *= kUnits) {
      if (level == levels_.size()) levels_.emplace_back();
      auto& [recent, ups] = levels_[level];
      if (recent.size() < kUnits) recent.emplace_back();
      std::rotate(recent.begin(), recent.end() - 1, recent.end());
      recent[0] = over;
      if (end % (unit * kUnits) != 0) return;
      for (size_t i = kUnits; i-- > 0;) ups.insert(ups.end(), recent[i].begin(), recent[i].end());
      over.assign(recent.back().begin(),
                  recent.back().begin() + static_cast<std::ptrdiff_t>(m_ * width_));
    }
  }

  // The map that is first `before` and then `after`: each column is one more feature.
  void multiply(const double* after, const double* before, size_t columns, Vector& both) const {
    both.resize(columns * width_);
    has_avx2() ? multiply_avx2(after, before, both) : multiply_any(after, before, both);
  }
  [[gnu::always_inline]] inline void multiply_any(const double* after, const double* before,
                                                  Vector& both) const {
    double* out = both.data();
    for (size_t j = 0; j < both.size(); j += width_)
      apply(after, before + j, static_cast<const T*>(nullptr), out + j);
  }
  SONLINE_AVX2 void multiply_avx2(const double* after, const double* before, Vector& both) const {
    multiply_any(after, before, both);
  }

  size_t K_, m_, n_;
  size_t width_;  // of a column of a map: w̄'s numbers and then z's
  size_t row_;    // of a fold, for each of the K weights
  size_t most_exact_, exact_stride_;
  Vector exact_;                      // the numbers of the first features
  std::vector<uint32_t> tags_;        // by slot: the last event that the feature has seen
  std::vector<uint32_t> generation_;  // of each event
  std::vector<uint32_t> fold_;        // of each event: which r below
  Vector folds_;                      // r, K rows each; the first is 0
  Vector maps_;                       // of the generations in turn
  std::vector<Level> levels_;         // and their products
  Vector scratch_;
  std::vector<uint64_t> keep_;  // a mask: what a map adds to instead of replacing it
};

}  // namespace sonline
