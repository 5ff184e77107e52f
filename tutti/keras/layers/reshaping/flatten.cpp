#include "tutti/keras/layers/reshaping/flatten.h"

namespace tutti::keras::layers {
namespace {

class FlattenImpl : public LayerImpl {
 public:
  explicit FlattenImpl(const FlattenOptions& options)
      : LayerImpl("Flatten", options.name), data_format_(options.data_format) {}

  Tensor call(const Tensor& x, const CallOptions&) const override {
    if (x.dim() == 1) return x.unsqueeze(1);
    const bool is_first = data_format_ == DataFormat::channels_first;
    return (is_first ? x.movedim(1, -1) : x).flatten(1);
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    if (input_shape.empty()) refuse("the input is a scalar; it must have a batch dimension");
    int64_t features = 1;
    for (size_t axis = 1; axis < input_shape.size(); ++axis) {
      if (input_shape[axis] == kUnknown) return {input_shape[0], kUnknown};
      features *= input_shape[axis];
    }
    return {input_shape[0], features};
  }

 private:
  DataFormat data_format_;
};

}  // namespace

Flatten::Flatten(const FlattenOptions& options) : Layer(std::make_shared<FlattenImpl>(options), options) {}

}  // namespace tutti::keras::layers
