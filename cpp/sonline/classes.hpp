// One model per class over one pass of the data.
//
// Model k learns "is it class target[k]": the label +1 for rows of that class and -1 for all
// others. With sign[k] = -1 it learns the opposite and its prediction is negated, which by the
// symmetry of the losses is the same learner. So when a third class appears, the copy of the model
// of two classes with sign -1 becomes class 0.
//
// Slots and scales of a row do not depend on its label. Models that have learned the same rows are
// alike: one of them prepares each row, and the others take it over.
//
// Models over wide rows are outputs of one group instead, which learns all of them at once
// (group.hpp). As long as there are at most two classes, which one model stands for, it keeps a
// learner of its own: what it predicts does not depend on whether more classes may come.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "sonline/batch.hpp"
#include "sonline/class_model.hpp"
#include "sonline/errors.hpp"
#include "sonline/group.hpp"
#include "sonline/model.hpp"
#include "sonline/parallel.hpp"

namespace sonline {

class Classes {
 public:
  // The models are borrowed; `largest` is the largest value that they take.
  Classes(std::vector<Model*> models, std::vector<int64_t> targets, std::vector<double> signs,
          double largest)
      : models_(std::move(models)),
        targets_(std::move(targets)),
        signs_(std::move(signs)),
        largest_(largest) {
    if (models_.empty() || targets_.size() != models_.size() || signs_.size() != models_.size())
      throw std::invalid_argument("every model needs a target and a sign");
  }

  size_t size() const { return models_.size(); }

  // How many of the next rows come before there are more than two classes.
  void set_rows_of_two(size_t rows) { rows_of_two_ = rows; }

  // Checks a whole batch, once for all models and before any of them learns.
  void check(Batch& batch) const {
    validate(batch, largest_);
    batch.checked = true;
  }

  size_t useful_threads(const Batch& batch, size_t threads) const {
    const size_t numbers = (batch.indptr ? batch.stored : batch.rows * batch.cols) * size();
    return std::min(threads, numbers / kNumbersPerThread);
  }

  // The predictions of model k, made before each update, go to out + k * stride. Models must stay
  // in step: one that cannot learn a row leaves it out and goes on, and the error comes at the end.
  void learn(const Batch& batch, const int64_t* codes, const double* weights, double* out,
             size_t stride, size_t threads) {
    const auto separately = [&](size_t first, size_t end) {
      learn_separately(slice(batch, first, end - first), codes + first,
                       weights ? weights + first : nullptr, out + first, stride, threads,
                       batch.first + batch.rows);
    };
    if (const std::shared_ptr<Group> group = this->group())
      learn_with(*group, batch, labels_for(codes, out, stride), weights, separately);
    else
      separately(0, batch.rows);
  }

  void learn_row(const Batch& row, int64_t code, double weight) {
    if (group()) {
      margins_.resize(size());
      learn(row, &code, &weight, margins_.data(), 1, 1);
      return;
    }
    std::exception_ptr failed;
    for (size_t k = 0; k < size(); ++k) try {
        const double y = label(k, code);
        double prediction;
        learn_rows(k, row, &y, &weight, &prediction, row.first + row.rows);
      } catch (const Diverged&) {
        if (!failed) failed = std::current_exception();
      }
    if (failed) std::rethrow_exception(failed);
  }

  void predict(const Batch& batch, double* out, size_t stride, size_t threads) {
    if (Group* group = predicting_group()) {
      for (size_t row = 0; row < batch.rows; ++row)
        predict_with(*group, batch, row, out + row, stride);
      return;
    }
    for_each_index(size(), threads, [&](size_t k) {
      models_[k]->predict(batch, out + k * stride);
      turn(k, out + k * stride, batch.rows);
    });
  }

  // The predictions for one row; valid until the next call.
  const std::vector<double>& predict_row(const Batch& row) {
    margins_.resize(size());
    predict(row, margins_.data(), 1, 1);
    return margins_;
  }

  // The class with the largest prediction, the first of them where several have it. A single model
  // decides between its class and class 0.
  int64_t choose(const Batch& row) {
    predict_row(row);
    if (size() == 1) return margins_[0] > 0 ? targets_[0] : 0;
    const auto best = std::max_element(margins_.begin(), margins_.end());
    return targets_[static_cast<size_t>(best - margins_.begin())];
  }

 private:
  // The least work that pays for starting a thread, some 20 microseconds.
  static constexpr size_t kNumbersPerThread = 1 << 14;

  // How many non-zeros are prepared at a time, some 5 MB. With fewer, the blocks of one model are
  // out of the cache before it learns the next part.
  static constexpr size_t kPrepared = 1 << 17;

  // A group.

