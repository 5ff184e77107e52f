#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/distribute/per_replica_slot.h"
#include "tutti/keras/layers/layer_impl.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_draws_internal.h"

namespace tutti::keras::layers {

// A layer that mixes the images of a batch with each other, and their labels alike, while the model is trained.
class MixingLayerImpl : public LayerImpl {
 public:
  MixingLayerImpl(std::string type, std::string name, std::optional<uint64_t> seed)
      : LayerImpl(std::move(type), std::move(name)), seed_(seed) {}

  void build_all(const std::vector<Shape>& input_shapes) override { (void)compute_output_shapes(input_shapes); }
  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const override;
  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const override;

 protected:
  struct Mixed {
    Tensor images;
    Tensor weights;  // [batch]: how much each image has of its own
  };
  // `others` are the images that these are mixed with.
  virtual Mixed mix(const Tensor& images, const Tensor& others, RandomDraws& draws) const = 0;

 private:
  std::optional<uint64_t> seed_;
  mutable PerReplicaSlot<std::atomic<uint64_t>> num_calls_;  // several threads may map a dataset
};

}  // namespace tutti::keras::layers
