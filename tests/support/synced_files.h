#pragma once

#include <string>
#include <vector>

namespace tutti {

// Where fsync() notes what it is called for, in the tests of data.
inline std::vector<std::string>* synced_files = nullptr;

}  // namespace tutti
