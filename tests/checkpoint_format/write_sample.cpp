// write_sample FOLDER: saves the checkpoint that read_sample.py knows. Element k of each tensor, row-major, is k mod
// 100.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>

#include "tutti/checkpoint/writer.h"
#include "tutti/device/logical_devices.h"

using namespace tutti;

namespace {

Tensor counted(std::vector<int64_t> sizes, at::ScalarType dtype) {
  int64_t numel = 1;
  for (const int64_t size : sizes) numel *= size;
  return at::arange(numel).remainder(100).to(dtype).view(sizes);
}

}  // namespace

int main(int, char** arguments) {
  const Mesh mesh({{"x", 2}, {"y", 2}}, configure_logical_cpus(4), {.merge = false});
  const Tensor numbers = counted({5}, at::kFloat);
  checkpoint::Contents contents{.values = {{"count", int64_t{-7}}, {"rate", 0.1}, {"name", std::string("a \"b\"")}},
                                .step = 12};
  const auto save = [&](const char* name, const Tensor& tensor) {
    contents.tensors.push_back(checkpoint::named_tensor(name, tensor));
  };
  save("net/0/weight", counted({3, 4}, at::kFloat));
  save("bfloat16", counted({7}, at::kBFloat16));
  save("float16", counted({7}, at::kHalf));
  save("float64", counted({2, 2, 2}, at::kDouble));
  save("int64", counted({}, at::kLong));
  save("uint8", counted({3}, at::kByte));
  save("bool", counted({2}, at::kBool));
  save("complex64", at::complex(numbers, numbers));
  save("empty", counted({3, 0}, at::kFloat));
  save("several chunks", counted({700, 500}, at::kFloat));
  save("sharded", distribute_tensor(counted({7, 5}, at::kFloat), Layout({"y", "x"}, mesh)));
  save("rows", distribute_tensor(counted({900, 500}, at::kFloat), Layout({"x", "unsharded"}, mesh)));
  checkpoint::write(checkpoint::posix_file_system(), arguments[1], contents);
}
