// The model for one sketch and one number type: Inputs, outputs, and the mixture of each.
//
// Numbers and two classes have one output, more classes one each, which says "this class or not".
// A growing model has one more output, of a class that no row has ("never"): a class that emerges
// starts as a copy of it, as if it had been declared.
#pragma once

#include <algorithm>
#include <exception>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "sonline/ablation.hpp"
#include "sonline/curves.hpp"
#include "sonline/diagonal.hpp"
#include "sonline/inputs.hpp"
#include "sonline/model.hpp"
#include "sonline/output.hpp"
#include "sonline/parallel.hpp"
#include "sonline/warm_up.hpp"

namespace sonline {

// Compiled for each sketch and number type: what is not called for every row is `cold`, which makes
// it small, and quick to compile. It stands in model_seldom.hpp.
template <class T, class S>
class ModelOf final : public Model {
 public:
  ModelOf(const Config& config, const Task& task)
      : config_(config),
        task_(task),
        inputs_(config),
        diagonal_(config, first_targets(task).size(), SONLINE_KEEPS(held_weights)),
        warm_up_(config) {
    for (const int64_t target : first_targets(task))
      outputs_.push_back(
          std::make_unique<Output<T, S>>(config, target, SONLINE_KEEPS(held_weights)));
    labels_.resize(outputs_.size());
  }

  size_t lines() const override { return task_.numbers || classes() == 2 ? 1 : classes(); }
  size_t classes() const override { return task_.classes; }

  [[gnu::cold]] void add_class() override;
  [[gnu::cold]] void stop_growing() override;

  void learn(const Batch& batch, const double* labels, const double* weights, Predictions out,
             size_t threads) override {
    if (outputs_.size() == 1)
      learn_one_output(batch, labels, weights, out);
    else
      learn_outputs(batch, labels, weights, out, threads);
  }

  void predict(const Batch& batch, Predictions out, bool later) override {
    for (size_t row = 0; row < batch.rows; ++row) {
      inputs_.template resolve<false>(batch, row, rows_[0]);
      predict_row(rows_[0], row, out, later);
    }
  }

  [[gnu::cold]] Stats stats() const override;
  [[gnu::cold]] std::vector<Key> features() const override {
    std::vector<Key> keys = inputs_.index().keys();
    keys.erase(keys.begin());
    return keys;
  }
  [[gnu::cold]] std::vector<double> weights(size_t line) override;
  std::vector<double> scales() const override { return inputs_.usual_sizes(); }
  std::vector<double> limits() const override { return inputs_.limits(); }
  std::vector<double> centres() const override { return inputs_.centres(); }
  [[gnu::cold]] std::vector<double> spectrum(size_t line) const override;
  [[gnu::cold]] Matrix basis(size_t line) override;
  [[gnu::cold]] std::vector<Curve> curves(size_t line) override;
  [[gnu::cold]] std::vector<PairMap> pairs(size_t line) override;
  [[gnu::cold]] std::vector<double> shares(size_t line, bool later) const override {
    return outputs_[output_of(line)]->mixture().shares(later);
  }
  [[gnu::cold]] std::vector<double> limits_of_scores(double error, bool later) const override;
  std::pair<double, double> label_range() const override {
    return {outputs_[0]->targets().low(), outputs_[0]->targets().high()};
  }
  void start_label_range(double low, double high) override {
    for (auto& output : outputs_) output->start_label_range(low, high);
  }

  [[gnu::cold]] State save() override;
  [[gnu::cold]] void restore(const State& saved) override {
    StateReader archive(saved);
    state(archive);
  }

  [[gnu::cold]] State knowledge() override;
  [[gnu::cold]] void set_knowledge(const State& known) override;

 private:
  using Outputs = std::vector<std::unique_ptr<Output<T, S>>>;
  static constexpr int64_t kNever = Output<T, S>::kNever, kNumber = Output<T, S>::kNumber;

  // How many rows outputs learn before the next output does, and how many non-zeros at most.
  static constexpr size_t kSliceRows = 64, kSliceNonzeros = 1 << 15;
  // The least work that pays for starting a thread, some 20 microseconds.
  static constexpr size_t kNonzerosPerThread = 1 << 12;

