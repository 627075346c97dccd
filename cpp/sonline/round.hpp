// Algorithm 1 of the paper over one sketch, for one output.
//
// One round, with x = x̃ of the inputs:
//   z = w·x                        the prediction
//   projection                     onto |w·x| ≤ C, if there is a bound (Lemma 1)
//   w ← w − ω ℓ'(w'·x) A⁻¹x        the step, w' the weights after it
//   (S, H) ← SketchUpdate(ĝ)       ĝ = c x, c² = ω ℓ''(w'·x) or ω (σ + η) ℓ'(z)²
// The step is implicit (Kulis & Bartlett 2010): gradient and second derivative are taken where the
// step ends, and A is the matrix of the rounds before. Such a step cannot overshoot or change its
// sign, however small α is. The paper's step (lines 8 and 9) takes both at z, and the A that
// includes ĝ; `explicit_step` chooses it. For the full matrix, squared loss and Hessian curvature
// the two are the same.
//
// Several weight vectors may share the sketch: each has its α, and counts no more rows in A than it
// remembers, A = α I + part · S. The curvature is that of the first.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "sonline/ablation.hpp"
#include "sonline/archive.hpp"
#include "sonline/blocks.hpp"
#include "sonline/config.hpp"
#include "sonline/errors.hpp"
#include "sonline/phase.hpp"
#include "sonline/row.hpp"
#include "sonline/rows_seen.hpp"

namespace sonline {

inline constexpr double kLargestSquare = 1e280;    // sums of them must stay finite
inline constexpr double kSmallestSquare = 1e-290;  // its digits must be normal numbers

template <class T, class S>
class Round {
 public:
  [[gnu::cold]] explicit Round(const Config& config)
      : config_(config),
        // With α = 0 the previous A is singular along a new direction.
        explicit_(config.explicit_step || (config.sketch.fixed_alpha && config.sketch.alpha == 0)),
        sketch_(config.sketch),
        blocks_(sketch_.width()),
        margins_(config.members.size()),
        energies_(margins_.size()),
        alphas_(margins_.size()),
        steps_(margins_.size()) {
    blocks_.reserve(1);
  }

  const S& sketch() const { return sketch_; }
  const BlockStore<T>& blocks() const { return blocks_; }
  size_t size() const { return margins_.size(); }
  bool is_explicit() const { return explicit_; }
  size_t bytes() const {
    size_t bytes = blocks_.bytes();
    if constexpr (requires { sketch_.bytes(); }) bytes += sketch_.bytes();
    return bytes;
  }

  // The predictions z of all weight vectors for the row at hand.
  Vector& margins() { return margins_; }

  // Of a row that is not learned. Changes nothing that is saved.
  void predict(const InputRow<T>& row) {
    blocks_.reserve(row.slots_seen);
    row_.see(row, blocks_);
    if constexpr (requires { sketch_.view(row_); }) {
      sketch_.view(row_);
      row_.forget_blocks();
    }
    project();
    for (double& z : margins_) z = std::clamp(z, -config_.bound, config_.bound);
  }

  // Of a row that is learned next; `before` are the rows before it.
  void begin(const InputRow<T>& row, const RowsSeen& before) {
    blocks_.reserve(row.slots_seen);
    row_.see(row, blocks_);
    begun_ = epoch_;
    pass_to(before.clock.epoch());
    // A sketch changes other features than those of a row lazily: brings these up to date.
    if constexpr (requires { sketch_.refresh(row_); }) sketch_.refresh(row_);
    if constexpr (requires { sketch_.begin_row(); }) sketch_.begin_row();
    open_ = true;
    project();
    if (before.count > 0 && std::isfinite(config_.bound)) project_onto_bound(before);
  }
  // The same row with other values x, for the paper's diagonal adaptation.
  void begin_again(const InputRow<T>& row, double label_size) {
    if (projected_) {
      sketch_.commit(row_, blocks_, row_.slots_seen, label_size);
      if constexpr (requires { sketch_.refresh(row_); }) sketch_.refresh(row_);
    }
    row_.see(row, blocks_);
    project();
  }
  void prefetch(const InputRow<T>& next) {
    blocks_.reserve(next.slots_seen);
    row_.look_ahead(next, blocks_);
  }

