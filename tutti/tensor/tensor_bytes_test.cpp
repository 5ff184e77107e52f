// Tensors that travel as bytes: what comes back, and what damaged bytes do.
#include "tutti/tensor/tensor_bytes.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/error_of.h"

namespace tutti {
namespace {

using at::Tensor;

std::vector<uint8_t> bytes_of(const Tensor& tensor) {
  ByteWriter writer;
  write_tensor(writer, tensor);
  return writer.bytes();
}

Tensor read(const std::vector<uint8_t>& bytes) {
  ByteReader reader(bytes, "a test");
  Tensor tensor = read_tensor(reader);
  reader.finish();
  return tensor;
}

// As write_tensor writes it, of numbers that no tensor has.
std::vector<uint8_t> made_up(int64_t dtype, const std::vector<int64_t>& sizes, const std::string& bytes) {
  ByteWriter writer;
  writer.number(1);
  writer.number(dtype);
  writer.number(static_cast<int64_t>(sizes.size()));
  for (const int64_t size : sizes) writer.number(size);
  writer.text(bytes);
  return writer.bytes();
}

constexpr auto kFloats = static_cast<int64_t>(at::kFloat);

TEST(TensorBytes, KeepValuesSizesAndTypes) {
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kByte, at::kBool,
                          at::kComplexFloat, at::kFloat8_e4m3fn, at::kUInt16}) {
    const Tensor x = at::ones({2, 3}).to(type);
    const Tensor back = read(bytes_of(x));
    EXPECT_EQ(back.scalar_type(), type);
    const auto wide = c10::isComplexType(type) ? at::kComplexDouble : at::kDouble;
    EXPECT_TRUE(at::equal(back.to(wide), x.to(wide))) << type;
  }
}

TEST(TensorBytes, AreRowMajorWhateverTheTensorIs) {
  const Tensor x = at::ones({2, 3}).cumsum(1);
  for (const Tensor& tensor : {x.t(), x.slice(1, 0, 3, 2), x.slice(0, 0, 0), x.slice(0, 0, 1).expand({4, 3}),
                               at::scalar_tensor(7), x.to_sparse()}) {
    const Tensor back = read(bytes_of(tensor));
    EXPECT_TRUE(back.is_contiguous());
    EXPECT_TRUE(at::equal(back, tensor.is_sparse() ? tensor.to_dense() : tensor));
  }
  const Tensor turned = at::scalar_tensor(c10::complex<double>(1, 2), at::TensorOptions(at::kComplexDouble)).conj();
  EXPECT_TRUE(at::equal(read(bytes_of(turned)), turned.resolve_conj()));
}

TEST(TensorBytes, KnowAnUndefinedTensor) { EXPECT_FALSE(read(bytes_of({})).defined()); }

TEST(TensorBytes, EveryTruncationIsDataLoss) {
  const auto bytes = bytes_of(at::ones({2, 3}));
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_EQ(code_of([&] {
                read({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)});
              }),
              ErrorCode::data_loss)
        << length;
}

TEST(TensorBytes, ImpossibleSizesAreDataLoss) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const std::vector<std::vector<int64_t>> impossible{
      {-1}, {3}, {kMost}, {kMost, kMost}, {1, -1, -1}, {0, kMost, kMost}, {0, kMost / 2, 4}};
  for (const auto& sizes : impossible)
    EXPECT_EQ(code_of([&] { read(made_up(kFloats, sizes, "")); }), ErrorCode::data_loss)
        << testing::PrintToString(sizes);
}

// Of the numbers that LibTorch has given to dtypes some are of quantized or packed ones, which no tensor is made of.
TEST(TensorBytes, DtypesThatNoPlainTensorHasAreDataLoss) {
  for (int64_t dtype = -1; dtype <= static_cast<int64_t>(at::ScalarType::NumOptions); ++dtype) {
    const auto code = code_of([&] { read(made_up(dtype, {0}, "")); });
    EXPECT_TRUE(!code || code == ErrorCode::data_loss) << dtype;
  }
  EXPECT_EQ(code_of([] { read(made_up(static_cast<int64_t>(at::kQInt8), {0}, "")); }), ErrorCode::data_loss);
}

}  // namespace
}  // namespace tutti
