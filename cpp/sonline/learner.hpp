// The learner: Algorithm 1 over a stream of rows, for one sketch and one number type.
//
// One round:
//   x̃ = x / scales                 RMS scales take the row in first
//   z = w·x̃                        the prediction
//   projection                     onto |w·x̃| ≤ C, if there is a bound
//   w ← w − ω ℓ'(w'·x̃) A⁻¹x̃        the step, w' the weights after it
//   (S, H) ← SketchUpdate(ĝ)       ĝ = c x̃, c² = ω (σ + η) ℓ'(z)² or ω ℓ''(z)
// The step is implicit (Kulis & Bartlett 2010): its gradient is taken where the step ends, and A is
// that of the rounds before. Such a step cannot overshoot or change its sign, however small α is,
// and two runs that differ by rounding do not drift apart. The paper's step (Algorithm 1, lines 8
// and 9) takes the gradient at z and the A that includes ĝ; explicit_step chooses it. For the full
// matrix, squared loss and Hessian curvature the two are the same.
//
// With several experts (alpha = "auto") each has its own w, α and memory, all share the sketch, and
// the blend of their predictions counts. An expert with a memory of M rows takes A to be what M
// rows would have left of it. All of it happens in the coordinates x̃; weights() divides the scale
// out.
//
// Labels that are numbers (unit_free): w·x̃ predicts y − offset, and y is moved towards the
// prediction where it is an outlier.
//
// The sketch need not take in every row: A grows like t, so that late in a stream one row changes
// it by one part in t. With sketch_every = r one row of each r is drawn and counts r times, which
// leaves the expectation of A what it was. RMS scales are learned from the same rows (but see
// scales.hpp).
//
// If the first rows show features with large offsets, they are learned again with centred features
// (first_rows.hpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "sonline/ablation.hpp"
#include "sonline/archive.hpp"
#include "sonline/batch.hpp"
#include "sonline/config.hpp"
#include "sonline/ensemble.hpp"
#include "sonline/errors.hpp"
#include "sonline/experts.hpp"
#include "sonline/feature_table.hpp"
#include "sonline/first_rows.hpp"
#include "sonline/row.hpp"

namespace sonline {

// Compiled for each sketch and number type: what is not called for every row is `cold`, and larger
// parts of a round are not inlined, so that they are compiled once.
template <class T, class S>
class Learner {
 public:
  [[gnu::cold]] explicit Learner(const Config& config)
      : config_(config),
        // With α = 0 the A of before has no inverse along a new direction.
        explicit_(config.explicit_step || (config.sketch.fixed_alpha && config.sketch.alpha == 0)),
        needs_slope_(explicit_ || S::kAbsorbFirst || config.scaling == Scaling::gradient),
        sketch_(config.sketch),
        table_(config.scaling, sketch_),
        first_rows_(FirstRows::may_centre(config)),
        experts_(config.experts.size()) {}

  // Learns the rows of the batch, with the predictions made before each. `row_number` says how far
  // it came if there is an exception. While a row is learned, the blocks of the next are fetched.
  // The rows are those that a learner alike has prepared, where they are `ready`; as they are here,
  // they go to `made`, if there is one.
  void learn(const Batch& batch, const double* labels, const double* weights, double* predictions,
             size_t& row_number, const PreparedRows<T>* ready, PreparedRows<T>* made) {
    const auto weight = [&](size_t row) { return weights ? weights[row] : 1.0; };
    const auto resolve_next = [&](size_t row) {
      if (row == batch.rows) return;
      const PreparedRow<T>* prepared = ready ? ready->find(row) : nullptr;
      prepared           ? take_over(*prepared, rows_[at_ ^ 1])
      : weight(row) == 0 ? table_.template resolve<false>(batch, row, config_, rows_[at_ ^ 1])
                         : table_.template resolve<true>(batch, row, config_, rows_[at_ ^ 1]);
    };
    alike_ = 0;
    size_t slots = table_.size();  // before the row at hand
    row_number = 0;
    try {
      resolve_next(0);
      for (; row_number < batch.rows; ++row_number) {
        at_ ^= 1;
        resolve_next(row_number + 1);
        const double w = weight(row_number);
        made_ = made ? &(*made)[row_number] : nullptr;
        predictions[row_number] = w == 0 ? predict_row() : step(labels[row_number], w);
        if (w == 0) continue;
        slots = row().slots_seen;
        if (first_rows_.open() && first_rows_.add(batch, row_number, labels[row_number], w)) {
          if (centre_features()) {
            slots = table_.size();
            resolve_next(row_number + 1);  // it was resolved without centres
          }
          first_rows_.close();
        }
      }
    } catch (const std::exception&) {
      table_.remove_from(slots);
      throw;
    }
  }

