#include "tutti/keras/layers/preprocessing/image_preprocessing/contrast_limited_adaptive_histogram_equalization.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"
#include "tutti/keras/layers/preprocessing/input_dtype_internal.h"

namespace tutti::keras::layers {
namespace {

constexpr int64_t kBins = 256;

// The axis cut into tiles: which pixels they hold, and between which of them each pixel lies.
struct Axis {
  int64_t tile;       // pixels of one
  Tensor pixels;      // int64 [tiles * tile]: behind the last one the axis is mirrored
  Tensor one, other;  // int64 [tiles * tile]: the tiles around
  Tensor weight;      // float32: of the other

  Axis(int64_t extent, int64_t tiles, const at::TensorOptions& numbers) : tile((extent + tiles - 1) / tiles) {
    const Tensor at = at::arange(tiles * tile, numbers.dtype(at::kLong)), folded = at.remainder(2 * extent);
    pixels = at::minimum(folded, 2 * extent - 1 - folded);
    const double half = static_cast<double>(tile) / 2;
    const Tensor place = (at.to(at::kFloat) - half) / static_cast<double>(tile), below = place.floor();
    one = below.to(at::kLong).clamp(0, tiles - 1);
    other = (below.to(at::kLong) + 1).clamp(0, tiles - 1);
    weight = place - below;
  }
};

class ClaheImpl : public ImageLayerImpl {
 public:
  explicit ClaheImpl(const ContrastLimitedAdaptiveHistogramEqualizationOptions& options)
      : ImageLayerImpl("ContrastLimitedAdaptiveHistogramEqualization", options.name, options.data_format),
        options_(options) {
    check_value_range(options_.value_range);
    if (options_.tile_grid_size[0] < 1 || options_.tile_grid_size[1] < 1)
      refuse(tutti::str("tile_grid_size is ", options_.tile_grid_size[0], " by ", options_.tile_grid_size[1],
                        "; both must be positive"));
    if (!(options_.clip_limit >= 0))
      refuse(tutti::str("clip_limit is ", options_.clip_limit, "; it must not be negative"));
  }

 protected:
  Tensor transform(const Tensor& images, bool) const override {
    const Tensor input = floating(images);
    if (images.numel() == 0) return input;
    const auto [grid_rows, grid_columns] = options_.tile_grid_size;
    const int64_t height = images.size(1), width = images.size(2);
    const auto numbers = input.options().dtype(at::kFloat).requires_grad(false);
    const Axis rows(height, grid_rows, numbers), columns(width, grid_columns, numbers);
    const Tensor levels = rescaled(input.to(at::kFloat), options_.value_range, kBytes)
                              .clamp(0, 255)
                              .to(at::kLong)
                              .permute({0, 3, 1, 2})
                              .index_select(2, rows.pixels)
                              .index_select(3, columns.pixels);  // [batch, channels, rows, columns]
    const Tensor tables = tables_of(levels, rows.tile, columns.tile);
    const auto around = [&](const Tensor& row, const Tensor& column) {
      const Tensor tile = row.unsqueeze(1) * grid_columns + column;  // [rows, columns]
      return tables.flatten(2).gather(2, (tile * kBins + levels).flatten(2)).reshape(levels.sizes());
    };
    const Tensor across = columns.weight, down = rows.weight.unsqueeze(1);
    const Tensor upper = around(rows.one, columns.one) * (1 - across) + around(rows.one, columns.other) * across;
    const Tensor lower = around(rows.other, columns.one) * (1 - across) + around(rows.other, columns.other) * across;
    const Tensor equal = (upper * (1 - down) + lower * down).narrow(2, 0, height).narrow(3, 0, width);
    return rescaled(equal.permute({0, 2, 3, 1}), kBytes, options_.value_range).to(input.scalar_type());
  }

 private:
  // What becomes of each level in each tile: float32 [batch, channels, tiles, levels].
  Tensor tables_of(const Tensor& levels, int64_t height, int64_t width) const {
    const auto [grid_rows, grid_columns] = options_.tile_grid_size;
    const Tensor tiles = levels.reshape({levels.size(0), levels.size(1), grid_rows, height, grid_columns, width})
                             .permute({0, 1, 2, 4, 3, 5})
                             .flatten(4)
                             .flatten(2, 3);
    const Tensor ones = at::ones_like(tiles, at::kFloat);
    Tensor counts =
        at::zeros({tiles.size(0), tiles.size(1), tiles.size(2), kBins}, ones.options()).scatter_add(3, tiles, ones);
    const auto pixels = static_cast<double>(height * width);
    if (options_.clip_limit > 0) {
      const Tensor clipped = counts.clamp_max(options_.clip_limit * pixels / kBins);
      counts = clipped + (counts - clipped).sum(3, /*keepdim=*/true) / kBins;
    }
    const Tensor sums = counts.cumsum(3), least = sums.narrow(3, 0, 1), rest = pixels - least;
    return ((sums - least) * 255 / rest.masked_fill(rest == 0, 1)).clamp(0, 255);
  }

  ContrastLimitedAdaptiveHistogramEqualizationOptions options_;
};

}  // namespace

ContrastLimitedAdaptiveHistogramEqualization::ContrastLimitedAdaptiveHistogramEqualization(
    const ContrastLimitedAdaptiveHistogramEqualizationOptions& options)
    : Layer(std::make_shared<ClaheImpl>(options)) {}

}  // namespace tutti::keras::layers
