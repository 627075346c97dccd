// A Model as Python holds it: with its names, its lock and NumPy arrays at its border.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sonline/class_model.hpp"
#include "sonline/errors.hpp"
#include "sonline/mapping.hpp"
#include "sonline/model.hpp"
#include "sonline/py_arrays.hpp"
#include "sonline/py_lock.hpp"
#include "sonline/py_slices.hpp"

namespace sonline {

// What the models of one classifier share: names have the same keys in all of them, so a row is
// read once.
struct Shared {
  NameKeys names;
  double largest;  // of the values
  MappingReader reader{names, largest};
  ModelMutex mutex;
};

// What a `with` statement holds, so that no other thread uses the model between several calls.
struct Hold {
  std::shared_ptr<Shared> shared;
  bool alone;
};

class PyModel {
 public:
  // With the names of another model, if there is one. A model of one of `several` classes may
  // become an output of a group, which is that of the other.
  PyModel(const Config& config, bool single, const PyModel* other, bool several)
      : config_(config),
        single_(single),
        model_(make_model(config, single)),
        shared_(other ? other->shared_ : new_shared(config, single)) {
    if (!several || !can_share(config)) return;
    const ClassModel* first = other ? other->class_model() : nullptr;
    std::shared_ptr<Group> group = first ? first->group() : nullptr;
    in_group_of_other_ = group != nullptr;
    if (!group) group = make_group(config, single);
    const size_t output = in_group_of_other_ ? group->copy(first->output()) : group->attach();
    model_ = std::make_unique<ClassModel>(std::move(model_), std::move(group), output);
  }

  // An independent model in the same state, which shares the names.
  std::unique_ptr<PyModel> copy() {
    const std::scoped_lock lock(shared_->mutex);
    auto twin = std::make_unique<PyModel>(config_, single_, this, false);
    const ClassModel* mine = class_model();
    if (!mine || mine->own()) {
      twin->model_->restore(model_->save());
      twin->model_->set_alike(model_->alike());
    } else {
      twin->model_.reset();
    }
    if (mine)
      twin->model_ =
          std::make_unique<ClassModel>(std::move(twin->model_), mine->group(),
                                       mine->group() ? mine->group()->copy(mine->output()) : 0);
    return twin;
  }

  ClassModel* class_model() const { return dynamic_cast<ClassModel*>(model_.get()); }

  Model& model() { return *model_; }
  const std::shared_ptr<Shared>& shared() const { return shared_; }

  void learn_arrays(const nb::tuple& rows, const Doubles& y, const std::optional<Doubles>& weights,
                    OutDoubles out) {
    const HeldBatch held = batch_of(rows);
    check_lengths(held.batch.rows, y, weights, out);
    const std::scoped_lock lock(shared_->mutex);
    learn_locked(held.batch, y, weights, out);
  }

  void predict_arrays(const nb::tuple& rows, OutDoubles out) {
    const HeldBatch held = batch_of(rows);
    const std::scoped_lock lock(shared_->mutex);
    predict_locked(held.batch, out);
  }

  // Holds the GIL: releasing it would cost more than one row.
  double learn_one(nb::handle mapping, double y, double weight) {
    const std::scoped_lock lock(shared_->mutex);
    double prediction;
    model_->learn(read_one(*shared_, mapping, weight), &y, &weight, &prediction);
    return prediction;
  }

  double predict_one(nb::handle mapping) {
    const std::scoped_lock lock(shared_->mutex);
    shared_->reader.read(mapping);
    double prediction;
    model_->predict(shared_->reader.known(), &prediction);
    return prediction;
  }

  // All rows are read and checked before a name is entered or a row learned.
  void learn_rows(nb::sequence rows, const Doubles& y, const std::optional<Doubles>& weights,
                  OutDoubles out) {
    const std::scoped_lock lock(shared_->mutex);
    check_lengths(shared_->reader.read_all(rows), y, weights, out);
    learn_locked(shared_->reader.named(), y, weights, out);
  }

  void predict_rows(nb::sequence rows, OutDoubles out) {
    const std::scoped_lock lock(shared_->mutex);
    shared_->reader.read_all(rows);
    predict_locked(shared_->reader.known(), out);
  }

  // The keys that names have here; new ones for those not known, or the largest number if not
  // `add`.
  nb::ndarray<nb::numpy, uint64_t> name_keys(const std::vector<std::string_view>& names, bool add) {
    const std::scoped_lock lock(shared_->mutex);
    std::vector<uint64_t> keys;
    keys.reserve(names.size());
    for (const auto name : names)
      keys.push_back(add ? shared_->names.find_or_add(name) : shared_->names.find(name));
    return to_numpy(keys.data(), {keys.size()});
  }

