#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tutti/function/laid_out.h"
#include "tutti/function/saved_values.h"

namespace tutti {

class Recorder;

// The graph that LibTorch makes while a function is recorded, cut out of the one around it: each edge that leads to an
// argument or to a variable outside ends at an inlet. It holds no values.
// A tensor that is used twice has two inlets, since LibTorch adds up the gradients of its uses one by one: those
// outside the function among them, in the order in which they come. Threads: the one that records, until it is cut out;
// then one at a time runs it.
class InnerGraph {
 public:
  using NodePointer = decltype(torch::autograd::Edge::function);
  using Edges = torch::autograd::edge_list;

  // To be made right before the function runs on `copies` in the places of its arguments. Those copies require a
  // gradient from then on whose arguments do.
  InnerGraph(std::string name, at::ArrayRef<Tensor> arguments, at::ArrayRef<Tensor> copies);

  const std::shared_ptr<SavedValues>& saved_values() const { return values_; }
  // Follows it from the results that need a gradient and are not the function's argument or somebody's outside.
  // Throws: unimplemented where the function does to an argument what the graph around it would have to know.
  void follow(at::ArrayRef<Tensor> results, Recorder& recorder);
  // Cuts it out where it was found to end; the values that it saved are let go.
  void cut_out();
  // Of the results that it was cut out behind.
  size_t num_roots() const { return roots_.size(); }
  // What LibTorch says to whoever asks for the gradient of a root that has none, as it was spoilt by a change in place.
  const std::string& error_of_root(size_t root) const { return errors_[root]; }
  // For each inlet, where its gradient goes in a call with these arguments.
  Edges edges_outside(at::ArrayRef<Tensor> arguments) const;
  // Whether the variables outside still need a gradient.
  bool fits() const;

  // The gradients of the inlets that are needed, by LibTorch, of those of the roots, some of which may be undefined.
  std::vector<Tensor> run(at::ArrayRef<Tensor> gradients, const std::vector<bool>& needed, SavedValues::Give give);

 private:
  // An edge of the graph that leads out of it.
  struct End {
    torch::autograd::Edge* edge;
    uint64_t sequence;              // of the node whose edge it is
    torch::autograd::Edge outside;  // unless it is an argument's
    int argument;
  };
  struct Inlet {
    NodePointer node;  // in the graph
    torch::autograd::Edge outside;
    int argument;
  };

  bool is_inner(const torch::autograd::Node& node) const;
  void check_arguments() const;
  int argument_of(const Tensor& variable) const;
  int argument_of(const torch::autograd::Edge& end) const;
  void add_root(const Tensor& result);
  void follow(torch::autograd::Edge& edge, uint64_t sequence, const Recorder& recorder,
              std::vector<torch::autograd::Node*>& nodes);

  std::string name_;
  uint64_t thread_;          // on which its nodes are made
  uint64_t first_sequence_;  // of their numbers
  Tensors arguments_;        // until it is cut out
  Tensors copies_;
  std::vector<NodePointer> entries_;  // of the copies: the nodes that arguments with a graph have in its place
  std::shared_ptr<SavedValues> values_ = std::make_shared<SavedValues>();
  Edges roots_;
  std::vector<std::string> errors_;  // of the roots; empty: none
  std::vector<End> ends_;
  std::unordered_set<const torch::autograd::Node*> followed_;
  std::vector<Inlet> inlets_;
  std::mutex running_;
};

}  // namespace tutti