  // One slice of rows, as the inputs and the diagonal have learned it.
  struct Prepared {
    InputRow<T> row;
    CurvedRow<T> curved;
    size_t number = 0;  // in the batch
    size_t times = 0;
    double label = 0, weight = 0;
    RowsSeen before, seen;
    Vector diagonal[2];  // what the diagonal predicts for the next row and for later ones
  };

  static std::vector<int64_t> first_targets(const Task& task) {
    if (task.numbers) return {kNumber};
    if (task.classes <= 1) return {kNever};
    std::vector<int64_t> targets(task.classes == 2 ? 1 : task.classes);
    std::iota(targets.begin(), targets.end(), task.classes == 2 ? 1 : 0);
    if (task.growing) targets.push_back(kNever);
    return targets;
  }
  // Whether the members with a step per feature keep weights for later rows apart: for numbers, and
  // until a third class is seen.
  bool holds() const { return SONLINE_KEEPS(held_weights) && seen_.size() <= 2; }
  static size_t position(const std::vector<size_t>& from, size_t i) {
    return static_cast<size_t>(std::find(from.begin(), from.end(), from[i]) - from.begin());
  }

  std::vector<size_t> all_outputs() const {
    std::vector<size_t> all(outputs_.size());
    std::iota(all.begin(), all.end(), size_t{0});
    return all;
  }
  // Lets the diagonal follow the outputs, of which output i was output from[i].
  [[gnu::cold]] void arrange(const std::vector<size_t>& from);

  uint64_t next_row() const { return inputs_.seen().count + 1; }
  size_t output_of(size_t line) const { return std::min(line, outputs_.size() - 1); }
  // A single class is the opposite of "never".
  bool mirrored_line() const { return !task_.numbers && classes() <= 1; }

  size_t bytes() const {
    size_t bytes = inputs_.bytes() + curves_.bytes() + diagonal_.bytes() + sizeof *this;
    for (const auto& output : outputs_) bytes += output->bytes();
    return bytes;
  }

  [[gnu::cold]] std::unique_ptr<Output<T, S>> copy(Output<T, S>& output) const;

  void write_answers(size_t row, Predictions out, bool later) const {
    for (size_t line = 0; line < lines(); ++line) {
      const double answer = outputs_[output_of(line)]->answer(later);
      out.values[line * out.stride + row] = mirrored_line() ? -answer : answer;
    }
  }
  void write_uncertainties(const InputRow<T>& x, size_t row, Predictions out, bool later) {
    for (size_t line = 0; line < lines(); ++line) {
      Output<T, S>& output = *outputs_[output_of(line)];
      double& uncertainty = out.uncertainties[line * out.stride + row];
      uncertainty = output.uncertainty(x, diagonal_, inputs_.seen());
      if (out.sizes)
        out.sizes[line * out.stride + row] =
            task_.numbers ? output.error_size(later, uncertainty) : std::sqrt(uncertainty);
    }
  }

  void predict_row(InputRow<T>& row, size_t number, Predictions out, bool later) {
    inputs_.apply(row);
    if (curves_.on()) curves_.expand(row, curved_.row);
    if (diagonal_.members() > 0) diagonal_.project(row, next_row());
    for (size_t k = 0; k < outputs_.size(); ++k)
      outputs_[k]->predict(row, curved_.row, diagonal_.predictions(k));
    write_answers(number, out, later);
    if (out.uncertainties) write_uncertainties(row, number, out, later);
  }

  void take_curved(const InputRow<T>& row, const RowsSeen& seen, CurvedRow<T>& curved) {
    if (!curves_.on()) return;
    curves_.take(row, seen.rows, curved.row);
    curved.mean_energy_before = curves_.mean_energy_before();
    curved.mean_energy = curves_.mean_energy();
  }
  // Removes the features of rows that were not learned.
  void remove_from(size_t slots) {
    inputs_.remove_from(slots);
    for (auto& output : outputs_) output->remove_from(slots);
    if (curves_.on()) curves_.remove_from(slots);
  }

