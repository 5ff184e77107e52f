#include <algorithm>

#include "tutti/export/onnx/lowerings.h"

namespace tutti::saved_model::onnx {
namespace {

using C = CallToLower;

// One number for each axis of an image; LibTorch takes one for all of them.
std::vector<int64_t> window(const C& c, const char* name, size_t num_axes) {
  std::vector<int64_t> sizes = c.integers(name);
  if (sizes.size() == 1) sizes.resize(num_axes, sizes[0]);
  return sizes;
}

// What is put before the image and behind it.
std::vector<int64_t> pads(const C& c, size_t num_axes, const std::vector<int64_t>& dilations) {
  if (!c.takes("padding") || c.text("padding").empty()) {
    std::vector<int64_t> sides = window(c, "padding", num_axes);
    sides.resize(2 * num_axes);
    std::copy_n(sides.begin(), num_axes, sides.begin() + static_cast<int64_t>(num_axes));
    return sides;
  }
  std::vector<int64_t> sides(2 * num_axes);
  if (c.text("padding") == "valid") return sides;
  for (size_t i = 0; i < num_axes; ++i) {
    const auto size = constant_of(c.type("weight").sizes[i + 2]);
    if (!size) c.refuse("with a kernel whose size is not known");
    const int64_t both = dilations[i] * (*size - 1);
    sides[i] = both / 2;
    sides[num_axes + i] = both - both / 2;
  }
  return sides;
}

Operands convolution_of(const C& c, bool is_transposed) {
  const at::ScalarType dtype = arithmetic(c.result().dtype);
  const size_t num_axes = c.rank("weight") - 2;
  const bool is_single = c.rank("input") == num_axes + 1;  // not a batch
  Operand x = c.tensor("input", dtype);
  if (is_single) x = c.graph.unsqueeze(x, {0});
  const std::vector<int64_t> dilations = window(c, "dilation", num_axes);
  Attributes attributes = {{"strides", window(c, "stride", num_axes)},
                           {"dilations", dilations},
                           {"pads", pads(c, num_axes, dilations)},
                           {"group", c.integer("groups")}};
  if (is_transposed) attributes.push_back({"output_padding", window(c, "output_padding", num_axes)});
  Operands inputs = {x, c.tensor("weight", dtype)};
  if (c.has("bias")) inputs.push_back(c.tensor("bias", dtype));
  const Operand y = c.node(is_transposed ? "ConvTranspose" : "Conv", inputs, attributes);
  return {is_single ? c.graph.squeeze(y, {0}) : y};
}

Operands convolution(const C& c) { return convolution_of(c, c.flag("transposed")); }
Operands forward(const C& c) { return convolution_of(c, false); }
Operands transposed(const C& c) { return convolution_of(c, true); }

constexpr NamedLowering kConvolutions[] = {
    {"convolution", convolution},
    {"conv1d", forward},
    {"conv2d", forward},
    {"conv3d", forward},
    {"conv_transpose1d", transposed},
    {"conv_transpose2d", transposed},
    {"conv_transpose3d", transposed},
};

}  // namespace

std::span<const NamedLowering> convolution_lowerings() { return kConvolutions; }

}  // namespace tutti::saved_model::onnx
