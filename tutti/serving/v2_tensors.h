#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/export/spec.h"
#include "tutti/export/value.h"

// Tensors as the Open Inference Protocol names and sends them, over HTTP and gRPC.
namespace tutti::serving {

inline constexpr const char *kServerName = "tutti", *kServerVersion = "0.1.0";

// "FP32", "BYTES". Throws: unimplemented for a dtype that the protocol has no name for.
std::string v2_datatype(bool is_text, at::ScalarType dtype);

// The input's spec. Throws: invalid_argument where there is none of this name, or it wants another datatype or shape.
const saved_model::Spec& v2_spec(const std::vector<saved_model::Spec>& specs, const std::string& name,
                                 const std::string& datatype, const std::vector<int64_t>& shape);

// Bytes are row-major, the lowest of a number first; texts come each behind its length of four bytes.
// Throws: invalid_argument for bytes that are not those of this shape.
saved_model::Value v2_value(const saved_model::Spec& spec, const std::vector<int64_t>& shape, std::string_view bytes);
std::string v2_bytes(const saved_model::Value& value);
std::vector<int64_t> v2_shape(const saved_model::Value& value);

}  // namespace tutti::serving