  // The output whose gradient the diagonal takes in: that of the row's class, if it has one.
  size_t output_of_label(double label) const {
    for (size_t k = 0; k < outputs_.size(); ++k)
      if (outputs_[k]->target() == static_cast<int64_t>(label)) return k;
    return 0;
  }

  // -- one output: numbers, and two classes ------------------------------------------------------

  // While a row is learned, the next one is resolved and its blocks are fetched.
  void learn_one_output(const Batch& batch, const double* labels, const double* weights,
                        Predictions out) {
    const auto weight = [&](size_t row) { return weights ? weights[row] : 1.0; };
    unsigned at = 0;
    const auto resolve = [&](size_t row, InputRow<T>& to) {
      if (row == batch.rows) return;
      if (weight(row) == 0) return inputs_.template resolve<false>(batch, row, to);
      inputs_.template resolve<true>(batch, row, to);
      outputs_[0]->prefetch(to);
      if (diagonal_.members() > 0) diagonal_.prefetch(to);
    };
    size_t slots = inputs_.slots(), number = 0;
    try {
      resolve(0, rows_[at]);
      for (; number < batch.rows; ++number) {
        InputRow<T>& row = rows_[at];
        at ^= 1;
        const auto resolve_next = [&] { resolve(number + 1, rows_[at]); };
        if (weight(number) == 0) {
          predict_row(row, number, out, false);
          resolve_next();
          continue;
        }
        learn_row(row, labels[number], weight(number), number, out, resolve_next);
        slots = row.slots_seen;
        if (warm_up_.open() && warm_up_.add(batch, number, labels[number], weight(number))) {
          settle();
          slots = inputs_.slots();
          resolve(number + 1, rows_[at]);  // it was resolved with other inputs
        }
      }
    } catch (const std::exception& error) {
      remove_from(slots);
      refuse(batch.first + number, error);
      throw;
    }
  }

  // One round. If the row cannot be learned, everything is as it was before. resolve_next() is
  // called while the processor waits for the steps.
  template <class ResolveNext>
  void learn_row(InputRow<T>& row, double label, double weight, size_t number, Predictions out,
                 ResolveNext&& resolve_next) {
    Output<T, S>& output = *outputs_[0];
    output.keep_labels();
    const size_t times = inputs_.take(row, weight);
    const RowsSeen& seen = inputs_.seen();
    take_curved(row, seen, curved_);
    uint64_t code = 0;  // of the label, for the choice of pairs
    try {
      if (diagonal_.members() > 0) diagonal_.project(row, seen.count);
      const DiagonalPredictions diagonal = diagonal_.predictions(0);
      output.begin(row, curved_, diagonal, inputs_.seen_before());
      write_answers(number, out, false);
      code = task_.numbers ? label > out.values[number] : static_cast<uint64_t>(label);
      output.expect(task_.numbers ? output.uncertainty(row, diagonal_, inputs_.seen_before()) : 0);
      const double y = output.take_label(output.label(label), weight, seen);
      if (diagonal_.members() > 0)
        diagonal_.reach(y, 0, weight, output.pull(), output.unit_of_gradients(), 2, seen);
      output.step(row, curved_, y, weight, times, seen, diagonal.reaches);
      resolve_next();
      if (diagonal_.members() > 0)
        diagonal_.step_by(output.diagonal_moves(), Round<T, S>::longest_move(config_, seen));
      output.learn(row, curved_, y, weight, times, seen);
    } catch (const std::exception&) {
      output.undo();
      inputs_.undo(row);
      if (curves_.on()) curves_.undo();
      throw;
    }
    if (diagonal_.members() > 0) diagonal_.commit();
    inputs_.commit(row);
    if (curves_.on()) curves_.commit(row, code);
    if (!task_.numbers) see(label);
    output.judge(label);
  }

  [[noreturn]] void refuse(size_t row, const std::exception& error) const {
    std::string text = "row " + std::to_string(row) + ": " + error.what() +
                       ". The learner is as it was before this row";
    if (row > 0) text += "; the " + std::to_string(row) + " rows before it were learned";
    if (dynamic_cast<const BadInput*>(&error)) throw BadInput(text);
    if (!dynamic_cast<const Diverged*>(&error)) throw;
    text += config_.explicit_step
                ? ". Use step='implicit', which cannot overshoot, or a larger alpha"
                : ". Leave the row out, or give numbers of a reasonable size";
    throw Diverged(text, row, row + 1);
  }

