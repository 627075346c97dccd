// Members with a step per feature: AdaGrad's diagonal (Duchi, Hazan & Singer 2011), shared by all
// outputs.
//
//   G_i = Σ (g x̃_i)²           g, the gradient of the output that the label belongs to
//   w_i ← w_i − ω ℓ'(w'·x̃) x̃_i / (α √G_i)     implicit, as in round.hpp
//
// A feature that is rare has a small G and a long step. With G of its own each class would take
// long steps for the features that its rows never have; one G for all of them costs one root per
// non-zero, however many classes there are, and is better (docs/decisions/one-mixture.md). With
// many classes G counts only one of many small gradients, and α is divided by their root. Gradients
// are those of predictions as they are: there are no such members with `clip`.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "sonline/ablation.hpp"
#include "sonline/archive.hpp"
#include "sonline/blocks.hpp"
#include "sonline/columns.hpp"
#include "sonline/config.hpp"
#include "sonline/errors.hpp"
#include "sonline/forgetting.hpp"
#include "sonline/phase.hpp"
#include "sonline/row.hpp"
#include "sonline/rows_seen.hpp"

namespace sonline {

// What the members of one output predict for a row, with their weights and with those for later
// rows, and how far a loss can pull it (the q of Loss::implicit_steps, or null).
struct DiagonalPredictions {
  const double *margins, *later_margins, *reaches;
};

template <class T>
class Diagonal {
 public:
  // `held`: it keeps weights for later rows apart (phase.hpp). Otherwise members are judged on the
  // next row only.
  Diagonal(const Config& config, size_t outputs, bool held)
      : config_(config),
        outputs_(outputs),
        held_(held),
        weights_(outputs * config.diagonal.size()),
        epoch_at_(held_ ? 2 * weights_ + 2 : weights_ + 1),
        width_(padded_width(epoch_at_ + config.forgets())),
        columns_(Columns<T>::of_width(width_)),
        blocks_(width_),
        sums_(width_),
        update_(width_),
        margins_(weights_),
        later_margins_(weights_),
        fits_(weights_),
        labels_(weights_),
        reaches_(weights_),
        moves_(weights_) {
    blocks_.reserve(1);
  }

  size_t members() const { return config_.diagonal.size(); }
  size_t bytes() const { return blocks_.bytes(); }

  // Of the row at hand.
  DiagonalPredictions predictions(size_t output) const {
    const size_t at = output * members();
    const Vector& later = held_ ? later_margins_ : margins_;
    return {margins_.data() + at, later.data() + at, reaches_.data() + at};
  }

  // Predicts a row; `next` is the number of the row that is learned next.
  void project(const InputRow<T>& row, uint64_t next) {
    blocks_.reserve(row.slots_seen);
    row_.see(row, blocks_);
    cycle_ = held_ ? cycle_of(next) : T{0};
    inverse_for_ = -1;
    if (is_single()) return has_avx2() ? project_single_avx2() : project_single();
    columns_.gather(row_.blocks.data(), row_.x, row_.size, width_, sums_.data());
    for (size_t j = 0; j < weights_; ++j) margins_[j] = finite(sums_[j]);
    if (held_) project_held();
  }
  void prefetch(const InputRow<T>& next) {
    blocks_.reserve(next.slots_seen);
    row_.look_ahead(next, blocks_);
  }

  // The mean of 1 / (α + G) over the features of the row, each as much as it is of |x̃|²: what A⁻¹
  // is if features have nothing to do with each other.
  double mean_inverse(double alpha, const Clock& clock) {
    if (alpha != inverse_for_) {  // it is the same for all outputs
      if (!is_single()) read_squares();
      const T a = static_cast<T>(std::max<double>(alpha, std::numeric_limits<T>::min()));
      inverse_ = config_.forgets() ? sum_inverses_of_left(a, clock)
                 : has_avx2()      ? sum_inverses_avx2(a)
                                   : sum_inverses(a);
      inverse_for_ = alpha;
    }
    return row_.energy > 0 ? inverse_ / row_.energy : 0.0;
  }

