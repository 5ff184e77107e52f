// tests/oracle/dtensor_layouts.json, kind `op`: what TensorFlow's DTensor returned for 70 operations on sharded inputs.
// Every value must be that of the operation on one device, those that TensorFlow refused or got wrong too, with merged
// and with separate buffers. TensorFlow's choice of output layouts is compared and counted: ours may differ where it
// moves fewer bytes.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <iostream>
#include <map>

#include "tests/support/oracle_cases.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using oracle::Json;
using torch::indexing::Slice, torch::indexing::TensorIndex;
using Tensors = std::vector<Tensor>;
using Operation = std::function<Tensors(const Json& attributes, const Tensors& inputs)>;

std::vector<int64_t> integers(const Json& list) { return list.get<std::vector<int64_t>>(); }

// A reduction over the axes of "axis": all of them for null, none for an empty list.
template <class Reduce>
Operation reduction(Reduce reduce) {
  return [reduce](const Json& attributes, const Tensors& in) -> Tensors {
    const Json& axis = attributes.at("axis");
    std::vector<int64_t> axes;
    if (axis.is_null())
      for (int64_t i = 0; i < in[0].dim(); ++i) axes.push_back(i);
    else
      axes = axis.is_array() ? integers(axis) : std::vector{axis.get<int64_t>()};
    return {reduce(in[0], axes, attributes.at("keepdims").get<bool>())};
  };
}

Tensor product(Tensor x, std::vector<int64_t> axes, bool keep) {
  std::sort(axes.rbegin(), axes.rend());
  for (const int64_t axis : axes) x = x.prod(axis, keep);
  return x;
}

// The gradients of `loss` with respect to `inputs`, which are made leaves.
Tensors gradients(const Tensors& inputs, const std::function<Tensor(const Tensors& leaves)>& loss, bool with_loss) {
  Tensors leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_());
  const Tensor value = loss(leaves);
  Tensors result = torch::autograd::grad({value}, leaves);
  if (with_loss) result.insert(result.begin(), value.detach());
  return result;
}

Tensor convolution(const Json& attributes, const Tensors& in) {  // NHWC, HWIO
  Tensor image = in[0].permute({0, 3, 1, 2});
  const int64_t stride = attributes.at("stride");
  if (attributes.at("padding") == "SAME") {
    const auto before_and_after = [&](int64_t size, int64_t window) {
      const int64_t total = std::max<int64_t>(((size + stride - 1) / stride - 1) * stride + window - size, 0);
      return std::pair(total / 2, total - total / 2);
    };
    const auto [left, right] = before_and_after(image.size(3), in[1].size(1));
    const auto [top, bottom] = before_and_after(image.size(2), in[1].size(0));
    image = torch::constant_pad_nd(image, {left, right, top, bottom});
  }
  return torch::conv2d(image, in[1].permute({3, 2, 0, 1}), {}, stride).permute({0, 2, 3, 1});
}

Tensor strided_slice(const Json& slices, Tensor x) {
  for (size_t axis = 0; axis < slices.size(); ++axis) {
    const auto bound = [&](size_t i) {
      return slices[axis][i].is_null() ? std::nullopt : std::optional(slices[axis][i].get<int64_t>());
    };
    const auto dim = static_cast<int64_t>(axis);
    x = bound(2) == -1 ? x.flip(dim) : x.slice(dim, bound(0), bound(1), bound(2).value_or(1));
  }
  return x;
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  return torch::matmul(torch::softmax(torch::matmul(q, k.transpose(-2, -1)) * 0.5, -1), v);
}

Tensor batch_norm(const Tensor& x) {
  const auto [variance, mean] = torch::var_mean(x, 0, /*unbiased=*/false);
  return (x - mean) * torch::rsqrt(variance + 1e-5);
}

Tensor one_hot_of(const Tensor& ids, int64_t depth) {
  return ids.unsqueeze(-1).eq(torch::arange(depth, ids.options())).to(torch::kFloat);
}

// name → function of one tensor.
template <class F>
Operation of_one(F f) {
  return [f](const Json&, const Tensors& in) -> Tensors { return {f(in[0])}; };
}
template <class F>
Operation of_two(F f) {
  return [f](const Json&, const Tensors& in) -> Tensors { return {f(in[0], in[1])}; };
}
template <class F>
Operation along_axis(F f) {
  return [f](const Json& a, const Tensors& in) -> Tensors { return {f(in[0], a.at("axis").get<int64_t>())}; };
}
// (attributes, inputs) → one tensor.
template <class F>
Operation general(F f) {
  return [f](const Json& a, const Tensors& in) -> Tensors { return {f(a, in)}; };
}

