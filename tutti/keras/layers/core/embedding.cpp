#include "tutti/keras/layers/core/embedding.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/embedding.h>

#include "tutti/core/str.h"
#include "tutti/tensor/call_recorder.h"

namespace tutti::keras::layers {
namespace {

class EmbeddingImpl : public LayerImpl {
 public:
  explicit EmbeddingImpl(const EmbeddingOptions& options) : LayerImpl("Embedding", options.name), options_(options) {
    if (options_.input_dim <= 0 || options_.output_dim <= 0)
      refuse(tutti::str("input_dim is ", options_.input_dim, ", output_dim ", options_.output_dim,
                        "; both must be positive"));
    regularize_activity(options_.activity_regularizer);
  }

  void build(const Shape&) override {
    embeddings_ =
        add_weight("embeddings", {options_.input_dim, options_.output_dim},
                   {.initializer = options_.embeddings_initializer, .regularizer = options_.embeddings_regularizer});
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    const at::ScalarType dtype = x.scalar_type();
    if (x.is_cpu() && x.numel() > 0)
      host_step("check_range", x, {}, [this](at::ArrayRef<Tensor> inputs) { check_range(inputs[0]); });
    const bool is_index = dtype == at::kLong || dtype == at::kInt;
    return at::embedding(embeddings_, is_index ? x : x.to(at::kLong));
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    Shape shape = input_shape;
    shape.push_back(options_.output_dim);
    return shape;
  }

  InputCast input_cast() const override { return InputCast::none; }

  std::vector<Tensor> compute_masks(const std::vector<Tensor>& inputs, const std::vector<Tensor>&) const override {
    if (!options_.mask_zero) return {};
    return {inputs[0] != 0};
  }

 private:
  void check_range(const Tensor& x) const {
    if (x.is_floating_point() && !x.eq(x.trunc()).all().item<bool>())
      refuse(tutti::str("the input has dtype ", c10::toString(x.scalar_type()),
                        " and numbers that are not whole; ids are required"));
    const auto [min, max] = at::aminmax(x);
    const auto lowest = min.item<int64_t>(), highest = max.item<int64_t>();
    if (lowest < 0 || highest >= options_.input_dim)
      refuse(tutti::str("the input has ids from ", lowest, " to ", highest, "; input_dim ", options_.input_dim,
                        " allows 0 to ", options_.input_dim - 1));
  }

  EmbeddingOptions options_;
  Tensor embeddings_;
};

}  // namespace

Embedding::Embedding(const EmbeddingOptions& options) : Layer(std::make_shared<EmbeddingImpl>(options), options) {}

}  // namespace tutti::keras::layers
