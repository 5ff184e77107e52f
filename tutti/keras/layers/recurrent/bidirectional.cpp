#include "tutti/keras/layers/recurrent/bidirectional.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <string_view>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/layers/recurrent/recurrent_internal.h"

namespace tutti::keras::layers {
namespace {

const RecurrentImpl& recurrent(const Layer& layer) {
  const auto* const impl = dynamic_cast<const RecurrentImpl*>(layer.impl().get());
  if (!impl)
    throw Error(ErrorCode::invalid_argument,
                tutti::str("bidirectional: the layer ", layer.name(), " is none of SimpleRNN, LSTM and GRU"));
  return *impl;
}

// Without what Bidirectional itself puts before it.
std::string undirected(const std::string& name) {
  constexpr std::string_view kForward = "forward_";
  return name.starts_with(kForward) ? name.substr(kForward.size()) : name;
}

class BidirectionalImpl : public LayerImpl {
 public:
  BidirectionalImpl(const RecurrentImpl& layer, const BidirectionalOptions& options)
      : LayerImpl("Bidirectional", options.name),
        mode_(options.merge_mode),
        forward_(layer.twin("forward_" + undirected(layer.name()), layer.go_backwards())),
        backward_(layer.twin("backward_" + undirected(layer.name()), !layer.go_backwards())) {
    adopt(forward_);
    adopt(backward_);
  }

  void build_all(const std::vector<Shape>& input_shapes) override {
    (void)compute_output_shapes(input_shapes);
    for (const auto& layer : {forward_, backward_}) {
      layer->build_once({input_shapes[0]});
      track_layer(layer);
    }
  }

  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const override {
    const auto [forward_inputs, backward_inputs] = halves(inputs);
    std::vector<Tensor> outputs = forward_->outputs(forward_inputs, options);
    std::vector<Tensor> reversed = backward_->outputs(backward_inputs, options);
    if (forward_->return_sequences()) reversed[0] = reversed[0].flip(1);
    std::vector<Tensor> result = merge(outputs[0], reversed[0]);
    result.insert(result.end(), outputs.begin() + 1, outputs.end());
    result.insert(result.end(), reversed.begin() + 1, reversed.end());
    return result;
  }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const override {
    const auto [forward_inputs, backward_inputs] = halves(input_shapes);
    std::vector<Shape> result = forward_->compute_output_shapes(forward_inputs);
    const std::vector<Shape> reversed = backward_->compute_output_shapes(backward_inputs);
    if (mode_ == MergeMode::concat) result[0].back() *= 2;
    if (mode_ == MergeMode::none) result.insert(result.begin() + 1, reversed[0]);
    result.insert(result.end(), reversed.begin() + 1, reversed.end());
    return result;
  }

  std::vector<Tensor> compute_masks(const std::vector<Tensor>&, const std::vector<Tensor>& masks) const override {
    if (masks.empty() || !forward_->return_sequences()) return {};
    return std::vector<Tensor>(mode_ == MergeMode::none ? 2 : 1, masks[0]);
  }

 private:
  // What each direction gets: the sequence, and its own first states.
  template <class T>
  std::pair<std::vector<T>, std::vector<T>> halves(const std::vector<T>& inputs) const {
    const size_t num_states = forward_->num_states();
    if (inputs.size() == 1) return {inputs, inputs};
    if (inputs.size() != 1 + 2 * num_states)
      refuse(
          tutti::str("takes a sequence, or one and ", 2 * num_states, " first states, not ", inputs.size(), " inputs"));
    const auto middle = inputs.begin() + 1 + static_cast<std::ptrdiff_t>(num_states);
    std::vector<T> backward{inputs[0]};
    backward.insert(backward.end(), middle, inputs.end());
    return {{inputs.begin(), middle}, std::move(backward)};
  }

  std::vector<Tensor> merge(const Tensor& a, const Tensor& b) const {
    switch (mode_) {
      case MergeMode::concat: return {at::cat({a, b}, -1)};
      case MergeMode::sum: return {a + b};
      case MergeMode::mul: return {a * b};
      case MergeMode::ave: return {(a + b) / 2};
      case MergeMode::none: break;
    }
    return {a, b};
  }

  MergeMode mode_;
  std::shared_ptr<RecurrentImpl> forward_;
  std::shared_ptr<RecurrentImpl> backward_;
};

}  // namespace

Bidirectional::Bidirectional(const Layer& layer, const BidirectionalOptions& options)
    : Layer(std::make_shared<BidirectionalImpl>(recurrent(layer), options), options) {}

}  // namespace tutti::keras::layers