std::map<std::string, Operation> elementwise() {
  return {
      {"add", of_two([](auto& a, auto& b) { return a + b; })},
      {"mul", of_two([](auto& a, auto& b) { return a * b; })},
      {"sub", of_two([](auto& a, auto& b) { return a - b; })},
      {"div", of_two([](auto& a, auto& b) { return a / b; })},
      {"bias_add", of_two([](auto& a, auto& b) { return a + b; })},
      {"maximum", of_two([](auto& a, auto& b) { return torch::maximum(a, b); })},
      {"greater", of_two([](auto& a, auto& b) { return a.gt(b); })},
      {"add_n3", general([](auto&, auto& in) { return in[0] + in[1] + in[2]; })},
      {"relu", of_one([](auto& x) { return torch::relu(x); })},
      {"tanh", of_one([](auto& x) { return torch::tanh(x); })},
      {"sigmoid", of_one([](auto& x) { return torch::sigmoid(x); })},
      {"exp", of_one([](auto& x) { return torch::exp(x); })},
      {"neg", of_one([](auto& x) { return -x; })},
      {"square", of_one([](auto& x) { return torch::square(x); })},
      {"cast_int32", of_one([](auto& x) { return x.to(torch::kInt); })},
      {"identity", of_one([](auto& x) { return x.clone(); })},
      {"select", general([](auto&, auto& in) { return torch::where(in[0] > 0, in[1], in[2]); })},
  };
}

std::map<std::string, Operation> reductions() {
  return {
      {"reduce_sum", reduction([](auto& x, auto& axes, bool keep) { return axes.empty() ? x : x.sum(axes, keep); })},
      {"reduce_mean", reduction([](auto& x, auto& axes, bool keep) { return axes.empty() ? x : x.mean(axes, keep); })},
      {"reduce_max", reduction([](auto& x, auto& axes, bool keep) { return axes.empty() ? x : x.amax(axes, keep); })},
      {"reduce_min", reduction([](auto& x, auto& axes, bool keep) { return axes.empty() ? x : x.amin(axes, keep); })},
      {"reduce_prod", reduction(product)},
      {"reduce_any", reduction([](auto& x, auto& axes, bool keep) {
         return axes.empty() ? x > 0 : torch::any(x > 0, at::OptionalIntArrayRef(axes), keep);
       })},
      {"reduce_all", reduction([](auto& x, auto& axes, bool keep) {
         return axes.empty() ? x > 0 : torch::all(x > 0, at::OptionalIntArrayRef(axes), keep);
       })},
      {"l2_loss", of_one([](auto& x) { return x.square().sum() / 2; })},
      {"softmax", along_axis([](auto& x, int64_t axis) { return torch::softmax(x, axis); })},
      {"log_softmax", along_axis([](auto& x, int64_t axis) { return torch::log_softmax(x, axis); })},
      {"cumsum", along_axis([](auto& x, int64_t axis) { return x.cumsum(axis); })},
      {"cumprod", along_axis([](auto& x, int64_t axis) { return x.cumprod(axis); })},
      {"argmax", along_axis([](auto& x, int64_t axis) { return x.argmax(axis); })},
      {"argmin", along_axis([](auto& x, int64_t axis) { return x.argmin(axis); })},
      {"sort", of_one([](auto& x) { return std::get<0>(x.sort(-1)); })},
      {"top_k",
       [](const Json& a, const Tensors& in) -> Tensors {
         const auto [values, indices] = in[0].topk(a.at("k").get<int64_t>());
         return {values, indices.to(torch::kInt)};
       }},
      {"sum_of_products", of_two([](auto& a, auto& b) { return (a * b).sum(-1); })},
      {"layer_norm", general([](auto&, auto& in) { return torch::layer_norm(in[0], {8}, in[1], in[2], 1e-5); })},
      {"batch_norm", of_one(batch_norm)},
      {"sparse_softmax_ce", of_two([](auto& logits, auto& labels) {
         return torch::cross_entropy_loss(logits, labels, {}, at::Reduction::None);
       })},
      {"softmax_ce", of_two([](auto& logits, auto& labels) {
         return torch::cross_entropy_loss(logits, labels, {}, at::Reduction::None);
       })},
  };
}