  // For rows as mappings, of this model and all that share its names.
  void refuse_columns(MappingReader::Refused groups) {
    const std::scoped_lock lock(shared_->mutex);
    shared_->reader.refuse(std::move(groups));
  }

  NameTable name_table() {
    const std::scoped_lock lock(shared_->mutex);
    return shared_->names.table;
  }

  size_t name_count() {
    const std::scoped_lock lock(shared_->mutex);
    return shared_->names.table.size();
  }

  // All names in the order of their ids, whether features have them yet or not.
  nb::list names() {
    const std::scoped_lock lock(shared_->mutex);
    nb::list names;
    const NameTable& table = shared_->names.table;
    for (size_t id = 0; id < table.size(); ++id) names.append(text(table.name(id)));
    return names;
  }

  nb::list features() {
    const std::scoped_lock lock(shared_->mutex);
    nb::list features;
    for (const Key key : model_->features()) {
      if (key & kNamed) {
        features.append(text(shared_->names.table.name(key & ~kNamed)));
      } else {
        features.append(nb::int_(key));
      }
    }
    return features;
  }

  nb::dict stats() {
    const std::scoped_lock lock(shared_->mutex);
    const Stats stats = model_->stats();
    nb::dict out;
    out["rounds"] = stats.rounds;
    out["sweeps"] = stats.upkeep.sweeps;
    out["generations"] = stats.upkeep.generations;
    out["folds"] = stats.upkeep.folds;
    out["caught_up"] = stats.upkeep.caught_up;
    out["features"] = stats.features;
    out["bytes"] =
        stats.bytes + shared_->names.table.blob().size() + shared_->names.table.size() * 24;
    out["alpha"] = stats.alpha;
    return out;
  }

  template <class Get>
  auto vector(Get get) {
    const std::scoped_lock lock(shared_->mutex);
    const auto values = (model_.get()->*get)();
    return to_numpy(values.data(), {values.size()});
  }

  nb::ndarray<nb::numpy, double> basis() {
    const std::scoped_lock lock(shared_->mutex);
    const Matrix V = model_->basis();
    return to_numpy(V.values().data(), {V.rows(), V.cols()});
  }

  nb::dict save() {
    const std::scoped_lock lock(shared_->mutex);
    return save_locked();
  }
  nb::dict save_locked() const { return with_names(model_->save()); }

  nb::dict knowledge() {
    const std::scoped_lock lock(shared_->mutex);
    return knowledge_locked();
  }
  nb::dict knowledge_locked() const { return with_names(model_->knowledge()); }

  std::pair<double, double> label_range() {
    const std::scoped_lock lock(shared_->mutex);
    return model_->label_range();
  }

  // Without names among the fields, those that are shared stay. The fields of a group are among
  // those of its first model.
  void restore(nb::dict fields) {
    take(fields, [&](State& state) {
      State of_group;
      for (auto field = state.lower_bound(std::string(kGroup));
           field != state.end() && field->first.starts_with(kGroup); field = state.erase(field))
        of_group[field->first.substr(kGroup.size())] = std::move(field->second);
      if (ClassModel* mine = class_model())
        restore_class(*mine, state, of_group);
      else if (!of_group.empty())
        StateReader::fail(std::string(kGroup), "is there, but this model has no group");
      else
        model_->restore(state);
    });
  }
  static constexpr std::string_view kGroup = "group.";
  // Each class then learns by itself.
  void set_knowledge(nb::dict knowledge) {
    take(knowledge, [&](const State& state) {
      if (ClassModel* mine = class_model()) mine->leave_group();
      model_->set_knowledge(state);
    });
  }
  void set_names(nb::dict names) {
    take(names, [](const State&) {});
  }

  // Fields are released as they are copied: a large model should not be in memory three times.
  static State state_of(nb::dict fields) {
    State state;
    for (nb::handle name : fields.keys()) {
      const auto key = nb::cast<std::string>(name);
      state[key] = from_numpy(key, nb::cast<Array>(fields[name]));
      fields[name] = nb::none();
    }
    fields.clear();
    return state;
  }

  // A row of weight 0 is only predicted, so its names are not kept.
  static Batch read_one(Shared& shared, nb::handle mapping, double weight) {
    shared.reader.read(mapping);
    return weight == 0 ? shared.reader.known() : shared.reader.named();
  }

