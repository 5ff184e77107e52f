#include "tutti/checkpoint/reader.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/support/error_of.h"
#include "tests/support/hooked_file_system.h"
#include "tests/support/memory_file_system.h"
#include "tutti/checkpoint/sealed_json.h"
#include "tutti/checkpoint/writer.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/scope.h"

namespace tutti::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         (x.numel() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0);
}

Contents contents_of(const std::vector<std::pair<std::string, Tensor>>& tensors) {
  Contents contents;
  for (const auto& [name, tensor] : tensors) contents.tensors.push_back(named_tensor(name, tensor));
  return contents;
}

class Checkpoints : public testing::Test {
 protected:
  Reader saved(const Contents& contents) {
    write(files_, "/ckpt", contents);
    return Reader(files_, "/ckpt");
  }
  // The text of the index, changed and sealed again: what somebody with bad intent writes.
  void change_index(const std::string& from, const std::string& to) {
    std::string& file = files_.contents("/ckpt/index.json");
    std::string text = unseal(file, "index");
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << text;
    file = seal(text.replace(at, from.size(), to));
  }
  std::string error_of_opening() {
    return error_of([&] { Reader(files_, "/ckpt"); });
  }

  MemoryFileSystem files_;
};

TEST_F(Checkpoints, KeepEveryDtypeBitForBit) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  const Tensor bytes = at::randint(0, 256, {3, 16}, at::kByte);
  for (const at::ScalarType dtype :
       {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble,
        at::kComplexHalf, at::kComplexFloat, at::kComplexDouble, at::kUInt16, at::kUInt32, at::kUInt64,
        at::kFloat8_e4m3fn, at::kFloat8_e5m2, at::kFloat8_e8m0fnu})
    tensors.emplace_back(c10::toString(dtype), bytes.view(dtype));  // NaNs, infinities and all
  tensors.emplace_back("bool", bytes > 100);
  const Reader reader = saved(contents_of(tensors));
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(same_bits(reader.read(name), tensor)) << name;
  reader.verify();
  EXPECT_EQ(reader.tensors().size(), tensors.size());
}

TEST_F(Checkpoints, KeepScalarsEmptyOnesAndOnesThatAreNotContiguous) {
  const Tensor table = at::randn({6, 5});
  const std::vector<std::pair<std::string, Tensor>> tensors{{"scalar", at::ones({})},
                                                            {"empty", at::empty({3, 0, 2})},
                                                            {"transposed", table.t()},
                                                            {"strided", table.narrow(1, 1, 3)},
                                                            {"expanded", table.narrow(0, 0, 1).expand({4, 5})},
                                                            {"conjugated", at::complex(table, table).conj()}};
  const Reader reader = saved(contents_of(tensors));
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(at::equal(reader.read(name), tensor)) << name;
  EXPECT_EQ(reader.find("empty")->shards.size(), 1);
  EXPECT_EQ(reader.find("nothing"), nullptr);
}

TEST_F(Checkpoints, KeepValuesAndTheStep) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::map<std::string, Value> values{{"a", int64_t{-5}},
                                            {"b", 0.1},
                                            {"c", inf},
                                            {"d", -inf},
                                            {"e", -0.0},
                                            {"text \"\n\u00e9", std::string("\0\\x", 3)},
                                            {"least", std::numeric_limits<int64_t>::min()}};
  const Reader reader = saved({.tensors = {}, .values = values, .step = 12});
  EXPECT_EQ(reader.values(), values);
  EXPECT_TRUE(std::signbit(std::get<double>(reader.values().at("e"))));
  EXPECT_EQ(reader.step(), 12);
  const Reader nan = saved({.values = {{"nan", std::numeric_limits<double>::quiet_NaN()}}});
  EXPECT_TRUE(std::isnan(std::get<double>(nan.values().at("nan"))));
}

