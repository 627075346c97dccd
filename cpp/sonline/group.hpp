// All classes of a model over one sketch, for wide rows.
//
// The learners of several classes see the same rows. Here they share one sketch of the rows
// themselves, S = Σ ω x̃x̃ᵀ, and class k takes A = α I + s_k S, with s_k the mean curvature of its
// loss. Directions, scales and features are stored once, and the weights of all classes of a
// feature lie side by side in its block: a row reads and writes each block once. The sketch is paid
// for once and not for each class, so it has more directions.
//
// S depends neither on labels nor on the classes, and no output depends on the others. So a class
// that emerges, as a copy of the learner that takes every row as "not this class", is as if it had
// been declared.
//
// With few features the curvature of each class matters more than the number of directions: there
// each class keeps a learner of its own. A stream decides by its first rows, see Form.
// docs/decisions/one-sketch-for-all-classes.md has the evidence.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/batch.hpp"
#include "sonline/blocks.hpp"
#include "sonline/config.hpp"
#include "sonline/ensemble.hpp"
#include "sonline/errors.hpp"
#include "sonline/features.hpp"
#include "sonline/first_rows.hpp"
#include "sonline/merge_slots.hpp"
#include "sonline/model.hpp"
#include "sonline/resolve.hpp"
#include "sonline/rounds.hpp"
#include "sonline/row.hpp"
#include "sonline/scales.hpp"

namespace sonline {

// How several classes learn: each by itself, or all over one sketch. A stream that has more than
// kWide features within its first kFirst rows has wide rows. Until that is known, it does both.
enum class Form { undecided, shared, separate };

// The labels of a batch as outputs see them, and where their predictions go.
struct GroupLabels {
  struct Output {
    size_t number;        // of the output
    int64_t target;       // its class; -1 never occurs
    double sign;          // -1: it learns the opposite, and its predictions are negated
    double* predictions;  // null if they are not wanted
  };
  std::vector<Output> outputs;
  const int64_t* codes;
  bool two_classes;  // at most: then the only class that is learned stands for both
};

class Group {
 public:
  virtual ~Group() = default;

  // The next of the outputs that were restored, which nobody has yet; there is one at the start.
  virtual size_t attach() = 0;
  // A copy of an output; the number of the new one.
  virtual size_t copy(size_t output) = 0;
  virtual void release(size_t output) = 0;

  virtual Form form() const = 0;
  // Learns rows from `first` on until all are learned or the form has been decided; returns the row
  // after the last. A Diverged says the row; all rows before it have been learned.
  virtual size_t learn(const Batch& batch, size_t first, const GroupLabels& labels,
                       const double* weights) = 0;
  // The raw predictions of the outputs for a row, by their numbers.
  virtual const Vector& predict(const Batch& batch, size_t row) = 0;

  virtual Stats stats() const = 0;
  virtual std::vector<Key> keys() const = 0;  // by slot
  virtual std::vector<double> weights(size_t output) const = 0;
  virtual std::vector<double> scales() const = 0;
  virtual std::vector<double> limits() const = 0;
  virtual std::vector<double> centres() const = 0;
  virtual std::vector<double> spectrum(size_t output) const = 0;
  virtual Matrix basis() const = 0;
  virtual std::vector<double> expert_shares(size_t output) const = 0;

  // The state with these outputs, in this order; they have the numbers 0, 1, … when it is restored.
  virtual State save(const std::vector<size_t>& outputs) = 0;
  virtual void restore(const State& state) = 0;
  // For merging, see knowledge.hpp: of the sketch, with weights of 0, and what each output has
  // instead.
  virtual State knowledge() = 0;
  virtual std::vector<State> knowledge(const std::vector<size_t>& outputs) = 0;
  virtual void set_knowledge(const State& common, const std::vector<State>& outputs) = 0;
};

template <class T, class S>
class GroupOf final : public Group {
 public:
  explicit GroupOf(const Config& config)
      : config_(shared_config(config)),
        sketch_(config_.sketch),
        scales_(config_.scaling, std::min(sketch_.width(), sketch_.used())),
        blocks_(padded_width(scales_.end())),
        waiting_(1),
        first_rows_(FirstRows::may_centre(config_)) {
    blocks_.reserve(1);
    states_.emplace_back(experts());
    make_room();
  }

