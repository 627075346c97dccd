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

#include "sonline/ablation.hpp"
#include "sonline/archive.hpp"
#include "sonline/batch.hpp"
#include "sonline/config.hpp"
#include "sonline/errors.hpp"
#include "sonline/experts.hpp"
#include "sonline/feature_table.hpp"
#include "sonline/first_rows.hpp"
#include "sonline/model.hpp"
#include "sonline/row.hpp"

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
        table_(config_.scaling, sketch_),
        waiting_(1),
        first_rows_(FirstRows::may_centre(config_)) {
    states_.emplace_back(experts(), 0);
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
      const size_t slots = table_.size();
      try {
        if (weight == 0) {
          table_.template resolve<false>(batch, row, config_, row_);
          predict_row();
        } else {
          table_.template resolve<true>(batch, row, config_, row_);
          read_labels(labels, row);
          step(weight);
        }
      } catch (const Diverged& error) {
        table_.remove_from(slots);
        throw Diverged(error.what(), row, error.what());
      } catch (const std::exception&) {
        table_.remove_from(slots);
        throw;
      }
      for (const auto& output : labels.outputs)
        if (output.predictions)
          output.predictions[row] = output.sign * states_[columns_[output.number]].prediction;
      if (weight == 0 || !first_rows_.open()) continue;
      if (first_rows_.add(batch, row, static_cast<double>(labels.codes[row]), weight)) {
        centre_features(labels);
        first_rows_.close();
      }
    }
    return row;
  }

  const Vector& predict(const Batch& batch, size_t row) override {
    table_.template resolve<false>(batch, row, config_, row_);
    predict_row();
    of_outputs_.resize(columns_.size());
    for (size_t i = 0; i < columns_.size(); ++i)
      if (columns_[i] != kNone) of_outputs_[i] = states_[columns_[i]].prediction;
    return of_outputs_;
  }

  [[gnu::cold]] Stats stats() const override {
    const Experts& first = states_[0].experts;
    const double alpha = first.alpha(config_, rounds_, sketch_.tail(), curvature(0), first.best());
    return {rounds_.count, sketch_.upkeep(), features(), bytes(), alpha};
  }
  std::vector<Key> keys() const override { return table_.index.keys(); }

  // Those of all outputs are computed at once, and kept until the next row.
  [[gnu::cold]] std::vector<double> weights(size_t output) const override {
    const size_t slots = table_.size(), E = experts(), columns = states_.size();
    if (weights_.rows() != columns || weights_.cols() != slots) {
      weights_ = Matrix(columns, slots);
      each_feature([&](Slot slot, const double* w, const double*) {
        const double scale = table_.scales.of(slot, table_.blocks.at(slot));
        if (scale == 0 || (slot == kInterceptSlot && !config_.intercept)) return;
        for (size_t i = 0; i < columns; ++i)
          weights_(i, slot) =
              states_[i].experts.factor() * states_[i].experts.blend(w + i * E) / scale;
      });
      const Vector& centres = table_.scales.centres();
      for (size_t i = 0; i < columns && !centres.empty(); ++i)
        weights_(i, kInterceptSlot) -= dot(centres.data(), weights_[i], centres.size());
    }
    const double* first = weights_[columns_[output]];
    return std::vector<double>(first, first + slots);
  }
  std::vector<double> scales() const override { return table_.usual_sizes(); }
  std::vector<double> limits() const override { return table_.limits(); }
  std::vector<double> centres() const override { return table_.centres(); }
  [[gnu::cold]] std::vector<double> spectrum(size_t output) const override {
    std::vector<double> values = sketch_.eigenvalues();
    for (double& value : values) value *= curvature(columns_[output]);
    return values;
  }
  // The eigenvalues are in falling order already.
  [[gnu::cold]] Matrix basis() const override {
    Matrix V(sketch_.rank(), table_.size());
    each_feature([&](Slot slot, const double*, const double* v) {
      for (size_t i = 0; i < V.rows(); ++i) V(i, slot) = v[i];
    });
    return V;
  }
  [[gnu::cold]] std::vector<double> expert_shares(size_t output) const override {
    return states_[columns_[output]].experts.shares();
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
    const size_t E = experts();
    common_state(archive);
    table_.write_knowledge(archive);
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
    Shrinkage().state(archive);
    archive.array("ensemble.share", Vector(E, 1.0 / static_cast<double>(E)));
    archive.matrix("directions", basis());
    archive.matrix("weights", Matrix(E, table_.size()));
    sketch_.write_knowledge(archive, table_.blocks, table_.size());
    return std::move(archive.state);
  }

  [[gnu::cold]] std::vector<State> knowledge(const std::vector<size_t>& outputs) override {
    const size_t E = experts();
    std::vector<Matrix> weights(outputs.size(), Matrix(E, table_.size()));
    each_feature([&](Slot slot, const double* w, const double*) {
      for (size_t i = 0; i < outputs.size(); ++i)
        for (size_t e = 0; e < E; ++e) weights[i](e, slot) = w[columns_[outputs[i]] * E + e];
    });
    std::vector<State> states;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const size_t column = columns_[outputs[i]];
      Output& output = states_[column];
      StateWriter archive;
      archive.array("ensemble.share", output.experts.shares());
      archive.scalar("labels.recent", output.experts.balance.recent());
      archive.scalar("labels.usual", output.experts.balance.usual());
      output.experts.shrinkage.state(archive);
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
    table_.read_knowledge(reader);
    const size_t slots = table_.size();
    Matrix weights(E * outputs.size(), slots), of_one(E, slots);
    seen_.clear();
    for (size_t i = 0; i < outputs.size(); ++i) {
      StateReader known(outputs[i]);
      Output& output = states_[i];
      Vector shares(E);
      double recent, usual;
      known.array("ensemble.share", shares);
      output.experts.ensemble.set_shares(shares.data());
      known.scalar("labels.recent", recent);
      known.scalar("labels.usual", usual);
      output.experts.balance = LabelBalance(recent, usual);
      output.experts.shrinkage.state(known);
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
    sketch_.read_knowledge(of_sketch, table_.blocks, slots);
    first_rows_.close();
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
        table_(config_.scaling, sketch_),
        first_rows_(false) {
    make_columns(outputs);
  }

  // What each class has beside its weights.
  struct Output {
    Output(size_t experts, size_t column) : experts(experts, column * experts) {}
    Experts experts;
    double curvature = 0;  // its sum over the rows that the sketch took in
    // In this round.
    double blend = 0;  // of the margins
    double prediction = 0;
    double label = 0;  // 0 if it does not learn
    double curvature_of_row = 0;
  };

  // Three times as many directions as a learner of one class has, but not more than 64 by that.
  static Config shared_config(Config config) {
    const size_t size = config.sketch.size;
    if (SONLINE_KEEPS(shared_directions))
      config.sketch.size = std::max(size, std::min<size_t>(3 * size, 64));
    config.sketch.outputs = 1;
    return config;
  }

  // Calls use(slot, weights of all columns, directions).
  template <class Use>
  void each_feature(Use&& use) const {
    Vector w(experts() * states_.size()), v(sketch_.rank());
    for (Slot slot = 0; slot < table_.size(); ++slot) {
      sketch_.read(slot, table_.blocks.at(slot), w.data(), v.data());
      use(slot, w.data(), v.data());
    }
  }

  size_t experts() const { return config_.experts.size(); }
  size_t features() const { return table_.size() - !config_.intercept; }
  size_t bytes() const { return table_.bytes() + sketch_.bytes() + sizeof *this; }

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
    FeatureTable<T> table(config_.scaling, next);
    table.index = table_.index;
    table.scales = table_.scales;
    table.scales.move_to(std::min(next.width(), next.used()));
    table.blocks.reserve(table_.size());
    for (Slot slot = 0; slot < table_.size(); ++slot) {
      const T* block = table_.blocks.at(slot);
      sketch_.take_block(block, order, table.blocks.at(slot));
      table_.scales.copy_numbers(block, table.scales, table.blocks.at(slot));
    }
    std::vector<Output> states;
    for (const size_t column : order) {
      states.push_back(states_[column]);
      states.back().experts.set_first((states.size() - 1) * experts());
    }
    config_.sketch.outputs = order.size();
    sketch_ = std::move(next);
    table_ = std::move(table);
    row_.located = false;  // it had the blocks of before
    states_ = std::move(states);
  }

  // An empty group with so many outputs.
  [[gnu::cold]] void make_columns(size_t outputs) {
    config_.sketch.outputs = outputs;
    sketch_ = S(config_.sketch);
    table_ = FeatureTable<T>(config_.scaling, sketch_);
    states_.clear();
    for (size_t column = 0; column < outputs; ++column) states_.emplace_back(experts(), column);
    columns_.clear();
    weights_ = Matrix();
    waiting_ = outputs;
    attached_ = 0;
  }

  // Rows.

  // Learns the first rows again with centred features, if there are any to centre.
  void centre_features(const GroupLabels& labels) {
    const Vector centres = first_rows_.centres(table_.index, config_.sketch.size);
    if (centres.empty()) return;
    const Batch rows = first_rows_.batch();
    const std::vector<int64_t> codes(first_rows_.labels(), first_rows_.labels() + rows.rows);
    GroupLabels again{labels.outputs, codes.data(), labels.two_classes};
    for (auto& output : again.outputs) output.predictions = nullptr;
    GroupOf centred(config_, states_.size());
    centred.columns_ = columns_;
    centred.form_ = form_;
    centred.table_.scales.start_centred(centres, table_.scales);
    centred.first_rows_.close();
    try {
      centred.learn(rows, 0, again, first_rows_.weights());
    } catch (const Diverged&) {
      return;
    }
    *this = std::move(centred);
  }

  // The label of each column in a row; 0 if it does not learn. Folds and generations are those that
  // the classes seen so far ask for: they are the same whichever others were declared.
  void read_labels(const GroupLabels& labels, size_t row) {
    const int64_t code = labels.codes[row];
    if (const auto at = std::lower_bound(seen_.begin(), seen_.end(), code);
        at == seen_.end() || *at != code)
      seen_.insert(at, code);
    for (size_t column = 0; column < states_.size(); ++column) {
      states_[column].label = 0;
      sketch_.heed(column, false);
    }
    for (const auto& [number, target, sign, predictions] : labels.outputs) {
      states_[columns_[number]].label = code == target ? sign : -sign;
      const bool seen = std::binary_search(seen_.begin(), seen_.end(), target);
      sketch_.heed(columns_[number], target >= 0 && (seen || labels.two_classes));
    }
  }

  void predict_row() {
    table_.scales.apply(row_, rounds_.per_draw(config_.sketch_every));
    sketch_.view(row_);
    row_.located = false;
    read_margins();
  }

  void read_margins() {
    row_.measure();
    sketch_.project(row_);
    for (Output& output : states_) {
      output.experts.read_margins(sketch_);
      output.blend = output.experts.blend();
      output.prediction = output.experts.factor() * output.blend;
    }
  }

  // Learns the row at hand. If it cannot be learned, everything is as it was before the row.
  void step(double weight) {
    sketch_.refresh(row_);
    const Rounds rounds = rounds_;
    try {
      learn_row(weight);
    } catch (const std::exception&) {
      table_.scales.undo(row_);
      sketch_.undo();
      rounds_ = rounds;
      throw;
    }
  }

  // As in learner.hpp, for all classes.
  void learn_row(double weight) {
    FeatureScales<T>& scales = table_.scales;
    const size_t every = rounds_.per_draw(config_.sketch_every);
    const size_t times = rounds_.next_is_drawn(every) ? every : 0;
    scales.take_in(row_, every, times > 0);
    read_margins();
    rounds_.add_row(row_.size);
    rounds_.effective.add(weight);
    rounds_.add_energy(row_.energy);
    for (size_t column = 0; column < states_.size(); ++column)
      if (states_[column].label != 0) implicit_steps(column, weight);
    if (times > 0) absorb(weight, times);
    sketch_.commit(row_, table_.blocks, row_.slots_seen, 1.0);
    if (times > 0) curvature_rows_ += weight * static_cast<double>(times);
    for (Output& output : states_) {
      if (output.label == 0) continue;
      if (times > 0) output.curvature += output.curvature_of_row * static_cast<double>(times);
      if (experts() > 1)
        output.experts.learn_shares(
            config_, rounds_, output.blend, output.label, weight, [](double z) { return z; },
            [](Vector&) {});
    }
    count_features();
    if (rounds_.count == FeatureScales<T>::kFirstRows)
      scales.choose_unit(table_.blocks, row_.slots_seen);
    scales.raise_limits(row_);
    if (form_ == Form::undecided && features() > kWide)
      form_ = Form::shared;
    else if (form_ == Form::undecided && rounds_.count >= kFirst)
      form_ = Form::separate;
  }

  void implicit_steps(size_t column, double weight) {
    Output& output = states_[column];
    output.experts.step(config_, rounds_, output.label, weight, curvature(column), row_.energy,
                        sketch_);
    const double end = experts() > 1 && SONLINE_KEEPS(curvature_at_end)
                           ? output.experts.end_of_steps()
                           : output.blend;
    output.curvature_of_row = weight * config_.loss->curvature(end, output.label);
  }

  void absorb(double weight, size_t times) {
    const double square = weight * row_.energy;
    if (!(square * static_cast<double>(times) <= kLargestSquare))
      throw Diverged("a gradient is too large");
    const double c = square < kSmallestSquare ? 0.0 : std::sqrt(weight);
    sketch_.absorb(c, 0, static_cast<double>(rounds_.count), row_.slots_seen - !config_.intercept,
                   static_cast<double>(times));
  }

  // s_k.
  double curvature(size_t column) const {
    const double sum = states_[column].curvature;
    return curvature_rows_ > 0 ? std::max(sum / curvature_rows_, kLeastCurvature) : 1.0;
  }

  void count_features() {
    table_.scales.count_values(static_cast<double>(features()),
                               static_cast<double>(rounds_.nonzeros));
  }

  // State.

  template <class Archive>
  [[gnu::cold]] void common_state(Archive& archive) {
    rounds_.state(archive);
    table_.scales.state(archive);
    experts_state(archive, config_.experts);
  }

  template <class Archive>
  [[gnu::cold]] void archive_state(Archive& archive) {
    common_state(archive);
    size_t form = static_cast<size_t>(form_);
    archive.scalar("form", form);
    archive.scalar("curvature.rows", curvature_rows_);
    outputs_state(archive);
    if constexpr (Archive::reading) {
      if (form > static_cast<size_t>(Form::separate)) archive.fail("form", "is unknown");
      form_ = static_cast<Form>(form);
      seen_ = archive.template any_array<int64_t>("seen");
      if (!std::is_sorted(seen_.begin(), seen_.end())) archive.fail("seen", "is not sorted");
    } else {
      archive.array("seen", seen_);
    }
    table_.state(archive);
    first_rows_.state(archive, rounds_.count, table_.index);
    sketch_.state(archive, table_.size());
    if constexpr (Archive::reading) count_features();
  }

  template <class Archive>
  [[gnu::cold]] void outputs_state(Archive& archive) {
    const size_t n = states_.size();
    Matrix shares(n, experts());
    Matrix shrinkage(n, Shrinkage::kSize);
    Vector recent(n), usual(n), curvature(n);
    for (size_t i = 0; i < n; ++i) {
      const Experts& experts = states_[i].experts;
      std::copy_n(experts.shares().begin(), experts.size(), shares[i]);
      recent[i] = experts.balance.recent();
      usual[i] = experts.balance.usual();
      std::copy_n(experts.shrinkage.shares().begin(), Shrinkage::kSize, shrinkage[i]);
      curvature[i] = states_[i].curvature;
    }
    archive.matrix("shares", shares);
    archive.array("labels.recent", recent);
    archive.array("labels.usual", usual);
    archive.array("curvature", curvature);
    archive.matrix("shrinkage.share", shrinkage);
    if constexpr (Archive::reading)
      for (size_t i = 0; i < n; ++i) {
        if (!LabelBalance::possible(recent[i]) || !LabelBalance::possible(usual[i]))
          archive.fail("labels.recent", "is not a mean of labels");
        if (curvature[i] < 0) archive.fail("curvature", "has a negative number");
        states_[i].experts.ensemble.set_shares(shares[i]);
        states_[i].experts.balance = LabelBalance(recent[i], usual[i]);
        states_[i].experts.shrinkage.set_shares(shrinkage[i]);
        states_[i].curvature = curvature[i];
      }
  }

  Config config_;
  S sketch_;
  FeatureTable<T> table_;
  std::vector<size_t> columns_;        // of the outputs; kNone if one is gone
  size_t waiting_ = 0, attached_ = 0;  // columns that may get an output, and that have
  std::vector<Output> states_;         // of the columns
  FirstRows first_rows_;
  Row<T> row_;
  Form form_ = Form::undecided;
  std::vector<int64_t> seen_;  // classes that rows have had, in order
  Rounds rounds_;
  double curvature_rows_ = 0;
  Vector of_outputs_;
  mutable Matrix weights_;  // see weights(); empty if they are not known
};

// Whether classes can share a sketch: what else a learner can do, groups cannot.
inline bool can_share(const Config& config) {
  const bool blended = config.experts.size() > 1 || config.sketch.size == 0;
  return SONLINE_KEEPS(shared_sketch) && blended && config.sketch_name == "isotropic" &&
         config.loss->binary && config.hessian && !config.explicit_step && !config.clip &&
         !config.follow_labels && !std::isfinite(config.bound) &&
         config.scaling != Scaling::gradient;
}

std::unique_ptr<Group> make_group(const Config& config, bool single_precision);

}  // namespace sonline