TEST_F(Checkpoints, ReadAnyRegionOfATensorOfSeveralChunks) {
  const Tensor large = at::rand({700, 3, 300}, at::kFloat);  // 2.4 MiB
  const Reader reader = saved(contents_of({{"small", at::ones({3})}, {"large", large}}));
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    Region region;
    Tensor expected = large;
    for (int axis = 0; axis < 3; ++axis) {
      const int64_t size = large.size(axis), first = static_cast<int64_t>(random() % size);
      region.first.push_back(first);
      region.sizes.push_back(static_cast<int64_t>(random() % (size - first + 1)));
      expected = expected.narrow(axis, first, region.sizes.back());
    }
    const Tensor got = at::zeros(region.sizes);
    reader.read("large", region, got);
    EXPECT_TRUE(at::equal(got, expected)) << region.to_string();
  }
  const Tensor columns = at::zeros({300, 3, 700}).permute({2, 1, 0});
  reader.read("large", Region::whole({700, 3, 300}), columns);
  EXPECT_TRUE(at::equal(columns, large));
}

TEST_F(Checkpoints, ReadOnlyTheChunksThatARegionNeeds) {
  write(files_, "/ckpt", contents_of({{"w", at::rand({10, 1 << 18})}}));  // a chunk a row
  int reads = 0;
  HookedFileSystem counting(files_, [&](FileOperation operation) { reads += operation == FileOperation::read; });
  const Reader reader(counting, "/ckpt");
  reads = 0;
  reader.read("w", {{3, 5}, {2, 10}}, at::empty({2, 10}));
  EXPECT_EQ(reads, 2);
}

// --- meshes ----------------------------------------------------------------------------------------------------------

struct Placement {
  std::vector<MeshDimension> dimensions;
  bool merge;
  std::vector<std::string> axes;
};

Tensor placed(const Tensor& value, const Placement& placement) {
  int devices = 1;
  for (const auto& dimension : placement.dimensions) devices *= static_cast<int>(dimension.size);
  const Mesh mesh(placement.dimensions, configure_logical_cpus(devices), {.merge = placement.merge});
  return distribute_tensor(value, Layout(placement.axes, mesh));
}

const std::vector<Placement>& placements() {
  static const std::vector<Placement> all{{{{"x", 4}}, true, {"x", "unsharded"}},
                                          {{{"x", 4}}, false, {"x", "unsharded"}},
                                          {{{"x", 3}}, false, {"unsharded", "x"}},
                                          {{{"x", 2}, {"y", 2}}, false, {"x", "y"}},
                                          {{{"x", 2}, {"y", 3}}, false, {"y", "unsharded"}},
                                          {{{"x", 2}}, false, {"unsharded", "unsharded"}},
                                          {{{"x", 8}}, false, {"x", "unsharded"}},
                                          {{{"x", 1}}, false, {"x", "unsharded"}}};
  return all;
}

TEST_F(Checkpoints, GoFromAnyMeshAndLayoutToAnyOther) {
  const Tensor value = at::arange(35.).view({7, 5});  // divided by none of the meshes
  for (const Placement& from : placements()) {
    const Reader reader = saved(contents_of({{"w", placed(value, from)}}));
    reader.verify();
    EXPECT_TRUE(at::equal(reader.read("w"), value));
    for (const Placement& to : placements()) {
      const Tensor restored = placed(at::zeros({7, 5}), to);
      reader.read("w", restored);
      EXPECT_TRUE(at::equal(gather(restored), value));
    }
  }
}

Tensor plain(const Tensor& tensor) { return is_mesh_tensor(tensor) ? gather(tensor) : tensor; }

// Small ones and, among them, one of several chunks; saved in four rows each, but for some.
std::vector<std::pair<std::string, Tensor>> many_tensors() {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (int i = 0; i < 300; ++i) {
    const Tensor value = at::randint(0, 100, {8 + i % 5, 40 + i}, i % 3 == 0 ? at::kDouble : at::kFloat);
    tensors.emplace_back(str("layer/", i), i % 7 == 0 ? value : placed(value, placements()[1]));
  }
  tensors.emplace(tensors.begin() + 100, "large", placed(at::rand({600, 1000}), placements()[1]));
  tensors.emplace_back("whole", at::rand({3, 2000}));
  return tensors;
}

