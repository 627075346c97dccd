// One output of a model: a number, or how likely one class is. It has members over a sketch
// (round.hpp), takes part in those with a step per feature (diagonal.hpp), and mixes all of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "sonline/adaptation.hpp"
#include "sonline/archive.hpp"
#include "sonline/config.hpp"
#include "sonline/diagonal.hpp"
#include "sonline/errors.hpp"
#include "sonline/inputs.hpp"
#include "sonline/mixture.hpp"
#include "sonline/round.hpp"
#include "sonline/targets.hpp"

namespace sonline {

template <class T, class S>
class Output {
 public:
  // `target` is the number of the class; kNever for one that no row has, kNumber for numbers.
  static constexpr int64_t kNever = -1, kNumber = -2;

  // `held`: the members with a step per feature have weights for later rows apart.
  Output(const Config& config, int64_t target, bool held)
      : config_(config),
        held_(held),
        target_(target),
        round_(std::in_place, config),
        mixture_(config, held),
        margins_(mixture_.size()),
        later_margins_(mixture_.size()),
        fits_(mixture_.size()),
        later_fits_(mixture_.size()) {
    if (config.scaling == Scaling::gradient) adaptation_.emplace();
  }

  int64_t target() const { return target_; }
  double sign() const { return sign_; }
  void set_target(int64_t target) { target_ = target; }
  // Stands for the opposite class from now on: it learns the opposite labels.
  void mirror(int64_t target) {
    target_ = target;
    sign_ = -sign_;
  }

  void hold(bool held) {
    held_ = held;
    mixture_.hold(held);
  }

  // Learns without the sketch from now on.
  [[gnu::cold]] void drop_sketch() {
    if (!round_) return;
    config_.members.clear();
    Mixture without(config_, held_);
    without.keep_last_of(mixture_);
    mixture_ = std::move(without);
    for (Vector* of_members : {&margins_, &later_margins_, &fits_, &later_fits_})
      of_members->resize(mixture_.size());
    round_.reset();
  }
  bool has_sketch() const { return round_.has_value(); }
  const Round<T, S>& round() const { return *round_; }
  const Mixture& mixture() const { return mixture_; }
  const Targets& targets() const { return targets_; }
  size_t bytes() const {
    return (round_ ? round_->bytes() : 0) + (adaptation_ ? adaptation_->bytes() : 0);
  }

  // The label of a row as the members see it.
  double label(double y) const {
    if (target_ == kNumber) return y;
    return static_cast<int64_t>(y) == target_ ? sign_ : -sign_;
  }

  // Predicts a row that is not learned. `diagonal` are the predictions of the other members.
  void predict(const InputRow<T>& row, const DiagonalPredictions& diagonal) {
    if (round_) round_->predict(adaptation_ ? adaptation_->apply(row) : row);
    collect(diagonal);
  }
  // Predicts a row that is learned next; `before` are the rows before it.
  void begin(const InputRow<T>& row, const DiagonalPredictions& diagonal, const RowsSeen& before) {
    if (adaptation_) {
      RowsSeen of_output = before;
      of_output.mean_energy = adaptation_->mean_energy();
      round_->begin(adaptation_->apply(row), of_output);
    } else if (round_) {
      round_->begin(row, before);
    }
    collect(diagonal);
  }
  // The prediction for the row at hand, as the next row or as a later one.
  double answer(bool later) const {
    const double z = mixture_.shrunk(blended(later), base_, later);
    return sign_ * (targets_.offset() + targets_.clipped(config_, z));
  }
  void prefetch(const InputRow<T>& next) {
    if (round_) round_->prefetch(next);
  }

  // Takes in the label of the row at hand (as label() returns it), after keep_labels(); returns the
  // label to learn.
  double take_label(double y, double weight, const RowsSeen& seen) {
    targets_.take(config_, y, weight, seen.count, seen.effective.unit());
    y -= targets_.offset();
    if (config_.loss->binary || !(config_.blended() || config_.unit_free)) return y;
    return targets_.take_loss(config_, targets_.clipped(config_, blended(false)),
                              targets_.clipped(config_, blended(true)), y);
  }
  double pull() const { return targets_.pull(config_); }
  double unit_of_gradients() const { return targets_.unit_of_gradients(config_); }