  // How far the loss can pull the prediction of each weight vector, `pull` · xᵀA⁻¹x: the q of
  // Loss::implicit_steps. `pull` is ω, times what scales the loss.
  void reach(double pull, const RowsSeen& seen, double* reaches) {
    const double unit = unit_of_alpha(seen), rows = seen.effective.count(), tail = sketch_.tail();
    for (size_t e = 0; e < size(); ++e) {
      const double part = this->part(e, rows), own = config_.members[e].alpha * unit + tail * part;
      reaches[e] = own;
      alphas_[e] = beside_sketch(own, part);
    }
    energies();
    pull *= seen.clock.weight();
    for (size_t e = 0; e < size(); ++e)
      reaches[e] = row_.energy > 0 ? pull * energies_[e] / reaches[e] : 0.0;
  }

  // xᵀA⁻¹x of the row at hand, with the A of the first weight vector. Outside of the directions of
  // the sketch, beside(α without the tail, with it) takes the place of A⁻¹: the tail is the same
  // for features that are frequent and for others. One that was never seen has x̃ = 1 and no row in
  // A.
  template <class Beside>
  double uncertainty(const RowsSeen& seen, Beside&& beside) {
    const double part = this->part(0, seen.effective.count());
    // The sketch has its own unit, see forgetting.hpp.
    const double now = counted(seen.clock);
    const double own = config_.members[0].alpha * unit_of_alpha(seen) / unit_of_rows(seen.clock);
    const double in_sketch = (S::kAbsorbFirst ? own : own / now) + sketch_.tail() * part;
    const double whole = in_sketch * now, alpha = beside_sketch(in_sketch, part);
    if (whole == 0 && config_.relative) return std::numeric_limits<double>::infinity();  // no row
    if constexpr (requires { S::kFullMatrix; }) {
      const S before = sketch_;  // which would keep a factor for this α
      const double energy = sketch_.energy(0, alpha);
      sketch_ = before;
      return whole > 0 ? (energy + row_.unknown) / whole : energy / now;
    } else {
      double outside;
      if constexpr (requires { sketch_.outside(); })
        outside = sketch_.outside();
      else
        outside = sketch_.energy(0, kNothing * alpha);
      const double along = std::max(sketch_.energy(0, alpha) - outside, 0.0);
      return along / whole + outside * beside(own, whole) + row_.unknown / own;
    }
  }

  // Learns the row from its label y and weight ω. `pull` scales the loss, `times` is how often the
  // sketch counts the row, and `label_size` the size of a typical label, by which rounding errors
  // are judged. `moves` are the implicit steps of the predictions, after reach(); if it is null,
  // they are computed here. If it throws, nothing has changed.
  void learn(double y, double weight, double pull, size_t times, double label_size,
             const RowsSeen& seen, const double* moves) {
    const Loss& loss = *config_.loss;
    const double z = margins_[0];
    const double sketched = weight * seen.clock.weight();
    const bool implicit = !explicit_ || times == 0;
    const double g = needs_slope() ? sketched * loss.slope(z, y) : 0.0;
    try {
      double end = z;
      if (implicit && !S::kAbsorbFirst) end += step(moves, y, weight * pull, seen);
      if (!SONLINE_KEEPS(curvature_at_end)) end = z;
      if (times > 0) absorb(root_of_curvature(end, z, y, sketched, times, seen), g, times, seen);
      if (implicit && S::kAbsorbFirst) step(nullptr, y, weight * pull, seen);
      if (!implicit) explicit_step(g, seen);
      sketch_.commit(row_, blocks_, row_.slots_seen, label_size);
    } catch (const std::exception&) {
      undo();
      throw;
    }
    open_ = false;
    begun_ = epoch_;
  }

  // Takes back what begin() did for a row that is not learned after all.
  void undo() {
    if (std::exchange(open_, false)) {
      sketch_.undo();
      undone_.assign(row_.slots, row_.slots + row_.size);
    }
    pass_to(begun_);
  }
  // Clears the blocks of features from `slots` on, which only a row had that undo() took back: a
  // projection onto the bound may have been written to them.
  [[gnu::cold]] void remove_from(size_t slots) {
    for (const Slot slot : undone_) {
      if (slot < slots) continue;
      std::fill_n(blocks_.at(slot), blocks_.stride(), T{0});
      if constexpr (requires { sketch_.forget_feature(slot); }) sketch_.forget_feature(slot);
    }
    undone_.clear();
  }

