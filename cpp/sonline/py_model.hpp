// A Model as Python holds it: with its names, its lock and NumPy arrays at its border.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sonline/errors.hpp"
#include "sonline/mapping.hpp"
#include "sonline/model.hpp"
#include "sonline/py_arrays.hpp"
#include "sonline/py_lock.hpp"
#include "sonline/py_slices.hpp"

namespace sonline {

using OutMatrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

class PyModel;

// What a `with` statement holds, so that no other thread uses the model between several calls.
struct Hold {
  nb::object model;
  bool alone;
};

class PyModel {
 public:
  PyModel(const Config& config, const Task& task, bool single)
      : config_(config),
        largest_(single ? kLargestValue<float> : kLargestValue<double>),
        names_{NameTable(), config.hash_bits, config.hash_seed},
        reader_(names_, largest_, config.missing),
        model_(make_model(config, task, single)) {}

  ModelMutex& mutex() { return mutex_; }

  // Labels are numbers, or the numbers of classes, of which there are `classes` from now on.
  void learn_arrays(const nb::tuple& rows, const Doubles& y, const std::optional<Doubles>& weights,
                    OutMatrix out, size_t threads, size_t classes, bool growing) {
    const HeldBatch held = batch_of(rows);
    {
      const std::scoped_lock lock(mutex_);
      learn_locked(held.batch, y, weights, out, threads, classes, growing);
    }
    if (lost_is_due()) warn_about_lost();
  }
  // All rows are read and checked before a name is entered or a row learned.
  void learn_rows(nb::sequence rows, const Doubles& y, const std::optional<Doubles>& weights,
                  OutMatrix out, size_t threads, size_t classes, bool growing) {
    {
      const std::scoped_lock lock(mutex_);
      reader_.read_all(rows);
      learn_locked(reader_.named(), y, weights, out, threads, classes, growing);
    }
    if (lost_is_due()) warn_about_lost();
  }

  // xᵀA⁻¹x of each row and output goes to `uncertainties`, and with it the size of an error to
  // `sizes`, if they are there.
  void predict_arrays(const nb::tuple& rows, OutMatrix out, bool later,
                      std::optional<OutMatrix> uncertainties, std::optional<OutMatrix> sizes) {
    const HeldBatch held = batch_of(rows);
    const std::scoped_lock lock(mutex_);
    predict_locked(held.batch, out, later, uncertainties, sizes);
  }
  void predict_rows(nb::sequence rows, OutMatrix out, bool later,
                    std::optional<OutMatrix> uncertainties, std::optional<OutMatrix> sizes) {
    const std::scoped_lock lock(mutex_);
    reader_.read_all(rows);
    predict_locked(reader_.known(), out, later, uncertainties, sizes);
  }

