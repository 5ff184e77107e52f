#include "tutti/function/inner_graph.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/function/graph_node.h"
#include "tutti/function/recorder.h"

namespace tutti {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;

// Where an inner graph ends. The engine takes gradients from it and never runs it, unless the function itself calls
// backward().
class InletNode final : public Node {
 public:
  InletNode(std::string name, const torch::autograd::InputMetadata& metadata) : name_(std::move(name)) {
    input_metadata_.emplace_back(metadata);
  }

  variable_list apply(variable_list&&) override {
    throw Error(ErrorCode::unimplemented,
                name_ +
                    ": backward() in the function goes on into the graph of an argument, which cannot be recorded; "
                    "call backward() outside, or compute with autograd::grad()");
  }
  std::string name() const override { return "Inlet"; }

 private:
  std::string name_;
};

}  // namespace

InnerGraph::InnerGraph(std::string name, at::ArrayRef<Tensor> arguments, at::ArrayRef<Tensor> copies)
    : name_(std::move(name)),
      thread_(at::RecordFunction::currentThreadId()),
      first_sequence_(at::sequence_number::peek()),
      arguments_(arguments.begin(), arguments.end()),
      copies_(copies.begin(), copies.end()),
      entries_(copies.size()) {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const Tensor &argument = arguments_[i], &copy = copies_[i];
    if (!argument.defined() || !argument.requires_grad()) continue;
    if (argument.is_leaf()) {
      copy.set_requires_grad(true);
    } else {
      entries_[i] = make_graph_node<InletNode>(name_, torch::autograd::InputMetadata(copy));
      torch::autograd::impl::set_gradient_edge(copy, {entries_[i], 0});
    }
  }
}

// LibTorch numbers the nodes of each thread, and those of leaves not at all.
bool InnerGraph::is_inner(const Node& node) const {
  return node.thread_id() == thread_ && node.sequence_nr() >= first_sequence_ && node.sequence_nr() != UINT64_MAX;
}

int InnerGraph::argument_of(const Tensor& variable) const {
  const auto found =
      std::find_if(copies_.begin(), copies_.end(), [&](const Tensor& copy) { return copy.is_same(variable); });
  return found == copies_.end() ? -1 : static_cast<int>(found - copies_.begin());
}

void InnerGraph::check_arguments() const {
  const auto refuse = [&](size_t i, const char* what, const char* way_out) {
    throw Error(ErrorCode::unimplemented,
                str(name_, ": the function ", what, " argument ", i, ", of shape ", str_list(arguments_[i].sizes()),
                    ", which cannot be recorded; ", way_out));
  };
  for (size_t i = 0; i < copies_.size(); ++i) {
    const Tensor& copy = copies_[i];
    if (!copy.defined() || !copy.requires_grad()) continue;
    if (copy.is_leaf() && copy.grad().defined())
      refuse(i, "leaves a gradient in grad() of its", "capture the variable, or compute with autograd::grad()");
    if (copy.is_leaf()) continue;
    if (!entries_[i] || copy.grad_fn() != entries_[i])
      refuse(i, "writes in place, while gradients are recorded, to its",
             "return the new value, or write to its clone()");
  }
}

// -1: none.
int InnerGraph::argument_of(const Edge& end) const {
  const auto entry = std::find(entries_.begin(), entries_.end(), end.function);
  if (entry != entries_.end()) return static_cast<int>(entry - entries_.begin());
  const auto* leaf = dynamic_cast<const AccumulateGrad*>(end.function.get());
  const int argument = leaf ? argument_of(leaf->variable) : -1;
  if (argument >= 0 && !arguments_[static_cast<size_t>(argument)].requires_grad())
    throw Error(ErrorCode::unimplemented, str(name_, ": the function calls requires_grad_() of argument ", argument,
                                              ", which cannot be recorded; call it before, or of its detach()"));
  return argument;
}

