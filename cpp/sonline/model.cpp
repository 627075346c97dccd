#include "sonline/model.hpp"

#include <array>

#include "sonline/model_of.hpp"
#include "sonline/sketch/adagrad.hpp"
#include "sonline/sketch/appended.hpp"
#include "sonline/sketch/full.hpp"
#include "sonline/sketch/none.hpp"
#include "sonline/sketch/oja.hpp"
#include "sonline/sketch/spectral.hpp"

namespace sonline {
namespace {

using Factory = std::unique_ptr<Model> (*)(const Config&, const Task&);

template <class T, template <class> class S>
  requires Sketch<S<T>, T>
[[gnu::cold]] std::unique_ptr<Model> make(const Config& config, const Task& task) {
  return std::make_unique<ModelOf<T, S<T>>>(config, task);
}

template <class T>
using Oja = Factored<T, OjaRule>;
template <class T>
using Isotropic = Factored<T, PushRule>;
template <class T>
using None = Factored<T, NoRule>;

struct Entry {
  std::string_view name;
  Factory float32, float64;
  Truncation truncation;
};

template <template <class> class S>
constexpr Entry entry(std::string_view name, Truncation truncation = Truncation::isotropic) {
  return {name, &make<float, S>, &make<double, S>, truncation};
}

// The registry: a new sketch is its file and its line here.
constexpr std::array kSketches = {
    entry<None>("none"),
    entry<AdaGrad>("adagrad"),
    entry<Oja>("oja"),
    entry<Appended>("fd", Truncation::fd),
    entry<Appended>("rfd", Truncation::rfd),
    entry<Isotropic>("isotropic"),
    entry<Full>("full"),
};

}  // namespace

std::unique_ptr<Model> make_model(const Config& config, const Task& task, bool single_precision) {
  for (const Entry& sketch : kSketches)
    if (sketch.name == config.sketch_name) {
      Config complete = config;
      complete.sketch.truncation = sketch.truncation;
      complete.unit_free &= task.numbers;
      return (single_precision ? sketch.float32 : sketch.float64)(complete, task);
    }
  throw std::invalid_argument("unknown sketch '" + config.sketch_name + "'");
}

std::vector<std::string_view> sketch_names() {
  std::vector<std::string_view> names;
  for (const Entry& sketch : kSketches) names.push_back(sketch.name);
  return names;
}

}  // namespace sonline
