// How a Leader forms a new group of those that are left and those that have come.
#include <algorithm>

#include "tutti/cluster/leader.h"
#include "tutti/cluster/regrouping.h"
#include "tutti/core/str.h"

namespace tutti::cluster {

void Leader::expect(int index, Clock::time_point now) {
  Member& member = members_[static_cast<size_t>(index)];
  member = {.task = member.task, .takes_part = false, .is_newcomer = true, .heard = now};
  keys_.erase(key_of_address(member.task));
}

Leader::Answers Leader::fail_regroup(int index, ErrorCode code, const std::string& text) {
  Answers answers{failed(index, member(index).regroup->request, code, text)};
  member(index).regroup.reset();
  return answers;
}

Leader::Answers Leader::come_to_regroup(int index, const ControlMessage& message, Clock::time_point now) {
  Member& from = member(index);
  if (options_.min_members == 0)
    return {failed(index, message.request, ErrorCode::failed_precondition,
                   "these processes end together: `tutti launch --min N` starts a run that goes on without lost ones")};
  if (from.regroup || from.barrier)
    return {failed(index, message.request, ErrorCode::failed_precondition,
                   str(to_string(from.task), " waits already, and comes to a new group"))};
  const std::chrono::milliseconds timeout(std::max<int64_t>(message.number, 0));
  from.regroup = Waiting{.request = message.request,
                         .name = {},
                         .deadline = now + std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365)),
                         .timeout = timeout,
                         .value = message.value,
                         .fewest = parse_fewest(message.name)};
  Answers answers;
  for (int i = 0; i < size() && !from.takes_part; ++i)
    if (member(i).takes_part && member(i).state == State::running)
      answers.push_back({i, {.kind = ControlMessage::Kind::joiner, .number = group_}});
  for (Answer& answer : settle_groups()) answers.push_back(std::move(answer));
  return answers;
}

Leader::Answers Leader::finish(int index) {
  member(index).state = State::finished;
  member(index).has_ended = true;
  Answers answers = settle_barriers();
  std::ranges::move(settle_groups(), std::back_inserter(answers));
  return answers;
}

// Forms a group when all who can still come to it have come. Who has only just been started is not waited for.
Leader::Answers Leader::settle_groups() {
  const Member* finished = nullptr;
  int num_waiting = 0, fewest = options_.min_members;
  bool all_wait = true;
  for (const Member& each : members_) {
    if (each.takes_part && each.has_ended) finished = &each;
    if (each.regroup) {
      ++num_waiting;
      fewest = std::max(fewest, each.regroup->fewest);
    } else if (each.takes_part && each.state != State::lost) {
      all_wait = false;
    }
  }
  if (num_waiting == 0) return {};
  if (finished) {
    Answers answers;
    const std::string text = str(to_string(finished->task), " has finished; the run is over");
    for (int i = 0; i < size(); ++i)
      if (member(i).regroup)
        std::ranges::move(fail_regroup(i, ErrorCode::unavailable, text), std::back_inserter(answers));
    return answers;
  }
  return all_wait && num_waiting >= fewest ? form_group() : Answers{};
}

Leader::Answers Leader::form_group() {
  Regrouping group{.number = ++group_};
  for (const Member& each : members_) {
    if (!each.regroup) continue;
    group.members.push_back(each.task);
    group.brought.push_back(each.regroup->value);
  }
  lost_.reset();
  Answers answers;
  for (int i = 0; i < size(); ++i) {
    Member& each = member(i);
    each.takes_part = each.regroup.has_value();
    if (each.regroup) answers.push_back(done(i, each.regroup->request, encode(group)));
    each.regroup.reset();
  }
  return answers;
}

// Members of the group that have not come in time are given up; who came later may wait as long as it likes.
Leader::Answers Leader::end_late_regroup(int index, Clock::time_point now) {
  Answers answers;
  if (!member(index).regroup || now < member(index).regroup->deadline) return answers;
  const auto milliseconds = member(index).regroup->timeout.count();
  for (int i = 0; i < size() && member(index).regroup && member(index).takes_part; ++i)
    if (member(i).takes_part && !member(i).regroup && member(i).state == State::running) {
      member(i).is_given_up = true;
      std::ranges::move(lose(i, str("has not come to the new group in ", milliseconds, " ms")),
                        std::back_inserter(answers));
    }
  if (!member(index).regroup) return answers;
  std::ranges::move(fail_regroup(index, ErrorCode::deadline_exceeded,
                                 str(to_string(member(index).task), " has waited for a new group for ", milliseconds,
                                     " ms; too few processes are left, or have come")),
                    std::back_inserter(answers));
  return answers;
}

}  // namespace tutti::cluster
