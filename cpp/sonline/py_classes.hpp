// One model per class over one pass of the data.
//
// Model k learns "is it class target[k]": the label +1 for rows of that class and -1 for all
// others. With sign[k] = -1 it learns the opposite and its prediction is turned round, which by the
// symmetry of the losses is the same learner. Its twin for "is it not" can so become a class of its
// own.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "sonline/parallel.hpp"
#include "sonline/py_model.hpp"

namespace sonline {

class PyClasses {
 public:
  using Codes = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  using OutMatrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

  PyClasses(const nb::list& models, std::vector<int64_t> targets, std::vector<double> signs)
      : targets_(std::move(targets)), signs_(std::move(signs)) {
    for (nb::handle object : models) {
      kept_.push_back(nb::borrow(object));
      models_.push_back(nb::cast<PyModel*>(object));
    }
    if (models_.empty() || targets_.size() != models_.size() || signs_.size() != models_.size())
      throw std::invalid_argument("every model needs a target and a sign");
    shared_ = models_[0]->shared();
    for (const PyModel* model : models_)
      if (model->shared() != shared_) throw std::invalid_argument("the models must share names");
  }

  // `out` has a row of predictions for each model, made before each update.
  void learn(Batch batch, const Codes& codes, const std::optional<Doubles>& weights, OutMatrix out,
             size_t threads) {
    check_lengths(batch.rows, codes, weights, out);
    const std::scoped_lock lock(shared_->mutex);
    learn_locked(batch, codes, weights, out, threads);
  }

  void learn_rows(nb::sequence rows, const Codes& codes, const std::optional<Doubles>& weights,
                  OutMatrix out, size_t threads) {
    const std::scoped_lock lock(shared_->mutex);
    check_lengths(shared_->reader.read_all(rows), codes, weights, out);
    learn_locked(shared_->reader.named(), codes, weights, out, threads);
  }

  void learn_one(nb::handle mapping, int64_t code, double weight) {
    const std::scoped_lock lock(shared_->mutex);
    const Batch batch = PyModel::read_one(*shared_, mapping, weight);
    for (size_t k = 0; k < models_.size(); ++k) {
      const double y = label(k, code);
      double prediction;
      models_[k]->model().learn(batch, &y, &weight, &prediction);
    }
  }

  void predict(Batch batch, OutMatrix out, size_t threads) {
    const std::scoped_lock lock(shared_->mutex);
    predict_locked(batch, out, threads);
  }

  void predict_rows(nb::sequence rows, OutMatrix out, size_t threads) {
    const std::scoped_lock lock(shared_->mutex);
    shared_->reader.read_all(rows);
    predict_locked(shared_->reader.known(), out, threads);
  }

  std::vector<double> predict_one(nb::handle mapping) {
    const std::scoped_lock lock(shared_->mutex);
    margins_of(mapping);
    return margins_;
  }

  // The class with the largest prediction, the first of them where several have it. A single model
  // speaks for its class or against it, and then for class 0.
  int64_t choose_one(nb::handle mapping) {
    const std::scoped_lock lock(shared_->mutex);
    margins_of(mapping);
    if (margins_.size() == 1) return margins_[0] > 0 ? targets_[0] : 0;
    return targets_[static_cast<size_t>(std::max_element(margins_.begin(), margins_.end()) -
                                        margins_.begin())];
  }

 private:
  // What a thread must have to do before it is worth its start of some 20 microseconds.
  static constexpr size_t kNumbersPerThread = 1 << 14;

  void margins_of(nb::handle mapping) {
    shared_->reader.read(mapping);
    const Batch batch = shared_->reader.known();
    margins_.resize(models_.size());
    for (size_t k = 0; k < models_.size(); ++k) {
      models_[k]->model().predict(batch, &margins_[k]);
      margins_[k] *= signs_[k];
    }
  }

  double label(size_t k, int64_t code) const {
    return code == targets_[k] ? signs_[k] : -signs_[k];
  }

  void check_lengths(size_t rows, const Codes& codes, const std::optional<Doubles>& weights,
                     const OutMatrix& out) const {
    if (codes.shape(0) != rows || out.shape(0) != models_.size() || out.shape(1) != rows ||
        (weights && weights->shape(0) != rows))
      throw BadInput("X has " + std::to_string(rows) + " rows, y has " +
                     std::to_string(codes.shape(0)));
  }

  size_t useful_threads(const Batch& batch, size_t threads) const {
    const size_t numbers = (batch.indptr ? batch.stored : batch.rows * batch.cols) * models_.size();
    return std::min(threads, numbers / kNumbersPerThread);
  }

  // The batch is checked once, for all models and before any of them learns.
  void check(Batch& batch) const {
    nb::gil_scoped_release unlocked;
    validate(batch, shared_->largest);
    batch.checked = true;
  }

  void learn_locked(Batch batch, const Codes& codes, const std::optional<Doubles>& weights,
                    OutMatrix& out, size_t threads) {
    check(batch);
    const size_t rows = batch.rows;
    threads = useful_threads(batch, threads);
    in_slices(batch, "learnt", [&](const Batch& part, size_t first) {
      for_each_index(models_.size(), threads, [&](size_t k) {
        std::vector<double> labels(part.rows);
        for (size_t row = 0; row < part.rows; ++row)
          labels[row] = label(k, codes.data()[first + row]);
        double* predictions = out.data() + k * rows + first;
        models_[k]->model().learn(part, labels.data(), weights ? weights->data() + first : nullptr,
                                  predictions);
        turn(k, predictions, part.rows);
      });
    });
  }

  void predict_locked(Batch batch, OutMatrix& out, size_t threads) {
    const size_t rows = batch.rows;
    if (out.shape(0) != models_.size() || out.shape(1) != rows)
      throw BadInput("the output has the wrong shape");
    check(batch);
    threads = useful_threads(batch, threads);
    in_slices(batch, "predicted", [&](const Batch& part, size_t first) {
      for_each_index(models_.size(), threads, [&](size_t k) {
        double* predictions = out.data() + k * rows + first;
        models_[k]->model().predict(part, predictions);
        turn(k, predictions, part.rows);
      });
    });
  }

  void turn(size_t k, double* predictions, size_t rows) const {
    if (signs_[k] < 0)
      for (size_t row = 0; row < rows; ++row) predictions[row] = -predictions[row];
  }

  std::vector<nb::object> kept_;
  std::vector<PyModel*> models_;
  std::vector<int64_t> targets_;
  std::vector<double> signs_, margins_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace sonline
