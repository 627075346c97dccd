// The mixture of an output: members predict, and shares say how much each of them counts.
//
// Shares follow exponential weights with a fixed share (Herbster & Warmuth 1998) on the losses of
// the members. There are two sets of them, for the two uses of a prediction:
//   next    the next row, whose label comes before the row after it (what `learn` returns): all
//           members, also those that follow the last rows;
//   later   rows that come later (what `predict`, files and exports give): members with a long
//           memory only. One that follows the last rows is often the best for the next row and the
//           worst for later ones.
// Each prediction competes with itself shrunk towards the base rate, because with few rows or much
// noise all members are too sure. A mixture of linear members is linear, so from outside the model
// is one weight vector.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "sonline/ablation.hpp"
#include "sonline/archive.hpp"
#include "sonline/config.hpp"
#include "sonline/exponential.hpp"
#include "sonline/matrix.hpp"
#include "sonline/phase.hpp"

namespace sonline {

// Exponential weights with a fixed share.
class Shares {
 public:
  // Before the first row; a little always returns to it.
  explicit Shares(Vector prior) : prior_(std::move(prior)), share_(prior_) {}

  const Vector& values() const { return share_; }
  void set(const double* shares) { std::copy_n(shares, share_.size(), share_.begin()); }
  double dot_with(const double* numbers) const {
    return dot(share_.data(), numbers, share_.size());
  }

  // Takes in the likelihood that each prediction gave the label of a row that counts as `rows`
  // rows.
  void learn(const double* likelihoods, double rows) {
    const double best = *std::max_element(likelihoods, likelihoods + share_.size());
    double sum = 0;
    for (size_t e = 0; e < share_.size(); ++e) {
      // However wrong a member was, one row cannot remove it, unless the row counts as many.
      double factor = std::max(likelihoods[e] / best,
                               SONLINE_KEEPS(likelihood_floor) ? kSmallestFactor : 1e-300);
      if (rows == 0.5)
        factor = std::sqrt(factor);
      else if (rows != 1)
        factor = exp_of(rows * log_of(factor));
      sum += share_[e] *= factor;
    }
    const double mixed = SONLINE_KEEPS(fixed_share) ? kFixedShare * std::min(rows, 1.0) : 0.0;
    for (size_t e = 0; e < share_.size(); ++e)
      share_[e] = (1 - mixed) * (share_[e] / sum) + mixed * prior_[e];
  }

  // Gives members that sleep the likelihood that the others gave together: with it, their shares do
  // not change (sleeping experts, Freund et al. 1997).
  template <class Sleeps>
  void without(Sleeps&& sleeps, double* likelihoods) const {
    double sum = 0, shares = 0;
    for (size_t e = 0; e < share_.size(); ++e) {
      if (sleeps(e)) continue;
      sum += share_[e] * likelihoods[e];
      shares += share_[e];
    }
    for (size_t e = 0; e < share_.size(); ++e)
      if (sleeps(e) && shares > 0) likelihoods[e] = sum / shares;
  }

 private:
  static constexpr double kSmallestFactor = 0.006737946999085467;  // e^-5
  static constexpr double kFixedShare = 1e-3;                      // no share ever becomes 0

  Vector prior_, share_;
};

// Shares of the members, and of the factors by which their prediction is shrunk.
class Blend {
 public:
  explicit Blend(Vector prior) : members(std::move(prior)) {}

  // The factor of the prediction; the rest of it is the base rate.
  double factor() const { return SONLINE_KEEPS(shrinking) ? factors.dot_with(kFactors) : 1.0; }

  static constexpr size_t kFactorCount = 4;
  static constexpr double kFactors[kFactorCount] = {1, 0.5, 0.25, 0.1};

  Shares members;
  Shares factors{Vector{0.99, 0.01 / 3, 0.01 / 3, 0.01 / 3}};  // the plain one is the favourite
};

class Mixture {
 public:
  // What members predict for a row, and Loss::fits of it.
  struct Predicted {
    const double* margins;
    const double* fits;
  };

  // `held`: members with a step per feature have weights for later rows apart.
  explicit Mixture(const Config& config, bool held)
      : members_(config.members),
        held_(held),
        size_(config.members.size() + config.diagonal.size()),
        next_(prior(config, Use::later)),
        later_(prior(config, Use::next)) {
    for (const Member& member : config.members) both_ &= member.use == Use::both;
  }

  size_t size() const { return size_; }
  void hold(bool held) { held_ = held; }
  bool trivial() const { return size_ == 1; }
  const Vector& shares(bool later) const { return blend(later).members.values(); }

