// What functions of real programs do, saved, loaded and run beside them.
#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/unique_dim.h>
#include <ATen/ops/where.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/generated/variable_factories.h>
#include <torch/nn/functional/normalization.h>
#include <torch/nn/functional/padding.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/export/description.h"
#include "tutti/export/same_bits.h"
#include "tutti/export/saved_model.h"

namespace tutti::saved_model {
namespace {

using at::indexing::None;
using at::indexing::Slice;
using testing::HasSubstr;

// Takes rows of four numbers, and a class of 0 to 3 for each.
using Idiom = Tensor (*)(const Tensor& x, const Tensor& classes);

const SignatureOptions kInputs = {
    .inputs = {TensorSpec({.name = "x", .shape = {kUnknown, 4}}), TensorSpec({.name = "classes", .dtype = at::kLong})}};

void expect_same_results(const std::map<std::string, Idiom>& idioms) {
  const TemporaryFolder folder;
  SaveOptions options;
  for (const auto& [name, idiom] : idioms) {
    options.signatures.clear();
    options.signatures.emplace(name, Signature(idiom, kInputs));
    const std::string error = error_of([&] { save(folder / name, options); });
    EXPECT_EQ(error, "no error") << name;
    if (error != "no error") continue;
    const LoadedSignature run = load(folder / name).signature(name);
    for (const int64_t batch : {1, 2, 5, 64}) {
      const Tensor x = at::randn({batch, 4}), classes = at::randint(0, 4, {batch}, at::kLong);
      const Tensor expected = idiom(x, classes);
      EXPECT_TRUE(same_bits(run(x, classes).at("output_0"), expected)) << name << " of " << batch << " rows";
      EXPECT_TRUE(same_bits(run(x, classes).at("output_0"), expected)) << name << ", called again";
    }
  }
}

std::string refusal_of(Idiom idiom) {
  const TemporaryFolder folder;
  return error_of([&] { save(folder / "model", {.signatures = {{"f", Signature(idiom, kInputs)}}}); });
}

TEST(Idioms, TensorsOfNumbersInTheSource) {
  expect_same_results({
      {"integers",
       [](const Tensor& x, const Tensor&) {
         return x.index_select(1, torch::tensor({3, 1, 0}));
       }},
      {"floats",
       [](const Tensor& x, const Tensor&) {
         return x * torch::tensor({1.F, 2.F, 3.F, 4.F});
       }},
      {"doubles",
       [](const Tensor& x, const Tensor&) {
         return x + torch::tensor({0.1, 0.2, 0.3, 0.4});
       }},
      {"bools",
       [](const Tensor& x, const Tensor&) {
         return x.masked_fill(torch::tensor({true, false, true, false}), 0);
       }},
      {"matrix",
       [](const Tensor& x, const Tensor&) {
         return x.matmul(torch::tensor({{1.F, 0.5F}, {2.F, 0.F}, {0.F, 1.F}, {1.F, 1.F}}));
       }},
      {"of_dtype",
       [](const Tensor& x, const Tensor&) {
         return x + torch::tensor({1, 2, 3, 4}, at::kFloat);
       }},
      {"number", [](const Tensor& x, const Tensor&) { return x * torch::tensor(2.5F); }},
      {"typed",
       [](const Tensor& x, const Tensor&) {
         return x + at::tensor({1.F, 2.F, 3.F, 4.F});
       }},
      {"returned",
       [](const Tensor&, const Tensor&) {
         return torch::tensor({1, 2, 3});
       }},
      {"one_row_of_it",
       [](const Tensor& x, const Tensor&) {
         const Tensor t = torch::tensor({{1.F, 2.F, 3.F, 4.F}, {5.F, 6.F, 7.F, 8.F}});
         return x * t[1] + t[0];
       }},
      {"written_later",
       [](const Tensor& x, const Tensor&) {
         Tensor t = torch::tensor({1.F, 2.F, 3.F, 4.F});
         t.add_(x.sum(0));
         return t;
       }},
      {"row_written_later",
       [](const Tensor& x, const Tensor&) {
         Tensor t = torch::tensor({{1.F, 2.F, 3.F, 4.F}, {5.F, 6.F, 7.F, 8.F}});
         const Tensor before = t.sum();
         t[1].copy_(x[0]);
         return t + before;
       }},
      {"of_a_size",
       [](const Tensor& x, const Tensor&) {
         return x / torch::tensor({x.size(0), int64_t{3}}).sum();
       }},
  });
}

TEST(Idioms, MemoryThatIsFilledLater) {
  expect_same_results({
      {"empty_like_copy", [](const Tensor& x, const Tensor&) { return torch::empty_like(x).copy_(x * 2); }},
      {"empty_fill",
       [](const Tensor& x, const Tensor&) {
         return torch::empty({x.size(0), 4}).fill_(2.F) + x;
       }},
      {"empty_by_elements",
       [](const Tensor& x, const Tensor&) {
         const Tensor t = torch::empty({4});
         t[0].fill_(1.F);
         for (int64_t i = 1; i < 4; ++i) t[i] = static_cast<float>(i) * 0.1F;
         return x + t;
       }},
      {"empty_by_columns",
       [](const Tensor& x, const Tensor&) {
         Tensor t = torch::empty({x.size(0), 5});
         t.narrow(1, 0, 1).fill_(1.F);
         t.slice(1, 1).copy_(x);
         return t;
       }},
      {"empty_out",
       [](const Tensor& x, const Tensor&) {
         Tensor t = torch::empty({0});
         at::add_out(t, x, x);
         return t;
       }},
      {"new_empty_zero",
       [](const Tensor& x, const Tensor&) {
         return x.new_empty({x.size(0), 2}).zero_();
       }},
      {"data_of_it",
       [](const Tensor& x, const Tensor&) {
         const Tensor t = torch::empty({2, 4});
         t[0].copy_(x[0]);
         t.data()[1].copy_(x[-1]);
         return t.sum(0);
       }},
      {"by_pointer",
       [](const Tensor& x, const Tensor&) {
         const Tensor t = torch::empty({4});
         for (int i = 0; i < 4; ++i) t.mutable_data_ptr<float>()[i] = 0.5F * static_cast<float>(i);
         return x * t;
       }},
      {"by_accessor",
       [](const Tensor& x, const Tensor&) {
         const Tensor t = torch::empty({4}, at::kLong);
         auto a = t.accessor<int64_t, 1>();
         for (int i = 0; i < 4; ++i) a[i] = 3 - i;
         return x.index_select(1, t);
       }},
      {"zeros_slices",
       [](const Tensor& x, const Tensor&) {
         Tensor t = torch::zeros({x.size(0), 6});
         t.index_put_({Slice(), Slice(1, 5)}, x);
         t.index({Slice(), 0}) = 7;
         return t;
       }},
      {"full",
       [](const Tensor& x, const Tensor&) {
         return torch::full({x.size(0), 1}, 0.5F) * x;
       }},
      {"full_of_a_size", [](const Tensor& x, const Tensor&) { return torch::full({2}, x.size(0)); }},
      {"arange", [](const Tensor& x, const Tensor&) { return x + torch::arange(x.size(0)).unsqueeze(1); }},
      {"positions",
       [](const Tensor& x, const Tensor&) {
         return torch::arange(0, 2 * x.size(0), 2, at::kFloat).view({-1, 1}).expand({x.size(0), 4}) - x;
       }},
  });
}

TEST(Idioms, WritesInPlace) {
  expect_same_results({
      {"relu_", [](const Tensor& x, const Tensor&) { return x.clone().relu_(); }},
      {"add_", [](const Tensor& x, const Tensor&) { return x.clone().add_(x, 2).mul_(0.5); }},
      {"plus_equals",
       [](const Tensor& x, const Tensor&) {
         Tensor y = x.clone();
         y += 1;
         y[0] -= x.mean(0);
         return y;
       }},
      {"index_put_number",
       [](const Tensor& x, const Tensor&) {
         Tensor y = x.clone();
         y.index_put_({Slice(), 2}, 9);
         y.index_put_({0}, -1.5);
         return y;
       }},
      {"index_put_mask",
       [](const Tensor& x, const Tensor&) {
         Tensor y = x.clone();
         y.index_put_({y < 0}, 0.25);
         return y;
       }},
      {"index_put_indices",
       [](const Tensor& x, const Tensor& classes) {
         Tensor y = torch::zeros({x.size(0), 4});
         y.index_put_({torch::arange(x.size(0)), classes}, torch::ones({x.size(0)}));
         return y;
       }},
      {"index_put_added",
       [](const Tensor& x, const Tensor& classes) {
         return torch::zeros({4, 4}).index_put_({classes}, x.round(), /*accumulate=*/true);
       }},
      {"index_add",
       [](const Tensor& x, const Tensor& classes) {
         return torch::zeros({4, 4}).index_add_(0, classes, x.round());
       }},
      {"scatter",
       [](const Tensor& x, const Tensor& classes) {
         return torch::zeros({x.size(0), 4}).scatter_(1, classes.unsqueeze(1), 1.0);
       }},
      {"masked_fill_",
       [](const Tensor& x, const Tensor&) { return x.clone().masked_fill_(x > 0, -INFINITY).softmax(1); }},
      {"through_data",
       [](const Tensor& x, const Tensor&) {
         Tensor y = x.clone();
         y.data().mul_(3);
         return y;
       }},
      {"through_detach",
       [](const Tensor& x, const Tensor&) {
         Tensor y = x.clone();
         y.detach()[0].zero_();
         return y;
       }},
  });
}

TEST(Idioms, ChoiceAndOrder) {
  expect_same_results({
      {"where", [](const Tensor& x, const Tensor&) { return at::where(x > 0, x, 0.1 * x); }},
      {"where_numbers", [](const Tensor& x, const Tensor&) { return at::where(x > 0, 1.0, -1.0); }},
      {"masked_fill", [](const Tensor& x, const Tensor&) { return x.masked_fill(x.abs() > 1, 0); }},
      {"one_hot", [](const Tensor& x, const Tensor& c) { return at::one_hot(c, 4).to(at::kFloat) * x; }},
      {"topk",
       [](const Tensor& x, const Tensor&) {
         const auto [values, indices] = x.topk(2, 1);
         return values + indices;
       }},
      {"max",
       [](const Tensor& x, const Tensor&) {
         const auto [values, indices] = x.max(1, true);
         return x - values + indices;
       }},
      {"sort", [](const Tensor& x, const Tensor&) { return std::get<0>(x.sort(0, true)).cumsum(0); }},
      {"gather", [](const Tensor& x, const Tensor& c) { return x.gather(1, c.unsqueeze(1)).squeeze(1); }},
      {"index_mask", [](const Tensor& x, const Tensor&) { return x.index({x.select(1, 0) > 0}); }},
      {"index_none",
       [](const Tensor& x, const Tensor&) {
         return x.index({"...", None, Slice(None, None, 2)});
       }},
      {"index_tensor",
       [](const Tensor& x, const Tensor& c) {
         return x.index({Slice(), torch::tensor({0, 3})}) + c.sum();
       }},
      {"flip", [](const Tensor& x, const Tensor&) { return x.flip({0}); }},
      {"last", [](const Tensor& x, const Tensor&) { return x[x.size(0) - 1]; }},
      {"triangle",
       [](const Tensor& x, const Tensor&) {
         const Tensor mask = torch::ones({x.size(0), x.size(0)}, at::kBool).triu(1);
         return x.matmul(x.t()).masked_fill(mask, -INFINITY).softmax(-1).matmul(x);
       }},
      {"lengths",
       [](const Tensor& x, const Tensor& c) {
         const Tensor mask = torch::arange(4).unsqueeze(0) < c.unsqueeze(1);
         return (x * mask).sum(1) / mask.sum(1).clamp_min(1);
       }},
  });
}

TEST(Idioms, PartsAndProducts) {
  expect_same_results({
      {"cat",
       [](const Tensor& x, const Tensor&) {
         return at::cat({x, x * 2, torch::ones({x.size(0), 1})}, 1);
       }},
      {"stack",
       [](const Tensor& x, const Tensor&) {
         return at::stack({x, -x}, 1);
       }},
      {"stacked_loop",
       [](const Tensor& x, const Tensor&) {
         std::vector<Tensor> columns;
         for (int64_t i = 0; i < x.size(1); ++i) columns.push_back(x.select(1, i) * i);
         return at::stack(columns, 1);
       }},
      {"chunk", [](const Tensor& x, const Tensor&) { return x.chunk(2, 1)[0].sigmoid() * x.chunk(2, 1)[1].tanh(); }},
      {"split",
       [](const Tensor& x, const Tensor&) {
         return x.split(std::vector<int64_t>{1, 3}, 1)[1] + x.split(1, 1)[0];
       }},
      {"unbind", [](const Tensor& x, const Tensor&) { return x.unbind(1)[0] - x.unbind(1)[3]; }},
      {"einsum",
       [](const Tensor& x, const Tensor&) {
         return at::einsum("bi,bj->bij", {x, x.exp()});
       }},
      {"softmax", [](const Tensor& x, const Tensor&) { return at::softmax(x, 1) + at::softmax(x, 0, at::kDouble); }},
      {"normalize", [](const Tensor& x, const Tensor&) { return torch::nn::functional::normalize(x); }},
      {"pad",
       [](const Tensor& x, const Tensor&) {
         return torch::nn::functional::pad(x, torch::nn::functional::PadFuncOptions({1, 2}).value(3));
       }},
      {"pad_circular",
       [](const Tensor& x, const Tensor&) {
         return torch::nn::functional::pad(x, torch::nn::functional::PadFuncOptions({1, 2}).mode(torch::kCircular));
       }},
      {"pad_reflect",
       [](const Tensor& x, const Tensor&) {
         return torch::nn::functional::pad(x, torch::nn::functional::PadFuncOptions({1, 2}).mode(torch::kReflect));
       }},
      {"pad_rows",
       [](const Tensor& x, const Tensor&) {
         return at::pad(x, {0, 0, 1, 1});
       }},
      {"layer_norm", [](const Tensor& x, const Tensor&) { return at::layer_norm(x, {4}); }},
      {"standardize",
       [](const Tensor& x, const Tensor&) { return (x - x.mean(1, true)) / (x.std(1, false, true) + 1e-5); }},
      {"embedding",
       [](const Tensor& x, const Tensor& c) {
         return at::embedding(torch::arange(16, at::kFloat).view({4, 4}), c) + x;
       }},
      {"attention",
       [](const Tensor& x, const Tensor&) {
         const Tensor heads = x.view({1, x.size(0), 2, 2}).transpose(1, 2);
         return at::scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).reshape({x.size(0), 4});
       }},
      {"view_of_the_batch",
       [](const Tensor& x, const Tensor&) {
         return x.view({2 * x.size(0), -1}).t().contiguous().view({-1});
       }},
      {"repeat",
       [](const Tensor& x, const Tensor&) {
         return x.repeat({x.size(0), 2}) + x.numel();
       }},
      {"outer",
       [](const Tensor& x, const Tensor&) {
         return x.unsqueeze(0).expand({x.size(0), -1, -1}) - x.unsqueeze(1);
       }},
  });
}

TEST(Idioms, ThatCannotBeSavedAreNamedWithTheWayOut) {
  EXPECT_THAT(refusal_of([](const Tensor& x, const Tensor&) { return x / x.max().item<float>(); }),
              HasSubstr("calls aten::item, which cannot be saved: it gives C++ the value of a tensor. Express it by"));
  EXPECT_THAT(refusal_of([](const Tensor& x, const Tensor&) { return (x > 0).all().item<bool>() ? x : -x; }),
              HasSubstr("calls aten::item"));
  static const Tensor temperature = torch::tensor(0.5F);
  EXPECT_THAT(refusal_of([](const Tensor& x, const Tensor&) { return x / temperature.item<float>(); }),
              HasSubstr("calls aten::item on a tensor from outside"));
  EXPECT_THAT(refusal_of([](const Tensor& x, const Tensor&) { return x / (temperature + x[0][0]).item<float>(); }),
              HasSubstr("calls aten::item, which cannot be saved"));
  EXPECT_THAT(refusal_of([](const Tensor&, const Tensor& c) { return at::one_hot(c); }),
              HasSubstr("one_hot without a number of classes"));
  EXPECT_THAT(refusal_of([](const Tensor& x, const Tensor&) { return x.new_empty({2}).resize_({3}); }),
              HasSubstr("aten::resize_"));
  EXPECT_THAT(refusal_of([](const Tensor& x, const Tensor&) { return x * torch::tensor({1.0 / x.size(0)}); }),
              HasSubstr("depends on the sizes of its inputs: C++ computes it"));
}

// How many values there are in made-up inputs says nothing about others.
TEST(Idioms, SizesThatFollowFromValuesAreNoConstants) {
  EXPECT_THAT(refusal_of([](const Tensor& x, const Tensor& c) {
                const Tensor kinds = std::get<0>(at::unique_dim(c, 0));
                return x / kinds.size(0);
              }),
              HasSubstr("depends on the values of its inputs"));
  EXPECT_THAT(refusal_of([](const Tensor& x, const Tensor& c) { return x * c.const_data_ptr<int64_t>()[0]; }),
              HasSubstr("depends on the values of its inputs"));
}

TEST(Idioms, MemoryIsNeverSavedHalfFilled) {
  EXPECT_THAT(refusal_of([](const Tensor& x, const Tensor&) {
                const Tensor t = torch::empty({4});
                t[0].fill_(1.F);
                return x + t;
              }),
              HasSubstr("before it has a value"));
  EXPECT_THAT(refusal_of([](const Tensor& x, const Tensor&) {
                const Tensor t = torch::empty({4});
                t[0].fill_(1.F);
                for (int i = 1; i < 4; ++i) t.mutable_data_ptr<float>()[i] = 2;
                return x + t;
              }),
              HasSubstr("C++ reads or writes the memory of a tensor"));
  EXPECT_THAT(refusal_of([](const Tensor& x, const Tensor&) {
                const Tensor t = torch::empty({4});
                for (int i = 0; i < 4; ++i) t.mutable_data_ptr<float>()[i] = 2;
                t.data()[0].copy_(x[0][0]);
                return x + t;
              }),
              HasSubstr("that C++ has filled"));
}

TEST(Idioms, WritesThroughDataOfAnInputAreRefused) {
  EXPECT_THAT(refusal_of([](const Tensor& x, const Tensor&) {
                x.data()[0].zero_();
                return x;
              }),
              HasSubstr("writes to its input"));
}

// A list of numbers in the source is a constant of the program, not a call for each.
TEST(Idioms, NumbersInTheSourceBecomeOneConstant) {
  const TemporaryFolder folder;
  const auto f = [](const Tensor& x) {
    return x.matmul(torch::tensor({{1.F, 2.F}, {3.F, 4.F}, {5.F, 6.F}, {7.F, 8.F}})).relu();
  };
  save(folder / "model",
       {.signatures = {{"f", Signature(f, {.inputs = {TensorSpec({.name = "x", .shape = {kUnknown, 4}})}})}},
        .onnx = OnnxOptions{}});
  std::stringstream text;
  text << std::ifstream(folder / "model" / "saved_model.json").rdbuf();
  const Description description = parse_description(text.str(), "its description");
  EXPECT_EQ(description.signatures[0].calls.size(), 2U);
  EXPECT_EQ(description.signatures[0].variables.size(), 1U);
}

}  // namespace
}  // namespace tutti::saved_model
