#include "tutti/export/pt2/read_pt2.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/support/temporary_folder.h"
#include "tutti/core/error.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/export/same_bits.h"
#include "tutti/export/saved_model.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::saved_model::pt2 {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

const std::vector<Spec> kRowsOfFour = {TensorSpec({.name = "x", .shape = {kUnknown, 4}})};
const std::vector<std::string> kRecords = {"archive_version", "models/model.json",
                                           "data/weights/model_weights_config.json",
                                           "data/constants/model_constants_config.json", "data/weights/weight_0"};

class ReadPt2Test : public testing::Test {
 protected:
  template <class F>
  fs::path saved(const F& f, const std::vector<Spec>& inputs,
                 const std::map<std::string, Tensor>& variables = {}) const {
    save(folder_ / "model", {.signatures = {{"f", Signature(f, {.inputs = inputs})}},
                             .variables = variables,
                             .torchscript = false,
                             .pt2 = true});
    return folder_ / "model/f.pt2";
  }

  template <class F>
  void expect_same(const F& f, const std::vector<Spec>& inputs,
                   const std::map<std::string, Tensor>& variables = {}) const {
    const LoadedSignature forward = load_pt2(saved(f, inputs, variables)).signature("forward");
    for (const int64_t batch : {1, 5, 64}) {
      const Tensor x = at::randn({batch, 4}).to(inputs[0].dtype);
      const auto expected = Signature(f, {.inputs = inputs}).call({Value(x)});
      const Outputs seen = forward(x);
      ASSERT_EQ(seen.size(), expected.size());
      size_t number = 0;
      for (const auto& [name, value] : expected)
        EXPECT_TRUE(same_bits(seen.at("output_" + std::to_string(number++)), value)) << name << " at " << batch;
    }
  }

