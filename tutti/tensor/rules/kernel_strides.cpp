#include "tutti/tensor/rules/kernel_strides.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/native/Pool.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/result_type.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tutti/tensor/size_check.h"
#include "tutti/tensor/strides.h"

namespace tutti {
namespace {

// A tensor on the device that has no memory either: LibTorch chooses a kernel for it.
at::Tensor on_device(const at::Tensor& without_memory, at::Device device) {
  at::Tensor tensor = at::empty({0}, at::TensorOptions(without_memory.dtype()).device(device));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(without_memory.sizes(), without_memory.strides());
  return tensor;
}

// Of the type of the images, the channels last where those have them so.
at::Tensor laid_out_like(const at::Tensor& images, at::IntArrayRef sizes) {
  return at::empty(sizes, at::TensorOptions(at::kMeta).dtype(images.dtype()), images.suggest_memory_format());
}

// Others LibTorch refuses, when it is called.
bool are_positive(at::IntArrayRef numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](int64_t number) { return number > 0; });
}

// As LibTorch does for the kernels that it chooses for the whole, whatever those of the pieces take.
void check_type_of_bias(const at::Tensor& images, const at::IValue& bias) {
  if (!bias.isTensor() || !bias.toTensor().defined()) return;
  TORCH_CHECK(bias.toTensor().scalar_type() == images.scalar_type(), "convolution: input type ", images.scalar_type(),
              " and bias type ", bias.toTensor().scalar_type(), " should be the same");
}

// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups): whether the result
// has its channels last depends on the images, the weights and the kernel, which LibTorch chooses by their sizes too: a
// piece may get another than the whole. A line is a plane of one row. Of complex numbers there are several kernels.
torch::jit::Stack result_of_convolution(at::ArrayRef<at::IValue> arguments) {
  at::Tensor images = without_memory(arguments[0].toTensor()), weight = without_memory(arguments[1].toTensor());
  const auto space = static_cast<size_t>(images.dim() - 2);
  std::array<std::vector<int64_t>, 4> lists;  // stride, padding, dilation, output_padding
  for (size_t i = 0; i < lists.size(); ++i) {
    lists[i] = arguments[std::array{3, 4, 5, 7}[i]].toIntVector();
    if (lists[i].size() == 1) lists[i].resize(space, lists[i][0]);  // one for all
  }
  const auto names_all = [&](const std::vector<int64_t>& list) { return list.size() == space; };
  if (space < 1 || space > 3 || weight.dim() != images.dim() || images.is_complex()) return {};
  if (!std::all_of(lists.begin(), lists.end(), names_all) || !are_positive(lists[0])) return {};
  const bool is_line = space == 1, transposed = arguments[6].toBool();
  if (is_line) {
    images = images.contiguous().unsqueeze(2);
    weight = weight.unsqueeze(2);
    for (size_t i = 0; i < lists.size(); ++i) lists[i].insert(lists[i].begin(), i % 2 == 0 ? 1 : 0);
  }
  const auto& [stride, padding, dilation, output_padding] = lists;
  const int64_t groups = arguments[8].toInt();
  const at::DimVector sizes(
      transposed ? at::native::conv_input_size(images.sizes(), weight.sizes(), padding, output_padding, stride,
                                               dilation, groups)
                 : at::native::conv_output_size(images.sizes(), weight.sizes(), padding, stride, dilation));
  const at::Device device = arguments[0].toTensor().device();
  const at::Tensor images_there = on_device(images, device), weight_there = on_device(weight, device);
  const auto of = [](const std::vector<int64_t>& list) { return c10::fromIntArrayRefSlow(list); };
  const auto kernel =
      at::native::select_conv_backend(images_there, weight_there, /*bias_opt=*/{}, of(stride), of(padding),
                                      of(dilation), transposed, of(output_padding), groups, /*bias_sizes_opt=*/{});
  const bool asks_for_one_type =
      kernel == at::native::ConvBackend::Mkldnn || kernel == at::native::ConvBackend::MkldnnTranspose;
  if (asks_for_one_type) check_type_of_bias(arguments[0].toTensor(), arguments[2]);
  const at::Tensor result = at::empty(sizes, images.options(),
                                      at::native::_determine_backend_memory_format(images_there, weight_there, kernel));
  return {is_line ? result.squeeze(2) : result};
}

