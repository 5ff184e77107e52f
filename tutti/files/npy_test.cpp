#include "tutti/files/npy.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/view_as_complex.h>
#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/files/npy_header.h"

namespace tutti::files {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::array kDtypes{at::kBool,  at::kByte,   at::kUInt16,       at::kUInt32,       at::kUInt64,
                             at::kChar,  at::kShort,  at::kInt,          at::kLong,         at::kHalf,
                             at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble};

// A file of version 1.0 with this dictionary, and elements.
std::string npy(const std::string& dictionary, const std::string& elements) {
  return str("\x93NUMPY", '\1', '\0', static_cast<char>(dictionary.size() & 0xFF),
             static_cast<char>(dictionary.size() >> 8), dictionary, elements);
}

std::string dictionary(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return str("{'descr': '", descr, "', 'fortran_order': ", order, ", 'shape': ", shape, ", }\n");
}

class Npy : public testing::Test {
 protected:
  std::string error_of_reading(const std::string& bytes) {
    return error_of([&] { read_npy(folder_.write("x.npy", bytes)); });
  }

  const TemporaryFolder folder_;
};

using Npz = Npy;

void expect_same(const Tensor& read, const Tensor& written) {
  EXPECT_EQ(read.scalar_type(), written.scalar_type());
  EXPECT_EQ(read.sizes(), written.sizes());
  EXPECT_TRUE(read.is_contiguous());
  const Tensor packed = written.resolve_conj().contiguous();
  EXPECT_EQ(std::string(static_cast<const char*>(read.const_data_ptr()), read.nbytes()),
            std::string(static_cast<const char*>(packed.const_data_ptr()), packed.nbytes()));
}

TEST_F(Npy, GivesBackWhatWasWrittenInEveryDtypeAndShape) {
  const auto path = folder_ / "x.npy";
  const std::vector<std::vector<int64_t>> shapes{{}, {5}, {0, 3}, {2, 1, 3}};
  for (const auto dtype : kDtypes)
    for (const auto& shape : shapes) {
      SCOPED_TRACE(str(c10::toString(dtype), ' ', str_list(shape)));
      const Tensor tensor = at::arange(6, at::kDouble).narrow(0, 0, at::empty(shape).numel()).view(shape).to(dtype);
      write_npy(path, tensor);
      expect_same(read_npy(path), tensor);
    }
}

TEST_F(Npy, WritesStridedAndConjugatedTensorsAsTheirValues) {
  const auto path = folder_ / "x.npy";
  const Tensor transposed = at::arange(6).view({2, 3}).t();
  write_npy(path, transposed);
  expect_same(read_npy(path), transposed);
  const Tensor conjugated = at::view_as_complex(at::arange(4, at::kFloat).view({2, 2})).conj();
  write_npy(path, conjugated);
  expect_same(read_npy(path), conjugated);
}

// numpy.save(file, numpy.arange(3, dtype="<i4")) of numpy 2.4.
TEST_F(Npy, WritesTheBytesThatNumpyWrites) {
  write_npy(folder_ / "x.npy", at::arange(3, at::kInt));
  const std::string text = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }";
  EXPECT_EQ(folder_.read("x.npy"), std::string("\x93NUMPY\1\0v\0", 10) + text + std::string(60, ' ') + "\n" +
                                       std::string("\0\0\0\0\1\0\0\0\2\0\0\0", 12));
  EXPECT_THAT(npy_header(at::kBool, {2, 3}), HasSubstr("{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }"));
  EXPECT_THAT(npy_header(at::kDouble, {}), HasSubstr("'shape': (), }"));
}

TEST_F(Npy, ReadsBothOrdersOfAxesAndOfBytes) {
  const auto read = [&](const std::string& bytes) { return read_npy(folder_.write("x.npy", bytes)); };
  expect_same(read(npy(dictionary("|u1", "(2, 3)", "True"), "\1\2\3\4\5\6")),
              at::arange(1, 7, at::kByte).view({3, 2}).t());
  expect_same(read(npy(dictionary(">i2", "(2,)"), std::string("\0\1\1\0", 4))), at::arange(1, 257, 255, at::kShort));
  const std::string one("\x3f\x80\0\0", 4), two("\x40\0\0\0", 4);
  expect_same(read(npy(dictionary(">c8", "()"), one + two)), at::view_as_complex(at::arange(1, 3, at::kFloat)));
}

