#include "tutti/data/imdb.h"

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "tests/support/dataset_values.h"
#include "tests/support/real_data.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::map<std::string, std::string> kFiles{
    {"train/neg/0_2.txt", "dull"},  {"train/neg/1_1.txt", "bad"}, {"train/pos/0_9.txt", "gut, na ja: schön"},
    {"test/neg/0_3.txt", "slow"},   {"test/pos/0_8.txt", "fine"}, {"test/pos/10_8.txt", "great"},
    {"train/unsup/0_0.txt", "???"}, {"README", "not a review"},   {"train/pos/notes.feat", "not a review"},
};

class ImdbFiles : public testing::Test {
 protected:
  ImdbFiles() { std::filesystem::create_directories(folder_); }
  ~ImdbFiles() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write_folder() const {
    for (const auto& [name, text] : kFiles) {
      const auto path = folder_ / "aclImdb" / name;
      std::filesystem::create_directories(path.parent_path());
      std::ofstream(path, std::ios::binary) << text;
    }
    return folder_ / "aclImdb";
  }

  std::filesystem::path write_archive() const {
    const auto path = folder_ / "aclImdb.tar.gz";
    archive* out = archive_write_new();
    archive_write_add_filter_gzip(out);
    archive_write_set_format_pax_restricted(out);
    archive_write_open_filename(out, path.c_str());
    for (const auto& [name, text] : kFiles) {
      archive_entry* entry = archive_entry_new();
      archive_entry_set_pathname(entry, ("aclImdb/" + name).c_str());
      archive_entry_set_size(entry, static_cast<int64_t>(text.size()));
      archive_entry_set_filetype(entry, AE_IFREG);
      archive_entry_set_perm(entry, 0644);
      archive_write_header(out, entry);
      archive_write_data(out, text.data(), text.size());
      archive_entry_free(entry);
    }
    archive_write_free(out);
    return path;
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("imdb_test_" + std::to_string(::getpid()));
};

void expect_reviews(const Imdb& imdb) {
  const auto all = [](const auto& dataset) { return *dataset.batch(10).begin(); };
  const auto [texts, labels] = all(imdb.train);
  EXPECT_THAT(texts.values(), ::testing::ElementsAre("dull", "bad", "gut, na ja: schön"));
  EXPECT_EQ(numbers(labels), (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(labels.scalar_type(), at::kLong);
  EXPECT_THAT(std::get<0>(all(imdb.test)).values(), ::testing::ElementsAre("slow", "fine", "great"));
}

TEST_F(ImdbFiles, AreReadFromTheFolder) {
  expect_reviews(load_imdb(write_folder()));
  expect_reviews(load_imdb(folder_));
}

TEST_F(ImdbFiles, AreReadFromAnArchive) { expect_reviews(load_imdb(write_archive())); }

TEST_F(ImdbFiles, AreRefusedWhereTheyAreMissingOrDamaged) {
  EXPECT_THAT(error_of([&] { load_imdb(folder_ / "nowhere"); }), StartsWith("not_found: load_imdb: '"));
  EXPECT_THAT(error_of([&] { load_imdb(folder_); }), HasSubstr("neither the folder aclImdb nor an archive"));
  std::filesystem::remove_all(write_folder() / "test/pos");
  EXPECT_THAT(error_of([&] { load_imdb(folder_); }), HasSubstr("no reviews in test/pos"));
  const auto archive = write_archive();
  std::filesystem::resize_file(archive, std::filesystem::file_size(archive) / 2);
  EXPECT_THAT(error_of([&] { load_imdb(archive); }), StartsWith("data_loss: read_archive"));
  std::ofstream(folder_ / "text") << "hello";
  EXPECT_THAT(error_of([&] { load_imdb(folder_ / "text"); }), StartsWith("data_loss"));
}

TEST(ImdbOnRealData, HasFiftyThousandReviews) {
  const auto source = imdb_source();
  if (!source) GTEST_SKIP() << "needs the IMDB reviews: TUTTI_DATA_DIR names no folder that has imdb/";
  const Imdb imdb = load_imdb(*source);
  for (const auto& part : {imdb.train, imdb.test}) {
    EXPECT_EQ(part.cardinality(), 25000);
    const auto [texts, labels] = *part.batch(25000).begin();
    EXPECT_EQ(labels.sum().item<int64_t>(), 12500);
    EXPECT_EQ(labels[12499].item<int64_t>(), 0);
  }
}

}  // namespace
}  // namespace tutti::data
