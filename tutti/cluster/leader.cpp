#include "tutti/cluster/leader.h"

#include <algorithm>

#include "tutti/core/bytes.h"
#include "tutti/core/str.h"

namespace tutti::cluster {
namespace {

using Kind = ControlMessage::Kind;

// The answers of one step after those of another.
void append(Leader::Answers& answers, Leader::Answers more) { std::ranges::move(more, std::back_inserter(answers)); }

constexpr size_t kMaxGets = 1024;
constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);

std::string gathered(std::span<const std::string> values) {
  ByteWriter writer;
  writer.number(static_cast<int64_t>(values.size()));
  for (const std::string& value : values) writer.text(value);
  return {writer.bytes().begin(), writer.bytes().end()};
}

}  // namespace

Leader::Leader(std::vector<Task> tasks, const LeaderOptions& options, Clock::time_point now) : options_(options) {
  for (Task& task : tasks) {
    const bool takes_part = task.type != "evaluator";  // which is a cluster of its own
    members_.push_back({.task = std::move(task), .takes_part = takes_part, .heard = now});
  }
}

Leader::Answer Leader::done(int to, uint64_t request, std::string value) {
  return {to, {.kind = Kind::done, .request = request, .value = std::move(value)}};
}

Leader::Answer Leader::failed(int to, uint64_t request, ErrorCode code, const std::string& text) {
  return {to, {.kind = Kind::error, .request = request, .name = text, .number = static_cast<int64_t>(code)}};
}

Leader::Answers Leader::receive(int index, const ControlMessage& message, Clock::time_point now) {
  Member& from = member(index);
  from.heard = now;
  if (from.state == State::joining && message.kind != Kind::hello)
    throw Error(ErrorCode::invalid_argument, str(to_string(from.task), " has not said hello"));
  if (from.state == State::lost)  // it was stopped, and goes on: the others have given it up
    return {failed(index, message.request, ErrorCode::unavailable,
                   lost_.value_or(str("the others have given up ", to_string(from.task), " and go on without it")))};
  switch (message.kind) {
    case Kind::hello: return hello(index, message);
    case Kind::heartbeat: from.place = message.name; return {};
    case Kind::gather:
    case Kind::barrier: return arrive(index, message, now);
    case Kind::insert: return insert(index, message);
    case Kind::get: return get(index, message, now);
    case Kind::members: return {done(index, message.request, describe_members())};
    case Kind::failure: return lose(index, str("has failed: ", message.name));
    case Kind::regroup: return come_to_regroup(index, message, now);
    case Kind::goodbye: {
      from.state = State::finished;
      Answers answers = settle_barriers();
      append(answers, settle_groups());
      return answers;
    }
    case Kind::done:
    case Kind::error:
    case Kind::joiner: break;
  }
  throw Error(ErrorCode::invalid_argument, "a member does not answer");
}

Leader::Answers Leader::hello(int index, const ControlMessage& message) {
  Member& from = member(index);
  if (message.number != kControlVersion)
    return {failed(index, message.request, ErrorCode::failed_precondition,
                   str(message.name, " speaks version ", message.number, " of the protocol, its launcher version ",
                       kControlVersion, ": start both from one build"))};
  if (message.name != to_string(from.task) || from.state != State::joining)
    return {failed(index, message.request, ErrorCode::already_exists,
                   str(message.name, " comes on the connection of ", to_string(from.task),
                       from.state == State::joining ? "" : ", which is here already"))};
  from.state = State::running;
  return {done(index, message.request, from.is_newcomer ? kNewcomer : "")};
}

Leader::Answers Leader::arrive(int index, const ControlMessage& message, Clock::time_point now) {
  Member& from = member(index);
  const bool gathers = message.kind == Kind::gather;
  if (!from.takes_part) return {done(index, message.request, gathers ? gathered({&message.value, 1}) : "")};
  if (lost_) return {failed(index, message.request, ErrorCode::unavailable, *lost_)};
  if (from.barrier)
    return {failed(index, message.request, ErrorCode::failed_precondition,
                   str(to_string(from.task), " waits at barrier '", from.barrier->name, "' and comes to '",
                       message.name, "': one thread of a process goes to barriers"))};
  const std::chrono::milliseconds timeout(std::clamp<int64_t>(message.number, 0, kLongest.count()));
  from.barrier = Waiting{message.request, gathers ? str("gathering ", message.name) : message.name,
                         now + timeout,   timeout,
                         message.value,   gathers};
  return settle_barriers();
}