  ClassModel* class_model(size_t k) const { return dynamic_cast<ClassModel*>(models_[k]); }
  bool has_own(size_t k) const {
    const ClassModel* model = class_model(k);
    return !model || model->own();
  }
  std::shared_ptr<Group> group() const {
    const ClassModel* first = class_model(0);
    return first ? first->group() : nullptr;
  }
  // The group that answers, or null if the models do.
  Group* predicting_group() const {
    for (size_t k = 0; k < size(); ++k)
      if (!has_own(k)) return class_model(k)->group().get();
    return nullptr;
  }
  size_t classes() const {
    return 1 + static_cast<size_t>(*std::max_element(targets_.begin(), targets_.end()));
  }

  GroupLabels labels_for(const int64_t* codes, double* out, size_t stride) const {
    GroupLabels labels{{}, codes, classes() <= 2};
    for (size_t k = 0; k < size(); ++k)
      labels.outputs.push_back({class_model(k)->output(), targets_[k], signs_[k],
                                size() > 1 ? out + k * stride : nullptr});
    return labels;
  }

  // Lets a group learn the rows, and the models that have learners of their own: all of them until
  // it is known whether rows are wide, and then as long as there are no more than two classes.
  template <class Separately>
  void learn_with(Group& group, const Batch& batch, const GroupLabels& labels,
                  const double* weights, Separately&& separately) {
    std::exception_ptr failed;
    const auto keep = [&](auto&& work) {
      try {
        work();
      } catch (const Diverged&) {
        if (!failed) failed = std::current_exception();
      }
    };
    const size_t rows = alone(batch, separately, failed);
    const size_t two = classes() <= 2 ? rows : std::min(rows_of_two_, rows);
    if (classes() > 2) rows_of_two_ -= two;
    for (size_t first = 0, end; first < rows; first = end) {
      const bool shared = group.form() == Form::shared;
      end = shared && first < two ? two : rows;
      if (shared) drop_own(first < two);
      keep([&] { learn_rows(group, slice(batch, 0, end), first, labels, weights, shared, end); });
      if (size() > 1) keep([&] { separately(first, end); });
      if (group.form() != Form::separate) continue;
      for (size_t k = 0; k < size(); ++k) class_model(k)->leave_group();
      if (size() > 1) keep([&] { separately(end, rows); });
      break;
    }
    if (failed) std::rethrow_exception(failed);
  }

  // A lone model stops before a row that it cannot learn; returns how many rows it has learned.
  template <class Separately>
  size_t alone(const Batch& batch, Separately&& separately, std::exception_ptr& failed) const {
    if (size() == 1) try {
        separately(0, batch.rows);
      } catch (const Diverged& error) {
        failed = std::current_exception();
        return error.row;
      }
    return batch.rows;
  }

  // A row that cannot be learned is left out. `end` becomes the row after the last, see
  // Group::learn. If the group does not answer yet, the errors are those of the others.
  static void learn_rows(Group& group, const Batch& batch, size_t first, const GroupLabels& labels,
                         const double* weights, bool answers, size_t& end) {
    std::string failed;
    for (end = batch.rows; first < batch.rows;) try {
        end = group.learn(batch, first, labels, weights);
        break;
      } catch (const Diverged& error) {
        if (failed.empty())
          failed = "row " + std::to_string(batch.first + error.row) + ": " + error.cause +
                   ". All classes have left this row out; " +
                   std::to_string(batch.first + batch.rows) +
                   " rows were learned otherwise. Leave the row out, or give numbers of a "
                   "reasonable size";
        first = error.row + 1;
      }
    if (answers && !failed.empty()) throw Diverged(failed);
  }

  void drop_own(bool two_classes) {
    for (size_t k = 0; k < size(); ++k)
      if (!two_classes || targets_[k] < 0 || targets_[k] > 1) class_model(k)->drop_own();
  }

  void predict_with(Group& group, const Batch& batch, size_t row, double* out,
                    size_t stride) const {
    const Vector& predictions = group.predict(batch, row);
    for (size_t k = 0; k < size(); ++k)
      out[k * stride] = signs_[k] * predictions[class_model(k)->output()];
  }

  // Models by themselves.

