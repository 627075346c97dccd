// A model behind one virtual call per batch: its inputs, its outputs, and the round of a row.
// Python holds it, and files store it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/batch.hpp"
#include "sonline/config.hpp"
#include "sonline/features.hpp"
#include "sonline/sketch/sweep.hpp"

namespace sonline {

// The values of sonline.OnlineLearner.stats().
struct Stats {
  uint64_t rounds;
  Upkeep upkeep;
  size_t features;
  size_t bytes;
  double alpha;  // of the first member, with what the sketch adds
};

// What the labels are: numbers, or the numbers of classes. New classes may appear if they are
// `growing`.
struct Task {
  bool numbers = true;
  size_t classes = 0;
  bool growing = false;
};

// Where the predictions of a batch go: those of output k for row i to values[k * stride + i].
struct Predictions {
  double* values;
  size_t stride;
};

class Model {
 public:
  virtual ~Model() = default;

  // How many predictions a row has: one for numbers and two classes, else one for each class.
  virtual size_t lines() const = 0;
  virtual size_t classes() const = 0;
  // Adds a class, if it is growing.
  virtual void add_class() = 0;
  virtual void stop_growing() = 0;

  // Learns the rows of a batch that has been checked, with the predictions made before each.
  // `weights` may be null: all 1. With one output, Diverged says the row, and the rows before it
  // have been learned. With several, an output that cannot learn a row leaves it out, and the error
  // comes at the end.
  virtual void learn(const Batch& batch, const double* labels, const double* weights,
                     Predictions out, size_t threads) = 0;
  virtual void predict(const Batch& batch, Predictions out, size_t threads) = 0;

  virtual Stats stats() const = 0;
  virtual std::vector<Key> features() const = 0;                // by slot, without the intercept's
  virtual std::vector<double> weights(size_t line) = 0;         // by slot, the intercept first
  virtual std::vector<double> scales() const = 0;               // by slot
  virtual std::vector<double> limits() const = 0;               // by slot: x - centre is cut beyond
  virtual std::vector<double> centres() const = 0;              // by slot; 0 for most
  virtual std::vector<double> spectrum(size_t line) const = 0;  // k eigenvalues
  virtual Matrix basis(size_t line) = 0;  // k x slots, scaled; largest eigenvalue first
  virtual std::vector<double> shares(size_t line, bool later) const = 0;  // of the members
  virtual std::pair<double, double> label_range() const = 0;
  virtual void start_label_range(double low, double high) = 0;

  virtual State save() = 0;
  virtual void restore(const State& state) = 0;  // std::invalid_argument names the bad field
  virtual State knowledge() = 0;                 // for merging, see knowledge.hpp
  virtual void set_knowledge(const State& knowledge) = 0;
};

// Throws std::invalid_argument for an unknown sketch.
std::unique_ptr<Model> make_model(const Config& config, const Task& task, bool single_precision);

std::vector<std::string_view> sketch_names();

}  // namespace sonline
