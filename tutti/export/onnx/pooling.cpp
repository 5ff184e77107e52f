#include <ATen/ops/tensor.h>

#include <algorithm>

#include "tutti/export/onnx/lowerings.h"

namespace tutti::saved_model::onnx {
namespace {

using C = CallToLower;

// The image, as a batch of one where it is alone.
struct Images {
  Operand value;
  bool is_single;
};
const char* image_name(const C& c) { return c.takes("self") ? "self" : "input"; }
Images images_of(const C& c, size_t num_axes) {
  const char* const name = image_name(c);
  const Operand x = c.tensor(name, arithmetic(c.result().dtype));
  const bool is_single = c.rank(name) == num_axes + 1;
  return {is_single ? c.graph.unsqueeze(x, {0}) : x, is_single};
}
Operand given_back(const C& c, const Images& images, const Operand& pooled) {
  return images.is_single ? c.graph.squeeze(pooled, {0}) : pooled;
}

std::vector<int64_t> extents(const C& c, const char* name, size_t num_axes, const std::vector<int64_t>& otherwise) {
  std::vector<int64_t> sizes = c.takes(name) ? c.integers(name) : std::vector<int64_t>();
  if (sizes.empty()) return otherwise;
  if (sizes.size() == 1) sizes.resize(num_axes, sizes[0]);
  return sizes;
}

// Where sizes are rounded up, LibTorch leaves out a window that begins behind the image, and ONNX does not.
void check_rounding(const C& c, const std::vector<int64_t>& kernel, const std::vector<int64_t>& strides,
                    const std::vector<int64_t>& padding) {
  if (!c.flag("ceil_mode")) return;
  for (size_t i = 0; i < kernel.size(); ++i)
    if (padding[i] != 0 || strides[i] > kernel[i])
      c.refuse("with 'ceil_mode' and a padding or strides larger than the window");
}

Operands pool(const C& c, const char* op, size_t num_axes) {
  const Images images = images_of(c, num_axes);
  const std::vector<int64_t> ones(num_axes, 1), zeros(num_axes, 0);
  const auto kernel = extents(c, "kernel_size", num_axes, ones);
  const auto strides = extents(c, "stride", num_axes, kernel);
  std::vector<int64_t> pads = extents(c, "padding", num_axes, zeros);
  check_rounding(c, kernel, strides, pads);
  pads.resize(2 * num_axes);
  std::copy_n(pads.begin(), num_axes, pads.begin() + static_cast<int64_t>(num_axes));
  Attributes attributes = {{"kernel_shape", kernel}, {"strides", strides}, {"pads", pads}};
  if (c.flag("ceil_mode")) attributes.push_back({"ceil_mode", int64_t{1}});
  if (op == std::string("MaxPool")) {
    attributes.push_back({"dilations", extents(c, "dilation", num_axes, ones)});
  } else {
    if (c.takes("divisor_override") && c.has("divisor_override")) c.refuse("with 'divisor_override'");
    if (c.flag("ceil_mode")) c.refuse("with 'ceil_mode'");
    attributes.push_back({"count_include_pad", int64_t{c.flag("count_include_pad")}});
  }
  return {given_back(c, images, c.node(op, {images.value}, attributes))};
}

// To given sizes: windows are all alike only where these divide those of the image.
Operands adaptive_pool(const C& c, const char* op, size_t num_axes) {
  const Images images = images_of(c, num_axes);
  const auto sizes = extents(c, "output_size", num_axes, {});
  if (std::ranges::all_of(sizes, [](int64_t size) { return size == 1; }))
    return {given_back(c, images, c.node((std::string("Global") + op).c_str(), {images.value}))};
  const ValueType& type = c.type(image_name(c));
  std::vector<int64_t> kernel;
  for (size_t i = 0; i < num_axes; ++i) {
    const auto size = constant_of(type.sizes[type.rank() - num_axes + i]);
    if (!size || sizes[i] == 0 || *size % sizes[i]) c.refuse("to sizes that do not divide those of the image");
    kernel.push_back(*size / sizes[i]);
  }
  return {given_back(c, images, c.node(op, {images.value}, {{"kernel_shape", kernel}, {"strides", kernel}}))};
}

// Of the axes of an image, where the call gives them.
std::vector<double> scales_of(const C& c, size_t num_axes) {
  if (c.takes("scale_factors")) return c.has("scale_factors") ? c.numbers("scale_factors") : std::vector<double>();
  std::vector<double> scales;
  for (const char* const name : {"scales", "scales_d", "scales_h", "scales_w"})
    if (c.takes(name) && c.has(name)) scales.push_back(c.number(name));
  if (!scales.empty() && scales.size() != num_axes) c.refuse("with factors for some axes and sizes for others");
  return scales;
}

// By factors where it was asked for by factors, since the sizes are rounded ones.
Operands resize(const C& c, size_t num_axes, const char* mode) {
  const bool is_nearest = mode == std::string("nearest");
  Attributes attributes = {{"mode", std::string(mode)}};
  const char* const places = is_nearest ? "asymmetric" : c.flag("align_corners") ? "align_corners" : "half_pixel";
  attributes.push_back({"coordinate_transformation_mode", std::string(places)});
  if (is_nearest) attributes.push_back({"nearest_mode", std::string("floor")});
  const Operand x = c.tensor(image_name(c), arithmetic(c.result().dtype));
  if (const std::vector<double> scales = scales_of(c, num_axes); !scales.empty()) {
    std::vector<float> factors = {1, 1};
    factors.insert(factors.end(), scales.begin(), scales.end());
    return {c.node("Resize", {x, {}, c.graph.constant(at::tensor(factors))}, attributes)};
  }
  const Operand kept = c.node("Shape", {x}, {{"start", int64_t{0}}, {"end", int64_t{2}}}).as(at::kLong);
  const Operand shape = c.node("Concat", {kept, c.sizes.list(c.symbolic("output_size"))}, {{"axis", int64_t{0}}});
  return {c.node("Resize", {x, {}, {}, shape}, attributes)};
}

constexpr NamedLowering kPooling[] = {
    {"max_pool1d", [](const C& c) { return pool(c, "MaxPool", 1); }},
    {"max_pool2d", [](const C& c) { return pool(c, "MaxPool", 2); }},
    {"max_pool3d", [](const C& c) { return pool(c, "MaxPool", 3); }},
    {"avg_pool1d", [](const C& c) { return pool(c, "AveragePool", 1); }},
    {"avg_pool2d", [](const C& c) { return pool(c, "AveragePool", 2); }},
    {"avg_pool3d", [](const C& c) { return pool(c, "AveragePool", 3); }},
    {"adaptive_avg_pool1d", [](const C& c) { return adaptive_pool(c, "AveragePool", 1); }},
    {"adaptive_avg_pool2d", [](const C& c) { return adaptive_pool(c, "AveragePool", 2); }},
    {"adaptive_avg_pool3d", [](const C& c) { return adaptive_pool(c, "AveragePool", 3); }},
    {"adaptive_max_pool1d", [](const C& c) { return adaptive_pool(c, "MaxPool", 1); }},
    {"adaptive_max_pool2d", [](const C& c) { return adaptive_pool(c, "MaxPool", 2); }},
    {"adaptive_max_pool3d", [](const C& c) { return adaptive_pool(c, "MaxPool", 3); }},
    {"upsample_nearest1d", [](const C& c) { return resize(c, 1, "nearest"); }},
    {"upsample_nearest2d", [](const C& c) { return resize(c, 2, "nearest"); }},
    {"upsample_nearest3d", [](const C& c) { return resize(c, 3, "nearest"); }},
    {"upsample_linear1d", [](const C& c) { return resize(c, 1, "linear"); }},
    {"upsample_bilinear2d", [](const C& c) { return resize(c, 2, "linear"); }},
    {"upsample_trilinear3d", [](const C& c) { return resize(c, 3, "linear"); }},
};

}  // namespace

std::span<const NamedLowering> pooling_lowerings() { return kPooling; }

}  // namespace tutti::saved_model::onnx
