#include "tutti/keras/layers/preprocessing/hashing.h"

#include <ATen/ops/empty.h>

#include <span>
#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/encode_ids_internal.h"
#include "tutti/keras/layers/preprocessing/hash_bucket_internal.h"
#include "tutti/keras/layers/preprocessing/input_dtype_internal.h"
#include "tutti/keras/layers/preprocessing/step_recorder.h"
#include "tutti/tensor/call_recorder.h"

namespace tutti::keras::layers {

class Hashing::Impl : public LayerImpl {
 public:
  InputCast input_cast() const override { return InputCast::none; }

  explicit Impl(const HashingOptions& options) : LayerImpl("Hashing", options.name), options_(options) {
    if (options_.num_bins <= 0) refuse(str("num_bins is ", options_.num_bins, "; it must be positive"));
    if (options_.output_mode == OutputMode::tf_idf)
      refuse("OutputMode::tf_idf needs a vocabulary; StringLookup has one");
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    if (std::holds_alternative<std::string>(options_.mask_value))
      refuse("mask_value is text, the input integers; give an integer");
    if (StepRecorder* const recorder = StepRecorder::current()) return std::get<Tensor>(recorder->step(options_, {x}));
    const Tensor values = integers(x, name()).cpu().contiguous();
    reads_memory(name().c_str());
    return bins(std::span(values.const_data_ptr<int64_t>(), static_cast<size_t>(x.numel())), x.sizes().vec());
  }

  Tensor call(const Strings& x) const {
    if (std::holds_alternative<int64_t>(options_.mask_value))
      refuse("mask_value is an integer, the input text; give text");
    if (StepRecorder* const recorder = StepRecorder::current()) return std::get<Tensor>(recorder->step(options_, {x}));
    return bins(x.values(), x.shape());
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    return encoded_shape(input_shape, options_.output_mode, options_.num_bins);
  }

 private:
  template <class T>
  Tensor bins(std::span<const T> values, const Shape& shape) const {
    const T* const mask = std::get_if<T>(&options_.mask_value);
    const int64_t first_bin = mask && options_.num_bins > 1 ? 1 : 0;  // a single bin is that of the mask too
    Tensor ids = at::empty(shape, at::kLong);
    auto* out = ids.mutable_data_ptr<int64_t>();
    for (const T& value : values)
      *out++ =
          mask && value == *mask ? 0 : first_bin + hash_bucket(value, options_.num_bins - first_bin, options_.salt);
    return encode_ids(ids, {.mode = options_.output_mode, .num_columns = options_.num_bins});
  }

  HashingOptions options_;
};

Hashing::Hashing(const HashingOptions& options) : Layer(std::make_shared<Impl>(options), options) {}

Hashing::Impl& Hashing::state() const { return static_cast<Impl&>(*impl()); }

Tensor Hashing::operator()(const Strings& x) const { return state().call(x); }

}  // namespace tutti::keras::layers
