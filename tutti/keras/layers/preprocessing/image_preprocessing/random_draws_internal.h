#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"

namespace tutti::keras::layers {

// The random numbers of one call of a layer on a batch of images. Without a seed they come from LibTorch's current
// generator (see set_random_seed). With one they are a function of it, of the calls before, and of the image's place in
// the batch: while a model is trained in that of all replicas, so that their number does not matter; else each replica
// has numbers of its own.
class RandomDraws {
 public:
  RandomDraws(const Tensor& images, std::optional<uint64_t> seed, uint64_t calls_before);

  // For each image, float32 [images, shape...] on their device.
  Tensor uniform(const FactorRange& range, at::IntArrayRef shape = {});
  Tensor normal(at::IntArrayRef shape);
  Tensor beta(double alpha);  // [images], of the symmetric distribution

  // For all images.
  double one(const FactorRange& range);
  int64_t index(int64_t count);                             // below `count`
  std::vector<double> shares(int64_t count, double alpha);  // of the symmetric Dirichlet distribution: they sum to 1

 private:
  struct Seed {
    uint64_t first, second;
  };
  std::optional<Seed> next_seed();
  // Numbers for the images before this shard's too, if there is a seed; without them.
  Tensor own(const Tensor& numbers) const;
  std::vector<int64_t> shape_of_all(const std::optional<Seed>& seed, at::IntArrayRef shape) const;
  Tensor gamma(int64_t count, int64_t columns, double alpha);

  at::TensorOptions numbers_;  // on the images' device
  int64_t count_;
  int64_t first_ = 0;  // of the images, in the batch of all replicas
  std::optional<uint64_t> seed_;
  uint64_t call_;
  uint64_t num_draws_ = 0;
};

}  // namespace tutti::keras::layers
