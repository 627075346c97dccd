// One output of a model: a number, or how likely one class is. It has members over a sketch
// (round.hpp), takes part in those with a step per feature (diagonal.hpp), and mixes all of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "sonline/adaptation.hpp"
#include "sonline/archive.hpp"
#include "sonline/config.hpp"
#include "sonline/curves.hpp"
#include "sonline/diagonal.hpp"
#include "sonline/errors.hpp"
#include "sonline/exponential.hpp"
#include "sonline/inputs.hpp"
#include "sonline/intervals.hpp"
#include "sonline/mixture.hpp"
#include "sonline/round.hpp"
#include "sonline/targets.hpp"

namespace sonline {

// A row with hats, and the mean of |x|² of such rows.
template <class T>
struct CurvedRow {
  InputRow<T> row;
  double mean_energy_before = 0, mean_energy = 0;
};

template <class T, class S>
class Output {
 public:
  // `target` is the number of the class; kNever for one that no row has, kNumber for numbers.
  static constexpr int64_t kNever = -1, kNumber = -2;

  // `held`: the members with a step per feature have weights for later rows apart.
  Output(const Config& config, int64_t target, bool held)
      : config_(config),
        alpha_(config.members.at(0).alpha),
        held_(held),
        target_(target),
        round_(std::in_place, config),
        curved_(config.curved.empty() ? std::nullopt
                                      : std::make_optional<Round<T, S>>(config.of_curves())),
        mixture_(config, held),
        intervals_(target == kNumber, mixture_.one_use() && config.diagonal.empty() ? 1 : 2) {
    make_room();
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
    config_.curved.clear();
    Mixture without(config_, held_);
    without.keep_last_of(mixture_);
    mixture_ = std::move(without);
    make_room();
    round_.reset();
    curved_.reset();
  }
  bool has_sketch() const { return round_.has_value(); }
  const Round<T, S>& round() const { return *round_; }
  const Mixture& mixture() const { return mixture_; }
  const Targets& targets() const { return targets_; }
  size_t bytes() const {
    return (round_ ? round_->bytes() : 0) + (curved_ ? curved_->bytes() : 0) +
           (adaptation_ ? adaptation_->bytes() : 0);
  }

  // The label of a row as the members see it.
  double label(double y) const {
    if (target_ == kNumber) return y;
    return static_cast<int64_t>(y) == target_ ? sign_ : -sign_;
  }

  // Predicts a row that is not learned. `curved` is the same with hats, if there are curves, and
  // `diagonal` are the predictions of the other members.
  void predict(const InputRow<T>& row, const InputRow<T>& curved,
               const DiagonalPredictions& diagonal) {
    if (round_) round_->predict(adaptation_ ? adaptation_->apply(row) : row);
    if (curved_) curved_->predict(curved);
    collect(diagonal);
  }
  // Predicts a row that is learned next; `before` are the rows before it.
  void begin(const InputRow<T>& row, const CurvedRow<T>& curved,
             const DiagonalPredictions& diagonal, const RowsSeen& before) {
    if (adaptation_) {
      RowsSeen of_output = before;
      of_output.mean_energy = adaptation_->mean_energy();
      round_->begin(adaptation_->apply(row), of_output);
    } else if (round_) {
      round_->begin(row, before);
    }
    if (curved_) curved_->begin(curved.row, with_energy(before, curved.mean_energy_before));
    collect(diagonal);
  }
  // The prediction for the row at hand, as the next row or as a later one.
  double answer(bool later) const {
    return sign_ *
           finite(targets_.offset() + targets_.clipped(config_, blended(later) + targets_.gap()));
  }
  // The size of an error at the row at hand, of a number.
  double error_size(bool later, double uncertainty) const {
    const double z = answer(later);
    return intervals_.sizes(z, z, uncertainty)[later];
  }
  // The score up to which a label counts as expected (intervals.hpp); of classes, the label is this
  // class, or another one.
  double limit(bool own, bool later, double error) const {
    return intervals_.limit(target_ != kNumber && own == (sign_ > 0), later, error);
  }
  // Before a row is learned, and after that, so that intervals can be judged by it.
  [[gnu::noinline]] void expect(double uncertainty) {
    const double next = sign_ * answer(false);
    intervals_.expect(next, intervals_.two_uses() ? sign_ * answer(true) : next, uncertainty);
  }
  [[gnu::noinline]] void judge(double y) { intervals_.learn(label(y)); }
  // From the third class on, only the errors of rows of this class count.
  void forget_errors_of_others() {
    if (target_ != kNumber) intervals_.forget(sign_ < 0);
  }
  void keep_alphas_of(const Output& other) { intervals_.keep_alphas_of(other.intervals_); }

