// Words and n-grams with their counts, in the order of their first appearance.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sonline/text/chars.hpp"

namespace sonline::text {

class WordCounts {
 public:
  void add(std::string word) {
    const auto [place, is_new] = places_.try_emplace(word, counts_.size());
    if (is_new) counts_.push_back({std::move(word), 0});
    counts_[place->second].second += 1;
  }
  size_t size() const { return counts_.size(); }
  auto begin() const { return counts_.begin(); }
  auto end() const { return counts_.end(); }

 private:
  std::vector<std::pair<std::string, double>> counts_;
  std::unordered_map<std::string, size_t> places_;
};

// The n-grams of a text for n up to `most`, with a blank between words.
inline WordCounts ngrams(std::string_view text, size_t most) {
  std::vector<std::string_view> words;
  for (size_t i = 0; i < text.size();) {
    while (i < text.size() && is_space(text[i])) ++i;
    const size_t start = i;
    while (i < text.size() && !is_space(text[i])) ++i;
    if (i != start) words.push_back(text.substr(start, i - start));
  }
  WordCounts counts;
  for (size_t length = 1; length <= most; ++length) {
    for (size_t i = 0; i + length <= words.size(); ++i) {
      std::string gram(words[i]);
      for (size_t k = 1; k < length; ++k) (gram += ' ') += words[i + k];
      counts.add(std::move(gram));
    }
  }
  return counts;
}

}  // namespace sonline::text