  // Takes in the gradient of `output`, the one that the label of the row belongs to, and computes
  // the reach of all steps. `pull` scales the loss, `unit_of_g` is the unit of gradients: G has
  // none, so that that of the labels does not matter. Nothing changes before commit().
  void reach(double label, size_t output, double weight, double pull, double unit_of_g,
             size_t classes, const RowsSeen& seen) {
    const size_t D = members();
    const double g = weight * config_.loss->slope(margins_[output * D], label) / unit_of_g;
    if (!is_single()) read_squares();
    clock_ = seen.clock;
    if (config_.forgets())
      for (size_t i = 0; i < row_.size; ++i)
        squares_[i] = Clock::left<T>(squares_[i] * carried(row_.blocks[i]));
    // Later rows weigh more, see forgetting.hpp.
    const double sketched = g * seen.clock.weight();
    has_avx2() ? prepare_directions_avx2(sketched) : prepare_directions(sketched);
    const double counted = SONLINE_KEEPS(many_classes) ? 0.5 * static_cast<double>(classes) : 1.0;
    const double unit = std::sqrt(seen.mean_energy / std::max(counted, 1.0));
    for (size_t d = 0; d < D; ++d) {
      const double alpha = config_.diagonal[d] * unit;
      const double reach =
          energy_ > 0 ? weight * pull * seen.clock.weight() * energy_ / alpha : 0.0;
      for (size_t j = d; j < weights_; j += D) reaches_[j] = reach;
    }
    if (!(largest_square_ <= std::numeric_limits<T>::max()))
      throw Diverged("a step is too large for the number type");
  }
  // The steps for the labels of all outputs.
  void step(const double* labels, double longest) {
    for (size_t k = 0; k < outputs_; ++k)
      std::fill_n(labels_.begin() + static_cast<std::ptrdiff_t>(k * members()), members(),
                  labels[k]);
    implicit_steps(*config_.loss, margins_.data(), labels_.data(), reaches_.data(), weights_,
                   fits_.data(), moves_.data());
    step_by(moves_.data(), longest);
  }
  // The same for steps that are known.
  void step_by(const double* moves, double longest) {
    for (size_t j = 0; j < weights_; ++j) {
      const double move = std::clamp(moves[j], -longest, longest);
      update_[j] = energy_ > 0 ? static_cast<T>(move / energy_) : T{0};
    }
    check_room(row_.blocks.data(), directions_.data(), row_.size, energy_of_directions_,
               update_.data(), weights_);
  }
  void commit() {
    if (config_.forgets())
      for (size_t i = 0; i < row_.size; ++i) row_.blocks[i][epoch_at_] = clock_.stamp<T>();
    if (is_single()) return has_avx2() ? commit_single_avx2() : commit_single();
    if (held_) hold();
    columns_.scatter(row_.blocks.data(), directions_.data(), row_.size, width_, update_.data());
    for (size_t i = 0; i < row_.size; ++i) row_.blocks[i][weights_] = squares_[i];
  }

  // The weights of an output for later rows, by slot, its members one after another.
  [[gnu::cold]] Matrix later_weights(size_t output, size_t slots, uint64_t next) {
    Matrix later = weights(output, slots);
    if (!held_) return later;
    for (Slot slot = 0; slot < slots; ++slot)
      if (is_held(blocks_.at(slot), cycle_of(next)))
        for (size_t d = 0; d < members(); ++d) later(d, slot) = blocks_.at(slot)[weights_ + 1 + d];
    return later;
  }
  // The weights of an output by slot, its members one after another.
  [[gnu::cold]] Matrix weights(size_t output, size_t slots) {
    blocks_.reserve(slots);
    Matrix weights(members(), slots);
    for (Slot slot = 0; slot < slots; ++slot)
      for (size_t d = 0; d < members(); ++d)
        weights(d, slot) = blocks_.at(slot)[output * members() + d];
    return weights;
  }
  // G, as it counts now.
  [[gnu::cold]] Vector squares(size_t slots, const Clock& clock) {
    blocks_.reserve(slots);
    clock_ = clock;
    Vector squares(slots);
    for (Slot slot = 0; slot < slots; ++slot) {
      squares[slot] = blocks_.at(slot)[weights_];
      if (config_.forgets())
        squares[slot] *= carried(blocks_.at(slot)) / (clock.weight() * clock.weight());
    }
    return squares;
  }
  [[gnu::cold]] void set(size_t output, const Matrix& weights) {
    blocks_.reserve(weights.cols());
    for (Slot slot = 0; slot < weights.cols(); ++slot)
      for (size_t d = 0; d < members(); ++d)
        blocks_.at(slot)[output * members() + d] = fitting(weights(d, slot));
  }
  [[gnu::cold]] void set_squares(const Vector& squares) {
    blocks_.reserve(squares.size());
    for (Slot slot = 0; slot < squares.size(); ++slot)
      blocks_.at(slot)[weights_] = fitting(squares[slot]);
  }

