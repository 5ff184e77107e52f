#include "tutti/data/graph/file_records.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tutti/core/str.h"

namespace tutti::data::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file "name:3" has the records name0, name1, name2.
class Numbered : public RecordReader {
 public:
  explicit Numbered(const std::filesystem::path& file) : name_(file.string().substr(0, file.string().find(':'))) {
    count_ = std::stoll(file.string().substr(name_.size() + 1));
  }

  bool next(Element& record) override {
    if (next_ == count_) return false;
    record = Element({Strings(str(name_, next_++))});
    return true;
  }

 private:
  std::string name_;
  int64_t count_ = 0;
  int64_t next_ = 0;
};

NodePtr reader(std::vector<std::filesystem::path> files) {
  return read_files(std::move(files), "numbered", [](const auto& file) { return std::make_unique<Numbered>(file); });
}

std::vector<std::string> rest(Iterator& iterator) {
  std::vector<std::string> records;
  for (Element record; iterator.next(record);) records.push_back(std::get<Strings>(record.leaves()[0]).item());
  return records;
}

TEST(FileRecords, ComeFileByFile) {
  EXPECT_THAT(rest(*reader({"a:2", "b:0", "c:1"})->iterate({})), ElementsAre("a0", "a1", "c0"));
  const NodePtr none = reader({});
  EXPECT_TRUE(rest(*none->iterate({})).empty());
  EXPECT_EQ(none->cardinality, 0);
}

TEST(FileRecords, AShardHasEveryNthFile) {
  const NodePtr all = reader({"a:1", "b:2", "c:1", "d:1", "e:1"});
  EXPECT_THAT(rest(*all->shard_files(2, 1)->iterate({})), ElementsAre("b0", "b1", "d0"));
  EXPECT_THAT(rest(*all->shard_files(2, 0)->shard_files(2, 1)->iterate({})), ElementsAre("c0"));
}

// Everything that an iterator gives after each of its records must be what one restored there gives.
TEST(FileRecords, AreResumedWhereAnIteratorWasSaved) {
  const NodePtr node = reader({"a:2", "b:0", "c:2"});
  const size_t count = rest(*node->iterate({})).size();
  for (size_t read = 0; read <= count; ++read) {
    const auto saved = node->iterate({});
    Element record;
    for (size_t i = 0; i < read; ++i) ASSERT_TRUE(saved->next(record));
    StateWriter writer({});
    saved->save(writer);
    StateReader state(writer.finish(), {});
    const auto restored = node->iterate({});
    restored->restore(state);
    state.finish();
    EXPECT_EQ(rest(*restored), rest(*saved)) << "after " << read;
  }
}

TEST(FileRecords, RefuseAStateOfOtherFiles) {
  const auto restore = [](int64_t file, int64_t records) {
    const auto iterator = reader({"a:2", "b:1"})->iterate({});
    StateWriter text = StateWriter::of_ops(), writer({});
    iterator->save(text);
    writer.op(text.ops().front());
    writer.number(file);
    writer.number(records);
    StateReader state(writer.finish(), {});
    iterator->restore(state);
  };
  EXPECT_THAT(error_of([&] { restore(3, 0); }), HasSubstr("data_loss"));
  EXPECT_THAT(error_of([&] { restore(-1, 0); }), HasSubstr("data_loss"));
  EXPECT_THAT(error_of([&] { restore(2, 1); }), HasSubstr("data_loss"));
  EXPECT_THAT(error_of([&] { restore(1, 2); }), HasSubstr("2 records of a file had been read, which has now 1"));
}

}  // namespace
}  // namespace tutti::data::graph
