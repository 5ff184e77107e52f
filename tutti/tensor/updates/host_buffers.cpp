#include "tutti/tensor/updates/host_buffers.h"

#include <algorithm>

#include "tutti/tensor/away.h"
#include "tutti/tensor/host_memory.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

bool is_host_buffer(const Tensor& buffer) {
  const at::ScalarType dtype = buffer.scalar_type();
  return (dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf || dtype == at::kBFloat16) &&
         dense_in_host_memory(buffer);
}

}  // namespace

c10::ArrayRef<Tensor> buffers_of(const Tensor& tensor) {
  if (!is_mesh_tensor(tensor)) return tensor;
  if (any_value_is_away()) bring_home(mesh_impl(tensor).components());
  return mesh_impl(tensor).components();
}

c10::ArrayRef<Tensor> read_buffers_of(const Tensor& tensor) {
  return is_mesh_tensor(tensor) ? c10::ArrayRef<Tensor>(mesh_impl(tensor).read()) : c10::ArrayRef<Tensor>(tensor);
}

std::vector<Tensor> sparse_values_of(const Tensor& tensor) {
  std::vector<Tensor> values;
  for (const Tensor& buffer : buffers_of(tensor))
    if (buffer.defined() && buffer.is_sparse()) values.push_back(buffer._values());
  return values;
}

bool in_host_buffers(const Tensor& tensor) {
  const auto buffers = buffers_of(tensor);
  return std::all_of(buffers.begin(), buffers.end(), is_host_buffer) &&
         !(is_mesh_tensor(tensor) && mesh_impl(tensor).copied_view);
}

}  // namespace tutti
