#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tutti/checkpoint/restore_state.h"
#include "tutti/checkpoint/trackable.h"
#include "tutti/core/tensor_fwd.h"

namespace tutti::checkpoint {

using Weights = std::map<std::string, Tensor>;

// A tensor in a file. It is read where it is needed.
struct StoredWeight {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes = {};
  std::function<Tensor()> read = {};
};
using StoredWeights = std::map<std::string, StoredWeight>;

// Which names of a file and of an object must be of both.
enum class SharedNames { any, all };

// Overwrites the weights by what is stored under their names, each in its own mesh and layout: all that both sides
// have, or none. Returns the names that one side alone has. `op` and `file` begin messages. Throws:
// failed_precondition, before anything is changed, with all names, for weights of another shape or dtype, and for names
// that must be of both sides.
Differences overwrite_weights(const char* op, const std::filesystem::path& file, const Weights& weights,
                              const StoredWeights& stored, SharedNames shared);

// load_weights() of an object that has the file's weights and no others.
void load_every_weight(const Trackable& object, const std::filesystem::path& file);

// Has the chief of the processes that train together, which all call this, write the weights: gathered, where there are
// several processes.
void write_on_chief(Weights weights, const std::function<void(const Weights&)>& write);

}  // namespace tutti::checkpoint
