// How far labels are from predictions, so that an interval holds the label as often as it says.
//
// Adaptive conformal inference (Gibbs & Candès 2021): for an error rate a, the interval before each
// row is what holds a part 1 - α of the last scores, and afterwards
//
//   α ← α + γ (a − 1[the label was outside])
//
// So α cannot go far from [0, 1], and after T rows of any stream |errors / T − a| is at most
// (max(a, 1 − a) + γ) / (γ T). The score of a number is |y − prediction| / s, with s of that row
// (Spread); that of a class is how far the prediction of this class is below 0.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/exponential.hpp"
#include "sonline/matrix.hpp"

namespace sonline {

// The distribution of the last scores: how many are in each bucket, four an octave on both sides of
// 0. When there are kMost, all count half.
class Ranks {
 public:
  static constexpr size_t kBuckets = 132;

  // Returns the part of the scores that is less; one more, which is not known yet, is not. Then
  // takes in this one, if it is `known`: if it can be compared with those of other rows.
  double add(double score, bool known) {
    const size_t bucket = bucket_of(score);
    const double rank = rank_in(bucket, score);
    if (known) count(bucket);
    return rank;
  }
  // The smallest score with this rank.
  double quantile(double rank) const {
    constexpr double kAny = std::numeric_limits<double>::infinity();
    if (rank <= 0) return -kAny;
    const double wanted = rank * (total_ + double{kRow});
    if (wanted > total_) return kAny;
    uint32_t below = 0;
    size_t bucket = 0;
    for (size_t g = 0; g + 1 < kGroups && below + groups_[g] < wanted; ++g) {
      below += groups_[g];
      bucket += kGroup;
    }
    for (; bucket + 1 < kBuckets && below + counts_[bucket] < wanted; ++bucket)
      below += counts_[bucket];
    if (bucket == 0) return edge(1);
    if (bucket + 1 == kBuckets) return kAny;
    const double part = (wanted - below) / counts_[bucket];
    return edge(bucket) + part * (edge(bucket + 1) - edge(bucket));
  }

  void write(uint32_t* to) const { std::copy(counts_.begin(), counts_.end(), to); }
  void read(const uint32_t* from) {
    for (size_t b = 0; b < kBuckets; ++b) counts_[b] = std::min(from[b], kMost * kRow);
    sum_up();
  }

 private:
  static constexpr uint32_t kRow = 1024,
                            kMost = 1000;  // a row counts so much that it can be halved
  static constexpr size_t kGroup = 12, kGroups = kBuckets / kGroup, kHalf = kBuckets / 2;
  static constexpr uint64_t kFirst = (1023 - 5) * 4;  // of the upper bits: 2⁻⁵
  static constexpr int kShift = 50;                   // to exponent and two more bits

  void count(size_t bucket) {
    counts_[bucket] += kRow;
    groups_[bucket / kGroup] += kRow;
    total_ += kRow;
    if (total_ < kMost * kRow) return;
    for (uint32_t& count : counts_) count /= 2;
    sum_up();
  }

  double rank_in(size_t bucket, double score) const {
    const size_t group = bucket / kGroup;
    uint32_t below = 0;
    for (size_t g = 0; g < group; ++g) below += groups_[g];
    for (size_t b = group * kGroup; b < bucket; ++b) below += counts_[b];
    double part = 0;
    if (bucket > 0 && bucket + 1 < kBuckets)
      part = (score - edge(bucket)) / (edge(bucket + 1) - edge(bucket));
    return (below + part * counts_[bucket]) / (total_ + double{kRow});
  }

  static size_t bucket_of(double score) {
    const uint64_t bits = std::bit_cast<uint64_t>(std::fabs(score)) >> kShift;
    const size_t size =
        bits < kFirst ? 0 : std::min<size_t>(static_cast<size_t>(bits - kFirst) + 1, kHalf - 1);
    return score >= 0 ? kHalf + size : kHalf - 1 - size;
  }
  // Where a bucket begins, but the first.
  static double edge(size_t bucket) {
    const size_t size = bucket >= kHalf ? bucket - kHalf : kHalf - bucket;
    const double edge =
        size == 0 ? 0.0 : std::bit_cast<double>((kFirst + uint64_t{size} - 1) << kShift);
    return bucket >= kHalf ? edge : -edge;
  }

