#include "tutti/tensor/tensor_bytes.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace tutti {
namespace {

// Not quantized or packed, of which no tensor is made without more being known.
bool is_plain(at::ScalarType type) {
  return c10::isIntegralType(type, /*includeBool=*/true) || c10::isFloatingType(type) || c10::isComplexType(type);
}

}  // namespace

void write_tensor(ByteWriter& writer, const at::Tensor& tensor) {
  writer.number(tensor.defined());
  if (!tensor.defined()) return;
  const at::Tensor dense = tensor.is_sparse() ? tensor.to_dense() : tensor;
  const at::Tensor plain = dense.detach().resolve_conj().resolve_neg().cpu().contiguous();
  writer.number(static_cast<int64_t>(plain.scalar_type()));
  writer.number(plain.dim());
  for (const int64_t size : plain.sizes()) writer.number(size);
  writer.text({static_cast<const char*>(plain.const_data_ptr()), plain.nbytes()});
}

at::Tensor read_tensor(ByteReader& reader) {
  if (reader.number() == 0) return {};
  const auto dtype =
      static_cast<at::ScalarType>(reader.number_in(0, static_cast<int64_t>(at::ScalarType::Undefined) - 1));
  if (!is_plain(dtype)) reader.damaged("a tensor of a dtype that is not sent");
  std::vector<int64_t> sizes(static_cast<size_t>(reader.number_in(0, 64)));
  int64_t extent = static_cast<int64_t>(c10::elementSize(dtype));  // as LibTorch computes strides: also of no elements
  for (int64_t& size : sizes) {
    size = reader.number();
    if (size < 0 || __builtin_mul_overflow(extent, std::max<int64_t>(size, 1), &extent))
      reader.damaged("a tensor of impossible sizes");
  }
  const bool has_elements = std::ranges::find(sizes, 0) == sizes.end();
  const std::string bytes = reader.text();
  if (std::cmp_not_equal(has_elements ? extent : 0, bytes.size()))
    reader.damaged("a tensor of another size than its bytes");
  at::Tensor tensor = at::empty(sizes, at::TensorOptions(at::kCPU).dtype(dtype));
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(tensor.mutable_data_ptr()));
  return tensor;
}

}  // namespace tutti
