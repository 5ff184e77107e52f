#include "tutti/keras/layers/preprocessing/image_preprocessing/random_perspective.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/map_pixels_internal.h"

namespace tutti::keras::layers {
namespace {

// What takes four points to four others: (t0 x + t1 y + t2, t3 x + t4 y + t5) / (t6 x + t7 y + 1).
// Shapes: points [batch, 4, 2], [1, 4, 2]; result [batch, 8].
Tensor homography(const Tensor& from, const Tensor& to) {
  const Tensor x = from.select(2, 0), y = from.select(2, 1), one = at::ones_like(x), zero = at::zeros_like(x);
  const Tensor to_x = to.select(2, 0).expand_as(x), to_y = to.select(2, 1).expand_as(y);
  const Tensor rows_x = at::stack({x, y, one, zero, zero, zero, -to_x * x, -to_x * y}, 2);
  const Tensor rows_y = at::stack({zero, zero, zero, x, y, one, -to_y * x, -to_y * y}, 2);
  return at::linalg_solve(at::cat({rows_x, rows_y}, 1), at::cat({to_x, to_y}, 1));
}

class RandomPerspectiveImpl : public RandomImageLayerImpl {
 public:
  explicit RandomPerspectiveImpl(const RandomPerspectiveOptions& options)
      : RandomImageLayerImpl("RandomPerspective", options.name, options.data_format, options.seed), options_(options) {
    check_range("factor", options_.factor, 0, 1);
    if (!(options_.scale >= 0 && options_.scale <= 1))
      refuse(tutti::str("scale is ", options_.scale, "; it must lie in [0, 1]"));
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    const Tensor probabilities = draws.uniform(options_.factor), numbers = draws.uniform({0, 1});
    const Tensor moves = draws.uniform({-0.5 * options_.scale, 0.5 * options_.scale}, {4, 2});
    const int64_t height = images.size(1), width = images.size(2);
    if (height == 1 || width == 1) return images;
    const auto options = moves.options();
    const auto right = static_cast<double>(width - 1), bottom = static_cast<double>(height - 1);
    const Tensor corners = at::tensor({0.0, 0.0, right, 0.0, 0.0, bottom, right, bottom}, options).reshape({1, 4, 2});
    const std::vector<Tensor> t = homography(corners * (1 + moves), corners).reshape({-1, 8, 1, 1}).unbind(1);
    const Tensor x = at::arange(width, options), y = at::arange(height, options).unsqueeze(1);
    const Tensor depth = t[6] * x + t[7] * y + 1;
    const Tensor changed = map_pixels(
        images, (t[0] * x + t[1] * y + t[2]) / depth, (t[3] * x + t[4] * y + t[5]) / depth,
        {.interpolation = options_.interpolation, .fill_mode = FillMode::constant, .fill_value = options_.fill_value});
    return where_drawn(numbers, probabilities, changed, images);
  }

 private:
  RandomPerspectiveOptions options_;
};

}  // namespace

RandomPerspective::RandomPerspective(const RandomPerspectiveOptions& options)
    : Layer(std::make_shared<RandomPerspectiveImpl>(options)) {}

}  // namespace tutti::keras::layers
