#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace tutti {

// A convolution of images [images, in_channels, height, width] with kernels [out_channels, in_channels, kernel_height,
// kernel_width], of stride 1, without padding.
struct ConvolutionShape {
  int64_t images, in_channels, height, width, out_channels, kernel_height, kernel_width;

  int64_t rows() const { return height - kernel_height + 1; }  // of a result
  int64_t columns() const { return width - kernel_width + 1; }
  int64_t pixels() const { return height * width; }
  int64_t results() const { return rows() * columns(); }
  int64_t taps() const { return kernel_height * kernel_width; }

  auto operator<=>(const ConvolutionShape&) const = default;
};

// It and its gradients, of contiguous float32 tensors. Each element is one chain of fused multiplications and additions
// that starts with zero, in the order in which oneDNN's direct convolutions compute of channels that lie in planes:
//   result                  kernel rows, kernel columns, in_channels; then the bias is added
//   gradient of the input   kernel rows, kernel columns, out_channels, without those that lie outside of the gradient
//   of weights and bias     images, rows, columns
// oneDNN joins at most 16 channels into one chain; of more it computes otherwise.
// Requires: multiplies_in_vectors(). Threads: one at a time.
class DirectConvolution {
 public:
  static constexpr int64_t kMostChannels = 16;  // in_channels of a result, out_channels of the input's gradient

  explicit DirectConvolution(const ConvolutionShape& shape);

  void convolve(const float* images, const float* weights, const float* bias, float* result);  // bias: may be null
  void gradient_of_input(const float* gradient, const float* weights, float* result);
  void gradient_of_weights(const float* gradient, const float* images, float* of_weights, float* of_bias);  // or null

 private:
  void convolve_image(const float* image, const float* bias, float* result);
  void gradient_of_image(const float* gradient, float* result);
  void lay_out_patches(const float* image);
  void take_sums(float* of_weights, float* of_bias) const;
  // Where the numbers of a column of `kernel_height` pixels of all channels lie in patches_, and a one behind them.
  int64_t column_size() const { return shape_.in_channels * shape_.kernel_height + 1; }

  ConvolutionShape shape_;
  std::vector<float> weights_;               // in the order of the chains
  std::vector<float> shifted_;               // an image, for each column of the kernels: without what that leaves out
  std::vector<float> spread_;                // an image's gradient, with rows as wide as the image's
  std::vector<float> transposed_, patches_;  // an image; its patches, which lie across one another
  std::vector<float> sums_;                  // of the gradient of weights
  // Where the factors of a chain lie, for the chain of the first element.
  std::vector<int32_t> steps_, steps_of_input_, steps_of_weights_;
  std::vector<uint16_t> taking_part_;  // which of 16 pixels have a product, for each tap
};

}  // namespace tutti
