#include "tutti/keras/layers/preprocessing/image_preprocessing/cut_mix.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/mixing_layer_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/rectangles_internal.h"

namespace tutti::keras::layers {
namespace {

class CutMixImpl : public MixingLayerImpl {
 public:
  explicit CutMixImpl(const CutMixOptions& options)
      : MixingLayerImpl("CutMix", options.name, options.seed), options_(options) {
    if (!(options_.factor.lower >= 0 && options_.factor.upper <= 1))
      refuse(tutti::str("factor is [", options_.factor.lower, ", ", options_.factor.upper, "]; it must lie in [0, 1]"));
  }

 protected:
  Mixed mix(const Tensor& images, const Tensor& others, RandomDraws& draws) const override {
    constexpr double kEpsilon = 1e-6;
    const bool first = options_.data_format == DataFormat::channels_first;
    const int64_t height = images.size(first ? 2 : 1), width = images.size(first ? 3 : 2);
    const Tensor side = (1 - draws.beta(draws.one(options_.factor) + kEpsilon)).sqrt();
    const Rectangles cut{.columns = draw_span(draws, width, side), .rows = draw_span(draws, height, side)};
    const Tensor pixels = inside(cut, height, width);
    const Tensor area = (cut.columns.end - cut.columns.begin) * (cut.rows.end - cut.rows.begin);
    return {at::where(first ? pixels.movedim(-1, 1) : pixels, others, images), 1 - area / (height * width)};
  }

 private:
  CutMixOptions options_;
};

}  // namespace

CutMix::CutMix(const CutMixOptions& options) : Layer(std::make_shared<CutMixImpl>(options)) {}

}  // namespace tutti::keras::layers