  // xᵀA⁻¹x of the row at hand: how little is known about such rows. A is that of the first member;
  // outside of its directions, it is G of the diagonal.
  [[gnu::noinline]] double uncertainty(const InputRow<T>& row, Diagonal<T>& diagonal,
                                       const RowsSeen& seen) {
    const auto beside = [&](double own, double whole) {
      return diagonal.members() > 0 ? diagonal.mean_inverse(own, seen.clock) : 1 / whole;
    };
    if (round_) return round_->uncertainty(seen, beside);
    const double own = alpha_ * seen.mean_energy * seen.effective.unit();
    if (own == 0) return std::numeric_limits<double>::infinity();  // no row yet
    return row.energy * beside(own, own) + row.unknown / own;
  }
  void prefetch(const InputRow<T>& next) {
    if (round_) round_->prefetch(next);
  }

  // Takes in the label of the row at hand (as label() returns it), after keep_labels(); returns the
  // label to learn.
  double take_label(double y, double weight, const RowsSeen& seen) {
    targets_.take(config_, y, weight, seen.count, seen.effective.unit());
    if (config_.loss->binary) return y;
    y = targets_.less_offset(config_, y);
    if (!(config_.blended() || config_.unit_free)) return y;
    return targets_.take_loss(config_, targets_.clipped(config_, blended(false)),
                              targets_.clipped(config_, blended(true)), y,
                              weight / seen.effective.unit());
  }
  double pull() const { return targets_.pull(config_); }
  double unit_of_gradients() const { return targets_.unit_of_gradients(config_); }

  // Computes the steps of all members for the row at hand, from what take_label() returned.
  // `diagonal_reaches` are those of the members with a step per feature; null if they have learned.
  void step(const InputRow<T>& row, const CurvedRow<T>& curved, double y, double weight,
            size_t times, const RowsSeen& seen, const double* diagonal_reaches) {
    const size_t n = mixture_.size(), D = config_.diagonal.size(), E = n - D;
    clip(margins_, 0, E);
    if (adaptation_) adapt(row, y, weight, times);
    if (mixture_.trivial() && (round_ || !diagonal_reaches)) return;  // one step, taken elsewhere
    if (round_) round_->reach(weight * pull(), in_units(with_mean_energy(seen)), reaches_.data());
    if (curved_)
      curved_->reach(weight * pull(), in_units(with_energy(seen, curved.mean_energy)),
                     reaches_.data() + config_.members.size());
    for (size_t d = 0; d < D; ++d) {
      reaches_[E + d] = diagonal_reaches ? diagonal_reaches[d] : 0.0;
      margins_[n + d] = later_margins_[E + d];  // their fits are needed, too
    }
    std::fill(labels_.begin(), labels_.end(), y);
    implicit_steps(*config_.loss, margins_.data(), labels_.data(), reaches_.data(), labels_.size(),
                   fits_.data(), moves_.data());
    clip(margins_, E, n);
    clip(later_margins_, 0, n);
  }
  const double* diagonal_moves() const {
    return moves_.data() + mixture_.size() - config_.diagonal.size();
  }

