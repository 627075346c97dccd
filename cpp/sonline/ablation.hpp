// Mechanisms of the default that `make ablation` takes away, one at a time, to measure their worth.
//
// SONLINE_KEEPS(mechanism) is the constant true. Only if SONLINE_ABLATION is defined does it depend
// on the environment variable SONLINE_WITHOUT, a list of names with commas, which is read once.
#pragma once

#ifndef SONLINE_ABLATION

#define SONLINE_KEEPS(mechanism) true

#else

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#define SONLINE_KEEPS(mechanism) \
  (::sonline::ablation::kKept[static_cast<size_t>(::sonline::ablation::Mechanism::mechanism)])

#define SONLINE_MECHANISMS(name)                                                          \
  name(running_energy) name(implicit_step) name(curvature_at_end) name(sketch_draws)      \
  name(repeated_row_limit) name(isotropic_tail) name(first_steps_limit) name(fixed_share) \
  name(exponential_weights) name(likelihood_floor) name(effective_rows) name(held_out)    \
  name(as_sure_as_others) name(half_gain) name(label_runs) name(label_information)        \
  name(shrinkage) name(young_scales) name(common_unit) name(frequent_features)            \
  name(value_limits) name(centring) name(shared_sketch) name(shared_directions)           \
  name(label_offset) name(label_outliers) name(loss_outliers) name(pull_of_labels)        \
  name(likelihood_unit)

namespace sonline::ablation {

#define SONLINE_ENUMERATOR(name) name,
enum class Mechanism { SONLINE_MECHANISMS(SONLINE_ENUMERATOR) };
#undef SONLINE_ENUMERATOR
#define SONLINE_NAME(name) #name,
inline constexpr std::string_view kNames[] = {SONLINE_MECHANISMS(SONLINE_NAME)};
#undef SONLINE_NAME

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