  size_t attach() override {
    if (attached_ >= waiting_)
      throw std::invalid_argument("there are more learners than outputs of the group");
    columns_.push_back(attached_++);
    return columns_.size() - 1;
  }
  size_t copy(size_t output) override {
    columns_.push_back(columns_[output]);
    return columns_.size() - 1;
  }
  void release(size_t output) override {
    columns_[output] = kNone;
    while (!columns_.empty() && columns_.back() == kNone) columns_.pop_back();
  }

  Form form() const override { return form_; }

  size_t learn(const Batch& batch, size_t first, const GroupLabels& labels,
               const double* weights) override {
    in_order({});
    weights_ = Matrix();
    size_t row = first;
    const Form before = form_;
    for (; row < batch.rows && form_ == before; ++row) {
      const double weight = weights ? weights[row] : 1.0;
      const size_t slots = index_.size();
      try {
        if (weight == 0) {
          resolve<false>(batch, row);
          predict_row();
        } else {
          resolve<true>(batch, row);
          read_labels(labels, row);
          step(weight);
        }
      } catch (const Diverged& error) {
        forget_features(slots);
        throw Diverged(error.what(), row, error.what());
      } catch (const std::exception&) {
        forget_features(slots);
        throw;
      }
      for (const auto& output : labels.outputs)
        if (output.predictions)
          output.predictions[row] = output.sign * blends_[columns_[output.number]];
      if (weight == 0 || !first_rows_.open()) continue;
      if (first_rows_.add(batch, row, static_cast<double>(labels.codes[row]), weight)) {
        centre_features(labels);
        first_rows_.close();
      }
    }
    return row;
  }

  const Vector& predict(const Batch& batch, size_t row) override {
    resolve<false>(batch, row);
    predict_row();
    of_outputs_.resize(columns_.size());
    for (size_t i = 0; i < columns_.size(); ++i)
      if (columns_[i] != kNone) of_outputs_[i] = blends_[columns_[i]];
    return of_outputs_;
  }

  [[gnu::cold]] Stats stats() const override {
    return {rounds_, sketch_.upkeep(), features(), bytes(), alpha(0, best_expert())};
  }
  std::vector<Key> keys() const override { return index_.keys(); }

  // Those of all outputs are computed at once, and kept until the next row.
  [[gnu::cold]] std::vector<double> weights(size_t output) const override {
    const size_t slots = index_.size(), E = experts(), columns = states_.size();
    if (weights_.rows() != columns || weights_.cols() != slots) {
      weights_ = Matrix(columns, slots);
      each_feature([&](Slot slot, const double* w, const double*) {
        const double scale = scales_.of(slot, blocks_.at(slot));
        if (scale == 0 || (slot == kInterceptSlot && !config_.intercept)) return;
        for (size_t i = 0; i < columns; ++i) weights_(i, slot) = blended(i, w + i * E) / scale;
      });
      const Vector& centres = scales_.centres();
      for (size_t i = 0; i < columns && !centres.empty(); ++i)
        weights_(i, kInterceptSlot) -= dot(centres.data(), weights_[i], centres.size());
    }
    const double* first = weights_[columns_[output]];
    return std::vector<double>(first, first + slots);
  }
  [[gnu::cold]] std::vector<double> scales() const override {
    std::vector<double> scales(index_.size());
    for (Slot slot = 0; slot < scales.size(); ++slot)
      scales[slot] = scales_.usual_size(blocks_.at(slot));
    return scales;
  }
  [[gnu::cold]] std::vector<double> limits() const override {
    std::vector<double> limits(index_.size());
    for (Slot slot = 0; slot < limits.size(); ++slot)
      limits[slot] = scales_.limit(slot, blocks_.at(slot));
    return limits;
  }
  [[gnu::cold]] std::vector<double> centres() const override {
    std::vector<double> centres = scales_.centres();
    centres.resize(index_.size());
    return centres;
  }
  [[gnu::cold]] std::vector<double> spectrum(size_t output) const override {
    std::vector<double> values = sketch_.eigenvalues();
    for (double& value : values) value *= curvature(columns_[output]);
    return values;
  }
  // The eigenvalues are in falling order already.
  [[gnu::cold]] Matrix basis() const override {
    Matrix V(sketch_.rank(), index_.size());
    each_feature([&](Slot slot, const double*, const double* v) {
      for (size_t i = 0; i < V.rows(); ++i) V(i, slot) = v[i];
    });
    return V;
  }
  [[gnu::cold]] std::vector<double> expert_shares(size_t output) const override {
    return states_[columns_[output]].ensemble.shares();
  }