  // α of a weight vector, with what the sketch adds.
  double alpha(size_t e, const RowsSeen& seen) const {
    return config_.members[e].alpha * unit_of_alpha(seen) / unit_of_rows(seen.clock) +
           sketch_.tail() * counted(seen.clock) * part(e, seen.effective.count());
  }
  // What an eigenvalue of the sketch, or its tail, counts now for each unit of it.
  double counted(const Clock& clock) const {
    return Clock::carried(static_cast<int64_t>(clock.epoch() - epoch_)) / clock.weight();
  }

  // Weights, and the columns of the basis, by slot.
  [[gnu::cold]] void read(Slot slot, double* weights, double* v) const {
    sketch_.read(slot, blocks_.at(slot), weights, v);
  }
  [[gnu::cold]] void make_room(size_t slots) { blocks_.reserve(slots); }

  [[gnu::cold]] void write_knowledge(StateWriter& archive, size_t slots, const Clock& clock) {
    blocks_.reserve(slots);
    const size_t E = size(), k = sketch_.rank();
    Matrix weights(E, slots), directions(k, slots);
    Vector w(E), v(k);
    for (Slot slot = 0; slot < slots; ++slot) {
      read(slot, w.data(), v.data());
      for (size_t e = 0; e < E; ++e) weights(e, slot) = w[e];
      for (size_t i = 0; i < k; ++i) directions(i, slot) = v[i];
    }
    archive.matrix("weights", weights);
    archive.matrix("directions", directions);
    sketch_.write_knowledge(archive, blocks_, slots, counted(clock));
  }
  [[gnu::cold]] void read_knowledge(StateReader& archive, size_t slots) {
    blocks_.reserve(slots);
    sketch_.read_knowledge(archive, blocks_, slots);
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, size_t slots) {
    blocks_.reserve(slots);
    blocks_.state(archive, "blocks", slots);
    sketch_.state(archive, slots);
    if (config_.forgets()) archive.scalar("sketch.epoch", epoch_);
    if constexpr (Archive::reading) row_ = Row<T>();
  }

 private:
  static constexpr double kPlain = 1e300;     // α beside which a sketch is nothing
  static constexpr double kNothing = 1e-100;  // of α: beside a sketch it is nothing

  bool needs_slope() const { return explicit_ || S::kAbsorbFirst; }

  void project() {
    sketch_.project(row_);
    projected_ = false;
    for (size_t e = 0; e < size(); ++e) {
      margins_[e] = sketch_.margin(e);
      if (!std::isfinite(margins_[e])) throw Diverged("the prediction is not a finite number");
    }
  }

  // Which part of A a weight vector keeps after so many rows.
  double part(size_t e, double rows) const {
    const double memory = config_.members[e].memory;
    return rows > memory ? memory / rows : 1.0;
  }
  // Sums of the sketch weigh later rows more, and so α beside them; that of AdaGrad is a factor.
  static double unit_of_rows(const Clock& clock) { return S::kAbsorbFirst ? 1.0 : clock.weight(); }
  double unit_of_alpha(const RowsSeen& seen) const {
    const double unit = !config_.relative ? 1.0
                        : config_.root    ? std::sqrt(seen.mean_energy)
                                          : seen.mean_energy;
    return unit * (config_.blended() ? seen.effective.unit() : 1.0) * unit_of_rows(seen.clock);
  }
  // α in the unit of the sketch, with what that adds.
  double own_alpha(size_t e, const RowsSeen& seen) const {
    return config_.members[e].alpha * unit_of_alpha(seen) +
           sketch_.tail() * part(e, seen.effective.count());
  }
  // The α of A / part, as the sketch knows it: (α / part) I + S.
  static double beside_sketch(double alpha, double part) {
    return part > 0 ? std::min(alpha / part, kPlain) : kPlain;
  }
  void energies() {
    if constexpr (requires { sketch_.energies(alphas_.data(), energies_.data()); })
      sketch_.energies(alphas_.data(), energies_.data());
    else
      for (size_t e = 0; e < size(); ++e) energies_[e] = sketch_.energy(e, alphas_[e]);
  }
  void descend() {
    if constexpr (requires { sketch_.descend(steps_.data()); })
      sketch_.descend(steps_.data());
    else
      for (size_t e = 0; e < size(); ++e)
        if (steps_[e] != 0) sketch_.descend(e, steps_[e], alphas_[e]);
  }

  // Between rounds: the sums of the sketch get the unit of another epoch.
  void pass_to(uint64_t epoch) {
    if (epoch == epoch_) return;
    sketch_.pass(static_cast<int64_t>(epoch - epoch_));
    epoch_ = epoch;
  }

