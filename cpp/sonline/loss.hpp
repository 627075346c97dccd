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
#include "sonline/loss/log_link.hpp"
#include "sonline/loss/logistic.hpp"
#include "sonline/loss/parameters.hpp"
#include "sonline/loss/quantile.hpp"
#include "sonline/loss/robust.hpp"
#include "sonline/loss/squared.hpp"
#include "sonline/loss/squared_hinge.hpp"

namespace sonline {

class Loss {
 public:
  Loss(bool is_binary, bool has_hessian, bool has_log_link)
      : binary(is_binary), hessian(has_hessian), log_link(has_log_link) {}
  virtual ~Loss() = default;

  virtual double value(double z, double y) const = 0;
  virtual double slope(double z, double y) const = 0;
  virtual double curvature(double z, double y) const = 0;
  // What the typical loss is the mean of: the value, unless there is a better measure of noise.
  virtual double typical(double z, double y) const = 0;
  // The root of twice the mean of typical(), for a loss that is relative to it: set before each row
  // is learned. A model has its own loss.
  virtual void set_scale(double scale) const = 0;
  // What a row with an offset (which is added to z) is learned as: a row without one. Its weight is
  // multiplied.
  virtual double label_of_unit(double y, double offset) const = 0;
  virtual double weight_of_offset(double offset) const = 0;
  // The third derivative in units of the second, at z = log y.
  virtual double skew() const = 0;
  // Which quantile is predicted; 0 if it is none.
  virtual double level() const = 0;
  // How well each of n predictions fits: e^-l where labels are classes, l where they are numbers.
  virtual void fits(const double* z, double y, size_t n, double* fits) const = 0;
  // The same with slope and curvature of each.
  virtual void judge(const double* z, double y, size_t n, double* fits, double* slopes,
                     double* curvatures) const = 0;
  // The same with a label each, and z' - z for the z' with z' + q l'(z') = z: how far an implicit
  // step moves it. The difference, because short steps would be lost in z'.
  virtual void implicit_steps(const double* z, const double* y, const double* q, size_t n,
                              double* fits, double* steps) const = 0;
  // The same of one prediction, without the fit.
  virtual double implicit_step(double z, double y, double q) const = 0;
  // The sigma of Assumption 2 and the L of Assumption 1 that hold for |z| <= C and |y| <= C.
  virtual double sigma(double C) const = 0;
  virtual double lipschitz(double C) const = 0;

  const bool binary;    // labels are -1 / +1 rather than real numbers
  const bool hessian;   // has a second derivative that is worth sketching
  const bool log_link;  // z is the logarithm of the predicted number, which is never negative
};

// A property that a loss of loss/ may leave out.
template <class L>
constexpr bool has_log_link() {
  if constexpr (requires { L::log_link; }) return L::log_link;
  return false;
}
template <class L>
constexpr bool is_positive() {
  if constexpr (requires { L::positive; }) return L::positive;
  return false;
}

// A loss of loss/ behind the interface. It has implicit_step(), and fits() and implicit_steps() if
// it can do several at once.
template <class L>
class LossOf final : public Loss {
 public:
  explicit LossOf(const LossParameters& parameters)
      : Loss(L::binary, L::hessian, has_log_link<L>()), loss_(make(parameters)) {}

  double value(double z, double y) const override { return loss_.value(z, y); }
  double slope(double z, double y) const override { return loss_.slope(z, y); }
  double curvature(double z, double y) const override { return loss_.curvature(z, y); }
  double typical(double z, double y) const override {
    if constexpr (requires { loss_.typical(z, y); }) return loss_.typical(z, y);
    return loss_.value(z, y);
  }
  void set_scale([[maybe_unused]] double scale) const override {
    if constexpr (requires { loss_.set_scale(scale); }) loss_.set_scale(scale);
  }
  double label_of_unit(double y, double offset) const override {
    if constexpr (requires { loss_.label_of_unit(y, offset); })
      return loss_.label_of_unit(y, offset);
    return y - offset;
  }
  double weight_of_offset(double offset) const override {
    if constexpr (requires { loss_.weight_of_offset(offset); })
      return loss_.weight_of_offset(offset);
    return 1.0;
  }
  double skew() const override {
    if constexpr (requires { loss_.skew(); }) return loss_.skew();
    return 0.0;
  }
  double level() const override {
    if constexpr (requires { L::quantile; }) return loss_.level;
    return 0.0;
  }
  void fits(const double* z, double y, size_t n, double* fits) const override {
    if constexpr (requires { loss_.fits(z, y, n, fits); })
      loss_.fits(z, y, n, fits);
    else
      for (size_t i = 0; i < n; ++i) {
        const double loss = loss_.value(z[i], y);
        fits[i] = L::binary ? exp_of(-std::min(loss, 30.0)) : loss;
      }
  }
  void judge(const double* z, double y, size_t n, double* fits, double* slopes,
             double* curvatures) const override {
    this->fits(z, y, n, fits);
    for (size_t i = 0; i < n; ++i) {
      if constexpr (requires { L::slope_of_fit(*fits, y); }) {
        slopes[i] = L::slope_of_fit(fits[i], y);
        curvatures[i] = L::curvature_of_fit(fits[i]);
      } else {
        slopes[i] = loss_.slope(z[i], y);
        curvatures[i] = loss_.curvature(z[i], y);
      }
    }
  }
  void implicit_steps(const double* z, const double* y, const double* q, size_t n, double* fits,
                      double* steps) const override {
    if constexpr (requires { loss_.implicit_steps(z, y, q, n, fits, steps); }) {
      loss_.implicit_steps(z, y, q, n, fits, steps);
    } else {
      for (size_t i = 0; i < n; ++i) {
        this->fits(z + i, y[i], 1, fits + i);
        steps[i] = loss_.implicit_step(z[i], y[i], q[i]);
      }
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

  mutable L loss_;  // only its scale
};

struct LossEntry {
  std::string_view name;
  bool binary, hessian, log_link, positive;
  std::shared_ptr<const Loss> (*make)(const LossParameters&);
};

template <class L>
constexpr LossEntry loss_entry() {
  return {L::name,
          L::binary,
          L::hessian,
          has_log_link<L>(),
          is_positive<L>(),
          [](const LossParameters& parameters) -> std::shared_ptr<const Loss> {
            return std::make_shared<LossOf<L>>(parameters);
          }};
}

inline constexpr std::array kLosses = {
    loss_entry<SquaredLoss>(),
    loss_entry<LogisticLoss>(),
    loss_entry<HingeLoss>(),
    loss_entry<SquaredHingeLoss>(),
    loss_entry<QuantileLoss>(),
    loss_entry<PoissonLoss>(),
    loss_entry<GammaLoss>(),
    loss_entry<TweedieLoss>(),
    loss_entry<HuberLoss>(),
    loss_entry<ExpectileLoss>(),
    loss_entry<EpsilonInsensitiveLoss>(),
};

inline std::shared_ptr<const Loss> make_loss(std::string_view name,
                                             const LossParameters& parameters = {}) {
  for (const LossEntry& entry : kLosses)
    if (entry.name == name) return entry.make(parameters);
  throw std::invalid_argument("unknown loss '" + std::string(name) + "'");
}

}  // namespace sonline
