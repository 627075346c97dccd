// Losses: scalar functions of the raw prediction z and the label y.
//
// To add a loss, write a struct like those in loss/ and add its line to kLosses below; Python, the
// command line, the messages and the conformance tests take their names from that table. A loss
// with a parameter is constructed from LossParameters and keeps it; see loss/quantile.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sonline/exponential.hpp"
#include "sonline/loss/hinge.hpp"
#include "sonline/loss/logistic.hpp"
#include "sonline/loss/parameters.hpp"
#include "sonline/loss/quantile.hpp"
#include "sonline/loss/squared.hpp"
#include "sonline/loss/squared_hinge.hpp"

namespace sonline {

class Loss {
 public:
  Loss(bool is_binary, bool has_hessian) : binary(is_binary), hessian(has_hessian) {}
  virtual ~Loss() = default;

  virtual double value(double z, double y) const = 0;
  virtual double slope(double z, double y) const = 0;
  virtual double curvature(double z, double y) const = 0;
  // How well each of n predictions fits: e^-l where labels are classes, l where they are numbers.
  virtual void fits(const double* z, double y, size_t n, double* fits) const = 0;
  // The same, and z' - z for the z' with z' + q l'(z') = z: how far an implicit step moves it. The
  // difference, because short steps would be lost in z'.
  virtual void implicit_steps(const double* z, double y, const double* q, size_t n, double* fits,
                              double* steps) const = 0;
  // The same of one prediction, without the fit.
  virtual double implicit_step(double z, double y, double q) const = 0;
  // The sigma of Assumption 2 and the L of Assumption 1 that hold for |z| <= C and |y| <= C.
  virtual double sigma(double C) const = 0;
  virtual double lipschitz(double C) const = 0;

  const bool binary;   // labels are -1 / +1 rather than real numbers
  const bool hessian;  // has a second derivative that is worth sketching
};

// A loss of loss/ behind the interface. It has implicit_step(), and fits() and implicit_steps() if
// it can do several at once.
template <class L>
class LossOf final : public Loss {
 public:
  explicit LossOf(const LossParameters& parameters)
      : Loss(L::binary, L::hessian), loss_(make(parameters)) {}

  double value(double z, double y) const override { return loss_.value(z, y); }
  double slope(double z, double y) const override { return loss_.slope(z, y); }
  double curvature(double z, double y) const override { return loss_.curvature(z, y); }
  void fits(const double* z, double y, size_t n, double* fits) const override {
    if constexpr (requires { loss_.fits(z, y, n, fits); })
      loss_.fits(z, y, n, fits);
    else
      for (size_t i = 0; i < n; ++i) {
        const double loss = loss_.value(z[i], y);
        fits[i] = L::binary ? exp_of(-std::min(loss, 30.0)) : loss;
      }
  }
  void implicit_steps(const double* z, double y, const double* q, size_t n, double* fits,
                      double* steps) const override {
    if constexpr (requires { loss_.implicit_steps(z, y, q, n, fits, steps); }) {
      loss_.implicit_steps(z, y, q, n, fits, steps);
    } else {
      this->fits(z, y, n, fits);
      for (size_t i = 0; i < n; ++i) steps[i] = loss_.implicit_step(z[i], y, q[i]);
    }
  }
  double implicit_step(double z, double y, double q) const override {
    return loss_.implicit_step(z, y, q);
  }
  double sigma(double C) const override { return loss_.sigma(C); }
  double lipschitz(double C) const override { return loss_.lipschitz(C); }

 private:
  static L make([[maybe_unused]] const LossParameters& parameters) {
    if constexpr (std::is_constructible_v<L, const LossParameters&>)
      return L(parameters);
    else
      return L();
  }

  L loss_;
};

struct LossEntry {
  std::string_view name;
  bool binary, hessian;
  std::shared_ptr<const Loss> (*make)(const LossParameters&);
};

template <class L>
constexpr LossEntry loss_entry() {
  return {L::name, L::binary, L::hessian,
          [](const LossParameters& parameters) -> std::shared_ptr<const Loss> {
            return std::make_shared<LossOf<L>>(parameters);
          }};
}

inline constexpr std::array kLosses = {
    loss_entry<SquaredLoss>(),      loss_entry<LogisticLoss>(), loss_entry<HingeLoss>(),
    loss_entry<SquaredHingeLoss>(), loss_entry<QuantileLoss>(),
};

inline std::shared_ptr<const Loss> make_loss(std::string_view name,
                                             const LossParameters& parameters = {}) {
  for (const LossEntry& entry : kLosses)
    if (entry.name == name) return entry.make(parameters);
  throw std::invalid_argument("unknown loss '" + std::string(name) + "'");
}

}  // namespace sonline
