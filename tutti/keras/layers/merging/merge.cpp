#include "tutti/keras/layers/merging/merge.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layers/merging/merged_shapes_internal.h"

namespace tutti::keras::layers {
namespace {

using Combine = Tensor (*)(const Tensor& a, const Tensor& b);

class MergeImpl : public LayerImpl {
 public:
  MergeImpl(const char* type, const MergeOptions& options, Combine combine, size_t num_inputs = 0)
      : LayerImpl(type, options.name), combine_(combine), num_inputs_(num_inputs) {}

  void build_all(const std::vector<Shape>& input_shapes) override { (void)compute_output_shapes(input_shapes); }

  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const override {
    check_count(inputs.size());
    const int64_t rank = std::ranges::max(inputs, {}, &Tensor::dim).dim();
    Tensor result = with_rank(inputs[0], rank);
    Tensor counts = spread(options.mask(0), result);
    for (size_t i = 1; i < inputs.size(); ++i) {
      Tensor next = with_rank(inputs[i], rank);
      if (result.size(0) != next.size(0) && result.size(0) != 1 && next.size(0) != 1)
        refuse(str("the inputs have ", result.size(0), " and ", next.size(0), " samples"));
      const Tensor next_counts = spread(options.mask(i), next);
      if (next_counts.defined()) next = at::where(next_counts, next, result);
      if (counts.defined()) result = at::where(counts, result, next);
      counts = counts.defined() && next_counts.defined() ? counts.logical_or(next_counts) : Tensor();
      result = combine_(result, next);
    }
    return {finish(result, static_cast<double>(inputs.size()))};
  }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const override {
    check_count(input_shapes.size());
    Shape merged = input_shapes[0];
    for (size_t i = 1; i < input_shapes.size(); ++i) {
      const auto next = merged_shape(merged, input_shapes[i]);
      if (!next)
        refuse(str("the inputs have shapes ", to_string(merged), " and ", to_string(input_shapes[i]),
                   ", which do not fit each other"));
      merged = *next;
    }
    return {merged};
  }

  bool supports_masking() const override { return true; }

  std::vector<Tensor> compute_masks(const std::vector<Tensor>& inputs,
                                    const std::vector<Tensor>& masks) const override {
    if (masks.size() != inputs.size() || !std::ranges::all_of(masks, &Tensor::defined)) return {};
    Tensor mask = masks[0];
    for (size_t i = 1; i < masks.size(); ++i) mask = mask.logical_or(masks[i]);
    return {mask};
  }

 protected:
  virtual Tensor finish(const Tensor& combined, double /*num_inputs*/) const { return combined; }

 private:
  void check_count(size_t num_inputs) const {
    if (num_inputs == 0 || (num_inputs_ > 0 && num_inputs != num_inputs_))
      refuse(str("takes ", num_inputs_ > 0 ? str(num_inputs_, " inputs") : "a list of inputs", ", not ", num_inputs));
  }

  static Tensor with_rank(Tensor x, int64_t rank) {
    while (x.dim() < rank) x = x.unsqueeze(1);
    return x;
  }

  // The mask with an extent of 1 for each axis that it lacks.
  static Tensor spread(Tensor mask, const Tensor& x) {
    while (mask.defined() && mask.dim() < x.dim()) mask = mask.unsqueeze(-1);
    return mask;
  }

  Combine combine_;
  size_t num_inputs_;
};

class AverageImpl : public MergeImpl {
 public:
  using MergeImpl::MergeImpl;
  Tensor finish(const Tensor& combined, double num_inputs) const override { return combined / num_inputs; }
};

Tensor add(const Tensor& a, const Tensor& b) { return a + b; }
Tensor subtract(const Tensor& a, const Tensor& b) { return a - b; }
Tensor multiply(const Tensor& a, const Tensor& b) { return a * b; }

}  // namespace

Add::Add(const MergeOptions& options) : Layer(std::make_shared<MergeImpl>("Add", options, add), options) {}
Subtract::Subtract(const MergeOptions& options)
    : Layer(std::make_shared<MergeImpl>("Subtract", options, subtract, /*num_inputs=*/2), options) {}
Multiply::Multiply(const MergeOptions& options)
    : Layer(std::make_shared<MergeImpl>("Multiply", options, multiply), options) {}
Average::Average(const MergeOptions& options)
    : Layer(std::make_shared<AverageImpl>("Average", options, add), options) {}
Maximum::Maximum(const MergeOptions& options)
    : Layer(std::make_shared<MergeImpl>("Maximum", options, at::maximum), options) {}
Minimum::Minimum(const MergeOptions& options)
    : Layer(std::make_shared<MergeImpl>("Minimum", options, at::minimum), options) {}

}  // namespace tutti::keras::layers