at::MemoryFormat format_of_slow(const at::Tensor& images, const at::Tensor& weight) {
  return at::native::thnn_conv_use_channels_last(on_device(images, at::kCPU), on_device(weight, at::kCPU))
             ? at::MemoryFormat::ChannelsLast
             : at::MemoryFormat::Contiguous;
}

// _slow_conv2d_forward(images, weight, kernel_size, bias, stride, padding) and slow_conv_dilated2d(…, dilation): the
// channels last where either has them so, which a piece of what has gaps may have, and not the whole.
torch::jit::Stack result_of_slow_convolution(at::ArrayRef<at::IValue> arguments) {
  const at::Tensor &images = arguments[0].toTensor(), &weight = arguments[1].toTensor();
  const std::vector<int64_t> stride = arguments[4].toIntVector(), padding = arguments[5].toIntVector();
  const std::vector<int64_t> dilation = arguments.size() > 6 ? arguments[6].toIntVector() : std::vector<int64_t>{1, 1};
  if (images.dim() != 4 || weight.dim() != 4 || stride.size() != 2 || padding.size() != 2 || dilation.size() != 2 ||
      !are_positive(stride) || !are_positive(dilation))
    return {};
  const auto sizes = at::native::conv_output_size(images.sizes(), weight.sizes(), padding, stride, dilation);
  return {at::empty(sizes, at::TensorOptions(at::kMeta).dtype(images.dtype()), format_of_slow(images, weight))};
}

// slow_conv_transpose2d(images, weight, kernel_size, bias, stride, padding, output_padding, dilation)
torch::jit::Stack result_of_slow_transposed_convolution(at::ArrayRef<at::IValue> arguments) {
  const at::Tensor &images = arguments[0].toTensor(), &weight = arguments[1].toTensor();
  const std::vector<int64_t> stride = arguments[4].toIntVector(), padding = arguments[5].toIntVector(),
                             further = arguments[6].toIntVector(), dilation = arguments[7].toIntVector();
  const bool are_pairs = stride.size() == 2 && padding.size() == 2 && further.size() == 2 && dilation.size() == 2;
  if (images.dim() != 4 || weight.dim() != 4 || !are_pairs) return {};
  const auto sizes = at::native::conv_input_size(images.sizes(), weight.sizes(), padding, further, stride, dilation, 1);
  if (std::ranges::any_of(sizes, [](int64_t size) { return size < 0; })) return {};
  return {at::empty(sizes, at::TensorOptions(at::kMeta).dtype(images.dtype()), format_of_slow(images, weight))};
}

// huber_loss(input, target, none, delta), of each element: like the input, or, where that is broadcast, as a sum.
torch::jit::Stack result_of_huber_loss(at::ArrayRef<at::IValue> arguments) {
  const at::Tensor input = without_memory(arguments[0].toTensor());
  const at::Tensor sum = at::add(input, without_memory(arguments[1].toTensor()));
  return {sum.sizes() == input.sizes() ? at::empty_like(input) : sum};
}

// where(condition, self, other), as an iteration over all three lays it out. What is cast is a copy.
torch::jit::Stack result_of_where(at::ArrayRef<at::IValue> arguments) {
  if (arguments.size() != 3 || !arguments[1].isTensor() || !arguments[2].isTensor()) return {};
  const at::Tensor &self = arguments[1].toTensor(), &other = arguments[2].toTensor();
  const at::ScalarType type = at::result_type(self, other);
  const auto twin = [&](const at::Tensor& tensor, bool is_cast) {
    return at::empty_strided(tensor.sizes(), is_cast ? strides_of_copy(tensor) : at::DimVector(tensor.strides()),
                             at::TensorOptions(at::kMeta));
  };
  return {at::addcmul(twin(arguments[0].toTensor(), /*is_cast=*/false), twin(self, self.scalar_type() != type),
                      twin(other, other.scalar_type() != type))};
}

