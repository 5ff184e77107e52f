#include "tutti/data/fixed_length_record_dataset.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/data/compressed_file_writer.h"

namespace tutti::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> fixed_records_of(const Dataset<Strings>& dataset) {
  std::vector<std::string> all;
  for (const Strings& record : dataset) all.push_back(record.item());
  return all;
}

class FixedLengthRecords : public testing::Test {
 protected:
  std::filesystem::path pack(const std::string& bytes, Compression compression) const {
    CompressedFileWriter file(folder_ / "packed", compression);
    file.write(bytes.data(), bytes.size());
    file.close();
    return folder_ / "packed";
  }

  TemporaryFolder folder_;
};

TEST_F(FixedLengthRecords, LieBetweenHeaderAndFooter) {
  const auto a = folder_.write("a", "HHaabbccFFF"), none = folder_.write("none", "HHFFF");
  EXPECT_THAT(fixed_records_of(fixed_length_record_dataset({a, none, a}, 2, {.header_bytes = 2, .footer_bytes = 3})),
              ElementsAre("aa", "bb", "cc", "aa", "bb", "cc"));
  EXPECT_THAT(fixed_records_of(fixed_length_record_dataset({a}, 11)), ElementsAre("HHaabbccFFF"));
}

TEST_F(FixedLengthRecords, AreReadFromCompressedFiles) {
  for (const auto compression : {Compression::gzip, Compression::zlib})
    EXPECT_THAT(
        fixed_records_of(fixed_length_record_dataset(
            {pack("Habc123F", compression)}, 3, {.header_bytes = 1, .footer_bytes = 1, .compression = compression})),
        ElementsAre("abc", "123"));
}

TEST_F(FixedLengthRecords, ThatAreNotWholeAreDamaged) {
  const auto error = [&](const std::string& bytes, const FixedLengthRecordOptions& options) {
    return error_of([&] { fixed_records_of(fixed_length_record_dataset({folder_.write("x", bytes)}, 3, options)); });
  };
  EXPECT_THAT(error("abcd", {}), HasSubstr("its 4 bytes are not a header of 0, records of 3 and a footer of 0"));
  EXPECT_THAT(error("abc", {.header_bytes = 2, .footer_bytes = 2}), HasSubstr("data_loss"));
  EXPECT_THAT(error("abc", {.header_bytes = 4}), HasSubstr("data_loss"));
  const auto packed = pack("abcd", Compression::gzip);
  EXPECT_THAT(
      error_of([&] { fixed_records_of(fixed_length_record_dataset({packed}, 3, {.compression = Compression::gzip})); }),
      HasSubstr("its last record has 1 of 3 bytes"));
}

TEST_F(FixedLengthRecords, ResumeWhereTheirIteratorWasSaved) {
  for (const auto compression : {Compression::none, Compression::zlib}) {
    const graph::NodePtr node =
        fixed_length_record_dataset({pack("Habc123FF", compression)}, 3,
                                    {.header_bytes = 1, .footer_bytes = 2, .compression = compression})
            .node();
    const auto saved = node->iterate({});
    graph::Element record;
    ASSERT_TRUE(saved->next(record));
    graph::StateWriter writer({});
    saved->save(writer);
    graph::StateReader state(writer.finish(), {});
    const auto restored = node->iterate({});
    restored->restore(state);
    ASSERT_TRUE(restored->next(record));
    EXPECT_EQ(std::get<Strings>(record.leaves()[0]).item(), "123");
    EXPECT_FALSE(restored->next(record));
  }
}

TEST_F(FixedLengthRecords, ResumeBeforeALongFooter) {
  const std::string footer = "a footer";
  for (const auto compression : {Compression::none, Compression::gzip, Compression::zlib}) {
    const auto path = pack("Habc123xyz" + footer, compression);
    const auto dataset = fixed_length_record_dataset(
        {path}, 3,
        {.header_bytes = 1, .footer_bytes = static_cast<int64_t>(footer.size()), .compression = compression});
    for (const std::string last : {"abc", "123", "xyz"}) {
      auto saved = dataset.begin();
      while (saved->item() != last) ++saved;
      auto restored = dataset.begin();
      restored.restore_state(saved.save_state());
      for (; saved != std::default_sentinel; ++saved, ++restored) EXPECT_EQ(restored->item(), saved->item());
      EXPECT_EQ(restored, std::default_sentinel);
    }
  }
}

TEST(FixedLengthRecordDataset, RefusesRecordsOfNoBytes) {
  EXPECT_EQ(code_of([] { fixed_length_record_dataset({}, 0); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { fixed_length_record_dataset({}, 1, {.header_bytes = -1}); }), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tutti::data