  void sum_up() {
    groups_.fill(0);
    total_ = 0;
    for (size_t b = 0; b < kBuckets; ++b) {
      groups_[b / kGroup] += counts_[b];
      total_ += counts_[b];
    }
  }

  std::array<uint32_t, kBuckets> counts_{};
  std::array<uint32_t, kGroups> groups_{};  // their sums
  uint32_t total_ = 0;
};

// Scores up to which a label counts as expected, for several error rates at once.
class Coverage {
 public:
  static constexpr std::array<double, 5> kErrors = {0.01, 0.05, 0.1, 0.2, 0.5};

  // Takes in the score of a row. `known`: it can be compared with those of other rows.
  void learn(double score, bool known) {
    // Below 1: with an alpha of 0, all are inside.
    const double rank = ranks_.add(score, known);
    for (size_t i = 0; i < kErrors.size(); ++i) {
      const bool outside = (rank > 1 - alphas_[i]) | (alphas_[i] >= 1);
      alphas_[i] += outside ? kOutside[i] : kInside[i];
    }
  }

  // The largest score of labels inside; for other error rates than the above, α is in between.
  double limit(double error) const {
    double low = 0, alpha_low = 0;
    for (size_t i = 0; i < kErrors.size(); ++i) {
      if (error <= kErrors[i])
        return limit_at(alpha_low + (error - low) / (kErrors[i] - low) * (alphas_[i] - alpha_low));
      low = kErrors[i];
      alpha_low = alphas_[i];
    }
    return limit_at(alpha_low + (error - low) / (1 - low) * (1 - alpha_low));
  }

  void keep_alphas_of(const Coverage& other) { alphas_ = other.alphas_; }

  void write(double* alphas, uint32_t* counts) const {
    std::copy(alphas_.begin(), alphas_.end(), alphas);
    ranks_.write(counts);
  }
  void read(const double* alphas, const uint32_t* counts) {
    std::copy_n(alphas, alphas_.size(), alphas_.begin());
    ranks_.read(counts);
  }

 private:
  static constexpr double kRate = 0.1;  // γ in units of the error rate
  using Steps = std::array<double, kErrors.size()>;
  static constexpr Steps steps(double is_outside) {
    Steps steps{};
    for (size_t i = 0; i < steps.size(); ++i)
      steps[i] = kRate * kErrors[i] * (kErrors[i] - is_outside);
    return steps;
  }
  static const Steps kInside, kOutside;  // of α

  double limit_at(double alpha) const {
    constexpr double kAny = std::numeric_limits<double>::infinity();
    if (alpha <= 0) return kAny;
    return alpha >= 1 ? -kAny : ranks_.quantile(1 - alpha);
  }

  Ranks ranks_;
  std::array<double, kErrors.size()> alphas_ = kErrors;
};
inline constexpr Coverage::Steps Coverage::kInside = steps(0), Coverage::kOutside = steps(1);

// The size s of the errors of a regression, row by row: the mean square of the last ones, times a
// factor for how uncertain the prediction is and one for how large it is. Both factors are curves:
// lines between knots, learned by the gradient of the normal likelihood.
class Spread {
 public:
  static constexpr size_t kWidth = 44;

  struct Hat {
    size_t knot;  // and the next one
    double part;  // of the next one
  };
  // What is known of a row before its label: sizes for the next row and for later rows, infinite
  // before there is one label to predict from and one to compare with, and where it is on the
  // curves.
  struct Expected {
    Pair sizes;
    Hat uncertainty, size;
    double log;  // of the uncertainty
  };

  // Of predictions for the next row and for later rows, with xᵀA⁻¹x.
  Expected expected(double next, double later, double uncertainty) const {
    const double log = log_of(uncertainty);
    const Hat u = hat_of(rows_ > 0 ? within(log - usual_) : 0.0), z = hat_of(size_at(next));
    if (rows_ < 2) return {all<Pair>(std::numeric_limits<double>::infinity()), u, z, log};
    const double of_uncertainty = at(of_uncertainty_, u);
    const Pair logs{of_uncertainty + at(of_size_, z),
                    of_uncertainty + at(of_size_, hat_of(size_at(later)))};
    const Pair squares = Pair{squares_[0], squares_[1]} * exp_of(logs);
    return {Pair{std::sqrt(squares[0]), std::sqrt(squares[1])}, u, z, log};
  }

