// The mixture of an output: members predict, and shares say how much each of them counts.
//
// Shares follow exponential weights with a fixed share (Herbster & Warmuth 1998) on the losses of
// the members. There are two sets of them, for the two uses of a prediction:
//   next    the next row, whose label comes before the row after it (what `learn` returns): all
//           members, also those that follow the last rows;
//   later   rows that come later (what `predict`, files and exports give): members with a long
//           memory only. One that follows the last rows is often the best for the next row and the
//           worst for later ones.
// A member with few rows or much noise is too sure of itself, and one whose steps are short not
// sure enough. So each is calibrated: b + c (z - b) takes the place of its prediction z, with the
// base rate b and a factor c that follows the labels. Of classes, what they predict together is
// calibrated, too: a shift makes the mean probability that of the labels. A mixture of linear
// members is linear, so from outside the model is one weight vector.
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
#include "sonline/targets.hpp"

namespace sonline {

// Exponential weights with a fixed share.
class Shares {
 public:
  // Before the first row; a little always returns to it. `kept` is what a row counts in the next.
  Shares(Vector prior, double kept) : size_(prior.size()), kept_(kept), prior_(std::move(prior)) {
    prior_.resize(padded(size_));
    share_ = prior_;
  }

  // Room for the numbers of n members in whole pairs; padding holds zeros.
  static size_t padded(size_t n) { return (n + 1) / 2 * 2; }

  size_t size() const { return size_; }
  size_t padded() const { return share_.size(); }
  const double* begin() const { return share_.data(); }
  Vector values() const {
    return Vector(share_.begin(), share_.begin() + static_cast<std::ptrdiff_t>(size_));
  }
  void set(const double* shares) { std::copy_n(shares, size_, share_.begin()); }
  double dot_with(const double* numbers) const { return dot(share_.data(), numbers, size_); }

  // Takes in the likelihood that each prediction gave the label of a row that counts as `rows`
  // rows. They may be changed, and there is room for a whole pair behind them.
  void learn(double* likelihoods, double rows) {
    const size_t n = share_.size();
    if (n > size_) likelihoods[size_] = 0;
    double* share = share_.data();
    const double* prior = prior_.data();
    Pair best{};  // of members with a share: the sum below is not 0
    for (size_t e = 0; e < n; e += 2) {
      const Pair likelihood = load_pair(likelihoods + e);
      best = larger_of(best, load_pair(share + e) > 0 ? likelihood : Pair{});
    }
    const double scale = 1 / std::max({best[0], best[1], kLeast});
    const Pair least = all<Pair>(kLeast);
    Pair sums{};
    for (size_t e = 0; e < n; e += 2) {
      const Pair factors = larger_of(least, load_pair(likelihoods + e) * scale);
      const Pair shares = load_pair(share + e) * power(factors, rows);
      store_pair(share + e, shares);
      sums += shares;
    }
    const double mixed = SONLINE_KEEPS(fixed_share) ? kFixedShare * std::min(rows, 1.0) : 0.0;
    const double kept = (1 - mixed) / (sums[0] + sums[1]);
    for (size_t e = 0; e < n; e += 2)
      store_pair(share + e, kept * load_pair(share + e) + mixed * load_pair(prior + e));
  }

  // Lets what the rows before have made of the prior count less.
  void forget() {
    if (kept_ < 1) forget_some();
  }

  // Gives members that sleep the likelihood that the others gave together: with it, their shares do
  // not change (sleeping experts, Freund et al. 1997).
  void without_sleepers(const double* awake, double* likelihoods) const {
    double sum = 0, shares = 0;
    for (size_t e = 0; e < size_; ++e) {
      if (awake[e] == 0) continue;
      sum += share_[e] * likelihoods[e];
      shares += share_[e];
    }
    if (shares == 0) return;
    const double together = sum / shares;
    for (size_t e = 0; e < size_; ++e)
      if (awake[e] == 0) likelihoods[e] = together;
  }

 private:
  static constexpr double kLeast = 1e-300;     // that has a logarithm
  static constexpr double kFixedShare = 1e-3;  // no share ever becomes 0

