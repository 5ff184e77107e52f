#include "tutti/files/hdf5_reader.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/files/hdf5_writer.h"

namespace tutti::files {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Files that h5py has written; tests/hdf5/write.py.
std::filesystem::path of_h5py(const std::string& name) { return std::filesystem::path(TUTTI_TESTS_HDF5) / name; }

TEST(Hdf5, GivesBackWhatWasWrittenInEveryDtypeAndShape) {
  const TemporaryFolder folder;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar, at::kShort, at::kInt,
                                     at::kLong, at::kByte, at::kUInt16, at::kUInt32, at::kUInt64}) {
    const Tensor numbers = at::arange(24, at::kDouble).to(dtype);
    const std::map<std::string, Tensor> written{{"vector", numbers},
                                                {"a/matrix", numbers.view({4, 6})},
                                                {"a/b/turned", numbers.view({4, 6}).t()},
                                                {"a/b/scalar", numbers[5]},
                                                {"none", numbers.view({4, 6}).narrow(0, 0, 0)}};
    write_hdf5(folder / "x.h5", written);
    const Hdf5Reader file(folder / "x.h5");
    EXPECT_THAT(file.datasets(), ElementsAre("a/b/scalar", "a/b/turned", "a/matrix", "none", "vector"));
    for (const auto& [path, tensor] : written) {
      EXPECT_EQ(file.form(path).dtype, dtype) << path;
      EXPECT_EQ(file.form(path).sizes, tensor.sizes().vec()) << path;
      EXPECT_TRUE(at::equal(file.read(path).to(at::kDouble), tensor.to(at::kDouble))) << path << ' ' << dtype;
      EXPECT_EQ(file.read(path).scalar_type(), dtype);
    }
  }
}

TEST(Hdf5, OfEqualTensorsHasEqualBytes) {
  const TemporaryFolder folder;
  const std::map<std::string, Tensor> tensors{{"a/b", at::ones({3})}, {"c", at::zeros({2})}};
  write_hdf5(folder / "1.h5", tensors, {"d/e", "a"});
  write_hdf5(folder / "2.h5", tensors, {"d/e", "a"});
  EXPECT_EQ(folder.read("1.h5"), folder.read("2.h5"));
}

TEST(Hdf5, HasTheBytesThatWereCounted) {
  const TemporaryFolder folder;
  const std::map<std::string, Tensor> tensors{{"a/b", at::ones({3})}, {"c", at::zeros({2, 5}, at::kBFloat16)}};
  const Hdf5Bytes bytes(tensors, {"d/e"});
  std::string all;
  bytes.write([&](std::string_view piece) { all += piece; });
  EXPECT_EQ(all.size(), bytes.size());
  write_hdf5(folder / "x.h5", tensors, {"d/e"});
  EXPECT_EQ(folder.read("x.h5"), all);
}

TEST(Hdf5, ReadsBigEndianNumbersOfPython) {
  const Hdf5Reader file(of_h5py("big_endian.h5"));
  for (const std::string path : {"f4", "i2"}) {
    const Tensor read = file.read(path);
    EXPECT_EQ(read.scalar_type(), path == "f4" ? at::kFloat : at::kShort);
    EXPECT_TRUE(at::equal(read.to(at::kDouble), at::arange(6, at::kDouble).view({2, 3}))) << path;
  }
}

TEST(Hdf5, ReadsTheTextsOfAGroupsAttributes) {
  using Texts = std::vector<std::string>;
  const Hdf5Reader any(of_h5py("legacy.h5")), fixed(of_h5py("legacy_fixed.h5"));
  EXPECT_EQ(any.texts("", "layer_names"), (Texts{"first", "drop", "norm"}));
  EXPECT_EQ(any.texts("first", "weight_names"), (Texts{"net/first/kernel", "net/first/bias"}));
  EXPECT_EQ(any.texts("drop", "weight_names"), Texts());
  EXPECT_EQ(any.texts("", "weight_names"), std::nullopt);
  EXPECT_EQ(any.texts("", "layer_name"), std::nullopt);
  EXPECT_EQ(fixed.texts("model_weights", "layer_names0"), (Texts{"first", "drop"}));
  EXPECT_EQ(fixed.texts("model_weights", "layer_names1"), Texts{"norm"});
  EXPECT_TRUE(any.has_group("") && any.has_group("drop") && any.has_group("first/net"));
  EXPECT_FALSE(any.has_group("model_weights") || any.has_group("first/net/first/bias"));
  EXPECT_THAT(error_of([&] { any.texts("none", "layer_names"); }), HasSubstr("has no group 'none'"));
  EXPECT_THAT(error_of([] { Hdf5Reader(of_h5py("legacy_numbers.h5")).texts("", "layer_names"); }),
              AllOf(HasSubstr("unimplemented"), HasSubstr("the attribute layer_names of '' is no text")));
}

