#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "tutti/distribute/per_replica_slot.h"
#include "tutti/keras/layers/formatted_layer_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

// A layer on images [batch, height, width, channels], or one of them, [height, width, channels].
class ImageLayerImpl : public FormattedImpl {
 public:
  ImageLayerImpl(std::string type, std::string name, DataFormat data_format)
      : FormattedImpl(std::move(type), std::move(name), data_format, /*spatial_rank=*/2) {}

  Tensor call(const Tensor& x, const CallOptions& options) const override;
  Shape compute_output_shape(const Shape& input_shape) const override;

 protected:
  // Of images [batch, height, width, channels], batch and channels kept.
  virtual Tensor transform(const Tensor& images, bool training) const = 0;
  // Height and width of the result.
  virtual Size2D output_size(const Size2D& input_size) const { return input_size; }
};

// One that changes images at random while the model is trained, and gives them in floating point in any case. Without a
// seed, numbers come from LibTorch's current generator (see set_random_seed); with one, they are a function of it, of
// the replica, and of how many draws the replica made from this layer before.
class RandomImageLayerImpl : public ImageLayerImpl {
 public:
  RandomImageLayerImpl(std::string type, std::string name, DataFormat data_format, std::optional<uint64_t> seed);

 protected:
  // Of images [batch, height, width, channels] in floating point, none of the extents 0.
  virtual Tensor transform_at_random(const Tensor& images) const = 0;
  // While the model is not trained.
  virtual Tensor transform_always(const Tensor& images) const { return images; }

  // float32 [count] in the range, on the device of `images`.
  Tensor draw(const Tensor& images, int64_t count, const FactorRange& range) const;
  // Throws: invalid_argument unless the range lies in [lowest, highest].
  void check_range(const char* option, const FactorRange& range, double lowest, double highest) const;

 private:
  Tensor transform(const Tensor& images, bool training) const final;

  std::optional<uint64_t> seed_;
  mutable PerReplicaSlot<std::atomic<uint64_t>> num_draws_;  // several threads may map a dataset
};

}  // namespace tutti::keras::layers