  // Adds the features of a row without learning it.
  void add_features(const Batch& batch, size_t row_number) {
    alike_ = 0;
    first_rows_.close();
    table_.template resolve<true>(batch, row_number, config_, row());
  }

  // Changes nothing that is saved.
  double predict(const Batch& batch, size_t row_number) {
    table_.template resolve<false>(batch, row_number, config_, row());
    return predict_row();
  }

  // A number that learners have in common only if they resolve and scale every row alike; 0 if
  // nothing is known.
  uint64_t alike() const { return alike_; }
  void set_alike(uint64_t number) { alike_ = number; }
  // Whether they do.
  [[gnu::cold]] bool is_like(const Learner& other) const {
    const FeatureScales<T>& scales = table_.scales;
    if (!scales.ignore_labels() || !scales.same(other.table_.scales)) return false;
    if (config_.sketch_every != other.config_.sketch_every ||
        config_.hash_bits != other.config_.hash_bits ||
        config_.hash_seed != other.config_.hash_seed ||
        config_.intercept != other.config_.intercept || rounds_.count != other.rounds_.count ||
        rounds_.nonzeros != other.rounds_.nonzeros ||
        table_.blocks.stride() != other.table_.blocks.stride() ||
        table_.index.keys() != other.table_.index.keys())
      return false;
    for (Slot slot = 0; slot < table_.size(); ++slot)
      if (!scales.same(table_.blocks.at(slot), other.table_.blocks.at(slot))) return false;
    return true;
  }

  size_t features() const { return table_.size() - !config_.intercept; }
  uint64_t rounds() const { return rounds_.count; }
  const S& sketch() const { return sketch_; }
  const FeatureTable<T>& table() const { return table_; }
  const Experts& experts() const { return experts_; }
  size_t bytes() const {
    size_t bytes = table_.bytes() + sizeof *this;
    if constexpr (requires { sketch_.bytes(); }) bytes += sketch_.bytes();
    return bytes;
  }

  // w / scale of a slot, blended over the experts: the weight of the unscaled feature.
  [[gnu::cold]] double raw_weight(Slot slot) const {
    const FeatureScales<T>& scales = table_.scales;
    const double scale = scales.of(slot, table_.blocks.at(slot));
    double offset = 0;
    if (slot == kInterceptSlot) {
      offset = offset_;
      for (Slot of = 0; of < scales.centres().size(); ++of)
        if (scales.centre(of) != 0) offset -= scales.centre(of) * raw_weight(of);
    }
    if (scale == 0) return offset;
    Vector weights(experts_.size()), v(sketch_.rank());
    sketch_.read(slot, table_.blocks.at(slot), weights.data(), v.data());
    return offset + experts_.factor() * experts_.blend(weights.data()) / scale;
  }

  [[gnu::cold]] void direction(Slot slot, double* v) const {
    Vector weights(experts_.size());
    sketch_.read(slot, table_.blocks.at(slot), weights.data(), v);
  }