TEST_F(Checkpoints, ReadManyTensorsTogetherInAnyOrder) {
  const auto tensors = many_tensors();
  const Reader reader = saved(contents_of(tensors));
  std::mt19937 random(3);
  for (const size_t step : {1, 2, 3}) {  // the latter leave gaps
    std::vector<Reader::Request> requests;
    std::vector<Tensor> expected;
    for (size_t i = 0; i < tensors.size(); i += step) {
      const auto& [name, value] = tensors[i];
      expected.push_back(plain(value));
      const Tensor zeros = at::zeros(value.sizes(), value.scalar_type());
      const Tensor destination = i % 4 == 0   ? zeros
                                 : i % 4 == 1 ? placed(zeros, placements()[2])
                                 : i % 4 == 2 ? placed(zeros, placements()[i % placements().size()])
                                              : zeros.t().contiguous().t();
      requests.push_back({reader.find(name), destination});
    }
    std::vector<Reader::Request> shuffled = requests;
    std::ranges::shuffle(shuffled, random);
    reader.read(step == 2 ? std::span<const Reader::Request>(requests) : shuffled);
    for (size_t i = 0; i < requests.size(); ++i)
      EXPECT_TRUE(at::equal(plain(requests[i].destination), expected[i])) << requests[i].tensor->name;
  }
}

TEST_F(Checkpoints, ReadATensorIntoSeveralDestinations) {
  const Tensor value = at::rand({8, 1000});
  const Reader reader = saved(contents_of({{"w", placed(value, placements()[1])}, {"v", at::rand({2})}}));
  const Tensor one = at::zeros({8, 1000}), other = placed(at::zeros({8, 1000}), placements()[2]);
  const std::vector<Reader::Request> requests{
      {reader.find("w"), one}, {reader.find("v"), at::zeros({2})}, {reader.find("w"), other}};
  reader.read(requests);
  EXPECT_TRUE(at::equal(one, value));
  EXPECT_TRUE(at::equal(gather(other), value));
}

