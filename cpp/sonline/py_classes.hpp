// Classes as Python holds them: the models, their common names and lock, and NumPy arrays.
#pragma once

#include <memory>
#include <vector>

#include "sonline/classes.hpp"
#include "sonline/py_model.hpp"

namespace sonline {

class PyClasses {
 public:
  using Codes = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  using OutMatrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

  PyClasses(const nb::list& models, std::vector<int64_t> targets, std::vector<double> signs)
      : references_(references(models)),
        shared_(common(models)),
        classes_(borrowed(models), std::move(targets), std::move(signs), shared_->largest) {}

  void learn_arrays(const nb::tuple& rows, const Codes& codes,
                    const std::optional<Doubles>& weights, OutMatrix out, size_t threads) {
    const HeldBatch held = batch_of(rows);
    check_lengths(held.batch.rows, codes, weights, out);
    const std::scoped_lock lock(shared_->mutex);
    learn_locked(held.batch, codes, weights, out, threads);
  }

  void learn_rows(nb::sequence rows, const Codes& codes, const std::optional<Doubles>& weights,
                  OutMatrix out, size_t threads) {
    const std::scoped_lock lock(shared_->mutex);
    check_lengths(shared_->reader.read_all(rows), codes, weights, out);
    learn_locked(shared_->reader.named(), codes, weights, out, threads);
  }

  void learn_one(nb::handle mapping, int64_t code, double weight) {
    // Not between the calls of a thread that holds the model, as a signal would.
    if (shared_->mutex.is_held()) ModelMutex::refuse();
    const std::scoped_lock lock(shared_->mutex);
    classes_.learn_row(PyModel::read_one(*shared_, mapping, weight), code, weight);
  }

  void predict_arrays(const nb::tuple& rows, OutMatrix out, size_t threads) {
    const HeldBatch held = batch_of(rows);
    const std::scoped_lock lock(shared_->mutex);
    predict_locked(held.batch, out, threads);
  }

  void predict_rows(nb::sequence rows, OutMatrix out, size_t threads) {
    const std::scoped_lock lock(shared_->mutex);
    shared_->reader.read_all(rows);
    predict_locked(shared_->reader.known(), out, threads);
  }

  std::vector<double> predict_one(nb::handle mapping) {
    const std::scoped_lock lock(shared_->mutex);
    shared_->reader.read(mapping);
    return classes_.predict_row(shared_->reader.known());
  }

  // Takes over the models of another one, also for threads that wait for the lock.
  void become(const PyClasses& other) {
    const std::scoped_lock lock(shared_->mutex);
    references_ = other.references_;
    classes_ = other.classes_;
  }

  size_t size() const { return classes_.size(); }

  // See Classes.
  void set_rows_of_two(size_t rows) {
    const std::scoped_lock lock(shared_->mutex);
    classes_.set_rows_of_two(rows);
  }

  // The states of models that share names, all of the same moment: no thread learns in between. The
  // first has the state of their group, if there is one. Outputs of a group share their arrays.
  static nb::list states(const nb::list& models, bool knowledge) {
    const auto shared = common(models);
    const std::scoped_lock lock(shared->mutex);
    const std::shared_ptr<Group> group = group_of(models);
    nb::list states, of_outputs;
    if (group && knowledge && group->form() == Form::shared)
      of_outputs = knowledge_of(*group, models);
    for (size_t i = 0; i < nb::len(models); ++i) {
      const auto* model = nb::cast<PyModel*>(models[i]);
      const ClassModel* of_class = model->class_model();
      if (knowledge && of_class && !of_class->own())
        states.append(of_outputs[i]);
      else
        states.append(knowledge ? model->knowledge_locked() : model->save_locked());
    }
    if (group && !knowledge) {
      nb::dict first = nb::cast<nb::dict>(states[0]);
      PyModel::add_fields(first, group->save(outputs(models)), PyModel::kGroup);
    }
    return states;
  }

  // "separate", "undecided" or "shared", see group.hpp.
  static const char* form(const nb::list& models) {
    const auto shared = common(models);
    const std::scoped_lock lock(shared->mutex);
    const std::shared_ptr<Group> group = group_of(models);
    return !group ? "separate" : group->form() == Form::undecided ? "undecided" : "shared";
  }

  // Lets each model learn by itself from now on, if it has a learner of its own.
  static void separate(const nb::list& models) {
    const auto shared = common(models);
    const std::scoped_lock lock(shared->mutex);
    for (nb::handle object : models)
      if (ClassModel* model = nb::cast<PyModel*>(object)->class_model(); model && model->own())
        model->leave_group();
  }

