#pragma once

#include <ATen/core/Tensor.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tutti/core/tensor_fwd.h"

namespace tutti::oracle {

using Json = nlohmann::json;

// A file of recorded TensorFlow results: from the folder that TUTTI_ORACLE_DIR names, else from tests/oracle/.
// Throws std::runtime_error if there is none.
Json document(const std::string& file);
// The same from tests/oracle/ alone.
Json own_document(const std::string& file);

// The cases of a file of recorded TensorFlow results.
Json cases(const std::string& file);

// {"shape", "dtype", "data"} as a tensor. Throws std::runtime_error for a dtype that no case has used yet.
Tensor tensor(const Json& json);

// Whether a tensor is what was recorded: dtype and shape exactly, integers exactly, floats to 1e-5, half precision to
// 1e-2.
bool equals(const Tensor& actual, const Json& recorded);

}  // namespace tutti::oracle