  // Everything that a merge needs, see knowledge.hpp.
  [[gnu::cold]] void write_knowledge(StateWriter& archive) {
    common_state(archive);
    table_.write_knowledge(archive);
    const size_t slots = table_.size(), K = experts_.size();
    Matrix weights(K, slots), directions(sketch_.rank(), slots);
    Vector w(K), v(sketch_.rank());
    for (Slot slot = 0; slot < slots; ++slot) {
      sketch_.read(slot, table_.blocks.at(slot), w.data(), v.data());
      for (size_t e = 0; e < K; ++e) weights(e, slot) = w[e];
      for (size_t i = 0; i < v.size(); ++i) directions(i, slot) = v[i];
    }
    archive.matrix("weights", weights);
    archive.matrix("directions", directions);
    sketch_.write_knowledge(archive, table_.blocks, slots);
  }

  // Fills an empty learner with what write_knowledge() has written.
  [[gnu::cold]] void read_knowledge(StateReader& archive) {
    alike_ = 0;
    common_state(archive);
    table_.read_knowledge(archive);
    sketch_.read_knowledge(archive, table_.blocks, table_.size());
    first_rows_.close();
    count_features(features());
  }

  double alpha(size_t expert) const {
    return experts_.alpha(config_, rounds_, sketch_.tail(), 1.0, expert);
  }
  std::pair<double, double> label_range() const { return {label_low_, label_high_}; }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive) {
    common_state(archive);
    table_.state(archive);
    first_rows_.state(archive, rounds_.count, table_.index);
    sketch_.state(archive, table_.size());
    if constexpr (Archive::reading) {
      alike_ = 0;
      count_features(features());
    }
  }

 private:
  static constexpr double kWorst = 5;             // typical losses that an expert can lose by a row
  static constexpr uint64_t kFirstLabels = 16;    // their mean is the offset
  static constexpr double kFollowerAlpha = 0.03;  // its steps go most of the way to the label

  template <class Archive>
  [[gnu::cold]] void common_state(Archive& archive) {
    rounds_.state(archive);
    archive.scalar("label_low", label_low_);
    archive.scalar("label_high", label_high_);
    archive.scalar("label_offset", offset_);
    table_.scales.state(archive);
    experts_state(archive, config_.experts);
    experts_.ensemble.state(archive, "ensemble.share");
    typical_.state(archive);
    experts_.balance.state(archive);
    experts_.shrinkage.state(archive);
    follower_.state(archive, "follower.share");
    archive.scalar("follower.margin", follower_margin_);
  }

  // Learns the first rows again with centred features, if there are any to centre.
  [[gnu::cold]] bool centre_features() {
    const Vector centres = first_rows_.centres(table_.index, config_.sketch.size);
    if (centres.empty()) return false;
    Learner centred(config_);
    centred.table_.scales.start_centred(centres, table_.scales);
    centred.first_rows_.close();
    const Batch batch = first_rows_.batch();
    Vector predictions(batch.rows);
    size_t row_number = 0;
    try {
      centred.learn(batch, first_rows_.labels(), first_rows_.weights(), predictions.data(),
                    row_number, nullptr, nullptr);
    } catch (const Diverged&) {
      return false;
    }
    const uint64_t alike = alike_;
    *this = std::move(centred);
    alike_ = alike;
    return true;
  }

  Row<T>& row() { return rows_[at_]; }
  const Row<T>& row() const { return rows_[at_]; }

  [[gnu::noinline]] void take_over(const PreparedRow<T>& prepared, Row<T>& row) {
    for (const Key key : prepared.new_keys) table_.index.add(key);
    row.take_over(prepared);
    table_.blocks.reserve(row.slots_seen);
    table_.locate(row);
  }
  [[gnu::noinline]] void prepare(PreparedRow<T>& prepared) const {
    const Row<T>& from = row();
    prepared.slots.assign(from.slots.begin(),
                          from.slots.begin() + static_cast<std::ptrdiff_t>(from.size));
    prepared.new_keys = from.new_keys;
    prepared.slots_seen = from.slots_seen;
    table_.scales.prepare(from, prepared);
    prepared.ready = true;
  }

