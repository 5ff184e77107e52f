#include "tutti/export/onnx/write_onnx.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/fft_rfft.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/real.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "tutti/core/error.h"
#include "tutti/device/logical_devices.h"
#include "tutti/dtensor/layout_map.h"
#include "tutti/export/onnx/lowerings.h"
#include "tutti/export/saved_model.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/preprocessing/string_lookup.h"
#include "tutti/keras/layers/preprocessing/text_vectorization.h"
#include "tutti/keras/sequential.h"
#include "tutti/stablehlo/lowerings.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::saved_model::onnx {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A path of the test's own, removed with what is there.
class OnnxTest : public testing::Test {
 protected:
  OnnxTest() {
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / ("onnx_" + std::to_string(getpid()) + '_' + test->name());
    fs::remove_all(folder_);
  }
  ~OnnxTest() override { fs::remove_all(folder_); }

  // The bytes of the file, or what the error says.
  template <class F>
  std::string file_of(const F& f, const std::vector<Spec>& inputs, const OnnxOptions& onnx = {}) const {
    try {
      save(folder_, {.signatures = {{"f", Signature(f, {.inputs = inputs})}}, .torchscript = false, .onnx = onnx});
    } catch (const Error& error) {
      EXPECT_FALSE(fs::exists(folder_));
      return error.what();
    }
    std::ifstream in(folder_ / "f.onnx", std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path folder_;
};

const std::vector<Spec> kRows = {TensorSpec({.name = "x", .shape = {kUnknown, 4}})};

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}
std::string bytes_of(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

TEST_F(OnnxTest, IsWrittenWhereItIsAskedFor) {
  const auto twice = [](const Tensor& x) { return x * 2; };
  save(folder_, {.signatures = {{"f", Signature(twice, {.inputs = kRows})}}});
  EXPECT_FALSE(fs::exists(folder_ / "f.onnx"));
  EXPECT_THAT(file_of(twice, kRows), AllOf(HasSubstr("Mul"), HasSubstr("batch"), HasSubstr("output_0")));
  EXPECT_TRUE(load(folder_).signature("f")(at::ones({3, 4})).at("output_0").tensor().equal(at::ones({3, 4}) * 2));
}

TEST_F(OnnxTest, RefusesByNameWhatOnnxDoesNotHave) {
  EXPECT_THAT(file_of([](const Tensor& x) { return at::real(at::fft_rfft(x)); }, kRows),
              AllOf(HasSubstr("aten::fft_rfft"), HasSubstr("save without .onnx")));
  EXPECT_THAT(file_of([](const Tensor& x) { return x + at::rand({4}); }, kRows), HasSubstr("aten::rand"));
  EXPECT_THAT(file_of([](const Tensor& x) { return (x > 0).sum(1).bitwise_and(3); }, kRows),
              AllOf(HasSubstr("aten::bitwise_and"), HasSubstr("of integers")));
}

// The innermost line of this file, which is compiled with -g1.
TEST_F(OnnxTest, NamesTheLineThatCallsIt) {
  if (std::system("addr2line --version >/dev/null 2>&1")) GTEST_SKIP() << "there is no addr2line, of binutils";
  int line = 0;
  const auto f = [&](const Tensor& x) {
    const Tensor y = x * 2;
    line = __LINE__ + 1;
    return at::real(at::fft_rfft(y));
  };
  const std::string seen = file_of(f, kRows);
  EXPECT_THAT(seen, HasSubstr("calls aten::fft_rfft at write_onnx_test.cpp:" + std::to_string(line)));
}

TEST_F(OnnxTest, HasAWeightOfSeveralCallsOnce) {
  const Tensor w = at::randn({4, 4});
  const auto thrice = [&](const Tensor& x) { return x.matmul(w).matmul(w.t()).matmul(w); };
  EXPECT_EQ(count_of(file_of(thrice, kRows), bytes_of(w)), 1U);
  const std::string outside = file_of(thrice, kRows, {.external_weights_above = 0});
  EXPECT_EQ(count_of(outside, bytes_of(w)), 0U);
  EXPECT_THAT(outside, HasSubstr("variables.safetensors"));
}

TEST_F(OnnxTest, HasShardedWeightsWhole) {
  const Mesh mesh({{"batch", 2}, {"model", 2}}, configure_logical_cpus(4));
  const keras::Sequential model = dtensor::LayoutMap(mesh, {{"dense/kernel", {kUnsharded, "model"}}}).build([] {
    const keras::Sequential made({keras::layers::Dense({.units = 6})});
    made.build({keras::kUnknown, 4});
    return made;
  });
  const std::string file = file_of([&](const Tensor& x) { return model(x); }, kRows);
  EXPECT_EQ(count_of(file, bytes_of(gather(model.weights()[0].value))), 1U);
}

TEST_F(OnnxTest, DoesNotHaveWhatNoOutputNeeds) {
  const Tensor w = at::randn({4, 4});
  EXPECT_THAT(file_of(
                  [&](const Tensor& x) {
                    x.matmul(w);
                    return x + 1;
                  },
                  kRows),
              AllOf(Not(HasSubstr("MatMul")), Not(HasSubstr(bytes_of(w)))));
}

TEST_F(OnnxTest, TakesWhatTheStepsOnTextGive) {
  keras::layers::TextVectorization vectorize({.max_tokens = 100, .output_mode = keras::OutputMode::multi_hot});
  vectorize.adapt(Strings(std::vector<std::string>{"a good film", "a bad film"}));
  const std::vector<Spec> text = {TextSpec({.name = "reviews"})};
  const std::string file = file_of([&](const Strings& x) { return vectorize(x) * 2; }, text);
  EXPECT_THAT(file, AllOf(HasSubstr("text_vectorization"), Not(HasSubstr("reviews"))));
}

TEST_F(OnnxTest, RefusesTextThatComesOut) {
  const keras::layers::StringLookup names({.vocabulary = {{"a", "b"}}, .invert = true});
  EXPECT_THAT(file_of(
                  [&](const Tensor& x) {
                    return Outputs{{"y", names(x.to(at::kLong))}};
                  },
                  kRows),
              AllOf(HasSubstr("string_lookup"), HasSubstr("which an ONNX file cannot say")));
}

TEST_F(OnnxTest, RefusesAnInputAndAnOutputOfOneName) {
  EXPECT_THAT(file_of(
                  [](const Tensor& x) {
                    return Outputs{{"x", x + 1}};
                  },
                  kRows),
              HasSubstr("give one of them another name"));
}

TEST_F(OnnxTest, RefusesWritesThatAnotherViewShows) {
  const auto writes = [](const Tensor& x) {
    const Tensor y = x * 2;
    y.select(1, 0).zero_();
    return y;
  };
  EXPECT_THAT(file_of(writes, kRows), AllOf(HasSubstr("aten::zero_"), HasSubstr("another view")));
  const auto reads_later = [](const Tensor& x) {
    const Tensor y = x * 2, row = y.select(1, 0);
    y.relu_();
    return row;
  };
  EXPECT_THAT(file_of(reads_later, kRows), HasSubstr("another view"));
  const auto reads_what_it_writes = [](const Tensor& x) {
    const Tensor y = x * 2, rows = y.view({-1});
    rows.relu_();
    return rows + 1;
  };
  EXPECT_THAT(file_of(reads_what_it_writes, kRows), HasSubstr("Relu"));
}

TEST_F(OnnxTest, WritesTensorsWithoutElements) {
  EXPECT_THAT(file_of(
                  [w = at::zeros({4, 0})](const Tensor& x) {
                    return Outputs{{"y", x.matmul(w)}, {"w", w}};
                  },
                  kRows),
              HasSubstr("MatMul"));
}

TEST(OnnxLowerings, AreOfOpsThatLibTorchHas) {
  std::set<std::string> known;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames())
    known.insert(stablehlo::base_name(name.name));
  for (const std::string& op : lowered_ops()) EXPECT_TRUE(known.contains(op)) << op;
  EXPECT_GT(lowered_ops().size(), 200U);
}

}  // namespace
}  // namespace tutti::saved_model::onnx
