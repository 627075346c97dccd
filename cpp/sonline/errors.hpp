// The one error the core raises while it learns; everything else is checked before.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace sonline {

struct Diverged : std::runtime_error {
  using std::runtime_error::runtime_error;
  Diverged(const std::string& text, size_t row, std::string cause)
      : std::runtime_error(text), row(row), cause(std::move(cause)) {}

  size_t row = 0;     // of the batch
  std::string cause;  // without row and advice
};

}  // namespace sonline
