#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/stablehlo/expression.h"
#include "tutti/stablehlo/lowerings.h"

namespace tutti::stablehlo {
namespace {

// What convolution and its backward pass share: arguments from `first` on are strides, padding, dilation, transposed,
// output padding, groups.
struct Geometry {
  Dims strides, padding, dilation;
  int64_t groups;
  size_t axes;  // spatial ones
};

Geometry geometry_of(const Call& c, size_t first, size_t rank) {
  if (c.flag(first + 3)) throw Error(ErrorCode::unimplemented, "transposed; the gradient of a convolution is one");
  const size_t axes = rank - 2;
  const auto each = [&](size_t i) {
    Dims numbers = c.dims(i);
    if (numbers.size() == 1) numbers.assign(axes, numbers[0]);
    return numbers;
  };
  return {each(first), each(first + 1), each(first + 2), c.integer(first + 5), axes};
}

// "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]" of the letters of the first two axes of each.
std::string axes_text(const char* x, const char* kernel, size_t axes) {
  const auto with_axes = [&](char first, char second) {
    std::string text = str('[', first, ", ", second);
    for (size_t axis = 0; axis < axes; ++axis) text += str(", ", axis);
    return text + ']';
  };
  return str(with_axes(x[0], x[1]), 'x', with_axes(kernel[0], kernel[1]), "->", with_axes('b', 'f'));
}

Results convolution(Builder& b, const Call& c) {
  const Value &x = c.value(0), &kernel = c.value(1);
  const Geometry g = geometry_of(c, 3, x.rank());
  const Expression y{&b, b.convolution(x, kernel, axes_text("bf", "oi", g.axes),
                                       {.strides = g.strides,
                                        .low = g.padding,
                                        .high = g.padding,
                                        .input_dilation = Dims(g.axes, 1),
                                        .kernel_dilation = g.dilation},
                                       g.groups, 1, c.results[0].dims)};
  if (!c.has(2)) return {y};
  return {y + per_channel({&b, c.value(2)}, x.rank())};
}

// Of the input: the gradient, its gaps filled with zeros, under the reversed kernel, whose two channel axes change
// places.
Value gradient_of_input(Builder& b, const Value& g, const Value& x, Value kernel, const Geometry& geometry) {
  Dims spatial, low, high;
  for (size_t i = 0; i < geometry.axes; ++i) {
    const int64_t reach = (kernel.dims()[i + 2] - 1) * geometry.dilation[i];
    const int64_t spread = (g.dims()[i + 2] - 1) * geometry.strides[i] + 1;
    spatial.push_back(static_cast<int64_t>(i + 2));
    low.push_back(reach - geometry.padding[i]);
    high.push_back(x.dims()[i + 2] - spread - low.back() + reach);
  }
  kernel = b.reverse(kernel, spatial);
  if (geometry.groups > 1) {  // [groups × o, i, …] becomes [o, groups × i, …]
    const int64_t groups = geometry.groups, out = kernel.dims()[0] / groups, in = kernel.dims()[1];
    Dims split{groups, out, in}, order{1, 0, 2}, joined{out, groups * in};
    for (const int64_t axis : spatial) {
      split.push_back(kernel.dims()[static_cast<size_t>(axis)]);
      joined.push_back(split.back());
      order.push_back(axis + 1);
    }
    kernel = b.reshape(b.transpose(b.reshape(kernel, split), order), joined);
  }
  return b.convolution(g, kernel, axes_text("bf", "io", geometry.axes),
                       {.strides = Dims(geometry.axes, 1),
                        .low = low,
                        .high = high,
                        .input_dilation = geometry.strides,
                        .kernel_dilation = geometry.dilation},
                       geometry.groups, 1, x.dims());
}

// Of the kernel: the input under the gradient, with batch and channels in each other's place.
Value gradient_of_kernel(Builder& b, const Value& g, const Value& x, const Dims& kernel, const Geometry& geometry) {
  Dims high, order{1, 0}, dims{kernel[1], kernel[0]};
  for (size_t i = 0; i < geometry.axes; ++i) {
    const int64_t reach = (kernel[i + 2] - 1) * geometry.dilation[i];
    const int64_t spread = (g.dims()[i + 2] - 1) * geometry.strides[i] + 1;
    high.push_back(reach + spread - x.dims()[i + 2] - geometry.padding[i]);
    order.push_back(static_cast<int64_t>(i + 2));
    dims.push_back(kernel[i + 2]);
  }
  const Value turned = b.convolution(x, g, axes_text("fb", "io", geometry.axes),
                                     {.strides = geometry.dilation,
                                      .low = geometry.padding,
                                      .high = high,
                                      .input_dilation = Dims(geometry.axes, 1),
                                      .kernel_dilation = geometry.strides},
                                     1, geometry.groups, dims);
  return b.transpose(turned, order);
}

// libtpu takes minutes to compile the gradient of a kernel of fewer channels, and seconds for these; a TPU's tiles have
// as many in any case.
constexpr int64_t kQuickChannels = 8;

// The same with channels of zeros behind the input's own.
Value gradient_of_narrow_kernel(Builder& b, const Value& g, const Value& x, const Dims& kernel,
                                const Geometry& geometry) {
  Dims none(x.rank(), 0), added = none, filled = kernel;
  added[1] = kQuickChannels - kernel[1];
  filled[1] = kQuickChannels;
  const Value gradient = gradient_of_kernel(b, g, b.opaque(b.pad(x, 0, none, added, none)), filled, geometry);
  return b.slice(b.opaque(gradient), none, kernel);
}

// Gradient, input, kernel, sizes of the bias, then the geometry, then which of the three gradients are asked for.
Results convolution_backward(Builder& b, const Call& c) {
  const Value &g = c.value(0), &x = c.value(1), &kernel = c.value(2);
  const Geometry geometry = geometry_of(c, 4, x.rank());
  const std::vector<bool> wanted = c.flags(10);
  Results results(3);
  if (wanted[0]) results[0] = gradient_of_input(b, g, x, kernel, geometry);
  const bool is_narrow = geometry.groups == 1 && x.dims()[1] < kQuickChannels;
  if (wanted[1])
    results[1] = (is_narrow ? gradient_of_narrow_kernel : gradient_of_kernel)(b, g, x, kernel.dims(), geometry);
  if (wanted[2]) results[2] = sum(wide(b, c, 0), axes_but(g.rank(), {1}));
  return results;
}

constexpr NamedLowering kConvolutions[] = {{"convolution", convolution},
                                           {"convolution_backward", convolution_backward}};

}  // namespace

std::span<const NamedLowering> convolution_lowerings() { return kConvolutions; }

}  // namespace tutti::stablehlo