TEST_F(Checkpoints, ChangeNothingWhereOneOfManyDestinationsDoesNotFit) {
  const Reader reader = saved(contents_of({{"w", at::ones({4})}, {"v", at::ones({4})}}));
  const Tensor w = at::zeros({4});
  const std::vector<Reader::Request> requests{{reader.find("w"), w}, {reader.find("v"), at::zeros({5})}};
  EXPECT_THAT(error_of([&] { reader.read(requests); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("'v'"), HasSubstr("Float [5]")));
  EXPECT_TRUE(at::equal(w, at::zeros({4})));
}

TEST_F(Checkpoints, NameTheDamagedOneOfManyTensors) {
  const auto tensors = many_tensors();
  saved(contents_of(tensors));
  const Reader reader(files_, "/ckpt");
  for (const std::string name : {"layer/5", "layer/14", "layer/250", "whole"})
    for (const IndexedShard& shard : reader.find(name)->shards) {
      char& byte = files_.contents("/ckpt/" + file_name(shard.file))[shard.offset + shard.bytes - 1];
      byte = static_cast<char>(byte ^ 4);
      std::vector<Reader::Request> requests;
      for (const auto& [each, value] : tensors)
        requests.push_back({reader.find(each), at::zeros(value.sizes(), value.scalar_type())});
      EXPECT_THAT(error_of([&] { reader.read(requests); }),
                  AllOf(HasSubstr("data_loss"), HasSubstr(str("tensor '", name, "', shard ", shard.region.to_string())),
                        HasSubstr(file_name(shard.file))));
      byte = static_cast<char>(byte ^ 4);
    }
}

TEST_F(Checkpoints, HoldAShardOfEachBufferAndAReplicatedValueOnce) {
  const Tensor value = at::arange(35.).view({7, 5});
  const auto shards = [&](const Placement& from) {
    std::vector<std::string> regions;
    const Reader reader = saved(contents_of({{"w", placed(value, from)}}));
    for (const IndexedShard& shard : reader.find("w")->shards) regions.push_back(shard.region.to_string());
    return regions;
  };
  EXPECT_THAT(shards({{{"x", 2}, {"y", 2}}, false, {"x", "unsharded"}}),
              testing::ElementsAre("[0:4, 0:5]", "[4:7, 0:5]"));
  EXPECT_THAT(shards({{{"x", 2}, {"y", 2}}, true, {"x", "y"}}), testing::ElementsAre("[0:7, 0:5]"));
  EXPECT_THAT(shards({{{"x", 2}}, false, {"unsharded", "unsharded"}}), testing::ElementsAre("[0:7, 0:5]"));
  EXPECT_EQ(saved(contents_of({{"w", placed(value, placements()[3])}})).find("w")->layout, "[x, y]");
  const Tensor nothing = at::empty({0, 5});
  EXPECT_EQ(saved(contents_of({{"w", placed(nothing, placements()[3])}})).find("w")->shards.size(), 1);
}

TEST_F(Checkpoints, SaveAndRestoreTheSumOfTermsNotYetTaken) {
  const Mesh mesh({{"x", 3}}, configure_logical_cpus(3), {.merge = false});
  const MeshShape* shape = MeshShape::of(mesh);
  const auto terms = [&] {
    return make_mesh_tensor(intern(shape, unsharded(1), 1, {2}), {at::ones({2}), at::ones({2}) * 2, at::ones({2}) * 4});
  };
  const Reader reader = saved(contents_of({{"sum", terms()}}));
  EXPECT_TRUE(at::equal(reader.read("sum"), at::ones({2}) * 7));
  const Tensor restored = terms();
  reader.read("sum", restored);
  EXPECT_TRUE(at::equal(gather(restored), at::ones({2}) * 7));
}

TEST_F(Checkpoints, AreReadToPlainTensorsInsideAScope) {
  const Mesh mesh({{"x", 2}}, configure_logical_cpus(2));
  const Scope scope(mesh, std::make_shared<GradientGroup>(ReduceOp::sum));
  Contents contents;
  contents.tensors.push_back(named_tensor("w", at::ones({2})));
  const Reader reader = saved(contents);
  EXPECT_FALSE(is_mesh_tensor(reader.read("w")));
}

TEST_F(Checkpoints, TellAutogradThatATensorWasOverwritten) {
  const Reader reader = saved(contents_of({{"w", at::ones({2})}}));
  const Tensor w = at::zeros({2}), leaf = at::ones({2}).set_requires_grad(true);
  const Tensor product = leaf * w;
  reader.read("w", w);
  EXPECT_ANY_THROW(product.sum().backward());
}

// --- what is refused -------------------------------------------------------------------------------------------------

TEST_F(Checkpoints, RefuseContentsThatMakeNoCheckpoint) {
  const Tensor w = at::ones({4});
  const auto refused = [&](const Contents& contents) { return error_of([&] { write(files_, "/ckpt", contents); }); };
  EXPECT_THAT(refused(contents_of({{"w", w}, {"w", w}})), HasSubstr("invalid_argument: checkpoint: two tensors"));
  EXPECT_THAT(refused(contents_of({{"", w}})), HasSubstr("invalid_argument"));
  EXPECT_THAT(refused(contents_of({{"__metadata__", w}})), HasSubstr("invalid_argument"));
  EXPECT_THAT(refused(contents_of({{"\xff", w}})), HasSubstr("not UTF-8"));
  EXPECT_THAT(refused({.values = {{"v", std::string("\xff")}}}), HasSubstr("not UTF-8"));
  Contents half = contents_of({{"w", w}});
  half.tensors[0].pieces[0] = {{{0}, {2}}, at::ones({2})};
  EXPECT_THAT(refused(half), HasSubstr("the 1 pieces of 'w' do not make up its shape [4]"));
  half.tensors[0].pieces.push_back({{{1}, {3}}, at::ones({3})});
  EXPECT_THAT(refused(half), HasSubstr("the 2 pieces"));
  half.tensors[0].pieces[1] = {{{2}, {2}}, at::ones({3})};
  EXPECT_THAT(refused(half), HasSubstr("is a Float tensor of shape [3]"));
  EXPECT_THAT(error_of([&] { named_tensor("w", w.to_sparse()); }), HasSubstr("unimplemented"));
  EXPECT_TRUE(files_.list("/").empty());
}

TEST_F(Checkpoints, LeaveNamesInsideTheirFolder) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const char* name : {"../up", "/etc/passwd", "a/b/../../c", "..", ".", "index.json", "a\nb", "nul\\0", "\u00e9"})
    tensors.emplace_back(name, at::rand({2}));
  tensors.emplace_back(std::string("a\0b", 3), at::rand({2}));
  const Reader reader = saved(contents_of(tensors));
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(at::equal(reader.read(name), tensor)) << name;
  EXPECT_THAT(files_.list("/"), testing::ElementsAre(DirectoryEntry{"ckpt", true}));
  EXPECT_THAT(files_.list("/ckpt"),
              testing::ElementsAre(DirectoryEntry{"index.json"}, DirectoryEntry{"tensors-00000.safetensors"}));
}