  // What members predict together, and the prediction that is made of it.
  double blended(const double* margins, bool later) const {
    return trivial() ? margins[0] : blend(later).members.dot_with(margins);
  }
  double shrunk(double z, double base, bool later) const {
    return trivial() ? z : base + blend(later).factor() * (z - base);
  }
  double factor(bool later) const { return trivial() ? 1.0 : blend(later).factor(); }

  // Takes in a row that counts as `rows` rows, with what members predicted for each use, and how
  // well that fitted the label. likelihoods_of(later, numbers, n) turns fits, or predictions if
  // `from_fits` is false, into likelihoods.
  template <class Likelihoods>
  void learn(const Predicted& next, const Predicted& later, double base, Phase phase, double rows,
             Likelihoods&& likelihoods_of) {
    if (trivial()) return;
    learn_use(next_, next, false, base, rows, [](Vector&) {}, likelihoods_of);
    if (both_) return;
    // Half the rate: in doubt, several members are better than the best of the last rows.
    learn_use(
        later_, later, true, base, SONLINE_KEEPS(half_rate) ? 0.5 * rows : rows,
        [&](Vector& likelihoods) {
          if (phase != Phase::judge && SONLINE_KEEPS(phases))
            later_.members.without([&](size_t e) { return follows(e); }, likelihoods.data());
        },
        likelihoods_of);
  }

  // Takes over the shares of the last members of a larger mixture, those that this one has.
  [[gnu::cold]] void keep_last_of(const Mixture& other) {
    const auto take = [](const Shares& from, Shares& to) {
      const size_t dropped = from.values().size() - to.values().size();
      Vector shares(from.values().begin() + static_cast<std::ptrdiff_t>(dropped),
                    from.values().end());
      double sum = 0;
      for (const double share : shares) sum += share;
      for (double& share : shares) share /= sum;
      to.set(shares.data());
    };
    take(other.next_.members, next_.members);
    next_.factors = other.next_.factors;
    later_ = next_;
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive) {
    for (const bool later : {false, true}) {
      if constexpr (!Archive::reading)
        if (both_) later_ = next_;  // there is one set of shares
      Blend& blend = later ? later_ : next_;
      const std::string use = later ? "later" : "next";
      shares_state(archive, use + ".members", blend.members);
      shares_state(archive, use + ".factors", blend.factors);
    }
  }

 private:
  // Whether a member is judged in the third phase only.
  bool follows(size_t e) const {
    return e < members_.size() ? members_[e].use == Use::later : held_;
  }

  template <class Sleep, class Likelihoods>
  void learn_use(Blend& blend, const Predicted& predicted, bool later, double base, double rows,
                 Sleep&& sleep, Likelihoods&& likelihoods_of) {
    constexpr size_t F = Blend::kFactorCount;
    const double z = blend.members.dot_with(predicted.margins);
    room_.resize(F);
    for (size_t i = 0; i < F; ++i) room_[i] = base + Blend::kFactors[i] * (z - base);
    likelihoods_of(later, false, room_.data(), F);
    blend.factors.learn(room_.data(), rows);
    room_.assign(predicted.fits, predicted.fits + size_);
    likelihoods_of(later, true, room_.data(), size_);
    sleep(room_);
    if (SONLINE_KEEPS(exponential_weights)) blend.members.learn(room_.data(), rows);
  }

  const Blend& blend(bool later) const {
    return later && !both_ && SONLINE_KEEPS(later_shares) ? later_ : next_;
  }

  // Equal shares, but for members of the other use, and less for those that follow the last rows.
  static constexpr double kFollower = 0.1;
  static Vector prior(const Config& config, Use other) {
    Vector prior;
    for (const Member& member : config.members)
      prior.push_back(member.use == other ? 0.0 : member.use != Use::both ? kFollower : 1.0);
    prior.resize(prior.size() + config.diagonal.size(), 1.0);
    double sum = 0;
    for (const double share : prior) sum += share;
    for (double& share : prior) share /= sum;
    return prior;
  }

  template <class Archive>
  static void shares_state(Archive& archive, const std::string& name, Shares& shares) {
    Vector values = shares.values();
    archive.array(name.c_str(), values);
    if constexpr (Archive::reading) {
      double sum = 0;
      for (const double share : values) {
        if (share < 0) archive.fail(name, "has a negative number");
        sum += share;
      }
      if (!(sum > 0 && sum < 2)) archive.fail(name, "has a sum that is not 1");
      shares.set(values.data());
    }
  }

  std::vector<Member> members_;
  bool held_;
  size_t size_;
  bool both_ = true;  // all members are for both uses: one set of shares does
  Blend next_, later_;
  Vector room_;
};

}  // namespace sonline
