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

#include "sonline/archive.hpp"
#include "sonline/batch.hpp"
#include "sonline/blocks.hpp"
#include "sonline/columns.hpp"
#include "sonline/config.hpp"
#include "sonline/ensemble.hpp"
#include "sonline/errors.hpp"
#include "sonline/features.hpp"
#include "sonline/first_rows.hpp"
#include "sonline/merge_slots.hpp"
#include "sonline/resolve.hpp"
#include "sonline/rounds.hpp"
#include "sonline/row.hpp"
#include "sonline/scales.hpp"

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
        scales_(config.scaling, std::min(sketch_.width(), sketch_.used())),
        blocks_(padded_width(scales_.end())),
        first_rows_(FirstRows::may_centre(config)),
        ensemble_(config.experts.size()),
        margins_(config.experts.size()),
        fits_(margins_),
        energies_(margins_),
        reaches_(margins_),
        moves_(margins_),
        beside_sketch_(margins_),
        is_short_(margins_.size()) {
    blocks_.reserve(1);
  }

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
      : weight(row) == 0 ? resolve<false>(batch, row, rows_[at_ ^ 1])
                         : resolve<true>(batch, row, rows_[at_ ^ 1]);
    };
    alike_ = 0;
    size_t slots = index_.size();  // before the row at hand
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
            slots = index_.size();
            resolve_next(row_number + 1);  // it was resolved without centres
          }
          first_rows_.close();
        }
      }
    } catch (const std::exception&) {
      forget_features(slots);
      throw;
    }
  }

  // Adds the features of a row without learning it.
  void add_features(const Batch& batch, size_t row_number) {
    alike_ = 0;
    first_rows_.close();
    resolve<true>(batch, row_number, row());
  }

  // Changes nothing that is saved.
  double predict(const Batch& batch, size_t row_number) {
    resolve<false>(batch, row_number, row());
    return predict_row();
  }

  // A number that learners have in common only if they resolve and scale every row alike; 0 if
  // nothing is known.
  uint64_t alike() const { return alike_; }
  void set_alike(uint64_t number) { alike_ = number; }
  // Whether they do.
  [[gnu::cold]] bool is_like(const Learner& other) const {
    if (!scales_.ignore_labels() || !scales_.same(other.scales_)) return false;
    if (config_.sketch_every != other.config_.sketch_every ||
        config_.hash_bits != other.config_.hash_bits ||
        config_.hash_seed != other.config_.hash_seed ||
        config_.intercept != other.config_.intercept || rounds_ != other.rounds_ ||
        nonzeros_ != other.nonzeros_ || blocks_.stride() != other.blocks_.stride() ||
        index_.keys() != other.index_.keys())
      return false;
    for (Slot slot = 0; slot < index_.size(); ++slot)
      if (!scales_.same(blocks_.at(slot), other.blocks_.at(slot))) return false;
    return true;
  }

  size_t features() const { return index_.size() - !config_.intercept; }
  uint64_t rounds() const { return rounds_; }
  const S& sketch() const { return sketch_; }
  const FeatureIndex& index() const { return index_; }
  size_t bytes() const {
    size_t bytes = blocks_.bytes() + index_.bytes() + scales_.bytes() + sizeof *this;
    if constexpr (requires { sketch_.bytes(); }) bytes += sketch_.bytes();
    return bytes;
  }

  // w / scale of a slot, blended over the experts: the weight of the unscaled feature.
  [[gnu::cold]] double raw_weight(Slot slot) const {
    const double scale = scales_.of(slot, blocks_.at(slot));
    double offset = 0;
    if (slot == kInterceptSlot) {
      offset = offset_;
      for (Slot of = 0; of < scales_.centres().size(); ++of)
        if (scales_.centre(of) != 0) offset -= scales_.centre(of) * raw_weight(of);
    }
    if (scale == 0) return offset;
    Vector weights(shares().size()), v(sketch_.rank());
    sketch_.read(slot, blocks_.at(slot), weights.data(), v.data());
    return offset + ensemble_.blend(weights) / scale;
  }
  // What is subtracted from the values of a feature.
  double centre(Slot slot) const { return scales_.centre(slot); }

  [[gnu::cold]] void direction(Slot slot, double* v) const {
    Vector weights(shares().size());
    sketch_.read(slot, blocks_.at(slot), weights.data(), v);
  }

  // Everything that a merge needs, see knowledge.hpp.
  [[gnu::cold]] void write_knowledge(StateWriter& archive) {
    common_state(archive);
    const size_t slots = index_.size(), K = shares().size();
    archive.array("features", index_.keys());
    Matrix weights(K, slots), directions(sketch_.rank(), slots);
    Vector squares(slots), counts(slots), w(K), v(sketch_.rank());
    for (Slot slot = 0; slot < slots; ++slot) {
      const T* block = blocks_.at(slot);
      sketch_.read(slot, block, w.data(), v.data());
      for (size_t e = 0; e < K; ++e) weights(e, slot) = w[e];
      for (size_t i = 0; i < v.size(); ++i) directions(i, slot) = v[i];
      squares[slot] = scales_.square(block);
      if (scales_.counts_rows()) counts[slot] = scales_.count(block);
    }
    archive.matrix("weights", weights);
    archive.matrix("directions", directions);
    archive.array("squares", squares);
    archive.array("counts", counts);
    sketch_.write_knowledge(archive, blocks_, slots);
  }

  // Fills an empty learner with what write_knowledge() has written.
  [[gnu::cold]] void read_knowledge(StateReader& archive) {
    alike_ = 0;
    common_state(archive);
    const auto keys = archive.any_array<Key>("features");
    const auto squares = archive.any_array<double>("squares");
    const auto counts = archive.any_array<double>("counts");
    if (keys.empty() || squares.size() != keys.size() || counts.size() != keys.size())
      archive.fail("features", "has the wrong length");
    index_ = FeatureIndex::restore(keys);
    blocks_.reserve(keys.size());
    for (Slot slot = 0; slot < keys.size(); ++slot)
      scales_.set(blocks_.at(slot), squares[slot], counts[slot]);
    sketch_.read_knowledge(archive, blocks_, keys.size());
    first_rows_.close();
    scales_.check_centres(archive, index_.size());
    count_features(features());
  }
  double scale(Slot slot) const { return scales_.usual_size(blocks_.at(slot)); }
  double limit(Slot slot) const { return scales_.limit(slot, blocks_.at(slot)); }
  double alpha(size_t expert) const { return alpha(expert, remembered(expert), unit_of_alpha()); }

  std::pair<double, double> label_range() const { return {label_low_, label_high_}; }
  const Vector& shares() const { return ensemble_.shares(); }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive) {
    common_state(archive);
    if constexpr (Archive::reading) {
      alike_ = 0;
      const auto keys = archive.template any_array<Key>("features");
      if (keys.empty()) archive.fail("features", "is empty");
      const auto& stored = archive.template get<T>("blocks", 2);
      archive.check_shape("blocks", stored, keys.size(), blocks_.stride());
      index_ = FeatureIndex::restore(keys);
      blocks_ = BlockStore<T>(blocks_.stride());
      blocks_.reserve(index_.size());
      const size_t bytes = blocks_.stride() * sizeof(T);
      for (Slot slot = 0; slot < index_.size(); ++slot) {
        std::memcpy(blocks_.at(slot), stored.bytes.data() + slot * bytes, bytes);
        archive.check_finite("blocks", blocks_.at(slot), blocks_.stride());
      }
    } else {
      const auto keys = index_.keys();
      archive.array("features", keys);
      Tensor stored{tensor_type<T>(), {index_.size(), blocks_.stride()}, {}};
      const size_t bytes = blocks_.stride() * sizeof(T);
      stored.bytes.resize(index_.size() * bytes);
      for (Slot slot = 0; slot < index_.size(); ++slot)
        std::memcpy(stored.bytes.data() + slot * bytes, blocks_.at(slot), bytes);
      archive.state["blocks"] = std::move(stored);
    }
    first_rows_.state(archive, rounds_, index_);
    sketch_.state(archive, index_.size());
    if constexpr (Archive::reading) {
      scales_.check_centres(archive, index_.size());
      count_features(features());
    }
  }

 private:
  static constexpr double kWorst = 5;             // typical losses that an expert can lose by a row
  static constexpr uint64_t kFirstLabels = 16;    // their mean is the offset
  static constexpr double kFollowerAlpha = 0.03;  // its steps go most of the way to the label

  template <class Archive>
  [[gnu::cold]] void common_state(Archive& archive) {
    archive.scalar("rounds", rounds_);
    archive.scalar("mean_energy", mean_energy_);
    archive.scalar("label_low", label_low_);
    archive.scalar("label_high", label_high_);
    archive.scalar("label_offset", offset_);
    archive.scalar("nonzeros", nonzeros_);
    scales_.state(archive);
    experts_state(archive);
    ensemble_.state(archive, "ensemble.share");
    typical_.state(archive);
    effective_.state(archive);
    balance_.state(archive);
    follower_.state(archive, "follower.share");
    archive.scalar("follower.margin", follower_margin_);
  }

  // Which experts there are: later versions may start with others.
  template <class Archive>
  [[gnu::cold]] void experts_state(Archive& archive) {
    Vector numbers;
    for (const Expert& expert : config_.experts)
      numbers.insert(numbers.end(), {expert.alpha, expert.memory});
    archive.array("ensemble.experts", numbers);
    if constexpr (Archive::reading)
      for (size_t e = 0; e < config_.experts.size(); ++e) {
        if (numbers[2 * e] < 0 || numbers[2 * e + 1] < 0)
          archive.fail("ensemble.experts", "has a negative number");
        config_.experts[e] = {numbers[2 * e], numbers[2 * e + 1]};
      }
  }

  // Learns the first rows again with centred features, if there are any to centre.
  [[gnu::cold]] bool centre_features() {
    const Vector centres = first_rows_.centres(index_, config_.sketch.size);
    if (centres.empty()) return false;
    Learner centred(config_);
    centred.scales_.start_centred(centres, scales_);
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

  // Makes `row` that of the batch, with the blocks of its features.
  template <bool add>
  [[gnu::noinline]] void resolve(const Batch& batch, size_t row_number, Row<T>& row) {
    find_features<add>(batch, row_number, config_.intercept, config_.hash_bits, scales_.centres(),
                       index_, merge_, row);
    if (add) blocks_.reserve(index_.size());
    locate(row);
  }
  void locate(Row<T>& row) {
    if (!row.located) blocks_.locate(row.slots.data(), row.size, row.blocks.data());
    row.located = true;
  }

  [[gnu::noinline]] void take_over(const PreparedRow<T>& prepared, Row<T>& row) {
    for (const Key key : prepared.new_keys) index_.add(key);
    row.take_over(prepared);
    blocks_.reserve(row.slots_seen);
    locate(row);
  }
  [[gnu::noinline]] void prepare(PreparedRow<T>& prepared) const {
    const Row<T>& from = row();
    prepared.slots.assign(from.slots.begin(),
                          from.slots.begin() + static_cast<std::ptrdiff_t>(from.size));
    prepared.new_keys = from.new_keys;
    prepared.slots_seen = from.slots_seen;
    scales_.prepare(from, prepared);
    prepared.ready = true;
  }

  [[gnu::noinline]] double predict_row() {
    scales_.apply(row(), group());
    if constexpr (requires { sketch_.view(row()); }) {
      sketch_.view(row());
      row().located = false;
    }
    read_margins();
    for (double& z : margins_) z = std::clamp(z, -config_.bound, config_.bound);
    return offset_ + (config_.clip ? clipped(blend()) : blend());
  }

  // Brings the features of the row up to date: a sketch may change other features than those of a
  // row, and does so lazily.
  void refresh() {
    if constexpr (requires { sketch_.refresh(row()); }) sketch_.refresh(row());
  }

  void read_margins() {
    row().measure();
    sketch_.project(row());
    for (size_t e = 0; e < margins_.size(); ++e) margins_[e] = finite(sketch_.margin(e));
  }

  // To the labels seen, but never beyond the bound.
  double clipped(double z) const {
    if (label_low_ <= label_high_) z = std::clamp(z, label_low_ - offset_, label_high_ - offset_);
    return std::clamp(z, -config_.bound, config_.bound);
  }

  // The experts' margins keep to the bound; so does their blend, but for rounding.
  double blend() const {
    return std::clamp(finite(ensemble_.blend(margins_)), -config_.bound, config_.bound);
  }

  double finite(double z) const {
    if (!std::isfinite(z)) throw Diverged("the prediction is not a finite number");
    return z;
  }

  // Removes the features of rows that were not learned.
  [[gnu::cold]] void forget_features(size_t slots) {
    if (index_.size() == slots) return;
    std::vector<Key> keys = index_.keys();
    keys.resize(slots);
    index_ = FeatureIndex::restore(keys);
  }

  // Learns the row at hand. If it cannot be learned, everything is as it was before the row.
  double step(double y, double weight) {
    refresh();  // if this fails, nothing of the row has been done
    const double low = label_low_, high = label_high_, energy = mean_energy_, offset = offset_;
    const uint64_t rounds = rounds_, nonzeros = nonzeros_;
    const TypicalLoss typical = typical_;
    const EffectiveRows effective = effective_;
    try {
      return learn_row(y, weight);
    } catch (const std::exception&) {
      scales_.undo(row());
      sketch_.undo();
      label_low_ = low;
      label_high_ = high;
      mean_energy_ = energy;
      offset_ = offset;
      rounds_ = rounds;
      nonzeros_ = nonzeros;
      typical_ = typical;
      effective_ = effective;
      throw;
    }
  }

  // One round, as described at the top of this file. `times` is how often the sketch counts the
  // row.
  double learn_row(double y, double weight) {
    const size_t every = group(), times = is_drawn(rounds_, every) ? every : 0;
    if constexpr (requires { sketch_.begin_row(); }) sketch_.begin_row();
    if (row().prepared)
      scales_.take_over(row());
    else
      scales_.take_in(row(), every, times > 0);
    if (made_) prepare(*made_);
    read_margins();
    const bool projected = rounds_ > 0 && project_onto_bound();
    double z = blend();
    const double clipped_z = config_.clip ? clipped(z) : z;
    const double prediction =
        offset_ + (config_.follow_labels ? with_follower(clipped_z) : clipped_z);

    const double size = take_label(y, row().size);
    effective_.add(weight);
    y -= offset_;
    if (config_.clip) z = clipped(z);
    if (!config_.loss->binary && needs_unit()) y = take_loss(z, y);
    const double g = needs_slope_ ? weight * config_.loss->slope(z, y) : 0.0;
    if (scales_.need_gradients()) scale_by_gradients(g, projected, size);
    mean_energy_ += (row().energy - mean_energy_) / static_cast<double>(rounds_);

    const bool implicit = !explicit_ || times == 0, blended = margins_.size() > 1;
    double c = blended ? 0.0 : root_of_curvature(z, y, weight, times);
    if (implicit && !S::kAbsorbFirst) implicit_steps(y, weight);
    if (blended) c = root_of_curvature(end_of_steps(z), y, weight, times);
    if (times > 0) absorb(c, g, times);
    if (implicit && S::kAbsorbFirst) implicit_steps(y, weight);
    if (!implicit) explicit_step(g);
    sketch_.commit(row(), blocks_, row().slots_seen, size);
    if (blended) {
      become_likelihoods(fits_);
      for (size_t e = 0; e < fits_.size(); ++e)
        if (is_short_[e]) fits_[e] = fit_of_short_memory(e);
      if (config_.loss->binary) balance_.take_in(y, rounds_);
      ensemble_.learn(fits_, weight / effective_.unit());
    }
    if (config_.follow_labels) follow(z, y, weight);
    count_features(features_of_row());
    if (rounds_ == FeatureScales<T>::kFirstRows) scales_.choose_unit(blocks_, row().slots_seen);
    scales_.raise_limits(row());
    return prediction;
  }

  // The gradient of this row changes the scales and with them the margins.
  [[gnu::noinline]] void scale_by_gradients(double g, bool projected, double size) {
    if (projected) {
      sketch_.commit(row(), blocks_, row().slots_seen, size);
      refresh();
    }
    scales_.add_gradients(row(), g);
    read_margins();
  }

  // SketchUpdate(ĝ), ĝ = c x̃.
  void absorb(double c, double g, size_t times) {
    sketch_.absorb(c, g, static_cast<double>(rounds_), features_of_row(),
                   static_cast<double>(times));
  }

  // Counts the round; returns the size of a typical label.
  double take_label(double y, size_t nonzeros) {
    label_low_ = std::min(label_low_, y);
    label_high_ = std::max(label_high_, y);
    ++rounds_;
    if (rounds_ < FeatureScales<T>::kMostCounted) nonzeros_ += nonzeros;
    if (config_.loss->binary) return 1;
    if (config_.unit_free && config_.intercept && rounds_ <= kFirstLabels)
      offset_ += (y - offset_) / static_cast<double>(rounds_);
    return std::max({std::fabs(label_low_ - offset_), std::fabs(label_high_ - offset_), 1e-300});
  }

  // Whether anything depends on the typical loss of a regression.
  bool needs_unit() const {
    return margins_.size() > 1 || config_.unit_free || config_.follow_labels;
  }

  // Adds the loss of a prediction to the typical loss; returns the label to learn, which is moved
  // towards the prediction if it is an outlier.
  [[gnu::noinline]] double take_loss(double z, double y) {
    const double cost = config_.loss->value(z, y), limit = typical_.limit();
    if (!std::isfinite(cost)) throw Diverged("the loss is too large");
    if (config_.unit_free && config_.loss->hessian && cost > limit)
      y = z + (y - z) * std::sqrt(limit / cost);
    typical_.take_in(cost);
    return y;
  }

  // Losses of numbers have a unit: a typical loss counts 1/2, as in a normal distribution.
  void become_likelihoods(Vector& fits) const {
    if (config_.loss->binary) return;
    const double unit = 2 * typical_.mean(), least = *std::min_element(fits.begin(), fits.end());
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
    follower_.learn(follower_fits_, weight / effective_.unit());
    follower_margin_ += follower_moves_[1];
  }

  void count_features(size_t features) {
    scales_.count_values(static_cast<double>(features), static_cast<double>(nonzeros_));
  }

  [[gnu::noinline]] void explicit_step(double g) {
    const double alpha = this->alpha(0);
    if (g != 0 && row().energy > 0) sketch_.descend(0, alpha > 0 ? g / alpha : g, alpha);
  }

  size_t group() const { return rows_per_draw(config_.sketch_every, rounds_); }

  // The step of each expert with the A of the rounds before.
  void implicit_steps(double y, double weight) {
    const size_t K = margins_.size();
    const double pull = weight * pull_of_labels(), unit = unit_of_alpha();
    for (size_t e = 0; e < K; ++e) {
      if (config_.clip) margins_[e] = clipped(margins_[e]);
      const double part = remembered(e), alpha = this->alpha(e, part, unit);
      is_short_[e] = has_short_memory(e, part);
      beside_sketch_[e] = alpha / part;
      energies_[e] = sketch_.energy(e, beside_sketch_[e]);
      reaches_[e] = row().energy > 0 ? pull * energies_[e] / alpha : 0;
      if (is_short_[e]) reaches_[e] *= balance_.weight(y);
    }
    for (size_t e = 0; e < K; ++e)
      if (!learns(e)) margins_[e] = as_sure_as_others(margins_.data(), K, e);
    if (K == 1)
      moves_[0] = config_.loss->implicit_step(margins_[0], y, reaches_[0]);
    else
      config_.loss->implicit_steps(margins_.data(), y, reaches_.data(), K, fits_.data(),
                                   moves_.data());
    const double most = most_moved();
    for (size_t e = 0; e < K; ++e) {
      if (!learns(e)) moves_[e] = 0;
      if (moves_[e] != 0)
        sketch_.descend(e, -std::clamp(moves_[e], -most, most) / energies_[e], beside_sketch_[e]);
    }
  }

  // Whether the expert remembers so few of the rows so far that the last ones count most. (Numbers
  // have a level, which these rows tell best.)
  bool has_short_memory(size_t e, double part) const {
    return part < 1 && config_.loss->binary && config_.experts[e].memory < kShortMemory;
  }
  // Whether the expert learns the row at hand; otherwise the row judges it.
  bool learns(size_t e) const { return !(is_short_[e] && is_held_out(rounds_)); }

  // In doubt a longer memory is the better one when the model is frozen, so that only half of what
  // a short memory gains counts. The rows that it learns do not judge it.
  double fit_of_short_memory(size_t e) const {
    const double others = ensemble_.without(e, fits_);
    if (learns(e)) return others;
    return fits_[e] > others ? std::sqrt(others * fits_[e]) : fits_[e];
  }

  // How far a step may move a prediction: blended experts do not get sure of a class by one row.
  double most_moved() const {
    constexpr double kAny = std::numeric_limits<double>::infinity();
    if (margins_.size() == 1 || !config_.loss->binary) return kAny;
    const double rows = effective_.count();
    return rows < kFewRows ? rows : kAny;
  }

  // The blend of the margins after the steps. The curvature is smaller there, above all in the
  // first rows, which would otherwise make all later steps short. Steps often end exactly at the
  // kink of a hinge: rounding must not decide which slope it has.
  double end_of_steps(double z) const {
    if (!config_.hessian) return z * (1 + 1e-6);
    double end = 0;
    for (size_t e = 0; e < margins_.size(); ++e) end += shares()[e] * (margins_[e] + moves_[e]);
    return end;
  }

  // The slope of a loss that grows like |y - z| has no unit; the weights have that of the labels.
  double pull_of_labels() const {
    const bool linear = !config_.loss->binary && !config_.loss->hessian;
    return config_.unit_free && linear ? 2 * typical_.mean() : 1.0;
  }

  // Which part of A an expert keeps. A = α I + part · S is part times (α / part) I + S, which is
  // how energy() and descend() know it: both give αA⁻¹x.
  double remembered(size_t e) const {
    double memory = config_.experts[e].memory;
    if (!(memory > 0)) return 1.0;
    if (config_.loss->binary && memory < kShortMemory) memory /= balance_.information();
    return part_of_memory(memory, effective_.count());
  }
  double unit_of_alpha() const {
    const double unit = !config_.relative ? 1.0
                        : config_.root    ? std::sqrt(mean_energy_)
                                          : mean_energy_;
    const double weight = shares().size() > 1 ? effective_.unit() : 1.0;
    return unit * weight;
  }
  double alpha(size_t e, double part, double unit) const {
    return config_.experts[e].alpha * unit + sketch_.tail() * part;
  }
  double alpha_beside_sketch(size_t e) const { return alpha(e) / remembered(e); }

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
    return (config_.sigma + eta(static_cast<double>(rounds_))) * slope * slope;
  }

  // Features seen up to the row at hand; the next row may have brought more.
  size_t features_of_row() const { return row().slots_seen - !config_.intercept; }

  // Lemma 1 for every expert; true if any weight moved.
  [[gnu::noinline]] bool project_onto_bound() {
    bool moved = false;
    for (size_t e = 0; e < margins_.size(); ++e) {
      const double excess = std::fabs(margins_[e]) - config_.bound;
      if (!(excess > 0)) continue;
      const double target = std::copysign(config_.bound, margins_[e]);
      const double alpha = alpha_beside_sketch(e), energy = sketch_.energy(e, alpha);
      if (energy > 0) sketch_.descend(e, (margins_[e] - target) / energy, alpha);
      margins_[e] = target;
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
  // In the padding of the sketch's columns where there is room: that is multiplied by zero in
  // scatter and ignored in gather.
  FeatureScales<T> scales_;
  FeatureIndex index_;
  BlockStore<T> blocks_;
  FirstRows first_rows_;
  Row<T> rows_[2];  // the one at hand and the next
  unsigned at_ = 0;
  PreparedRow<T>* made_ = nullptr;  // where the row at hand is to be written down
  uint64_t alike_ = 0;              // 0 if it is not known
  SlotMerger merge_;
  Ensemble ensemble_, follower_{2};
  TypicalLoss typical_;
  EffectiveRows effective_;
  LabelBalance balance_;
  // Of the experts, in this round. The last two: alpha beside the sketch, and whether the memory is
  // short.
  Vector margins_, fits_, energies_, reaches_, moves_, beside_sketch_;
  std::vector<unsigned char> is_short_;
  Vector followed_ = Vector(2), follower_fits_ = Vector(2), follower_moves_ = Vector(2);
  double follower_margin_ = 0;
  double offset_ = 0;  // of the labels
  uint64_t rounds_ = 0, nonzeros_ = 0;
  double mean_energy_ = 0;  // mean of |x̃|²
  // The range of the labels; empty (low > high) before the first label.
  double label_low_ = std::numeric_limits<double>::max();
  double label_high_ = std::numeric_limits<double>::lowest();
};

}  // namespace sonline
