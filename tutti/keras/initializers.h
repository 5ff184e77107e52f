#pragma once

#include <ATen/core/Tensor.h>

#include <any>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/shape.h"

namespace tutti::keras::initializers {

// How the first value of a weight is made.
class Initializer {
 public:
  using Fill = std::function<void(Tensor&)>;

  // `fill` overwrites the tensor in place. `made_from`: see made_from().
  Initializer(std::string name, Fill fill, std::any made_from = {});

  const std::string& name() const { return name_; }
  // Of one of Keras's its options, or the number that it takes, as files of models say them; empty for another
  // function.
  const std::any& made_from() const { return made_from_; }

  // Returns a new filled tensor. Made by at::empty, so that a surrounding strategy scope says where it lives.
  Tensor operator()(const Shape& shape, at::ScalarType dtype = at::kFloat) const;

 private:
  std::string name_;
  Fill fill_;
  std::any made_from_;
};

// Named as the classes of tf.keras.initializers; each only makes an Initializer.
struct Constant : Initializer {
  explicit Constant(double value = 0);
};
struct Zeros : Initializer {
  Zeros();
};
struct Ones : Initializer {
  Ones();
};

// Of random initializers: the same numbers at each call. None: they come from LibTorch's current generator (see
// set_random_seed).
using Seed = std::optional<uint64_t>;

struct RandomNormalOptions {
  double mean = 0;
  double stddev = 0.05;
  Seed seed = {};
};
struct RandomNormal : Initializer {
  explicit RandomNormal(const RandomNormalOptions& options = {});
};
// Normal, redrawn (here: by inversion) outside of two standard deviations.
struct TruncatedNormal : Initializer {
  explicit TruncatedNormal(const RandomNormalOptions& options = {});
};

struct RandomUniformOptions {
  double minval = -0.05;
  double maxval = 0.05;
  Seed seed = {};
};
struct RandomUniform : Initializer {
  explicit RandomUniform(const RandomUniformOptions& options = {});
};

enum class FanMode { fan_in, fan_out, fan_avg };
enum class Distribution { uniform, truncated_normal, untruncated_normal };

struct VarianceScalingOptions {
  double scale = 1;
  FanMode mode = FanMode::fan_in;
  Distribution distribution = Distribution::truncated_normal;
  Seed seed = {};
};
// Variance scale / fan. For a kernel [..., in, out] the fans are in and out times the extents before them.
struct VarianceScaling : Initializer {
  explicit VarianceScaling(const VarianceScalingOptions& options = {}, std::string name = "variance_scaling");
};
struct SeedOptions {
  Seed seed = {};
};
struct GlorotUniform : VarianceScaling {
  explicit GlorotUniform(const SeedOptions& options = {});
};
struct GlorotNormal : VarianceScaling {
  explicit GlorotNormal(const SeedOptions& options = {});
};
struct HeUniform : VarianceScaling {
  explicit HeUniform(const SeedOptions& options = {});
};
struct HeNormal : VarianceScaling {
  explicit HeNormal(const SeedOptions& options = {});
};
struct LecunUniform : VarianceScaling {
  explicit LecunUniform(const SeedOptions& options = {});
};
struct LecunNormal : VarianceScaling {
  explicit LecunNormal(const SeedOptions& options = {});
};

// gain on the diagonal of a matrix, else 0.
struct Identity : Initializer {
  explicit Identity(double gain = 1);
};
struct OrthogonalOptions {
  double gain = 1;
  Seed seed = {};
};
// gain times a random orthogonal matrix: of a shape [..., n] as [product of the rest, n] the rows or the columns,
// whichever are fewer, are orthonormal. Source: Saxe, McClelland and Ganguli, 2014.
struct Orthogonal : Initializer {
  explicit Orthogonal(double gain = 1, Seed seed = {});
};

}  // namespace tutti::keras::initializers