  // The implicit step of each weight vector; returns how far that of the first moves z.
  double step(const double* moves, double y, double pull, const RowsSeen& seen) {
    double alone = 0;
    if (!moves) {
      double q = 0;
      reach(pull, seen, &q);
      alone = config_.loss->implicit_step(margins_[0], y, q);
      moves = &alone;
    }
    const double longest = longest_move(config_, seen);
    const bool learns = phase_of(seen.count) == Phase::learn || !SONLINE_KEEPS(phases);
    for (size_t e = 0; e < size(); ++e) {
      const double move = std::clamp(moves[e], -longest, longest);
      const bool steps = move != 0 && (learns || config_.members[e].use != Use::later);
      steps_[e] = steps ? -move / energies_[e] : 0.0;
    }
    descend();
    return std::clamp(moves[0], -longest, longest);
  }

  [[gnu::noinline]] void explicit_step(double g, const RowsSeen& seen) {
    const double alpha = own_alpha(0, seen);
    if (g != 0 && row_.energy > 0) sketch_.descend(0, alpha > 0 ? g / alpha : g, alpha);
  }

  void absorb(double c, double g, size_t times, const RowsSeen& seen) {
    const double unit = seen.clock.weight();
    sketch_.absorb(c, g, seen.rows * unit, features(), static_cast<double>(times), unit);
  }

  // The c of ĝ = c x; 0 if the sketch does not need it, or if its square has lost its digits.
  double root_of_curvature(double end, double z, double y, double weight, size_t times,
                           const RowsSeen& seen) const {
    if (!S::kTakesCurvature) return 0;
    const double c = std::sqrt(weight * curvature(end, z, y, seen));
    if (!(c * c * row_.energy * static_cast<double>(times) <= kLargestSquare))
      throw Diverged("a gradient is too large");
    return c * c * row_.energy < kSmallestSquare ? 0.0 : c;
  }
  double curvature(double end, double z, double y, const RowsSeen& seen) const {
    if (config_.hessian) return config_.loss->curvature(end, y);
    // Steps often end exactly at the kink of a hinge: rounding must not decide which slope it has.
    const double slope = config_.loss->slope(explicit_ ? z : z * (1 + 1e-6), y);
    return (config_.sigma + eta(seen.rows)) * slope * slope;
  }
  double eta(double t) const {
    if (!config_.eta_convex) return config_.eta;
    const double C = std::isfinite(config_.bound) ? config_.bound : 1.0;
    const double L = config_.loss->lipschitz(C);
    size_t dimension = config_.sketch.size;
    if constexpr (requires { S::kFullMatrix; }) dimension = features();
    return std::sqrt(static_cast<double>(dimension) / (C * C * L * L * t));
  }

  // Features seen up to the row at hand; the next row may have brought more.
  size_t features() const { return row_.slots_seen - !config_.intercept; }

  // Lemma 1.
  [[gnu::noinline]] void project_onto_bound(const RowsSeen& seen) {
    for (size_t e = 0; e < size(); ++e) {
      double& margin = margins_[e];
      if (!(std::fabs(margin) - config_.bound > 0)) continue;
      const double target = std::copysign(config_.bound, margin);
      const double part = this->part(e, seen.effective.count());
      const double alpha = beside_sketch(own_alpha(e, seen), part);
      const double energy = sketch_.energy(e, alpha);
      if (energy > 0) sketch_.descend(e, (margin - target) / energy, alpha);
      margin = target;
      projected_ = true;
    }
  }

  Config config_;
  bool explicit_;  // the paper's step
  S sketch_;
  BlockStore<T> blocks_;
  Row<T> row_;
  bool projected_ = false;          // onto the bound, in this round
  bool open_ = false;               // between begin() and the end of learn() or undo()
  std::vector<Slot> undone_;        // of the row that undo() took back
  uint64_t epoch_ = 0, begun_ = 0;  // of the sums of the sketch: now, and before this round
  // In this round, by weight vector.
  Vector margins_, energies_, alphas_, steps_;

 public:
  static constexpr double kLongestMove = 3;  // for each row so far
  // How far a step may move a prediction: members of a blend do not get sure of a class by the
  // first rows.
  static double longest_move(const Config& config, const RowsSeen& seen) {
    constexpr double kAny = std::numeric_limits<double>::infinity();
    if (!config.blended() || !config.loss->binary) return kAny;
    return SONLINE_KEEPS(first_steps) ? kLongestMove * seen.effective.count() : kAny;
  }
};

}  // namespace sonline
