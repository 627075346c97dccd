// Changes of all features that are applied to each feature when a row next has it.
//
// The block of a feature holds K weights w̄ and m columns z. A sketch changes them for all features
// alike in two ways:
//   fold        w̄ ← w̄ + b z              what the weights have on the columns is written into w̄
//   generation  w̄ ← w̄ + C_w z, z ← C_z z   the columns get a new meaning
// Neither is done to any feature when it happens. It becomes an event; every feature has a tag, the
// last event that it has seen, and catches up when a row has it next. So no data can make a row
// cost more than its own non-zeros:
//   - within a generation the folds add up to r, and a feature misses r_now - r_then: K m products;
//   - across generations it needs the product of the maps since. Those of the last 16 are kept
//     ready, for older generations those to the next multiple of 16, and from the last 16
//     multiples to now, and so on: a feature that has missed G generations needs at most
//     1 + log₁₆ G maps of (K + m) m products.
// The products of maps are computed in double. A map is applied in the type of the numbers that it
// changes: they are rounded to it anyway, and all of a map then fits into a few cache lines. The
// order is the same on every processor.
//
// A sweep over all features, which lets the events be forgotten, is left to the sketch: it does one
// when the non-zeros read since the last have paid for it, or when bytes() exceeds the blocks'.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/blocks.hpp"
#include "sonline/columns.hpp"
#include "sonline/errors.hpp"
#include "sonline/features.hpp"
#include "sonline/matrix.hpp"
#include "sonline/row.hpp"
#include "sonline/sketch/generations.hpp"

namespace sonline {

template <class T>
class LazyColumns {
 public:
  LazyColumns(size_t K, size_t m, size_t exact = 0)
      : K_(K),
        m_(m),
        width_(whole_quads(K + m)),
        row_(whole_quads(m)),
        most_exact_(std::is_same_v<T, float> ? exact : 0),
        maps_(K, m, most_exact_ > 0) {
    forget();
  }

  // Room that the functions below need for one feature.
  struct Room {
    explicit Room(const LazyColumns& lazy) : numbers(2 * lazy.width_), rounded(2 * lazy.width_) {}
    Vector numbers;
    std::vector<T> rounded;
  };

  uint32_t now() const { return static_cast<uint32_t>(generation_.size() - 1); }
  size_t generations() const { return generation_.back(); }
  size_t bytes() const {
    const size_t folds = (folds_.size() - K_ * row_) * sizeof(double);
    return folds + maps_.bytes() + 2 * generation_.size() * sizeof(uint32_t);
  }
  size_t bytes_of_tags() const { return tags_.capacity() * sizeof(uint32_t); }
  // Whether a tag cannot hold more events.
  bool full() const { return generation_.size() >= kMostEvents; }

  // Features below `slots` exist. New ones hold zeros and are up to date. (There may be fewer than
  // before: those of a row that could not be learned are removed.)
  void admit(size_t slots) {
    if (tags_.size() == slots) return;
    tags_.resize(slots, now());
    exact_.resize(std::min(slots, most_exact_) * width_);
  }

  // The first features of a stream include the most frequent ones, whose numbers are rounded most
  // often. They are kept in double, and their blocks hold copies. Null for other features.
  double* exact(Slot slot) { return slot < most_exact_ ? &exact_[slot * width_] : nullptr; }
  const double* exact(Slot slot) const { return const_cast<LazyColumns*>(this)->exact(slot); }
  void clear_exact(Slot slot) {
    if (slot * width_ < exact_.size()) std::fill_n(exact(slot), width_, 0.0);
  }
  size_t most_exact() const { return most_exact_; }
  double* exact_numbers() { return exact_.data(); }  // width() of each such feature
  const double* exact_numbers() const { return exact_.data(); }
  size_t width() const { return width_; }
  bool all_exact() const { return most_exact_ > 0 && tags_.size() <= most_exact_; }
  bool is_stale(Slot slot) const { return slot < tags_.size() && tags_[slot] != now(); }
  bool is_current(Slot slot) const { return slot < tags_.size() && tags_[slot] == now(); }
  void mark(Slot slot) { tags_[slot] = now(); }