  // The same with other outputs: output i was there output from[i].
  [[gnu::cold]] Diagonal arranged(const std::vector<size_t>& from, size_t slots, bool held) {
    Diagonal next(config_, from.size(), held);
    for (size_t i = 0; i < from.size(); ++i) next.set(i, weights(from[i], slots));
    next.blocks_.reserve(slots);
    for (Slot slot = 0; slot < slots; ++slot) {
      const T* block = blocks_.at(slot);
      next.blocks_.at(slot)[next.weights_] = block[weights_];
      if (config_.forgets()) next.blocks_.at(slot)[next.epoch_at_] = block[epoch_at_];
    }
    if (held_ && next.held_) next.take_held(*this, from, slots);
    return next;
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, size_t slots) {
    blocks_.reserve(slots);
    blocks_.state(archive, "diagonal", slots);
    if constexpr (Archive::reading) row_ = Row<T>();
  }

 private:
  // What G of a feature counts now: weights of rows are squared there.
  T carried(const T* block) const {
    const double factor = clock_.carried_since(block[epoch_at_]);
    return static_cast<T>(factor * factor);
  }

  // With them, a block holds, behind weights and G, the weights at the end of the last
  // phase `learn`, and the number of its cycle. A feature that has not changed since has the number
  // of an earlier cycle, and its weights are still those.
  static T cycle_of(uint64_t next) {
    const Cycle cycle = cycle_at(next);
    return cycle.phase == Phase::learn || !SONLINE_KEEPS(phases)
               ? T{0}
               : static_cast<T>(1 + cycle.number % (1 << 23));
  }
  bool is_held(const T* block, T cycle) const {
    return cycle != 0 && block[2 * weights_ + 1] == cycle;
  }
  void project_held() {
    for (size_t j = 0; j < weights_; ++j) {
      T sums[2] = {};  // in two halves, as in columns.hpp
      for (size_t i = 0; i < row_.size; ++i) {
        const T* block = row_.blocks[i];
        sums[i % 2] += row_.x[i] * block[is_held(block, cycle_) ? weights_ + 1 + j : j];
      }
      later_margins_[j] = finite(sums[0] + sums[1]);
    }
  }
  [[gnu::cold]] void take_held(const Diagonal& other, const std::vector<size_t>& from,
                               size_t slots) {
    const size_t D = members();
    for (Slot slot = 0; slot < slots; ++slot) {
      const T* block = other.blocks_.at(slot);
      for (size_t i = 0; i < from.size(); ++i)
        std::copy_n(block + other.weights_ + 1 + from[i] * D, D,
                    blocks_.at(slot) + weights_ + 1 + i * D);
      blocks_.at(slot)[2 * weights_ + 1] = block[2 * other.weights_ + 1];
    }
  }
  // Before the weights of the row change.
  void hold() {
    if (cycle_ == 0) return;
    for (size_t i = 0; i < row_.size; ++i) {
      T* block = row_.blocks[i];
      if (is_held(block, cycle_)) continue;
      std::copy_n(block, weights_, block + weights_ + 1);
      block[2 * weights_ + 1] = cycle_;
    }
  }

  static T fitting(double number) {
    const T value = static_cast<T>(number);
    if (!std::isfinite(value)) throw Diverged("a number is too large for the number type");
    return value;
  }

  static double finite(T margin) {
    if (!std::isfinite(margin)) throw Diverged("the prediction is not a finite number");
    return margin;
  }

  // Room for numbers of the row, with whole vectors.
  void make_room() {
    if (squares_.size() >= row_.size + kLanes) return;
    for (std::vector<T>* room : {&squares_, &directions_, &weights_of_row_, &held_of_row_})
      room->resize(2 * row_.size + kLanes);
  }

