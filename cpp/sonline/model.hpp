// A learner behind one virtual call per batch. Python holds it, and files store it.
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
#include "sonline/prepared.hpp"
#include "sonline/sketch/sweep.hpp"

namespace sonline {

// The values of sonline.OnlineLearner.stats().
struct Stats {
  uint64_t rounds;
  Upkeep upkeep;
  size_t features;
  size_t bytes;
  double alpha;  // of the best expert, with what the sketch adds
};

class Model {
 public:
  virtual ~Model() = default;

  // Both check the whole batch first (BadInput). `weights` may be null: all 1.
  // Diverged says the row; the rows before it have been learned.
  // With rows that a model alike has prepared, and rows to prepare for others, see classes.hpp.
  virtual void learn(const Batch& batch, const double* labels, const double* weights,
                     double* predictions, const PreparedBatch* ready, PreparedBatch* made) = 0;
  void learn(const Batch& batch, const double* labels, const double* weights, double* predictions) {
    learn(batch, labels, weights, predictions, nullptr, nullptr);
  }
  virtual std::unique_ptr<PreparedBatch> new_prepared() const = 0;
  // Models with the same number resolve and scale every row alike; 0 says nothing.
  virtual uint64_t alike() const = 0;
  virtual void set_alike(uint64_t number) = 0;
  // Whether another model does, by a look at all features; false if there are more than `most`.
  virtual bool is_like(const Model& other, size_t most) const = 0;
  // Adds the features of a row of a batch that has been checked, as if it had been learned.
  virtual void add_features(const Batch& batch, size_t row) = 0;
  virtual void predict(const Batch& batch, double* predictions) = 0;

  virtual Stats stats() const = 0;
  virtual std::vector<Key> features() const = 0;     // by slot, without the intercept's
  virtual std::vector<double> weights() const = 0;   // by slot, the intercept first
  virtual std::vector<double> scales() const = 0;    // by slot
  virtual std::vector<double> limits() const = 0;    // by slot: x - centre is cut beyond
  virtual std::vector<double> centres() const = 0;   // by slot; 0 for most
  virtual std::vector<double> spectrum() const = 0;  // k eigenvalues
  virtual Matrix basis() const = 0;  // k x slots, scaled coordinates; largest eigenvalue first
  virtual std::vector<double> expert_shares() const = 0;

  virtual State save() = 0;
  virtual State knowledge() = 0;  // for merging, see knowledge.hpp
  virtual void set_knowledge(const State& knowledge) = 0;
  virtual std::pair<double, double> label_range() const = 0;
  virtual void restore(const State& state) = 0;  // std::invalid_argument names the bad field
};

// Throws std::invalid_argument for an unknown sketch.
std::unique_ptr<Model> make_model(const Config& config, bool single_precision);

std::vector<std::string_view> sketch_names();

// For tests: a sketch under a second name, which sketch_names() does not list.
void register_sketch_again(const std::string& name, const std::string& of);

}  // namespace sonline