  // w̄ and z of a feature as they are now, in the room.
  const double* read(Slot slot, const T* block, Room& room) const {
    double* numbers = room.numbers.data();
    const double* exact = slot < tags_.size() ? this->exact(slot) : nullptr;
    if (exact) {
      std::copy_n(exact, K_ + m_, numbers);
      return is_stale(slot) ? advance(tags_[slot], numbers) : numbers;
    }
    std::copy_n(read_rounded(slot, block, room), K_ + m_, numbers);
    return numbers;
  }

  // Brings a feature up to date; false, and nothing is changed, if it does not fit its type.
  bool catch_up(Slot slot, T* block, Room& room) {
    if (double* numbers = exact(slot)) {
      const double* now = read(slot, block, room);
      if (!all_fit<T>(now, K_ + m_)) return false;
      std::copy_n(now, K_ + m_, numbers);
      round_to_block(numbers, block);
    } else {
      const T* now = read_rounded(slot, block, room);
      if (!all_fit<T>(now, K_ + m_)) return false;
      std::copy_n(now, K_ + m_, block);
    }
    tags_[slot] = this->now();
    return true;
  }
  void round_to_block(const double* numbers, T* block) const {
    for (size_t j = 0; j < K_ + m_; ++j) block[j] = static_cast<T>(numbers[j]);
  }

  // The same for the features of a row from `first` on; returns how many were stale.
  size_t catch_up(const Row<T>& row, size_t first, Room& room) {
    admit(row.slots_seen);
    if (now() == 0) return 0;
    const size_t stale = catch_up_features(row, first, room);
    if (stale == kDoesNotFit) throw Diverged("a weight is too large for the number type");
    return stale;
  }

  // The same for n features, of which slot_of(i) are the slots; false if one does not fit its type.
  template <class SlotOf>
  bool catch_up(const BlockStore<T>& blocks, size_t n, const SlotOf& slot_of, Room& room) {
    constexpr size_t kAtOnce = 64;
    Slot slots[kAtOnce];
    Row<T> row;
    row.blocks.resize(kAtOnce);
    row.slots = slots;
    for (size_t i = 0; i < n; i += kAtOnce) {
      row.size = std::min(kAtOnce, n - i);
      for (size_t j = 0; j < row.size; ++j) slots[j] = slot_of(i + j);
      blocks.locate(slots, row.size, row.blocks.data());
      if (catch_up_features(row, 0, room) == kDoesNotFit) return false;
    }
    return true;
  }

  // The same for a row that is only predicted: stale blocks become copies, `width` numbers apart.
  void view(Row<T>& row, size_t first, size_t width, std::vector<T>& copies, Room& room) const {
    copies.resize(std::max(copies.size(), row.size * width));
    for (size_t i = first; i < row.size; ++i) {
      if (!is_stale(row.slots[i])) continue;
      T* copy = &copies[i * width];
      if (exact(row.slots[i]))
        round_to_block(read(row.slots[i], row.blocks[i], room), copy);
      else
        std::copy_n(read_rounded(row.slots[i], row.blocks[i], room), K_ + m_, copy);
      row.blocks[i] = copy;
    }
  }

