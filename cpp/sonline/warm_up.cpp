#include "sonline/warm_up.hpp"
#include "sonline/ablation.hpp"

#include <cmath>
#include <unordered_map>

#include "sonline/scales.hpp"

namespace sonline {

// Of the values of a feature that are not zero.
struct WarmUp::Moments {
  Key key;
  size_t rows = 0;
  bool always = true;
  double sum = 0, squares = 0, deviations = 0, last = 0, steps = 0;
};

// So that the order of a sum does not matter.
static double with_fewer_digits(double value) {
  constexpr int kBits = 24;
  int exponent = 0;
  const double digits = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(digits, kBits)), exponent - kBits);
}

bool WarmUp::add(const Batch& batch, size_t row_number, double label, double weight) {
  with_row(batch, row_number, [&](auto keys, auto values, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      if (values[i] == 0) continue;
      keys_.push_back(static_cast<Key>(keys[i]));
      values_.push_back(static_cast<double>(values[i]));
    }
  });
  const bool empty = ends_.back() == static_cast<int64_t>(keys_.size());
  table_ &= batch.table || empty;
  ends_.push_back(static_cast<int64_t>(keys_.size()));
  labels_.push_back(label);
  weights_.push_back(weight);
  return labels_.size() == kRows;
}

Choices WarmUp::choices(const FeatureIndex& index) const {
  const size_t rows = labels_.size();
  std::vector<Moments> features;  // in order of appearance
  std::unordered_map<Key, size_t> positions;
  for (size_t row = 0; row < rows; ++row)
    for (size_t i = begin(row); i < begin(row + 1); ++i) {
      const auto [at, fresh] = positions.try_emplace(keys_[i], features.size());
      if (fresh) features.push_back({keys_[i]});
      Moments& feature = features[at->second];
      feature.always &= feature.rows == row;  // in each row so far, and not yet in this one
      const double value = values_[i], step = feature.rows > 0 ? value - feature.last : 0.0;
      feature.steps += step * step;
      feature.last = value;
      feature.sum += value;
      feature.squares += value * value;
      ++feature.rows;
    }
  for (size_t i = 0; i < keys_.size(); ++i) {
    Moments& feature = features[positions.at(keys_[i])];
    const double deviation = values_[i] - feature.sum / static_cast<double>(rows);
    feature.deviations += deviation * deviation;
  }
  Choices choices;
  if (config_.scaling == Scaling::automatic) {
    if (SONLINE_KEEPS(centring)) choices.centres = centres(features, index);
    if (SONLINE_KEEPS(common_unit)) choices.unit = unit(features);
  }
  choices.features = features.size();
  const double count = static_cast<double>(features.size());
  choices.wide = SONLINE_KEEPS(wide_rows) && count > kWideFeatures &&
                 count * static_cast<double>(rows) > kWideRows * static_cast<double>(keys_.size());
  return choices;
}

double WarmUp::unit(const std::vector<Moments>& features) const {
  double values = 0, squares = 0, alike = 0;
  for (const Moments& feature : features) {
    values += static_cast<double>(feature.rows);
    squares += feature.squares;
  }
  const double unit = squares / values;
  for (const Moments& feature : features) {
    const double rows = static_cast<double>(feature.rows), square = feature.squares / rows;
    const double limit = kAlikeSquares * std::max(1.0, kFewValues / (rows + 0.5));
    if (square * limit >= unit && square <= unit * limit) alike += rows;
  }
  return values > 0 && alike >= kAlikeShare * values && std::isfinite(unit) ? unit : 0.0;
}

Vector WarmUp::centres(const std::vector<Moments>& features, const FeatureIndex& index) const {
  Vector centres;
  if (!config_.intercept || config_.hash_bits >= 0) return centres;
  const size_t rows = labels_.size();
  for (size_t row = 0; row < rows; ++row)
    if (begin(row + 1) - begin(row) > kTableColumns) return centres;
  const auto in_all_rows = [&](const Moments& feature) {
    return feature.always && feature.rows == rows;
  };
  const auto columns =
      static_cast<size_t>(std::count_if(features.begin(), features.end(), in_all_rows));
  const size_t directions = config_.sketch.size;
  const bool many = columns > directions || features.size() > 2 * directions;
  const double n = static_cast<double>(rows), offset = many ? kOffset : kLargeOffset;
  for (const Moments& feature : features) {
    if (!in_all_rows(feature)) continue;
    const double mean = feature.sum / n, variance = feature.deviations / n;
    const Slot slot = index.find(feature.key);
    const bool constant = !(variance > kRounding * mean * mean);
    const bool in_order = feature.steps < kIndependent * variance * (n - 1);
    if (constant || in_order || mean * mean <= offset * variance || slot > kTableColumns) continue;
    if (centres.size() <= slot) centres.resize(slot + 1);
    centres[slot] = with_fewer_digits(mean);
  }
  return centres;
}

}  // namespace sonline
