// LSTM, GRU and RNN: LibTorch calls other ops for each step, whose sums are written into products of the states. States
// that do not say how they lie, zeros for example, are laid out as the input's batch, for which nothing moves.
#include "tutti/tensor/recurrence.h"

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>

#include "tutti/tensor/library.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/strict_mode.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

// The layout of states [layer, row, feature] for an input [row, step, feature] or [step, row, feature]; nothing where
// the batch is whole.
std::optional<Layout> layout_of_states(const Tensor& input, bool batch_first) {
  if (!is_mesh_tensor(input) || input.dim() != 3) return {};
  const Layout layout = layout_of(input);
  const int dimension = layout.axes()[batch_first ? 0 : 1];
  if (dimension < 0) return {};
  return Layout({kUnsharded, layout.mesh().dimensions()[static_cast<size_t>(dimension)].name, kUnsharded},
                layout.mesh());
}

Tensor following(const Tensor& state, const Layout& layout, const std::string& op) {
  if (state.dim() != 3) return state;
  if (is_mesh_tensor(state)) return mesh_impl(state).spec()->sharded() ? state : relayout(state, layout);
  if (state.requires_grad()) return state;  // which has nowhere to go from a mesh
  check_plain_operand(op);
  return distribute_tensor(state, layout);
}

// (input, states, weights, …, batch_first)
void run_recurrence(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const Tensor input = torch::jit::peek(*stack, 0, count).toTensor();
  at::IValue& states = torch::jit::peek(*stack, 1, count);
  if (const auto layout = layout_of_states(input, stack->back().toBool())) {
    const std::string& name = op.schema().name();
    if (states.isTensor()) {
      states = following(states.toTensor(), *layout, name);
    } else {
      c10::List<Tensor> list;
      for (const Tensor& state : states.toTensorVector()) list.push_back(following(state, *layout, name));
      states = std::move(list);
    }
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

}  // namespace

void register_recurrences() {
  for (const auto key : {kMeshKey, kMeshAutogradKey}) {
    auto& library = immortal_library("aten", key);
    for (const char* name : {"lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input"})
      library.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_recurrence>());
  }
}

}  // namespace tutti
