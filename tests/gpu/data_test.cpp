// Data on its way to a GPU.
#include "gpu_test.h"

namespace tutti::gpu {
namespace {

class Data : public GpuTest {};

TEST_F(Data, IsOnTheReplicasDevicesInOrder) {
  MirroredStrategy strategy({.devices = parts(2)});
  const auto dataset = data::from_tensor_slices(torch::arange(40, torch::kFloat)).batch(8).prefetch(2);
  int64_t next = 0;
  for (const auto& batch : strategy.distribute(dataset)) {
    for (size_t r = 0; r < 2; ++r) {
      EXPECT_TRUE(is_gpu(batch[r].device()));
      expect_bits(batch[r], torch::arange(next, next + 4, torch::kFloat), "the batch");
      next += 4;
    }
  }
  EXPECT_EQ(next, 40);
}

// Each sum reads what was just copied: a copy that is not waited for gives another one.
TEST_F(Data, IsThereWhenItIsRead) {
  MirroredStrategy strategy({.devices = parts(2)});
  torch::manual_seed(1);
  const Tensor rows = torch::randint(100, {64, 1 << 18}, torch::kLong);
  int64_t i = 0;
  for (const auto& batch : strategy.distribute(data::from_tensor_slices(rows).batch(8).prefetch(4))) {
    const auto sums = strategy.run([](const Tensor& x) { return x.sum(1); }, batch);
    for (size_t r = 0; r < 2; ++r, i += 4) expect_bits(sums[r], rows.narrow(0, i, 4).sum(1), str("batch at row ", i));
  }
}

TEST_F(Data, OfLibTorchsLoaderToo) {
  struct Squares : torch::data::datasets::Dataset<Squares> {
    torch::data::Example<> get(size_t i) override {
      return {torch::full({2}, static_cast<double>(i)), torch::tensor(static_cast<int64_t>(i * i))};
    }
    std::optional<size_t> size() const override { return 24; }
  };
  MirroredStrategy strategy({.devices = parts(2)});
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      Squares().map(torch::data::transforms::Stack<>()), 8);
  int64_t count = 0;
  for (const auto& batch : strategy.distribute(*loader))
    strategy.run(
        [&](const torch::data::Example<>& example) {
          EXPECT_TRUE(is_gpu(example.data.device()) && is_gpu(example.target.device()));
          EXPECT_TRUE(torch::equal(example.data.select(1, 0).square().to(torch::kLong), example.target));
        },
        batch),
        ++count;
  EXPECT_EQ(count, 3);
}

}  // namespace
}  // namespace tutti::gpu
