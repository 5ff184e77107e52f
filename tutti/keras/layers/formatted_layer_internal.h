#pragma once

#include <string>
#include <vector>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer_impl.h"

namespace tutti::keras::layers {

// A layer of one input and one output with a data_format. What derives from it overrides build, call and
// compute_output_shape for channels that are the last axis; where they are the first one, it sees a view, and the
// result is a view of what it returns. A result of fewer axes than the input has is left as it is.
class FormattedImpl : public LayerImpl {
 public:
  FormattedImpl(std::string type, std::string name, DataFormat data_format, size_t spatial_rank)
      : LayerImpl(std::move(type), std::move(name)), data_format_(data_format), spatial_rank_(spatial_rank) {}

  void build_all(const std::vector<Shape>& input_shapes) final;
  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const final;
  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const final;

 protected:
  void build(const Shape& input_shape) override { (void)compute_output_shape(input_shape); }
  Shape compute_output_shape(const Shape& input_shape) const override = 0;

 private:
  bool is_moved(size_t rank) const { return data_format_ == DataFormat::channels_first && rank > spatial_rank_; }
  Shape with_channels_last(Shape shape) const;

  DataFormat data_format_;
  size_t spatial_rank_;
};

}  // namespace tutti::keras::layers
