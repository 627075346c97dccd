// The one error the core raises while it learns; everything else is checked before.
#pragma once

#include <stdexcept>
#include <string>

namespace sonline {

struct Diverged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace sonline