// linalg_solve_triangular(matrix, right side, …): column by column, unless LAPACK can take the matrix's conjugate as
// is.
torch::jit::Stack result_of_triangular_system(at::ArrayRef<at::IValue> arguments) {
  const at::Tensor &matrix = arguments[0].toTensor(), &side = arguments[1].toTensor();
  if (matrix.dim() < 2 || side.dim() < 2) return {};
  const auto batch = [](const at::Tensor& tensor) {
    return tensor.sizes().slice(0, static_cast<size_t>(tensor.dim() - 2));
  };
  at::DimVector sizes(at::infer_size_dimvector(batch(matrix), batch(side)));
  const bool by_rows = matrix.is_conj() && without_memory(matrix).mT().is_contiguous();
  sizes.push_back(side.size(by_rows ? -2 : -1));
  sizes.push_back(side.size(by_rows ? -1 : -2));
  const at::Tensor result = at::empty(sizes, at::kMeta);
  return {by_rows ? result : result.mT()};
}

// _adaptive_avg_pool2d(images, [height, width]) and max_unpool2d(images, places, [height, width])
torch::jit::Stack result_of_pooling(const at::Tensor& images, const at::IValue& named_size) {
  const std::vector<int64_t> size = named_size.toIntVector();
  if (images.dim() != 4 || size.size() != 2 || std::min(size[0], size[1]) < 0) return {};
  return {laid_out_like(images, {images.size(0), images.size(1), size[0], size[1]})};
}

// max_pool3d_with_indices(images, kernel_size, stride, padding, dilation, ceil_mode)
torch::jit::Stack results_of_max_pool3d(at::ArrayRef<at::IValue> arguments) {
  const at::Tensor& images = arguments[0].toTensor();
  std::array<std::vector<int64_t>, 4> lists;  // kernel_size, stride, padding, dilation
  for (size_t i = 0; i < lists.size(); ++i) {
    lists[i] = arguments[i + 1].toIntVector();
    if (i == 1 && lists[i].empty()) lists[i] = lists[0];
    if (lists[i].size() == 1) lists[i].resize(3, lists[i][0]);  // one for all
    if (lists[i].size() != 3) return {};
  }
  const auto& [kernel, stride, padding, dilation] = lists;
  if (images.dim() != 5 || !are_positive(stride)) return {};
  at::DimVector sizes(images.sizes());
  for (size_t i = 0; i < 3; ++i)
    sizes[i + 2] = at::native::pooling_output_shape<int64_t>(sizes[i + 2], kernel[i], padding[i], stride[i],
                                                             dilation[i], arguments[5].toBool());
  if (!are_positive({sizes[2], sizes[3], sizes[4]})) return {};
  return {laid_out_like(images, sizes), laid_out_like(images, sizes)};
}

// reflection_pad2d, replication_pad3d, …(image, [left, right, top, bottom, …])
torch::jit::Stack result_of_padding(at::ArrayRef<at::IValue> arguments) {
  const at::Tensor& image = arguments[0].toTensor();
  const std::vector<int64_t> padding = arguments[1].toIntVector();
  if (image.dim() < 4 || padding.size() != 2 * (static_cast<size_t>(image.dim()) - 2)) return {};
  at::DimVector sizes(image.sizes());
  for (size_t i = 0; i < padding.size(); ++i) sizes[sizes.size() - 1 - i / 2] += padding[i];
  return {laid_out_like(image, sizes)};
}

// pixel_shuffle(images, factor) and pixel_unshuffle(images, factor)
torch::jit::Stack result_of_pixels(at::ArrayRef<at::IValue> arguments, bool to_channels) {
  const at::Tensor& images = arguments[0].toTensor();
  const int64_t factor = arguments[1].toInt(), channels = images.dim() - 3;
  if (channels < 0 || factor < 1) return {};
  const bool fits =
      to_channels ? factor <= std::min(images.size(-2), images.size(-1)) : factor <= images.size(channels) / factor;
  if (!fits) return {};
  at::DimVector sizes(images.sizes());
  for (int64_t axis = channels; axis < images.dim(); ++axis) {
    int64_t& size = sizes[static_cast<size_t>(axis)];
    const int64_t by = axis == channels ? factor * factor : factor;
    size = (axis == channels) == to_channels ? size * by : size / by;
  }
  return {laid_out_like(images, sizes)};
}

