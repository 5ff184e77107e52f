#include "tutti/function/recordable_calls.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <string>
#include <unordered_set>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

bool is_tagged(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output);
}

// Whether the result's shape, or what C++ does next, depends on values. The out= forms that LibTorch generates have no
// tags: those of their op count.
bool depends_on_values(const c10::OperatorHandle& op) {
  static const auto names = [] {
    std::unordered_set<std::string> tagged;
    for (const auto& name : c10::Dispatcher::singleton().getAllOpNames())
      if (const auto each = c10::Dispatcher::singleton().findSchema(name); each && is_tagged(*each))
        tagged.insert(name.name);
    return tagged;
  }();
  const auto& schema = op.schema();
  const bool is_out_form = !schema.arguments().empty() && schema.arguments().back().is_out();
  return is_tagged(op) || (is_out_form && names.contains(schema.name()));
}

}  // namespace

void check_memory(const std::string& function, const char* are, at::ArrayRef<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined() && !has_recordable_memory(tensor))
      throw Error(ErrorCode::unimplemented,
                  tutti::str(function, ": ", are, " of shape ", str_list(tensor.sizes()), ", layout ", tensor.layout(),
                             ", on ", tensor.device(),
                             "; dense plain tensors on the CPU or a GPU can be recorded. run_functions_eagerly(true) "
                             "runs the function as it is"));
}

void check_recordable(const std::string& function, const c10::OperatorHandle& op, const OperatorInfo& info,
                      at::ArrayRef<at::IValue> arguments) {
  const auto stop = [&](const char* reason) {
    throw Error(ErrorCode::failed_precondition, str(function, ": ", info.name, reason));
  };
  if (info.name == "aten::_local_scalar_dense" || info.name == "aten::is_nonzero")
    stop(
        " reads a number out of a tensor (item(), a condition) while the function is recorded, and a replay would go "
        "on "
        "with the old one. Return the tensor and read it outside, or compute with tensors: where(), clamp(), …");
  bool shape_depends = depends_on_values(op) || info.name == "aten::_pack_padded_sequence";
  if (info.name == "aten::index") {  // by integers the shape is known
    shape_depends = false;
    for_each_tensor(arguments[1], [&](const at::Tensor& index) {
      shape_depends |= index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
    });
  }
  if (shape_depends)
    stop(
        ": its result's shape, or what C++ does next, depends on the values of a tensor, and a replay would go on with "
        "the old ones. Use where(), masked_fill() or multiply by the mask; or take this part out of the function");
  if (info.name == "aten::set_") stop(" gives a tensor other memory; write to the tensor with copy_() instead");
}

bool is_without_dropout(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> arguments) {
  for (const char* const name : {"dropout_p", "dropout"})
    if (const auto position = op.schema().argumentIndexWithName(name)) {
      const at::IValue& probability = arguments[static_cast<size_t>(*position)];
      return probability.isDouble() && probability.toDouble() == 0;
    }
  return false;
}

// What a replica draws comes from its own generator, which a replay knows as an argument alone. That of an element of a
// seeded map is no other element's.
void check_generator(const std::string& function, const OperatorInfo& info, at::ArrayRef<at::IValue> arguments) {
  const ThreadView& view = ThreadView::current();
  if (!view.generator) return;
  const auto named = std::find_if(arguments.begin(), arguments.end(),
                                  [](const at::IValue& argument) { return argument.isGenerator(); });
  if (view.replica < 0 && (named == arguments.end() || named->toGenerator() == *view.generator))
    throw Error(ErrorCode::unimplemented,
                str(function, ": ", info.name,
                    " draws random numbers in a map with a seed, which gives each element a generator of its own, so "
                    "that a replay would draw others; draw in the map and give the function the numbers"));
  if (named != arguments.end()) return;
  throw Error(ErrorCode::unimplemented,
              str(function, ": ", info.name,
                  " draws random numbers in a replica and takes no generator, so that a replay would draw others; fill "
                  "a tensor in place: empty(sizes).uniform_(), normal_(), random_()"));
}

}  // namespace tutti