  // Takes in a row, with what expected() returned.
  void learn(double next, double later, double label, const Expected& row) {
    const Pair errors{label - next, label - later};
    const Pair errors2 = errors * errors, sizes2 = row.sizes * row.sizes;
    if (!std::isfinite(errors2[0] + errors2[1])) return;
    if (rows_ > 1 && sizes2[0] > 0) {
      const double excess = std::min(errors2[0] / sizes2[0], kLargestSquare) - 1;
      move(of_uncertainty_, rows_of_uncertainty_, row.uncertainty, excess);
      move(of_size_, rows_of_size_, row.size, excess);
    }
    if (rows_ > 0)  // before the first label there is nothing to predict from
      for (size_t use = 0; use < 2; ++use) {
        double square = errors2[use], &memory = memories_[use];
        if (rows_ > 1 && sizes2[use] > 0) square *= squares_[use] / sizes2[use];
        // An outlier counts for little. If more follow at once, the stream has changed.
        if (memory >= kYoung && squares_[use] > 0 && square > kOutlier * squares_[use]) {
          square = kOutlier * squares_[use];
          memory = std::max(memory / 2, kYoung);
        }
        memory = std::min(memory + 1, kMemory);
        squares_[use] += (square - squares_[use]) / memory;
      }
    ++rows_;
    const double rows = std::min(rows_, kLongMemory);
    mean_ += (next - mean_) / rows;
    deviation_ += (std::fabs(next - mean_) - deviation_) / rows;
    usual_ += (row.log - usual_) / rows;
  }

  template <class Archive>
  void state(Archive& archive) {
    Vector numbers(kWidth);
    double* number = numbers.data();
    each_number([&](double& own) { *number++ = own; });
    archive.array("spread", numbers);
    if constexpr (Archive::reading) {
      number = numbers.data();
      each_number([&](double& own) { own = *number++; });
      if (*std::min_element(std::begin(squares_), std::end(squares_)) < 0 ||
          *std::min_element(std::begin(memories_), std::end(memories_)) < 0 || rows_ < 0 ||
          deviation_ < 0)
        archive.fail("spread", "has a negative number");
    }
  }

 private:
  static constexpr size_t kKnots = 9;
  static constexpr double kLargestSquare = 9, kOutlier = 30;  // of the usual square
  static constexpr double kYoung = 16, kMemory = 200, kLongMemory = 1000, kFirstRows = 10;
  static constexpr double kLargestLog = 6;  // of a factor
  using Knots = std::array<double, kKnots>;

  // Of numbers from -1 to 1.
  static Hat hat_of(double at) {
    const double position = (at + 1) / 2 * (kKnots - 1);
    const size_t knot = std::min(static_cast<size_t>(position), kKnots - 2);
    return {knot, position - static_cast<double>(knot)};
  }
  static double at(const Knots& knots, Hat hat) {
    return knots[hat.knot] * (1 - hat.part) + knots[hat.knot + 1] * hat.part;
  }
  static void move(Knots& knots, Knots& rows, Hat hat, double excess) {
    for (size_t i = 0; i < 2; ++i) {
      const double part = i == 0 ? 1 - hat.part : hat.part;
      double &knot = knots[hat.knot + i], &seen = rows[hat.knot + i];
      seen = std::min(seen + part, kLongMemory);
      knot = std::clamp(knot + part * excess / (seen + kFirstRows), -kLargestLog, kLargestLog);
    }
  }

  // Where a prediction and a logarithm are among those before, from -1 to 1.
  static double within(double x) { return x / (1 + std::fabs(x)); }
  double size_at(double z) const { return deviation_ > 0 ? within((z - mean_) / deviation_) : 0.0; }
  static double log_of(double uncertainty) {
    return rough_log(all<Pair>(uncertainty > 1e-30 ? std::min(uncertainty, 1e30) : 1e-30))[0];
  }

  template <class Visit>
  void each_number(Visit&& visit) {
    for (Knots* knots : {&of_uncertainty_, &rows_of_uncertainty_, &of_size_, &rows_of_size_})
      for (double& number : *knots) visit(number);
    for (double* number : {&squares_[0], &squares_[1], &memories_[0], &memories_[1], &rows_, &mean_,
                           &deviation_, &usual_})
      visit(*number);
  }