// rot90(self, k, dims): what is turned is flipped, as it lies, and by a quarter its axes are exchanged.
torch::jit::Stack result_of_rotation(at::ArrayRef<at::IValue> arguments) {
  const at::Tensor self = without_memory(arguments[0].toTensor());
  const std::vector<int64_t> axes = arguments[2].toIntVector();
  const auto is_axis = [&](int64_t axis) { return -self.dim() <= axis && axis < self.dim(); };
  if (axes.size() != 2 || !is_axis(axes[0]) || !is_axis(axes[1])) return {};
  const int64_t quarters = arguments[1].toInt() % 4;
  if (quarters == 0) return {at::empty(self.sizes(), self.options())};
  const at::Tensor flipped = at::empty_like(self);
  return {quarters % 2 == 0 ? flipped : flipped.transpose(axes[0], axes[1])};
}

// channel_shuffle(images, groups): none is an alias.
torch::jit::Stack result_of_channel_shuffle(at::ArrayRef<at::IValue> arguments) {
  const at::Tensor& images = arguments[0].toTensor();
  if (images.numel() == 0) return {without_memory(images)};
  return {laid_out_like(images, images.sizes())};
}

}  // namespace

std::optional<torch::jit::Stack> results_of_kernel(const std::string& name, at::ArrayRef<at::IValue> arguments) {
  // Of each element, in memory like that of the first operand, however the others lie; the mean and the sum are
  // numbers.
  if (name == "aten::binary_cross_entropy" && arguments[3].toInt() == at::Reduction::None)
    return torch::jit::Stack{at::empty_like(without_memory(arguments[0].toTensor()))};
  if (name == "aten::binary_cross_entropy_with_logits" && arguments[4].toInt() == at::Reduction::None)  // of 1 - target
    return torch::jit::Stack{at::add(without_memory(arguments[1].toTensor()), 1)};
  if (name == "aten::huber_loss" && arguments[2].toInt() == at::Reduction::None) return result_of_huber_loss(arguments);
  if (name == "aten::where") return result_of_where(arguments);
  if (name == "aten::linalg_solve_triangular") return result_of_triangular_system(arguments);
  if (name == "aten::flip") return torch::jit::Stack{at::empty_like(without_memory(arguments[0].toTensor()))};
  if (name == "aten::rot90") return result_of_rotation(arguments);
  if (name == "aten::convolution" || name == "aten::_convolution") return result_of_convolution(arguments);
  if (name == "aten::_slow_conv2d_forward" || name == "aten::slow_conv_dilated2d")
    return result_of_slow_convolution(arguments);
  if (name == "aten::slow_conv_transpose2d") return result_of_slow_transposed_convolution(arguments);
  if (name == "aten::_adaptive_avg_pool2d") return result_of_pooling(arguments[0].toTensor(), arguments[1]);
  if (name == "aten::max_pool3d_with_indices") return results_of_max_pool3d(arguments);
  if (name == "aten::max_pool3d_with_indices_backward" && arguments[1].toTensor().dim() == 5)
    return torch::jit::Stack{laid_out_like(arguments[1].toTensor(), arguments[1].toTensor().sizes())};
  if (name == "aten::max_unpool2d") return result_of_pooling(arguments[0].toTensor(), arguments[2]);
  for (const char* pads :
       {"aten::reflection_pad2d", "aten::reflection_pad3d", "aten::replication_pad2d", "aten::replication_pad3d"})
    if (name == pads) return result_of_padding(arguments);
  if (name == "aten::pixel_shuffle" || name == "aten::pixel_unshuffle")
    return result_of_pixels(arguments, /*to_channels=*/name == "aten::pixel_unshuffle");
  if (name == "aten::channel_shuffle" || name == "aten::native_channel_shuffle")
    return result_of_channel_shuffle(arguments);
  if (name == "aten::angle" && arguments[0].toTensor().is_complex())  // computed in row-major memory
    return torch::jit::Stack{at::empty(arguments[0].toTensor().sizes(), at::kMeta)};
  return {};
}

bool may_divide_by_zero(const std::string& name, at::ArrayRef<at::IValue> arguments) {
  if (name != "aten::native_group_norm") return false;  // (input, weight, bias, N, C, HxW, groups, eps)
  const at::IntArrayRef sizes = arguments[0].toTensor().sizes();
  const int64_t groups = arguments[6].toInt();
  return sizes.size() < 2 || sizes[0] != arguments[3].toInt() || sizes[1] != arguments[4].toInt() ||
         c10::multiply_integers(sizes.slice(2)) != arguments[5].toInt() || groups < 1 || sizes[1] % groups != 0;
}

}  // namespace tutti
