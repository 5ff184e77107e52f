#include "tutti/tensor/absent_values.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/absent_memory.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/rules/op_traits.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

using torch::jit::Stack;

// LibTorch's normal_ draws for 16 elements at a time, and what is left over together with those before it: pieces of a
// multiple of 16, of which the last is longest, draw what a whole tensor does.
constexpr int64_t kElementsAtOnce = int64_t{1} << 18;

std::optional<at::Generator> generator_of(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> arguments) {
  const auto position = op.schema().argumentIndexWithName("generator");
  if (!position) return {};
  return arguments[static_cast<size_t>(*position)].toOptional<at::Generator>();
}

// Calls `draw` for memory of the pieces of a tensor of so many elements, one after the other.
template <class Draw>
void draw_in_pieces(int64_t count, at::ScalarType dtype, const Draw& draw) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Tensor memory = at::empty({std::min(count, 2 * kElementsAtOnce)}, dtype);
  for (int64_t left = count; left > 0;) {
    const int64_t now = left < 2 * kElementsAtOnce ? left : kElementsAtOnce;
    draw(memory.narrow(0, 0, now));
    left -= now;
  }
}

// Factory functions, without what stands behind "aten::", and for some "_like".
enum class Factory { none, constant, uniform, normal };
Factory factory_of(std::string_view name) {
  name.remove_prefix(std::string_view("aten::").size());
  if (name.ends_with("_like")) name.remove_suffix(std::string_view("_like").size());
  if (name == "empty" || name == "zeros" || name == "ones" || name == "full") return Factory::constant;
  if (name == "rand") return Factory::uniform;
  return name == "randn" ? Factory::normal : Factory::none;
}

const Tensor& absent_component(const Tensor& tensor) {
  static const Tensor none;
  if (!is_mesh_tensor(tensor) || !mesh_impl(tensor).whole()) return none;
  const Tensor& component = mesh_impl(tensor).components()[0];
  return is_absent(component) ? component : none;
}

// What the call would make, without memory. Undefined for a result that is not dense, or not on the CPU.
Tensor without_memory(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> arguments) {
  const auto device = op.schema().argumentIndexWithName("device");
  if (!device) return {};
  const auto place = static_cast<size_t>(*device);
  if (!arguments[place].isNone() && !arguments[place].toDevice().is_cpu()) return {};
  Stack stack(arguments.begin(), arguments.end());
  if (stack[0].isTensor()) {
    const Tensor component = absent_component(stack[0].toTensor());
    if (!component.defined()) return {};
    stack[0] = component;
  }
  stack[place] = c10::Device(c10::DeviceType::Meta);
  op.callBoxed(stack);
  Tensor made = stack[0].toTensor();
  return made.layout() == at::kStrided && made.is_contiguous() ? made : Tensor();
}

bool make_without_values(const c10::OperatorHandle& op, int64_t most_bytes, Stack& stack) {
  const Factory factory = factory_of(op.schema().name());
  if (factory == Factory::none) return false;
  const size_t num_arguments = op.schema().arguments().size();
  const auto arguments = torch::jit::last(stack, num_arguments);
  const Tensor form = without_memory(op, arguments);
  if (!form.defined() || static_cast<int64_t>(form.nbytes()) <= most_bytes) return false;
  const auto generator = generator_of(op, arguments);
  const auto draw = [&](const Tensor& piece) {
    factory == Factory::uniform ? piece.uniform_(0, 1, generator) : piece.normal_(0, 1, generator);
  };
  if (factory != Factory::constant) draw_in_pieces(form.numel(), form.scalar_type(), draw);
  torch::jit::drop(stack, num_arguments);
  stack.emplace_back(absent_tensor(form.sizes(), form.scalar_type()));
  return true;
}

void require_drawn_in_pieces(const c10::OperatorHandle& op, const Tensor& self) {
  const std::string& name = op.schema().name();
  if (draws_in_order(name)) return;
  throw Error(ErrorCode::unimplemented,
              str(name, ": it draws for a variable of shape ", str_list(self.sizes()),
                  " whose values are in other processes, and draws other numbers in memory for some of them; use "
                  "normal_ or uniform_, or give this process memory for it"));
}

bool write_without_values(const c10::OperatorHandle& op, Stack& stack) {
  const auto& schema = op.schema();
  const auto arguments = torch::jit::last(stack, schema.arguments().size());
  if (!schema.name().ends_with('_') || arguments.empty() || !arguments[0].isTensor()) return false;
  const Tensor self = arguments[0].toTensor();
  const Tensor& component = absent_component(self);
  if (!component.defined() || !component.is_contiguous()) return false;
  if (draws_numbers(op)) {
    require_drawn_in_pieces(op, self);
    Stack call(arguments.begin(), arguments.end());
    draw_in_pieces(component.numel(), component.scalar_type(), [&](const Tensor& piece) {
      Stack now = call;
      now[0] = piece;
      op.callBoxed(now);
    });
  } else if (!copies_values(schema.name()) && !is_pointwise(op)) {
    return false;
  }
  torch::jit::drop(stack, schema.arguments().size());
  stack.emplace_back(self);
  return true;
}

}  // namespace

bool call_without_values(const c10::OperatorHandle& op, int64_t most_bytes, Stack& stack) {
  return make_without_values(op, most_bytes, stack) || write_without_values(op, stack);
}

}  // namespace tutti
