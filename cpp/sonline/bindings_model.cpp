#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <optional>

#include "sonline/errors.hpp"
#include "sonline/mapping.hpp"
#include "sonline/model.hpp"
#include "sonline/names.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sonline {
namespace {

using Array = nb::ndarray<nb::ro, nb::device::cpu>;
using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutDoubles = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A NumPy array that owns a copy of `values`.
template <class T>
nb::ndarray<nb::numpy, T> to_numpy(const T* values, std::vector<size_t> shape) {
  size_t count = 1;
  for (size_t n : shape) count *= n;
  auto owned = std::make_unique<T[]>(std::max<size_t>(count, 1));
  if (count) std::memcpy(owned.get(), values, count * sizeof(T));
  T* data = owned.release();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nb::ndarray<nb::numpy, T>(data, shape.size(), shape.data(), owner);
}

nb::object to_numpy(const Tensor& tensor) {
  const auto convert = [&]<class T>(T) {
    return nb::cast(to_numpy(reinterpret_cast<const T*>(tensor.bytes.data()), tensor.shape));
  };
  switch (tensor.type) {
    case Tensor::Type::f32: return convert(float{});
    case Tensor::Type::f64: return convert(double{});
    case Tensor::Type::i64: return convert(int64_t{});
    case Tensor::Type::u64: return convert(uint64_t{});
    case Tensor::Type::u8: return convert(uint8_t{});
  }
  return nb::none();
}

Tensor from_numpy(const std::string& name, const Array& array) {
  Tensor tensor;
  if (array.dtype() == nb::dtype<float>()) tensor.type = Tensor::Type::f32;
  else if (array.dtype() == nb::dtype<double>()) tensor.type = Tensor::Type::f64;
  else if (array.dtype() == nb::dtype<int64_t>()) tensor.type = Tensor::Type::i64;
  else if (array.dtype() == nb::dtype<uint64_t>()) tensor.type = Tensor::Type::u64;
  else if (array.dtype() == nb::dtype<uint8_t>()) tensor.type = Tensor::Type::u8;
  else throw std::invalid_argument("field '" + name + "' has an unknown type");
  int64_t expected = 1;
  for (size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) > 1 && array.stride(i) != expected)
      throw std::invalid_argument("field '" + name + "' is not contiguous");
    expected *= static_cast<int64_t>(array.shape(i));
    tensor.shape.insert(tensor.shape.begin(), array.shape(i));
  }
  const auto* bytes = static_cast<const uint8_t*>(array.data());
  tensor.bytes.assign(bytes, bytes + array.nbytes());
  return tensor;
}

void set_values(Batch& batch, const Array& values) {
  if (values.dtype() == nb::dtype<float>()) batch.value_type = Batch::Number::f32;
  else if (values.dtype() == nb::dtype<double>()) batch.value_type = Batch::Number::f64;
  else throw BadInput("X: values must be float32 or float64");
  batch.values = values.data();
}

Batch csr_batch(const Array& values, const Array& indices, const Array& indptr) {
  Batch batch;
  set_values(batch, values);
  if (indices.dtype() == nb::dtype<int32_t>()) batch.index_type = Batch::Index::i32;
  else if (indices.dtype() == nb::dtype<int64_t>()) batch.index_type = Batch::Index::i64;
  else if (indices.dtype() == nb::dtype<uint64_t>()) batch.index_type = Batch::Index::u64;
  else throw BadInput("X: indices must be int32, int64 or uint64");
  const bool narrow = batch.index_type == Batch::Index::i32;
  if (indptr.dtype() != (narrow ? nb::dtype<int32_t>() : nb::dtype<int64_t>()))
    throw BadInput("X: indptr must have the type of the indices");
  if (indptr.ndim() != 1 || indptr.shape(0) < 1 || values.ndim() != 1 || indices.ndim() != 1 ||
      values.shape(0) != indices.shape(0))
    throw BadInput("X: data, indices and indptr do not fit together");
  batch.rows = indptr.shape(0) - 1;
  batch.stored = values.shape(0);
  batch.indices = indices.data();
  batch.indptr = indptr.data();
  return batch;
}