  // Learns the row after step(). If it throws, nothing has changed.
  void learn(const InputRow<T>& row, const CurvedRow<T>& curved, double y, double weight,
             size_t times, const RowsSeen& seen) {
    if (round_) {
      if (config_.clip || adaptation_)
        std::copy_n(margins_.begin(), round_->size(), round_->margins().begin());
      const RowsSeen of_output = with_mean_energy(seen);
      round_->learn(y, weight, pull(), times, targets_.size(config_), in_units(of_output),
                    mixture_.trivial() ? nullptr : moves_.data());
      if (adaptation_) adaptation_->commit(row, of_output.mean_energy);
    }
    if (curved_) learn_curved(y, weight, times, in_units(with_energy(seen, curved.mean_energy)));
    if (mixture_.trivial()) return;
    const size_t n = mixture_.size(), D = config_.diagonal.size();
    later_fits_ = fits_;
    for (size_t d = 0; d < D; ++d) later_fits_[n - D + d] = fits_[n + d];
    mixture_.learn(
        {margins_.data(), fits_.data()}, {later_margins_.data(), later_fits_.data()}, base_,
        phase_of(seen.count), weight / seen.effective.unit(),
        [&](double* predictions, size_t count, const Mixture::Judged& judged) {
          for (size_t i = 0; config_.clip && i < count; ++i)
            predictions[i] = targets_.clipped(config_, predictions[i]);
          config_.loss->judge(predictions, y, count, judged.fits, judged.slopes, judged.curvatures);
          targets_.divide_by_unit(config_, judged.slopes, judged.curvatures, count);
        },
        [&](bool later, double* fits, size_t count) {
          targets_.become_likelihoods(config_, later, fits, count);
        });
    if (config_.loss->log_link) balance(weight, seen);
  }
  // Takes back what begin() and take_label() did.
  void undo() {
    targets_ = before_;
    if (round_) round_->undo();
    if (curved_) curved_->undo();
  }
  // Removes the features of a row that undo() took back.
  void remove_from(size_t slots) {
    if (round_) round_->remove_from(slots);
  }
  void keep_labels() { before_ = targets_; }
  void start_label_range(double low, double high) { targets_.start_range(low, high); }

  // α of the first member, with what the sketch adds.
  double alpha(RowsSeen seen) {
    if (adaptation_) seen.mean_energy = adaptation_->mean_energy();
    return round_ ? round_->alpha(0, in_units(seen)) : 0.0;
  }

  // The weights for later rows, by slot; `diagonal` are those of the other members. The weight of
  // the intercept includes offset and centres.
  [[gnu::cold]] std::vector<double> weights(const Inputs<T>& inputs, const Curves& curves,
                                            const Matrix& diagonal) {
    const size_t slots = inputs.slots(), E = config_.members.size(), C = config_.curved.size();
    if (round_) round_->make_room(slots);
    if (curved_) curved_->make_room(curves.slots());
    if (adaptation_) adaptation_->make_room(slots);
    std::vector<double> weights(slots);
    Vector of_members(mixture_.size());
    Vector v(
        std::max(round_ ? round_->sketch().rank() : 0, curved_ ? curved_->sketch().rank() : 0));
    const double base =
        mixture_.constant(targets_.base(config_), true) + targets_.offset() + targets_.gap();
    const Vector centres = inputs.centres();
    for (Slot slot = 0; slot < slots; ++slot) {
      if (slot == kInterceptSlot && !config_.intercept) continue;
      const double scale = inputs.scale(slot);
      if (scale == 0) continue;
      if (round_) round_->read(slot, of_members.data(), v.data());
      if (curved_) curved_->read(curves.own(slot), of_members.data() + E, v.data());
      for (size_t d = 0; d < config_.diagonal.size(); ++d)
        of_members[E + C + d] = diagonal(d, slot);
      for (size_t e = 0; adaptation_ && e < E; ++e) of_members[e] /= adaptation_->scale(slot);
      weights[slot] = sign_ * mixture_.blended(of_members.data(), true) / scale;
      if (centres[slot] != 0) weights[kInterceptSlot] -= centres[slot] * weights[slot];
    }
    if (config_.intercept) weights[kInterceptSlot] += sign_ * base;
    return weights;
  }

