#pragma once

#include <span>
#include <string>
#include <vector>

#include "tutti/stablehlo/call.h"

namespace tutti::stablehlo {

struct NamedLowering {
  const char* op;  // "mul": its overloads, in place and not
  Lowering lowering;
};

// One list for each file of this folder.
std::span<const NamedLowering> activation_lowerings();
std::span<const NamedLowering> convolution_lowerings();
std::span<const NamedLowering> creation_lowerings();
std::span<const NamedLowering> indexing_lowerings();
std::span<const NamedLowering> loss_lowerings();
std::span<const NamedLowering> matmul_lowerings();
std::span<const NamedLowering> normalization_lowerings();
std::span<const NamedLowering> pointwise_lowerings();
std::span<const NamedLowering> pooling_lowerings();
std::span<const NamedLowering> random_lowerings();
std::span<const NamedLowering> reduction_lowerings();
std::span<const NamedLowering> shape_lowerings();
std::span<const NamedLowering> softmax_lowerings();

// The ops that can be written down, in order.
std::vector<std::string> lowered_ops();
// "aten::add_.Tensor" → "add".
std::string base_name(const std::string& op);

// Writes a call down. The results have the types that the call says. Throws: unimplemented for an op without a
// lowering, or for arguments that it does not know, with the op's name and `place`, which says where the call is.
Results lower(Builder& builder, const Call& call, const std::string& place);

}  // namespace tutti::stablehlo
