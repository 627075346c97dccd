// Several predictions of one row, weighted by how well they have fitted the labels lately:
// exponential weights with a fixed share (Herbster & Warmuth 1998). A blend of linear predictions
// is itself linear, so from outside the model is one weight vector.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "sonline/ablation.hpp"
#include "sonline/archive.hpp"
#include "sonline/exponential.hpp"
#include "sonline/matrix.hpp"

namespace sonline {

class Ensemble {
 public:
  explicit Ensemble(size_t experts)
      : Ensemble(Vector(experts, 1.0 / static_cast<double>(experts))) {}
  // Shares of each before the first row, to which a little always returns.
  explicit Ensemble(Vector prior) : prior_(std::move(prior)), share_(prior_) {}

  const Vector& shares() const { return share_; }
  void set_shares(const double* shares) { std::copy_n(shares, share_.size(), share_.begin()); }

  double blend(const Vector& margins) const {
    return share_.size() == 1 ? margins[0] : dot(share_.data(), margins.data(), share_.size());
  }

  // Takes in the likelihood that each prediction gave the label of a row that counts as `rows`
  // rows; leaves the factors of the shares there.
  void learn(Vector& likelihoods, double rows) {
    const double best = *std::max_element(likelihoods.begin(), likelihoods.end());
    double sum = 0;
    for (size_t e = 0; e < share_.size(); ++e) {
      double& factor = likelihoods[e];
      // However wrong an expert was, one row cannot remove it, unless the row counts as many.
      factor = std::max(factor / best, SONLINE_KEEPS(likelihood_floor) ? kLeast : 1e-300);
      if (rows != 1) factor = exp_of(rows * log_of(factor));
      sum += share_[e] *= factor;
    }
    const double mixed = SONLINE_KEEPS(fixed_share) ? kFixedShare * std::min(rows, 1.0) : 0.0;
    for (size_t e = 0; e < share_.size(); ++e)
      share_[e] = (1 - mixed) * (share_[e] / sum) + mixed * prior_[e];
  }

  // The likelihood that the other experts gave: if an expert has this, its share does not change (a
  // sleeping expert, Freund et al. 1997).
  double without(size_t expert, const Vector& likelihoods) const {
    double sum = 0, shares = 0;
    for (size_t e = 0; e < share_.size(); ++e) {
      if (e == expert) continue;
      sum += share_[e] * likelihoods[e];
      shares += share_[e];
    }
    return shares > 0 ? sum / shares : likelihoods[expert];
  }

  template <class Archive>
  void state(Archive& archive, const char* name) {
    archive.array(name, share_);
  }

 private:
  static constexpr double kLeast = 0.006737946999085467;  // e^-5
  static constexpr double kFixedShare = 1e-3;             // no share ever becomes 0

  Vector prior_, share_;
};

// By which factor predictions are made smaller. If there are few rows for the features, or labels
// are mostly noise, all experts are too sure. So their blend competes with itself times smaller
// factors, as experts do; the plain blend is the favourite. One factor for all rows leaves the
// model linear, and no class is chosen otherwise.
class Shrinkage {
 public:
  static constexpr size_t kSize = 4;

  double factor() const { return factor_; }
  const Vector& shares() const { return ensemble_.shares(); }
  void set_shares(const double* shares) {
    ensemble_.set_shares(shares);
    set_factor();
  }

  // Takes in the blend of a row that counts as `rows` rows. become_likelihoods turns predictions,
  // a vector, into the likelihoods that they gave the label.
  template <class Likelihoods>
  void learn(double z, double rows, Likelihoods&& become_likelihoods) {
    if (shares()[0] == 1) return;  // see state()
    for (size_t i = 0; i < kSize; ++i) fits_[i] = kFactors[i] * z;
    become_likelihoods(fits_);
    ensemble_.learn(fits_, rows);
    set_factor();
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive) {
    Vector shares = this->shares();
    if constexpr (Archive::reading) {
      if (archive.has("shrinkage.share"))
        archive.array("shrinkage.share", shares);
      else
        shares = {1, 0, 0, 0};  // models of earlier versions stay what they are
      set_shares(shares.data());
    } else {
      archive.array("shrinkage.share", shares);
    }
  }

 private:
  static constexpr double kFactors[kSize] = {1, 0.5, 0.25, 0.1};
  static constexpr double kOthers = 0.01;  // share of the smaller factors before the first row

  void set_factor() { factor_ = dot(shares().data(), kFactors, kSize); }