  [[gnu::noinline]] double predict_row() {
    table_.scales.apply(row(), rounds_.per_draw(config_.sketch_every));
    if constexpr (requires { sketch_.view(row()); }) {
      sketch_.view(row());
      row().located = false;
    }
    read_margins();
    for (double& z : experts_.margins) z = std::clamp(z, -config_.bound, config_.bound);
    return offset_ + answer(blend());
  }

  // Brings the features of the row up to date: a sketch may change other features than those of a
  // row, and does so lazily.
  void refresh() {
    if constexpr (requires { sketch_.refresh(row()); }) sketch_.refresh(row());
  }

  void read_margins() {
    row().measure();
    sketch_.project(row());
    experts_.read_margins(sketch_);
  }

  // With `clip`: to the labels seen, but never beyond the bound.
  double clipped(double z) const {
    if (!config_.clip) return z;
    if (label_low_ <= label_high_) z = std::clamp(z, label_low_ - offset_, label_high_ - offset_);
    return std::clamp(z, -config_.bound, config_.bound);
  }

  // The prediction for a blend, less the offset of the labels.
  double answer(double z) const { return clipped(experts_.factor() * z); }

  // The experts' margins keep to the bound; so does their blend, but for rounding.
  double blend() const {
    const double z = experts_.blend();
    if (!std::isfinite(z)) throw Diverged("the prediction is not a finite number");
    return std::clamp(z, -config_.bound, config_.bound);
  }

  // Learns the row at hand. If it cannot be learned, everything is as it was before the row.
  double step(double y, double weight) {
    refresh();  // if this fails, nothing of the row has been done
    const double low = label_low_, high = label_high_, offset = offset_;
    const Rounds rounds = rounds_;
    const TypicalLoss typical = typical_;
    try {
      return learn_row(y, weight);
    } catch (const std::exception&) {
      table_.scales.undo(row());
      sketch_.undo();
      label_low_ = low;
      label_high_ = high;
      offset_ = offset;
      rounds_ = rounds;
      typical_ = typical;
      throw;
    }
  }

  // One round, as described at the top of this file. `times` is how often the sketch counts the
  // row.
  double learn_row(double y, double weight) {
    const size_t every = rounds_.per_draw(config_.sketch_every);
    const size_t times = rounds_.next_is_drawn(every) ? every : 0;
    if constexpr (requires { sketch_.begin_row(); }) sketch_.begin_row();
    if (row().prepared)
      table_.scales.take_over(row());
    else
      table_.scales.take_in(row(), every, times > 0);
    if (made_) prepare(*made_);
    read_margins();
    const bool projected = rounds_.count > 0 && project_onto_bound();
    const double blended_margins = blend();
    const double answer = this->answer(blended_margins);
    const double prediction = offset_ + (config_.follow_labels ? with_follower(answer) : answer);

    const double size = take_label(y, row().size);
    rounds_.effective.add(weight);
    y -= offset_;
    const double z = clipped(blended_margins);
    if (!config_.loss->binary && needs_unit()) y = take_loss(z, y);
    const double g = needs_slope_ ? weight * config_.loss->slope(z, y) : 0.0;
    if (table_.scales.need_gradients()) scale_by_gradients(g, projected, size);
    rounds_.add_energy(row().energy);

    const bool implicit = !explicit_ || times == 0, blended = experts_.size() > 1;
    double c = blended ? 0.0 : root_of_curvature(z, y, weight, times);
    if (implicit && !S::kAbsorbFirst) implicit_steps(y, weight);
    if (blended) c = root_of_curvature(end_of_steps(z), y, weight, times);
    if (times > 0) absorb(c, g, times);
    if (implicit && S::kAbsorbFirst) implicit_steps(y, weight);
    if (!implicit) explicit_step(g);
    sketch_.commit(row(), table_.blocks, row().slots_seen, size);
    if (blended)
      experts_.learn_shares(
          config_, rounds_, blended_margins, y, weight,
          [&](double prediction) { return clipped(prediction); },
          [&](Vector& fits) { become_likelihoods(fits); });
    if (config_.follow_labels) follow(answer, y, weight);
    count_features(features_of_row());
    if (rounds_.count == FeatureScales<T>::kFirstRows)
      table_.scales.choose_unit(table_.blocks, row().slots_seen);
    table_.scales.raise_limits(row());
    return prediction;
  }

