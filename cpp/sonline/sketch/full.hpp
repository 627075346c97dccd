// The full matrix A = αI + Σ ĝĝᵀ (paper: Eq. 2), in double: the ground truth for small dimensions.
// O(d²) a row with a fixed α (rank-one update of a Cholesky factor), O(d³) with a moving one.
// With α = 0 the pseudo-inverse takes the place of the inverse (Appendix "A Truly Invariant
// Algorithm"): A = QᵀCQ with orthonormal rows Q for the range seen so far.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "sonline/archive.hpp"
#include "sonline/batch.hpp"
#include "sonline/blocks.hpp"
#include "sonline/errors.hpp"
#include "sonline/forgetting.hpp"
#include "sonline/knowledge.hpp"
#include "sonline/matrix.hpp"
#include "sonline/row.hpp"
#include "sonline/sketch/contract.hpp"
#include "sonline/sketch/sweep.hpp"

namespace sonline {

template <class T>
class Full {
 public:
  static constexpr size_t kMaxFeatures = 8192;
  static constexpr bool kAbsorbFirst = false;
  static constexpr bool kFullMatrix = true;  // its dimension is that of the features
  static constexpr bool kTakesCurvature = true;

  [[gnu::cold]] explicit Full(const SketchConfig& config)
      : pseudo_(config.fixed_alpha && config.alpha == 0),
        fixed_(config.fixed_alpha && !config.forgets),
        explicit_(config.explicit_step || pseudo_) {}

  size_t width() const { return 1; }
  size_t used() const { return 1; }
  double tail() const { return 0; }
  Upkeep upkeep() const { return {}; }
  size_t rank() const { return 0; }
  Vector eigenvalues() const { return {}; }
  size_t bytes() const {
    const size_t matrices = C_.values().size() + L_.values().size() + Q_.values().size();
    return (matrices + w_.size() + direction_.size()) * sizeof(double);
  }

  // What undo() returns to. A row may be projected more than once.
  void begin_row() {
    w_before_ = w_;
    d_before_ = d_;
    absorbed_ = false;
    factored_alpha_before_ = factored_alpha_;
    if (keeps_factor()) return;  // otherwise a step changes it
    L_before_ = L_;
  }

  void project(const Row<T>& row) {
    row_ = &row;
    stale_ = true;
    margin_ = 0;
    for (size_t i = 0; i < row.size; ++i)
      if (row.slots[i] < d_) margin_ += row.x[i] * w_[row.slots[i]];
    // With α = 0, outside of the range seen so far any prediction is a minimiser of the projection;
    // 0 is the one that does not depend on the coordinates (docs/errata.md).
    new_direction_ = pseudo_ && outside_range();
    if (new_direction_) margin_ = 0;
  }

  double margin(size_t) const { return margin_; }

  // αxᵀA⁻¹x, or xᵀA†x with α = 0 (the projection then only meets x in the range: outside of it the
  // prediction is 0).
  double energy(size_t, double alpha) {
    refresh(alpha);
    double sum = 0;
    for (size_t i = 0; i < row_->size; ++i) sum += row_->x[i] * direction_[row_->slots[i]];
    return sum;
  }

  void descend(size_t, double step, double alpha) {
    refresh(alpha);
    for (size_t i = 0; i < d_; ++i) {
      w_[i] -= step * direction_[i];
      if (!std::isfinite(w_[i])) throw Diverged("a weight is not finite");
    }
  }

  // Every row, so `times` is 1.
  void absorb(double c, double, double, size_t, double, double) {
    if (explicit_) keep_matrices();
    grow();
    stale_ = true;
    if (new_direction_) predict_zero();
    if (c == 0) return;
    Vector g = row_vector();
    for (double& v : g) v *= c;
    if (pseudo_) {
      absorb_in_range(g);
      return;
    }
    for (size_t i = 0; i < d_; ++i)
      if (g[i] != 0)
        for (size_t j = 0; j < d_; ++j) C_(i, j) += g[i] * g[j];
    if (fixed_ && factored_alpha_ > 0)
      update_factor(g.data(), d_);
    else
      factored_alpha_ = -1;
  }

  void commit(const Row<T>&, const BlockStore<T>&, size_t, double) {}

  // With what undo() returns to.
  void pass(int64_t epochs) {
    const double factor = Clock::carried(epochs), root = std::sqrt(factor);
    for (Matrix* matrix : {&C_, &C_before_})
      for (double& value : matrix->values()) value *= factor;
    for (Matrix* matrix : {&L_, &L_before_})
      for (double& value : matrix->values()) value *= root;
    for (double* alpha : {&factored_alpha_, &factored_alpha_before_})
      if (*alpha > 0) *alpha *= factor;
  }

