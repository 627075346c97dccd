#include "sonline/model.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "sonline/learner.hpp"
#include "sonline/sketch/adagrad.hpp"
#include "sonline/sketch/appended.hpp"
#include "sonline/sketch/full.hpp"
#include "sonline/sketch/none.hpp"
#include "sonline/sketch/oja.hpp"
#include "sonline/sketch/spectral.hpp"

namespace sonline {
namespace {

template <class T, class Sketch>
class ModelOf final : public Model {
 public:
  explicit ModelOf(const Config& config) : config_(config), learner_(config) {}

  void learn(const Batch& batch, const double* labels, const double* weights,
             double* predictions) override {
    validate(batch, kLargestValue<T>);
    refuse_broken();
    size_t row = 0;
    try {
      learner_.learn(batch, labels, weights, predictions, row);
    } catch (const Diverged& error) {
      broken_ = "diverged in round " + std::to_string(learner_.rounds()) + ": " + error.what();
      throw Diverged("row " + std::to_string(batch.first + row) + ": the learner " + broken_);
    }
  }

  void predict(const Batch& batch, double* predictions) override {
    validate(batch, kLargestValue<T>);
    refuse_broken();
    for (size_t row = 0; row < batch.rows; ++row) predictions[row] = learner_.predict(batch, row);
  }

  Stats stats() const override {
    const auto shares = learner_.shares();
    const auto best = std::max_element(shares.begin(), shares.end()) - shares.begin();
    return {learner_.rounds(), learner_.sketch().rebases(), learner_.features(), learner_.bytes(),
            learner_.alpha(static_cast<size_t>(best))};
  }

  std::vector<Key> features() const override {
    std::vector<Key> keys = learner_.index().keys();
    keys.erase(keys.begin());
    return keys;
  }

  std::vector<double> weights() const override {
    refuse_broken();
    std::vector<double> weights(learner_.index().size());
    for (Slot slot = 0; slot < weights.size(); ++slot)
      if (slot != kInterceptSlot || config_.intercept) weights[slot] = learner_.raw_weight(slot);
    return weights;
  }

  std::vector<double> scales() const override {
    std::vector<double> scales(learner_.index().size());
    for (Slot slot = 0; slot < scales.size(); ++slot) scales[slot] = learner_.scale(slot);
    return scales;
  }

  std::vector<double> limits() const override {
    std::vector<double> limits(learner_.index().size());
    for (Slot slot = 0; slot < limits.size(); ++slot) limits[slot] = learner_.limit(slot);
    return limits;
  }

  std::vector<double> spectrum() const override { return learner_.sketch().eigenvalues(); }

  Matrix basis() const override {
    refuse_broken();
    const size_t slots = learner_.index().size(), k = learner_.sketch().rank();
    const Vector values = learner_.sketch().eigenvalues();
    std::vector<size_t> order(k);  // largest eigenvalue first
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t i, size_t j) { return values[i] > values[j]; });
    Matrix V(k, slots);
    Vector v(k);
    for (Slot slot = 0; slot < slots; ++slot) {
      learner_.direction(slot, v.data());
      for (size_t i = 0; i < k; ++i) V(i, slot) = v[order[i]];
    }
    return V;
  }

  std::vector<double> expert_shares() const override { return learner_.shares(); }

  State save() override {
    refuse_broken();
    StateWriter writer;
    learner_.state(writer);
    for (const auto& [name, tensor] : writer.state)
      if (!tensor.finite())
        throw Diverged("the learner cannot be saved: '" + name +
                       "' holds numbers that are not finite; go on from a saved model");
    return std::move(writer.state);
  }

  void restore(const State& state) override {
    StateReader reader(state);
    learner_.state(reader);
  }

 private:
  void refuse_broken() const {
    if (!broken_.empty())
      throw Diverged("the learner " + broken_ +
                     "; go on from a saved model, with a larger alpha or scaling='rms'");
  }

  Config config_;
  Learner<T, Sketch> learner_;
  std::string broken_;  // why it can no longer be used
};

using Factory = std::unique_ptr<Model> (*)(const Config&);

template <class T, template <class> class Sketch>
std::unique_ptr<Model> make(const Config& config) {
  return std::make_unique<ModelOf<T, Sketch<T>>>(config);
}

template <class T>
using Oja = Factored<T, OjaRule>;
template <class T>
using FrequentDirections = Appended<T, Truncation::fd>;
template <class T>
using RobustFd = Appended<T, Truncation::rfd>;
template <class T>
using Isotropic = Factored<T, PushRule<Truncation::isotropic>>;
template <class T>
using None = Factored<T, NoRule>;

struct Entry {
  std::string_view name;
  Factory single, twice;
};

template <template <class> class Sketch>
constexpr Entry entry(std::string_view name) {
  return {name, &make<float, Sketch>, &make<double, Sketch>};
}

// The registry: a new sketch is its file and its line here.
constexpr std::array kSketches = {
    entry<None>("none"),    entry<AdaGrad>("adagrad"),
    entry<Oja>("oja"),      entry<FrequentDirections>("fd"),
    entry<RobustFd>("rfd"), entry<Isotropic>("isotropic"),
    entry<Full>("full"),
};

}  // namespace

std::unique_ptr<Model> make_model(const Config& config, bool single_precision) {
  for (const Entry& sketch : kSketches)
    if (sketch.name == config.sketch_name)
      return (single_precision ? sketch.single : sketch.twice)(config);
  throw std::invalid_argument("unknown sketch '" + config.sketch_name + "'");
}

std::vector<std::string_view> sketch_names() {
  std::vector<std::string_view> names;
  for (const Entry& sketch : kSketches) names.push_back(sketch.name);
  return names;
}

}  // namespace sonline
