#include "tutti/export/public_form.h"

#include <ATen/PadNd.h>

#include <string>

namespace tutti::saved_model {
namespace {

std::string name_of_padding(int64_t mode) {
  switch (static_cast<at::padding_mode>(mode)) {
    case at::padding_mode::reflect: return "reflect";
    case at::padding_mode::replicate: return "replicate";
    case at::padding_mode::circular: return "circular";
    case at::padding_mode::constant: return "constant";
  }
  return "unknown";
}

}  // namespace

c10::OperatorHandle public_form(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const auto& [name, overload] = op.operator_name();
  const auto public_op = [](const char* public_name) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(public_name, "");
  };
  if (name == "aten::_convolution" && overload != "out") {  // behind its arguments: flags of one backend
    const c10::OperatorHandle convolution = public_op("aten::convolution");
    torch::jit::drop(stack, op.schema().arguments().size() - convolution.schema().arguments().size());
    return convolution;
  }
  if (name == "aten::_pad_enum") {
    at::IValue& mode = torch::jit::peek(stack, 2, 4);
    mode = name_of_padding(mode.toInt());
    return public_op("aten::pad");
  }
  return op;
}

}  // namespace tutti::saved_model