  // One weight with a held one, as numbers and two classes have them: a block is w, G, the held w
  // and the number of its cycle. It is read once, and written once.
  bool is_single() const { return held_ && weights_ == 1; }
  [[gnu::always_inline]] inline void project_single() {
    make_room();
    const size_t n = row_.size;
    T* const* blocks = row_.blocks.data();
    T *weights = weights_of_row_.data(), *held = held_of_row_.data(), *squares = squares_.data();
    const T *x = row_.x, cycle = cycle_ != 0 ? cycle_ : T{-1};  // no block has that number
    Four sums{};  // in two halves, as in columns.hpp: of the weights, and of the held ones
    size_t i = 0;
    for (; i + kQuad <= n; i += kQuad) {
      const Columns4 read = transposed({load_four(blocks[i]), load_four(blocks[i + 1]),
                                        load_four(blocks[i + 2]), load_four(blocks[i + 3])});
      const Four values = load_four(x + i), later = read[3] == cycle ? read[2] : read[0];
      store_four(weights + i, read[0]);
      store_four(squares + i, read[1]);
      store_four(held + i, later);
      const Four next_terms = values * read[0], later_terms = values * later;
      sums += __builtin_shufflevector(next_terms, later_terms, 0, 1, 4, 5);
      sums += __builtin_shufflevector(next_terms, later_terms, 2, 3, 6, 7);
    }
    for (; i < n; ++i) {
      const T* block = blocks[i];
      weights[i] = block[0];
      squares[i] = block[1];
      held[i] = block[block[3] == cycle ? 2 : 0];
      sums[i % 2] += x[i] * weights[i];
      sums[2 + i % 2] += x[i] * held[i];
    }
    margins_[0] = finite(sums[0] + sums[1]);
    later_margins_[0] = finite(sums[2] + sums[3]);
  }
  [[gnu::always_inline]] inline void commit_single() {
    const size_t n = row_.size;
    T* const* blocks = row_.blocks.data();
    const T *weights = weights_of_row_.data(), *held = held_of_row_.data();
    const T *squares = squares_.data(), *directions = directions_.data();
    const T update = update_[0], cycle = cycle_;
    size_t i = 0;
    for (; cycle != 0 && i + kQuad <= n; i += kQuad) {
      const Columns4 written =
          transposed({load_four(weights + i) + load_four(directions + i) * update,
                      load_four(squares + i), load_four(held + i), Four{} + cycle});
      for (size_t l = 0; l < kQuad; ++l) store_four(blocks[i + l], written[l]);
    }
    for (; i < n; ++i) {
      T* block = blocks[i];
      block[0] = weights[i] + directions[i] * update;
      block[1] = squares[i];
      if (cycle == 0) continue;
      block[2] = held[i];
      block[3] = cycle;
    }
  }
  SONLINE_AVX2 void project_single_avx2() { project_single(); }
  SONLINE_AVX2 void commit_single_avx2() { commit_single(); }