TEST(Hdf5, IsRefusedWhereItLeadsOutOrIsCompressed) {
  const auto error_of_reading = [](const std::string& name, const std::string& path) {
    return error_of([&] { (void)Hdf5Reader(of_h5py(name)).read(path); });
  };
  EXPECT_THAT(error_of_reading("soft_link.h5", "w"), AllOf(HasSubstr("unimplemented"), HasSubstr("'here' is a link")));
  EXPECT_THAT(error_of_reading("external_link.h5", "w"),
              AllOf(HasSubstr("unimplemented"), HasSubstr("'there' is a link")));
  EXPECT_THAT(error_of_reading("external_values.h5", "w"), AllOf(HasSubstr("unimplemented"), HasSubstr("other files")));
  EXPECT_THAT(error_of_reading("virtual.h5", "w"), AllOf(HasSubstr("unimplemented"), HasSubstr("other files")));
  EXPECT_THAT(error_of_reading("compressed.h5", "w"), AllOf(HasSubstr("unimplemented"), HasSubstr("h5repack -f NONE")));
  EXPECT_THAT(error_of_reading("text.h5", "w"), AllOf(HasSubstr("unimplemented"), HasSubstr("neither integers nor")));
  EXPECT_THAT(error_of_reading("circle.h5", "w"), AllOf(HasSubstr("data_loss"), HasSubstr("in each other")));
  EXPECT_THAT(error_of_reading("never_written.h5", "w"), AllOf(HasSubstr("data_loss"), HasSubstr("[1000000000000]")));
  EXPECT_THAT(error_of_reading("big_endian.h5", "f5"),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("no dataset 'f5'")));
}

TEST(Hdf5, IsAFileThatIsThereAndWhole) {
  const TemporaryFolder folder;
  EXPECT_EQ(code_of([&] { Hdf5Reader(folder / "none.h5"); }), ErrorCode::not_found);
  EXPECT_EQ(code_of([&] { Hdf5Reader(folder.path()); }), ErrorCode::not_found);
  EXPECT_THAT(error_of([&] { Hdf5Reader(folder.write("text.h5", "not so")); }),
              AllOf(HasSubstr("data_loss"), HasSubstr("does not begin as an HDF5 file")));
  write_hdf5(folder / "x.h5", {{"w", at::ones({100})}});
  const std::string whole = folder.read("x.h5");
  for (size_t size = 0; size < whole.size(); size += 100)
    EXPECT_EQ(code_of([&] { Hdf5Reader(folder.write("cut.h5", whole.substr(0, size))); }), ErrorCode::data_loss)
        << size;
}

TEST(Hdf5, IsWrittenWholeOrNotAtAll) {
  const TemporaryFolder folder;
  write_hdf5(folder / "x.h5", {{"w", at::ones({3})}});
  EXPECT_EQ(code_of([&] {
              write_hdf5(folder / "x.h5", {{"a", at::zeros({3})}, {"w", at::zeros({3}, at::kBool)}});
            }),
            ErrorCode::unimplemented);
  EXPECT_EQ(code_of([&] {
              write_hdf5(folder / "x.h5", {{"w", at::zeros({3})}, {"w/v", at::zeros({3})}});
            }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { write_hdf5(folder / "x.h5", {{"a//w", at::zeros({3})}}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { write_hdf5(folder / "none" / "x.h5", {}); }), ErrorCode::unavailable);
  EXPECT_TRUE(at::equal(Hdf5Reader(folder / "x.h5").read("w"), at::ones({3})));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

// Some bytes changed, or the end cut off.
std::string damaged_at_random(std::string bytes, std::mt19937& random) {
  const auto below = [&](size_t end) { return random() % end; };
  if (below(8) == 0) bytes.resize(below(bytes.size()));
  for (size_t n = 1 + below(4); n > 0 && !bytes.empty(); --n) {
    char& byte = bytes[below(bytes.size())];
    byte = below(2) == 0 ? static_cast<char>(byte ^ (1 << below(8))) : static_cast<char>(below(256));
  }
  return bytes;
}

void read_all(const std::filesystem::path& path) {
  try {
    const Hdf5Reader file(path);
    for (const std::string& dataset : file.datasets()) (void)file.read(dataset);
    for (const char* const group : {"", "first", "norm", "model_weights", "model_weights/first"})
      for (const char* const attribute : {"layer_names", "layer_names0", "weight_names", "weight_names1"})
        if (file.has_group(group)) (void)file.texts(group, attribute);
  } catch (const Error&) {
  }
}

TEST(Hdf5, ThatIsDamagedIsAnErrorOrReadAsItIs) {
  const TemporaryFolder folder;
  write_hdf5(folder / "x.h5", {{"layers/dense/vars/0", at::randn({3, 4})},
                               {"layers/dense/vars/1", at::randn({4}).to(at::kBFloat16)},
                               {"layers/dense_1/vars/0", at::randn({})}});
  std::mt19937 random(1);
  for (const std::filesystem::path& path : {folder / "x.h5", of_h5py("big_endian.h5"), of_h5py("external_link.h5"),
                                            of_h5py("legacy.h5"), of_h5py("legacy_fixed.h5")}) {
    std::ifstream file(path, std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(file), {}};
    for (int n = 0; n < 400; ++n) read_all(folder.write("damaged.h5", damaged_at_random(whole, random)));
  }
}

}  // namespace
}  // namespace tutti::files
