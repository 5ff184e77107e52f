#include "tutti/keras/saving/load_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/files/hdf5_writer.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/input_layer.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras {
namespace {

using layers::Dense;
using layers::InputLayer;
using ::testing::AllOf;
using ::testing::HasSubstr;

void write_keras_file(const std::filesystem::path& file, const std::map<std::string, std::string>& members) {
  archive* const zip = archive_write_new();
  archive_write_set_format_zip(zip);
  archive_write_open_filename(zip, file.c_str());
  for (const auto& [name, bytes] : members) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<int64_t>(bytes.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_write_header(zip, entry);
    archive_write_data(zip, bytes.data(), bytes.size());
    archive_entry_free(entry);
  }
  archive_write_free(zip);
}

// A sequential model of an input of 3 numbers and these layers.
std::string sequential_config(const std::string& layers) {
  return str(
      R"({"class_name": "Sequential", "config": {"name": "net", "layers": [{"class_name": "InputLayer", "config": )",
      R"({"batch_shape": [null, 3], "dtype": "float32", "sparse": false, "name": "in"}}, )", layers, "]}}");
}

std::string dense_config(const std::string& more = "") {
  return str(R"({"class_name": "Dense", "registered_name": null, "config": {"name": "head", "units": 2, )",
             R"("activation": "tanh", "use_bias": true, "kernel_initializer": {"class_name": "Zeros"}, )",
             R"("bias_regularizer": null)", more, "}}");
}

class LoadModel : public testing::Test {
 protected:
  Model load(const std::string& config, const LoadModelOptions& options = {}) {
    saved_.save_weights(folder_ / "w.weights.h5");
    write_keras_file(folder_ / "m.keras",
                     {{"config.json", config}, {"model.weights.h5", folder_.read("w.weights.h5")}});
    return load_model(folder_ / "m.keras", options);
  }
  std::string error_of_loading(const std::string& config) {
    return error_of([&] { load(config); });
  }

