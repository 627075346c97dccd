// Members with a step per feature: AdaGrad's diagonal (Duchi, Hazan & Singer 2011), shared by all
// outputs.
//
//   G_i = Σ (g x̃_i)²           g, the gradient of the output that the label belongs to
//   w_i ← w_i − ω ℓ'(w'·x̃) x̃_i / (α √G_i)     implicit, as in round.hpp
//
// A feature that is rare has a small G and a long step. With G of its own each class would take
// long steps for the features that its rows never have; one G for all of them costs one root per
// non-zero, however many classes there are, and is better (docs/decisions/one-mixture.md). With
// many classes G counts only one of many small gradients, and α is divided by their root. With
// `clip`, these members learn and are judged by their unclipped predictions.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sonline/ablation.hpp"
#include "sonline/archive.hpp"
#include "sonline/blocks.hpp"
#include "sonline/columns.hpp"
#include "sonline/config.hpp"
#include "sonline/errors.hpp"
#include "sonline/phase.hpp"
#include "sonline/row.hpp"
#include "sonline/rows_seen.hpp"

namespace sonline {

// What the members of one output predict for a row, with their weights and with those for later
// rows, and Loss::fits of it.
struct DiagonalPredictions {
  const double *margins, *later_margins, *fits, *later_fits;
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
        width_(padded_width(held_ ? 2 * weights_ + 2 : weights_ + 1)),
        columns_(Columns<T>::of_width(width_)),
        blocks_(width_),
        sums_(width_),
        update_(width_),
        margins_(weights_),
        later_margins_(weights_),
        fits_(weights_),
        later_fits_(weights_),
        reaches_(config.diagonal.size()),
        moves_(weights_) {
    blocks_.reserve(1);
  }

  size_t members() const { return config_.diagonal.size(); }
  size_t bytes() const { return blocks_.bytes(); }

  // Of the row at hand.
  DiagonalPredictions predictions(size_t output) const {
    const size_t at = output * members();
    const Vector &margins = held_ ? later_margins_ : margins_, &fits = held_ ? later_fits_ : fits_;
    return {margins_.data() + at, margins.data() + at, fits_.data() + at, fits.data() + at};
  }

  // Predicts a row; `next` is the number of the row that is learned next.
  void project(const InputRow<T>& row, uint64_t next) {
    blocks_.reserve(row.slots_seen);
    row_.see(row, blocks_);
    columns_.gather(row_.blocks.data(), row_.x, row_.size, width_, sums_.data());
    for (size_t j = 0; j < weights_; ++j) {
      margins_[j] = sums_[j];
      if (!std::isfinite(margins_[j])) throw Diverged("the prediction is not a finite number");
    }
    if (held_) project_held(next);
  }
  void prefetch(const InputRow<T>& next) {
    blocks_.reserve(next.slots_seen);
    blocks_.prefetch(next.slots.data(), next.size);
  }

