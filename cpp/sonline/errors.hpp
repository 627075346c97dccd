// The one error the core raises while it learns; everything else is checked before.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace sonline {

struct Diverged : std::runtime_error {
  using std::runtime_error::runtime_error;
  Diverged(const std::string& text, size_t learned, size_t done)
      : std::runtime_error(text), rows_learned(learned), rows_done(done) {}

  // Of a batch: rows that have predictions, and those from which on nothing has been done.
  size_t rows_learned = 0, rows_done = 0;
};

}  // namespace sonline
