#include "tutti/data/tfrecord.h"

#include <gmock/gmock.h>

#include <cstring>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/core/crc32c.h"

namespace tutti::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr TFRecordOptions kAll[] = {{}, {.compression = Compression::gzip}, {.compression = Compression::zlib}};

std::vector<std::string> records_of(const Dataset<Strings>& dataset) {
  std::vector<std::string> all;
  for (const Strings& record : dataset) all.push_back(record.item());
  return all;
}

void write_records(const std::filesystem::path& path, const std::vector<std::string>& records,
                   const TFRecordOptions& options = {}) {
  TFRecordWriter writer(path, options);
  for (const std::string& record : records) writer.write(record);
  writer.close();
}

class TFRecords : public testing::Test {
 protected:
  std::string error_of_reading(const std::string& bytes) const {
    return error_of([&] { records_of(tfrecord_dataset({folder_.write("x", bytes)})); });
  }

  TemporaryFolder folder_;
};

TEST_F(TFRecords, AreReadAsTheyWereWrittenFileByFile) {
  const std::vector<std::string> first{"hello", "", std::string(1'000'000, 'x'), std::string(70'000, '\0'), "end"};
  for (const TFRecordOptions& options : kAll) {
    write_records(folder_ / "a", first, options);
    write_records(folder_ / "b", {}, options);
    write_records(folder_ / "c", {"more"}, options);
    const auto dataset = tfrecord_dataset({folder_ / "a", folder_ / "b", folder_ / "c"}, options);
    auto expected = first;
    expected.push_back("more");
    EXPECT_THAT(records_of(dataset), ElementsAreArray(expected));
    EXPECT_THAT(records_of(dataset), ElementsAreArray(expected));
  }
}

TEST_F(TFRecords, AreSeenOnceTheyAreFlushed) {
  for (const TFRecordOptions& options : kAll) {
    TFRecordWriter writer(folder_ / "x", options);
    writer.write("one");
    writer.flush();
    EXPECT_EQ(tfrecord_dataset({folder_ / "x"}, options).begin()->item(), "one");
    writer.write("two");
    writer.close();
    EXPECT_THAT(records_of(tfrecord_dataset({folder_ / "x"}, options)), ElementsAre("one", "two"));
  }
}

TEST_F(TFRecords, CutShortAtAnyByteAreDamagedUnlessNoneIsCut) {
  write_records(folder_ / "whole", {"hello", "", "world"});
  const std::string whole = folder_.read("whole");
  for (size_t size = 0; size <= whole.size(); ++size) {
    const auto error = error_of_reading(whole.substr(0, size));
    const bool between_records = size == 0 || size == 21 || size == 37 || size == whole.size();
    EXPECT_THAT(error, HasSubstr(between_records ? "no error" : "data_loss")) << "after " << size;
  }
}

TEST_F(TFRecords, CutShortInACompressedFileAreDamagedAtAnyByte) {
  for (const auto compression : {Compression::gzip, Compression::zlib}) {
    write_records(folder_ / "whole", {"hello", "", "world"}, {.compression = compression});
    const std::string whole = folder_.read("whole");
    for (size_t size = 0; size < whole.size(); ++size) {
      const auto path = folder_.write("x", whole.substr(0, size));
      EXPECT_EQ(code_of([&] { records_of(tfrecord_dataset({path}, {.compression = compression})); }),
                ErrorCode::data_loss)
          << "after " << size;
    }
  }
}

TEST_F(TFRecords, WithAnyFlippedBitAreDamaged) {
  write_records(folder_ / "whole", {"hello", "world"});
  const std::string whole = folder_.read("whole");
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    EXPECT_THAT(error_of_reading(bytes), HasSubstr("data_loss")) << "bit " << bit;
  }
}

TEST_F(TFRecords, SayWhichOneIsDamagedAndBothChecksums) {
  write_records(folder_ / "whole", {"hello", "world"});
  std::string bytes = folder_.read("whole");
  bytes[21 + 12] = 'W';
  EXPECT_THAT(error_of_reading(bytes),
              AllOf(HasSubstr("/x', record 1 at byte 21: the masked CRC-32C of its 5 bytes is 0x"),
                    HasSubstr(", the file says 0x")));
  EXPECT_THAT(error_of_reading(bytes.substr(0, 27)), HasSubstr("record 1 at byte 21: the file ends after 6 of the 12"));
}

TEST_F(TFRecords, OfAnImpossibleLengthTakeNoMemory) {
  const uint64_t length = uint64_t{1} << 62;
  const uint32_t checksum = mask_crc32c(crc32c(&length, sizeof length));
  std::string bytes(12, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  std::memcpy(bytes.data() + 8, &checksum, sizeof checksum);
  EXPECT_THAT(error_of_reading(bytes + "x"), HasSubstr("its length is 4611686018427387904, and no more than 1 bytes"));
}

TEST_F(TFRecords, ReadWithTheWrongCompressionAreAnErrorThatSaysSo) {
  write_records(folder_ / "x", {"hello"}, {.compression = Compression::gzip});
  EXPECT_THAT(error_of([&] { records_of(tfrecord_dataset({folder_ / "x"})); }),
              HasSubstr("it begins as gzip does: read it with {.compression = Compression::gzip}"));
  write_records(folder_ / "y", {"hello"});
  for (const auto compression : {Compression::gzip, Compression::zlib})
    EXPECT_THAT(error_of([&] { records_of(tfrecord_dataset({folder_ / "y"}, {.compression = compression})); }),
                HasSubstr("data_loss"));
}

TEST_F(TFRecords, OfJoinedGzipFilesAreReadAsOneFile) {
  const TFRecordOptions gzip{.compression = Compression::gzip};
  write_records(folder_ / "a", {"one"}, gzip);
  write_records(folder_ / "b", {"two"}, gzip);
  const std::string joined = folder_.read("a") + folder_.read("b");
  EXPECT_THAT(records_of(tfrecord_dataset({folder_.write("ab", joined)}, gzip)), ElementsAre("one", "two"));
  EXPECT_THAT(error_of([&] { records_of(tfrecord_dataset({folder_.write("ax", folder_.read("a") + "x")}, gzip)); }),
              HasSubstr("data_loss"));
}

// Tapes and object stores pad to whole blocks.
TEST_F(TFRecords, OfAGzipFileThatIsPaddedWithZerosAreReadToTheirEnd) {
  const TFRecordOptions gzip{.compression = Compression::gzip};
  write_records(folder_ / "a", {"one", "two"}, gzip);
  for (const size_t zeros : {1UL, 511UL, 1UL << 20})
    EXPECT_THAT(
        records_of(tfrecord_dataset({folder_.write("padded", folder_.read("a") + std::string(zeros, '\0'))}, gzip)),
        ElementsAre("one", "two"));
}

TEST_F(TFRecords, ResumeWhereTheirIteratorWasSaved) {
  for (const TFRecordOptions& options : kAll) {
    write_records(folder_ / "a", {"one", "two", "three"}, options);
    write_records(folder_ / "b", {"four"}, options);
    const graph::NodePtr node = tfrecord_dataset({folder_ / "a", folder_ / "b"}, options).node();
    for (int read = 0; read <= 4; ++read) {
      const auto rest = [](graph::Iterator& iterator) {
        std::vector<std::string> records;
        for (graph::Element record; iterator.next(record);)
          records.push_back(std::get<Strings>(record.leaves()[0]).item());
        return records;
      };
      const auto saved = node->iterate({});
      graph::Element record;
      for (int i = 0; i < read; ++i) ASSERT_TRUE(saved->next(record));
      graph::StateWriter writer({});
      saved->save(writer);
      graph::StateReader state(writer.finish(), {});
      const auto restored = node->iterate({});
      restored->restore(state);
      state.finish();
      const auto expected = rest(*saved);
      EXPECT_EQ(expected.size(), size_t(4 - read));
      EXPECT_EQ(rest(*restored), expected) << "after " << read;
    }
  }
}

TEST_F(TFRecords, CannotResumeBehindTheEndOfTheirFile) {
  write_records(folder_ / "a", {"one", "two"});
  const auto iterator = tfrecord_dataset({folder_ / "a"}).node()->iterate({});
  graph::StateWriter text = graph::StateWriter::of_ops(), writer({});
  iterator->save(text);
  writer.op(text.ops().front());
  for (const int64_t number : {0, 1, 1000}) writer.number(number);
  graph::StateReader state(writer.finish(), {});
  EXPECT_THAT(error_of([&] { iterator->restore(state); }), AllOf(HasSubstr("data_loss"), HasSubstr("byte 1000")));
}

TEST(TFRecordWriter, ReportsAFullDiskWhenItCloses) {
  for (const TFRecordOptions& options : kAll) {
    TFRecordWriter writer("/dev/full", options);
    writer.write("lost");
    EXPECT_THAT(error_of([&] { writer.close(); }), AllOf(HasSubstr("unavailable"), HasSubstr("'/dev/full'")));
    EXPECT_EQ(code_of([&] { writer.write("more"); }), ErrorCode::failed_precondition);
    EXPECT_EQ(code_of([&] { writer.close(); }), ErrorCode::failed_precondition);
  }
}

TEST(TFRecordWriter, RefusesAFolderThatIsNotThereAndALevelThatIsNone) {
  EXPECT_EQ(code_of([] { TFRecordWriter("/no/such/folder/x"); }), ErrorCode::not_found);
  EXPECT_EQ(code_of([] { TFRecordWriter("/dev/null", {.compression_level = 10}); }), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tutti::data