  [[gnu::cold]] State save(const std::vector<size_t>& outputs) override {
    in_order(outputs);
    StateWriter writer;
    archive_state(writer);
    writer.scalar("outputs", outputs.size());
    for (const auto& [name, tensor] : writer.state)
      if (!tensor.finite())
        throw Diverged("the learner cannot be saved: '" + name +
                       "' holds numbers that are not finite; go on from a saved model");
    return std::move(writer.state);
  }

  [[gnu::cold]] void restore(const State& saved) override {
    StateReader reader(saved);
    const Tensor &shares = reader.get<double>("shares", 2),
                 &beta = reader.get<double>("sketch.beta", 2);
    const size_t outputs = shares.shape[0];
    // Before room is made for them.
    if (outputs == 0 || beta.shape[0] != outputs * experts())
      StateReader::fail("shares", "has the wrong shape");
    make_columns(outputs);
    first_rows_ = FirstRows(FirstRows::may_centre(config_));
    archive_state(reader);
    size_t used;
    reader.scalar("outputs", used);
    if (used > outputs) StateReader::fail("outputs", "is out of range");
    waiting_ = used;
  }

  [[gnu::cold]] State knowledge() override {
    StateWriter archive;
    const size_t slots = index_.size(), E = experts();
    common_state(archive);
    experts_state(archive);
    const auto constant = [&](const char* name, double value) { archive.scalar(name, value); };
    constant("label_low", -1);
    constant("label_high", 1);
    constant("label_offset", 0);
    constant("ensemble.mean_loss", 0);
    constant("ensemble.rounds", 0);
    constant("labels.recent", 0);
    constant("labels.usual", 0);
    constant("follower.margin", 0);
    archive.array("follower.share", Vector(2, 0.5));
    archive.array("ensemble.share", Vector(E, 1.0 / static_cast<double>(E)));
    archive.array("features", index_.keys());
    Vector squares(slots), counts(slots);
    for (Slot slot = 0; slot < slots; ++slot) {
      squares[slot] = scales_.square(blocks_.at(slot));
      if (scales_.counts_rows()) counts[slot] = scales_.count(blocks_.at(slot));
    }
    archive.array("squares", squares);
    archive.array("counts", counts);
    archive.matrix("directions", basis());
    archive.matrix("weights", Matrix(E, slots));
    sketch_.write_knowledge(archive, blocks_, slots);
    return std::move(archive.state);
  }

  [[gnu::cold]] std::vector<State> knowledge(const std::vector<size_t>& outputs) override {
    const size_t E = experts();
    std::vector<Matrix> weights(outputs.size(), Matrix(E, index_.size()));
    each_feature([&](Slot slot, const double* w, const double*) {
      for (size_t i = 0; i < outputs.size(); ++i)
        for (size_t e = 0; e < E; ++e) weights[i](e, slot) = w[columns_[outputs[i]] * E + e];
    });
    std::vector<State> states;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const size_t column = columns_[outputs[i]];
      const Output& output = states_[column];
      StateWriter archive;
      archive.array("ensemble.share", output.ensemble.shares());
      archive.scalar("labels.recent", output.balance.recent());
      archive.scalar("labels.usual", output.balance.usual());
      archive.array("ev", spectrum(outputs[i]));
      archive.scalar("tail", sketch_.tail() * curvature(column));
      archive.scalar("curvature", output.curvature);
      archive.scalar("curvature.rows", curvature_rows_);
      archive.matrix("weights", std::exchange(weights[i], Matrix()));
      states.push_back(std::move(archive.state));
    }
    return states;
  }