  // One mapping. Holds the GIL: releasing it would cost more than one row. Returns the first
  // prediction. A row of weight 0 is only predicted, so its names are not kept.
  double learn_one(nb::handle mapping, double y, double weight) {
    // Not between the calls of a thread that holds the model, as a signal would.
    if (mutex_.is_held()) ModelMutex::refuse();
    double prediction;
    {
      const std::scoped_lock lock(mutex_);
      reader_.read(mapping);
      Batch batch = weight == 0 ? reader_.known() : reader_.named();
      validate(batch, largest_);
      batch.checked = true;
      of_row_.resize(std::max<size_t>(model_->lines(), 1));
      model_->learn(batch, &y, &weight, {of_row_.data(), 1}, 1);
      prediction = of_row_[0];
      ++rows_;
    }
    if (lost_is_due()) warn_about_lost();
    return prediction;
  }
  std::vector<double> predict_one(nb::handle mapping, bool later) {
    const std::scoped_lock lock(mutex_);
    predict_mapping(mapping, later);
    return of_row_;
  }
  // The predictions, and xᵀA⁻¹x of each output.
  std::pair<std::vector<double>, std::vector<double>> uncertain_one(nb::handle mapping,
                                                                    bool later) {
    const std::scoped_lock lock(mutex_);
    std::vector<double> uncertainties(model_->lines());
    predict_mapping(mapping, later, uncertainties.data());
    return {of_row_, std::move(uncertainties)};
  }
  // The predictions, and the size of the error of each.
  std::pair<std::vector<double>, std::vector<double>> sized_one(nb::handle mapping, bool later) {
    const std::scoped_lock lock(mutex_);
    std::vector<double> uncertainties(model_->lines()), sizes(model_->lines());
    predict_mapping(mapping, later, uncertainties.data(), sizes.data());
    return {of_row_, std::move(sizes)};
  }
  double predict_number(nb::handle mapping, bool later) {
    const std::scoped_lock lock(mutex_);
    predict_mapping(mapping, later);
    return of_row_[0];
  }
  // The class with the largest prediction, the first of them where several have it.
  size_t choose_one(nb::handle mapping, bool later) {
    const std::scoped_lock lock(mutex_);
    predict_mapping(mapping, later);
    if (of_row_.size() == 1) return model_->classes() == 2 && of_row_[0] > 0 ? 1 : 0;
    return static_cast<size_t>(std::max_element(of_row_.begin(), of_row_.end()) - of_row_.begin());
  }

  // The keys that names have here; new ones for those not known, or the largest number if not
  // `add`.
  nb::ndarray<nb::numpy, uint64_t> name_keys(const std::vector<std::string_view>& names, bool add) {
    const std::scoped_lock lock(mutex_);
    std::vector<uint64_t> keys;
    keys.reserve(names.size());
    for (const auto name : names)
      keys.push_back(add ? names_.find_or_add(name) : names_.find(name));
    return to_numpy(keys.data(), {keys.size()});
  }

  // For rows as mappings.
  void refuse_columns(MappingReader::Refused groups) {
    const std::scoped_lock lock(mutex_);
    reader_.refuse(std::move(groups));
  }

  void read_as_text(MappingReader::Columns columns) {
    const std::scoped_lock lock(mutex_);
    reader_.read_as_text(std::move(columns));
  }

  NameTable name_table() {
    const std::scoped_lock lock(mutex_);
    return names_.table;
  }

  size_t name_count() {
    const std::scoped_lock lock(mutex_);
    return names_.table.size();
  }

  // All names in the order of their ids, whether features have them yet or not.
  nb::list names() {
    const std::scoped_lock lock(mutex_);
    nb::list names;
    const NameTable& table = names_.table;
    for (size_t id = 0; id < table.size(); ++id) names.append(text(table.name(id)));
    return names;
  }

  nb::list features() {
    const std::scoped_lock lock(mutex_);
    nb::list features;
    for (const Key key : model_->features()) {
      if (key & kNamed) {
        features.append(text(names_.table.name(key & ~kNamed)));
      } else {
        features.append(nb::int_(key));
      }
    }
    return features;
  }

  nb::dict stats() {
    const std::scoped_lock lock(mutex_);
    const Stats stats = model_->stats();
    nb::dict out;
    out["rounds"] = stats.rounds;
    out["sweeps"] = stats.upkeep.sweeps;
    out["generations"] = stats.upkeep.generations;
    out["folds"] = stats.upkeep.folds;
    out["caught_up"] = stats.upkeep.caught_up;
    out["features"] = stats.features;
    out["bytes"] = stats.bytes + names_.table.blob().size() + names_.table.size() * 24;
    out["alpha"] = stats.alpha;
    return out;
  }

  template <class Get, class... Arguments>
  auto vector(Get get, Arguments... arguments) {
    const std::scoped_lock lock(mutex_);
    const std::vector<double> values = (model_.get()->*get)(arguments...);
    return to_numpy(values.data(), {values.size()});
  }

  nb::ndarray<nb::numpy, double> basis(size_t line) {
    const std::scoped_lock lock(mutex_);
    const Matrix V = model_->basis(line);
    return to_numpy(V.values().data(), {V.rows(), V.cols()});
  }