Batch dense_batch(const Array& values) {
  Batch batch;
  set_values(batch, values);
  if (values.ndim() != 2) throw BadInput("X must have two dimensions");
  batch.rows = values.shape(0);
  batch.cols = values.shape(1);
  batch.row_stride = values.stride(0);
  batch.col_stride = values.stride(1);
  return batch;
}

// A Model with its names and its lock.
class PyModel {
 public:
  PyModel(const Config& config, bool single)
      : config_(config), model_(make_model(config, single)) {}

  void learn(const Batch& batch, const Doubles& y, const std::optional<Doubles>& weights,
             OutDoubles& out) {
    if (y.shape(0) != batch.rows || out.shape(0) != batch.rows ||
        (weights && weights->shape(0) != batch.rows))
      throw BadInput("X has " + std::to_string(batch.rows) + " rows, y has " +
                     std::to_string(y.shape(0)));
    const double* w = weights ? weights->data() : nullptr;
    nb::gil_scoped_release unlocked;
    const std::scoped_lock lock(mutex_);
    model_->learn(batch, y.data(), w, out.data());
  }

  void predict(const Batch& batch, OutDoubles& out) {
    if (out.shape(0) != batch.rows) throw BadInput("the output has the wrong length");
    nb::gil_scoped_release unlocked;
    const std::scoped_lock lock(mutex_);
    model_->predict(batch, out.data());
  }

  // No release of the lock of Python here: one row is too little work.
  double learn_one(nb::handle mapping, double y, double weight) {
    const std::scoped_lock lock(mutex_);
    reader_.read(mapping);
    // A row of weight 0 is only predicted, so its names are not kept.
    const Batch batch = weight == 0 ? reader_.known(names_, hashing())
                                    : reader_.named(names_, hashing());
    double prediction;
    model_->learn(batch, &y, &weight, &prediction);
    return prediction;
  }

  double predict_one(nb::handle mapping) {
    const std::scoped_lock lock(mutex_);
    reader_.read(mapping);
    const Batch batch = reader_.known(names_, hashing());
    double prediction;
    model_->predict(batch, &prediction);
    return prediction;
  }

  // A sequence of mappings: all are read and checked before a name is entered or a row learnt.
  void learn_rows(nb::sequence rows, const Doubles& y, const std::optional<Doubles>& weights,
                  OutDoubles& out) {
    const std::scoped_lock lock(mutex_);
    reader_.read_all(rows);
    const Batch batch = reader_.named(names_, hashing());
    if (y.shape(0) != batch.rows || out.shape(0) != batch.rows)
      throw BadInput("X and y have different lengths");
    model_->learn(batch, y.data(), weights ? weights->data() : nullptr, out.data());
  }

  void predict_rows(nb::sequence rows, OutDoubles& out) {
    const std::scoped_lock lock(mutex_);
    reader_.read_all(rows);
    const Batch batch = reader_.known(names_, hashing());
    if (out.shape(0) != batch.rows) throw BadInput("the output has the wrong length");
    model_->predict(batch, out.data());
  }

  // The ids that names have in this model, new ones for those it did not know.
  nb::ndarray<nb::numpy, uint64_t> name_keys(const std::vector<std::string_view>& names) {
    const std::scoped_lock lock(mutex_);
    std::vector<uint64_t> keys;
    keys.reserve(names.size());
    for (const auto name : names)
      keys.push_back(hashing().bits < 0 ? names_.insert(name) | kNamed : hashing().slot(name));
    return to_numpy(keys.data(), {keys.size()});
  }