  [[gnu::cold]] void set_knowledge(const State& common,
                                   const std::vector<State>& outputs) override {
    make_columns(outputs.size());
    const size_t E = experts();
    StateReader reader(common);
    common_state(reader);
    experts_state(reader);
    const auto keys = reader.any_array<Key>("features");
    const auto squares = reader.any_array<double>("squares");
    const auto counts = reader.any_array<double>("counts");
    if (keys.empty() || squares.size() != keys.size() || counts.size() != keys.size())
      StateReader::fail("features", "has the wrong length");
    index_ = FeatureIndex::restore(keys);
    blocks_.reserve(keys.size());
    for (Slot slot = 0; slot < keys.size(); ++slot)
      scales_.set(blocks_.at(slot), squares[slot], counts[slot]);
    Matrix weights(E * outputs.size(), keys.size()), of_one(E, keys.size());
    seen_.clear();
    for (size_t i = 0; i < outputs.size(); ++i) {
      StateReader known(outputs[i]);
      Output& output = states_[i];
      Vector shares(E);
      double recent, usual;
      known.array("ensemble.share", shares);
      output.ensemble.set_shares(shares.data());
      known.scalar("labels.recent", recent);
      known.scalar("labels.usual", usual);
      output.balance = LabelBalance(recent, usual);
      known.scalar("curvature", output.curvature);
      known.scalar("curvature.rows", curvature_rows_);
      known.matrix("weights", of_one);
      std::copy(of_one.values().begin(), of_one.values().end(), weights[i * E]);
      seen_.push_back(static_cast<int64_t>(i));
    }
    StateWriter all;
    for (const char* name : {"ev", "directions", "tail"}) all.state[name] = common.at(name);
    all.matrix("weights", weights);
    StateReader of_sketch(all.state);
    sketch_.read_knowledge(of_sketch, blocks_, keys.size());
    first_rows_.close();
    scales_.check_centres(reader, index_.size());
    count_features();
    form_ = Form::shared;
  }

 private:
  static constexpr size_t kNone = ~size_t{0};
  static constexpr size_t kWide = 512;     // features
  static constexpr uint64_t kFirst = 256;  // rows
  static constexpr double kLeastCurvature = 1e-12;

  // With the configuration of another group.
  GroupOf(const Config& config, size_t outputs)
      : config_(config),
        sketch_(config_.sketch),
        scales_(config_.scaling, 0),
        blocks_(1),
        first_rows_(false) {
    make_columns(outputs);
  }

  // What each class has beside its weights.
  struct Output {
    explicit Output(size_t experts) : ensemble(experts) {}
    Ensemble ensemble;
    LabelBalance balance;
    double curvature = 0;  // its sum over the rows that the sketch took in
  };

  // Three times as many directions as a learner of one class has, but not more than 64 by that.
  static Config shared_config(Config config) {
    const size_t size = config.sketch.size;
    config.sketch.size = std::max(size, std::min<size_t>(3 * size, 64));
    config.sketch.outputs = 1;
    return config;
  }

  // Calls use(slot, weights of all columns, directions).
  template <class Use>
  void each_feature(Use&& use) const {
    Vector w(experts() * states_.size()), v(sketch_.rank());
    for (Slot slot = 0; slot < index_.size(); ++slot) {
      sketch_.read(slot, blocks_.at(slot), w.data(), v.data());
      use(slot, w.data(), v.data());
    }
  }

  size_t experts() const { return config_.experts.size(); }
  size_t features() const { return index_.size() - !config_.intercept; }
  size_t bytes() const {
    return blocks_.bytes() + index_.bytes() + scales_.bytes() + sketch_.bytes() + sizeof *this;
  }

  // Columns. Several outputs may have the same one, until they learn.

  // Gives each output a column: those of `first` in this order, then the others.
  [[gnu::cold]] void in_order(std::vector<size_t> first) {
    std::vector<unsigned char> listed(columns_.size(), 0);
    for (const size_t output : first) listed[output] = 1;
    for (size_t output = 0; output < columns_.size(); ++output)
      if (!listed[output] && columns_[output] != kNone) first.push_back(output);
    std::vector<size_t> order;
    for (const size_t output : first) order.push_back(columns_[output]);
    arrange(order);
    for (size_t i = 0; i < first.size(); ++i) columns_[first[i]] = i;
    waiting_ = attached_;
  }

