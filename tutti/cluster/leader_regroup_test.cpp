#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/cluster/leader.h"
#include "tutti/cluster/regrouping.h"
#include "tutti/core/str.h"

namespace tutti::cluster {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = ControlMessage::Kind;

// Three workers that go on as two, on a clock of the test's own. Answers are texts; a group is
// "0: group 1 of worker 0 (a), worker 2 (b)".
class ElasticRun {
 public:
  ElasticRun() : leader_({{"worker", 0}, {"worker", 1}, {"worker", 2}}, {.min_members = 2}, now_) {
    for (int i = 0; i < 3; ++i) hello(i);
  }

  std::vector<std::string> hello(int member) {
    return send(member, {.kind = Kind::hello, .name = str("worker ", member), .number = kControlVersion});
  }
  std::vector<std::string> regroup(int member, const std::string& brought, int fewest = 1) {
    return send(member, {.kind = Kind::regroup, .name = fewest_text(fewest), .value = brought, .number = 1000});
  }
  std::vector<std::string> barrier(int member) {
    return send(member, {.kind = Kind::barrier, .name = "epoch", .number = 1000});
  }
  std::vector<std::string> goodbye(int member) { return send(member, {.kind = Kind::goodbye}); }
  std::vector<std::string> send(int member, const ControlMessage& message) {
    return texts(leader_.receive(member, message, now_));
  }
  std::vector<std::string> lose(int member) { return texts(leader_.lose(member, "is gone")); }
  std::vector<std::string> finish(int member) { return texts(leader_.finish(member)); }
  bool is_given_up(int member) const { return leader_.is_given_up(member); }
  void expect(int member) { leader_.expect(member, now_); }
  bool takes_part(int member) const { return leader_.takes_part(member); }
  std::vector<std::string> after(std::chrono::milliseconds time) { return texts(leader_.tick(now_ += time)); }

 private:
  static std::string text_of(const ControlMessage& message) {
    if (message.kind == Kind::joiner) return str("somebody waits to join group ", message.number);
    if (message.kind == Kind::error) return str(to_string(static_cast<ErrorCode>(message.number)), ' ', message.name);
    if (message.value.empty() || message.value == kNewcomer) return message.value.empty() ? "done" : kNewcomer;
    const Regrouping group = decode_regrouping(message.value);
    std::string text = str("group ", group.number, " of");
    for (size_t i = 0; i < group.members.size(); ++i)
      text += str(i == 0 ? " " : ", ", to_string(group.members[i]), " (", group.brought[i], ')');
    return text;
  }
  static std::vector<std::string> texts(const Leader::Answers& answers) {
    std::vector<std::string> texts;
    for (const auto& [member, message] : answers) texts.push_back(str(member, ": ", text_of(message)));
    return texts;
  }

