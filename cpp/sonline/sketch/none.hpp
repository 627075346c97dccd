// No sketch: A = αI, plain online gradient descent with step 1/α (the paper's m = 0).
#pragma once

#include "sonline/sketch/factored.hpp"

namespace sonline {

class NoRule {
 public:
  static constexpr bool kLower = true;
  static constexpr bool kTakesCurvature = false;

  static size_t capacity(size_t) { return 0; }
  NoRule(const SketchConfig&, size_t) {}

  const Vector& ev() const { return ev_; }
  double tail() const { return 0; }

  static double times_counted(double, size_t, double times) { return times; }

  void absorb(const Absorption&, Transition& out) {
    out.rank = 0;
    out.sparse = true;
    out.append = false;
  }
  void carry(const Transition&, size_t, const double*, double*) const {}
  void dense(const Transition&, size_t, double, const double*, Matrix&) const {}
  void accept(const Transition&) {}
  void rebased(const Matrix&, size_t) {}
  void forget(size_t) {}
  void undo() {}
  void pass(double) {}
  template <class Archive>
  void write_knowledge(Archive&, double) const {}
  template <class Archive>
  void read_knowledge(Archive&, const Vector&) {}

  template <class Archive>
  void state(Archive&, size_t) {}

 private:
  Vector ev_;
};

}  // namespace sonline