  // Whether a fold of this size keeps its digits beside the folds of the generation so far. If z
  // has grown since, it does not, and a new generation must begin.
  bool can_fold(const Matrix& b) const {
    constexpr double kLargestRatio = 1e4;
    const auto larger = [](double a, double c) { return std::max(a, std::fabs(c)); };
    const double* last = fold_at(fold_.back());
    double before = 0, size = 0;
    for (size_t k = 0; k < K_; ++k) {
      before = std::accumulate(last + k * row_, last + (k + 1) * row_, before, larger);
      size = std::accumulate(b[k], b[k] + b.cols(), size, larger);
    }
    return before <= kLargestRatio * size;
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
    const double* r = fold_at(fold_.back());
    maps_.add([&](double* map) {
      for (size_t j = 0; j < columns; ++j)
        for (size_t i = 0; i < C.rows(); ++i) map[j * width_ + i] = C(i, j);
      for (size_t j = 0; j < m_; ++j)
        for (size_t k = 0; k < K_; ++k) map[j * width_ + k] += r[k * row_ + j];
    });
    generation_.push_back(generation_.back() + 1);
    fold_.push_back(0);
  }

  // After all features have caught up: there are no events any more.
  void forget() {
    std::fill(tags_.begin(), tags_.end(), 0);
    generation_.assign(1, 0);
    fold_.assign(1, 0);
    folds_.assign(K_ * row_, 0.0);
    maps_.forget();
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
    maps_.state(archive, generations());
  }

 private:
  static constexpr size_t kMostEvents = size_t{1} << 31;
  using Maps = GenerationMaps<T>;
  using Path = typename Maps::Path;

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

  // Compiled for common shapes: W numbers, M of them columns; both are 0 for others.
  template <size_t W, size_t M>
  bool is_shape() const {
    return width_ == W && m_ == M;
  }
  size_t catch_up_features(const Row<T>& row, size_t first, Room& room) {
    if (!has_avx2()) return catch_up_row<0, 0>(row, first, room);
    return is_shape<12, 9>()    ? catch_up_row_avx2<12, 9>(row, first, room)
           : is_shape<12, 10>() ? catch_up_row_avx2<12, 10>(row, first, room)
           : is_shape<16, 10>() ? catch_up_row_avx2<16, 10>(row, first, room)
           : is_shape<16, 11>() ? catch_up_row_avx2<16, 11>(row, first, room)
                                : catch_up_row_avx2<0, 0>(row, first, room);
  }
  static constexpr size_t kDoesNotFit = ~size_t{0};
  template <size_t W, size_t M>
  [[gnu::always_inline]] inline size_t catch_up_row(const Row<T>& row, size_t first, Room& room) {
    // All in local variables: to the compiler, writing a block might change any member.
    const uint32_t event = now(), last = generation_.back(), *generation = generation_.data();
    const size_t size = row.size,
                 most_exact = M > 0 && fold_.back() == 0 ? most_exact_ : ~size_t{0};
    const uint32_t* fold = fold_.data();
    const size_t last_of_block = K_ + m_ - 1, K = K_;
    const Slot* slots = row.slots;
    T* const* blocks = row.blocks.data();
    uint32_t* tags = tags_.data();
    constexpr size_t kKnownPaths = Maps::kKnownPaths;
    Path* paths = maps_.paths();
    const auto keep = detail::Strip<T, W>::load(maps_.template keep<T>());
    // Which they are cannot be guessed by the processor: a loop without a branch finds them first.
    stale_.resize(std::max(stale_.size(), size + 1));
    uint32_t* stale = stale_.data();
    size_t n = 0;
    for (size_t i = first; i < size; ++i) {
      stale[n] = static_cast<uint32_t>(i);
      n += tags[slots[i]] != event;
    }
    for (size_t s = 0; s < n; ++s) {
      // They were fetched when the row was resolved, but the row before may have taken their place.
      const T* ahead = blocks[stale[s + kAhead < n ? s + kAhead : s]];
      __builtin_prefetch(ahead, 1);
      __builtin_prefetch(ahead + last_of_block, 1);
      const size_t i = stale[s];
      const Slot slot = slots[i];
      // Neither in double nor are there folds to mind: the common case.
      if (slot >= most_exact && fold[tags[slot]] == 0) {
        const size_t g = generation[tags[slot]], missed = last - g;
        Path& path = paths[missed < kKnownPaths ? missed : kKnownPaths];
        if (path.count == 0 || missed >= kKnownPaths) path.count = maps_.path(g, path.maps);
        alignas(32) T now[std::max<size_t>(W, 1)];
        auto sums = detail::Strip<T, W>::load(blocks[i]);
        for (size_t l = 0; l < path.count; ++l) {
          sums.store(now);
          sums.multiply(keep);
          maps_.template add_columns<M>(path.maps[l], W, now + K, sums);
        }
        if (sums.fit()) {
          sums.store(blocks[i]);
          tags[slot] = event;
          continue;
        }
      }
      if (!catch_up(slot, blocks[i], room)) return kDoesNotFit;
    }
    return n;
  }
  static constexpr size_t kAhead = 8;
  template <size_t W, size_t M>
  SONLINE_AVX2 size_t catch_up_row_avx2(const Row<T>& row, size_t first, Room& room) {
    return catch_up_row<W, M>(row, first, room);
  }

