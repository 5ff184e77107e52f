#include "tutti/data/idx.h"

#include <gmock/gmock.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>

#include "tests/support/dataset_values.h"
#include "tutti/core/str.h"
#include "tutti/data/mnist.h"

namespace tutti::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A folder of its own for each test, removed with it.
class Idx : public ::testing::Test {
 protected:
  Idx() { std::filesystem::create_directories(folder_); }
  ~Idx() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  std::filesystem::path write_gz(const std::string& name, const std::string& bytes) {
    const gzFile file = gzopen((folder_ / name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return folder_ / name;
  }
  std::string read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      str("tutti_", getpid(), "_", ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

std::string big_endian(uint32_t x) {
  return {static_cast<char>(x >> 24), static_cast<char>(x >> 16), static_cast<char>(x >> 8), static_cast<char>(x)};
}

std::string header(char code, const std::vector<uint32_t>& sizes) {
  std::string bytes{'\0', '\0', code, static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes) bytes += big_endian(size);
  return bytes;
}

std::string error_of_reading(const std::filesystem::path& path) {
  return error_of([&] { read_idx(path); });
}

TEST_F(Idx, ReadsPlainAndCompressedFiles) {
  const std::string bytes = header(0x08, {2, 3}) + std::string("\1\2\3\4\5\377", 6);
  for (const auto& path : {write("plain", bytes), write_gz("compressed", bytes)}) {
    const Tensor tensor = read_idx(path);
    EXPECT_EQ(tensor.sizes(), at::IntArrayRef({2, 3}));
    EXPECT_EQ(tensor.scalar_type(), at::kByte);
    EXPECT_EQ(numbers(tensor), (std::vector<double>{1, 2, 3, 4, 5, 255}));
  }
}

TEST_F(Idx, ReadsWideTypesFromBigEndian) {
  const Tensor ints = read_idx(write("ints", header(0x0C, {2}) + big_endian(7) + big_endian(0xFFFFFFFE)));
  EXPECT_EQ(ints.scalar_type(), at::kInt);
  EXPECT_EQ(numbers(ints), (std::vector<double>{7, -2}));
  const Tensor floats = read_idx(write("floats", header(0x0D, {1}) + big_endian(0x3FC00000)));
  EXPECT_EQ(numbers(floats), std::vector<double>{1.5});
}

TEST_F(Idx, ReadsAnEmptyTensor) {
  EXPECT_EQ(read_idx(write("empty", header(0x08, {0, 28}))).sizes(), at::IntArrayRef({0, 28}));
}

TEST_F(Idx, NamesTheFileAndTheBytesOfATruncatedOne) {
  const auto path = write_gz("cut", header(0x08, {10}) + "abc");
  EXPECT_THAT(error_of_reading(path), AllOf(StartsWith("data_loss: read_idx: '" + path.string()),
                                            HasSubstr("10 bytes of elements ([10]), it has 3")));
}

TEST_F(Idx, RefusesCompressedDataThatEndsEarlyOrIsDamaged) {
  std::string noise = header(0x08, {100000});
  uint32_t state = 1;
  for (int i = 0; i < 100000; ++i) noise += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  const std::string whole = read(write_gz("whole", noise));
  ASSERT_EQ(numbers(read_idx(folder_ / "whole")).size(), 100000U);
  EXPECT_THAT(error_of_reading(write("cut", whole.substr(0, 60000))), HasSubstr("data_loss"));
  EXPECT_THAT(error_of_reading(write("no_crc", whole.substr(0, whole.size() - 4))), HasSubstr("data_loss"));
  EXPECT_THAT(error_of_reading(write("longer", whole + "x")), HasSubstr("data_loss"));
  std::string damaged = whole;
  damaged[damaged.size() - 6] = static_cast<char>(damaged[damaged.size() - 6] ^ 1);
  EXPECT_THAT(error_of_reading(write("damaged", damaged)), HasSubstr("data_loss"));
}

TEST_F(Idx, RefusesAShapeThatTheFileCannotHold) {
  EXPECT_THAT(error_of_reading(write("huge", header(0x08, {0xFFFFFFFF, 0xFFFFFFFF}))), HasSubstr("cannot hold"));
  EXPECT_THAT(error_of_reading(write("overflow", header(0x0E, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}))),
              HasSubstr("data_loss"));
  EXPECT_THAT(error_of_reading(write("strides", header(0x08, {0, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}))),
              HasSubstr("data_loss"));
  EXPECT_THAT(error_of_reading(write_gz("bomb", header(0x08, {0x7FFFFFFF}))), HasSubstr("cannot hold"));
}

TEST_F(Idx, RefusesWhatIsNotIdx) {
  EXPECT_THAT(error_of_reading(write("text", "hello, world")), HasSubstr("two zero bytes"));
  EXPECT_THAT(error_of_reading(write("nothing", "")), HasSubstr("has 0 bytes"));
  EXPECT_THAT(error_of_reading(write("header", header(0x08, {1, 2}).substr(0, 10))), HasSubstr("ends in its header"));
  EXPECT_THAT(error_of_reading(write("type", header(0x0A, {1}) + "a")), HasSubstr("element type 10"));
  EXPECT_THAT(error_of_reading(write("axes", header(0x08, {}))), HasSubstr("has 0 axes"));
  EXPECT_THAT(error_of_reading(write("longer", header(0x08, {1}) + "ab")), HasSubstr("more than the 1 bytes"));
  EXPECT_THAT(error_of_reading(folder_ / "absent"), StartsWith("not_found"));
  EXPECT_THAT(error_of_reading(folder_), StartsWith("not_found"));
}

TEST_F(Idx, MnistComesAsImagesAndLabels) {
  for (const std::string prefix : {"train", "t10k"}) {
    write(prefix + "-images-idx3-ubyte", header(0x08, {2, 28, 28}) + std::string(2 * 784, '\7'));
    write_gz(prefix + "-labels-idx1-ubyte.gz", header(0x08, {2}) + std::string("\3\4"));
  }
  const auto [train, test] = load_mnist(folder_);
  EXPECT_EQ(train.cardinality(), 2);
  for (const auto& [image, label] : test.skip(1)) {
    EXPECT_EQ(image.sizes(), at::IntArrayRef({28, 28, 1}));
    EXPECT_EQ(image.scalar_type(), at::kByte);
    EXPECT_EQ(image.sum().item<int64_t>(), 784 * 7);
    EXPECT_EQ(label.scalar_type(), at::kLong);
    EXPECT_EQ(label.item<int64_t>(), 4);
  }
}

TEST_F(Idx, MnistSaysWhatIsMissing) {
  EXPECT_THAT(
      error_of([&] { load_mnist(folder_ / "nowhere"); }),
      AllOf(StartsWith("not_found: load_mnist: no train-images-idx3-ubyte in '" + folder_.string()),
            HasSubstr("no such folder"), HasSubstr("t10k-labels-idx1-ubyte"), HasSubstr("examples/data/mnist")));
  write("train-images-idx3-ubyte", header(0x08, {1, 1, 1}) + "a");
  EXPECT_THAT(error_of([&] { load_mnist(folder_); }), HasSubstr("no train-labels-idx1-ubyte"));
  write("train-labels-idx1-ubyte", header(0x08, {2}) + "ab");
  EXPECT_THAT(error_of([&] { load_mnist(folder_); }), StartsWith("data_loss: load_mnist"));
}

}  // namespace
}  // namespace tutti::data
