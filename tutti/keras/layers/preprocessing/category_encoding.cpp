#include "tutti/keras/layers/preprocessing/category_encoding.h"

#include <ATen/ops/aminmax.h>

#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/encode_ids_internal.h"
#include "tutti/keras/layers/preprocessing/input_dtype_internal.h"
#include "tutti/tensor/call_recorder.h"

namespace tutti::keras::layers {

class CategoryEncoding::Impl : public LayerImpl {
 public:
  InputCast input_cast() const override { return InputCast::none; }

  explicit Impl(const CategoryEncodingOptions& options)
      : LayerImpl("CategoryEncoding", options.name), options_(options) {
    if (options_.num_tokens <= 0) refuse(str("num_tokens is ", options_.num_tokens, "; it must be positive"));
    if (options_.output_mode == OutputMode::int_ || options_.output_mode == OutputMode::tf_idf)
      refuse("the output mode must be OutputMode::one_hot, multi_hot or count");
  }

  Tensor call(const Tensor& x, const CallOptions&) const override { return encode(x, {}); }

  Tensor call(const Tensor& x, const Tensor& weights) const {
    if (options_.output_mode != OutputMode::count) refuse("count_weights are for OutputMode::count only");
    if (weights.sizes() != x.sizes())
      refuse(str("count_weights have shape ", to_string(weights.sizes()), ", the input ", to_string(x.sizes()),
                 "; the shapes must be equal"));
    return encode(x, weights);
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    return encoded_shape(input_shape, options_.output_mode, options_.num_tokens);
  }

 private:
  Tensor encode(const Tensor& x, const Tensor& weights) const {
    const Tensor categories = integers(x, name());
    check_range(categories);
    return encode_ids(categories,
                      {.mode = options_.output_mode, .num_columns = options_.num_tokens, .weights = weights});
  }

  void check_range(const Tensor& categories) const {
    if (categories.numel() == 0) return;
    host_step("check_range", categories, {}, [this](at::ArrayRef<Tensor> inputs) {
      const auto [min, max] = at::aminmax(inputs[0]);
      const auto lowest = min.item<int64_t>(), highest = max.item<int64_t>();
      if (lowest < 0 || highest >= options_.num_tokens)
        refuse(str("the input has categories from ", lowest, " to ", highest, "; num_tokens ", options_.num_tokens,
                   " allows 0 to ", options_.num_tokens - 1));
    });
  }

  CategoryEncodingOptions options_;
};

CategoryEncoding::CategoryEncoding(const CategoryEncodingOptions& options)
    : Layer(std::make_shared<Impl>(options), options) {}

CategoryEncoding::Impl& CategoryEncoding::state() const { return static_cast<Impl&>(*impl()); }

Tensor CategoryEncoding::operator()(const Tensor& x, const Tensor& count_weights) const {
  return state().call(x, count_weights);
}

}  // namespace tutti::keras::layers
