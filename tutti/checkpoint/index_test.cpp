#include "tutti/checkpoint/index.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tutti/checkpoint/sealed_json.h"
#include "tutti/core/str.h"

namespace tutti::checkpoint {
namespace {

using testing::HasSubstr;

// Tensors of 4 floats, in two shards; so many that two threads read them.
Index index_of_many(const std::string& name, size_t count = 3000) {
  constexpr uint64_t kHeader = 64, kShard = 8;
  Index index{.step = 5, .values = {{"epoch", int64_t{3}}}};
  for (size_t file : {0, 1})
    index.files.push_back({.name = file_name(file), .bytes = kHeader + count * kShard, .header_bytes = kHeader});
  for (size_t i = 0; i < count; ++i) {
    IndexedTensor& tensor = index.tensors.emplace_back();
    tensor.name = str(name, i);
    tensor.dtype = at::kFloat;
    tensor.sizes = {4};
    for (size_t file : {0, 1})
      tensor.shards.push_back({.file = file,
                               .offset = kHeader + i * kShard,
                               .bytes = kShard,
                               .region = {{2 * static_cast<int64_t>(file)}, {2}},
                               .crc32c = {static_cast<uint32_t>(i)}});
  }
  return index;
}

Index parsed(const std::string& text) { return parse_index(text, "it"); }

// `what` in the text of the index, changed.
std::string changed(const Index& index, const std::string& what, const std::string& to) {
  std::string text = unseal(index_text(index), "it");
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos);
  return seal(text.replace(at, what.size(), to));
}

TEST(Index, OfManyTensorsIsReadAsItWasWritten) {
  for (const std::string name : {"layer/", "},{\"name\":", "},{\\\"name\\\":\""}) {
    const Index index = index_of_many(name);
    ASSERT_GT(index_text(index).size(), size_t{256} << 10);
    const Index read = parsed(index_text(index));
    EXPECT_EQ(read.tensors, index.tensors);
    EXPECT_EQ(read.files, index.files);
    EXPECT_EQ(read.values, index.values);
    EXPECT_EQ(read.step, 5);
  }
}

TEST(Index, IsReadInWhateverOrderItsMembersAre) {
  const Index index = index_of_many("layer/");
  const std::string text = unseal(index_text(index), "it");
  const size_t files = text.find(",\"files\":"), tensors = text.find(",\"tensors\":");
  const std::string many_files = text.substr(files, tensors - files),
                    last = text.substr(tensors, text.size() - 1 - tensors);
  EXPECT_EQ(parsed(seal(text.substr(0, files) + last + many_files + "}")).tensors, index.tensors);
  // What follows the array is longer than it.
  std::string values = ",\"values\":{";
  for (int i = 0; i < 60'000; ++i) values += str(i == 0 ? "" : ",", "\"},{\\\"name\\\":", i, "\":{\"int64\":1}");
  const std::string start = text.substr(0, text.find(",\"values\":"));
  const Index read = parsed(seal(start + last + many_files + values + "}}"));
  EXPECT_EQ(read.tensors, index.tensors);
  EXPECT_EQ(read.values.size(), 60'000);
}

TEST(Index, NamesTheFaultInEitherHalf) {
  const Index index = index_of_many("layer/");
  for (const std::string number : {"7", "2993"}) {
    const std::string name = str("\"name\":\"layer/", number, "\",");
    EXPECT_THAT(
        error_of([&] { parsed(changed(index, name + "\"dtype\":\"float32\"", name + "\"dtype\":\"float23\"")); }),
        HasSubstr("unknown dtype \"float23\""));
    EXPECT_THAT(error_of([&] { parsed(changed(index, name, name + "\"color\":1,")); }),
                HasSubstr("unknown key \"color\" of a tensor"));
    EXPECT_THAT(error_of([&] { parsed(changed(index, name, "\"name\":\"layer/8\",")); }),
                HasSubstr("tensor \"layer/8\" comes twice"));
    EXPECT_THAT(error_of([&] {
                  parsed(changed(index, name + "\"dtype\":\"float32\",\"shape\":[4]",
                                 name + "\"dtype\":\"float32\",\"shape\":[5]"));
                }),
                HasSubstr(str("tensor \"layer/", number, "\" do not make up its shape [5]")));
  }
}

TEST(TensorNames, FindEachName) {
  Index index;
  const std::vector<std::string> names{
      "layer/10",        "layer/1",       "layer/",         "layer/1/weight",
      "layer/1/weights", "layer/2",       "layer/\xc3\xa9", std::string("layer/1\0", 8),
      "layer/12345678",  "layer/12345679"};
  for (const std::string& name : names) index.tensors.emplace_back().name = name;
  const TensorNames found(index.tensors);
  EXPECT_EQ(found.twice(), nullptr);
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(found.find(names[i]), &index.tensors[i]) << names[i];
  for (const std::string none :
       {"", "l", "layer", "layer/3", "layer/1/", "layer/1234567", "layer/123456789", "zebra/1", "a"})
    EXPECT_EQ(found.find(none), nullptr) << none;
  for (const std::string beginning : {"", "lay", "layer/1/", "layer/1/weights"})
    EXPECT_TRUE(found.has_one_that_starts_with(beginning)) << beginning;
  for (const std::string beginning : {"a", "layer/2/", "layer/1/weightsy", "zebra"})
    EXPECT_FALSE(found.has_one_that_starts_with(beginning)) << beginning;
  EXPECT_EQ(TensorNames(std::vector<IndexedTensor>()).find(""), nullptr);
  EXPECT_FALSE(TensorNames(std::vector<IndexedTensor>()).has_one_that_starts_with(""));
}

TEST(TensorNames, TellOfANameThatComesTwice) {
  Index index;
  for (const std::string name : {"a/longer than a key/1", "a/longer than a key/2", "a/b", "a/longer than a key/1"})
    index.tensors.emplace_back().name = name;
  const TensorNames names(index.tensors);
  ASSERT_NE(names.twice(), nullptr);
  EXPECT_EQ(*names.twice(), "a/longer than a key/1");
}

}  // namespace
}  // namespace tutti::checkpoint