  // What hats add to the prediction, by slot of curved rows.
  [[gnu::cold]] Vector hat_weights(const Curves& curves) {
    Vector weights(curves.slots());
    if (!curved_) return weights;
    curved_->make_room(curves.slots());
    Vector of_members(mixture_.size()), v(curved_->sketch().rank());
    for (Slot slot = 0; slot < curves.slots(); ++slot) {
      curved_->read(slot, of_members.data() + config_.members.size(), v.data());
      weights[slot] = sign_ * Curves::kHeight * mixture_.blended(of_members.data(), true);
    }
    return weights;
  }

  // See knowledge.hpp: what merging needs beside the inputs, without the sign.
  [[gnu::cold]] void write_knowledge(StateWriter& archive, size_t slots, size_t curved_slots,
                                     const Clock& clock, const Matrix& diagonal,
                                     const Matrix& later_diagonal) {
    Targets targets = targets_;
    if (sign_ < 0) targets.mirror();
    targets.state(archive, config_.loss->log_link);
    Mixture mixture = mixture_;
    if (sign_ < 0) mixture.mirror();
    mixture.state(archive);
    Intervals intervals = intervals_;
    if (sign_ < 0) intervals.mirror();
    intervals.state(archive);
    if (round_) {
      round_->write_knowledge(archive, slots, clock);
    } else {
      archive.matrix("weights", Matrix(0, slots));
      archive.matrix("directions", Matrix(0, slots));
    }
    archive.matrix("diagonal", diagonal);
    archive.matrix("diagonal.later", later_diagonal);
    if (curved_)
      archive.within("curved.", [&] { curved_->write_knowledge(archive, curved_slots, clock); });
    if (sign_ < 0 && curved_) archive.negate("curved.weights");
    if (sign_ < 0)
      for (const char* name : {"weights", "diagonal", "diagonal.later"}) archive.negate(name);
    if (!adaptation_) return;
    adaptation_->make_room(slots);
    Vector squares(slots);
    for (Slot slot = 0; slot < slots; ++slot) squares[slot] = adaptation_->square(slot);
    archive.array("squares", squares);
    archive.scalar("mean_energy", adaptation_->mean_energy());
  }
  [[gnu::cold]] void read_knowledge(StateReader& archive, size_t slots, size_t curved_slots) {
    sign_ = 1;
    if (archive.template get<double>("weights", 2).shape[0] == 0) drop_sketch();
    targets_.state(archive, config_.loss->log_link);
    mixture_.state(archive);
    if (archive.has("intervals.alphas"))
      intervals_.state(archive);  // merging adds them to its result
    if (round_) round_->read_knowledge(archive, slots);
    if (curved_) archive.within("curved.", [&] { curved_->read_knowledge(archive, curved_slots); });
    if (!adaptation_) return;
    Vector squares(slots);
    archive.array("squares", squares);
    archive.scalar("mean_energy", adaptation_->mean_energy());
    adaptation_->make_room(slots);
    for (Slot slot = 0; slot < slots; ++slot) adaptation_->set(slot, squares[slot]);
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, size_t slots, size_t curved_slots) {
    bool sketched = has_sketch(), mirrored = sign_ < 0;
    archive.scalar("sketched", sketched);
    archive.scalar("mirrored", mirrored);
    if constexpr (Archive::reading) {
      if (!sketched && config_.diagonal.empty()) archive.fail("sketched", "is false");
      if (!sketched) drop_sketch();
      sign_ = mirrored ? -1 : 1;
    }
    targets_.state(archive, config_.loss->log_link);
    mixture_.state(archive);
    intervals_.state(archive);
    if (round_) round_->state(archive, slots);
    if (curved_) archive.within("curved.", [&] { curved_->state(archive, curved_slots); });
    if (adaptation_) adaptation_->state(archive, slots);
  }

 private:
  static RowsSeen with_energy(RowsSeen seen, double mean_energy) {
    seen.mean_energy = mean_energy;
    return seen;
  }

