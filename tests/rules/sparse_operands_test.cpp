// Plain sparse tensors beside mesh tensors: the values of plain tensors, or an error where pieces are cut.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_sparse_mm.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/embedding.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/sgd.h>

#include "tests/support/error_of.h"
#include "tests/support/test_devices.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

Tensor table() { return at::arange(12.0).view({4, 3}) / 3 + 1; }
// Of two rows, one of which comes twice.
Tensor rows() {
  return at::sparse_coo_tensor(at::tensor({1, 1, 3}, at::kLong).view({1, 3}), at::arange(9.0).view({3, 3}), {4, 3});
}
Tensor matrix() {
  return at::sparse_coo_tensor(at::tensor({0, 2, 1, 1, 0, 3}, at::kLong).view({2, 3}),
                               at::tensor({1, 4, 7}, at::kFloat), {3, 4});
}

template <class MakeOptimizer>
Tensor stepped(const Tensor& from, const MakeOptimizer& make) {
  const Tensor leaf = from.clone().requires_grad_();
  leaf.mutable_grad() = rows();
  make(leaf).step();
  return leaf.detach();
}

struct Call {
  const char* name;
  Tensor (*of)(const Tensor& dense);
};
const Call kCalls[] = {
    {"add", [](const Tensor& x) { return x + rows(); }},
    {"add_", [](const Tensor& x) { return x.clone().add_(rows(), -0.5); }},
    {"sub_", [](const Tensor& x) { return x.clone().sub_(rows()); }},
    {"mul", [](const Tensor& x) { return x * rows(); }},
    {"mul by dense", [](const Tensor& x) { return rows() * x; }},
    {"mm", [](const Tensor& x) { return matrix().mm(x); }},
    {"mm of dense", [](const Tensor& x) { return x.mm(matrix()); }},
    {"_sparse_mm", [](const Tensor& x) { return at::_sparse_mm(matrix(), x); }},
    {"addmm",
     [](const Tensor& x) {
       return at::addmm(at::ones({3, 3}), matrix(), x);
     }},
    {"SGD", [](const Tensor& x) { return stepped(x, [](auto& leaf) { return torch::optim::SGD({leaf}, 0.1); }); }},
    {"Adagrad",
     [](const Tensor& x) { return stepped(x, [](auto& leaf) { return torch::optim::Adagrad({leaf}, 0.1); }); }},
    {"gradient of mm",
     [](const Tensor& x) {
       const Tensor leaf = x.clone().requires_grad_();
       return torch::autograd::grad({matrix().mm(leaf).square().sum()}, {leaf})[0];
     }},
};

TEST(SparseOperands, GiveTheValuesOfPlainTensors) {
  for (const bool merge : {true, false})
    for (const bool sharded : {false, true}) {
      const Mesh mesh({{"x", 2}}, test_devices(2), {.merge = merge});
      const Layout layout({sharded ? "x" : kUnsharded, kUnsharded}, mesh);
      for (const Call& call : kCalls) {
        const auto seen = [&] { return gather(call.of(distribute_tensor(table(), layout))).cpu().to_dense(); };
        const std::string error = sharded && !merge ? error_of(seen) : "";
        if (error.find("make it dense") != std::string::npos) continue;
        EXPECT_TRUE(seen().equal(call.of(table()).to_dense())) << call.name << ' ' << merge << ' ' << sharded;
      }
    }
}

// The gradient of no rows is a plain one, that of some rows one of the mesh.
TEST(SparseOperands, AreAddedInAnyOrderToTheMeshsOwn) {
  const auto gradient = [](const Tensor& table, bool none_first) {
    const Tensor leaf = table.detach().requires_grad_();
    torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(4, 3).sparse(true));
    embedding->weight = leaf;
    const Tensor none = embedding(at::empty({0}, at::kLong)).sum(),
                 some = embedding(at::tensor({1, 2, 2}, at::kLong)).sum();
    return torch::autograd::grad({none_first ? none + 2 * some : 2 * some + none}, {leaf})[0];
  };
  for (const bool none_first : {true, false}) {
    const Mesh mesh({{"x", 2}}, test_devices(2));
    const Tensor seen = gradient(distribute_tensor(table(), Layout::replicated(mesh, 2)), none_first);
    EXPECT_TRUE(gather(seen).to_dense().cpu().equal(gradient(table(), none_first).to_dense())) << none_first;
  }
}

}  // namespace
}  // namespace tutti
