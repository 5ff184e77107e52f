#include "tutti/keras/layers/reshaping/reshape.h"

#include <algorithm>
#include <numeric>

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

class ReshapeImpl : public LayerImpl {
 public:
  explicit ReshapeImpl(const ReshapeOptions& options)
      : LayerImpl("Reshape", options.name), target_shape_(options.target_shape) {
    const bool any_below = std::ranges::any_of(target_shape_, [](int64_t extent) { return extent < -1; });
    if (any_below || std::ranges::count(target_shape_, kLeftOver) > 1)
      refuse(
          str("target_shape is ", str_list(target_shape_), "; one extent may be -1, none may be negative otherwise"));
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    return x.reshape(compute_output_shape(x.sizes().vec()));
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    if (input_shape.empty()) refuse("the input is a scalar; it must have a batch dimension");
    Shape shape{input_shape.front()};
    shape.insert(shape.end(), target_shape_.begin(), target_shape_.end());
    if (std::ranges::count(input_shape.begin() + 1, input_shape.end(), kUnknown) > 0) return shape;
    const int64_t num = std::accumulate(input_shape.begin() + 1, input_shape.end(), int64_t{1}, std::multiplies());
    int64_t num_named = 1;
    for (const int64_t extent : target_shape_)
      if (extent != kLeftOver) num_named *= extent;
    const auto left_over = std::find(shape.begin() + 1, shape.end(), kLeftOver);
    const bool fits = left_over == shape.end() ? num == num_named : num_named != 0 && num % num_named == 0;
    if (!fits)
      refuse(str("the input has shape ", to_string(input_shape), ", ", num, " elements a sample; they do not fit ",
                 str_list(target_shape_)));
    if (left_over != shape.end()) *left_over = num / num_named;
    return shape;
  }

 private:
  static constexpr int64_t kLeftOver = -1;  // and kUnknown, which it stays where the input's shape is not known
  static_assert(kLeftOver == kUnknown);

  Shape target_shape_;
};

class PermuteImpl : public LayerImpl {
 public:
  explicit PermuteImpl(const PermuteOptions& options) : LayerImpl("Permute", options.name), order_{0} {
    order_.insert(order_.end(), options.dims.begin(), options.dims.end());
    std::vector<int64_t> all(order_.size());
    std::iota(all.begin(), all.end(), 0);
    if (!std::ranges::is_permutation(order_, all))
      refuse(str("dims is ", str_list(options.dims), "; it must have each axis from 1 on once"));
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    check_rank(x.sizes());
    return x.permute(order_);
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    check_rank(input_shape);
    Shape shape;
    for (const int64_t axis : order_) shape.push_back(input_shape[static_cast<size_t>(axis)]);
    return shape;
  }

 private:
  void check_rank(at::IntArrayRef shape) const {
    if (shape.size() != order_.size())
      refuse(str("the input has shape ", to_string(shape), "; it must have ", order_.size() - 1,
                 " axes besides the batch"));
  }

  std::vector<int64_t> order_;
};

class RepeatVectorImpl : public LayerImpl {
 public:
  explicit RepeatVectorImpl(const RepeatVectorOptions& options)
      : LayerImpl("RepeatVector", options.name), n_(options.n) {
    if (n_ <= 0) refuse(str("n is ", n_, "; it must be positive"));
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    return x.unsqueeze(1).expand(compute_output_shape(x.sizes().vec()));
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    if (input_shape.size() != 2)
      refuse(str("the input has shape ", to_string(input_shape), "; it must be [batch, features]"));
    return {input_shape[0], n_, input_shape[1]};
  }

 private:
  int64_t n_;
};

}  // namespace

Reshape::Reshape(const ReshapeOptions& options) : Layer(std::make_shared<ReshapeImpl>(options), options) {}
Permute::Permute(const PermuteOptions& options) : Layer(std::make_shared<PermuteImpl>(options), options) {}
RepeatVector::RepeatVector(const RepeatVectorOptions& options)
    : Layer(std::make_shared<RepeatVectorImpl>(options), options) {}

}  // namespace tutti::keras::layers
