#include "tutti/keras/layers/core/dense.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/matmul.h>

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

class DenseImpl : public LayerImpl {
 public:
  explicit DenseImpl(const DenseOptions& options) : LayerImpl("Dense", options.name), options_(options) {
    if (options_.units <= 0) refuse(str("units is ", options_.units, "; it must be positive"));
    regularize_activity(options_.activity_regularizer);
  }

  void build(const Shape& input_shape) override {
    check(input_shape);
    if (input_shape.back() == kUnknown) refuse("the input's last extent must be known when the layer is built");
    kernel_ = add_weight("kernel", {input_shape.back(), options_.units},
                         {.initializer = options_.kernel_initializer,
                          .regularizer = options_.kernel_regularizer,
                          .constraint = options_.kernel_constraint});
    if (options_.use_bias)
      bias_ = add_weight("bias", {options_.units},
                         {.initializer = options_.bias_initializer,
                          .regularizer = options_.bias_regularizer,
                          .constraint = options_.bias_constraint});
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    check(x.sizes());
    return options_.activation(linear(x));
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    check(input_shape);
    Shape output_shape = input_shape;
    output_shape.back() = options_.units;
    return output_shape;
  }
  bool supports_masking() const override { return true; }
  InputCast input_cast() const override { return InputCast::numbers; }

 private:
  void check(at::IntArrayRef shape) const {
    if (shape.size() < 2) refuse(str("the input has shape ", to_string(shape), "; it must be [batch, ..., features]"));
    if (kernel_.defined() && shape.back() != kUnknown && shape.back() != kernel_.size(0))
      refuse(str("the input has shape ", to_string(shape), "; the layer was built for a last extent of ",
                 kernel_.size(0)));
  }

  Tensor linear(const Tensor& x) const {
    if (!options_.use_bias) return at::matmul(x, kernel_);
    return x.dim() == 2 ? at::addmm(bias_, x, kernel_) : at::matmul(x, kernel_) + bias_;
  }

  DenseOptions options_;
  Tensor kernel_;
  Tensor bias_;
};

}  // namespace

Dense::Dense(const DenseOptions& options) : Layer(std::make_shared<DenseImpl>(options), options) {}

}  // namespace tutti::keras::layers
