#include "sonline/model.hpp"

#include "sonline/sketches.hpp"

namespace sonline {

extern template std::unique_ptr<Model> make_model_in<float>(Config, const Task&);

std::unique_ptr<Model> make_model(const Config& config, const Task& task, bool single_precision) {
  return single_precision ? make_model_in<float>(config, task)
                          : make_model_in<double>(config, task);
}

std::vector<std::string_view> sketch_names() {
  std::vector<std::string_view> names;
  for (const SketchEntry<double>& sketch : kSketches<double>) names.push_back(sketch.name);
  return names;
}

}  // namespace sonline
