#include "tutti/checkpoint/checkpoint_list.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tutti/checkpoint/folder.h"
#include "tutti/checkpoint/sealed_json.h"

namespace tutti::checkpoint {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int64_t> numbers(const CheckpointList& list) {
  std::vector<int64_t> numbers;
  for (const ListedCheckpoint& checkpoint : list.checkpoints) numbers.push_back(checkpoint.number);
  return numbers;
}

CheckpointList list_of(const std::vector<int64_t>& numbers) {
  CheckpointList list;
  for (const int64_t number : numbers) list.add({.number = number, .saved_at = 100 * number});
  return list;
}

TEST(CheckpointList, ReadsBackWhatItWrote) {
  CheckpointList list = list_of({0, 7, 3});
  list.checkpoints[1].kept = true;
  EXPECT_EQ(parse_list(list_text(list), "it"), list);
  EXPECT_EQ(parse_list(list_text({}), "it"), CheckpointList{});
}

TEST(CheckpointList, RefusesWhatItDidNotWrite) {
  const auto code = [](const std::string& object) { return code_of([&] { parse_list(seal(object), "it"); }); };
  const std::string head = R"({"format":"tutti checkpoint list","version":)";
  EXPECT_EQ(code(head + R"(1,"checkpoints":[{"number":-1}]})"), ErrorCode::data_loss);
  EXPECT_EQ(code(head + R"(1,"checkpoint":[]})"), ErrorCode::data_loss);
  EXPECT_EQ(code(head + "2}"), ErrorCode::unimplemented);
  EXPECT_EQ(code(R"({"version":1})"), ErrorCode::data_loss) << "a version of nothing";
  EXPECT_EQ(code(R"({"checkpoints":[]})"), ErrorCode::data_loss) << "no version";
  EXPECT_EQ(code_of([] { parse_list("{}", "it"); }), ErrorCode::data_loss) << "no seal";
}

TEST(CheckpointList, CountsFromOneBehindTheLargestNumber) {
  EXPECT_EQ(CheckpointList{}.next_number(), 1);
  EXPECT_EQ(list_of({9, 2}).next_number(), 10);
}

TEST(CheckpointList, MakesACheckpointThatIsSavedAgainTheLatest) {
  CheckpointList list = list_of({1, 2, 3});
  list.add({.number = 2});
  EXPECT_THAT(numbers(list), ElementsAre(1, 3, 2));
}

TEST(CheckpointList, TakesInWhatWasFoundAndDropsWhatIsGone) {
  CheckpointList list = list_of({8, 5});
  list.reconcile(std::vector<int64_t>{9, 5, 1, 4}, 77, false);
  EXPECT_THAT(numbers(list), ElementsAre(1, 4, 5, 9)) << "below the latest: oldest; above: newest";
  EXPECT_EQ(list.checkpoints[3], (ListedCheckpoint{.number = 9, .saved_at = 77}));
  list.reconcile({}, 78, false);
  EXPECT_THAT(numbers(list), IsEmpty());
  list.reconcile(std::vector<int64_t>{2}, 79, true);
  EXPECT_TRUE(list.checkpoints[0].kept) << "what the list said of it is lost";
}

TEST(CheckpointList, ExpiresTheOldestAndKeepsTheLatest) {
  EXPECT_THAT(list_of({1, 2, 3}).expire({}), IsEmpty());
  EXPECT_THAT(list_of({1, 2, 3}).expire({.max_to_keep = 3}), IsEmpty());
  EXPECT_THAT(list_of({5, 4, 3}).expire({.max_to_keep = 1}), ElementsAre(5, 4));
  CheckpointList list = list_of({1, 2, 3, 4, 5});
  EXPECT_THAT(list.expire({.max_to_keep = 2, .keep_multiples_of = 2}), ElementsAre(1, 3));
  EXPECT_TRUE(list.checkpoints[1].kept);
  EXPECT_EQ(numbers(list).size(), 5) << "they stay listed as long as they exist";
}

TEST(CheckpointList, KeepsOneOfEachPeriod) {
  CheckpointList list = list_of({1, 2, 3, 4, 5});  // 100 s apart
  EXPECT_THAT(list.expire({.max_to_keep = 1, .keep_every = std::chrono::seconds(200)}), ElementsAre(1, 2, 4));
  EXPECT_EQ(list.last_preserved_at, 300);
}

}  // namespace
}  // namespace tutti::checkpoint