  // Learns the row at hand from what take_label() returned. If it throws, nothing has changed.
  void learn(const InputRow<T>& row, double y, double weight, size_t times, const RowsSeen& seen,
             const DiagonalPredictions& diagonal) {
    if (config_.clip)
      for (Vector* margins : {&margins_, &later_margins_})
        for (double& z : *margins) z = targets_.clipped(config_, z);
    if (round_) {
      if (adaptation_) adapt(row, y, weight, times);
      std::copy_n(margins_.begin(), round_->size(), round_->margins().begin());
      RowsSeen of_output = seen;  // the paper's adaptation changes the length of rows
      if (adaptation_) of_output.mean_energy = adaptation_->mean_with_row(seen.count);
      round_->learn(y, weight, pull(), times, targets_.size(config_), of_output,
                    mixture_.trivial() ? nullptr : fits_.data());
      if (adaptation_) adaptation_->commit(row, of_output.mean_energy);
    }
    if (mixture_.trivial()) return;
    std::copy(fits_.begin(), fits_.end() - diagonals(), later_fits_.begin());
    std::copy_n(diagonal.fits, diagonals(), fits_.end() - diagonals());
    std::copy_n(diagonal.later_fits, diagonals(), later_fits_.end() - diagonals());
    mixture_.learn({margins_.data(), fits_.data()}, {later_margins_.data(), later_fits_.data()},
                   base_, phase_of(seen.count), weight / seen.effective.unit(),
                   [&](bool later, bool from_fits, double* numbers, size_t n) {
                     if (!from_fits) {
                       for (size_t i = 0; i < n; ++i)
                         numbers[i] = targets_.clipped(config_, numbers[i]);
                       config_.loss->fits(numbers, y, n, numbers);
                     }
                     targets_.become_likelihoods(config_, later, numbers, n);
                   });
  }
  // Takes back what begin() and take_label() did.
  void undo() {
    targets_ = before_;
    if (round_) round_->undo();
  }
  void keep_labels() { before_ = targets_; }
  void start_label_range(double low, double high) { targets_.start_range(low, high); }

  // α of the first member, with what the sketch adds.
  double alpha(RowsSeen seen) {
    if (adaptation_) seen.mean_energy = adaptation_->mean_energy();
    return round_ ? round_->alpha(0, seen) : 0.0;
  }

  // The weights for later rows, by slot; `diagonal` are those of the other members. The weight of
  // the intercept includes offset and centres.
  [[gnu::cold]] std::vector<double> weights(const Inputs<T>& inputs, const Matrix& diagonal) {
    const size_t slots = inputs.slots(), E = config_.members.size();
    if (round_) round_->make_room(slots);
    if (adaptation_) adaptation_->make_room(slots);
    std::vector<double> weights(slots);
    Vector of_members(mixture_.size()), v(round_ ? round_->sketch().rank() : 0);
    const double factor = mixture_.factor(true);
    double base = (1 - factor) * targets_.base(config_) + targets_.offset();
    const Vector centres = inputs.centres();
    for (Slot slot = 0; slot < slots; ++slot) {
      if (slot == kInterceptSlot && !config_.intercept) continue;
      if (round_) round_->read(slot, of_members.data(), v.data());
      for (size_t d = 0; d < config_.diagonal.size(); ++d) of_members[E + d] = diagonal(d, slot);
      const double scale = adaptation_ ? adaptation_->scale(slot) : inputs.scale(slot);
      if (scale == 0) continue;
      weights[slot] = sign_ * factor * mixture_.blended(of_members.data(), true) / scale;
      if (centres[slot] != 0) weights[kInterceptSlot] -= centres[slot] * weights[slot];
    }
    if (config_.intercept) weights[kInterceptSlot] += sign_ * base;
    return weights;
  }

