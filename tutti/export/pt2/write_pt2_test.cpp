#include "tutti/export/pt2/write_pt2.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/squeeze.h>
#include <ATen/ops/sub.h>
#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/export/saved_model.h"
#include "tutti/keras/layers/preprocessing/string_lookup.h"
#include "tutti/keras/layers/preprocessing/text_vectorization.h"

namespace tutti::saved_model::pt2 {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::vector<Spec> kRows = {TensorSpec({.name = "x", .shape = {kUnknown, 4}})};

class Pt2Test : public testing::Test {
 protected:
  // The graph in the archive, or what the error says.
  template <class F>
  std::string graph_of(const F& f, const std::vector<Spec>& inputs,
                       const std::map<std::string, Tensor>& variables = {}) {
    const fs::path model = folder_ / "model";
    try {
      save(model, {.signatures = {{"f", Signature(f, {.inputs = inputs})}},
                   .variables = variables,
                   .torchscript = false,
                   .pt2 = true});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unimplemented);
      EXPECT_FALSE(fs::exists(model));
      return error.what();
    }
    return record("models/model.json");
  }
  std::string record(const std::string& name) const {
    caffe2::serialize::PyTorchStreamReader reader((folder_ / "model/f.pt2").string());
    const auto [bytes, count] = reader.getRecord(name);
    return {static_cast<const char*>(bytes.get()), count};
  }

  TemporaryFolder folder_;
};

TEST_F(Pt2Test, IsWrittenWhereItIsAskedFor) {
  const auto twice = [](const Tensor& x) { return x * 2; };
  save(folder_ / "without", {.signatures = {{"f", Signature(twice, {.inputs = kRows})}}});
  EXPECT_FALSE(fs::exists(folder_ / "without/f.pt2"));
  const std::string graph = graph_of(twice, kRows);
  EXPECT_THAT(graph,
              AllOf(HasSubstr("torch.ops.aten.mul."), HasSubstr("Symbol('s0'"), HasSubstr(R"("s0": {"min_val": 0)")));
  JsonReader json(graph, "the graph");
  json.skip();
  json.end();
  EXPECT_TRUE(load(folder_ / "model").signature("f")(at::randn({3, 4})).contains("output_0"));
}

TEST_F(Pt2Test, HasParametersAndBuffersByTheirNames) {
  const Tensor weight = at::randn({4, 2}).requires_grad_(true), mean = at::randn({4});
  const std::string graph = graph_of([&](const Tensor& x) { return (x - mean).matmul(weight); }, kRows,
                                     {{"net/weight", weight}, {"net/mean", mean}});
  EXPECT_THAT(graph, AllOf(HasSubstr(R"("parameter_name": "net.weight")"), HasSubstr(R"("buffer_name": "net.mean")")));
  EXPECT_THAT(record("data/weights/model_weights_config.json"), HasSubstr(R"("net.weight": {"path_name": "weight_1")"));
  EXPECT_EQ(record("data/weights/weight_1"),
            std::string(static_cast<const char*>(weight.const_data_ptr()), weight.nbytes()));
}

TEST_F(Pt2Test, SaysSizesAsSumsAndProducts) {
  const std::vector<Spec> sequences = {TensorSpec({.name = "x", .shape = {kUnknown, kUnknown, 4}})};
  EXPECT_THAT(
      graph_of(
          [](const Tensor& x) {
            return x.reshape({2 * x.size(0) * x.size(1), 2});
          },
          sequences),
      AllOf(HasSubstr("torch.ops.aten.sym_size.int"), HasSubstr("_operator.mul"), Not(HasSubstr("_operator.add")),
            HasSubstr("Mul(Integer(2), Symbol('s0', integer=True, positive=True), Symbol('s1'")));
}