TEST_F(Npy, ReadsTheLaterVersionsAndOtherSpellings) {
  const std::string text = "{\"shape\":(2 , ),'fortran_order':False,'descr':'|i1'}";
  for (const char version : {'\2', '\3'}) {
    const auto path = folder_.write(
        "x.npy", str("\x93NUMPY", version, '\0', static_cast<char>(text.size()), std::string(3, '\0'), text, "\1\2"));
    expect_same(read_npy(path), at::arange(1, 3, at::kChar));
  }
  EXPECT_THAT(error_of_reading(std::string("\x93NUMPY\4\0\0\0", 10)), HasSubstr("version 4.0"));
}

TEST_F(Npy, RefusesDtypesThatLibTorchHasNotByName) {
  for (const std::string descr : {"<U5", "|S3", "|O", "<M8[s]", "<f16", "|V2", "f4"})
    EXPECT_THAT(
        error_of_reading(npy(dictionary(descr, "(1,)"), "0123456789abcdef")),
        AllOf(StartsWith("unimplemented: read_npy: '" + (folder_ / "x.npy").string()), HasSubstr("'" + descr + "'")));
  EXPECT_THAT(error_of_reading(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "0123")),
              HasSubstr("structured"));
  EXPECT_THAT(error_of([&] { write_npy(folder_ / "y.npy", at::ones({2}, at::kBFloat16)); }),
              AllOf(StartsWith("unimplemented"), HasSubstr("BFloat16")));
  EXPECT_THAT(error_of([&] { write_npy(folder_ / "y.npy", at::eye(2).to_sparse()); }), StartsWith("invalid_argument"));
  EXPECT_THAT(error_of([&] { write_npy(folder_ / "y.npy", Tensor()); }), StartsWith("invalid_argument"));
}

TEST_F(Npy, RefusesFilesThatAreCutOrTooLong) {
  const std::string whole = npy(dictionary("<f4", "(3,)"), "0123456789ab");
  EXPECT_EQ(error_of_reading(whole), "no error");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_THAT(error_of_reading(whole.substr(0, length)), StartsWith("data_loss: read_npy")) << length;
  EXPECT_THAT(error_of_reading(whole + "c"), HasSubstr("more than the 12 bytes"));
  EXPECT_THAT(error_of([&] { read_npy(folder_ / "absent.npy"); }), StartsWith("not_found"));
  EXPECT_THAT(error_of([&] { read_npy(folder_.path()); }), StartsWith("not_found"));
}

TEST_F(Npy, RefusesADamagedHeader) {
  const std::vector<std::string> damaged{
      "",
      "{}",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
      "{'descr': '<f4', 'fortran_order': false, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1 1)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
      "{'descr': '|f4', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4",
      "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
  };
  for (const std::string& text : damaged)
    EXPECT_THAT(error_of_reading(npy(text, "0123")), StartsWith("data_loss")) << text;
  EXPECT_THAT(error_of_reading(npy(dictionary("|b1", "(2,)"), "\1\2")), HasSubstr("a bool that is neither"));
}

TEST_F(Npy, RefusesAShapeThatTheFileCannotHold) {
  EXPECT_THAT(error_of_reading(npy(dictionary("<f8", "(4611686018427387904, 4)"), "")), StartsWith("data_loss"));
  EXPECT_THAT(error_of_reading(npy(dictionary("<f8", "(1000000000,)"), "")), HasSubstr("[1000000000] of Double"));
  EXPECT_THAT(error_of_reading(npy(dictionary("<f8", "(0, 9223372036854775807, 9223372036854775807)"), "")),
              StartsWith("data_loss"));
}

TEST_F(Npy, AFailedWriteLeavesNothingAndTheOldFileAsItWas) {
  write_npy(folder_ / "x.npy", at::arange(3));
  const std::string before = folder_.read("x.npy");
  std::filesystem::create_directories(folder_ / "folder/inside");
  EXPECT_THAT(error_of([&] { write_npy(folder_ / "folder", at::arange(3)); }), StartsWith("unavailable"));
  EXPECT_THAT(error_of([&] { write_npy(folder_ / "absent/x.npy", at::arange(3)); }), StartsWith("unavailable"));
  EXPECT_ANY_THROW(write_npz(folder_ / "x.npy", {{"a", at::arange(3)}, {"b", Tensor()}}));
  EXPECT_EQ(folder_.read("x.npy"), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 2);
}

