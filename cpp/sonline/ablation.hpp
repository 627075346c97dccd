// Mechanisms of the default that `make ablation` takes away, one at a time, to measure their worth.
//
// SONLINE_KEEPS(mechanism) is the constant true. Only if SONLINE_ABLATION is defined does it depend
// on the environment variable SONLINE_WITHOUT, a list of names with commas, which is read once.
#pragma once

#include <cstddef>

#ifndef SONLINE_ABLATION

#define SONLINE_KEEPS(mechanism) true

#else

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string_view>

#define SONLINE_KEEPS(mechanism) \
  (::sonline::ablation::kKept[::sonline::ablation::number_of(#mechanism)])

namespace sonline::ablation {

inline constexpr std::string_view kNames[] = {
    "running_energy", "implicit_step",       "curvature_at_end",
    "drawn_rows",     "repeated_row",        "isotropic_tail",
    "first_steps",    "exponential_weights", "fixed_share",
    "effective_rows", "later_shares",        "half_rate",
    "phases",         "held_weights",        "many_classes",
    "calibration",    "base_rate",           "young_scales",
    "common_unit",    "frequent_features",   "value_limits",
    "centring",       "wide_rows",           "label_offset",
    "outliers",       "typical_loss",        "pull",
    "likelihood_unit"};

consteval size_t number_of(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) return i;
  throw "not in the list";  // an error of the compiler
}

inline std::array<bool, std::size(kNames)> read_kept() {
  std::array<bool, std::size(kNames)> kept;
  kept.fill(true);
  const char* variable = std::getenv("SONLINE_WITHOUT");
  std::string_view rest = variable ? variable : "";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view name = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const auto at = std::find(std::begin(kNames), std::end(kNames), name);
    if (at == std::end(kNames)) {
      std::fprintf(stderr, "SONLINE_WITHOUT: unknown mechanism '%.*s'. There are:",
                   static_cast<int>(name.size()), name.data());
      for (const std::string_view known : kNames) std::fprintf(stderr, " %s", known.data());
      std::fprintf(stderr, "\n");
      std::exit(2);
    }
    kept[static_cast<size_t>(at - std::begin(kNames))] = false;
  }
  return kept;
}

inline const auto kKept = read_kept();

}  // namespace sonline::ablation

#endif

namespace sonline {

// Loss::implicit_steps, or what is there without them: the gradient where a step starts, and A with
// the row.
template <class Loss>
void implicit_steps(const Loss& loss, const double* z, const double* y, const double* q, size_t n,
                    double* fits, double* steps) {
  loss.implicit_steps(z, y, q, n, fits, steps);
  if (SONLINE_KEEPS(implicit_step)) return;
  for (size_t i = 0; i < n; ++i)
    steps[i] = -q[i] * loss.slope(z[i], y[i]) / (1 + q[i] * loss.curvature(z[i], y[i]));
}

}  // namespace sonline
