#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tutti/cluster/control_message.h"
#include "tutti/cluster/task.h"
#include "tutti/core/error.h"

namespace tutti::cluster {

constexpr const char* kNewcomer = "newcomer";  // what a process that comes later is told

struct LeaderOptions {
  std::chrono::milliseconds dead_after = std::chrono::seconds(30);  // without a word
  std::chrono::milliseconds cause_after =
      std::chrono::milliseconds(500);  // of a closed connection: until it is known why
  int min_members = 0;                 // with which those that are left go on after a loss; 0: they do not
  size_t max_keys = 65'536, max_key_bytes = size_t{256} << 20;  // all keys with their values
};

// What a cluster has in common: who is there, who waits at which barrier, and keys that are written once. Pure: it is
// told what has come and when, and says what is to be sent. The first loss is the cause of every failure after it.
//
// A barrier is passed when all members wait at it; a gathering is a barrier that tells all what each brought. It fails
// for all who wait when that cannot happen any more: a member is lost, has finished, or waits at a barrier of another
// name while everybody waits.
//
// With `min_members`, those that are left can form a new group, without the lost ones and with processes that have come
// in their places. Barriers are then this group's, and earlier losses are of no account. A process that has come and is
// in no group yet is alone: it passes every barrier. For one thread.
class Leader {
 public:
  using Clock = std::chrono::steady_clock;
  struct Answer {
    int member;
    ControlMessage message;
  };
  using Answers = std::vector<Answer>;

  // Members are known by their place in the list.
  Leader(std::vector<Task> tasks, const LeaderOptions& options, Clock::time_point now);

  // A message of a member. Throws: invalid_argument for one that a member does not send.
  Answers receive(int member, const ControlMessage& message, Clock::time_point now);
  // A member's connection is closed; if it did not say goodbye, it is lost, for a cause that may still come.
  Answers close(int member, Clock::time_point now);
  // A member's process has ended: "died with signal 9 (Killed)". Nothing for one that has said goodbye.
  Answers lose(int member, const std::string& how);
  // The process of a member has ended well. Where groups are formed, goodbye alone does not say so.
  Answers finish(int member);
  // Whether the others go on without it though its process may be there: it has not come to their group.
  bool is_given_up(int member) const { return members_[static_cast<size_t>(member)].is_given_up; }
  bool is_lost(int member) const { return members_[static_cast<size_t>(member)].state == State::lost; }
  // A new process takes the place of a lost member, and will say hello, to which the answer is kNewcomer. What that one
  // has published is forgotten.
  void expect(int member, Clock::time_point now);
  // Whether it is in the group, or was when it was lost.
  bool takes_part(int member) const { return members_[static_cast<size_t>(member)].takes_part; }
  // What the passing of time does.
  Answers tick(Clock::time_point now);

  // "worker 1: waits at barrier 'start'", a line for each member.
  std::string describe_members() const;

 private:
  enum class State { joining, running, finished, lost };
  struct Waiting {
    uint64_t request;
    std::string name;
    Clock::time_point deadline;
    std::chrono::milliseconds timeout;
    std::string value = {};  // of a gathering or a new group
    bool gathers = false;
    int fewest = 0;  // of a new group
  };
  struct Member {
    Task task;
    State state = State::joining;
    bool has_ended = false, is_given_up = false;
    bool takes_part = true;    // in the group; false until a process that came later is let in
    bool is_newcomer = false;  // such a process
    std::string place = {};
    Clock::time_point heard;
    std::optional<Clock::time_point> closed;
    std::optional<Waiting> barrier, regroup;
    std::vector<Waiting> gets;
  };

  Member& member(int index) { return members_[static_cast<size_t>(index)]; }
  int size() const { return static_cast<int>(members_.size()); }
  static Answer done(int to, uint64_t request, std::string value = {});
  static Answer failed(int to, uint64_t request, ErrorCode code, const std::string& text);

  Answers hello(int index, const ControlMessage& message);
  Answers arrive(int index, const ControlMessage& message, Clock::time_point now);
  Answers insert(int index, const ControlMessage& message);
  Answers get(int index, const ControlMessage& message, Clock::time_point now);
  Answers settle_barriers();
  Answers pass_barrier();
  Answers fail_waiting(ErrorCode code, const std::string& text);
  Answers end_late(int index, Clock::time_point now);
  std::string missing_at(const std::string& barrier) const;
  Answers come_to_regroup(int index, const ControlMessage& message, Clock::time_point now);
  Answers settle_groups();
  Answers form_group();
  Answers end_late_regroup(int index, Clock::time_point now);
  Answers fail_regroup(int index, ErrorCode code, const std::string& text);

  std::vector<Member> members_;
  const LeaderOptions options_;
  std::map<std::string, std::string> keys_;
  size_t key_bytes_ = 0;
  std::optional<std::string> lost_;  // the first loss of this group
  int64_t group_ = 0;                // its number
};

}  // namespace tutti::cluster