  // -- several outputs ---------------------------------------------------------------------------

  // The inputs and the diagonal learn a slice of rows first, and then each output by itself:
  // threads may share the outputs.
  void learn_outputs(const Batch& batch, const double* labels, const double* weights,
                     Predictions out, size_t threads) {
    std::string failed;
    const auto note = [&](size_t row, const std::string& cause, const std::string& who) {
      if (failed.empty())
        failed = "row " + std::to_string(batch.first + row) + ": " + cause + ". " + who +
                 " left this row out; " + std::to_string(batch.first + batch.rows) +
                 " rows were learned otherwise. Leave the row out, or give numbers of a reasonable "
                 "size";
    };
    for (size_t first = 0; first < batch.rows;) {
      const size_t end = prepare_slice(batch, first, labels, weights, out, note);
      std::vector<std::string> errors(outputs_.size());
      std::vector<size_t> error_rows(outputs_.size());
      const size_t work = prepared_nonzeros_ * outputs_.size() / kNonzerosPerThread;
      for_each_index(outputs_.size(), std::min(threads, work), [&](size_t k) {
        for (size_t i = 0; i < prepared_count_; ++i) try {
            learn_prepared(k, prepared_[i], out);
          } catch (const Diverged& error) {
            if (errors[k].empty()) {
              errors[k] = error.what();
              error_rows[k] = prepared_[i].number;
            }
          }
      });
      for (size_t k = 0; k < outputs_.size(); ++k)
        if (!errors[k].empty())
          note(error_rows[k], errors[k],
               "The learner of class number " + std::to_string(outputs_[k]->target()) + " has");
      if (warm_up_.open())
        for (size_t i = 0; i < prepared_count_; ++i)
          if (warm_up_.add(batch, prepared_[i].number, prepared_[i].label, prepared_[i].weight)) {
            settle();
            break;
          }
      first = end;
    }
    const size_t end = batch.first + batch.rows;
    if (!failed.empty()) throw Diverged(failed, end, end);
  }

  // Prepares rows from `first` on; returns the row after the last. A slice ends where the outputs
  // or the inputs change: at the third class, and at the end of the warm-up.
  template <class Note>
  size_t prepare_slice(const Batch& batch, size_t first, const double* labels,
                       const double* weights, Predictions out, Note&& note) {
    prepared_count_ = prepared_nonzeros_ = 0;
    if (prepared_.size() < kSliceRows) prepared_.resize(kSliceRows);
    size_t row = first;
    for (; row < batch.rows && prepared_count_ < kSliceRows && prepared_nonzeros_ < kSliceNonzeros;
         ++row) {
      const double weight = weights ? weights[row] : 1.0;
      Prepared& next = prepared_[prepared_count_];
      if (weight == 0) {
        if (prepared_count_ > 0) break;  // outputs predict it once they have learned the slice
        inputs_.template resolve<false>(batch, row, next.row);
        predict_row(next.row, row, out, false);
        continue;
      }
      if (is_third_class(labels[row])) {
        if (prepared_count_ > 0) break;
        see(labels[row]);
        arrange(all_outputs());
        if (wide_ && !config_.diagonal.empty())
          for (auto& output : outputs_) output->drop_sketch();
      }
      const size_t slots = inputs_.slots();
      inputs_.template resolve<true>(batch, row, next.row);
      try {
        prepare(next, row, labels[row], weight);
      } catch (const Diverged& error) {
        inputs_.undo(next.row);
        if (curves_.on()) curves_.undo();
        remove_from(slots);
        for (size_t line = 0; line < lines(); ++line) out.values[line * out.stride + row] = 0;
        note(row, error.what(), "All classes have");
        continue;
      }
      ++prepared_count_;
      prepared_nonzeros_ += next.row.size;
      if (warm_up_.open() && inputs_.seen().count == WarmUp::kRows) {
        ++row;
        break;
      }
    }
    return row;
  }