TEST_F(Npz, GivesBackWhatWasWrittenStoredOrDeflated) {
  const std::map<std::string, Tensor> tensors{{"a", at::arange(100'000)},
                                              {"layer/kernel", at::arange(6, at::kFloat).view({2, 3})},
                                              {"größe", at::scalar_tensor(1.5, at::kDouble)},
                                              {"none", at::empty({0})}};
  for (const auto compression : {NpzCompression::none, NpzCompression::deflate}) {
    const auto path = folder_ / "x.npz";
    write_npz(path, tensors, compression);
    EXPECT_EQ(std::filesystem::file_size(path) < 300'000, compression == NpzCompression::deflate);
    const auto read = read_npz(path);
    ASSERT_EQ(read.size(), tensors.size());
    for (const auto& [name, tensor] : tensors) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(read.contains(name));
      expect_same(read.at(name), tensor);
    }
  }
  write_npz(folder_ / "empty.npz", {});
  EXPECT_TRUE(read_npz(folder_ / "empty.npz").empty());
}

TEST_F(Npz, RefusesDamage) {
  write_npz(folder_ / "x.npz", {{"a", at::arange(1000)}});
  const std::string whole = folder_.read("x.npz");
  const auto error = [&](const std::string& bytes) {
    return error_of([&] { read_npz(folder_.write("y.npz", bytes)); });
  };
  EXPECT_EQ(error(whole), "no error");
  for (const size_t length : {size_t{0}, size_t{10}, size_t{100}, size_t{5000}, whole.size() - 30})
    EXPECT_THAT(error(whole.substr(0, length)), StartsWith("data_loss")) << length;
  std::string flipped = whole;
  flipped[2000] = static_cast<char>(flipped[2000] ^ 1);
  EXPECT_THAT(error(flipped), StartsWith("data_loss"));
  EXPECT_THAT(error("not a zip"), StartsWith("data_loss"));
  EXPECT_THAT(error_of([&] { read_npz(folder_ / "absent.npz"); }), StartsWith("not_found"));
  EXPECT_THAT(error_of([&] { write_npz(folder_ / "z.npz", {{"", at::arange(3)}}); }), StartsWith("invalid_argument"));
}

TEST_F(Npz, RefusesToWriteNamesThatItCouldNotReadAgain) {
  using namespace std::string_literals;
  for (const std::string& name : {"\xff"s, "a\0b"s, "a\\b"s, std::string(65'532, 'n')})
    EXPECT_THAT(error_of([&] {
                  write_npz(folder_ / "z.npz", {{name, at::arange(3)}});
                }),
                StartsWith("invalid_argument"));
  const std::string longest(65'531, 'n');
  write_npz(folder_ / "z.npz", {{longest, at::arange(3)}});
  EXPECT_TRUE(read_npz(folder_ / "z.npz").contains(longest));
}

TEST_F(Npz, RefusesMembersThatAreNoArraysOrOfOneName) {
  const auto zip = [&](const std::vector<std::string>& names) {
    const auto path = folder_ / "members.npz";
    archive* out = archive_write_new();
    archive_write_set_format_zip(out);
    archive_write_open_filename(out, path.c_str());
    const std::string bytes = npy(dictionary("|u1", "(1,)"), "x");
    for (const std::string& name : names) {
      archive_entry* entry = archive_entry_new();
      archive_entry_set_pathname(entry, name.c_str());
      archive_entry_set_size(entry, static_cast<int64_t>(bytes.size()));
      archive_entry_set_filetype(entry, AE_IFREG);
      archive_write_header(out, entry);
      archive_write_data(out, bytes.data(), bytes.size());
      archive_entry_free(entry);
    }
    archive_write_free(out);
    return error_of([&] { read_npz(path); });
  };
  EXPECT_EQ(zip({"a.npy", "b.npy"}), "no error");
  EXPECT_THAT(zip({"a.npy", "readme.txt"}), AllOf(StartsWith("data_loss"), HasSubstr("'readme.txt' is no .npy file")));
  EXPECT_THAT(zip({"a.npy", "a.npy"}), HasSubstr("'a.npy' is there twice"));
}

}  // namespace
}  // namespace tutti::files
