#include "tutti/function/call_node.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/str.h"
#include "tutti/function/function_gradient.h"
#include "tutti/function/graph_node.h"
#include "tutti/function/inner_graph.h"

namespace tutti {
namespace {

using Kind = Program::Buffer::Kind;
using torch::autograd::Node;
using torch::autograd::variable_list;

// A call of a recorded function in LibTorch's graph: it owns what the call saved.
class CallNode final : public Node {
 public:
  CallNode(FunctionGraph graph, std::vector<SavedValue> saved) : graph_(std::move(graph)), saved_(std::move(saved)) {}

  std::string name() const override { return graph_.gradient->name() + "Backward"; }

  void release_variables() override {
    const std::lock_guard lock(mutex_);
    saved_.clear();
    released_ = true;
  }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(!released_, torch::autograd::ERR_BACKWARD_TWICE);
    std::vector<bool> needed;
    for (size_t i = 0; i < num_outputs(); ++i) needed.push_back(task_should_compute_output(i));
    const bool has_graph = at::GradMode::is_enabled();
    variable_list found;
    {
      const at::NoGradGuard no_grad;
      found = (*graph_.gradient)(*graph_.inner, gradients, saved_, needed);
    }
    if (has_graph)
      for (Tensor& gradient : found) end_graph(gradient);
    return found;
  }

 private:
  void end_graph(Tensor& gradient) const {
    if (!gradient.defined()) return;
    gradient = gradient.detach();
    torch::autograd::set_history(
        gradient,
        make_graph_node<torch::autograd::Error>(
            str(graph_.gradient->name(),
                ": a second derivative through a recorded function is asked for, which cannot be recorded yet; compute "
                "the first one inside of it by autograd::grad() with create_graph, or call "
                "run_functions_eagerly(true)")));
  }

  FunctionGraph graph_;
  std::vector<SavedValue> saved_;
  bool released_ = false;
};

// Gives the results of one call their places in LibTorch's graph.
class Connection {
 public:
  Connection(const Program& program, at::ArrayRef<Tensor> arguments, Tensors made)
      : program_(program), arguments_(arguments), made_(std::move(made)) {}

  Tensors run(const FunctionGraph& graph) {
    const size_t num_results = made_.size() - program_.num_saved;
    for (size_t i = 0; i < num_results; ++i) place(i);
    std::vector<SavedValue> saved;
    for (size_t i = num_results; i < made_.size(); ++i) saved.push_back(saved_value(i));
    made_.resize(num_results);
    if (std::none_of(program_.results.begin(), program_.results.end(), is_of_node)) return std::move(made_);
    const auto node = make_graph_node<CallNode>(graph, std::move(saved));
    node->set_next_edges(graph.inner->edges_outside(arguments_));
    for (size_t i = 0; i < num_results; ++i) {
      const Program::Result& result = program_.results[i];
      if (!is_of_node(result)) continue;
      const uint32_t input = node->add_input_metadata(made_[i]);  // of each, as the inner graph has roots
      if (result.same_as >= 0) continue;
      if (const std::string& error = graph.inner->error_of_root(input); !error.empty())
        spoil(made_[i], error);
      else
        torch::autograd::impl::set_gradient_edge(made_[i], {node, input});
    }
    return std::move(made_);
  }

 private:
  static void spoil(const Tensor& result, const std::string& error) {
    const auto node = make_graph_node<torch::autograd::Error>(error);
    torch::autograd::impl::set_gradient_edge(result, {node, node->add_input_metadata(result)});
  }

  int buffer_of(size_t result) const {
    const int value = program_.results[result].value;
    return value < 0 ? -1 : program_.values[static_cast<size_t>(value)].buffer;
  }

  // The tensor whose memory the result shows, if somebody else has it.
  Tensor base_of(size_t result) const {
    const int number = buffer_of(result);
    if (number < 0) return {};
    const Program::Buffer& buffer = program_.buffers[static_cast<size_t>(number)];
    switch (buffer.kind) {
      case Kind::argument: return arguments_[static_cast<size_t>(buffer.index)];
      case Kind::captured: return buffer.origin;
      case Kind::gradient: return program_.leaves[static_cast<size_t>(buffer.index)].tensor.grad();
      default: break;
    }
    for (size_t i = 0; i < std::min(result, made_.size() - program_.num_saved); ++i)
      if (buffer_of(i) == number) return made_[i];
    return {};
  }

  // A result on memory that has a tensor already is a view of that: their versions go on together, and what LibTorch
  // cannot tell of a write to one of them, it refuses.
  void place(size_t i) {
    const Program::Result& result = program_.results[i];
    if (result.value < 0 || result.is_origin) return;
    if (result.argument >= 0 || result.same_as >= 0) {
      made_[i] = result.argument >= 0 ? arguments_[static_cast<size_t>(result.argument)]
                                      : made_[static_cast<size_t>(result.same_as)];
      return;
    }
    const Program::Value& value = program_.values[static_cast<size_t>(result.value)];
    const Program::Buffer& buffer = program_.buffers[static_cast<size_t>(value.buffer)];
    if (buffer.kind == Kind::argument)
      made_[i] = tensor_on_argument(arguments_[static_cast<size_t>(buffer.index)], value.geometry);
    const Tensor base = base_of(i);
    if (!base.defined() || base.is_inference()) return;
    if (!is_of_node(result)) return torch::autograd::impl::set_version_counter(made_[i], version_of(base));
    made_[i] = torch::autograd::make_variable_differentiable_view(
        made_[i], torch::autograd::ViewInfo(base.is_view() ? Tensor(base._base()) : base, nullptr, nullptr),
        std::nullopt,
        /*shared_view_info=*/false,
        result.is_view ? torch::autograd::CreationMeta::DEFAULT : torch::autograd::CreationMeta::IN_CUSTOM_FUNCTION);
  }

  SavedValue saved_value(size_t i) const {
    SavedValue value{made_[i]};
    const Tensor base = base_of(i);
    if (!base.defined() || base.is_inference()) return value;
    value.version = version_of(base);
    value.saved_version = value.version->current_version();
    return value;
  }

  static const c10::VariableVersion& version_of(const Tensor& tensor) {
    return torch::autograd::impl::version_counter(tensor);
  }

  const Program& program_;
  at::ArrayRef<Tensor> arguments_;
  Tensors made_;
};

}  // namespace

bool is_of_node(const Program::Result& result) {
  return result.requires_grad && !result.is_origin && result.argument < 0;
}

Tensors connect(const FunctionGraph& graph, const Program& program, at::ArrayRef<Tensor> arguments, Tensors made) {
  return Connection(program, arguments, std::move(made)).run(graph);
}

}  // namespace tutti