  void prepare(Prepared& next, size_t row, double label, double weight) {
    see(label);
    next.number = row;
    next.label = label;
    next.weight = weight;
    next.times = inputs_.take(next.row, weight);
    next.before = inputs_.seen_before();
    next.seen = inputs_.seen();
    take_curved(next.row, next.seen, next.curved);
    if (const size_t D = diagonal_.members(); D > 0) {
      diagonal_.project(next.row, next.seen.count);
      for (size_t k = 0; k < outputs_.size(); ++k) labels_[k] = outputs_[k]->label(label);
      const size_t output = output_of_label(label);
      diagonal_.reach(labels_[output], output, weight, 1.0, 1.0, seen_.size(), next.seen);
      diagonal_.step(labels_.data(), Round<T, S>::longest_move(config_, next.seen));
      const DiagonalPredictions all = diagonal_.predictions(0);
      const double* parts[] = {all.margins, all.later_margins};
      for (size_t i = 0; i < std::size(parts); ++i)
        next.diagonal[i].assign(parts[i], parts[i] + outputs_.size() * D);
      diagonal_.commit();
    }
    inputs_.commit(next.row);
    if (curves_.on()) curves_.commit(next.row, static_cast<uint64_t>(label));
  }

  void learn_prepared(size_t k, Prepared& row, Predictions out) {
    Output<T, S>& output = *outputs_[k];
    const auto part = [&](size_t i) { return row.diagonal[i].data() + k * diagonal_.members(); };
    const DiagonalPredictions diagonal{part(0), part(1), nullptr};
    output.keep_labels();
    try {
      output.begin(row.row, row.curved, diagonal, row.before);
      if (k < lines()) {
        const double answer = output.answer(false);
        out.values[k * out.stride + row.number] = mirrored_line() ? -answer : answer;
      }
      // Of several classes, sets are made of the rows of each.
      const bool judged = seen_.size() <= 2 || output.label(row.label) == output.sign();
      if (judged) output.expect(0);
      const double y = output.take_label(output.label(row.label), row.weight, row.seen);
      output.step(row.row, row.curved, y, row.weight, row.times, row.seen, nullptr);
      output.learn(row.row, row.curved, y, row.weight, row.times, row.seen);
      if (judged) output.judge(row.label);
    } catch (const Diverged&) {
      output.undo();
      throw;
    }
  }

  // Classes that rows have had, in order.
  void see(double label) {
    const auto code = static_cast<int64_t>(label);
    const auto at = std::lower_bound(seen_.begin(), seen_.end(), code);
    if (at == seen_.end() || *at != code) seen_.insert(at, code);
  }
  // Whether the label is that of the third class. From there on, members are judged on the next row
  // only, and in wide rows outputs do without their sketches.
  bool is_third_class(double label) const {
    return seen_.size() == 2 &&
           !std::binary_search(seen_.begin(), seen_.end(), static_cast<int64_t>(label));
  }

  // -- the end of the warm-up --------------------------------------------------------------------

  // Starts again with what the first rows have shown, and learns them once more.
  [[gnu::cold]] void settle();
  static Config with_curves(Config config, bool on) {
    config.curved = on ? config.with_curves : std::vector<Member>();
    return config;
  }
  // The curves that the first rows suggest, if they are those of a table.
  [[gnu::cold]] Curves chosen_curves(const Choices& choices) const;

  // -- state -------------------------------------------------------------------------------------

  void read_classes_seen(StateReader& archive);

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive);

  Config config_;
  Task task_;
  Inputs<T> inputs_;
  Curves curves_;
  Outputs outputs_;
  Diagonal<T> diagonal_;
  WarmUp warm_up_;
  bool wide_ = false;
  std::vector<int64_t> seen_;  // classes that rows have had, in order
  InputRow<T> rows_[2];        // the one at hand and the next
  CurvedRow<T> curved_;        // the one at hand with hats
  Vector labels_;              // of the row at hand, by output
  std::vector<Prepared> prepared_;
  size_t prepared_count_ = 0, prepared_nonzeros_ = 0;
};

}  // namespace sonline

#include "sonline/model_seldom.hpp"  // IWYU pragma: export
