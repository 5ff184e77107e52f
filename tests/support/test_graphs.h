#pragma once

#include <cstdlib>

#include "tutti/function/function_options.h"
#include "tutti/function/graphed_steps.h"

namespace tutti {

// Whether TUTTI_TEST_GRAPHS is set: recorded functions are graphs then on the GPUs that tests run on, also where that
// does not pay, from the fifth call on. To be asked before they are made.
inline bool test_graphs() {
  static const bool wanted = [] {
    if (!std::getenv("TUTTI_TEST_GRAPHS")) return false;
    use_gpu_graphs(true);
    GraphedSteps::always_pays(true);
    return true;
  }();
  return wanted;
}

}  // namespace tutti