std::map<std::string, Operation> products() {
  return {
      {"matmul", general([](auto& a, auto& in) {
         const auto operand = [&](int i, const char* name) {
           return a.value(name, false) ? in[i].transpose(-2, -1) : in[i];
         };
         return torch::matmul(operand(0, "transpose_a"), operand(1, "transpose_b"));
       })},
      {"einsum",
       general([](auto& a, auto& in) { return torch::einsum(a.at("equation").template get<std::string>(), in); })},
      {"conv2d", general(convolution)},
      {"max_pool", of_one([](auto& x) {
         return torch::max_pool2d(x.permute({0, 3, 1, 2}), 2).permute({0, 2, 3, 1});
       })},
      {"avg_pool", of_one([](auto& x) {
         return torch::avg_pool2d(x.permute({0, 3, 1, 2}), 2).permute({0, 2, 3, 1});
       })},
      {"mlp", general([](auto&, auto& in) { return torch::matmul(torch::relu(torch::matmul(in[0], in[1])), in[2]); })},
      {"attention", general([](auto&, auto& in) { return attention(in[0], in[1], in[2]); })},
      {"grad_matmul",
       [](const Json&, const Tensors& in) {
         return gradients(
             in, [](auto& l) { return torch::matmul(l[0], l[1]).square().sum(); }, false);
       }},
      {"grad_dense_relu",
       [](const Json&, const Tensors& in) {
         const auto loss = [&](const Tensors& l) { return torch::relu(torch::matmul(in[0], l[0]) + l[1]).mean(); };
         return gradients({in[1], in[2]}, loss, true);
       }},
  };
}

std::map<std::string, Operation> movements() {
  return {
      {"reshape", general([](auto& a, auto& in) { return in[0].reshape(integers(a.at("shape"))); })},
      {"broadcast_to", general([](auto& a, auto& in) { return in[0].expand(integers(a.at("shape"))).contiguous(); })},
      {"transpose", general([](auto& a, auto& in) { return in[0].permute(integers(a.at("perm"))); })},
      {"concat", general([](auto& a, auto& in) { return torch::cat(in, a.at("axis").template get<int64_t>()); })},
      {"stack", general([](auto& a, auto& in) { return torch::stack(in, a.at("axis").template get<int64_t>()); })},
      {"split",
       [](const Json& a, const Tensors& in) -> Tensors {
         return in[0].chunk(a.at("num").get<int64_t>(), a.at("axis").get<int64_t>());
       }},
      {"unstack",
       [](const Json& a, const Tensors& in) -> Tensors { return in[0].unbind(a.at("axis").get<int64_t>()); }},
      {"expand_dims", along_axis([](auto& x, int64_t axis) { return x.unsqueeze(axis); })},
      {"squeeze", general([](auto& a, auto& in) {
         return a.at("axis").is_null() ? in[0].squeeze() : in[0].squeeze(integers(a.at("axis")));
       })},
      {"reverse", along_axis([](auto& x, int64_t axis) { return x.flip(axis); })},
      {"roll", of_one([](auto& x) { return x.roll(1, 0); })},
      {"tile", general([](auto& a, auto& in) { return in[0].tile(integers(a.at("multiples"))); })},
      {"pad", general([](auto& a, auto& in) {
         const Json& p = a.at("paddings");
         return torch::constant_pad_nd(in[0], std::vector<int64_t>{p[1][0].get<int64_t>(), p[1][1].get<int64_t>(),
                                                                   p[0][0].get<int64_t>(), p[0][1].get<int64_t>()});
       })},
      {"slice", general([](auto& a, auto& in) {
         const auto begin = integers(a.at("begin")), size = integers(a.at("size"));
         Tensor x = in[0];
         for (size_t i = 0; i < begin.size(); ++i) x = x.narrow(static_cast<int64_t>(i), begin[i], size[i]);
         return x;
       })},
      {"strided_slice", general([](auto& a, auto& in) { return strided_slice(a.at("slices"), in[0]); })},
      {"index0", general([](auto& a, auto& in) { return in[0][a.at("index").template get<int64_t>()]; })},
  };
}