// Passes the barrier that all wait at, or ends the waiting where no barrier can be passed any more.
Leader::Answers Leader::settle_barriers() {
  const Member *first = nullptr, *other = nullptr, *finished = nullptr;
  bool all_wait = true;
  for (const Member& each : members_) {
    if (!each.takes_part) continue;
    if (each.state == State::finished) finished = &each;
    if (!each.barrier) {
      all_wait = all_wait && each.state == State::finished;
      continue;
    }
    if (!first) first = &each;
    if (each.barrier->name != first->barrier->name) other = &each;
  }
  if (!first) return {};
  if (finished)
    return fail_waiting(ErrorCode::unavailable,
                        str(to_string(finished->task), " has finished, ", to_string(first->task),
                            " still waits at barrier '", first->barrier->name, '\''));
  if (!all_wait) return {};
  if (other)
    return fail_waiting(ErrorCode::failed_precondition,
                        str("all processes wait, and not for the same: ", to_string(first->task), " at barrier '",
                            first->barrier->name, "', ", to_string(other->task), " at '", other->barrier->name, '\''));
  return pass_barrier();
}

// All wait at one.
Leader::Answers Leader::pass_barrier() {
  std::vector<std::string> values;
  const Waiting* any = nullptr;
  for (const Member& each : members_) {
    if (!each.barrier) continue;
    any = &*each.barrier;
    values.push_back(any->value);
  }
  const std::string all = gathered(values);
  if (any->gathers && all.size() > kMaxControlBytes / 2)
    return fail_waiting(ErrorCode::resource_exhausted, str("what all tasks bring to '", any->name, "' has ", all.size(),
                                                           " bytes; there is room for ", kMaxControlBytes / 2));
  Answers answers;
  for (int i = 0; i < size(); ++i)
    if (member(i).barrier)
      answers.push_back(done(i, member(i).barrier->request, member(i).barrier->gathers ? all : ""));
  for (Member& each : members_) each.barrier.reset();
  return answers;
}

Leader::Answers Leader::fail_waiting(ErrorCode code, const std::string& text) {
  Answers answers;
  for (int i = 0; i < size(); ++i)
    if (member(i).barrier) {
      answers.push_back(failed(i, member(i).barrier->request, code, text));
      member(i).barrier.reset();
    }
  return answers;
}

Leader::Answers Leader::insert(int index, const ControlMessage& message) {
  if (keys_.contains(message.name)) return {done(index, message.request, "kept")};
  const size_t bytes = message.name.size() + message.value.size();
  if (keys_.size() == options_.max_keys || bytes > options_.max_key_bytes - key_bytes_)
    return {failed(index, message.request, ErrorCode::resource_exhausted,
                   str("the cluster keeps ", keys_.size(), " keys of ", key_bytes_, " bytes; it has room for ",
                       options_.max_keys, " of ", options_.max_key_bytes))};
  key_bytes_ += bytes;
  keys_.emplace(message.name, message.value);
  Answers answers{done(index, message.request, "inserted")};
  for (int i = 0; i < size(); ++i)
    std::erase_if(member(i).gets, [&](const Waiting& waiting) {
      if (waiting.name != message.name) return false;
      answers.push_back(done(i, waiting.request, message.value));
      return true;
    });
  return answers;
}

Leader::Answers Leader::get(int index, const ControlMessage& message, Clock::time_point now) {
  if (const auto found = keys_.find(message.name); found != keys_.end())
    return {done(index, message.request, found->second)};
  if (lost_ && member(index).takes_part) return {failed(index, message.request, ErrorCode::unavailable, *lost_)};
  if (member(index).gets.size() == kMaxGets)
    return {failed(index, message.request, ErrorCode::resource_exhausted,
                   str("a process waits for ", kMaxGets, " keys at most"))};
  const std::chrono::milliseconds timeout(std::clamp<int64_t>(message.number, 0, kLongest.count()));
  member(index).gets.push_back({message.request, message.name, now + timeout, timeout});
  return {};
}