  // Computes the steps for the labels of all outputs, of which `output` is the one that the label
  // of the row belongs to. Nothing changes before commit().
  // `unit_of_g` is that of gradients: G has none, so that the unit of the labels does not matter.
  void prepare(const double* labels, size_t output, double weight, double pull, double unit_of_g,
               size_t classes, const RowsSeen& seen, double longest) {
    const size_t D = members();
    const double g = weight * config_.loss->slope(margins_[output * D], labels[output]) / unit_of_g;
    has_avx2() ? prepare_directions_avx2(g) : prepare_directions(g);
    const double counted = SONLINE_KEEPS(many_classes) ? 0.5 * static_cast<double>(classes) : 1.0;
    const double unit = std::sqrt(seen.mean_energy / std::max(counted, 1.0));
    for (size_t d = 0; d < D; ++d)
      reaches_[d] = energy_ > 0 ? weight * pull * energy_ / (config_.diagonal[d] * unit) : 0.0;
    for (size_t k = 0; k < outputs_; ++k)
      config_.loss->implicit_steps(&margins_[k * D], labels[k], reaches_.data(), D, &fits_[k * D],
                                   &moves_[k * D]);
    if (!SONLINE_KEEPS(implicit_step))
      for (size_t k = 0; k < outputs_; ++k)
        ablation::explicit_steps(*config_.loss, &margins_[k * D], labels[k], reaches_.data(), D,
                                 &moves_[k * D]);
    for (size_t k = 0; held_ && k < outputs_; ++k)
      config_.loss->fits(&later_margins_[k * D], labels[k], D, &later_fits_[k * D]);
    for (size_t j = 0; j < weights_; ++j) {
      const double move = std::clamp(moves_[j], -longest, longest);
      update_[j] = energy_ > 0 ? static_cast<T>(move / energy_) : T{0};
    }
    std::fill(update_.begin() + static_cast<std::ptrdiff_t>(weights_), update_.end(), T{0});
    if (!all_fit<T>(squares_.data(), row_.size))
      throw Diverged("a step is too large for the number type");
    check_room(row_.blocks.data(), directions_.data(), row_.size, energy_of_directions_,
               update_.data(), weights_);
  }
  void commit() {
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
  [[gnu::cold]] Vector squares(size_t slots) {
    blocks_.reserve(slots);
    Vector squares(slots);
    for (Slot slot = 0; slot < slots; ++slot) squares[slot] = blocks_.at(slot)[weights_];
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
    next.set_squares(squares(slots));
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
  void project_held(uint64_t next) {
    cycle_ = cycle_of(next);
    later_margins_ = margins_;
    for (size_t i = 0; i < row_.size; ++i) {
      const T* block = row_.blocks[i];
      if (!is_held(block, cycle_)) continue;
      for (size_t j = 0; j < weights_; ++j)
        later_margins_[j] += static_cast<double>(row_.x[i]) *
                             (static_cast<double>(block[weights_ + 1 + j]) - block[j]);
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

  // G with the gradient g, x̃ / √G (0 where there is no G yet), and Σ x̃² / √G.
  [[gnu::always_inline]] inline void prepare_directions(double gradient) {
    const size_t n = row_.size;
    if (squares_.size() < n + kLanes) {
      squares_.resize(2 * n + kLanes);
      directions_.resize(2 * n + kLanes);
    }
    T *squares = squares_.data(), *directions = directions_.data();
    T* const* blocks = row_.blocks.data();
    const T *x = row_.x, g = static_cast<T>(gradient);
#pragma GCC unroll 4
    for (size_t i = 0; i < n; ++i) squares[i] = blocks[i][weights_];
    Lanes sums{}, lengths{};
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const Lanes values = load(x + i), gx = g * values, square = load(squares + i) + gx * gx;
      Lanes direction;
      for (size_t l = 0; l < kLanes; ++l) direction[l] = values[l] / std::sqrt(square[l]);
      direction = square > T{0} ? direction : Lanes{};
      store(squares + i, square);
      store(directions + i, direction);
      sums += values * direction;
      lengths += direction * direction;
    }
    double energy = 0, length = 0;
    for (; i < n; ++i) {
      const T gx = g * x[i], square = squares[i] + gx * gx;
      const T direction = square > 0 ? x[i] / std::sqrt(square) : T{0};
      squares[i] = square;
      directions[i] = direction;
      energy += static_cast<double>(x[i]) * direction;
      length += static_cast<double>(direction) * direction;
    }
    for (size_t l = 0; l < kLanes; ++l) {
      energy += sums[l];
      length += lengths[l];
    }
    energy_ = energy;
    energy_of_directions_ = length;
  }
  SONLINE_AVX2 void prepare_directions_avx2(double g) { prepare_directions(g); }

  static constexpr size_t kLanes = 32 / sizeof(T);
  using Lanes = typename detail::Simd<T, kLanes>::Vector;
  using LanesInMemory = typename detail::Simd<T, kLanes>::InMemory;
  [[gnu::always_inline]] static inline Lanes load(const T* from) {
    return *reinterpret_cast<const LanesInMemory*>(from);
  }
  [[gnu::always_inline]] static inline void store(T* to, Lanes lanes) {
    *reinterpret_cast<LanesInMemory*>(to) = lanes;
  }

  Config config_;
  size_t outputs_;
  bool held_;
  size_t weights_, width_;  // weights of a feature: a member of each output
  Columns<T> columns_;
  BlockStore<T> blocks_;  // the weights, and then G
  Row<T> row_;
  // The row at hand.
  std::vector<T> sums_, update_, squares_, directions_;
  Vector margins_, later_margins_, fits_, later_fits_, reaches_, moves_;
  T cycle_ = 0;
  double energy_ = 0, energy_of_directions_ = 0;
};

}  // namespace sonline