  [[gnu::noinline]] void forget_some() {
    double sum = 0;
    for (size_t e = 0; e < size_; ++e)
      if (share_[e] > 0)
        sum += share_[e] = prior_[e] * exp_of(kept_ * log_of(Pair{} + share_[e] / prior_[e])[0]);
    for (double& share : share_) share /= sum;
  }

  static Pair power(Pair factors, double rows) {
    if (rows == 1) return factors;
    if (rows == 0.5) return Pair{std::sqrt(factors[0]), std::sqrt(factors[1])};
    return exp_of(rows * log_of(factors));
  }

  size_t size_;
  double kept_;
  Vector prior_, share_;
};

// Shares and factors of the members, and the shift, for one use. Vectors are padded as shares are.
class Blend {
 public:
  Blend(Vector prior, double kept)
      : members(std::move(prior), kept),
        kept_(kept),
        factors_(members.padded(), 1.0),
        parts_(factors_) {
    mix();
  }

  // What members predict together.
  double predict(const double* margins, double base) const {
    return constant(base) + dot(parts_.data(), margins, parts_.size());
  }
  // The part of each member in it, and what does not depend on members.
  const Vector& parts() const { return parts_; }
  double constant(double base) const { return base * rest_ + shift_; }

  Vector factors() const {
    return Vector(factors_.begin(), factors_.begin() + static_cast<std::ptrdiff_t>(members.size()));
  }
  void set_factors(const Vector& factors) {
    std::copy(factors.begin(), factors.end(), factors_.begin());
  }

  // Of a row: how far members are from the base rate, and their calibrated predictions.
  void calibrate(const double* margins, double base, double* reaches, double* calibrated) const {
    const double* factors = factors_.data();
    for (size_t e = 0; e < factors_.size(); e += 2) {
      const Pair reach = load_pair(margins + e) - base;
      store_pair(reaches + e, reach);
      store_pair(calibrated + e, base + load_pair(factors + e) * reach);
    }
  }
  // A short Newton step of each factor, where slopes and curvatures are those of the loss at the
  // calibrated predictions. `awake` is 1 for members whose factors learn the label, which counts as
  // so many rows, and 0 for the others.
  void follow(const double* reaches, const double* slopes, const double* curvatures, double rows,
              const double* awake) {
    double* factors = factors_.data();
    for (size_t e = 0; e < factors_.size(); e += 2) {
      const Pair reach = load_pair(reaches + e), counted = rows * load_pair(awake + e) * reach;
      const Pair factor =
          load_pair(factors + e) -
          load_pair(slopes + e) * counted / (kRows + load_pair(curvatures + e) * counted * reach);
      const Pair positive = factor > 0 ? factor : Pair{};
      store_pair(factors + e, smaller_of(positive, all<Pair>(kLargest)));
    }
  }
  // A Newton step of the shift, where slope and curvature are those of the loss at the prediction.
  // Half the curvature: later rows count more, because first predictions say little of later ones.
  void follow_mean(double slope, double curvature, double rows) {
    curvature_ = kept_ * curvature_ + rows * curvature;
    shift_ -= std::clamp(rows * slope / (kFirstCurvature + 0.5 * curvature_), -1.0, 1.0);
  }
  void take_shift_of(const Blend& other) {
    shift_ = other.shift_;
    curvature_ = other.curvature_;
  }
  template <class Archive>
  void shift_state(Archive& archive) {
    archive.scalar("shift", shift_);
    archive.scalar("curvature", curvature_);
    if constexpr (Archive::reading)
      if (curvature_ < 0) archive.fail("curvature", "is negative");
  }
  void mirror() { shift_ = -shift_; }

  // Computes the parts, after shares or factors have changed.
  void mix() {
    const double *factors = factors_.data(), *shares = members.begin();
    double* parts = parts_.data();
    Pair rest{};
    for (size_t e = 0; e < parts_.size(); e += 2) {
      const Pair share = load_pair(shares + e), factor = load_pair(factors + e);
      store_pair(parts + e, share * factor);
      rest += share * (1.0 - factor);
    }
    rest_ = rest[0] + rest[1];
  }