  // See Targets::balance. A step of length δ has δᵀAδ = move² / xᵀA⁻¹x.
  [[gnu::noinline]] void balance(double weight, const RowsSeen& seen) {
    const size_t n = mixture_.size();
    const auto mean = [&] { return mixture_.blended(labels_.data(), true); };
    for (size_t e = 0; e < n; ++e)
      labels_[e] = reaches_[e] > 0 ? weight * moves_[e] * moves_[e] / reaches_[e] : 0.0;
    const double squares = mean(), z = mixture_.blended(later_margins_.data(), true);
    for (size_t e = 0; e < n; ++e) {
      const double gap = std::clamp(later_margins_[e] - z, -1.0, 1.0);
      labels_[e] = gap * gap;
    }
    const double rows = weight / seen.effective.unit() * exp_of(z - base_);
    targets_.balance(config_, squares, mean(), rows);
  }

  // In the unit of α.
  RowsSeen in_units(RowsSeen seen) const {
    seen.mean_energy *= targets_.unit_of_alpha(config_);
    return seen;
  }

  // The other members have learned the row by now: should this one be unable to, it leaves it out.
  void learn_curved(double y, double weight, size_t times, const RowsSeen& seen) {
    const size_t first = config_.members.size();
    std::copy_n(margins_.data() + first, curved_->size(), curved_->margins().begin());
    try {
      curved_->learn(y, weight, pull(), times, targets_.size(config_), seen, moves_.data() + first);
    } catch (const Diverged&) {
    }
  }

  // Of the row at hand. Behind the members come those of the diagonal once more, with their weights
  // for later rows, and what makes the vectors whole.
  void make_room() {
    const size_t n = whole_quads(mixture_.size() + config_.diagonal.size());
    for (Vector* room :
         {&margins_, &labels_, &reaches_, &fits_, &moves_, &later_margins_, &later_fits_})
      room->assign(n, 0.0);
  }

  void collect(const DiagonalPredictions& diagonal) {
    const size_t D = config_.diagonal.size(), E = mixture_.size() - D;
    for (size_t e = 0; e < E; ++e)
      margins_[e] = later_margins_[e] = e < config_.members.size()
                                            ? round_->margins()[e]
                                            : curved_->margins()[e - config_.members.size()];
    for (size_t d = 0; d < D; ++d) {
      margins_[E + d] = diagonal.margins[d];
      later_margins_[E + d] = diagonal.later_margins[d];
    }
    base_ = mixture_.trivial() ? 0.0 : targets_.base(config_);
    blends_[0] = mixture_.predict(margins_.data(), base_, false);
    blends_[1] = mixture_.predict(later_margins_.data(), base_, true);
  }

  void clip(Vector& margins, size_t from, size_t to) const {
    for (size_t e = from; config_.clip && e < to; ++e)
      margins[e] = targets_.clipped(config_, margins[e]);
  }

  // The paper's adaptation changes the length of rows.
  RowsSeen with_mean_energy(RowsSeen seen) const {
    if (adaptation_) seen.mean_energy = adaptation_->mean_with_row(seen.count);
    return seen;
  }

  // What members predict together. They keep to the bound, but not if they are calibrated.
  double blended(bool later) const {
    return std::clamp(finite(blends_[later]), -config_.bound, config_.bound);
  }
  static double finite(double z) {
    if (!std::isfinite(z)) throw Diverged("the prediction is not a finite number");
    return z;
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
  double alpha_;  // of the first member, which may be gone
  bool held_;
  int64_t target_;
  double sign_ = 1;
  std::optional<Round<T, S>> round_;
  std::optional<Round<T, S>> curved_;  // over rows with hats
  std::optional<Adaptation<T>> adaptation_;
  Mixture mixture_;
  Intervals intervals_;
  Targets targets_, before_;
  Vector margins_, labels_, reaches_, fits_, moves_, later_margins_,
      later_fits_;             // see make_room()
  double base_ = 0;            // … what predictions are shrunk towards
  double blends_[2] = {0, 0};  // … what the members predict together, for the next row and later
};

}  // namespace sonline