  Knots of_uncertainty_{}, rows_of_uncertainty_{}, of_size_{}, rows_of_size_{};
  // For the next row and for later rows: mean squares, and of how many rows.
  double squares_[2] = {0, 0}, memories_[2] = {0, 0};
  double rows_ = 0;
  double mean_ = 0, deviation_ = 0;  // of predictions
  double usual_ = 0;                 // logarithm of xᵀA⁻¹x
};

// What an output knows about its errors.
class Intervals {
 public:
  // `uses`: 1 if predictions for the next row and for later rows are the same, else 2.
  Intervals(bool numbers, size_t uses)
      : numbers_(numbers), uses_(uses), coverages_(numbers ? uses : 2 * uses) {}

  // The size of an error at predictions for both uses.
  Pair sizes(double next, double later, double uncertainty) const {
    return spread_.expected(next, later, uncertainty).sizes;
  }

  // Whether predictions for later rows differ from those for the next row.
  bool two_uses() const { return uses_ == 2; }

  // Before a row is learned: what is predicted for both uses, and, for numbers, xᵀA⁻¹x.
  void expect(double next, double later, double uncertainty) {
    expected_ = Pair{next, later};
    uncertainty_ = uncertainty;
  }
  // After that: its label.
  void learn(double label) {
    if (!numbers_) {
      for (size_t use = 0; use < uses_; ++use)
        of(label > 0, use).learn(label > 0 ? -expected_[use] : expected_[use], true);
      return;
    }
    const Spread::Expected row = spread_.expected(expected_[0], expected_[1], uncertainty_);
    const Pair sizes = row.sizes;
    for (size_t use = 0; use < uses_; ++use) {
      const double error = std::fabs(label - expected_[use]);
      const bool known = error == 0 || (sizes[use] > 0 && std::isfinite(sizes[use]));
      const double score = error == 0 ? 0.0
                           : known    ? error / sizes[use]
                                      : std::numeric_limits<double>::infinity();
      of(false, use).learn(score, known);
    }
    spread_.learn(expected_[0], expected_[1], label, row);
  }

  // See Coverage::limit(); classes have one for labels 1 and one for -1.
  double limit(bool positive, bool later, double error) const {
    return coverages_[place(positive, later)].limit(error);
  }

  // Labels are the opposite ones.
  void mirror() {
    std::rotate(coverages_.begin(), coverages_.begin() + static_cast<std::ptrdiff_t>(uses_),
                coverages_.end());
  }
  void forget(bool positive) {
    for (size_t use = 0; use < uses_; ++use) of(positive, use) = Coverage();
  }
  void keep_alphas_of(const Intervals& other) {
    for (size_t i = 0; i < coverages_.size(); ++i)
      coverages_[i].keep_alphas_of(other.coverages_[i]);
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive) {
    constexpr size_t A = Coverage::kErrors.size(), B = Ranks::kBuckets;
    if constexpr (Archive::reading) {  // what was learned for two uses stays apart
      const size_t sides = numbers_ ? 1 : 2;
      uses_ = archive.template get<double>("intervals.alphas", 1).shape[0] / (A * sides);
      if (uses_ != 1 && uses_ != 2) archive.fail("intervals.alphas", "has the wrong length");
      coverages_.resize(sides * uses_);
    }
    Vector alphas(coverages_.size() * A);
    std::vector<uint32_t> counts(coverages_.size() * B);
    for (size_t i = 0; i < coverages_.size(); ++i)
      coverages_[i].write(&alphas[i * A], &counts[i * B]);
    archive.array("intervals.alphas", alphas);
    archive.array("intervals.counts", counts);
    if constexpr (Archive::reading)
      for (size_t i = 0; i < coverages_.size(); ++i)
        coverages_[i].read(&alphas[i * A], &counts[i * B]);
    if (numbers_) spread_.state(archive);
  }

 private:
  size_t place(bool positive, bool later) const { return uses_ * positive + (later && uses_ == 2); }
  Coverage& of(bool positive, bool later) { return coverages_[place(positive, later)]; }

  bool numbers_;
  size_t uses_;
  std::vector<Coverage> coverages_;
  Spread spread_;
  Pair expected_{};
  double uncertainty_ = 0;
};

}  // namespace sonline