  static constexpr double kLargest = 100;

  Shares members;

 private:
  static constexpr double kRows = 100;           // that a factor goes by
  static constexpr double kFirstCurvature = 20;  // that the shift goes by before the first row

  double kept_;
  Vector factors_, parts_;
  double rest_ = 0, shift_ = 0, curvature_ = 0;
};

class Mixture {
 public:
  // What members predict for a row, and how well that fits the label: fits of Loss::implicit_steps,
  // for numbers, with room for whole quads. The fits do not stay.
  struct Predicted {
    const double* margins;
    double* fits;
  };
  // How well predictions fit a label (Loss::judge).
  struct Judged {
    double *fits, *slopes, *curvatures;
  };

  // `held`: members with a step per feature have weights for later rows apart.
  explicit Mixture(const Config& config, bool held)
      : members_(members_of(config)),
        size_(members_.size() + config.diagonal.size()),
        stride_(whole_quads(size_ + 1)),
        calibrates_(Targets::has_unit(config) && SONLINE_KEEPS(calibration)),
        shifts_(calibrates_ && config.loss->binary && config.intercept),
        next_(prior(config, Use::later), config.kept),
        later_(prior(config, Use::next), config.kept) {
    for (const Member& member : members_) both_ &= member.use == Use::both;
    for (Vector* room : {&reaches_, &calibrated_, &fits_, &slopes_, &curvatures_})
      room->resize(2 * stride_);
    all_awake_.assign(size_, 1.0);
    all_awake_.resize(stride_);
    hold(held);
  }

  size_t size() const { return size_; }
  void hold(bool held) {
    awake_ = all_awake_;
    for (size_t e = 0; e < size_; ++e)
      if (e < members_.size() ? members_[e].use == Use::later : held) awake_[e] = 0;
  }
  bool trivial() const { return size_ == 1; }
  // Whether all members are for both uses.
  bool one_use() const { return both_; }
  Vector shares(bool later) const { return blend(later).members.values(); }

  // What members predict together.
  double predict(const double* margins, double base, bool later) const {
    return trivial() ? margins[0] : blend(later).predict(margins, base);
  }
  // The same of numbers that are linear in the predictions, such as weights; without the base rate.
  double blended(const double* numbers, bool later) const {
    return trivial() ? numbers[0] : dot(blend(later).parts().data(), numbers, size_);
  }
  // What of a prediction does not depend on members.
  double constant(double base, bool later) const {
    return trivial() ? 0.0 : blend(later).constant(base);
  }

  // Takes in a row that counts as `rows` rows, with what members predicted for each use.
  // judge(predictions, n, judged) compares predictions with the label, and likelihoods_of(later,
  // fits, n) turns fits into likelihoods.
  template <class Judge, class Likelihoods>
  void learn(const Predicted& next, const Predicted& later, double base, Phase phase, double rows,
             Judge&& judge, Likelihoods&& likelihoods_of) {
    if (trivial()) return;
    double *fits = next.fits, *later_fits = later.fits;
    if (calibrates_) {  // both uses at once: the processor waits for few exponentials
      const size_t n = (both_ ? 0 : stride_) + size_ + shifts_;
      next_.calibrate(next.margins, base, reaches_.data(), calibrated_.data());
      if (!both_) later_.calibrate(later.margins, base, &reaches_[stride_], &calibrated_[stride_]);
      if (shifts_) {  // the prediction is judged behind those of the members
        calibrated_[size_] = next_.predict(next.margins, base);
        if (!both_) calibrated_[stride_ + size_] = later_.predict(later.margins, base);
      }
      judge(calibrated_.data(), n, Judged{fits_.data(), slopes_.data(), curvatures_.data()});
      fits = fits_.data();
      later_fits = &fits_[stride_];
    }
    learn_use(next_, fits, 0, rows, rows, all_awake_, likelihoods_of);
    if (both_) return;
    const bool sleep = phase != Phase::judge && SONLINE_KEEPS(phases);
    // Half the rate: in doubt, several members are better than the best of the last rows. Factors
    // that follow the last rows are no good for later ones, either.
    learn_use(later_, later_fits, stride_, SONLINE_KEEPS(half_rate) ? 0.5 * rows : rows,
              0.03 * rows, sleep ? awake_ : all_awake_, likelihoods_of);
  }