  void read_squares() {
    make_room();
    T* const* blocks = row_.blocks.data();
    T* squares = squares_.data();
#pragma GCC unroll 4
    for (size_t i = 0; i < row_.size; ++i) squares[i] = blocks[i][weights_];
  }
  // Σ x̃² / (α + G).
  [[gnu::always_inline]] inline double sum_inverses(T alpha) {
    const size_t n = row_.size;
    T* squares = squares_.data();
    std::fill(squares + n, squares + n + kLanes, T{0});
    Lanes sums{};
    for (size_t i = 0; i < n; i += kLanes) {
      const Lanes values = load_some(row_.x + i, n - i);
      sums += values * values / (alpha + load(squares + i));
    }
    double sum = 0;
    for (size_t l = 0; l < kLanes; ++l) sum += sums[l];
    return sum;
  }
  SONLINE_AVX2 double sum_inverses_avx2(T alpha) { return sum_inverses(alpha); }
  // The same with what is left of G.
  [[gnu::noinline]] double sum_inverses_of_left(T alpha, const Clock& clock) {
    clock_ = clock;
    double sum = 0;
    for (size_t i = 0; i < row_.size; ++i) {
      const double x = row_.x[i], left = squares_[i] * carried(row_.blocks[i]);
      sum += x * x / (alpha + left / (clock.weight() * clock.weight()));
    }
    return sum;
  }
  // G with the gradient g, x̃ / √G (0 where there is no G yet), and sums and the largest of them.
  [[gnu::always_inline]] inline void prepare_directions(double gradient) {
    const size_t n = row_.size;
    T *squares = squares_.data(), *directions = directions_.data();
    const T *x = row_.x, g = static_cast<T>(gradient);
    std::fill(squares + n, squares + n + kLanes, T{0});
    Lanes sums{}, lengths{}, largest{};
    for (size_t i = 0; i < n; i += kLanes) {
      const Lanes values = load_some(x + i, n - i), gx = g * values;
      const Lanes square = load(squares + i) + gx * gx;
      Lanes direction;
      for (size_t l = 0; l < kLanes; ++l) direction[l] = values[l] / std::sqrt(square[l]);
      direction = square > T{0} ? direction : Lanes{};
      store(squares + i, square);
      store(directions + i, direction);
      sums += values * direction;
      lengths += direction * direction;
      largest = square <= largest ? largest : square;  // NaN stays
    }
    energy_ = energy_of_directions_ = largest_square_ = 0;
    for (size_t l = 0; l < kLanes; ++l) {
      largest_square_ = largest[l] <= largest_square_ ? largest_square_ : largest[l];
      energy_ += sums[l];
      energy_of_directions_ += lengths[l];
    }
  }
  SONLINE_AVX2 void prepare_directions_avx2(double g) { prepare_directions(g); }

  // Four blocks of four numbers, as columns.
  using Four = typename FourOf<T>::Vector;
  using Columns4 = std::array<Four, kQuad>;
  [[gnu::always_inline]] static inline Four load_four(const T* from) {
    return *reinterpret_cast<const typename FourOf<T>::InMemory*>(from);
  }
  [[gnu::always_inline]] static inline void store_four(T* to, Four four) {
    *reinterpret_cast<typename FourOf<T>::InMemory*>(to) = four;
  }
  [[gnu::always_inline]] static inline Columns4 transposed(const Columns4& rows) {
    const Four low0 = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
    const Four high0 = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
    const Four low2 = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
    const Four high2 = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
    return {__builtin_shufflevector(low0, low2, 0, 1, 4, 5),
            __builtin_shufflevector(low0, low2, 2, 3, 6, 7),
            __builtin_shufflevector(high0, high2, 0, 1, 4, 5),
            __builtin_shufflevector(high0, high2, 2, 3, 6, 7)};
  }

  static constexpr size_t kLanes = 32 / sizeof(T);
  using Lanes = typename detail::Simd<T, kLanes>::Vector;
  using LanesInMemory = typename detail::Simd<T, kLanes>::InMemory;
  [[gnu::always_inline]] static inline Lanes load(const T* from) {
    return *reinterpret_cast<const LanesInMemory*>(from);
  }
  // The first n numbers of x, if there are so many, and zeros. Rows end with room for a vector.
  [[gnu::always_inline]] static inline Lanes load_some(const T* from, size_t n) {
    if (n >= kLanes) return load(from);
    Lanes number;
    for (size_t l = 0; l < kLanes; ++l) number[l] = static_cast<T>(l);
    return number < static_cast<T>(n) ? load(from) : Lanes{};
  }
  [[gnu::always_inline]] static inline void store(T* to, Lanes lanes) {
    *reinterpret_cast<LanesInMemory*>(to) = lanes;
  }

  Config config_;
  size_t outputs_;
  bool held_;
  size_t weights_, epoch_at_, width_;  // weights of a feature: a member of each output
  Columns<T> columns_;
  BlockStore<T> blocks_;  // the weights, and then G
  Row<T> row_;
  // The row at hand.
  std::vector<T> sums_, update_, squares_, directions_;
  std::vector<T> weights_of_row_, held_of_row_;  // if is_single()
  Vector margins_, later_margins_, fits_, labels_, reaches_, moves_;
  T cycle_ = 0;
  Clock clock_;
  double energy_ = 0, energy_of_directions_ = 0;  // Σ x̃² / √G and Σ x̃² / G
  T largest_square_ = 0;
  double inverse_ = 0, inverse_for_ = -1;  // of mean_inverse(): the sum, and the α that it is for
};

}  // namespace sonline