  void undo() {
    if (absorbed_) {
      C_ = C_before_;
      Q_ = Q_before_;
      L_ = L_before_;
      r_ = r_before_;
      factored_alpha_ = factored_alpha_before_;
      d_ = C_.rows() + Q_.rows();
    } else if (!keeps_factor()) {
      L_ = L_before_;
      factored_alpha_ = factored_alpha_before_;
    }
    if (d_ != d_before_) resize(d_before_);
    w_ = w_before_;
  }

  [[gnu::cold]] void read(Slot slot, const T*, double* weights, double*) const {
    weights[0] = slot < d_ ? w_[slot] : 0.0;
  }

  // The matrix A - αI. It is taken over as it is, or, with α = 0, as rows whose products it is.
  [[gnu::cold]] void write_knowledge(StateWriter& archive, const BlockStore<T>&, size_t,
                                     double counted) const {
    if (!pseudo_) {
      Matrix dense = C_;
      for (double& value : dense.values()) value *= counted;
      archive.matrix("dense", dense);
      return;
    }
    Matrix half(r_, d_), dense(d_, d_);  // LᵀQ
    for (size_t i = 0; i < r_; ++i)
      for (size_t l = i; l < r_; ++l)
        for (size_t j = 0; j < d_; ++j) half(i, j) += L_(l, i) * Q_(l, j);
    for (size_t l = 0; l < r_; ++l)
      for (size_t i = 0; i < d_; ++i)
        for (size_t j = 0; j < d_; ++j) dense(i, j) += counted * (half(l, i) * half(l, j));
    archive.matrix("dense", dense);
  }
  [[gnu::cold]] void read_knowledge(StateReader& archive, const BlockStore<T>&, size_t slots) {
    if (slots > kMaxFeatures) refuse_features();
    Matrix weights = archive.matrix_of("weights", 1, slots);
    archive.matrix("weights", weights);
    resize(slots);
    w_ = weights.values();
    if (!pseudo_) {
      archive.matrix("dense", C_);
      return;
    }
    const Tensor& tensor = archive.get<double>("root", 2);
    Matrix root = archive.matrix_of("root", tensor.shape[0], slots);
    archive.matrix("root", root);
    for (size_t i = 0; i < root.rows(); ++i) absorb_in_range(Vector(root[i], root[i] + slots));
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, size_t slots) {
    const char* matrix = pseudo_ ? "sketch.Q" : "sketch.C";
    archive.scalar("sketch.d", d_);
    archive.scalar("sketch.r", r_);
    archive.scalar("sketch.factored_alpha", factored_alpha_);
    if constexpr (Archive::reading) {
      if (d_ > kMaxFeatures || d_ > slots || r_ > d_) archive.fail("sketch.d", "is too large");
      L_ = archive.matrix_of("sketch.L", d_, d_);
      (pseudo_ ? Q_ : C_) = archive.matrix_of(matrix, d_, d_);
      w_.assign(d_, 0.0);
    }
    archive.array("sketch.w", w_);
    archive.matrix("sketch.L", L_);
    archive.matrix(matrix, pseudo_ ? Q_ : C_);
  }

 private:
  // Whether no step of the row at hand makes a factor for its α.
  bool keeps_factor() const { return fixed_ && (pseudo_ || factored_alpha_before_ > 0); }

  // An implicit step comes before the row is absorbed and an explicit one after that, when it can
  // still fail.
  void keep_matrices() {
    C_before_ = C_;
    Q_before_ = Q_;
    L_before_ = L_;
    r_before_ = r_;
    factored_alpha_before_ = factored_alpha_;
    absorbed_ = true;
  }

  // Room for the features of the row at hand.
  void grow() {
    size_t features = d_;
    for (size_t i = 0; i < row_->size; ++i)
      features = std::max<size_t>(features, row_->slots[i] + 1);
    if (features != d_) resize(features);
  }

  void resize(size_t features) {
    if (features > kMaxFeatures) refuse_features();
    C_ = resized(C_, pseudo_ ? 0 : features);
    Q_ = resized(Q_, pseudo_ ? features : 0);
    L_ = resized(L_, features);
    if (factored_alpha_ > 0)
      for (size_t i = d_; i < features; ++i) L_(i, i) = std::sqrt(factored_alpha_);
    w_.resize(features, 0.0);
    d_ = features;
  }

  [[noreturn]] static void refuse_features() {
    throw BadInput("sketch='full' holds at most " + std::to_string(kMaxFeatures - 1) +
                   " features; use sketch='isotropic' or another sketch");
  }

  static Matrix resized(const Matrix& old, size_t n) {
    Matrix m(n, n);
    for (size_t i = 0; i < std::min(old.rows(), n); ++i)
      std::copy(old[i], old[i] + std::min(old.cols(), n), m[i]);
    return m;
  }

