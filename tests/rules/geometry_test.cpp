// Strides, aliases and memory: what a program reads off a mesh tensor fits what it gets when the value is gathered.
#include "like_one_device.h"
#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tutti/tensor/strict_mode.h"
#include "tutti/tensor/view.h"

namespace tutti::rules {
namespace {

using torch::Tensor;

Tensor saved_and_loaded(const Tensor& x) {
  std::stringstream stream;
  torch::save(x, stream);
  Tensor result;
  torch::load(result, stream);
  return result;
}

TEST(Strides, OfThePiecesOfAColumnMajorMatrixAreTheWholes) {
  torch::manual_seed(3);
  const Tensor x = torch::randn({4, 4}).t();
  const auto gradient = [](const TensorFunction& f) {
    return [f](const Tensor& t) {
      const Tensor input = t.t().contiguous().t().detach().requires_grad_();
      f(input).backward();
      return input.grad();
    };
  };
  for (const std::vector<std::string>& axes : {std::vector<std::string>{"-", "x"}, {"x", "-"}})
    for (const int devices : {2, 4}) {
      expect_like_one_device(x, axes, gradient([](const Tensor& t) { return torch::det(t); }), devices, 1e-4);
      expect_like_one_device(x, axes, gradient([](const Tensor& t) { return std::get<1>(torch::slogdet(t)); }), devices,
                             1e-4);
    }
}

TEST(Strides, OfARepeatedBatchAreThoseThatTheFormulaWasGiven) {
  torch::manual_seed(3);
  expect_like_one_device(
      torch::randn({1, 3, 3}), {"-", "x", "-"},
      [](const Tensor& t) {
        const Tensor input = t.detach().expand({4, 3, 3}).requires_grad_();
        torch::det(input).sum().backward();
        return input.grad();
      },
      2, 1e-4);
}

TEST(Strides, AreSavedWithTheElementsTheyAreOf) {
  const Tensor x = torch::arange(12.0).view({3, 4});
  for (const std::vector<std::string>& axes : {std::vector<std::string>{"-", "x"}, {"x", "-"}})
    for (const int devices : {2, 3, 4}) {
      expect_like_one_device(
          x, axes, [](const Tensor& t) { return saved_and_loaded(t.t()); }, devices);
      expect_like_one_device(
          x, axes, [](const Tensor& t) { return saved_and_loaded((t * 1).t() + 0); }, devices);
      expect_like_one_device(
          x, axes, [](const Tensor& t) { return saved_and_loaded(t.slice(1, 0, 4, 2)); }, devices);
      expect_like_one_device(
          x, axes,
          [](const Tensor& t) {
            return saved_and_loaded(t.sum(1, true).expand({3, 5}));
          },
          devices);
      expect_like_one_device(
          x, axes,
          [](const Tensor& t) {
            return saved_and_loaded(t.sum(0, true).expand({5, 4}));
          },
          devices);
    }
}

TEST(Strides, OfATransposedTensorNameItsElementsInOrder) {
  expect_like_one_device(torch::arange(6.0).view({2, 3}), {"x", "-"},
                         [](const Tensor& t) { return t.t().as_strided({6}, {1}); });
}

TEST(Pieces, AreContiguousForKernelsThatInsist) {
  torch::manual_seed(1);
  const Tensor x = torch::randn({4, 6, 4});
  const auto backward = [](const TensorFunction& f) {
    return [f](const Tensor& t) {
      const Tensor input = t.transpose(0, 1).contiguous().transpose(0, 1).detach().requires_grad_();
      const Tensor y = f(input);
      y.square().sum().backward();
      return input.grad();
    };
  };
  for (const std::vector<std::string>& axes :
       {std::vector<std::string>{"x", "-", "-"}, {"-", "x", "-"}, {"-", "-", "x"}}) {
    expect_like_one_device(x, axes, backward([](const Tensor& t) { return torch::group_norm(t, 3); }), 2, 1e-4);
    expect_like_one_device(x, axes, backward([](const Tensor& t) { return torch::kron(t[0], t[1]); }), 2, 1e-4);
    expect_like_one_device(x, axes, backward([](const Tensor& t) {
                             const Tensor classes = torch::arange(16).remainder(6).view({4, 4});
                             return torch::nll_loss_nd(t.log_softmax(1), classes);
                           }),
                           2, 1e-4);
    expect_like_one_device(torch::randn({4, 6, 4, 1}), {axes[0], axes[1], axes[2], "-"}, backward([](const Tensor& t) {
                             const Tensor classes = torch::arange(16).remainder(6).view({4, 4, 1});
                             return torch::nll_loss_nd(t.log_softmax(1), classes);
                           }),
                           2, 1e-4);
  }
}

TEST(Geometry, ThatChangesInPlaceIsTheTensorsOwn) {
  for (const bool merge : {true, false}) {
    SCOPED_TRACE(merge);
    const Mesh mesh = line_of(2, merge);
    const Tensor x = distribute_tensor(torch::zeros({4, 2}), layout_on(mesh, {"-", "-"}));
    const Tensor data = x.data(), detached = x.detach();
    EXPECT_EQ((x.data().unsqueeze_(0) + 1).sizes(), (std::vector<int64_t>{1, 4, 2}));
    EXPECT_EQ((x + 1).sizes(), (std::vector<int64_t>{4, 2}));
    x.t_();
    EXPECT_EQ((x + 1).sizes(), (std::vector<int64_t>{2, 4}));
    EXPECT_EQ((data + 1).sizes(), (std::vector<int64_t>{4, 2}));
    EXPECT_EQ((detached + 1).sizes(), (std::vector<int64_t>{4, 2}));
    x.add_(1);  // still one value
    EXPECT_EQ(detached.sum().item<double>(), 8);
  }
}

TEST(Geometry, ThatChangesInPlaceKeepsTheLayout) {
  for (const bool merge : {true, false}) {
    SCOPED_TRACE(merge);
    const Mesh mesh = line_of(2, merge);
    const Tensor whole = torch::arange(12.0).view({4, 1, 3});
    Tensor x = distribute_tensor(whole, layout_on(mesh, {"x", "-", "-"}));
    const CollectedWarnings warnings;
    x.squeeze_(1);
    EXPECT_EQ(layout_of(x), layout_on(mesh, {"x", "-"}));
    x.t_();
    EXPECT_EQ(layout_of(x), layout_on(mesh, {"-", "x"}));
    x.transpose_(0, 1);
    EXPECT_EQ(layout_of(x), layout_on(mesh, {"x", "-"}));
    x.transpose_(1, 0);
    x.unsqueeze_(0);
    EXPECT_EQ(layout_of(x), layout_on(mesh, {"-", "-", "x"}));
    EXPECT_TRUE(gather(x).equal(whole.squeeze(1).t().unsqueeze(0)));
    EXPECT_TRUE(warnings.lines().empty());
  }
}

TEST(Geometry, ThatAllReplicasShareIsNotChangedByOne) {
  for (const bool merge : {true, false}) {
    const Mesh mesh = line_of(2, merge);
    const Tensor x = distribute_tensor(torch::zeros({2, 3}), layout_on(mesh, {"-", "-"}));
    const ThreadViewGuard view({.replica = 1, .mesh = MeshShape::of(mesh)});
    EXPECT_EQ(code_of([&] { x.t_(); }), ErrorCode::failed_precondition);
    EXPECT_EQ(code_of([&] { x.resize_({2}); }), ErrorCode::failed_precondition);
    Tensor out = x;
    EXPECT_EQ(code_of([&] { torch::abs_out(out, torch::ones({5})); }), ErrorCode::failed_precondition);
    torch::abs_out(out, -torch::ones({2, 3}));
    EXPECT_EQ(x.sum().item<double>(), 6);
    EXPECT_EQ((x + 1).sizes(), (std::vector<int64_t>{2, 3}));
  }
}

TEST(PlainOperands, StayInTheCallersMemory) {
  for (const bool merge : {true, false})
    for (const char* axis : {"x", "-"}) {
      SCOPED_TRACE(axis);
      float data[4] = {1, 2, 3, 4};
      const Tensor plain = torch::from_blob(data, {4});
      const Tensor x = distribute_tensor(torch::zeros({4}), layout_on(line_of(2, merge), {axis}));
      EXPECT_TRUE(gather(x + plain).equal(plain));
      EXPECT_EQ(plain.data_ptr(), data);
      data[0] = 100;
      EXPECT_EQ(plain[0].item<float>(), 100);
      EXPECT_EQ(gather(x + plain)[0].item<float>(), 100);
    }
}

TEST(Storage, OfACopyIsNotWritten) {
  const Mesh mesh = line_of(2, /*merge=*/false);
  const Tensor x = distribute_tensor(torch::arange(4.0), layout_on(mesh, {"x"}));
  EXPECT_EQ(static_cast<const float*>(x.storage().data())[3], 3);
  EXPECT_THROW(x.storage().mutable_data(), c10::Error);  // it would not reach x
}

TEST(Conversions, ToANamedDeviceGatherNothingInStrictMode) {
  for (const bool merge : {true, false}) {
    const Tensor x = distribute_tensor(torch::arange(4.0), layout_on(line_of(2, merge), {"x"}));
    EXPECT_FALSE(is_mesh_tensor(x.to(torch::kCPU)));
    const StrictMode strict;
    EXPECT_EQ(code_of([&] { x.to(torch::kCPU); }), ErrorCode::failed_precondition);
    EXPECT_EQ(code_of([&] { x.to(x.device(), torch::kDouble); }), ErrorCode::failed_precondition);
    EXPECT_FALSE(is_mesh_tensor(gather(x).to(torch::kCPU)));
  }
}

}  // namespace
}  // namespace tutti::rules
