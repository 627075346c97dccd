#include "sonline/first_rows.hpp"

#include <unordered_map>

namespace sonline {

namespace {

struct Moments {
  size_t rows = 0;
  bool always = true;
  double sum = 0, squares = 0, last = 0, steps = 0;
};

}  // namespace

bool FirstRows::add(const Batch& batch, size_t row_number, double label, double weight) {
  with_row(batch, row_number, [&](auto keys, auto values, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      if (values[i] == 0) continue;
      keys_.push_back(static_cast<Key>(keys[i]));
      values_.push_back(static_cast<double>(values[i]));
    }
  });
  ends_.push_back(static_cast<int64_t>(keys_.size()));
  labels_.push_back(label);
  weights_.push_back(weight);
  if (keys_.size() - begin(labels_.size() - 1) > kMostFeatures) close();  // no table
  return labels_.size() == kRows;
}

Vector FirstRows::centres(const FeatureIndex& index, size_t directions) const {
  const double n = static_cast<double>(labels_.size());
  std::unordered_map<Key, Moments> features;
  for (size_t row = 0; row < labels_.size(); ++row)
    for (size_t i = begin(row); i < begin(row + 1); ++i) {
      Moments& feature = features[keys_[i]];
      feature.always &= feature.rows == row;  // in each row so far, and not yet in this one
      const double step = feature.rows > 0 ? values_[i] - feature.last : 0.0;
      feature.steps += step * step;
      feature.last = values_[i];
      feature.sum += values_[i];
      ++feature.rows;
    }
  for (size_t i = 0; i < keys_.size(); ++i) {
    Moments& feature = features[keys_[i]];
    const double deviation = values_[i] - feature.sum / n;
    feature.squares += deviation * deviation;
  }
  const size_t all = features.size();
  std::erase_if(features, [&](const auto& entry) {
    return !entry.second.always || entry.second.rows != labels_.size();
  });
  const bool many = features.size() > directions || all > 2 * directions;
  const double offset = many ? kOffset : kLargeOffset;
  Vector centres;
  for (const auto& [key, feature] : features) {
    const double mean = feature.sum / n, variance = feature.squares / n;
    const Slot slot = index.find(key);
    const bool constant = !(variance > kRounding * mean * mean);
    const bool in_order = feature.steps < kIndependent * variance * (n - 1);
    if (constant || in_order || mean * mean <= offset * variance || slot > kMostFeatures) continue;
    if (centres.size() <= slot) centres.resize(slot + 1);
    // Fewer digits, so that the order of the sum does not matter.
    centres[slot] = static_cast<double>(static_cast<float>(mean));
  }
  return centres;
}

}  // namespace sonline