  // For each column with a curve: its slot, knots, values and rows.
  nb::list curves(size_t line) {
    const std::scoped_lock lock(mutex_);
    nb::list curves;
    for (const Curve& curve : model_->curves(line))
      curves.append(nb::make_tuple(curve.slot, to_numpy(curve.knots.data(), {curve.knots.size()}),
                                   to_numpy(curve.values.data(), {curve.values.size()}),
                                   to_numpy(curve.rows.data(), {curve.rows.size()})));
    return curves;
  }

  // For each pair: for both columns slot, points and whether these are few values; then, for each
  // two sides, what they add and the rows there.
  nb::list pairs(size_t line) {
    const std::scoped_lock lock(mutex_);
    nb::list pairs;
    for (const PairMap& pair : model_->pairs(line)) {
      const auto points = [](const Pairs::Sides& sides) {
        return to_numpy(sides.points.data(), {sides.points.size()});
      };
      pairs.append(nb::make_tuple(pair.a, points(pair.sides_of_a), pair.sides_of_a.few, pair.b,
                                  points(pair.sides_of_b), pair.sides_of_b.few,
                                  to_numpy(pair.values.data(), {pair.values.size()}),
                                  to_numpy(pair.rows.data(), {pair.rows.size()})));
    }
    return pairs;
  }

  size_t lines() {
    const std::scoped_lock lock(mutex_);
    return model_->lines();
  }
  std::pair<double, double> label_range() {
    const std::scoped_lock lock(mutex_);
    return model_->label_range();
  }
  void start_label_range(double low, double high) {
    const std::scoped_lock lock(mutex_);
    model_->start_label_range(low, high);
  }

  nb::dict save() {
    const std::scoped_lock lock(mutex_);
    return with_names(model_->save());
  }
  nb::dict knowledge() {
    const std::scoped_lock lock(mutex_);
    return with_names(model_->knowledge());
  }
  void restore(nb::dict fields) {
    take(fields, [&](const State& state) { model_->restore(state); });
  }
  void set_knowledge(nb::dict knowledge) {
    take(knowledge, [&](const State& state) { model_->set_knowledge(state); });
  }