  Leader::Clock::time_point now_{};
  Leader leader_;
};

TEST(LeaderOfElasticRuns, FormsAGroupOfThoseThatAreLeft) {
  ElasticRun run;
  EXPECT_THAT(run.barrier(0), IsEmpty());
  EXPECT_THAT(run.lose(1), ElementsAre("0: unavailable worker 1 is gone"));
  EXPECT_THAT(run.regroup(2, "b"), IsEmpty());
  EXPECT_THAT(run.barrier(0), ElementsAre("0: unavailable worker 1 is gone"));  // until the group is there
  const std::string group = "group 1 of worker 0 (a), worker 2 (b)";
  EXPECT_THAT(run.regroup(0, "a"), ElementsAre("0: " + group, "2: " + group));
  EXPECT_THAT(run.barrier(0), IsEmpty());
  EXPECT_THAT(run.barrier(2), ElementsAre("0: done", "2: done"));
}

TEST(LeaderOfElasticRuns, LetsInWhoCameInThePlaceOfALostOne) {
  ElasticRun run;
  run.lose(1);
  run.expect(1);
  run.regroup(0, "a");
  run.regroup(2, "b");
  EXPECT_THAT(run.hello(1), ElementsAre("1: newcomer"));
  EXPECT_THAT(run.barrier(1), ElementsAre("1: done"));  // alone
  EXPECT_FALSE(run.takes_part(1));
  EXPECT_THAT(run.regroup(1, "new"),
              ElementsAre("0: somebody waits to join group 1", "2: somebody waits to join group 1"));
  EXPECT_THAT(run.after(1s), ElementsAre(HasSubstr("1: deadline_exceeded worker 1 has waited")));  // none else is lost
  ElasticRun other;
  other.lose(1);
  other.expect(1);
  other.hello(1);
  other.regroup(1, "new");
  other.regroup(2, "b");
  const std::string group = "group 1 of worker 0 (a), worker 1 (new), worker 2 (b)";
  EXPECT_THAT(other.regroup(0, "a"), ElementsAre("0: " + group, "1: " + group, "2: " + group));
  EXPECT_TRUE(other.takes_part(1));
}

TEST(LeaderOfElasticRuns, GivesUpWhoDoesNotComeAndWhoComesBackIsTold) {
  ElasticRun run;
  run.lose(1);
  run.regroup(0, "a", 1);
  EXPECT_THAT(run.after(1s),
              ElementsAre("0: deadline_exceeded worker 0 has waited for a new group for 1000 ms; too few "
                          "processes are left, or have come"));
  EXPECT_THAT(run.barrier(2), ElementsAre("2: unavailable worker 1 is gone"));
  ElasticRun two;
  two.regroup(0, "a");
  two.regroup(1, "b");
  const std::string group = "group 1 of worker 0 (a), worker 1 (b)";
  EXPECT_THAT(two.after(1s), ElementsAre("0: " + group, "1: " + group));
  EXPECT_THAT(two.barrier(2), ElementsAre("2: unavailable the others have given up worker 2 and go on without it"));
}

TEST(LeaderOfElasticRuns, GivesUpNobodyElse) {
  ElasticRun run;
  run.regroup(0, "a");
  run.regroup(2, "c");
  const std::string group = "group 1 of worker 0 (a), worker 2 (c)";
  EXPECT_THAT(run.after(1s), ElementsAre("0: " + group, "2: " + group));
  EXPECT_TRUE(run.is_given_up(1));
  EXPECT_FALSE(run.is_given_up(2));
}

TEST(LeaderOfElasticRuns, CountsWhoSaidGoodbyeAndFailedAsLost) {
  ElasticRun run;
  run.regroup(0, "a");
  run.regroup(2, "c");
  EXPECT_THAT(run.goodbye(1), IsEmpty());
  const std::string group = "group 1 of worker 0 (a), worker 2 (c)";
  EXPECT_THAT(run.lose(1), ElementsAre("0: " + group, "2: " + group));
}

TEST(LeaderOfElasticRuns, WaitsForAsManyAsAProcessAsksFor) {
  ElasticRun run;
  run.lose(1);
  run.regroup(0, "a", 3);
  EXPECT_THAT(run.regroup(2, "b"), IsEmpty());
  run.expect(1);
  run.hello(1);
  EXPECT_EQ(run.regroup(1, "new").size(), 3 + 2);
}

TEST(LeaderOfElasticRuns, TellsWhoComesTooLateThatTheRunIsOver) {
  ElasticRun run;
  run.lose(1);
  run.expect(1);
  run.hello(1);
  run.regroup(1, "new");
  EXPECT_THAT(run.goodbye(0), IsEmpty());  // it may yet have failed
  EXPECT_THAT(run.finish(0), ElementsAre("1: unavailable worker 0 has finished; the run is over"));
  EXPECT_THAT(run.regroup(1, "new").back(), HasSubstr("worker 0 has finished"));
}

TEST(LeaderOfElasticRuns, LosesANewcomerWithoutHarmToTheOthers) {
  ElasticRun run;
  run.lose(1);
  run.regroup(0, "a");
  run.regroup(2, "b");
  run.expect(1);
  run.hello(1);
  run.barrier(0);
  EXPECT_THAT(run.lose(1), IsEmpty());
  EXPECT_THAT(run.barrier(2), ElementsAre("0: done", "2: done"));
}

TEST(LeaderOfElasticRuns, FormsNoGroupsElsewhere) {
  const auto now = Leader::Clock::now();
  Leader leader({{"worker", 0}}, {}, now);
  leader.receive(0, {.kind = Kind::hello, .name = "worker 0", .number = kControlVersion}, now);
  EXPECT_THAT(leader.receive(0, {.kind = Kind::regroup, .name = "1"}, now)[0].message.name,
              HasSubstr("launch --min N"));
  EXPECT_THAT(error_of([&] { leader.receive(0, {.kind = Kind::regroup, .name = "many"}, now); }), "no error");
}

TEST(Regrouping, IsReadAsItWasWrittenAndNothingElse) {
  const Regrouping group{.number = 3, .members = {{"chief", 0}, {"worker", 7}}, .brought = {"", "x"}};
  const std::string bytes = encode(group);
  EXPECT_EQ(decode_regrouping(bytes), group);
  for (size_t i = 0; i < bytes.size(); ++i)
    EXPECT_THAT(error_of([&] { decode_regrouping(std::string_view(bytes).substr(0, i)); }), HasSubstr("data_loss"));
  for (const char* text : {"", "x", "-1", "1x", "99999999999"})
    EXPECT_THAT(error_of([&] { parse_fewest(text); }), HasSubstr("data_loss"));
}

}  // namespace
}  // namespace tutti::cluster
