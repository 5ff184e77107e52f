#include "tutti/data/match_files.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace tutti::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MatchFiles : public testing::Test {
 protected:
  MatchFiles() {
    for (const std::string name : {"b.csv", "a.csv", "B.csv", "c.txt", "inner/d.csv", "folder.csv/e.txt"})
      folder_.write(name, "x");
  }
  std::string pattern(const std::string& name) const { return (folder_ / name).string(); }
  static std::vector<std::string> names(const Dataset<Strings>& files) {
    std::vector<std::string> names;
    for (const Strings& file : files) names.push_back(std::filesystem::path(file.item()).filename().string());
    return names;
  }

  const TemporaryFolder folder_;
};

TEST_F(MatchFiles, GivesFilesSortedByTheirBytes) {
  EXPECT_THAT(match_files(pattern("*.csv")), ElementsAre(folder_ / "B.csv", folder_ / "a.csv", folder_ / "b.csv"));
  EXPECT_THAT(match_files(pattern("?.csv")).size(), 3U);
  EXPECT_THAT(match_files(pattern("*/*")), ElementsAre(folder_ / "folder.csv/e.txt", folder_ / "inner/d.csv"));
  EXPECT_THAT(match_files(std::vector{pattern("[bc].*"), pattern("a.csv")}),
              ElementsAre(folder_ / "b.csv", folder_ / "c.txt", folder_ / "a.csv"));
}

TEST_F(MatchFiles, RefusesAPatternWithoutFiles) {
  EXPECT_THAT(error_of([&] { match_files(pattern("*.zip")); }), StartsWith("not_found: match_files: no file matches"));
  EXPECT_THAT(error_of([&] { match_files(pattern("inner")); }), StartsWith("not_found"));
  EXPECT_THAT(error_of([&] { match_files(""); }), StartsWith("invalid_argument"));
  EXPECT_THAT(error_of([&] { list_files(pattern("*.zip")); }), StartsWith("not_found"));
  EXPECT_THAT(error_of([&] { list_files(pattern("*.csv"), {.seed = 1}); }), HasSubstr("without shuffle"));
}

TEST_F(MatchFiles, ListsThemInOrderOrShuffled) {
  EXPECT_THAT(names(list_files(pattern("*.csv"))), ElementsAre("B.csv", "a.csv", "b.csv"));
  for (int i = 0; i < 20; ++i) folder_.write(str("many", i), "x");
  const auto shuffled = list_files(pattern("many*"), {.shuffle = true, .seed = 5});
  EXPECT_EQ(shuffled.cardinality(), 20);
  const auto first = names(shuffled), second = names(shuffled);
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()), std::set<std::string>(second.begin(), second.end()));
  EXPECT_EQ(names(list_files(pattern("many*"), {.shuffle = true, .seed = 5})), first);
}

}  // namespace
}  // namespace tutti::data
