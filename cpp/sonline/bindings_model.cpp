#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>

#include "sonline/py_model.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sonline {
namespace {

Scaling scaling_of(const std::string& name) {
  return name == "auto"       ? Scaling::automatic
         : name == "rms"      ? Scaling::rms
         : name == "gradient" ? Scaling::gradient
                              : Scaling::none;
}

Missing missing_of(const std::string& name) {
  return name == "mark" ? Missing::mark : name == "refuse" ? Missing::refuse : Missing::absent;
}

Use use_of(const std::string& name) {
  return name == "next" ? Use::next : name == "later" ? Use::later : Use::both;
}

std::vector<Member> members_of(nb::handle listed) {
  std::vector<Member> members;
  for (const auto& [alpha, memory, use] :
       nb::cast<std::vector<std::tuple<double, double, std::string>>>(listed))
    members.push_back({alpha, memory, use_of(use)});
  return members;
}

Config read_config(const nb::dict& params) {
  Config config;
  const auto read = [&](const char* name, auto& field) {
    field = nb::cast<std::remove_reference_t<decltype(field)>>(params[name]);
  };
  config.each_field(read);
  LossParameters loss;
  read("quantile", loss.quantile);
  read("power", loss.power);
  read("delta", loss.delta);
  read("epsilon", loss.epsilon);
  config.loss = make_loss(nb::cast<std::string>(params["loss"]), loss);
  config.scaling = scaling_of(nb::cast<std::string>(params["scaling"]));
  config.missing = missing_of(nb::cast<std::string>(params["missing"]));
  config.members = members_of(params["members"]);
  config.with_curves = members_of(params["curved"]);
  read("diagonal", config.diagonal);
  const auto curves = nb::cast<std::string>(params["curves"]);
  config.curves = curves == "on"     ? CurvesChoice::on
                  : curves == "auto" ? CurvesChoice::automatic
                                     : CurvesChoice::off;
  if (params.contains("condition")) read("condition", config.sketch.condition);
  if (params.contains("cancellation")) read("cancellation", config.sketch.cancellation);
  config.complete();
  return config;
}

struct PyLoss {
  std::shared_ptr<const Loss> loss;
};

void raise(const BadRow& error) {
  const nb::object type = nb::module_::import_("sonline.errors").attr("InvalidInputError");
  const nb::object raised = type(error.what(), "argument"_a = error.row ? "X" : "",
                                 "row"_a = error.row, "field"_a = error.feature);
  PyErr_SetObject(type.ptr(), raised.ptr());
}

void raise(const char* type, const char* message) {
  PyErr_SetString(nb::module_::import_("sonline.errors").attr(type).ptr(), message);
}

}  // namespace