  // Models without a learner of their own are passed over.
  void learn_separately(const Batch& batch, const int64_t* codes, const double* weights,
                        double* out, size_t stride, size_t threads, size_t end) {
    std::vector<std::exception_ptr> errors(size());
    std::vector<std::unique_ptr<PreparedBatch>> prepared(size());
    for (size_t first = 0, rows; first < batch.rows; first += rows) {
      rows = rows_to_prepare(batch, first);
      const Batch part = slice(batch, first, rows);
      const std::vector<size_t> leaders = leaders_of(part);
      const auto learn_part = [&](size_t k) {
        std::vector<double> labels(rows);
        for (size_t row = 0; row < rows; ++row) labels[row] = label(k, codes[first + row]);
        double* predictions = out + k * stride + first;
        const bool leads = leaders[k] == k;
        try {
          learn_rows(k, part, labels.data(), weights ? weights + first : nullptr, predictions, end,
                     leads ? nullptr : prepared[leaders[k]].get(), prepared[k].get());
        } catch (const Diverged&) {
          if (!errors[k]) errors[k] = std::current_exception();
        }
        turn(k, predictions, rows);
      };
      std::vector<size_t> first_turn, second_turn;
      for (size_t k = 0; k < size(); ++k) {
        if (!has_own(k)) continue;
        (leaders[k] == k ? first_turn : second_turn).push_back(k);
        if (leaders[k] != k && !prepared[leaders[k]])
          prepared[leaders[k]] = models_[leaders[k]]->new_prepared();
      }
      for (const auto& turn : {first_turn, second_turn})
        for_each_index(turn.size(), threads, [&](size_t i) { learn_part(turn[i]); });
      stay_alike(leaders, errors);
    }
    for (const auto& error : errors)
      if (error) std::rethrow_exception(error);
  }

  // How many rows from `first` on are prepared together.
  static size_t rows_to_prepare(const Batch& batch, size_t first) {
    size_t rows = 0, numbers = 0;
    for (; first + rows < batch.rows && numbers < kPrepared; ++rows)
      numbers += length(batch, first + rows);
    return rows;
  }
  static size_t length(const Batch& batch, size_t row) {
    size_t length = 0;
    with_row(batch, row, [&](auto, auto, size_t n) { length = n; });
    return length;
  }

  // For each model the first one that is like it.
  std::vector<size_t> leaders_of(const Batch& part) {
    std::vector<size_t> leaders(size());
    std::iota(leaders.begin(), leaders.end(), size_t{0});
    if (part.rows < 2 || size() < 2) return leaders;
    size_t numbers = 0;
    for (size_t row = 0; row < part.rows; ++row) numbers += length(part, row);
    std::unordered_map<uint64_t, size_t> first;
    for (size_t k = 0; k < size(); ++k) {
      if (!has_own(k)) continue;
      const uint64_t number = models_[k]->alike();
      const size_t leader = first.emplace(number, k).first->second;
      if (number != 0 || models_[k]->is_like(*models_[leader], numbers)) leaders[k] = leader;
    }
    return leaders;
  }

  // After a part that models alike have learned, they are alike again.
  void stay_alike(const std::vector<size_t>& leaders,
                  const std::vector<std::exception_ptr>& errors) {
    static std::atomic<uint64_t> next = 1;
    const uint64_t part = next.fetch_add(size());
    for (size_t k = 0; k < size(); ++k)
      if (!errors[k] && !errors[leaders[k]]) models_[k]->set_alike(part + leaders[k]);
  }

  // Up to row `end` of the caller's batch, all rows will have been learned.
  void learn_rows(size_t k, const Batch& batch, const double* labels, const double* weights,
                  double* out, size_t end, const PreparedBatch* ready = nullptr,
                  PreparedBatch* made = nullptr) {
    if (size() == 1) {  // no other model to keep in step with: it stops before the row
      models_[k]->learn(batch, labels, weights, out);
      return;
    }
    std::string failed;
    for (size_t first = 0; first < batch.rows;) try {
        const Batch rest = slice(batch, first, batch.rows - first);
        models_[k]->learn(rest, labels + first, weights ? weights + first : nullptr, out + first,
                          ready, made);
        first = batch.rows;
      } catch (const Diverged& error) {
        const size_t row = first + error.row;
        if (!weights || weights[row] != 0) models_[k]->add_features(batch, row);
        ready = nullptr;  // it is no longer like the others
        made = nullptr;
        if (failed.empty())
          failed = "row " + std::to_string(batch.first + row) + ": " + error.cause +
                   ". The learner of class number " + std::to_string(targets_[k]) +
                   " has left this row out; " + std::to_string(end) +
                   " rows were learned otherwise. Leave the row out, or give numbers of a "
                   "reasonable size";
        first = row + 1;
      }
    if (!failed.empty()) throw Diverged(failed);
  }

  double label(size_t k, int64_t code) const {
    return code == targets_[k] ? signs_[k] : -signs_[k];
  }

  void turn(size_t k, double* predictions, size_t rows) const {
    if (signs_[k] < 0)
      for (size_t row = 0; row < rows; ++row) predictions[row] = -predictions[row];
  }

  std::vector<Model*> models_;
  std::vector<int64_t> targets_;
  std::vector<double> signs_, margins_;
  double largest_;
  size_t rows_of_two_ = 0;
};

}  // namespace sonline
