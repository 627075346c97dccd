// Python's view of the core: arrays in, arrays out, no logic.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_model(nb::module_& module);
void bind_text(nb::module_& module);

NB_MODULE(_core, module) {
  module.doc() = "The native core of sonline.";
  // Of the calling interpreter; the module is set up once for all interpreters.
  module.def("in_subinterpreter",
             [] { return PyInterpreterState_GetID(PyInterpreterState_Get()) != 0; });
  bind_model(module);
  bind_text(module);
}
