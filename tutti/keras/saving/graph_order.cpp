#include "tutti/keras/saving/graph_order.h"

#include <algorithm>
#include <map>
#include <set>

namespace tutti::keras {
namespace {

using LayerPtr = std::shared_ptr<layers::LayerImpl>;

// A search from the outputs of a graph, without recursion, as graphs may be deep.
class GraphSearch {
 public:
  GraphSearch(const std::vector<SymbolicTensor>& inputs, const std::vector<SymbolicTensor>& outputs) : inputs_(inputs) {
    for (const SymbolicTensor& output : outputs) {
      enter(output);
      while (!open_.empty()) {
        Step& step = open_.back();
        if (step.next < step.node->inputs.size()) {
          enter(step.node->inputs[step.next++]);
        } else {
          left_.push_back(step.node);
          open_.pop_back();
        }
      }
    }
  }

  // In the order in which the search came to them.
  const std::vector<LayerPtr>& layers() const { return layers_; }

  const std::vector<const Node*>& calls() const { return left_; }

  // How many calls lie between a call of the layer and the outputs, at most.
  std::map<const layers::LayerImpl*, size_t> distances() const {
    std::map<const Node*, size_t> of_calls;
    std::map<const layers::LayerImpl*, size_t> of_layers;
    for (auto node = left_.rbegin(); node != left_.rend(); ++node) {
      const size_t distance = std::max(of_calls[*node], of_layers[(*node)->layer.get()]);
      of_calls[*node] = of_layers[(*node)->layer.get()] = distance;
      for (const SymbolicTensor& input : (*node)->inputs)
        if (!is_end(input)) of_calls[&input.node()] = std::max(of_calls[&input.node()], distance + 1);
    }
    return of_layers;
  }

 private:
  struct Step {
    const Node* node;
    size_t next;  // of its inputs
  };

  bool is_end(const SymbolicTensor& place) const {
    return place.node().inputs.empty() || std::ranges::find(inputs_, place) != inputs_.end();
  }

  void enter(const SymbolicTensor& place) {
    if (is_end(place) || !seen_.insert(&place.node()).second) return;
    const LayerPtr& layer = place.node().layer;
    if (std::ranges::find(layers_, layer) == layers_.end()) layers_.push_back(layer);
    open_.push_back({&place.node(), 0});
  }

  const std::vector<SymbolicTensor>& inputs_;
  std::set<const Node*> seen_;
  std::vector<Step> open_;
  std::vector<const Node*> left_;  // each after those whose outputs it needs
  std::vector<LayerPtr> layers_;
};

}  // namespace

std::vector<LayerPtr> layers_in_graph_order(const std::vector<SymbolicTensor>& inputs,
                                            const std::vector<SymbolicTensor>& outputs) {
  const GraphSearch search(inputs, outputs);
  std::vector<LayerPtr> layers = search.layers();
  const auto distances = search.distances();
  std::ranges::stable_sort(layers, std::ranges::greater(),
                           [&](const LayerPtr& layer) { return distances.at(layer.get()); });
  return layers;
}

std::vector<const Node*> calls_in_graph_order(const std::vector<SymbolicTensor>& inputs,
                                              const std::vector<SymbolicTensor>& outputs) {
  return GraphSearch(inputs, outputs).calls();
}

}  // namespace tutti::keras
