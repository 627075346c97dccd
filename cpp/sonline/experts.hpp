// The experts of one output: the step of each in a round, and the shares of their predictions.
//
// A learner (learner.hpp) has one output, a group of classes (group.hpp) has several over one
// sketch S. An expert has its own w, α and memory. It takes A = α I + part · s · S: s is the mean
// curvature of the output's loss where S does not contain it, and `part` is what a memory of M rows
// would have left of S. That is part · s times (α / (part · s)) I + S, which is how the sketch
// knows it: energy() and descend() both give αA⁻¹x.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "sonline/ablation.hpp"
#include "sonline/config.hpp"
#include "sonline/ensemble.hpp"
#include "sonline/errors.hpp"
#include "sonline/hashing.hpp"

namespace sonline {

inline constexpr double kLargestSquare = 1e280;    // sums of them must stay finite
inline constexpr double kSmallestSquare = 1e-290;  // its digits must be normal numbers

// The rows learned so far.
struct Rounds {
  uint64_t count = 0;
  uint64_t nonzeros = 0;   // of the first kMostCounted rows
  double mean_energy = 0;  // of |x̃|²
  EffectiveRows effective;

  void add_row(size_t size) {
    ++count;
    if (count < kMostCounted) nonzeros += size;
  }
  // Of the row that was added last.
  void add_energy(double energy) {
    if (SONLINE_KEEPS(running_energy) || count == 1)
      mean_energy += (energy - mean_energy) / static_cast<double>(count);
  }

  // The sketch takes in one row out of each group of this many rounds, and counts it that often. If
  // sketch_every is 0 ("auto"): every row at first, later one of two, and so on up to one of 32.
  size_t per_draw(size_t sketch_every) const {
    constexpr uint64_t kFirstRare = 1024;
    constexpr size_t kMostRare = 32;
    if (sketch_every > 0) return sketch_every;
    if (!SONLINE_KEEPS(sketch_draws)) return 1;
    size_t every = 1;
    while (every < kMostRare && count >= kFirstRare * every) every *= 2;
    return every;
  }
  // Whether that row is the next one. It is drawn at random, so that a periodic stream is sampled
  // fairly.
  bool next_is_drawn(size_t every) const {
    return every == 1 || count % every == mix_bits(count / every) % every;
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive) {
    archive.scalar("rounds", count);
    archive.scalar("mean_energy", mean_energy);
    archive.scalar("nonzeros", nonzeros);
    effective.state(archive);
  }
};

class Experts {
 public:
  Ensemble ensemble;
  Shrinkage shrinkage;
  LabelBalance balance;
  // In this round, by expert.
  Vector margins;  // w·x̃
  Vector fits;     // the likelihood that each gave the label, or its loss

  // `first` is the number of the first among all experts that share the sketch.
  explicit Experts(size_t experts, size_t first = 0)
      : ensemble(experts),
        margins(experts),
        fits(experts),
        first_(first),
        energies_(experts),
        reaches_(experts),
        moves_(experts),
        beside_sketch_(experts),
        is_short_(experts) {}

  void set_first(size_t first) { first_ = first; }
  size_t size() const { return margins.size(); }
  const Vector& shares() const { return ensemble.shares(); }

  template <class S>
  void read_margins(const S& sketch) {
    for (size_t e = 0; e < size(); ++e) {
      margins[e] = sketch.margin(first_ + e);
      if (!std::isfinite(margins[e])) throw Diverged("the prediction is not a finite number");
    }
  }
  double blend() const { return blend(margins.data()); }
  double blend(const double* of_experts) const {
    return size() == 1 ? of_experts[0] : dot(shares().data(), of_experts, size());
  }

  // The blend times this is the prediction. A single weight vector is that of the paper, and is not
  // made smaller.
  double factor() const {
    return size() > 1 && SONLINE_KEEPS(shrinkage) ? shrinkage.factor() : 1.0;
  }

  // The implicit step of each expert with the A of the rounds before; `pull` is the weight of the
  // loss. The caller has read the margins.
  template <class S>
  void step(const Config& config, const Rounds& rounds, double y, double pull, double s,
            double energy_of_row, S& sketch) {
    const size_t E = size();
    const double unit = unit_of_alpha(config, rounds), tail = sketch.tail();
    const bool held_out = SONLINE_KEEPS(held_out) && is_held_out(rounds.count);
    for (size_t e = 0; e < E; ++e) {
      const double part = remembered(config, rounds, e);
      const double alpha = config.experts[e].alpha * unit + tail * (part * s);
      is_short_[e] = part < 1 && is_short(config, e);
      beside_sketch_[e] = alpha / (part * s);
      energies_[e] = sketch.energy(first_ + e, beside_sketch_[e]);
      reaches_[e] = energy_of_row > 0 ? pull * energies_[e] / alpha : 0;
      if (is_short_[e]) reaches_[e] *= balance.weight(y);
    }
    for (size_t e = 0; e < E; ++e)
      if (is_short_[e] && held_out) margins[e] = as_sure_as_others(e);
    if (E == 1)
      moves_[0] = config.loss->implicit_step(margins[0], y, reaches_[0]);
    else
      config.loss->implicit_steps(margins.data(), y, reaches_.data(), E, fits.data(),
                                  moves_.data());
    if (!SONLINE_KEEPS(held_out))
      for (size_t e = 0; e < E; ++e)
        if (is_short_[e]) {
          const double margin = as_sure_as_others(e);
          config.loss->fits(&margin, y, 1, &fits[e]);
        }
    if (!SONLINE_KEEPS(implicit_step))  // the gradient of the start, and the A with this row
      for (size_t e = 0; e < E; ++e)
        moves_[e] = -reaches_[e] * config.loss->slope(margins[e], y) /
                    (1 + reaches_[e] * config.loss->curvature(margins[e], y));
    const double most = most_moved(config, rounds);
    for (size_t e = 0; e < E; ++e) {
      if (is_short_[e] && held_out) moves_[e] = 0;
      if (moves_[e] != 0)
        sketch.descend(first_ + e, -std::clamp(moves_[e], -most, most) / energies_[e],
                       beside_sketch_[e]);
    }
  }

