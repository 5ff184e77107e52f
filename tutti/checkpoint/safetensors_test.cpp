#include "tutti/checkpoint/safetensors.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/view_as_real.h>
#include <gmock/gmock.h>

#include <random>

#include "tests/support/error_of.h"
#include "tests/support/memory_file_system.h"
#include "tutti/checkpoint/safetensors_header.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string file_of(const std::string& header, size_t data_bytes) {
  std::string file;
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 255);
  return file + header + std::string(data_bytes, '\0');
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), file.size(), "x.safetensors");
}

std::string error_of_parsing(const std::string& file) {
  return error_of([&] { parse(file); });
}

TEST(Safetensors, ReadTheExampleOfTheFormat) {
  const SafetensorsHeader header = parse(file_of(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[1,16],"data_offsets":[4,36]},)"
      R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"none":{"dtype":"F32","shape":[0,7],"data_offsets":[36,36]}}  )",
      36));
  ASSERT_EQ(header.entries.size(), 3);
  EXPECT_EQ(header.entries[0], (SafetensorsEntry{"a", at::kByte, {4}, 0, 4}));
  EXPECT_EQ(header.entries[1], (SafetensorsEntry{"b", at::kHalf, {1, 16}, 4, 36}));
  EXPECT_EQ(header.entries[2], (SafetensorsEntry{"none", at::kFloat, {0, 7}, 36, 36}));
  EXPECT_EQ(header.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  EXPECT_TRUE(parse(file_of("{}", 0)).entries.empty());
}

// The attacks of the reference implementation's collection, and their relatives.
TEST(Safetensors, RefuseHeadersThatLie) {
  const auto one = [](const std::string& entry) { return file_of("{\"a\":" + entry + "}", 8); };
  ASSERT_EQ(error_of_parsing(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})")), "no error");
  const std::vector<std::string> files{
      "",
      "1234567",
      std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8) + "{}",
      std::string("\x01\xe1\xf5\x05\0\0\0\0", 8) + "{}",  // one byte above the limit
      std::string("\x03\0\0\0\0\0\0\0", 8) + "{}",
      file_of("", 0),
      file_of("[]", 0),
      file_of("{}", 1),
      file_of("{} x", 0),
      one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
      one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"),
      one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
      one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
      one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"),
      one(R"({"dtype":"F32","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,8]})"),
      one(R"({"dtype":"F32","shape":[4611686018427387904,0],"data_offsets":[0,0]})"),
      one(R"({"dtype":"F32","shape":[2],"data_offsets":[1152921504606846976,1152921504606846984]})"),
      one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"),
      one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"),
      one(R"({"dtype":"F33","shape":[2],"data_offsets":[0,8]})"),
      one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"dtype":"I32"})"),
      one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})"),
      one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"),
      one(R"({"dtype":"F32","data_offsets":[0,8]})"),
      one(R"({"dtype":"F32","shape":[2]})"),
      one(R"({"shape":[2],"data_offsets":[0,8]})"),
      one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1})"),
      one(R"([])"),
      file_of(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
          6),
      file_of(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[6,10]}})",
          10),
      file_of(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
          8),
      file_of(R"({"__metadata__":{"a":1}})", 0),
      file_of(R"({"__metadata__":{"a":"1","a":"2"}})", 0),
      file_of(std::string(1 << 20, '['), 0),
  };
  for (const std::string& file : files)
    EXPECT_THAT(error_of_parsing(file), AllOf(HasSubstr("data_loss"), HasSubstr("x.safetensors")))
        << file.substr(0, 200);
  EXPECT_THAT(error_of_parsing(one(R"({"dtype":"F4","shape":[16],"data_offsets":[0,8]})")), HasSubstr("unimplemented"));
}

TEST(Safetensors, DoNotCrashOnDamage) {
  const std::string whole = file_of(R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                    R"("b":{"dtype":"I64","shape":[],"data_offsets":[8,16]}})",
                                    16);
  const SafetensorsHeader good = parse(whole);
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string file = whole;
    for (uint32_t flips = 1 + random() % 4; flips > 0; --flips)
      file[random() % file.size()] = static_cast<char>(random());
    if (random() % 4 == 0) file.resize(random() % file.size());
    refused += code_of([&] { parse(file); }).has_value();
  }
  EXPECT_GT(refused, 5'000);
  EXPECT_EQ(good.entries.size(), 2);
}

TEST(Safetensors, ComeBackAsTheyWereWritten) {
  MemoryFileSystem files;
  const Mesh mesh({{"x", 2}}, configure_logical_cpus(2), {.merge = false});
  const Tensor table = at::rand({4, 3});
  const std::map<std::string, Tensor> tensors{{"a/b \"c\"", table.t()},
                                              {"bool", table > 0.5},
                                              {"empty", at::empty({0, 3})},
                                              {"scalar", at::ones({}, at::kLong)},
                                              {"bytes", at::arange(3, at::kByte)},
                                              {"mesh", distribute_tensor(table, Layout({"x", "unsharded"}, mesh))}};
  save_safetensors(files, "/w.safetensors", tensors, {{"format", "pt"}});
  const auto loaded = load_safetensors(files, "/w.safetensors");
  ASSERT_EQ(loaded.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(at::equal(loaded.at(name), gather(tensor))) << name;
  save_safetensors(files, "/w.safetensors", {{"z", at::complex(table, table)}});
  EXPECT_TRUE(
      at::equal(load_safetensors(files, "/w.safetensors").at("z"), at::view_as_real(at::complex(table, table))));
  EXPECT_EQ(files.list("/").size(), 1);
}

TEST(Safetensors, HeadersAreAlignedAndReadBack) {
  SafetensorsHeader header{.metadata = {{"a", "\n"}}};
  header.entries.push_back(safetensors_entry("w", at::kDouble, {3}, 0));
  header.entries.push_back(safetensors_entry("z", at::kComplexFloat, {2}, 24));
  const std::string text = safetensors_header_text(header);
  EXPECT_EQ(text.size() % 64, 0);
  const SafetensorsHeader parsed = parse(text + std::string(40, '\0'));
  EXPECT_EQ(parsed.entries, header.entries);
  EXPECT_EQ(parsed.entries[1].sizes, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(parsed.metadata, header.metadata);
}

TEST(Safetensors, RefuseWhatTheFormatCannotHold) {
  MemoryFileSystem files;
  const Tensor w = at::ones({2});
  for (const char* name : {"__metadata__", "\xff"})
    EXPECT_EQ(code_of([&] { save_safetensors(files, "/w", {{name, w}}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { save_safetensors(files, "/w", {{"w", w}}, {{"\xff", "v"}}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { save_safetensors(files, "/w", {{"w", w.to_sparse()}}); }), ErrorCode::unimplemented);
  EXPECT_TRUE(files.list("/").empty());
}

}  // namespace
}  // namespace tutti::checkpoint