void bind_model_class(nb::module_& module) {
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const BadRow& error) {
      raise(error);
    } catch (const BadInput& error) {
      raise("InvalidInputError", error.what());
    } catch (const Diverged& error) {
      const nb::object type = nb::module_::import_("sonline.errors").attr("DivergenceError");
      const nb::object raised = type(error.what());
      nb::setattr(raised, "rows_learned", nb::int_(error.rows_learned));
      nb::setattr(raised, "rows_done", nb::int_(error.rows_done));
      PyErr_SetObject(type.ptr(), raised.ptr());
    }
  });

  nb::class_<Hold>(module, "Hold", "No other thread uses the model between several calls.")
      .def("__enter__", [](Hold& self) { nb::cast<PyModel&>(self.model).mutex().hold(self.alone); })
      .def(
          "__exit__",
          [](Hold& self, const nb::args&) { nb::cast<PyModel&>(self.model).mutex().release(); },
          nb::sig("def __exit__(self, *args: object) -> None"));

  nb::class_<PyModel>(module, "Model", "A model with all its state; see sonline.model.")
      .def(
          "__init__",
          [](PyModel* self, const nb::dict& params, bool single, std::optional<size_t> classes,
             bool growing) {
            const Task task{!classes, classes.value_or(0), growing};
            new (self) PyModel(read_config(params), task, single);
          },
          "params"_a, "single_precision"_a, "classes"_a = nb::none(), "growing"_a = false)
      .def(
          "hold", [](nb::handle self, bool alone) { return Hold{nb::borrow(self), alone}; },
          "alone"_a = false, nb::sig("def hold(self, alone: bool = False) -> Hold"))
      .def("learn_arrays", &PyModel::learn_arrays, "rows"_a, "y"_a, "weights"_a.none(), "out"_a,
           "threads"_a = 1, "classes"_a = 0, "growing"_a = true)
      .def("learn_rows", &PyModel::learn_rows, "rows"_a, "y"_a, "weights"_a.none(), "out"_a,
           "threads"_a = 1, "classes"_a = 0, "growing"_a = true)
      .def("predict_arrays", &PyModel::predict_arrays, "rows"_a, "out"_a, "later"_a = true,
           "uncertainties"_a = nb::none(), "sizes"_a = nb::none())
      .def("predict_rows", &PyModel::predict_rows, "rows"_a, "out"_a, "later"_a = true,
           "uncertainties"_a = nb::none(), "sizes"_a = nb::none())
      .def("sized_one", &PyModel::sized_one, "row"_a.none(), "later"_a = true)
      .def("uncertain_one", &PyModel::uncertain_one, "row"_a.none(), "later"_a = true)
      .def("learn_one", &PyModel::learn_one, "row"_a.none(), "y"_a, "weight"_a)
      .def("predict_one", &PyModel::predict_one, "row"_a.none(), "later"_a = true)
      .def("predict_number", &PyModel::predict_number, "row"_a.none(), "later"_a = true)
      .def("choose_one", &PyModel::choose_one, "row"_a.none(), "later"_a = true)
      .def("refuse_columns", &PyModel::refuse_columns, "groups"_a)
      .def("read_as_text", &PyModel::read_as_text, "columns"_a)
      .def("name_keys", &PyModel::name_keys, "names"_a, "add"_a = true)
      .def("name_count", &PyModel::name_count)
      .def("names", &PyModel::names)
      .def("features", &PyModel::features)
      .def("lines", &PyModel::lines)
      .def(
          "weights", [](PyModel& self, size_t line) { return self.vector(&Model::weights, line); },
          "line"_a = 0)
      .def("scales", [](PyModel& self) { return self.vector(&Model::scales); })
      .def("limits", [](PyModel& self) { return self.vector(&Model::limits); })
      .def("centres", [](PyModel& self) { return self.vector(&Model::centres); })
      .def(
          "spectrum",
          [](PyModel& self, size_t line) { return self.vector(&Model::spectrum, line); },
          "line"_a = 0)
      .def(
          "shares",
          [](PyModel& self, size_t line, bool later) {
            return self.vector(&Model::shares, line, later);
          },
          "line"_a = 0, "later"_a = true)
      .def(
          "limits_of_scores",
          [](PyModel& self, double error, bool later) {
            return self.vector(&Model::limits_of_scores, error, later);
          },
          "error"_a, "later"_a = true)
      .def("basis", &PyModel::basis, "line"_a = 0)
      .def("curves", &PyModel::curves, "line"_a = 0)
      .def("pairs", &PyModel::pairs, "line"_a = 0)
      .def("stats", &PyModel::stats)
      .def("save", &PyModel::save)
      .def("restore", &PyModel::restore, "fields"_a)
      .def("knowledge", &PyModel::knowledge)
      .def("set_knowledge", &PyModel::set_knowledge, "knowledge"_a)
      .def("label_range", &PyModel::label_range)
      .def("start_label_range", &PyModel::start_label_range, "low"_a, "high"_a);

  module.def("sketch_names", &sketch_names);
  module.def("loss_info", [] {
    nb::list losses;
    for (const LossEntry& loss : kLosses) {
      nb::dict info;
      info["name"] = loss.name;
      info["binary"] = loss.binary;
      info["hessian"] = loss.hessian;
      info["log_link"] = loss.log_link;
      info["positive"] = loss.positive;
      losses.append(info);
    }
    return losses;
  });

  nb::class_<PyLoss>(module, "Loss", "A loss with its parameter; see sonline.evaluate.losses.")
      .def(
          "__init__",
          [](PyLoss* self, const std::string& name, double quantile, double power, double delta,
             double epsilon) {
            new (self) PyLoss{make_loss(name, {quantile, power, delta, epsilon})};
          },
          "name"_a, "quantile"_a = 0.5, "power"_a = 1.5, "delta"_a = 1.345, "epsilon"_a = 0.1)
      .def(
          "sigma", [](const PyLoss& self, double bound) { return self.loss->sigma(bound); },
          "bound"_a)
      .def(
          "values",
          [](const PyLoss& self, const Doubles& z, const Doubles& y, OutDoubles out) {
            if (z.shape(0) != y.shape(0) || z.shape(0) != out.shape(0))
              throw BadInput("z, y and out must have the same length");
            for (size_t i = 0; i < z.shape(0); ++i)
              out.data()[i] = self.loss->value(z.data()[i], y.data()[i]);
          },
          "z"_a, "y"_a, "out"_a)
      .def(
          "means",
          [](const PyLoss& self, const Doubles& z, OutDoubles out) {
            if (z.shape(0) != out.shape(0)) throw BadInput("z and out must have the same length");
            for (size_t i = 0; i < z.shape(0); ++i)
              out.data()[i] = self.loss->log_link ? exp_of(z.data()[i]) : z.data()[i];
          },
          "z"_a, "out"_a)
      .def(
          "without_offsets",
          [](const PyLoss& self, const Doubles& y, const Doubles& offsets, OutDoubles labels,
             OutDoubles weights) {
            const size_t n = y.shape(0);
            if (offsets.shape(0) != n || labels.shape(0) != n || weights.shape(0) != n)
              throw BadInput("y, offsets, labels and weights must have the same length");
            for (size_t i = 0; i < n; ++i) {
              labels.data()[i] = self.loss->label_of_unit(y.data()[i], offsets.data()[i]);
              weights.data()[i] = self.loss->weight_of_offset(offsets.data()[i]);
            }
          },
          "y"_a, "offsets"_a, "labels"_a, "weights"_a)
      .def(
          "implicit_steps",
          [](const PyLoss& self, const Doubles& z, double y, const Doubles& q, OutDoubles fits,
             OutDoubles steps) {
            const size_t n = z.shape(0);
            if (q.shape(0) != n || fits.shape(0) != n || steps.shape(0) != n)
              throw BadInput("z, q, fits and steps must have the same length");
            const Vector labels(n, y);
            self.loss->implicit_steps(z.data(), labels.data(), q.data(), n, fits.data(),
                                      steps.data());
          },
          "z"_a, "y"_a, "q"_a, "fits"_a, "steps"_a);
}

}  // namespace sonline

void bind_model(nb::module_& module) {
#ifdef NDEBUG
  // A model that lives until the interpreter ends, as in a cache, is not a leak.
  nb::set_leak_warnings(false);
#endif
  sonline::Forks::watch();
  sonline::bind_model_class(module);
}
