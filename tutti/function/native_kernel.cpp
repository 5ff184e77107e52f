#include "tutti/function/native_kernel.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "tutti/core/target_clones.h"
#include "tutti/function/native_accuracy.h"
#include "tutti/function/native_convolution.h"
#include "tutti/function/native_embedding.h"
#include "tutti/function/native_log_softmax.h"
#include "tutti/function/native_losses.h"
#include "tutti/function/native_pooling.h"
#include "tutti/function/native_product.h"
#include "tutti/function/native_sums.h"
#include "tutti/function/pointwise_kernel.h"

namespace tutti {
namespace {

using Stack = torch::jit::Stack;

constexpr int64_t kColumns = 16;

// Of up to kColumns neighbouring columns: the running mean and the sum of squared differences from it, in float64 and
// row by row, as LibTorch does it for one column after the other.
#if defined(__x86_64__)
TUTTI_TARGET_CLONES("avx512f", "fma", "default")
#endif
void add_rows(const float* from, int64_t rows, int64_t stride, int64_t count, double* means, double* squares) {
  for (int64_t row = 0; row < rows; ++row) {
    const auto num_rows = static_cast<double>(row + 1);
    const float* const elements = from + row * stride;
    for (int64_t i = 0; i < count; ++i) {
      const double element = elements[i], difference = element - means[i];
      means[i] += difference / num_rows;
      squares[i] = __builtin_fma(difference, element - means[i], squares[i]);
    }
  }
}

double correction_of(const Stack& arguments) { return arguments[2].isNone() ? 1 : arguments[2].toScalar().toDouble(); }

// (self, dim, correction, keepdim, variance, mean)
void variance_of_columns(const Stack& arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  const int64_t rows = self.size(0), columns = self.size(1);
  const double divisor = static_cast<double>(rows) - correction_of(arguments);
  const auto* from = self.const_data_ptr<float>();
  auto* variances = arguments[4].toTensor().mutable_data_ptr<float>();
  auto* all_means = arguments[5].toTensor().mutable_data_ptr<float>();
  for (int64_t begin = 0; begin < columns; begin += kColumns) {
    const int64_t count = std::min(kColumns, columns - begin);
    double means[kColumns] = {}, squares[kColumns] = {};
    add_rows(from + begin, rows, columns, count, means, squares);
    for (int64_t i = 0; i < count; ++i) {
      all_means[begin + i] = static_cast<float>(means[i]);
      variances[begin + i] = static_cast<float>(squares[i] / divisor);
    }
  }
}

bool is_variance_of_columns(const Stack& arguments) {
  constexpr int64_t kRowsOfOneThread = 32768;  // LibTorch divides longer columns among its threads
  const at::Tensor& self = arguments[0].toTensor();
  if (!has_fused_multiply_add() || !arguments[1].isIntList()) return false;
  const auto axes = arguments[1].toIntVector();
  const bool is_matrix = lies_plainly(self, at::kFloat) && self.dim() == 2;
  if (!is_matrix || axes.size() != 1 || (axes[0] != 0 && axes[0] != -2)) return false;
  const bool is_warned_of = static_cast<double>(self.size(0)) <= correction_of(arguments);
  return !is_warned_of && self.size(0) < kRowsOfOneThread;
}

}  // namespace

bool lies_plainly(const at::Tensor& tensor, at::ScalarType dtype) {
  return tensor.scalar_type() == dtype && tensor.is_contiguous() && !tensor.is_neg();
}

NativeKernel native_kernel_of(const std::string& op, const Stack& arguments) {
  if (op == "aten::var_mean.correction" && is_variance_of_columns(arguments)) return variance_of_columns;
  if (op == "aten::max_pool2d_with_indices" && pools_2x2(arguments)) return max_pool_2x2;
  if (op == "aten::max_pool2d_with_indices" && pools_2x2_of_images(arguments)) return max_pool_2x2_of_images;
  if (op == "aten::max_pool2d_with_indices_backward" && pooled_2x2(arguments)) return max_pool_2x2_backward;
  if (NativeKernel kernel = native_sums_of(op, arguments)) return kernel;
  if (NativeKernel kernel = native_log_softmax_of(op, arguments)) return kernel;
  if (NativeKernel kernel = native_accuracy_of(op, arguments)) return kernel;
  if (NativeKernel kernel = native_losses_of(op, arguments)) return kernel;
  if (NativeKernel kernel = native_embedding_of(op, arguments)) return kernel;
  if (NativeKernel kernel = native_selection_gradient_of(op, arguments)) return kernel;
  if (NativeKernel kernel = native_convolution_of(op, arguments)) return kernel;
  return native_product_of(op, arguments);
}

}  // namespace tutti
