#pragma once

#include <ATen/core/function_schema.h>

#include "tutti/export/program.h"

namespace tutti::saved_model {

// Of a call that is no step. Throws LibTorch's error where this LibTorch does not have the operator.
const c10::FunctionSchema& schema_of(const Call& call);

// The values that a call writes to in place.
std::vector<int> written_by(const Call& call);

}  // namespace tutti::saved_model