Leader::Answers Leader::close(int index, Clock::time_point now) {
  if (member(index).state != State::finished) member(index).closed = now;
  return {};
}

Leader::Answers Leader::lose(int index, const std::string& how) {
  Member& gone = member(index);
  gone.closed.reset();
  const bool has_finished = gone.state == State::finished && (options_.min_members == 0 || gone.has_ended);
  if (has_finished || gone.state == State::lost) return {};
  gone.state = State::lost;
  gone.regroup.reset();
  if (!gone.takes_part) return settle_groups();  // the others did not wait for it
  if (!lost_) lost_ = str(to_string(gone.task), ' ', how);
  Answers answers = fail_waiting(ErrorCode::unavailable, *lost_);
  for (int i = 0; i < size(); ++i) {
    for (const Waiting& waiting : member(i).gets)
      answers.push_back(failed(i, waiting.request, ErrorCode::unavailable, *lost_));
    member(i).gets.clear();
  }
  append(answers, settle_groups());
  return answers;
}

Leader::Answers Leader::tick(Clock::time_point now) {
  Answers answers;
  for (int i = 0; i < size(); ++i) {
    const Member& each = member(i);
    if (each.closed && now - *each.closed >= options_.cause_after)
      append(answers, lose(i, "has ended without saying so"));
    if (each.state == State::running && now - each.heard >= options_.dead_after)
      append(answers, lose(i, str("has not been heard of for ", options_.dead_after.count(), " ms")));
    append(answers, end_late(i, now));
    append(answers, end_late_regroup(i, now));
  }
  return answers;
}

// What a member waits for, where the time for it is over. A barrier ends for all who wait at it.
Leader::Answers Leader::end_late(int index, Clock::time_point now) {
  Answers answers;
  std::erase_if(member(index).gets, [&](const Waiting& waiting) {
    if (now < waiting.deadline) return false;
    answers.push_back(
        failed(index, waiting.request, ErrorCode::deadline_exceeded,
               str("nobody has written the key '", waiting.name, "' in ", waiting.timeout.count(), " ms")));
    return true;
  });
  if (!member(index).barrier || now < member(index).barrier->deadline) return answers;
  const Waiting late = *member(index).barrier;
  const std::string text = str(to_string(member(index).task), " has waited for ", late.timeout.count(),
                               " ms at barrier '", late.name, "'", missing_at(late.name));
  for (int i = 0; i < size(); ++i)
    if (member(i).barrier && member(i).barrier->name == late.name) {
      answers.push_back(failed(i, member(i).barrier->request, ErrorCode::deadline_exceeded, text));
      member(i).barrier.reset();
    }
  return answers;
}

std::string Leader::missing_at(const std::string& barrier) const {
  std::string text;
  for (const Member& each : members_) {
    if (!each.takes_part || (each.barrier && each.barrier->name == barrier)) continue;
    text += str("; ", to_string(each.task));
    if (each.state == State::joining)
      text += " has not joined";
    else if (each.barrier)
      text += str(" waits at '", each.barrier->name, '\'');
    else
      text += " has not come";
    if (!each.place.empty()) text += str(" (last heard of at ", each.place, ')');
  }
  return text;
}

std::string Leader::describe_members() const {
  std::string text;
  for (const Member& each : members_) {
    text += to_string(each.task) + ": ";
    if (each.barrier)
      text += str("waits at barrier '", each.barrier->name, '\'');
    else if (each.regroup)
      text += "waits for a new group";
    else if (!each.gets.empty())
      text += str("waits for the key '", each.gets.front().name, '\'');
    else
      text += each.state == State::joining    ? "has not joined"
              : each.state == State::running  ? "runs"
              : each.state == State::finished ? "has finished"
                                              : "is lost";
    if (!each.place.empty()) text += str(" (", each.place, ')');
    text += '\n';
  }
  return text;
}

}  // namespace tutti::cluster
