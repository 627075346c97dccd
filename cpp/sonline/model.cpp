#include "sonline/model.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>

#include "sonline/group.hpp"
#include "sonline/learner.hpp"
#include "sonline/sketch/adagrad.hpp"
#include "sonline/sketch/appended.hpp"
#include "sonline/sketch/full.hpp"
#include "sonline/sketch/none.hpp"
#include "sonline/sketch/oja.hpp"
#include "sonline/sketch/spectral.hpp"

namespace sonline {
namespace {

std::vector<size_t> largest_first(const Vector& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t i, size_t j) { return values[i] > values[j]; });
  return order;
}

std::string refused(size_t row, const std::exception& error) {
  std::string text = "row " + std::to_string(row) + ": " + error.what() +
                     ". The learner is as it was before this row";
  if (row > 0) text += "; the " + std::to_string(row) + " rows before it were learned";
  return text;
}

// What to do about a row whose numbers overflow.
const char* advice(const Config& config) {
  return config.explicit_step ? ". Use step='implicit', which cannot overshoot, or a larger alpha"
                              : ". Leave the row out, or give numbers of a reasonable size";
}

State checked(StateWriter&& writer) {
  for (const auto& [name, tensor] : writer.state)
    if (!tensor.finite())
      throw Diverged("the learner cannot be saved: '" + name +
                     "' holds numbers that are not finite; go on from a saved model");
  return std::move(writer.state);
}

// Compiled for each sketch and number type: what is not called for every row is `cold`, which
// makes it small, and quick to compile.
template <class T, class S>
class ModelOf final : public Model {
 public:
  explicit ModelOf(const Config& config) : config_(config), learner_(config) {}

  void learn(const Batch& batch, const double* labels, const double* weights, double* predictions,
             const PreparedBatch* ready, PreparedBatch* made) override {
    validate(batch, kLargestValue<T>);
    size_t row = 0;
    try {
      auto* prepared = dynamic_cast<PreparedRows<T>*>(made);
      if (prepared) prepared->start(batch.rows);
      learner_.learn(batch, labels, weights, predictions, row,
                     dynamic_cast<const PreparedRows<T>*>(ready), prepared);
    } catch (const Diverged& error) {
      throw Diverged(refused(batch.first + row, error) + advice(config_), row, error.what());
    } catch (const BadInput& error) {
      throw BadInput(refused(batch.first + row, error));
    }
  }

  std::unique_ptr<PreparedBatch> new_prepared() const override {
    return std::make_unique<PreparedRows<T>>();
  }
  uint64_t alike() const override { return learner_.alike(); }
  [[gnu::cold]] bool is_like(const Model& other, size_t most) const override {
    const auto* same = dynamic_cast<const ModelOf*>(&other);
    return same && learner_.features() <= most && learner_.is_like(same->learner_);
  }
  void set_alike(uint64_t number) override { learner_.set_alike(number); }

  void add_features(const Batch& batch, size_t row) override { learner_.add_features(batch, row); }

  void predict(const Batch& batch, double* predictions) override {
    validate(batch, kLargestValue<T>);
    for (size_t row = 0; row < batch.rows; ++row) predictions[row] = learner_.predict(batch, row);
  }

  [[gnu::cold]] Stats stats() const override {
    return {learner_.rounds(), learner_.sketch().upkeep(), learner_.features(), learner_.bytes(),
            learner_.alpha(learner_.experts().best())};
  }

  [[gnu::cold]] std::vector<Key> features() const override {
    std::vector<Key> keys = learner_.table().index.keys();
    keys.erase(keys.begin());
    return keys;
  }

  [[gnu::cold]] std::vector<double> weights() const override {
    std::vector<double> weights(learner_.table().size());
    for (Slot slot = 0; slot < weights.size(); ++slot)
      if (slot != kInterceptSlot || config_.intercept) weights[slot] = learner_.raw_weight(slot);
    return weights;
  }
  std::vector<double> scales() const override { return learner_.table().usual_sizes(); }
  std::vector<double> limits() const override { return learner_.table().limits(); }
  std::vector<double> centres() const override { return learner_.table().centres(); }

  [[gnu::cold]] std::vector<double> spectrum() const override {
    return learner_.sketch().eigenvalues();
  }

  [[gnu::cold]] Matrix basis() const override {
    const size_t slots = learner_.table().size(), k = learner_.sketch().rank();
    const Vector values = learner_.sketch().eigenvalues();
    const std::vector<size_t> order = largest_first(values);
    Matrix V(k, slots);
    Vector v(k);
    for (Slot slot = 0; slot < slots; ++slot) {
      learner_.direction(slot, v.data());
      for (size_t i = 0; i < k; ++i) V(i, slot) = v[order[i]];
    }
    return V;
  }

  [[gnu::cold]] std::vector<double> expert_shares() const override {
    return learner_.experts().shares();
  }

  [[gnu::cold]] State save() override {
    StateWriter writer;
    learner_.state(writer);
    return checked(std::move(writer));
  }

  [[gnu::cold]] void restore(const State& state) override {
    StateReader reader(state);
    learner_.state(reader);
  }

  [[gnu::cold]] State knowledge() override {
    StateWriter writer;
    learner_.write_knowledge(writer);
    return std::move(writer.state);
  }

  [[gnu::cold]] void set_knowledge(const State& knowledge) override {
    StateReader reader(knowledge);
    learner_.read_knowledge(reader);
  }

  std::pair<double, double> label_range() const override { return learner_.label_range(); }

 private:
  Config config_;
  Learner<T, S> learner_;
};

using Factory = std::unique_ptr<Model> (*)(const Config&);

template <class T, template <class> class S>
  requires Sketch<S<T>, T>
[[gnu::cold]] std::unique_ptr<Model> make(const Config& config) {
  return std::make_unique<ModelOf<T, S<T>>>(config);
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

// Sketches that tests have registered under a second name.
std::map<std::string, Entry>& registered_again() {
  static std::map<std::string, Entry> entries;
  return entries;
}

const Entry& find_sketch(const std::string& name) {
  for (const Entry& sketch : kSketches)
    if (sketch.name == name) return sketch;
  const auto found = registered_again().find(name);
  if (found == registered_again().end())
    throw std::invalid_argument("unknown sketch '" + name + "'");
  return found->second;
}

}  // namespace

std::unique_ptr<Model> make_model(const Config& config, bool single_precision) {
  const Entry& sketch = find_sketch(config.sketch_name);
  Config complete = config;
  complete.sketch.truncation = sketch.truncation;
  return (single_precision ? sketch.float32 : sketch.float64)(complete);
}

std::unique_ptr<Group> make_group(const Config& config, bool single_precision) {
  if (single_precision) return std::make_unique<GroupOf<float, Isotropic<float>>>(config);
  return std::make_unique<GroupOf<double, Isotropic<double>>>(config);
}

void register_sketch_again(const std::string& name, const std::string& of) {
  registered_again()[name] = find_sketch(of);
}

std::vector<std::string_view> sketch_names() {
  std::vector<std::string_view> names;
  for (const Entry& sketch : kSketches) names.push_back(sketch.name);
  return names;
}

}  // namespace sonline
