#pragma once

#include <string>

#include "tutti/data/graph/node.h"

namespace tutti::data::graph {

// What a dataset is made of, as far as its graph shows: "batch(4,0), map, range(0,1,10)". Operations with their
// arguments, but for those that change no element; checksums of tensors in memory; the names of files and of their
// folders. What functions do, and what is in files, is not in it.
std::string fingerprint_of(const NodePtr& node);

}  // namespace tutti::data::graph