  // See knowledge.hpp: what merging needs beside the inputs, without the sign.
  [[gnu::cold]] void write_knowledge(StateWriter& archive, size_t slots, const Matrix& diagonal,
                                     const Matrix& later_diagonal) {
    Targets targets = targets_;
    if (sign_ < 0) targets.mirror();
    targets.state(archive);
    mixture_.state(archive);
    if (round_) {
      round_->write_knowledge(archive, slots);
    } else {
      archive.matrix("weights", Matrix(0, slots));
      archive.matrix("directions", Matrix(0, slots));
    }
    archive.matrix("diagonal", diagonal);
    archive.matrix("diagonal.later", later_diagonal);
    if (sign_ < 0)
      for (const char* name : {"weights", "diagonal", "diagonal.later"}) archive.negate(name);
    if (!adaptation_) return;
    adaptation_->make_room(slots);
    Vector squares(slots);
    for (Slot slot = 0; slot < slots; ++slot) squares[slot] = adaptation_->square(slot);
    archive.array("squares", squares);
    archive.scalar("mean_energy", adaptation_->mean_energy());
  }
  [[gnu::cold]] void read_knowledge(StateReader& archive, size_t slots) {
    sign_ = 1;
    if (archive.template get<double>("weights", 2).shape[0] == 0) drop_sketch();
    targets_.state(archive);
    mixture_.state(archive);
    if (round_) round_->read_knowledge(archive, slots);
    if (!adaptation_) return;
    Vector squares(slots);
    archive.array("squares", squares);
    archive.scalar("mean_energy", adaptation_->mean_energy());
    adaptation_->make_room(slots);
    for (Slot slot = 0; slot < slots; ++slot) adaptation_->set(slot, squares[slot]);
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, size_t slots) {
    bool sketched = has_sketch(), mirrored = sign_ < 0;
    archive.scalar("sketched", sketched);
    archive.scalar("mirrored", mirrored);
    if constexpr (Archive::reading) {
      if (!sketched && config_.diagonal.empty()) archive.fail("sketched", "is false");
      if (!sketched) drop_sketch();
      sign_ = mirrored ? -1 : 1;
    }
    targets_.state(archive);
    mixture_.state(archive);
    if (round_) round_->state(archive, slots);
    if (adaptation_) adaptation_->state(archive, slots);
  }

 private:
  std::ptrdiff_t diagonals() const { return static_cast<std::ptrdiff_t>(config_.diagonal.size()); }

  void collect(const DiagonalPredictions& diagonal) {
    if (round_) std::copy(round_->margins().begin(), round_->margins().end(), margins_.begin());
    std::copy(margins_.begin(), margins_.end() - diagonals(), later_margins_.begin());
    std::copy_n(diagonal.margins, diagonals(), margins_.end() - diagonals());
    std::copy_n(diagonal.later_margins, diagonals(), later_margins_.end() - diagonals());
    base_ = mixture_.trivial() ? 0.0 : targets_.base(config_);
  }

  // What members predict together. They keep to the bound, and so does their blend, but for
  // rounding.
  double blended(bool later) const {
    const double z = mixture_.blended((later ? later_margins_ : margins_).data(), later);
    if (!std::isfinite(z)) throw Diverged("the prediction is not a finite number");
    return std::clamp(z, -config_.bound, config_.bound);
  }

  // The gradient of this row changes the scales and with them the margins. An explicit step takes
  // its gradient at the prediction, the same that changed the scales.
  [[gnu::noinline]] void adapt(const InputRow<T>& row, double y, double weight, size_t times) {
    const double g = weight * config_.loss->slope(margins_[0], y);
    round_->begin_again(adaptation_->take(row, g), targets_.size(config_));
    if (round_->is_explicit() && times > 0) return;
    for (size_t e = 0; e < round_->size(); ++e)
      margins_[e] = later_margins_[e] = targets_.clipped(config_, round_->margins()[e]);
  }

  Config config_;
  bool held_;
  int64_t target_;
  double sign_ = 1;
  std::optional<Round<T, S>> round_;
  std::optional<Adaptation<T>> adaptation_;
  Mixture mixture_;
  Targets targets_, before_;
  Vector margins_, later_margins_, fits_, later_fits_;  // of the row at hand, by member
  double base_ = 0;                                     // … what predictions are shrunk towards
};

}  // namespace sonline