  // Makes column i what column order[i] was.
  [[gnu::cold]] void arrange(const std::vector<size_t>& order) {
    bool same = order.size() == states_.size();
    for (size_t i = 0; same && i < order.size(); ++i) same = order[i] == i;
    if (same) return;
    weights_ = Matrix();
    SketchConfig config = config_.sketch;
    config.outputs = order.size();
    S next(config);
    next.take_over(sketch_, order);
    FeatureScales<T> scales = scales_;
    scales.move_to(std::min(next.width(), next.used()));
    BlockStore<T> blocks(padded_width(scales.end()));
    blocks.reserve(index_.size());
    for (Slot slot = 0; slot < index_.size(); ++slot) {
      sketch_.take_block(blocks_.at(slot), order, blocks.at(slot));
      scales_.copy_numbers(blocks_.at(slot), scales, blocks.at(slot));
    }
    std::vector<Output> states;
    for (const size_t column : order) states.push_back(states_[column]);
    config_.sketch.outputs = order.size();
    sketch_ = std::move(next);
    scales_ = std::move(scales);
    blocks_ = std::move(blocks);
    states_ = std::move(states);
    make_room();
  }

  // An empty group with so many outputs.
  [[gnu::cold]] void make_columns(size_t outputs) {
    config_.sketch.outputs = outputs;
    sketch_ = S(config_.sketch);
    scales_ = FeatureScales<T>(config_.scaling, std::min(sketch_.width(), sketch_.used()));
    blocks_ = BlockStore<T>(padded_width(scales_.end()));
    blocks_.reserve(1);
    index_ = FeatureIndex();
    states_.assign(outputs, Output(experts()));
    columns_.clear();
    weights_ = Matrix();
    waiting_ = outputs;
    attached_ = 0;
    make_room();
  }

  void make_room() {
    const size_t K = states_.size() * experts();
    for (Vector* numbers : {&margins_, &fits_, &energies_, &reaches_, &moves_, &beside_sketch_})
      numbers->resize(K);
    is_short_.resize(K);
    blends_.resize(states_.size());
    curvatures_.resize(states_.size());
    labels_.resize(states_.size());
  }

  // Rows.

  template <bool add>
  void resolve(const Batch& batch, size_t row_number) {
    find_features<add>(batch, row_number, config_.intercept, config_.hash_bits, scales_.centres(),
                       index_, merge_, row_);
    if (add) blocks_.reserve(index_.size());
    blocks_.locate(row_.slots.data(), row_.size, row_.blocks.data());
  }

  // Learns the first rows again with centred features, if there are any to centre.
  void centre_features(const GroupLabels& labels) {
    const Vector centres = first_rows_.centres(index_, config_.sketch.size);
    if (centres.empty()) return;
    const Batch rows = first_rows_.batch();
    const std::vector<int64_t> codes(first_rows_.labels(), first_rows_.labels() + rows.rows);
    GroupLabels again{labels.outputs, codes.data(), labels.two_classes};
    for (auto& output : again.outputs) output.predictions = nullptr;
    GroupOf centred(config_, states_.size());
    centred.columns_ = columns_;
    centred.form_ = form_;
    centred.scales_.start_centred(centres, scales_);
    centred.first_rows_.close();
    try {
      centred.learn(rows, 0, again, first_rows_.weights());
    } catch (const Diverged&) {
      return;
    }
    *this = std::move(centred);
  }

  void forget_features(size_t slots) {
    if (index_.size() == slots) return;
    std::vector<Key> keys = index_.keys();
    keys.resize(slots);
    index_ = FeatureIndex::restore(keys);
  }

  // The label of each column in a row; 0 if it does not learn. Folds and generations are those that
  // the classes seen so far ask for: they are the same whichever others were declared.
  void read_labels(const GroupLabels& labels, size_t row) {
    const int64_t code = labels.codes[row];
    if (const auto at = std::lower_bound(seen_.begin(), seen_.end(), code);
        at == seen_.end() || *at != code)
      seen_.insert(at, code);
    std::fill(labels_.begin(), labels_.end(), 0.0);
    for (size_t column = 0; column < states_.size(); ++column) sketch_.heed(column, false);
    for (const auto& [number, target, sign, predictions] : labels.outputs) {
      labels_[columns_[number]] = code == target ? sign : -sign;
      const bool seen = std::binary_search(seen_.begin(), seen_.end(), target);
      sketch_.heed(columns_[number], target >= 0 && (seen || labels.two_classes));
    }
  }

