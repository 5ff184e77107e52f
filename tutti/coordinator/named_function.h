#pragma once

#include <source_location>
#include <string>
#include <typeindex>

#include "tutti/coordinator/remote_call.h"

namespace tutti::coordinator {

// A function that a task has made for the coordinator to schedule.
struct NamedFunction {
  std::string name;
  std::type_index type;  // of its signature
  std::source_location location;
  NamedCall call;
};

}  // namespace tutti::coordinator