TEST_F(Pt2Test, RefusesNumbersWhereTensorsAreTaken) {
  Tensor number = at::scalar_tensor(0.5);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  EXPECT_THAT(graph_of([&](const Tensor& x) { return at::remainder(x, number); }, kRows),
              AllOf(HasSubstr("aten::remainder.Tensor"), HasSubstr("'other'"), HasSubstr("save without .pt2")));
  EXPECT_THAT(graph_of([&](const Tensor& x) { return at::sub(x, number); }, kRows), HasSubstr(R"({"as_float": 0.5})"));
}

TEST_F(Pt2Test, RefusesTensorsWhoseAxesDependOnSizes) {
  const std::vector<Spec> any = {TensorSpec({.name = "x", .shape = {3, kUnknown}})};
  EXPECT_THAT(graph_of([](const Tensor& x) { return x.slice(1, 0, x.size(1) - 4).squeeze().sum(); }, any),
              AllOf(HasSubstr("aten::squeeze"), HasSubstr("as many axes")));
}

// The innermost line of this file, which is compiled with -g1.
TEST_F(Pt2Test, NamesTheLineOfWhatItRefuses) {
  if (std::system("addr2line --version >/dev/null 2>&1")) GTEST_SKIP() << "there is no addr2line, of binutils";
  Tensor number = at::scalar_tensor(0.5);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  int line = 0;
  const auto f = [&](const Tensor& x) {
    line = __LINE__ + 1;
    return at::remainder(x, number);
  };
  const std::string seen = graph_of(f, kRows);
  EXPECT_THAT(seen, HasSubstr("calls aten::remainder.Tensor at write_pt2_test.cpp:" + std::to_string(line)));
}

TEST_F(Pt2Test, TakesWhatTheStepsOnTextGive) {
  keras::layers::TextVectorization vectorize({.max_tokens = 100, .output_mode = keras::OutputMode::multi_hot});
  vectorize.adapt(Strings(std::vector<std::string>{"a good film", "a bad film"}));
  const std::string graph =
      graph_of([&](const Strings& x) { return vectorize(x) * 2; }, {TextSpec({.name = "reviews"})});
  EXPECT_THAT(graph, AllOf(HasSubstr(R"("forward_arg_names": ["text_vectorization"])"), Not(HasSubstr("reviews"))));
}

TEST_F(Pt2Test, RefusesTextThatComesOut) {
  const keras::layers::StringLookup names({.vocabulary = {{"a", "b"}}, .invert = true});
  EXPECT_THAT(graph_of(
                  [&](const Tensor& x) {
                    return Outputs{{"y", names(x.to(at::kLong))}};
                  },
                  kRows),
              AllOf(HasSubstr("string_lookup"), HasSubstr("which a .pt2 file cannot say")));
}

// What the archive's destructor would still write must not be thrown out of it.
TEST(WritePt2, ThrowsWhatTheDiskThrows) {
  const Program program{.name = "f",
                        .inputs = kRows,
                        .variables = {"w"},
                        .sizes = {{{0, 0}}},
                        .outputs = {{TensorSpec({.name = "w", .shape = {1000}}), 1}}};
  const Tensor w = at::randn({1000});
  const std::vector<ValueType> types = {{at::kFloat, {Integer{.terms = {{1, {0}}}}, Integer{4}}},
                                        {at::kFloat, {Integer{1000}}}};
  size_t num_writes = 0;
  write_pt2({program, {&w, 1}, types, {}}, [&](std::span<const std::byte>) { ++num_writes; });
  ASSERT_GT(num_writes, 10U);
  for (size_t last = 0; last < num_writes; ++last) {
    size_t number = 0;
    const auto write = [&](std::span<const std::byte>) {
      if (number++ == last) throw Error(ErrorCode::resource_exhausted, "the disk is full");
      EXPECT_LE(number, last + 1) << "it goes on after the error";
    };
    EXPECT_THROW(write_pt2({program, {&w, 1}, types, {}}, write), Error) << last;
  }
}

}  // namespace
}  // namespace tutti::saved_model::pt2