  void predict_row() {
    scales_.apply(row_, group());
    sketch_.view(row_);
    read_margins();
  }

  void read_margins() {
    row_.measure();
    sketch_.project(row_);
    const size_t E = experts();
    for (size_t i = 0; i < margins_.size(); ++i) {
      margins_[i] = sketch_.margin(i);
      if (!std::isfinite(margins_[i])) throw Diverged("the prediction is not a finite number");
    }
    for (size_t column = 0; column < states_.size(); ++column)
      blends_[column] = blended(column, &margins_[column * E]);
  }

  double blended(size_t column, const double* of_experts) const {
    const Vector& shares = states_[column].ensemble.shares();
    return shares.size() == 1 ? of_experts[0] : dot(shares.data(), of_experts, shares.size());
  }

  // Learns the row at hand. If it cannot be learned, everything is as it was before the row.
  void step(double weight) {
    sketch_.refresh(row_);
    const double energy = mean_energy_;
    const uint64_t rounds = rounds_, nonzeros = nonzeros_;
    const EffectiveRows effective = effective_;
    try {
      learn_row(weight);
    } catch (const std::exception&) {
      scales_.undo(row_);
      sketch_.undo();
      mean_energy_ = energy;
      rounds_ = rounds;
      nonzeros_ = nonzeros;
      effective_ = effective;
      throw;
    }
  }

  // As in learner.hpp, for all classes.
  void learn_row(double weight) {
    const size_t every = group(), times = is_drawn(rounds_, every) ? every : 0;
    scales_.take_in(row_, every, times > 0);
    read_margins();
    ++rounds_;
    if (rounds_ < FeatureScales<T>::kMostCounted) nonzeros_ += row_.size;
    effective_.add(weight);
    mean_energy_ += (row_.energy - mean_energy_) / static_cast<double>(rounds_);
    for (size_t column = 0; column < states_.size(); ++column)
      if (labels_[column] != 0) implicit_steps(column, labels_[column], weight);
    if (times > 0) absorb(weight, times);
    sketch_.commit(row_, blocks_, row_.slots_seen, 1.0);
    if (times > 0) curvature_rows_ += weight * static_cast<double>(times);
    for (size_t column = 0; column < states_.size(); ++column)
      if (labels_[column] != 0) judge(column, labels_[column], weight, times);
    count_features();
    if (rounds_ == FeatureScales<T>::kFirstRows) scales_.choose_unit(blocks_, row_.slots_seen);
    scales_.raise_limits(row_);
    if (form_ == Form::undecided && features() > kWide)
      form_ = Form::shared;
    else if (form_ == Form::undecided && rounds_ >= kFirst)
      form_ = Form::separate;
  }

  void implicit_steps(size_t column, double y, double weight) {
    const size_t E = experts(), first = column * E;
    const Output& output = states_[column];
    const double s = curvature(column), unit = unit_of_alpha();
    const bool held_out = is_held_out(rounds_);
    double *margins = &margins_[first], *moves = &moves_[first];
    for (size_t e = 0; e < E; ++e) {
      const double part = remembered(output, e), alpha = this->alpha(e, part * s, unit);
      is_short_[first + e] = part < 1 && config_.experts[e].memory < kShortMemory;
      beside_sketch_[first + e] = alpha / (part * s);
      const double energy = energies_[first + e] =
          sketch_.energy(first + e, beside_sketch_[first + e]);
      reaches_[first + e] = row_.energy > 0 ? weight * energy / alpha : 0;
      if (is_short_[first + e]) reaches_[first + e] *= output.balance.weight(y);
    }
    for (size_t e = 0; e < E; ++e)
      if (is_short_[first + e] && held_out) margins[e] = as_sure_as_others(margins, E, e);
    config_.loss->implicit_steps(margins, y, &reaches_[first], E, &fits_[first], moves);
    const double rows = effective_.count();
    const double most = E > 1 && rows < kFewRows ? rows : std::numeric_limits<double>::infinity();
    double end = 0;
    for (size_t e = 0; e < E; ++e) {
      if (is_short_[first + e] && held_out) moves[e] = 0;
      if (moves[e] != 0)
        sketch_.descend(first + e, -std::clamp(moves[e], -most, most) / energies_[first + e],
                        beside_sketch_[first + e]);
      end += output.ensemble.shares()[e] * (margins[e] + moves[e]);
    }
    curvatures_[column] = weight * config_.loss->curvature(E > 1 ? end : blends_[column], y);
  }