  // The gradient of this row changes the scales and with them the margins.
  [[gnu::noinline]] void scale_by_gradients(double g, bool projected, double size) {
    if (projected) {
      sketch_.commit(row(), table_.blocks, row().slots_seen, size);
      refresh();
    }
    table_.scales.add_gradients(row(), g);
    read_margins();
  }

  // SketchUpdate(ĝ), ĝ = c x̃.
  void absorb(double c, double g, size_t times) {
    sketch_.absorb(c, g, static_cast<double>(rounds_.count), features_of_row(),
                   static_cast<double>(times));
  }

  // Counts the round; returns the size of a typical label.
  double take_label(double y, size_t nonzeros) {
    label_low_ = std::min(label_low_, y);
    label_high_ = std::max(label_high_, y);
    rounds_.add_row(nonzeros);
    if (config_.loss->binary) return 1;
    if (SONLINE_KEEPS(label_offset) && config_.unit_free && config_.intercept &&
        rounds_.count <= kFirstLabels)
      offset_ += (y - offset_) / static_cast<double>(rounds_.count);
    return std::max({std::fabs(label_low_ - offset_), std::fabs(label_high_ - offset_), 1e-300});
  }

  // Whether anything depends on the typical loss of a regression.
  bool needs_unit() const {
    return experts_.size() > 1 || config_.unit_free || config_.follow_labels;
  }

  // Adds the loss of a prediction to the typical loss; returns the label to learn, which is moved
  // towards the prediction if it is an outlier.
  [[gnu::noinline]] double take_loss(double z, double y) {
    const double cost = config_.loss->value(z, y), limit = typical_.limit();
    if (!std::isfinite(cost)) throw Diverged("the loss is too large");
    if (SONLINE_KEEPS(label_outliers) && config_.unit_free && config_.loss->hessian && cost > limit)
      y = z + (y - z) * std::sqrt(limit / cost);
    typical_.take_in(cost);
    return y;
  }

  // Losses of numbers have a unit: a typical loss counts 1/2, as in a normal distribution.
  void become_likelihoods(Vector& fits) const {
    if (config_.loss->binary) return;
    const double unit = SONLINE_KEEPS(likelihood_unit) ? 2 * typical_.mean() : 1.0;
    const double least = *std::min_element(fits.begin(), fits.end());
    for (double& fit : fits) fit = unit > 0 ? -std::min((fit - least) / unit, kWorst) : 0.0;
    exponentials(fits.data(), fits.size(), fits.data());
  }

  // The prediction, and one of nothing but the last labels, blended by which has been better.
  double with_follower(double z) {
    followed_ = {z, follower_margin_};
    return follower_.blend(followed_);
  }
  [[gnu::noinline]] void follow(double z, double y, double weight) {
    followed_ = {z, follower_margin_};
    const double reach[2] = {0, weight / kFollowerAlpha};
    config_.loss->implicit_steps(followed_.data(), y, reach, 2, follower_fits_.data(),
                                 follower_moves_.data());
    become_likelihoods(follower_fits_);
    follower_.learn(follower_fits_, weight / rounds_.effective.unit());
    follower_margin_ += follower_moves_[1];
  }

  void count_features(size_t features) {
    table_.scales.count_values(static_cast<double>(features),
                               static_cast<double>(rounds_.nonzeros));
  }

  [[gnu::noinline]] void explicit_step(double g) {
    const double alpha = this->alpha(0);
    if (g != 0 && row().energy > 0) sketch_.descend(0, alpha > 0 ? g / alpha : g, alpha);
  }

