#pragma once

#include <span>
#include <string>
#include <vector>

#include "tutti/export/onnx/call_to_lower.h"

namespace tutti::saved_model::onnx {

// The results of a call, of a list its items. One without a name has no form in ONNX: an error where it is read.
using Lowering = Operands (*)(const CallToLower& call);

struct NamedLowering {
  const char* op;  // "mul": its overloads, in place and not
  Lowering lowering;
};

// One list for each file of this folder.
std::span<const NamedLowering> activation_lowerings();
std::span<const NamedLowering> attention_lowerings();
std::span<const NamedLowering> convolution_lowerings();
std::span<const NamedLowering> creation_lowerings();
std::span<const NamedLowering> indexing_lowerings();
std::span<const NamedLowering> matmul_lowerings();
std::span<const NamedLowering> normalization_lowerings();
std::span<const NamedLowering> pointwise_lowerings();
std::span<const NamedLowering> pooling_lowerings();
std::span<const NamedLowering> recurrent_lowerings();
std::span<const NamedLowering> reduction_lowerings();
std::span<const NamedLowering> shape_lowerings();

// The ops that can be written down, in order.
std::vector<std::string> lowered_ops();

// Writes a call down. The results have the dtypes that the call gives.
// Throws: unimplemented for an op without a lowering, or for arguments that have no form in ONNX; the text follows the
// op's name.
std::vector<std::optional<Operand>> lower(const CallToLower& call, const std::string& op);

}  // namespace tutti::saved_model::onnx