  void absorb(double weight, size_t times) {
    const double square = weight * row_.energy;
    if (!(square * static_cast<double>(times) <= kLargestSquare))
      throw Diverged("a gradient is too large");
    const double c = square < kSmallestSquare ? 0.0 : std::sqrt(weight);
    sketch_.absorb(c, 0, static_cast<double>(rounds_), row_.slots_seen - !config_.intercept,
                   static_cast<double>(times));
  }

  // Once the row has been learned: shares, label means and curvature.
  void judge(size_t column, double y, double weight, size_t times) {
    const size_t E = experts(), first = column * E;
    Output& output = states_[column];
    if (times > 0) output.curvature += curvatures_[column] * static_cast<double>(times);
    if (E == 1) return;
    const bool held_out = is_held_out(rounds_);
    of_column_.assign(&fits_[first], &fits_[first] + E);
    for (size_t e = 0; e < E; ++e) {
      if (!is_short_[first + e]) continue;
      double& fit = of_column_[e];
      const double others = output.ensemble.without(e, of_column_);
      fit = !held_out ? others : fit > others ? std::sqrt(others * fit) : fit;
    }
    output.balance.take_in(y, rounds_);
    output.ensemble.learn(of_column_, weight / effective_.unit());
  }

  // s_k.
  double curvature(size_t column) const {
    const double sum = states_[column].curvature;
    return curvature_rows_ > 0 ? std::max(sum / curvature_rows_, kLeastCurvature) : 1.0;
  }
  double remembered(const Output& output, size_t e) const {
    double memory = config_.experts[e].memory;
    if (!(memory > 0)) return 1.0;
    if (memory < kShortMemory) memory /= output.balance.information();
    return part_of_memory(memory, effective_.count());
  }
  double unit_of_alpha() const {
    return (config_.relative ? mean_energy_ : 1.0) * (experts() > 1 ? effective_.unit() : 1.0);
  }
  double alpha(size_t e, double part, double unit) const {
    return config_.experts[e].alpha * unit + sketch_.tail() * part;
  }
  double alpha(size_t column, size_t e) const {
    return alpha(e, remembered(states_[column], e) * curvature(column), unit_of_alpha());
  }
  size_t best_expert() const {
    const Vector& shares = states_[0].ensemble.shares();
    return static_cast<size_t>(std::max_element(shares.begin(), shares.end()) - shares.begin());
  }

  size_t group() const { return rows_per_draw(config_.sketch_every, rounds_); }
  void count_features() {
    scales_.count_values(static_cast<double>(features()), static_cast<double>(nonzeros_));
  }

  // State.

  template <class Archive>
  [[gnu::cold]] void common_state(Archive& archive) {
    archive.scalar("rounds", rounds_);
    archive.scalar("mean_energy", mean_energy_);
    archive.scalar("nonzeros", nonzeros_);
    scales_.state(archive);
    effective_.state(archive);
  }

  template <class Archive>
  [[gnu::cold]] void experts_state(Archive& archive) {
    Vector numbers;
    for (const Expert& expert : config_.experts)
      numbers.insert(numbers.end(), {expert.alpha, expert.memory});
    archive.array("ensemble.experts", numbers);
    if constexpr (Archive::reading)
      for (size_t e = 0; e < experts(); ++e) {
        if (numbers[2 * e] < 0 || numbers[2 * e + 1] < 0)
          archive.fail("ensemble.experts", "has a negative number");
        config_.experts[e] = {numbers[2 * e], numbers[2 * e + 1]};
      }
  }

