#include "tutti/tensor/absent_values.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <functional>

#include "tests/support/error_of.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/absent_memory.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"
#include "tutti/tensor/scope.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kAtOnce = int64_t{1} << 18;  // elements that are drawn at once

// Whole pages of a plain tensor's memory that are there.
int64_t pages_of(const Tensor& tensor) {
  constexpr uintptr_t kPage = 4096;
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) / kPage * kPage;
  const size_t count =
      (reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) + tensor.nbytes() - begin + kPage - 1) / kPage;
  std::vector<unsigned char> there(count);
  EXPECT_EQ(mincore(reinterpret_cast<void*>(begin), count * kPage, there.data()), 0);
  return std::ranges::count_if(there, [](unsigned char page) { return page & 1; });
}

// What a scope makes that has no values for what is larger than `most_bytes`.
template <class F>
Tensor made_without_values(const F& make, int64_t most_bytes = 0) {
  const Mesh mesh({{"x", 1}}, configure_logical_cpus(1));
  Scope scope(mesh, nullptr);
  scope.keep_elsewhere(most_bytes);
  return make();
}

const Tensor& component_of(const Tensor& tensor) { return mesh_impl(tensor).components()[0]; }

TEST(AbsentMemory, ReadsAsZeroAndTakesAPageForWhatIsWritten) {
  const Tensor tensor = absent_tensor({1 << 20, 16}, at::kFloat);
  EXPECT_TRUE(is_absent(tensor));
  EXPECT_EQ(tensor[1 << 19].sum().item<float>(), 0);
  EXPECT_EQ(pages_of(tensor.slice(0, 0, 1 << 19)), 0);
  tensor[5].fill_(3);
  EXPECT_EQ(tensor[5][15].item<float>(), 3);
  EXPECT_EQ(pages_of(tensor.slice(0, 0, 1 << 19)), 1);
}

TEST(AbsentMemory, TakesThePlaceOfWhatATensorAndItsViewsHave) {
  const Tensor tensor = at::ones({1000, 1000});
  const Tensor view = tensor[7];
  make_absent(tensor);
  EXPECT_TRUE(is_absent(tensor));
  EXPECT_TRUE(is_absent(view));
  EXPECT_EQ(view.sum().item<float>(), 0);
  view.fill_(2);
  EXPECT_EQ(tensor.sum().item<float>(), 2000);
}

TEST(ValuesElsewhere, AreDrawnAsIfTheyWereHereAndTakeNoMemory) {
  const std::vector<int64_t> counts{1, 5, 15, 16, 33, 2 * kAtOnce - 1, 2 * kAtOnce, 2 * kAtOnce + 1, 3 * kAtOnce + 17};
  const auto draws = std::vector<std::pair<const char*, std::function<Tensor(int64_t, at::ScalarType)>>>{
      {"normal_", [](int64_t count, at::ScalarType dtype) { return at::empty({count}, dtype).normal_(1, 2); }},
      {"uniform_", [](int64_t count, at::ScalarType dtype) { return at::empty({count}, dtype).uniform_(-1, 2); }},
      {"randn", [](int64_t count, at::ScalarType dtype) { return at::randn({count}, dtype); }},
      {"rand", [](int64_t count, at::ScalarType dtype) { return at::rand({count}, dtype); }}};
  for (const auto& [name, draw] : draws)
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16})
      for (const int64_t count : counts) {
        set_random_seed(5);
        draw(count, dtype);
        const Tensor next = at::rand({8}), next_normal = at::randn({5});
        set_random_seed(5);
        const Tensor made = made_without_values([&, &draw = draw] { return draw(count, dtype); });
        const std::string what = str(name, ' ', at::toString(dtype), ' ', count);
        EXPECT_TRUE(at::equal(at::rand({8}), next)) << what;
        EXPECT_TRUE(at::equal(at::randn({5}), next_normal)) << what;
        ASSERT_TRUE(is_mesh_tensor(made)) << what;
        EXPECT_EQ(made.scalar_type(), dtype) << what;
        EXPECT_TRUE(is_absent(component_of(made))) << what;
        EXPECT_EQ(pages_of(component_of(made)), 0) << what;
      }
}

TEST(ValuesElsewhere, AreNotWritten) {
  const Tensor made = made_without_values([] {
    const at::NoGradGuard no_grad;
    Tensor w = at::full({1000, 1000}, 3.0);
    w.mul_(2).add_(1).erfinv_().clamp_(0, 1).zero_();
    w.copy_(at::ones({1000, 1}));
    w[5].fill_(2);
    return w;
  });
  EXPECT_EQ(pages_of(component_of(made)), 0);
  EXPECT_EQ(made.sum().item<float>(), 0);
}

TEST(ValuesElsewhere, AreThoseOfLargeTensorsAndOfWhatIsMadeLikeThem) {
  constexpr int64_t kMost = 1000 * sizeof(float);
  EXPECT_FALSE(is_absent(component_of(made_without_values([] { return at::zeros({1000}); }, kMost))));
  EXPECT_TRUE(is_absent(component_of(made_without_values([] { return at::zeros({1001}); }, kMost))));
  EXPECT_TRUE(is_absent(component_of(made_without_values([] { return at::full_like(at::ones({1001}), 7); }, kMost))));
  EXPECT_FALSE(is_absent(component_of(made_without_values([] { return at::zeros_like(at::ones({999})); }, kMost))));
  const Tensor computed = made_without_values([] { return at::ones({1001}) + 1; }, kMost);
  EXPECT_FALSE(is_absent(component_of(computed)));
}

TEST(ValuesElsewhere, OfAnEmbeddingAreDrawnToo) {
  const auto make = [] {
    return torch::nn::Embedding(torch::nn::EmbeddingOptions(1 << 16, 16).padding_idx(3))->weight;
  };
  set_random_seed(5);
  make();
  const Tensor next = at::rand({8});
  set_random_seed(5);
  const Tensor made = made_without_values(make, 1 << 20);
  EXPECT_TRUE(at::equal(at::rand({8}), next));
  EXPECT_TRUE(made.requires_grad());
  EXPECT_EQ(pages_of(component_of(made)), 0);
}

TEST(ValuesElsewhere, AreRefusedWhereSomeAtATimeWouldBeOthers) {
  EXPECT_THAT(error_of([] { made_without_values([] { return at::empty({64}).exponential_(); }); }),
              HasSubstr("unimplemented: aten::exponential_: it draws for a variable of shape [64]"));
}

}  // namespace
}  // namespace tutti