  // w x + 1, whose archive's records a test may change.
  std::map<std::string, std::string> records() const {
    const Tensor w = at::randn({3, 4});
    const fs::path file = saved(
        [&](const Tensor& x) {
          return at::linear(x, w).view({x.size(0) * 3, 1}) + 1;
        },
        kRowsOfFour, {{"w", w}});
    caffe2::serialize::PyTorchStreamReader reader(file.string());
    std::map<std::string, std::string> records;
    for (const std::string& name : kRecords) {
      const auto [bytes, count] = reader.getRecord(name);
      records[name] = {static_cast<const char*>(bytes.get()), count};
    }
    return records;
  }
  fs::path archive_of(const std::map<std::string, std::string>& records) const {
    const fs::path file = folder_ / "changed.pt2";
    fs::remove(file);
    caffe2::serialize::PyTorchStreamWriter writer(file.string());
    for (const auto& [name, bytes] : records) writer.writeRecord(name, bytes.data(), bytes.size());
    writer.writeEndOfFile();
    return file;
  }
  // What is said of the model with this text in another's place.
  std::string error_with(const std::string& text, const std::string& instead,
                         const std::string& record = "models/model.json") const {
    auto changed = records();
    std::string& bytes = changed.at(record);
    const size_t at = bytes.find(text);
    EXPECT_NE(at, std::string::npos) << text;
    bytes.replace(at, text.size(), instead);
    try {
      load_pt2(archive_of(changed)).signature("forward")(at::zeros({2, 4}));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  TemporaryFolder folder_;
};

TEST_F(ReadPt2Test, GivesTheBitsOfTheFunction) {
  const Tensor w = at::randn({3, 4}).requires_grad_(true), b = at::randn({3});
  expect_same([&](const Tensor& x) { return at::linear(x, w, b).relu_().reshape({x.size(0) * 3}) + 2 * x.size(0); },
              kRowsOfFour, {{"w", w}, {"b", b}});
  expect_same(
      [](const Tensor& x) {
        const auto parts = x.split(1, 1);
        Tensor y = x * 2;
        y.select(1, 0).zero_();
        return Outputs{{"a", at::cat({parts[3], parts[0]}, 1)},
                       {"b", y},
                       {"c", x.masked_fill(x > 0, -std::numeric_limits<double>::infinity())},
                       {"d", x.to(at::kDouble) / 3},
                       {"e", x.sum({0, 1})}};
      },
      kRowsOfFour);
  expect_same([](const Tensor& x) { return x.softmax(-1); },
              {TensorSpec({.name = "x", .shape = {kUnknown, 4}, .dtype = at::kBFloat16})});
}

TEST_F(ReadPt2Test, HasParametersThatCanBeTrained) {
  const Tensor w = at::randn({3, 4}).requires_grad_(true), mean = at::randn({4});
  const SavedModel model = load_pt2(
      saved([&](const Tensor& x) { return at::linear(x - mean, w); }, kRowsOfFour, {{"net/w", w}, {"net/mean", mean}}));
  model.signature("forward")(at::randn({2, 4})).at("output_0").tensor().sum().backward();
  EXPECT_TRUE(model.variables().at("net.w").grad().defined());
  EXPECT_FALSE(model.variables().at("net.mean").requires_grad());
}

TEST_F(ReadPt2Test, MakesVariablesOfAStrategy) {
  const Tensor w = at::randn({3, 4}).requires_grad_(true);
  const fs::path file = saved([&](const Tensor& x) { return at::linear(x, w); }, kRowsOfFour, {{"w", w}});
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const SavedModel model = strategy.build([&] { return load_pt2(file); });
  EXPECT_TRUE(is_mesh_tensor(model.variables().at("w")));
  const Tensor x = at::randn({6, 4});
  EXPECT_TRUE(same_bits(model.signature("forward")(x).at("output_0").tensor().detach(), at::linear(x, w).detach()));
}

TEST_F(ReadPt2Test, RefusesByNameWhatItDoesNotRead) {
  EXPECT_THAT(error_with("aten.linear.default", "aten._to_copy.default"),
              AllOf(HasSubstr("aten._to_copy"), HasSubstr("it is not public")));
  EXPECT_THAT(error_with("torch.ops.aten.linear.default", "torch.ops.higher_order.cond"),
              HasSubstr("higher_order.cond"));
  EXPECT_THAT(error_with("aten.linear.default", "aten.from_file.default"), HasSubstr("from_file"));
  EXPECT_THAT(error_with("aten.linear.default", "aten.no_such_op.default"), HasSubstr("this LibTorch does not have"));
  EXPECT_THAT(error_with("_operator.mul", "_operator.floordiv"), HasSubstr("_operator.floordiv"));
  EXPECT_THAT(error_with("\"major\": 8", "\"major\": 9"), HasSubstr("schema 9"));
  EXPECT_THAT(error_with("user_output", "buffer_mutation"), AllOf(HasSubstr("buffer_mutation"), HasSubstr("eval()")));
}

TEST_F(ReadPt2Test, RefusesSizesForWhichPythonDidNotExport) {
  EXPECT_EQ(error_with("\"guards_code\": []", "\"guards_code\": [\"L['x'].size()[0] < 3\"]"), "no error");
  EXPECT_THAT(error_with("\"guards_code\": []", "\"guards_code\": [\"L['x'].size()[0] > 2\"]"),
              HasSubstr("L['x'].size()[0] > 2"));
  EXPECT_THAT(error_with("\"guards_code\": []", "\"guards_code\": [\"f(x)\"]"), HasSubstr("cannot be checked"));
  EXPECT_THAT(error_with("\"min_val\": 0", "\"min_val\": 4"), HasSubstr("from 4 to"));
  EXPECT_THAT(error_with("\"max_val\": null", "\"max_val\": 1"), HasSubstr("to 1 where an input has 2"));
}

TEST_F(ReadPt2Test, HoldsLengthsAgainstTheFile) {
  const std::string config = "data/weights/model_weights_config.json";
  EXPECT_THAT(error_with("{\"as_int\": 3}", "{\"as_int\": 1000000000000}", config), HasSubstr("larger than the file"));
  EXPECT_THAT(error_with("{\"as_int\": 3}", "{\"as_int\": 9223372036854775807}", config), HasSubstr("more elements"));
  EXPECT_THAT(error_with("{\"as_int\": 3}", "{\"as_int\": -3}", config), HasSubstr("is damaged"));
  EXPECT_THAT(error_with("{\"as_int\": 3}", "{\"as_int\": 4}", config), HasSubstr("has less than"));
  auto repeated = records();  // rows that lie in one place
  std::string& meta = repeated.at(config);
  meta.replace(meta.find("{\"as_int\": 3}"), 13, "{\"as_int\": 4000000000000000000}");
  const size_t strides = meta.find("\"strides\": [{\"as_int\": 4}");
  ASSERT_NE(strides, std::string::npos);
  meta.replace(strides, 26, "\"strides\": [{\"as_int\": 0}");
  EXPECT_THROW(load_pt2(archive_of(repeated)), Error);
  auto without = records();
  without.erase("data/weights/weight_0");
  EXPECT_THROW(load_pt2(archive_of(without)), Error);
}

// Whatever is read is run: it does what it says, or throws.
void expect_harmless(const fs::path& file) {
  try {
    load_pt2(file).signature("forward")(at::zeros({2, 4}));
  } catch (const Error&) {
  } catch (const c10::Error&) {  // of an operator that got other arguments
  }
}

TEST_F(ReadPt2Test, DamagedFilesDoNoHarm) {
  const fs::path file = archive_of(records());
  const std::string bytes = folder_.read("changed.pt2");
  for (size_t size = 0; size < bytes.size(); size += 97)
    expect_harmless(folder_.write("cut.pt2", bytes.substr(0, size)));
  for (size_t at = 0; at < bytes.size(); at += 41) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 1 << at % 8);
    expect_harmless(folder_.write("flipped.pt2", flipped));
  }
}

// Behind checksums that are right.
TEST_F(ReadPt2Test, StrangeProgramsDoNoHarm) {
  const auto original = records();
  std::mt19937 random(1);
  const std::string alphabet = "0123456789-{}[],\":aex_";
  for (int i = 0; i < 600; ++i) {
    auto changed = original;
    std::string& text = changed.at(kRecords[1 + random() % 3]);
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 4 == 0)
        text.erase(at, 1 + random() % 30);
      else
        text[at] = alphabet[random() % alphabet.size()];
      if (text.empty()) text = "{}";
    }
    expect_harmless(archive_of(changed));
  }
}

}  // namespace
}  // namespace tutti::saved_model::pt2
