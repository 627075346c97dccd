// The models that compute in float32, apart from the others: most of the time to compile goes into
// models, and two processors share it this way.
#include "sonline/sketches.hpp"

namespace sonline {

template std::unique_ptr<Model> make_model_in<float>(Config, const Task&);

}  // namespace sonline
