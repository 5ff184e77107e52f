// What is written in place is the value, whatever it is made of.
#include <gmock/gmock.h>

#include <sstream>

#include "like_one_device.h"
#include "tests/support/test_devices.h"
#include "tutti/collectives/communications.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/tensor/registration.h"

namespace tutti::rules {
namespace {

using torch::Tensor;

// Sums of two terms, 1 and 2, that nobody has taken yet: the value is 3.
Tensor untaken_sum(const Mesh& mesh, at::IntArrayRef sizes) {
  ensure_registered();
  const MeshShape* shape = MeshShape::of(mesh);
  const Spec* spec = intern(shape, unsharded(static_cast<int64_t>(sizes.size())), 1, sizes);
  return make_mesh_tensor(spec, Components{torch::full(sizes, 1.0), torch::full(sizes, 2.0)});
}

TEST(Sums, ThatAreNotTakenYetAreWrittenAsOneValue) {
  const Mesh mesh = line_of(2, /*merge=*/false);
  const auto after = [&](const std::function<void(Tensor&)>& write) {
    Tensor x = untaken_sum(mesh, {3});
    write(x);
    EXPECT_TRUE(layout_of(x).unreduced());  // as it was
    return gather(x);
  };
  EXPECT_TRUE(after([](Tensor& x) { x.mul_(2); }).equal(torch::full({3}, 6.0)));
  EXPECT_TRUE(after([](Tensor& x) { x.fill_(1); }).equal(torch::full({3}, 1.0)));
  EXPECT_TRUE(after([](Tensor& x) { x.add_(1); }).equal(torch::full({3}, 4.0)));
  EXPECT_TRUE(after([](Tensor& x) { x.normal_(5, 0); }).equal(torch::full({3}, 5.0)));
  EXPECT_TRUE(after([](Tensor& x) { x.copy_(torch::ones({3})); }).equal(torch::ones({3})));
  EXPECT_TRUE(after([](Tensor& x) { x.zero_(); }).equal(torch::zeros({3})));
  EXPECT_TRUE(after([](Tensor& x) { x[0].fill_(7); }).equal(torch::tensor({7.0f, 3.0f, 3.0f})));
  EXPECT_TRUE(after([](Tensor& x) { x.detach().mul_(2); }).equal(torch::full({3}, 6.0)));  // through an alias
}

TEST(Sums, ThatAreNotTakenYetAreCheckedAsOneValue) {
  const Mesh mesh = line_of(2, /*merge=*/false);
  const Tensor three = untaken_sum(mesh, {3});
  EXPECT_THROW(torch::zeros_like(three).bernoulli_(three), c10::Error);
  EXPECT_THROW(at::normal(0.5, three - 4), c10::Error);
}

TEST(WrittenValues, MayNotBeWhatACallReadsWhereLibTorchRefuses) {
  const Tensor where = torch::tensor({1, 0, 1});
  const auto to_itself = [&](const Tensor& t) {
    Tensor written = t.clone();
    return written.scatter_add_(0, where, written);
  };
  expect_like_one_device(torch::arange(3.0), kCut, to_itself);
  expect_like_one_device(torch::arange(3.0), {"-"}, to_itself);
}

// LibTorch writes to what is repeated, with a warning.
TEST(RepeatedElements, AreWrittenWhereLibTorchDoes) {
  const Tensor mask = torch::tensor({false, true, false, false, false, true}).view({3, 2});
  const std::vector<TensorFunction> writes{[&](const Tensor& t) {
                                             return t.expand({3, 2}).masked_fill_(mask, 7);
                                           },
                                           [&](const Tensor& t) {
                                             return t.expand({3, 2}).index_put_({mask}, torch::tensor(7.0f));
                                           },
                                           [&](const Tensor& t) {
                                             return t.expand({3, 2}).index_fill_(0, torch::tensor({2}), 7);
                                           }};
  for (const auto& axes : {kRowsCut, kColumnsCut})
    for (size_t i = 0; i < writes.size(); ++i) {
      SCOPED_TRACE(i);
      expect_like_one_device(torch::arange(2.0).view({1, 2}), axes, writes[i]);
      expect_like_one_device(torch::arange(2.0).view({1, 2}), axes, [&](const Tensor& t) {  // reaches the base
        writes[i](t);
        return t;
      });
    }
}

TEST(Lists, OfNumbersMayBeATensor) {
  expect_like_one_device(torch::ones({4}), {"x"}, [](const Tensor& x) {
    Tensor numbers = torch::arange(2.0);
    if (is_mesh_tensor(x)) numbers = distribute_tensor(numbers, Layout::replicated(layout_of(x).mesh(), 1));
    return torch::stack(at::_foreach_addcmul({x, x}, {x, x}, {x * 2, x * 3}, numbers));
  });
}

TEST(Lists, ThatAnOpWritesAreWritten) {
  expect_like_one_device(torch::ones({4}), {"x"}, [](const Tensor& x) {
    const Tensor parameter = x.clone(), gradient = torch::full_like(x, 1);
    at::_fused_sgd_({parameter}, {gradient}, {}, 0, 0, 0.5, 0, false, false, true);
    return parameter;
  });
  expect_like_one_device(torch::ones({4}), {"x"}, [](const Tensor& x) {
    const Tensor parameter = x.clone(), gradient = torch::ones_like(x), mean = torch::zeros_like(x);
    const Tensor square = torch::zeros_like(x), step = torch::ones({});
    at::_fused_adam_({parameter}, {gradient}, {mean}, {square}, {}, {step}, 0.1, 0.9, 0.99, 0, 1e-8, false, false);
    return torch::stack({parameter, mean, square});
  });
  expect_like_one_device(torch::ones({4}), {"x"}, [](const Tensor& x) {
    std::vector<Tensor> list{x.clone()};
    at::_foreach_mul_(list, 3);
    return list[0];
  });
}

TEST(CopiedViews, FollowWritesThroughData) {
  expect_like_one_device(torch::arange(6.0).view({1, 3, 2}), {"-", "-", "x"}, [](const Tensor& x) {
    const Tensor row = x.select(2, 1), data = x.data().view({6});
    EXPECT_EQ(row.sum().item<double>(), 9);
    x.data().add_(1);
    const Tensor once = row.clone();
    data.mul_(2);
    return once + row;
  });
}

TEST(Storage, IsGatheredOnceForSaving) {
  const Tensor x = distribute_tensor(torch::arange(6.0), layout_on(line_of(2, /*merge=*/false), kCut));
  const auto saved = [&] {
    std::stringstream stream;
    torch::save(x, stream);
    Tensor loaded;
    torch::load(loaded, stream);
    return loaded;
  };
  reset_communications();
  EXPECT_TRUE(saved().equal(torch::arange(6.0)));
  int64_t gathers = 0;
  for (const Communication& each : communications())
    gathers += each.op == "all_gather" || each.op == "gather" ? each.count : 0;
  EXPECT_EQ(gathers, 1);
  x.data().add_(1);
  EXPECT_TRUE(saved().equal(torch::arange(1.0, 7.0)));
}

TEST(Replicas, GiveATensorThatAllShareNoOtherSizes) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  const Tensor shared = strategy.build([] { return torch::ones({1, 1}); });
  const Tensor left = torch::ones({2, 2, 1}), right = torch::ones({2, 1, 1});
  const auto grow_self = [&] { shared.addbmm_(left, right); };
  const auto grow_out = [&] {
    Tensor out = shared;
    torch::add_out(out, left, 1);
  };
  for (const std::function<void()>& grow : {std::function<void()>(grow_self), std::function<void()>(grow_out)}) {
    EXPECT_THAT(
        [&] { strategy.run(grow); },
        testing::ThrowsMessage<Error>(testing::HasSubstr("to a tensor of shape [1, 1] that all replicas share")));
    strategy.run([&] { EXPECT_TRUE((shared + 0).sizes().equals({1, 1})); });
  }
}

}  // namespace
}  // namespace tutti::rules