std::map<std::string, Operation> picks() {
  return {
      {"gather",
       general([](auto& a, auto& in) { return in[0].index_select(a.at("axis").template get<int64_t>(), in[1]); })},
      {"embedding_lookup", of_two([](auto& table, auto& ids) { return torch::embedding(table, ids); })},
      {"gather_nd", of_two([](auto& x, auto& places) {
         const Tensor index = places.to(torch::kLong);
         return x.index({index.select(1, 0), index.select(1, 1)});
       })},
      {"unsorted_segment_sum", general([](auto& a, auto& in) {
         return torch::zeros({a.at("num").template get<int64_t>(), in[0].size(1)}).index_add(0, in[1], in[0]);
       })},
      {"tensor_scatter_add", general([](auto&, auto& in) { return in[0].index_add(0, in[1].select(1, 0), in[2]); })},
      {"one_hot", general([](auto& a, auto& in) { return one_hot_of(in[0], a.at("depth").template get<int64_t>()); })},
      {"where_indices", of_one([](auto& x) { return (x > 0).nonzero(); })},
  };
}

const std::map<std::string, Operation>& operations() {
  static const auto all = [] {
    std::map<std::string, Operation> table;
    for (const auto& family : {elementwise(), reductions(), products(), movements(), picks()})
      table.insert(family.begin(), family.end());
    return table;
  }();
  return all;
}

Mesh mesh_of(const Json& dimensions, bool merge) {
  std::vector<MeshDimension> named;
  for (const Json& dimension : dimensions) named.push_back({dimension[0], dimension[1]});
  return Mesh(named, configure_logical_cpus(8), {.merge = merge});
}

// A case on merged or separate buffers.
class Trial {
 public:
  Trial(const Json& document, const Json& test, bool merge)
      : test_(test), mesh_(mesh_of(document.at("meshes").at(test.at("mesh").get<std::string>()), merge)) {
    for (const Json& input : test.at("inputs"))
      inputs_.push_back(distribute_tensor(oracle::tensor(document.at("tensors").at(input.at("ref").get<std::string>())),
                                          Layout(input.at("layout").get<std::vector<std::string>>(), mesh_)));
    outputs_ = operations().at(test.at("op"))(test.at("attrs"), inputs_);
  }

  bool values_equal(const Json& values) const {
    if (values.size() != outputs_.size()) return false;
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (!oracle::equals(gather(outputs_[i]), values[i])) return false;
    return true;
  }

  // Whether each output has the layout that TensorFlow chose, eagerly or in a compiled function.
  bool layouts_equal() const {
    return layouts_equal(test_.at("expected")) ||
           (test_.contains("expected_function") && test_.at("expected_function").contains("outputs") &&
            layouts_equal(test_.at("expected_function")));
  }

 private:
  bool layouts_equal(const Json& expected) const {
    const Json& recorded = expected.at("outputs");
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (!(layout_of(outputs_[i]) == Layout(recorded[i].at("layout").get<std::vector<std::string>>(), mesh_)))
        return false;
    return true;
  }

  const Json& test_;
  Mesh mesh_;
  Tensors inputs_, outputs_;
};

TEST(DTensorOpsOracle, ValuesAreThoseOfOneDeviceInEveryLayout) {
  const Json document = oracle::document("dtensor_layouts.json");
  struct Tally {
    int cases = 0, refused_by_tensorflow = 0, layouts = 0, same_layout = 0;
  };
  std::map<std::string, Tally> tallies;
  for (const Json& test : document.at("cases")) {
    if (test.at("kind") != "op") continue;
    Tally& tally = tallies[test.at("op")];
    ++tally.cases;
    for (const bool merge : {true, false}) {
      SCOPED_TRACE(test.at("name").get<std::string>() + (merge ? " merged" : " separate"));
      try {
        const Trial trial(document, test, merge);
        EXPECT_TRUE(trial.values_equal(document.at("values").at(test.at("value_key").get<std::string>())));
        if (merge) continue;
        const bool refused = test.at("expected").contains("error");
        tally.refused_by_tensorflow += refused;
        tally.layouts += !refused;
        tally.same_layout += !refused && trial.layouts_equal();
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  Tally all;
  for (const auto& [name, tally] : tallies) {
    all.cases += tally.cases;
    all.refused_by_tensorflow += tally.refused_by_tensorflow;
    all.layouts += tally.layouts;
    all.same_layout += tally.same_layout;
    if (tally.same_layout != tally.layouts)
      std::cout << "  " << name << ": " << tally.same_layout << " of " << tally.layouts << " layouts as TensorFlow's\n";
  }
  std::cout << "dtensor_layouts.json: " << all.cases << " cases of ops run, of which TensorFlow refused "
            << all.refused_by_tensorflow << "; " << all.same_layout << " of " << all.layouts
            << " output layouts are those that TensorFlow chose\n";
  EXPECT_GT(all.cases, 0);
}

}  // namespace
}  // namespace tutti