TEST_F(Checkpoints, RefuseToStartWithoutRoomOnTheDisk) {
  files_.available = 1 << 20;
  EXPECT_THAT(error_of([&] {
                write(files_, "/ckpt", contents_of({{"w", at::ones({1 << 18})}}));
              }),
              HasSubstr("resource_exhausted"));
  EXPECT_TRUE(files_.list("/").empty());
}

TEST_F(Checkpoints, RefuseDestinationsThatDoNotFit) {
  const Reader reader = saved(contents_of({{"w", at::ones({4, 2})}}));
  EXPECT_EQ(code_of([&] { reader.read("v"); }), ErrorCode::not_found);
  EXPECT_EQ(code_of([&] { reader.read("w", at::empty({2, 4})); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { reader.read("w", at::empty({4, 2}, at::kDouble)); }), ErrorCode::invalid_argument);
  for (const Region& outside : {Region{{0}, {4}}, Region{{-1, 0}, {1, 2}}, Region{{3, 0}, {2, 2}},
                                Region{{0, std::numeric_limits<int64_t>::max()}, {1, 1}}})
    EXPECT_EQ(code_of([&] { reader.read("w", outside, at::empty({1})); }), ErrorCode::invalid_argument);
}

// --- damage ----------------------------------------------------------------------------------------------------------

std::string open_and_verify(FileSystem& files) {
  return error_of([&] { Reader(files, "/ckpt").verify(); });
}

// What a program does: it opens and reads all, and never verifies.
std::string open_and_read(FileSystem& files) {
  return error_of([&] {
    const Reader reader(files, "/ckpt");
    for (const IndexedTensor& tensor : reader.tensors()) reader.read(tensor.name);
  });
}

class Damage : public Checkpoints {
 protected:
  Damage() {
    const Tensor value = at::rand({3, 2});
    write(files_, "/ckpt", contents_of({{"w", placed(value, placements()[1])}, {"b", at::rand({3})}}));
    for (const DirectoryEntry& entry : files_.list("/ckpt")) names_.push_back(entry.name);
  }
  std::vector<std::string> names_;
};

TEST_F(Damage, IsFoundInEveryBitOfEveryByte) {
  ASSERT_EQ(open_and_verify(files_), "no error");
  ASSERT_EQ(open_and_read(files_), "no error");
  int64_t flips = 0;
  for (const std::string& name : names_) {
    std::string& bytes = files_.contents("/ckpt/" + name);
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (const int mask : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
        bytes[i] = static_cast<char>(bytes[i] ^ mask);
        const std::string error = open_and_read(files_);
        EXPECT_THAT(error, AllOf(HasSubstr("data_loss"), HasSubstr(name))) << name << " byte " << i << " ^ " << mask;
        bytes[i] = static_cast<char>(bytes[i] ^ mask);
        ++flips;
      }
    }
  }
  EXPECT_GT(flips, 10'000);
}

TEST_F(Damage, IsFoundInEveryTruncationAndExtension) {
  for (const std::string& name : names_) {
    std::string& bytes = files_.contents("/ckpt/" + name);
    const std::string whole = bytes;
    for (size_t length = 0; length < whole.size(); ++length) {
      bytes = whole.substr(0, length);
      EXPECT_THAT(open_and_read(files_), AllOf(HasSubstr("data_loss"), HasSubstr(name)))
          << name << " cut to " << length;
    }
    for (const char* more : {"\n", " ", "x"}) {
      bytes = whole + more;
      EXPECT_THAT(open_and_read(files_), HasSubstr("data_loss"));
    }
    bytes = whole;
    files_.rename("/ckpt/" + name, "/ckpt/gone");
    EXPECT_THAT(open_and_read(files_), AllOf(HasSubstr("data_loss"), HasSubstr(name), HasSubstr("missing")));
    files_.rename("/ckpt/gone", "/ckpt/" + name);
  }
}

TEST_F(Damage, IsNamedByFileTensorAndChecksums) {
  std::string& bytes = files_.contents("/ckpt/tensors-00000.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  const std::string error = open_and_verify(files_);
  EXPECT_THAT(error,
              testing::MatchesRegex(
                  "data_loss: checkpoint: '/ckpt/tensors-00000.safetensors', tensor 'b', shard .0:3.: the bytes from "
                  "[0-9]+ to [0-9]+ are damaged: stored CRC32C [0-9a-f]+, computed [0-9a-f]+"));
}

TEST_F(Damage, OfAFileWhoseHeaderSaysSomethingElseIsFoundByVerify) {
  write(files_, "/ckpt", contents_of({{"a", at::ones({2})}, {"b", at::zeros({2})}}));
  change_index("\"name\":\"a\"", "\"name\":\"c\"");
  EXPECT_THAT(open_and_verify(files_), HasSubstr("the header of '/ckpt/tensors-00000.safetensors' and the index"));
}

TEST_F(Damage, InAnIndexWithAGoodChecksumIsFoundToo) {
  write(files_, "/ckpt", contents_of({{"w", at::ones({2, 3})}}));
  const std::string good = files_.contents("/ckpt/index.json");
  const std::vector<std::pair<std::string, std::string>> changes{
      {"\"shape\":[2,3]", "\"shape\":[2,4]"},
      {"\"shape\":[2,3]", "\"shape\":[4611686018427387904,4611686018427387904]"},
      {"\"shape\":[2,3]", "\"shape\":[4611686018427387904,0,3]"},
      {"\"shape\":[2,3]", "\"shape\":[-2,-3]"},
      {"\"shape\":[2,3]", "\"shape\":[" + std::string(200, '1') + "]"},
      {"\"shape\":[2,3]",
       "\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
       "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2,3]"},
      {"\"dtype\":\"float32\"", "\"dtype\":\"float64\""},
      {"\"dtype\":\"float32\"", "\"dtype\":\"qint8\""},
      {"tensors-00000.safetensors", "../../etc/passwd"},
      {"tensors-00000.safetensors", "tensors-00001.safetensors"},
      {"\"file\":0", "\"file\":1"},
      {"\"file\":0", "\"file\":-1"},
      {"\"offset\":128", "\"offset\":120"},
      {"\"offset\":128", "\"offset\":9223372036854775807"},
      {"\"bytes\":24", "\"bytes\":9223372036854775807"},
      {"\"bytes\":152", "\"bytes\":9223372036854775807"},
      {"\"header_bytes\":128", "\"header_bytes\":1000000000000"},
      {"\"crc32c\":[", "\"crc32c\":[\"00000000\","},
      {"\"crc32c\":[\"", "\"crc32c\":[\"g"},
      {"\"chunk_bytes\":1048576", "\"chunk_bytes\":0"},
      {"\"version\":1", "\"version\":0"},
      {"\"version\":1,", ""},
      {"\"format\":\"tutti checkpoint\",", ""},
      {"\"tensors\":[", "\"tensors\":[[[[[[[["},
      {"\"shards\":[", "\"shards\":[],\"shards\":["},
      {"\"shards\":[{", "\"shards\":[{\"first\":[0,0],"},
      {"\"name\":\"w\"", "\"nome\":\"w\""},
  };
  for (const auto& [from, to] : changes) {
    files_.contents("/ckpt/index.json") = good;
    change_index(from, to);
    EXPECT_THAT(error_of_opening(), AllOf(HasSubstr("data_loss"), HasSubstr("index.json"))) << from << " -> " << to;
  }
}

TEST_F(Damage, IsNotWhatALaterFormatIs) {
  change_index("\"version\":1", "\"version\":2");
  EXPECT_THAT(error_of_opening(),
              AllOf(HasSubstr("unimplemented"), HasSubstr("'/ckpt/index.json'"),
                    HasSubstr("written in version 2 of the format; this library reads versions up to 1")));
}

}  // namespace
}  // namespace tutti::checkpoint
