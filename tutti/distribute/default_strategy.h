#pragma once

#include "tutti/distribute/strategy.h"

namespace tutti {

// What is in force where no strategy was entered: one replica, nothing is distributed, every call is the plain one.
Strategy& default_strategy();

}  // namespace tutti