  // The blend of the margins after the steps.
  double end_of_steps() const {
    double end = 0;
    for (size_t e = 0; e < size(); ++e) end += shares()[e] * (margins[e] + moves_[e]);
    return end;
  }

  // Once the row has been learned: changes the shares by the fits of the experts, and the shrinkage
  // by those of the predictions `clipped` gives for smaller blends than z. become_likelihoods turns
  // fits into likelihoods.
  template <class Clipped, class Likelihoods>
  void learn_shares(const Config& config, const Rounds& rounds, double z, double y, double weight,
                    Clipped&& clipped, Likelihoods&& become_likelihoods) {
    become_likelihoods(fits);
    for (size_t e = 0; e < size(); ++e)
      if (is_short_[e])
        fits[e] = fit_of_short_memory(e, is_held_out(rounds.count) || !SONLINE_KEEPS(held_out));
    if (config.loss->binary) balance.take_in(y, rounds.count);
    const double rows = weight / rounds.effective.unit();
    if (SONLINE_KEEPS(exponential_weights)) ensemble.learn(fits, rows);
    if (!SONLINE_KEEPS(shrinkage)) return;
    shrinkage.learn(z, rows, [&](Vector& predictions) {
      for (double& prediction : predictions) prediction = clipped(prediction);
      config.loss->fits(predictions.data(), y, predictions.size(), predictions.data());
      become_likelihoods(predictions);
    });
  }

  // What multiplies I in A.
  double alpha(const Config& config, const Rounds& rounds, double tail, double s, size_t e) const {
    return config.experts[e].alpha * unit_of_alpha(config, rounds) +
           tail * (remembered(config, rounds, e) * s);
  }
  // Which part of A an expert keeps.
  double remembered(const Config& config, const Rounds& rounds, size_t e) const {
    double memory = config.experts[e].memory;
    if (!(memory > 0)) return 1.0;
    if (is_short(config, e)) memory /= balance.information();
    const double rows = rounds.effective.count();
    return rows > memory ? memory / rows : 1.0;
  }
  // Of the experts, the one with the largest share.
  size_t best() const {
    return static_cast<size_t>(std::max_element(shares().begin(), shares().end()) -
                               shares().begin());
  }

 private:
  static constexpr double kFewRows = 64;        // up to here, no step is long
  static constexpr double kShortMemory = 1000;  // rows, of classes

  // Whether the memory is so short that the last rows count most. (Numbers have a level, which
  // these rows tell best.)
  static bool is_short(const Config& config, size_t e) {
    return config.loss->binary && config.experts[e].memory < kShortMemory;
  }

  double unit_of_alpha(const Config& config, const Rounds& rounds) const {
    const double unit = !config.relative ? 1.0
                        : config.root    ? std::sqrt(rounds.mean_energy)
                                         : rounds.mean_energy;
    return unit * (size() > 1 ? rounds.effective.unit() : 1.0);
  }

  // The margin by which an expert with a short memory is evaluated: few rows can often be
  // separated, so being surer than all others counts neither for it nor against it.
  double as_sure_as_others(size_t expert) const {
    if (!SONLINE_KEEPS(as_sure_as_others)) return margins[expert];
    double most = 1;
    for (size_t e = 0; e < size(); ++e)
      if (e != expert) most = std::max(most, std::fabs(margins[e]));
    return std::clamp(margins[expert], -most, most);
  }

  // In doubt a longer memory is the better one when the model is frozen, so that only half of what
  // a short memory gains counts. The rows that it learns do not evaluate it.
  double fit_of_short_memory(size_t e, bool held_out) const {
    const double others = ensemble.without(e, fits);
    if (!held_out) return others;
    return SONLINE_KEEPS(half_gain) && fits[e] > others ? std::sqrt(others * fits[e]) : fits[e];
  }

  // How far a step may move a prediction: blended experts do not get sure of a class by one row.
  double most_moved(const Config& config, const Rounds& rounds) const {
    constexpr double kAny = std::numeric_limits<double>::infinity();
    if (size() == 1 || !config.loss->binary) return kAny;
    const double rows = rounds.effective.count();
    return SONLINE_KEEPS(first_steps_limit) && rows < kFewRows ? rows : kAny;
  }

  size_t first_;
  // In this round, by expert. beside_sketch: alpha / (part · s).
  Vector energies_, reaches_, moves_, beside_sketch_;
  std::vector<unsigned char> is_short_;  // whether a short memory counts as such already
};

// Which experts there are: later versions may start with others.
template <class Archive>
[[gnu::cold]] void experts_state(Archive& archive, std::vector<Expert>& experts) {
  Vector numbers;
  for (const Expert& expert : experts) numbers.insert(numbers.end(), {expert.alpha, expert.memory});
  archive.array("ensemble.experts", numbers);
  if constexpr (Archive::reading)
    for (size_t e = 0; e < experts.size(); ++e) {
      if (numbers[2 * e] < 0 || numbers[2 * e + 1] < 0)
        archive.fail("ensemble.experts", "has a negative number");
      experts[e] = {numbers[2 * e], numbers[2 * e + 1]};
    }
}

}  // namespace sonline
