#include "tutti/keras/layers/regularization/dropout.h"

#include <ATen/ops/dropout.h>

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

class DropoutImpl : public LayerImpl {
 public:
  explicit DropoutImpl(const DropoutOptions& options) : LayerImpl("Dropout", options.name), rate_(options.rate) {
    if (!(rate_ >= 0 && rate_ <= 1)) refuse(str("rate is ", rate_, "; it must lie in [0, 1]"));
  }

  Tensor call(const Tensor& x, const CallOptions& options) const override {
    return options.training && rate_ > 0 ? at::dropout(x, rate_, /*train=*/true) : x;
  }

  Shape compute_output_shape(const Shape& input_shape) const override { return input_shape; }

 private:
  double rate_;
};

}  // namespace

Dropout::Dropout(const DropoutOptions& options) : Layer(std::make_shared<DropoutImpl>(options)) {}

}  // namespace tutti::keras::layers