  template <class Archive>
  [[gnu::cold]] void archive_state(Archive& archive) {
    common_state(archive);
    experts_state(archive);
    size_t form = static_cast<size_t>(form_);
    archive.scalar("form", form);
    archive.scalar("curvature.rows", curvature_rows_);
    outputs_state(archive);
    if constexpr (Archive::reading) {
      if (form > static_cast<size_t>(Form::separate)) archive.fail("form", "is unknown");
      form_ = static_cast<Form>(form);
      seen_ = archive.template any_array<int64_t>("seen");
      if (!std::is_sorted(seen_.begin(), seen_.end())) archive.fail("seen", "is not sorted");
      const auto keys = archive.template any_array<Key>("features");
      if (keys.empty()) archive.fail("features", "is empty");
      const auto& stored = archive.template get<T>("blocks", 2);
      archive.check_shape("blocks", stored, keys.size(), blocks_.stride());
      index_ = FeatureIndex::restore(keys);
      blocks_.reserve(index_.size());
      const size_t bytes = blocks_.stride() * sizeof(T);
      for (Slot slot = 0; slot < index_.size(); ++slot) {
        std::memcpy(blocks_.at(slot), stored.bytes.data() + slot * bytes, bytes);
        archive.check_finite("blocks", blocks_.at(slot), blocks_.stride());
      }
    } else {
      archive.array("seen", seen_);
      archive.array("features", index_.keys());
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
      count_features();
    }
  }

  template <class Archive>
  [[gnu::cold]] void outputs_state(Archive& archive) {
    const size_t n = states_.size();
    Matrix shares(n, experts());
    Vector recent(n), usual(n), curvature(n);
    for (size_t i = 0; i < n; ++i) {
      std::copy_n(states_[i].ensemble.shares().begin(), experts(), shares[i]);
      recent[i] = states_[i].balance.recent();
      usual[i] = states_[i].balance.usual();
      curvature[i] = states_[i].curvature;
    }
    archive.matrix("shares", shares);
    archive.array("labels.recent", recent);
    archive.array("labels.usual", usual);
    archive.array("curvature", curvature);
    if constexpr (Archive::reading)
      for (size_t i = 0; i < n; ++i) {
        if (!LabelBalance::possible(recent[i]) || !LabelBalance::possible(usual[i]))
          archive.fail("labels.recent", "is not a mean of labels");
        if (curvature[i] < 0) archive.fail("curvature", "has a negative number");
        states_[i].ensemble.set_shares(shares[i]);
        states_[i].balance = LabelBalance(recent[i], usual[i]);
        states_[i].curvature = curvature[i];
      }
  }

  Config config_;
  S sketch_;
  FeatureScales<T> scales_;
  FeatureIndex index_;
  BlockStore<T> blocks_;
  std::vector<size_t> columns_;        // of the outputs; kNone if one is gone
  size_t waiting_ = 0, attached_ = 0;  // columns that may get an output, and that have
  std::vector<Output> states_;         // of the columns
  FirstRows first_rows_;
  Row<T> row_;
  SlotMerger merge_;
  Form form_ = Form::undecided;
  std::vector<int64_t> seen_;  // classes that rows have had, in order
  EffectiveRows effective_;
  uint64_t rounds_ = 0, nonzeros_ = 0;
  double mean_energy_ = 0, curvature_rows_ = 0;
  // In this round, by column, and by expert within.
  Vector margins_, fits_, energies_, reaches_, moves_, beside_sketch_;
  Vector blends_, curvatures_, labels_, of_outputs_, of_column_;
  std::vector<unsigned char> is_short_;
  mutable Matrix weights_;  // see weights(); empty if they are not known
};

// Whether classes can share a sketch: what else a learner can do, groups cannot.
inline bool can_share(const Config& config) {
  const bool blended = config.experts.size() > 1 || config.sketch.size == 0;
  return blended && config.sketch_name == "isotropic" && config.loss->binary && config.hessian &&
         !config.explicit_step && !config.clip && !config.follow_labels &&
         !std::isfinite(config.bound) && config.scaling != Scaling::gradient;
}

std::unique_ptr<Group> make_group(const Config& config, bool single_precision);

}  // namespace sonline