  // The step of each expert with the A of the rounds before.
  void implicit_steps(double y, double weight) {
    if (config_.clip)
      for (double& z : experts_.margins) z = clipped(z);
    experts_.step(config_, rounds_, y, weight * pull_of_labels(), 1.0, row().energy, sketch_);
  }

  // The blend of the margins after the steps. The curvature is smaller there, above all in the
  // first rows, which would otherwise make all later steps short. Steps often end exactly at the
  // kink of a hinge: rounding must not decide which slope it has.
  double end_of_steps(double z) const {
    if (!SONLINE_KEEPS(curvature_at_end)) return z;
    if (!config_.hessian) return z * (1 + 1e-6);
    return experts_.end_of_steps();
  }

  // The slope of a loss that grows like |y - z| has no unit; the weights have that of the labels.
  double pull_of_labels() const {
    const bool linear = !config_.loss->binary && !config_.loss->hessian;
    return SONLINE_KEEPS(pull_of_labels) && config_.unit_free && linear ? 2 * typical_.mean() : 1.0;
  }

  // The c of ĝ = c x̃; 0 if the sketch does not take the row or does not need it.
  double root_of_curvature(double z, double y, double weight, size_t times) const {
    if (!S::kTakesCurvature || times == 0) return 0;
    const double c = std::sqrt(weight * curvature_at(z, y));
    if (!(c * c * row().energy * static_cast<double>(times) <= kLargestSquare))
      throw Diverged("a gradient is too large");
    // Below this the square has lost digits or is 0, and gives no direction.
    return c * c * row().energy < kSmallestSquare ? 0.0 : c;
  }

  double curvature_at(double z, double y) const {
    if (config_.hessian) return config_.loss->curvature(z, y);
    const double slope = config_.loss->slope(z, y);
    return (config_.sigma + eta(static_cast<double>(rounds_.count))) * slope * slope;
  }

  // Features seen up to the row at hand; the next row may have brought more.
  size_t features_of_row() const { return row().slots_seen - !config_.intercept; }

  // Lemma 1 for every expert; true if any weight moved.
  [[gnu::noinline]] bool project_onto_bound() {
    bool moved = false;
    for (size_t e = 0; e < experts_.size(); ++e) {
      double& margin = experts_.margins[e];
      if (!(std::fabs(margin) - config_.bound > 0)) continue;
      const double target = std::copysign(config_.bound, margin);
      const double beside_sketch = alpha(e) / experts_.remembered(config_, rounds_, e);
      const double energy = sketch_.energy(e, beside_sketch);
      if (energy > 0) sketch_.descend(e, (margin - target) / energy, beside_sketch);
      margin = target;
      moved = true;
    }
    return moved;
  }

  double eta(double t) const {
    if (!config_.eta_convex) return config_.eta;
    const double C = std::isfinite(config_.bound) ? config_.bound : 1.0;
    const double L = config_.loss->lipschitz(C);
    size_t dimension = config_.sketch.size;
    if constexpr (requires { S::kFullMatrix; }) dimension = features_of_row();
    return std::sqrt(static_cast<double>(dimension) / (C * C * L * L * t));
  }

  Config config_;
  bool explicit_;     // the paper's step
  bool needs_slope_;  // ℓ'(z), which an implicit step does without
  S sketch_;
  FeatureTable<T> table_;
  FirstRows first_rows_;
  Row<T> rows_[2];  // the one at hand and the next
  unsigned at_ = 0;
  PreparedRow<T>* made_ = nullptr;  // where the row at hand is to be written down
  uint64_t alike_ = 0;              // 0 if it is not known
  Rounds rounds_;
  Experts experts_;
  Ensemble follower_{2};
  TypicalLoss typical_;
  Vector followed_ = Vector(2), follower_fits_ = Vector(2), follower_moves_ = Vector(2);
  double follower_margin_ = 0;
  double offset_ = 0;  // of the labels
  // The range of the labels; empty (low > high) before the first label.
  double label_low_ = std::numeric_limits<double>::max();
  double label_high_ = std::numeric_limits<double>::lowest();
};

}  // namespace sonline
