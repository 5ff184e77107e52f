#include "tutti/keras/layers/preprocessing/discretization.h"

#include <ATen/ops/bucketize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <span>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/encode_ids_internal.h"
#include "tutti/keras/layers/preprocessing/quantile_summary_internal.h"
#include "tutti/tensor/call_recorder.h"

namespace tutti::keras::layers {

class Discretization::Impl : public LayerImpl {
 public:
  InputCast input_cast() const override { return InputCast::none; }

  explicit Impl(const DiscretizationOptions& options)
      : LayerImpl("Discretization", options.name), options_(options), summary_(options.epsilon) {
    const auto& [boundaries, num_bins, epsilon, mode, name] = options_;
    if (boundaries.has_value() == num_bins.has_value())
      refuse("either bin_boundaries or num_bins must be given, and not both");
    if (num_bins && *num_bins < 1) refuse(str("num_bins is ", *num_bins, "; it must be positive"));
    if (!(epsilon > 0 && epsilon <= 1)) refuse(str("epsilon is ", epsilon, "; it must be in (0, 1]"));
    if (mode == OutputMode::tf_idf) refuse("OutputMode::tf_idf needs a vocabulary; IntegerLookup has one");
    if (boundaries && !std::ranges::is_sorted(*boundaries))
      refuse(str("bin_boundaries are ", str_list(*boundaries), "; they must ascend"));
    if (boundaries) boundaries_ = *boundaries;
  }

  const std::optional<std::vector<float>>& boundaries() const { return boundaries_; }

  void reset() { summary_ = QuantileSummary(options_.epsilon); }

  void update(const Tensor& batch) {
    if (!options_.num_bins) refuse("adapt() would replace the bin_boundaries of the options; give num_bins instead");
    Tensor numbers = batch.detach().to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true).contiguous();
    if (numbers.numel() == 0) return;
    summary_.add(std::span(numbers.mutable_data_ptr<float>(), static_cast<size_t>(numbers.numel())));
  }

  void finalize() {
    if (summary_.empty()) throw Error(ErrorCode::failed_precondition, str(name(), ": adapt() found no number"));
    boundaries_ = summary_.boundaries(*options_.num_bins);
    DiscretizationOptions found = options_;
    found.bin_boundaries = boundaries_;
    found.num_bins.reset();
    tell_made_from(found);
    reset();
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    if (!boundaries_)
      throw Error(ErrorCode::failed_precondition, str(name(), ": there are no bin_boundaries; call adapt() first"));
    const Tensor numbers = x.detach().to(at::kFloat);
    return encode_ids(at::bucketize(numbers, boundaries_for(numbers), /*out_int32=*/false, /*right=*/true),
                      {.mode = options_.output_mode, .num_columns = num_bins()});
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    return encoded_shape(input_shape, options_.output_mode, num_bins());
  }

 private:
  // Those that adapt() has found when the layer runs, in a replay too.
  Tensor boundaries_for(const Tensor& numbers) const {
    if (!CallRecorder::current()) return at::tensor(*boundaries_, numbers.options());
    const Tensor boundaries = at::empty({static_cast<int64_t>(boundaries_->size())}, numbers.options());
    host_step("bin_boundaries", boundaries, boundaries, [this](at::ArrayRef<Tensor> inputs) {
      const Tensor now = at::tensor(*boundaries_);
      if (now.sizes() != inputs[0].sizes())
        refuse("adapt() has found another number of bins since the layer was recorded; compile the model anew");
      Tensor(inputs[0]).copy_(now);
    });
    return boundaries;
  }

  int64_t num_bins() const { return boundaries_ ? static_cast<int64_t>(boundaries_->size()) + 1 : *options_.num_bins; }

  DiscretizationOptions options_;
  std::optional<std::vector<float>> boundaries_;
  QuantileSummary summary_;  // of the adaptation under way
};

Discretization::Discretization(const DiscretizationOptions& options)
    : Layer(std::make_shared<Impl>(options), options) {}

Discretization::Impl& Discretization::state() const { return static_cast<Impl&>(*impl()); }

void Discretization::adapt(const Tensor& numbers) {
  reset_state();
  update_state(numbers);
  finalize_state();
}

void Discretization::reset_state() { state().reset(); }
void Discretization::update_state(const Tensor& batch) { state().update(batch); }
void Discretization::finalize_state() { state().finalize(); }

std::vector<float> Discretization::bin_boundaries() const {
  return state().boundaries().value_or(std::vector<float>());
}

}  // namespace tutti::keras::layers