  // direction_ = αA⁻¹x for the row at hand.
  void refresh(double alpha) {
    if (!stale_ && alpha == direction_alpha_) return;
    grow();
    stale_ = false;
    direction_alpha_ = alpha;
    const Vector x = row_vector();
    if (pseudo_) {
      refresh_in_range(x);
      return;
    }
    if (alpha != factored_alpha_) {
      factored_alpha_ = -1;  // of no matrix, until there is a factor
      for (size_t i = 0; i < d_; ++i)
        for (size_t j = 0; j <= i; ++j) L_(i, j) = C_(i, j) + (i == j ? alpha : 0.0);
      if (!cholesky(L_, d_)) {
        L_ = Matrix(d_, d_);
        throw Diverged("the matrix A is not positive definite");
      }
      factored_alpha_ = alpha;
    }
    direction_ = solve(x, d_);
    for (double& v : direction_) v *= alpha;
  }

  Vector solve(Vector x, size_t n) const {
    for (size_t i = 0; i < n; ++i) x[i] = (x[i] - dot(L_[i], x.data(), i)) / L_(i, i);
    for (size_t i = n; i-- > 0;) {
      x[i] /= L_(i, i);
      for (size_t j = 0; j < i; ++j) x[j] -= L_(i, j) * x[i];
    }
    return x;
  }

  // L Lᵀ ← L Lᵀ + g gᵀ.
  void update_factor(double* g, size_t n) {
    for (size_t k = 0; k < n; ++k) {
      if (g[k] == 0) continue;
      const double old = L_(k, k), r = std::hypot(old, g[k]);
      L_(k, k) = r;
      if (k + 1 == n) break;  // also the case of a new direction, where old is 0
      const double c = r / old, s = g[k] / old;
      for (size_t i = k + 1; i < n; ++i) {
        L_(i, k) = (L_(i, k) + s * g[i]) / c;
        g[i] = c * g[i] - s * L_(i, k);
      }
    }
  }

  // Coordinates of x on Q and what is outside of its range (Gram–Schmidt, twice).
  double split(const Vector& x, Vector& y, Vector& rest) const {
    y.assign(r_ + 1, 0.0);
    rest = x;
    for (int pass = 0; pass < 2; ++pass)
      for (size_t i = 0; i < r_; ++i) {
        const double along = dot(Q_[i], rest.data(), d_);
        y[i] += along;
        for (size_t j = 0; j < d_; ++j) rest[j] -= along * Q_(i, j);
      }
    return std::sqrt(dot(rest.data(), rest.data(), d_));
  }

  static constexpr double kInRange = 1e-6;  // relative length of what counts as rounding

  void absorb_in_range(const Vector& g) {
    Vector y, rest;
    const double rho = split(g, y, rest);
    size_t n = r_;
    if (r_ < d_ && rho > kInRange * std::sqrt(dot(g.data(), g.data(), d_))) {
      for (size_t j = 0; j < d_; ++j) Q_(r_, j) = rest[j] / rho;
      y[r_] = rho;
      n = ++r_;
    }
    update_factor(y.data(), n);
  }

  void refresh_in_range(const Vector& x) {
    Vector y, rest;
    split(x, y, rest);
    const Vector s = solve(y, r_);
    direction_.assign(d_, 0.0);
    for (size_t i = 0; i < r_; ++i)
      for (size_t j = 0; j < d_; ++j) direction_[j] += s[i] * Q_(i, j);
  }

  Vector row_vector() const {
    Vector x(d_, 0.0);
    for (size_t i = 0; i < row_->size; ++i) x[row_->slots[i]] = row_->x[i];
    return x;
  }

  // Whether the row at hand has a part outside of the range of A.
  bool outside_range() const {
    if (row_->unknown > 0) return true;
    for (size_t i = 0; i < row_->size; ++i)
      if (row_->slots[i] >= d_) return true;
    const Vector x = row_vector();
    Vector y, rest;
    return split(x, y, rest) > kInRange * std::sqrt(dot(x.data(), x.data(), d_));
  }

  // Moves w along the part of x outside of the range until w·x = 0.
  void predict_zero() {
    const Vector x = row_vector();
    Vector y, rest;
    const double rho = split(x, y, rest);
    if (rho == 0) return;
    const double step = dot(w_.data(), x.data(), d_) / (rho * rho);
    for (size_t j = 0; j < d_; ++j) w_[j] -= step * rest[j];
  }

  bool pseudo_, fixed_, explicit_, absorbed_ = false;
  Matrix C_, L_, Q_, C_before_, L_before_, Q_before_;
  Vector w_, w_before_, direction_;
  size_t d_ = 0, d_before_ = 0;  // slots that the matrices have room for
  size_t r_ = 0, r_before_ = 0;  // rank of the range, α = 0 only
  double factored_alpha_ = -1, factored_alpha_before_ = -1, direction_alpha_ = -1, margin_ = 0;
  bool stale_ = true, new_direction_ = false;
  const Row<T>* row_ = nullptr;
};

}  // namespace sonline