void InnerGraph::follow(Edge& edge, uint64_t sequence, const Recorder& recorder, std::vector<Node*>& nodes) {
  if (!edge.is_valid()) return;
  Node* const node = edge.function.get();
  if (is_inner(*node) && !dynamic_cast<InletNode*>(node)) {
    if (followed_.insert(node).second) nodes.push_back(node);
    return;
  }
  const int argument = argument_of(edge);
  const auto* leaf = dynamic_cast<const AccumulateGrad*>(node);
  const bool is_own = argument < 0 && leaf && recorder.has_made(leaf->variable);  // nobody can ask for its gradient
  ends_.push_back({&edge, sequence, argument >= 0 || is_own ? Edge() : edge, argument});
}

void InnerGraph::add_root(const Tensor& result) {
  errors_.emplace_back();
  try {
    roots_.push_back(torch::autograd::impl::gradient_edge(result));
  } catch (const c10::Error& error) {
    roots_.emplace_back();
    errors_.back() = error.what_without_backtrace();
  }
}

void InnerGraph::follow(at::ArrayRef<Tensor> results, Recorder& recorder) {
  check_arguments();
  for (const Tensor& result : results)
    if (result.defined() && result.requires_grad() && argument_of(result) < 0 && !recorder.is_origin(result))
      add_root(result);
  std::vector<Node*> nodes;
  for (Edge& root : roots_) follow(root, UINT64_MAX, recorder, nodes);
  while (!nodes.empty()) {
    Node* const node = nodes.back();
    nodes.pop_back();
    for (Edge& edge : node->next_edges()) follow(edge, node->sequence_nr(), recorder, nodes);
  }
}

// The engine runs the nodes that were made last first.
void InnerGraph::cut_out() {
  std::stable_sort(ends_.begin(), ends_.end(), [](const End& a, const End& b) { return a.sequence > b.sequence; });
  for (End& end : ends_) {
    Edge inside;
    if (end.argument >= 0 || end.outside.is_valid()) {
      inside = {make_graph_node<InletNode>(name_, end.edge->function->input_metadata(end.edge->input_nr)), 0};
      inlets_.push_back({inside.function, end.outside, end.argument});
    }
    auto* leaf = dynamic_cast<AccumulateGrad*>(end.edge->function.get());
    if (leaf && !end.outside.is_valid()) leaf->variable.reset();  // what the graph saved may hold its node
    *end.edge = std::move(inside);
  }
  if (!roots_.empty()) values_->let_go();  // else something outside keeps a graph, with what that saved
  ends_.clear();
  followed_.clear();
  entries_.clear();
  arguments_.clear();
  copies_.clear();
}

InnerGraph::Edges InnerGraph::edges_outside(at::ArrayRef<Tensor> arguments) const {
  Edges edges;
  for (const Inlet& inlet : inlets_)
    edges.push_back(inlet.argument < 0
                        ? inlet.outside
                        : torch::autograd::impl::gradient_edge(arguments[static_cast<size_t>(inlet.argument)]));
  return edges;
}

bool InnerGraph::fits() const {
  return std::all_of(inlets_.begin(), inlets_.end(), [](const Inlet& inlet) {
    const auto* leaf = dynamic_cast<const AccumulateGrad*>(inlet.outside.function.get());
    return !leaf || leaf->variable.requires_grad();
  });
}

std::vector<Tensor> InnerGraph::run(at::ArrayRef<Tensor> gradients, const std::vector<bool>& needed,
                                    SavedValues::Give give) {
  const std::lock_guard lock(running_);
  Edges roots, outputs;
  variable_list given;
  for (size_t i = 0; i < roots_.size(); ++i) {
    if (!gradients[i].defined() || !roots_[i].is_valid()) continue;
    roots.push_back(roots_[i]);
    given.push_back(gradients[i]);
  }
  for (size_t i = 0; i < inlets_.size(); ++i)
    if (needed[i]) outputs.emplace_back(inlets_[i].node, 0);
  std::vector<Tensor> found(inlets_.size());
  if (roots.empty() || outputs.empty()) return found;
  const SavedValues::Source source(*values_, give);
  variable_list made = torch::autograd::Engine::get_default_engine().execute(
      roots, given, /*keep_graph=*/true, /*create_graph=*/false, /*accumulate_grad=*/false, outputs);
  size_t next = 0;
  for (size_t i = 0; i < found.size(); ++i)
    if (needed[i]) found[i] = std::move(made[next++]);
  return found;
}

}  // namespace tutti