  static void add_fields(nb::dict& fields, State&& state, std::string_view prefix = {}) {
    for (auto& [name, tensor] : state)
      fields[(std::string(prefix) + name).c_str()] = to_numpy(std::move(tensor));
  }

 private:
  // Names from files may be any bytes.
  static nb::object text(std::string_view name) {
    return nb::steal(PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()),
                                          "backslashreplace"));
  }

  nb::dict with_names(State&& state) const {
    nb::dict fields = names_locked();
    add_fields(fields, std::move(state));
    return fields;
  }

 public:
  nb::dict names_locked() const {
    nb::dict fields;
    const auto blob = shared_->names.table.blob();
    const auto offsets = shared_->names.table.offsets();
    fields["names.bytes"] = to_numpy(reinterpret_cast<const uint8_t*>(blob.data()), {blob.size()});
    fields["names.offsets"] = to_numpy(offsets.data(), {offsets.size()});
    return fields;
  }

 private:
  void restore_class(ClassModel& mine, const State& state, const State& of_group) {
    const std::shared_ptr<Group> group = mine.group();
    mine.leave_group();
    const bool grouped = in_group_of_other_ || !of_group.empty();
    if (!of_group.empty()) group->restore(of_group);
    std::unique_ptr<Model> own;
    if (!grouped || !state.empty()) {
      own = make_model(config_, single_);
      own->restore(state);
    } else if (group->form() != Form::shared) {
      StateReader::fail("blocks", "is missing");
    }
    mine.join(std::move(own), grouped ? group : nullptr, grouped ? group->attach() : 0);
  }

  template <class Restore>
  void take(nb::dict fields, Restore&& restore) {
    const std::scoped_lock lock(shared_->mutex);
    State state = state_of(fields);
    StateReader reader(state);
    if (state.contains("names.bytes")) {
      if (shared_.use_count() > 1)
        StateReader::fail("names.bytes", "is there again: other models use these names");
      {
        const auto bytes = reader.any_array<uint8_t>("names.bytes");
        const auto offsets = reader.any_array<uint64_t>("names.offsets");
        shared_->names.table = NameTable::restore(
            {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, offsets);
      }
      state.erase("names.bytes");
      state.erase("names.offsets");
      shared_->reader.forget();
    }
    // Before the model is restored: it has room for every name up to the largest number.
    for (const char* name : {"features", "group.features"})
      if (state.contains(name)) check_names(reader.any_array<Key>(name));
    restore(state);
  }

  void check_names(const std::vector<Key>& keys) const {
    for (const Key key : keys)
      if ((key & kNamed) && (key & ~kNamed) >= shared_->names.table.size())
        StateReader::fail("features", "refers to a name that is not there");
  }

  // The whole batch is checked before the first row is learned.
  void learn_locked(Batch batch, const Doubles& y, const std::optional<Doubles>& weights,
                    OutDoubles& out) {
    check(batch);
    in_slices(batch, "learned", [&](const Batch& part, size_t first) {
      model_->learn(part, y.data() + first, weights ? weights->data() + first : nullptr,
                    out.data() + first);
    });
  }

  void predict_locked(Batch batch, OutDoubles& out) {
    if (out.shape(0) != batch.rows) throw BadInput("the output has the wrong length");
    check(batch);
    in_slices(batch, "predicted",
              [&](const Batch& part, size_t first) { model_->predict(part, out.data() + first); });
  }

  void check(Batch& batch) const {
    nb::gil_scoped_release unlocked;
    validate(batch, shared_->largest);
    batch.checked = true;
  }

  static std::shared_ptr<Shared> new_shared(const Config& config, bool single) {
    const double largest = single ? kLargestValue<float> : kLargestValue<double>;
    return std::make_shared<Shared>(NameKeys{NameTable(), config.hash_bits, config.hash_seed},
                                    largest);
  }

  static void check_lengths(size_t rows, const Doubles& y, const std::optional<Doubles>& weights,
                            const OutDoubles& out) {
    if (y.shape(0) != rows || out.shape(0) != rows || (weights && weights->shape(0) != rows))
      throw BadInput("X has " + std::to_string(rows) + " rows, y has " +
                     std::to_string(y.shape(0)));
  }

  Config config_;
  bool single_;
  bool in_group_of_other_ = false;
  std::unique_ptr<Model> model_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace sonline