  // Takes over the shares of the last members of a larger mixture, those that this one has.
  [[gnu::cold]] void keep_last_of(const Mixture& other) {
    const auto last = [&](const Vector& of_all) {
      return Vector(of_all.end() - static_cast<std::ptrdiff_t>(size_), of_all.end());
    };
    Vector shares = last(other.next_.members.values());
    double sum = 0;
    for (const double share : shares) sum += share;
    for (double& share : shares) share /= sum;
    next_.members.set(shares.data());
    if (!trivial()) {
      next_.set_factors(last(other.next_.factors()));
      next_.take_shift_of(other.next_);
    }
    next_.mix();
    later_ = next_;
  }

  // Labels are the opposite ones.
  void mirror() {
    next_.mirror();
    later_.mirror();
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive) {
    for (const bool later : {false, true}) {
      if constexpr (!Archive::reading)
        if (both_) later_ = next_;  // there is one set of shares
      Blend& blend = later ? later_ : next_;
      const std::string use = later ? "later" : "next";
      shares_state(archive, use + ".members", blend.members);
      factors_state(archive, use + ".factors", blend);
      archive.within(use + ".", [&] { blend.shift_state(archive); });
      blend.mix();
    }
  }

 private:
  // The numbers of a use begin at `at`.
  template <class Likelihoods>
  void learn_use(Blend& blend, double* fits, size_t at, double rows, double rows_of_factors,
                 const Vector& awake, Likelihoods&& likelihoods_of) {
    const bool later = at > 0;
    if (shifts_)
      blend.follow_mean((later ? kLaterShift : 1.0) * slopes_[at + size_], curvatures_[at + size_],
                        rows);
    if (calibrates_)
      blend.follow(&reaches_[at], &slopes_[at], &curvatures_[at], rows_of_factors, awake.data());
    likelihoods_of(later, fits, size_);
    blend.members.forget();
    if (&awake != &all_awake_) blend.members.without_sleepers(awake.data(), fits);
    if (SONLINE_KEEPS(exponential_weights)) blend.members.learn(fits, rows);
    blend.mix();
  }

  const Blend& blend(bool later) const {
    return later && !both_ && SONLINE_KEEPS(later_shares) ? later_ : next_;
  }

  static std::vector<Member> members_of(const Config& config) {
    std::vector<Member> members = config.members;
    members.insert(members.end(), config.curved.begin(), config.curved.end());
    return members;
  }

  // Equal shares, but for members of the other use, and less for those that follow the last rows.
  static constexpr double kFollower = 0.1;
  static constexpr double kLaterShift = 0.1;  // of a step of the shift: whole ones follow last rows
  static Vector prior(const Config& config, Use other) {
    Vector prior;
    for (const Member& member : members_of(config))
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
  template <class Archive>
  static void factors_state(Archive& archive, const std::string& name, Blend& blend) {
    Vector factors = blend.factors();
    archive.array(name.c_str(), factors);
    if constexpr (Archive::reading) {
      for (const double factor : factors)
        if (!(factor >= 0 && factor <= Blend::kLargest)) archive.fail(name, "is out of range");
      blend.set_factors(factors);
    }
  }

  std::vector<Member> members_;
  size_t size_, stride_;  // stride: of the numbers of a use, in whole quads
  bool calibrates_, shifts_;
  bool both_ = true;  // all members are for both uses: one set of shares does
  Blend next_, later_;
  // By member: 1, but in awake_ 0 for those that are judged in the third phase only.
  Vector awake_, all_awake_;
  Vector reaches_, calibrated_, fits_, slopes_, curvatures_;  // of the row at hand
};

}  // namespace sonline