  nb::list features() {
    const std::scoped_lock lock(mutex_);
    nb::list features;
    for (const Key key : model_->features()) {
      if (key & kNamed) {
        const auto name = names_.name(key & ~kNamed);
        features.append(nb::str(name.data(), name.size()));
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
    out["rebases"] = stats.rebases;
    out["features"] = stats.features;
    out["bytes"] = stats.bytes + names_.blob().size() + names_.size() * 24;
    out["alpha"] = stats.alpha;
    return out;
  }

  template <class Get>
  auto vector(Get get) {
    const std::scoped_lock lock(mutex_);
    const auto values = (model_.get()->*get)();
    return to_numpy(values.data(), {values.size()});
  }

  nb::ndarray<nb::numpy, double> basis() {
    const std::scoped_lock lock(mutex_);
    const Matrix V = model_->basis();
    return to_numpy(V.values().data(), {V.rows(), V.cols()});
  }

  nb::dict save() {
    const std::scoped_lock lock(mutex_);
    nb::dict fields;
    for (const auto& [name, tensor] : model_->save()) fields[name.c_str()] = to_numpy(tensor);
    const auto blob = names_.blob();
    const auto offsets = names_.offsets();
    fields["names.bytes"] =
        to_numpy(reinterpret_cast<const uint8_t*>(blob.data()), {blob.size()});
    fields["names.offsets"] = to_numpy(offsets.data(), {offsets.size()});
    return fields;
  }

  void restore(nb::dict fields) {
    const std::scoped_lock lock(mutex_);
    State state;
    for (auto [name, value] : fields) {
      const auto key = nb::cast<std::string>(name);
      state[key] = from_numpy(key, nb::cast<Array>(value));
    }
    StateReader reader(state);
    const auto bytes = reader.any_array<uint8_t>("names.bytes");
    const auto offsets = reader.any_array<uint64_t>("names.offsets");
    names_ = NameTable::restore({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, offsets);
    model_->restore(state);
    for (const Key key : model_->features())
      if ((key & kNamed) && (key & ~kNamed) >= names_.size())
        StateReader::fail("features", "refers to a name that is not there");
  }

 private:
  NameHashing hashing() const { return {config_.hash_bits, config_.hash_seed}; }

  Config config_;
  std::unique_ptr<Model> model_;
  NameTable names_;
  MappingReader reader_;
  std::mutex mutex_;
};

Config read_config(const nb::dict& params) {
  const auto number = [&](const char* name) { return nb::cast<double>(params[name]); };
  const auto flag = [&](const char* name) { return nb::cast<bool>(params[name]); };
  const auto text = [&](const char* name) { return nb::cast<std::string>(params[name]); };
  Config config;
  config.loss = find_loss(text("loss"));
  if (!config.loss) throw std::invalid_argument("unknown loss");
  config.level = number("quantile");
  config.sketch_name = text("sketch");
  config.sketch.size = nb::cast<size_t>(params["sketch_size"]);
  config.alphas = nb::cast<std::vector<double>>(params["alphas"]);
  config.sketch.experts = config.alphas.size();
  config.relative = flag("relative");
  config.root = flag("root");
  config.sketch.alpha = config.alphas.at(0);
  config.sketch.fixed_alpha = !config.relative;
  config.sketch.oja_step = number("oja_step");
  config.sketch.scale_free = flag("scale_free");
  config.bound = number("bound");
  config.clip = flag("clip");
  config.hessian = flag("hessian");
  config.sigma = number("sigma");
  config.eta = number("eta");
  config.eta_convex = flag("eta_convex");
  const auto scaling = text("scaling");
  config.scaling = scaling == "rms"        ? Scaling::rms
                   : scaling == "gradient" ? Scaling::gradient
                                           : Scaling::none;
  config.intercept = flag("intercept");
  config.hash_bits = nb::cast<int>(params["hash_bits"]);
  config.hash_seed = nb::cast<uint64_t>(params["hash_seed"]);
  return config;
}

void raise(const char* type, const char* message) {
  PyErr_SetString(nb::module_::import_("sonline.errors").attr(type).ptr(), message);
}

}  // namespace

void bind_model_class(nb::module_& module) {
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const BadInput& error) {
      raise("InvalidInputError", error.what());
    } catch (const Diverged& error) {
      raise("DivergenceError", error.what());
    }
  });

  nb::class_<PyModel>(module, "Model", "A learner with all its state; see sonline.OnlineLearner.")
      .def("__init__",
           [](PyModel* self, const nb::dict& params, bool single) {
             new (self) PyModel(read_config(params), single);
           },
           "params"_a, "single_precision"_a)
      .def("learn_csr",
           [](PyModel& self, const Array& values, const Array& indices, const Array& indptr,
              const Doubles& y, const std::optional<Doubles>& weights, OutDoubles out) {
             self.learn(csr_batch(values, indices, indptr), y, weights, out);
           },
           "values"_a, "indices"_a, "indptr"_a, "y"_a, "weights"_a.none(), "out"_a)
      .def("learn_dense",
           [](PyModel& self, const Array& values, const Doubles& y,
              const std::optional<Doubles>& weights, OutDoubles out) {
             self.learn(dense_batch(values), y, weights, out);
           },
           "values"_a, "y"_a, "weights"_a.none(), "out"_a)
      .def("predict_csr",
           [](PyModel& self, const Array& values, const Array& indices, const Array& indptr,
              OutDoubles out) { self.predict(csr_batch(values, indices, indptr), out); },
           "values"_a, "indices"_a, "indptr"_a, "out"_a)
      .def("predict_dense",
           [](PyModel& self, const Array& values, OutDoubles out) {
             self.predict(dense_batch(values), out);
           },
           "values"_a, "out"_a)
      .def("learn_one", &PyModel::learn_one, "row"_a, "y"_a, "weight"_a)
      .def("predict_one", &PyModel::predict_one, "row"_a)
      .def("learn_rows",
           [](PyModel& self, nb::sequence rows, const Doubles& y,
              const std::optional<Doubles>& weights,
              OutDoubles out) { self.learn_rows(rows, y, weights, out); },
           "rows"_a, "y"_a, "weights"_a.none(), "out"_a)
      .def("predict_rows",
           [](PyModel& self, nb::sequence rows, OutDoubles out) { self.predict_rows(rows, out); },
           "rows"_a, "out"_a)
      .def("name_keys", &PyModel::name_keys, "names"_a)
      .def("features", &PyModel::features)
      .def("weights", [](PyModel& self) { return self.vector(&Model::weights); })
      .def("scales", [](PyModel& self) { return self.vector(&Model::scales); })
      .def("spectrum", [](PyModel& self) { return self.vector(&Model::spectrum); })
      .def("expert_shares", [](PyModel& self) { return self.vector(&Model::expert_shares); })
      .def("basis", &PyModel::basis)
      .def("stats", &PyModel::stats)
      .def("save", &PyModel::save)
      .def("restore", &PyModel::restore, "fields"_a);

  module.def("sketch_names", &sketch_names);
  module.def("loss_info", [] {
    nb::list losses;
    for (const Loss& loss : kLosses) {
      nb::dict info;
      info["name"] = loss.name;
      info["binary"] = loss.binary;
      info["hessian"] = loss.hessian;
      losses.append(info);
    }
    return losses;
  });
  module.def("loss_sigma", [](const std::string& name, double bound) {
    return find_loss(name)->sigma(bound);
  });
  module.def("loss_values", [](const std::string& name, const Doubles& z, const Doubles& y,
                               double level, OutDoubles out) {
    const Loss* loss = find_loss(name);
    if (!loss || z.shape(0) != y.shape(0) || z.shape(0) != out.shape(0))
      throw BadInput("loss_values: unknown loss or different lengths");
    for (size_t i = 0; i < z.shape(0); ++i) out.data()[i] = loss->value(z.data()[i], y.data()[i], level);
  }, "name"_a, "z"_a, "y"_a, "level"_a, "out"_a);
}

}  // namespace sonline

void bind_model(nb::module_& module) { sonline::bind_model_class(module); }