 private:
  // Names from files may be any bytes.
  static nb::object text(std::string_view name) {
    return nb::steal(PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()),
                                          "backslashreplace"));
  }

  nb::dict with_names(State&& state) const {
    nb::dict fields;
    const auto blob = names_.table.blob();
    const auto offsets = names_.table.offsets();
    fields["names.bytes"] = to_numpy(reinterpret_cast<const uint8_t*>(blob.data()), {blob.size()});
    fields["names.offsets"] = to_numpy(offsets.data(), {offsets.size()});
    for (auto& [name, tensor] : state) fields[name.c_str()] = to_numpy(std::move(tensor));
    return fields;
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

  template <class Restore>
  void take(nb::dict fields, Restore&& restore) {
    const std::scoped_lock lock(mutex_);
    const State state = state_of(fields);
    StateReader reader(state);
    {
      const auto bytes = reader.any_array<uint8_t>("names.bytes");
      const auto offsets = reader.any_array<uint64_t>("names.offsets");
      names_.table =
          NameTable::restore({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, offsets);
      reader_.forget();
    }
    // Before the model is restored: it has room for every name up to the largest number.
    for (const Key key : reader.any_array<Key>("features"))
      if ((key & kNamed) && (key & ~kNamed) >= names_.table.size())
        StateReader::fail("features", "refers to a name that is not there");
    restore(state);
  }

  void predict_mapping(nb::handle mapping, bool later, double* uncertainties = nullptr,
                       double* sizes = nullptr) {
    reader_.read(mapping);
    Batch batch = reader_.known();
    validate(batch, largest_);
    batch.checked = true;
    of_row_.resize(model_->lines());
    model_->predict(batch, {of_row_.data(), 1, uncertainties, sizes}, later);
  }

  // The whole batch is checked before the first class is added or the first row learned.
  void learn_locked(Batch batch, const Doubles& y, const std::optional<Doubles>& weights,
                    OutMatrix& out, size_t threads, size_t classes, bool growing) {
    if (y.shape(0) != batch.rows || out.shape(1) != batch.rows ||
        (weights && weights->shape(0) != batch.rows))
      throw BadInput("X has " + std::to_string(batch.rows) + " rows, y has " +
                     std::to_string(y.shape(0)));
    check(batch);
    if (batch.rows == 0) return;
    while (model_->classes() < classes) model_->add_class();
    if (!growing) model_->stop_growing();
    if (out.shape(0) != model_->lines()) throw BadInput("the output has the wrong shape");
    in_slices(batch, "learned", [&](const Batch& part, size_t first) {
      model_->learn(part, y.data() + first, weights ? weights->data() + first : nullptr,
                    {out.data() + first, batch.rows}, threads);
    });
    rows_ += batch.rows;
  }

  bool lost_is_due() const { return rows_ >= look_at_; }

  // Warns, once, about features whose values are all so small that the number type loses their
  // squares: their scale is 0, so they count as nothing. Looks whenever the rows have doubled, and
  // are more than the features, so that a row costs no more.
  [[gnu::noinline]] void warn_about_lost() {
    std::vector<double> limits;
    {
      const std::scoped_lock lock(mutex_);
      look_at_ = std::max<uint64_t>(2 * rows_, model_->stats().features);
      if (rows_ < model_->stats().features) return;
      limits = model_->limits();
    }
    if (limits.empty() || std::count(limits.begin() + 1, limits.end(), 0.0) == 0) return;
    look_at_ = std::numeric_limits<uint64_t>::max();
    const nb::list names = features();
    std::string listed;
    size_t count = 0;
    for (size_t slot = 1; slot < limits.size() && slot <= nb::len(names); ++slot)
      if (limits[slot] == 0 && ++count <= kListed)
        listed += (count > 1 ? ", " : "") + std::string(nb::repr(names[slot - 1]).c_str());
    const bool single = largest_ == kLargestValue<float>;
    const std::string message = "all values of " + listed + (count > kListed ? ", ..." : "") +
                                " are so small that " + (single ? "float32" : "float64") +
                                " loses their squares, so they count as nothing; scale them" +
                                (single ? ", or use dtype='float64'" : "");
    if (PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1) < 0) throw nb::python_error();
  }

  void predict_locked(Batch batch, OutMatrix& out, bool later,
                      const std::optional<OutMatrix>& uncertainties,
                      const std::optional<OutMatrix>& sizes) {
    const auto fits = [&](const OutMatrix& matrix) {
      return matrix.shape(0) == model_->lines() && matrix.shape(1) == batch.rows;
    };
    if (!fits(out) || (uncertainties && !fits(*uncertainties)) ||
        (sizes && !(uncertainties && fits(*sizes))))
      throw BadInput("the output has the wrong shape");
    check(batch);
    in_slices(batch, "predicted", [&](const Batch& part, size_t first) {
      Predictions to{out.data() + first, batch.rows};
      if (uncertainties) to.uncertainties = uncertainties->data() + first;
      if (sizes) to.sizes = sizes->data() + first;
      model_->predict(part, to, later);
    });
  }

  void check(Batch& batch) const {
    nb::gil_scoped_release unlocked;
    validate(batch, largest_);
    batch.checked = true;
  }

  Config config_;
  double largest_;  // of the values
  NameKeys names_;
  MappingReader reader_;
  ModelMutex mutex_;
  std::unique_ptr<Model> model_;
  std::vector<double> of_row_;  // the predictions of the last mapping
  static constexpr size_t kListed = 3;
  uint64_t rows_ = 0, look_at_ = 64;  // rows learned here; when to look for values that are lost
};

}  // namespace sonline