  // What the group of models knows: of its sketch, and of each output.
  static nb::list group_knowledge(const nb::list& models) {
    const auto shared = common(models);
    const std::scoped_lock lock(shared->mutex);
    const std::shared_ptr<Group> group = group_of(models);
    if (!group) throw std::invalid_argument("the models have no group");
    return knowledge_of(*group, models);
  }

  // Makes new models a group with such knowledge; the last state is that of the sketch.
  static void set_group_knowledge(const nb::list& models, const nb::list& states) {
    std::vector<State> of_models;
    for (nb::handle state : states)
      of_models.push_back(PyModel::state_of(nb::cast<nb::dict>(state)));
    if (of_models.empty()) throw std::invalid_argument("there is no sketch");
    const State sketch = std::move(of_models.back());
    of_models.pop_back();
    const auto shared = common(models);
    const std::scoped_lock lock(shared->mutex);
    const std::shared_ptr<Group> group = group_of(models);
    if (!group || of_models.size() != nb::len(models))
      throw std::invalid_argument("the models have no such group");
    for (nb::handle object : models) nb::cast<PyModel*>(object)->class_model()->leave_group();
    group->set_knowledge(sketch, of_models);
    for (nb::handle object : models)
      nb::cast<PyModel*>(object)->class_model()->join(nullptr, group, group->attach());
  }

  int64_t choose_one(nb::handle mapping) {
    const std::scoped_lock lock(shared_->mutex);
    shared_->reader.read(mapping);
    return classes_.choose(shared_->reader.known());
  }

 private:
  // Arrays of the sketch are shared.
  static nb::list knowledge_of(Group& group, const nb::list& models) {
    nb::dict common = nb::cast<PyModel*>(models[0])->names_locked();
    PyModel::add_fields(common, group.knowledge());
    nb::list states;
    for (State& state : group.knowledge(outputs(models))) {
      nb::dict fields;
      fields.update(common);
      PyModel::add_fields(fields, std::move(state));
      states.append(fields);
    }
    states.append(common);
    return states;
  }

  static std::shared_ptr<Group> group_of(const nb::list& models) {
    const ClassModel* first = nb::cast<PyModel*>(models[0])->class_model();
    return first ? first->group() : nullptr;
  }
  static std::vector<size_t> outputs(const nb::list& models) {
    std::vector<size_t> outputs;
    for (nb::handle object : models)
      outputs.push_back(nb::cast<PyModel*>(object)->class_model()->output());
    return outputs;
  }

  static std::vector<nb::object> references(const nb::list& models) {
    std::vector<nb::object> kept;
    for (nb::handle object : models) kept.push_back(nb::borrow(object));
    return kept;
  }

  static std::vector<Model*> borrowed(const nb::list& models) {
    std::vector<Model*> pointers;
    for (nb::handle object : models) pointers.push_back(&nb::cast<PyModel*>(object)->model());
    return pointers;
  }

  static std::shared_ptr<Shared> common(const nb::list& models) {
    std::shared_ptr<Shared> shared;
    for (nb::handle object : models) {
      const auto& names = nb::cast<PyModel*>(object)->shared();
      if (shared && names != shared) throw std::invalid_argument("the models must share names");
      shared = names;
    }
    if (!shared) throw std::invalid_argument("there must be at least one model");
    return shared;
  }

  void check(Batch& batch) const {
    nb::gil_scoped_release unlocked;
    classes_.check(batch);
  }

  void learn_locked(Batch batch, const Codes& codes, const std::optional<Doubles>& weights,
                    OutMatrix& out, size_t threads) {
    check(batch);
    threads = classes_.useful_threads(batch, threads);
    in_slices(batch, "learned", [&](const Batch& part, size_t first) {
      classes_.learn(part, codes.data() + first, weights ? weights->data() + first : nullptr,
                     out.data() + first, batch.rows, threads);
    });
  }

  void predict_locked(Batch batch, OutMatrix& out, size_t threads) {
    if (out.shape(0) != classes_.size() || out.shape(1) != batch.rows)
      throw BadInput("the output has the wrong shape");
    check(batch);
    threads = classes_.useful_threads(batch, threads);
    in_slices(batch, "predicted", [&](const Batch& part, size_t first) {
      classes_.predict(part, out.data() + first, batch.rows, threads);
    });
  }

  void check_lengths(size_t rows, const Codes& codes, const std::optional<Doubles>& weights,
                     const OutMatrix& out) const {
    if (codes.shape(0) != rows || out.shape(0) != classes_.size() || out.shape(1) != rows ||
        (weights && weights->shape(0) != rows))
      throw BadInput("X has " + std::to_string(rows) + " rows, y has " +
                     std::to_string(codes.shape(0)));
  }

  std::vector<nb::object> references_;
  std::shared_ptr<Shared> shared_;
  Classes classes_;
};

}  // namespace sonline