  Ensemble ensemble_{Vector{1 - kOthers, kOthers / 3, kOthers / 3, kOthers / 3}};
  Vector fits_ = Vector(kSize);
  double factor_ = dot(shares().data(), kFactors, kSize);
};

// How many rows of equal weight tell as much as the rows so far, (Σw)² / Σw² (Kish 1965): if one
// row of a thousand weighs as much as all others, memories and shares are not those of a thousand
// rows.
class EffectiveRows {
 public:
  void add(double weight) {
    sum_ += weight;
    squares_ += weight * weight;
  }
  double count() const { return sum_ / unit(); }
  // The weight of one of them; 1 if the squares are beyond the range of numbers.
  double unit() const {
    return std::isnormal(squares_) && SONLINE_KEEPS(effective_rows) ? squares_ / sum_ : 1.0;
  }

  template <class Archive>
  void state(Archive& archive) {
    archive.scalar("weights.sum", sum_);
    archive.scalar("weights.squares", squares_);
  }

 private:
  double sum_ = 0, squares_ = 0;
};

// Which rows an expert with a short memory learns, and which evaluate it. Its weights are so close
// to the last rows that the next row, which is often like them, says little about later ones. So it
// learns the first 100 of every 150 rows, and the other 50 evaluate it.
inline bool is_held_out(uint64_t row) { return row % 150 >= 100; }

// The labels -1 and 1 as an expert with a short memory needs to know them.
class LabelBalance {
 public:
  LabelBalance() = default;
  LabelBalance(double recent, double usual) : recent_(recent), usual_(usual) {}
  double recent() const { return recent_; }
  double usual() const { return usual_; }
  static bool possible(double mean) { return std::fabs(mean) <= kMost; }

  // The information in a row's label, 4p(1 - p): if one label is rare, a memory must be longer.
  double information() const {
    return SONLINE_KEEPS(label_information) ? (1 - usual_) * (1 + usual_) : 1.0;
  }

  // How much a row counts if labels come in runs: the label that is more frequent among the last
  // rows than usual counts less, so that both have their usual odds. Otherwise the expert would
  // learn little more than the label of the run.
  double weight(double y) const {
    if (!SONLINE_KEEPS(label_runs)) return 1.0;
    const double prior = kPrior / information();
    const double recent = (kRecent * recent_ + prior * usual_) / (kRecent + prior);
    const double odds = (1 + recent) * (1 - usual_), usual_odds = (1 - recent) * (1 + usual_);
    return std::min(1.0, y > 0 ? usual_odds / odds : odds / usual_odds);
  }

  void take_in(double y, uint64_t rows) {
    const double label = y > 0 ? 1 : -1, t = std::max(static_cast<double>(rows), 1.0) + 1;
    recent_ = std::clamp(recent_ + (label - recent_) / std::min(kRecent, t), -kMost, kMost);
    usual_ = std::clamp(usual_ + (label - usual_) / std::min(kUsual, t), -kMost, kMost);
  }

  template <class Archive>
  void state(Archive& archive) {
    if constexpr (Archive::reading)
      if (!archive.has("labels.recent")) return;  // a file of an earlier version
    archive.scalar("labels.recent", recent_);
    archive.scalar("labels.usual", usual_);
    if constexpr (Archive::reading)
      if (!possible(recent_) || !possible(usual_))
        archive.fail("labels.recent", "is not a mean of labels");
  }

 private:
  static constexpr double kRecent = 50, kUsual = 3000;  // rows
  static constexpr double kPrior = 10;                  // rows that the usual odds count as
  static constexpr double kMost = 1 - 1e-12;            // odds must be finite

  double recent_ = 0, usual_ = 0;  // means of the labels
};

// The mean of the losses of a regression, in which one outlier counts for little. If more follow at
// once, each counts more than the one before: then the stream has changed.
class TypicalLoss {
 public:
  double mean() const { return mean_; }
  double limit() const {
    return SONLINE_KEEPS(loss_outliers) && count_ >= kYoung && mean_ > 0
               ? kOutlier * mean_
               : std::numeric_limits<double>::infinity();
  }

  void take_in(double loss) {
    if (loss > limit()) {
      loss = limit();
      count_ = std::max(0.5 * count_, kYoung);
    }
    ++count_;
    mean_ += (loss - mean_) / count_;
  }

  template <class Archive>
  void state(Archive& archive) {
    archive.scalar("ensemble.mean_loss", mean_);
    archive.scalar("ensemble.rounds", count_);
  }

 private:
  static constexpr double kYoung = 16, kOutlier = 1024;  // of squares: 32 standard deviations
  double mean_ = 0, count_ = 0;
};

}  // namespace sonline
