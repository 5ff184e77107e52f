#include "tutti/data/text_line_dataset.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/error_of.h"

namespace tutti::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TextLines : public testing::Test {
 protected:
  TextLines() { std::filesystem::create_directories(folder_); }
  ~TextLines() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("text_lines_test_" + std::to_string(::getpid()));
};

std::vector<std::string> lines(const Dataset<Strings>& dataset) {
  std::vector<std::string> all;
  for (const Strings& line : dataset) all.push_back(line.item());
  return all;
}

TEST_F(TextLines, AreReadFileByFileWithoutTheirEnds) {
  const auto dataset = text_line_dataset({write("a", "one\ntwo\r\n\nfour"), write("b", ""), write("c", "\n")});
  EXPECT_THAT(lines(dataset), ElementsAre("one", "two", "", "four", ""));
  EXPECT_THAT(lines(dataset), ElementsAre("one", "two", "", "four", ""));
}

TEST_F(TextLines, KeepACarriageReturnInsideALine) {
  EXPECT_THAT(lines(text_line_dataset({write("a", "x\ry\r\r\n")})), ElementsAre("x\ry\r"));
}

TEST_F(TextLines, MayBeLongerThanABlock) {
  const std::string first(200'000, 'x'), second(65'536, 'y');
  EXPECT_THAT(lines(text_line_dataset({write("a", first + '\n' + second + '\n')})), ElementsAre(first, second));
}

TEST_F(TextLines, OfFilesThatAreMissingAreRefusedWhereTheyAreReached) {
  const auto dataset = text_line_dataset({write("a", "one\n"), folder_ / "absent"});
  EXPECT_EQ(dataset.begin()->item(), "one");
  EXPECT_THAT(error_of([&] { lines(dataset); }), HasSubstr("not_found"));
}

}  // namespace
}  // namespace tutti::data
