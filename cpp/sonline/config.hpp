// The parameters of a learner. Python checks them (parameters.py) and has the messages.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "sonline/exponential.hpp"
#include "sonline/loss.hpp"
#include "sonline/sketch/contract.hpp"

namespace sonline {

enum class Scaling { none, gradient, rms, automatic };

// What a missing value of a mapping does: nothing, a feature of its own, or an error.
enum class Missing { absent, mark, refuse };

inline constexpr uint64_t kLastCounted = 1 << 24;  // rows: a float counts no further by ones

// Which predictions a member takes part in: those for the next row, whose label comes before the
// row after it; those for later rows; or both.
enum class Use { both, next, later };

// A weight vector over the sketch, and its step. With a memory of so many rows its A counts no more
// rows than that, so that its steps keep their size and it follows a stream that changes; 0 is
// plain gradient descent.
struct Member {
  double alpha = 1.0;
  double memory = std::numeric_limits<double>::infinity();
  Use use = Use::both;
};

// Whether a model has curves (curves.hpp): `automatic` if its rows are those of a table.
enum class CurvesChoice { off, automatic, on };

struct Config {
  std::shared_ptr<const Loss> loss = make_loss("squared");
  std::string sketch_name = "isotropic";
  SketchConfig sketch;
  std::vector<Member> members = {{}};  // over the sketch
  std::vector<Member> with_curves;     // over a sketch of curved rows, if there are curves
  std::vector<Member> curved;          // the same, once there are
  std::vector<double> diagonal;        // α of the members with a step per feature, see diagonal.hpp
  bool relative = false;               // α in units of the mean squared norm of the rows
  bool root = false;                   // … of its root, for AdaGrad
  double bound = std::numeric_limits<double>::infinity();
  bool clip = false;
  bool unit_free = false;      // regression: offset, unit and outliers of the labels do not matter
  bool explicit_step = false;  // as in the paper; see round.hpp
  bool hessian = false;
  size_t sketch_every = 1;  // one row in this many updates the sketch; 0: see rows_seen.hpp
  double sigma = 0;
  double eta = 0;
  bool eta_convex = false;
  Scaling scaling = Scaling::none;
  bool intercept = true;
  double half_life = 0;  // in rows; 0: nothing is forgotten
  double kept = 1;       // … what a row counts in the next row
  CurvesChoice curves = CurvesChoice::off;
  bool pairs = false;  // of columns, beside curves
  Missing missing = Missing::absent;
  int hash_bits = -1;  // -1: exact features
  uint64_t hash_seed = 0;

  // Calls visit(name, field) for each plain field, with the name that Python has for it.
  template <class Visit>
  void each_field(Visit&& visit) {
    visit("sketch", sketch_name);
    visit("sketch_size", sketch.size);
    visit("oja_step", sketch.oja_step);
    visit("scale_free", sketch.scale_free);
    visit("relative", relative);
    visit("root", root);
    visit("bound", bound);
    visit("clip", clip);
    visit("unit_free", unit_free);
    visit("explicit_step", explicit_step);
    visit("hessian", hessian);
    visit("sketch_every", sketch_every);
    visit("sigma", sigma);
    visit("eta", eta);
    visit("eta_convex", eta_convex);
    visit("intercept", intercept);
    visit("pairs", pairs);
    visit("half_life", half_life);
    visit("hash_bits", hash_bits);
    visit("hash_seed", hash_seed);
  }

  bool forgets() const { return half_life > 0; }

  // Whether there is more than one weight vector.
  bool blended() const { return members.size() + diagonal.size() > 1; }

  // The same for a round over curved rows.
  Config of_curves() const {
    Config config = *this;
    config.members = curved;
    config.complete();
    return config;
  }

  // The other fields that the sketch needs.
  void complete() {
    kept = forgets() ? exp_of(-0.6931471805599453 / half_life) : 1.0;
    sketch.weights = members.size();
    sketch.alpha = members.at(0).alpha;
    sketch.fixed_alpha = !relative;
    sketch.forgets = forgets();
    sketch.explicit_step = explicit_step;
    sketch.intercept = intercept;
  }
};

}  // namespace sonline