  bool is_of_last_generation(uint32_t event) const {
    return generation_[event] == generation_.back();
  }

  const T* read_rounded(Slot slot, const T* block, Room& room) const {
    if (!is_stale(slot)) return block;
    std::copy_n(block, K_ + m_, room.rounded.data());
    return advance(tags_[slot], room.rounded.data());
  }

  // [w̄ | z], which have seen an event, as they are now: before or behind `numbers`, which has twice
  // the room for them.
  template <class U>
  const U* advance(uint32_t event, U* numbers) const {
    return has_avx2() ? advance_avx2(event, numbers) : advance_any(event, numbers);
  }
  template <class U>
  SONLINE_AVX2 const U* advance_avx2(uint32_t event, U* numbers) const {
    return advance_any(event, numbers);
  }
  template <class U>
  [[gnu::always_inline]] inline const U* advance_any(uint32_t event, U* numbers) const {
    if (is_of_last_generation(event)) {
      fold(fold_.back(), fold_[event], numbers);
      return numbers;
    }
    if (fold_[event] > 0) fold(0, fold_[event], numbers);
    U *from = numbers, *to = numbers + width_;
    std::fill(from + K_ + m_, to, U{0});
    const U* maps[Maps::kMostMaps];
    for (size_t i = 0, count = maps_.path(generation_[event], maps); i < count; ++i) {
      maps_.apply(maps[i], from, to);
      std::swap(from, to);
    }
    if (fold_.back() > 0) fold(fold_.back(), 0, from);
    return from;
  }

  const double* fold_at(size_t number) const { return folds_.data() + number * K_ * row_; }

  // What fold `last` has added since fold `then` to the weights of a feature.
  template <class U>
  [[gnu::always_inline]] inline void fold(size_t last, size_t then, U* numbers) const {
    const double *b = fold_at(last), *a = fold_at(then);
    const U* z = numbers + K_;
    for (size_t k = 0; k < K_; ++k, a += row_, b += row_) {
      Quad sum{};
      size_t j = 0;
      for (; j + kQuad <= m_; j += kQuad)
        sum += (load_quad(b + j) - load_quad(a + j)) * widen_quad(z + j);
      double rest = 0;
      for (; j < m_; ++j) rest += (b[j] - a[j]) * z[j];
      numbers[k] = static_cast<U>(numbers[k] + (sum_of(sum) + rest));
    }
  }

  size_t K_, m_;
  size_t width_;  // of a column of a map: w̄'s numbers and then z's
  size_t row_;    // of a fold, for each of the K weights
  size_t most_exact_;
  Vector exact_;                      // the numbers of the first features, `width_` of each
  std::vector<uint32_t> tags_;        // by slot: the last event that the feature has seen
  std::vector<uint32_t> generation_;  // of each event
  std::vector<uint32_t> fold_;        // of each event: which r below
  Vector folds_;                      // r, K rows each; the first is 0
  Maps maps_;                         // of the generations in turn
  std::vector<uint32_t> stale_;       // where in the row at hand
};

}  // namespace sonline
