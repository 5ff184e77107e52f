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

// What counts by either mask; undefined, which hides nothing, if one of them is.
Tensor either(const Tensor& a, const Tensor& b) { return a.defined() && b.defined() ? a.logical_or(b) : Tensor(); }

class MergeImpl : public LayerImpl {
 public:
  MergeImpl(const char* type, const MergeOptions& options, Combine combine, size_t num_inputs = 0)
      : LayerImpl(type, options.name), combine_(combine), num_inputs_(num_inputs) {}

  void build_all(const std::vector<Shape>& input_shapes) override { (void)compute_output_shapes(input_shapes); }

  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const override {
    check_count(inputs.size());
    const int64_t rank = std::ranges::max(inputs, {}, &Tensor::dim).dim();
    std::vector<MaskedTensor> operands;
    for (size_t i = 0; i < inputs.size(); ++i) {
      operands.push_back({.tensor = with_rank(inputs[i], rank)});
      if (inputs[i].dim() == rank) operands[i].mask = spread(options.mask(i), rank);
    }
    check_samples(inputs);
    return {merged(operands)};
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
    if (masks.size() != inputs.size()) return {};
    Tensor counts = masks[0];
    for (size_t i = 1; i < masks.size(); ++i) counts = either(counts, masks[i]);
    return {counts};
  }

 protected:
  // Of operands of one rank, whose masks, where there are some, have it too. By itself masks make no difference.
  virtual Tensor merged(const std::vector<MaskedTensor>& operands) const {
    Tensor result = operands[0].tensor;
    for (size_t i = 1; i < operands.size(); ++i) result = combine_(result, operands[i].tensor);
    return result;
  }

  Tensor combined(const Tensor& a, const Tensor& b) const { return combine_(a, b); }

 private:
  void check_count(size_t num_inputs) const {
    if (num_inputs == 0 || (num_inputs_ > 0 && num_inputs != num_inputs_))
      refuse(str("takes ", num_inputs_ > 0 ? str(num_inputs_, " inputs") : "a list of inputs", ", not ", num_inputs));
  }

  void check_samples(const std::vector<Tensor>& inputs) const {
    int64_t num_samples = 1;
    for (const Tensor& x : inputs) {
      if (num_samples != 1 && x.size(0) != 1 && x.size(0) != num_samples)
        refuse(str("the inputs have ", num_samples, " and ", x.size(0), " samples"));
      if (x.size(0) != 1) num_samples = x.size(0);
    }
  }

  static Tensor with_rank(Tensor x, int64_t rank) {
    while (x.dim() < rank) x = x.unsqueeze(1);
    return x;
  }

  // The mask with an extent of 1 for each axis that it lacks.
  static Tensor spread(Tensor mask, int64_t rank) {
    while (mask.defined() && mask.dim() < rank) mask = mask.unsqueeze(-1);
    return mask;
  }

  Combine combine_;
  size_t num_inputs_;
};

class AverageImpl : public MergeImpl {
 public:
  using MergeImpl::MergeImpl;
  Tensor merged(const std::vector<MaskedTensor>& operands) const override {
    return MergeImpl::merged(operands) / static_cast<double>(operands.size());
  }
};

class MultiplyImpl : public MergeImpl {
 public:
  using MergeImpl::MergeImpl;
  Tensor merged(const std::vector<MaskedTensor>& operands) const override {
    std::vector<MaskedTensor> factors = operands;
    Tensor counts = operands[0].mask;
    for (auto& [x, mask] : factors) {
      if (mask.defined()) x = x.masked_fill(mask.logical_not(), 1);
      counts = either(counts, mask);
    }
    const Tensor product = MergeImpl::merged(factors);
    return counts.defined() ? product.masked_fill(counts.logical_not(), 0) : product;
  }
};

// Of operations that no number leaves as it is: in the place of a hidden step another input stands in.
class ExtremeImpl : public MergeImpl {
 public:
  using MergeImpl::MergeImpl;
  Tensor merged(const std::vector<MaskedTensor>& operands) const override {
    auto [result, counts] = operands[0];
    for (size_t i = 1; i < operands.size(); ++i) {
      auto [next, next_counts] = operands[i];
      if (next_counts.defined()) next = at::where(next_counts, next, result);
      if (counts.defined()) result = at::where(counts, result, next);
      counts = either(counts, next_counts);
      result = combined(result, next);
    }
    return result;
  }
};

Tensor add(const Tensor& a, const Tensor& b) { return a + b; }
Tensor subtract(const Tensor& a, const Tensor& b) { return a - b; }
Tensor multiply(const Tensor& a, const Tensor& b) { return a * b; }

}  // namespace

Add::Add(const MergeOptions& options) : Layer(std::make_shared<MergeImpl>("Add", options, add), options) {}
Subtract::Subtract(const MergeOptions& options)
    : Layer(std::make_shared<MergeImpl>("Subtract", options, subtract, /*num_inputs=*/2), options) {}
Multiply::Multiply(const MergeOptions& options)
    : Layer(std::make_shared<MultiplyImpl>("Multiply", options, multiply), options) {}
Average::Average(const MergeOptions& options)
    : Layer(std::make_shared<AverageImpl>("Average", options, add), options) {}
Maximum::Maximum(const MergeOptions& options)
    : Layer(std::make_shared<ExtremeImpl>("Maximum", options, at::maximum), options) {}
Minimum::Minimum(const MergeOptions& options)
    : Layer(std::make_shared<ExtremeImpl>("Minimum", options, at::minimum), options) {}

}  // namespace tutti::keras::layers