  const TemporaryFolder folder_;
  const Sequential saved_{InputLayer({.shape = {3}}), Dense({.units = 2, .activation = activations::tanh})};
};

TEST_F(LoadModel, MakesTheModelWithItsWeights) {
  const Model model = load(sequential_config(dense_config()));
  const Tensor x = at::rand({4, 3});
  EXPECT_TRUE(at::equal(model.predict(x), saved_.predict(x)));
  EXPECT_EQ(model.name(), "net");
  EXPECT_EQ(model.get_layer("head").weights().size(), 2);
  EXPECT_FALSE(load(sequential_config(dense_config(R"(, "trainable": false)"))).get_layer("head").trainable());
}

TEST_F(LoadModel, NamesWhatIsNotKnown) {
  EXPECT_THAT(error_of_loading(sequential_config(dense_config(R"(, "lora_rank": 4)"))),
              AllOf(HasSubstr("unimplemented"), HasSubstr("m.keras': the layer head (Dense) has lora_rank = 4")));
  EXPECT_THAT(
      error_of_loading(sequential_config(R"({"class_name": "Mystery", "config": {"name": "m"}})")),
      AllOf(HasSubstr("unimplemented"), HasSubstr("the layer m (Mystery) is of a class that is not supported")));
  EXPECT_THAT(error_of_loading(sequential_config(
                  R"({"class_name": "Dense", "config": {"name": "d", "units": 2, "activation": "swoosh"}})")),
              HasSubstr("the layer d (Dense) has activation = \"swoosh\", which is not supported"));
  EXPECT_THAT(error_of_loading(R"({"class_name": "MyModel", "config": {}})"), HasSubstr("the model is a MyModel"));
  EXPECT_THAT(error_of_loading(sequential_config(dense_config(R"(, "dtype": "int8")"))),
              HasSubstr("the dtype policy int8"));
}

TEST_F(LoadModel, MakesLayersOfOnesOwnByTheirRegisteredNames) {
  const std::string config = sequential_config(
      R"({"class_name": "MyDense", "registered_name": "mine>Dense", "config": {"name": "d", "width": 2}})");
  EXPECT_THAT(error_of_loading(config), AllOf(HasSubstr("registered as mine>Dense"), HasSubstr("custom_layers")));
  const auto make = [](LayerConfig& options) {
    return Dense({.units = options.integer("width"), .activation = activations::tanh});
  };
  const Model model = load(config, {.custom_layers = {{"mine>Dense", make}}});
  const Tensor x = at::rand({4, 3});
  EXPECT_TRUE(at::equal(model.predict(x), saved_.predict(x)));
}

std::string lookup_config(const std::string& vocabulary) {
  return sequential_config(str(
      R"({"class_name": "IntegerLookup", "config": {"name": "ids", "dtype": "float32", "invert": false, )",
      R"("max_tokens": null, "num_oov_indices": 1, "oov_token": -1, "mask_token": null, "output_mode": "tf_idf", )",
      R"("sparse": false, "pad_to_max_tokens": false, "vocabulary_dtype": "int64", "idf_weights": null, )",
      R"("vocabulary": )", vocabulary, R"(, "vocabulary_size": 3, "oov_method": "floormod", "salt": null}}, )",
      R"({"class_name": "Dense", "config": {"name": "d", "units": 2, "activation": "linear", "use_bias": false}})"));
}

TEST_F(LoadModel, VocabulariesLieBesideTheOptions) {
  const Sequential dense({InputLayer({.shape = {3}}), Dense({.units = 2, .use_bias = false})});
  const std::string at = "layers/integer_lookup/vars/idf_weights";
  const Tensor kernel = at::rand({3, 2});
  const auto load_with = [&](const std::string& vocabulary, const Tensor& weights) {
    files::write_hdf5(folder_ / "w.h5", {{at, weights}, {"layers/dense/vars/0", kernel}});
    write_keras_file(folder_ / "v.keras", {{"config.json", lookup_config("null")},
                                           {"model.weights.h5", folder_.read("w.h5")},
                                           {"assets/layers/integer_lookup/vocabulary.txt", vocabulary}});
    return load_model(folder_ / "v.keras");
  };
  const Tensor weights = at::tensor({0.5F, 1.F, 2.F});
  const Model model = load_with("-1\n3\n5", weights);
  const Tensor x = at::tensor({3, 5, 5, 7, 7, 7}).reshape({2, 3});
  const Tensor expected = at::matmul(at::tensor({0.F, 1.F, 4.F, 1.5F, 0.F, 0.F}).reshape({2, 3}), kernel);
  EXPECT_TRUE(model.predict(x).allclose(expected));
  model.save(folder_ / "again.keras");
  EXPECT_TRUE(at::equal(load_model(folder_ / "again.keras").predict(x), model.predict(x)));

  for (const std::string hostile : {"-1\n3\nfive", "-1\n\n5", "-1\n3], \"invert\": [true\n5", "-1\n3\n3", "-1\n3",
                                    "-1\n3\n99999999999999999999", "-\n3\n5"})
    EXPECT_THAT(error_of([&] { load_with(hostile, weights); }),
                testing::AnyOf(HasSubstr("data_loss"), HasSubstr("invalid_argument")))
        << hostile;
  EXPECT_THAT(error_of([&] { load_with("-1\n3\n5", at::tensor({0.5F, 1.F, INFINITY})); }), HasSubstr("not finite"));
  EXPECT_THAT(error_of([&] { load(lookup_config("null")); }), testing::Not(HasSubstr("no error")));
}

TEST_F(LoadModel, LayersOnTextAreNamed) {
  EXPECT_THAT(error_of_loading(sequential_config(R"({"class_name": "TextVectorization", "config": {"name": "t"}})")),
              AllOf(HasSubstr("unimplemented"), HasSubstr("t (TextVectorization) takes text")));
}

int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * int64_t{1024};
}

TEST_F(LoadModel, TakesNoMemoryForWeightsThatTheFileLacks) {
  const std::string huge =
      R"({"class_name": "Dense", "config": {"name": "d", "units": 200000000, "activation": "linear",
      "use_bias": false}})";
  const int64_t before = peak_memory();
  EXPECT_THAT(error_of_loading(sequential_config(huge)),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("Float [3, 200000000] in the program")));
  EXPECT_LT(peak_memory() - before, int64_t{200} << 20);
}

TEST_F(LoadModel, RefusesDamagedFiles) {
  EXPECT_THAT(error_of_loading("{"), HasSubstr("data_loss"));
  EXPECT_THAT(error_of_loading(R"({"class_name": "Sequential"})"),
              AllOf(HasSubstr("data_loss"), HasSubstr("no config")));
  EXPECT_THAT(error_of_loading(sequential_config(dense_config(R"(, "activity_regularizer": {)"))),
              HasSubstr("data_loss"));
  EXPECT_THAT(
      error_of_loading(R"({"class_name": "Functional", "config": {"name": "f", "layers": [{"class_name": "Flatten",
      "name": "a", "config": {"name": "a", "data_format": "channels_last"}, "inbound_nodes": [{"args":
      [{"class_name": "__keras_tensor__", "config": {"keras_history": ["a", 0, 0]}}], "kwargs": {}}]}],
      "input_layers": [], "output_layers": []}})"),
      AllOf(HasSubstr("data_loss"), HasSubstr("the layer a takes what no layer gives")));
  write_keras_file(folder_ / "m.keras", {{"config.json", "{}"}});
  EXPECT_THAT(error_of([&] { load_model(folder_ / "m.keras"); }), HasSubstr("has no model.weights.h5"));
  EXPECT_EQ(code_of([&] { load_model(folder_ / "none.keras"); }), ErrorCode::not_found);
}

}  // namespace
}  // namespace tutti::keras
