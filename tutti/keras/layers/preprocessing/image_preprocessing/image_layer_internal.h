#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "tutti/distribute/per_replica_slot.h"
#include "tutti/keras/layers/formatted_layer_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_draws_internal.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

constexpr FactorRange kBytes(0, 255);

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

  // Throws: invalid_argument for a range of values without any between.
  void check_value_range(const FactorRange& range) const;
  // Throws: invalid_argument for images that have not one of these numbers of channels.
  void check_colors(const Tensor& images, std::initializer_list<int64_t> channels) const;
};

// One that changes images at random while the model is trained, and gives them in floating point in any case.
class RandomImageLayerImpl : public ImageLayerImpl {
 public:
  RandomImageLayerImpl(std::string type, std::string name, DataFormat data_format, std::optional<uint64_t> seed);

  // Of images [batch, height, width, channels] in floating point, none of the extents 0.
  virtual Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const = 0;

 protected:
  // While the model is not trained.
  virtual Tensor transform_always(const Tensor& images) const { return images; }

  // Throws: invalid_argument unless the range lies in [lowest, highest].
  void check_range(const char* option, const FactorRange& range, double lowest, double highest) const;

 private:
  Tensor transform(const Tensor& images, bool training) const final;

  std::optional<uint64_t> seed_;
  mutable PerReplicaSlot<std::atomic<uint64_t>> num_calls_;  // several threads may map a dataset
};

}  // namespace tutti::keras::layers
