// Placeholder until the core exists: a module that can be imported and holds nothing.
#include <nanobind/nanobind.h>

NB_MODULE(_core, module) { module.doc() = "The native core of sonline."; }
