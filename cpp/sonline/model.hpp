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
#include "sonline/pairs.hpp"
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

// Where the predictions of a batch go: those of output k for row i to values[k * stride + i]. In
// the same way xᵀA⁻¹x goes to `uncertainties`, unless that is null, and then the size of an error
// to `sizes`: of numbers s of intervals.hpp, of classes that of the raw prediction, √xᵀA⁻¹x.
struct Predictions {
  double* values;
  size_t stride;
  double* uncertainties = nullptr;
  double* sizes = nullptr;
};

// A column whose part in a prediction is a curve: what it adds at its knots to what its weight
// adds. It is a line between knots, and constant beyond them.
struct Curve {
  size_t slot;
  std::vector<double> knots, values;
  std::vector<double> rows;  // below the first knot, between two, and from the last one on
};

// Two columns, and what both do together: for each two sides of theirs (pairs.hpp), and how many
// rows were there.
struct PairMap {
  size_t a, b;
  Pairs::Sides sides_of_a, sides_of_b;
  std::vector<double> values, rows;
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
  // `weights` may be null: all 1. With one output, Diverged comes at the row, and the rows before
  // it have been learned. With several, an output that cannot learn a row leaves it out, and the
  // error comes at the end.
  virtual void learn(const Batch& batch, const double* labels, const double* weights,
                     Predictions out, size_t threads) = 0;
  // For later rows, or for the next row, as learn() does.
  virtual void predict(const Batch& batch, Predictions out, bool later) = 0;

  virtual Stats stats() const = 0;
  virtual std::vector<Key> features() const = 0;                // by slot, without the intercept's
  virtual std::vector<double> weights(size_t line) = 0;         // by slot, the intercept first
  virtual std::vector<double> scales() const = 0;               // by slot
  virtual std::vector<double> limits() const = 0;               // by slot: x - centre is cut beyond
  virtual std::vector<double> centres() const = 0;              // by slot; 0 for most
  virtual std::vector<double> spectrum(size_t line) const = 0;  // k eigenvalues
  virtual Matrix basis(size_t line) = 0;  // k x slots, scaled; largest eigenvalue first
  virtual std::vector<Curve> curves(size_t line) = 0;  // of the columns that have one
  virtual std::vector<PairMap> pairs(size_t line) = 0;
  virtual std::vector<double> shares(size_t line, bool later) const = 0;  // of the members
  // The scores up to which labels count as expected, all but a part `error` of them: of numbers
  // |y - prediction| / size, of each class its raw prediction below 0.
  virtual std::vector<double> limits_of_scores(double error, bool later) const = 0;
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
