// The sketches by name. A new sketch is its file and its line in the table here.
#pragma once

#include <array>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "sonline/model.hpp"
#include "sonline/model_of.hpp"
#include "sonline/sketch/adagrad.hpp"
#include "sonline/sketch/appended.hpp"
#include "sonline/sketch/full.hpp"
#include "sonline/sketch/none.hpp"
#include "sonline/sketch/oja.hpp"
#include "sonline/sketch/spectral.hpp"

namespace sonline {

template <class T>
struct SketchEntry {
  std::string_view name;
  std::unique_ptr<Model> (*make)(const Config& config, const Task& task);
  Truncation truncation = Truncation::isotropic;
};

template <class T, class S>
  requires Sketch<S, T>
[[gnu::cold]] std::unique_ptr<Model> make_with(const Config& config, const Task& task) {
  return std::make_unique<ModelOf<T, S>>(config, task);
}

template <class T>
constexpr std::array kSketches = {
    SketchEntry<T>{"none", make_with<T, Factored<T, NoRule>>},
    SketchEntry<T>{"adagrad", make_with<T, AdaGrad<T>>},
    SketchEntry<T>{"oja", make_with<T, Factored<T, OjaRule>>},
    SketchEntry<T>{"fd", make_with<T, Appended<T>>, Truncation::fd},
    SketchEntry<T>{"rfd", make_with<T, Appended<T>>, Truncation::rfd},
    SketchEntry<T>{"isotropic", make_with<T, Factored<T, PushRule>>},
    SketchEntry<T>{"full", make_with<T, Full<T>>},
};

// A model that computes in T.
template <class T>
std::unique_ptr<Model> make_model_in(Config config, const Task& task) {
  for (const SketchEntry<T>& sketch : kSketches<T>)
    if (sketch.name == config.sketch_name) {
      config.sketch.truncation = sketch.truncation;
      config.unit_free &= task.numbers;
      return sketch.make(config, task);
    }
  throw std::invalid_argument("unknown sketch '" + config.sketch_name + "'");
}

}  // namespace sonline
