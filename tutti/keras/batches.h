#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <tuple>
#include <utility>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras {

// One global batch. Shapes: x [N, ...], y [N, ...], sample_weight undefined (all samples count alike) or [N].
struct Batch {
  Tensor x;
  Tensor y;
  Tensor sample_weight = {};

  int64_t size() const { return x.size(0); }
};

struct TensorBatchesOptions {
  int64_t batch_size = 32;
  bool shuffle = false;  // in a new order in every pass, from LibTorch's default generator
};

// What fit, evaluate and predict read: a source of batches that can be read any number of times.
class Batches {
 public:
  // Returns the batches of one pass, one per call, then nullopt.
  using Next = std::function<std::optional<Batch>()>;

  // Any range of tuples (x, y) or (x, y, sample_weight) of tensors that are batches already: a data::Dataset, a vector.
  // The range is kept by value and read from its begin() in each pass.
  template <std::ranges::input_range Range>
  requires requires { std::tuple_size<std::ranges::range_value_t<Range>>::value; }
  Batches(Range range)
      : open_([range = std::make_shared<const Range>(std::move(range))]() -> Next { return next_of(range); }) {}

  // Consecutive slices of whole tensors; the last one may be shorter. y and sample_weight may be undefined.
  // Throws: invalid_argument unless all have one first extent and batch_size is positive.
  static Batches from_tensors(const Tensor& x, const Tensor& y, const Tensor& sample_weight,
                              const TensorBatchesOptions& options);

  // Starts a pass.
  Next begin() const { return open_(); }

 private:
  explicit Batches(std::function<Next()> open) : open_(std::move(open)) {}

  template <class Range>
  static Next next_of(std::shared_ptr<const Range> range) {
    auto position = std::make_shared<decltype(std::ranges::begin(*range))>(std::ranges::begin(*range));
    return [range, position]() -> std::optional<Batch> {
      if (*position == std::ranges::end(*range)) return std::nullopt;
      Batch batch = std::apply([](auto&&... parts) { return Batch{parts...}; }, **position);
      ++*position;
      return batch;
    };
  }

  std::function<Next()> open_;
};

}  // namespace tutti::keras
