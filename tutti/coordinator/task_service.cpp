#include "tutti/coordinator/task_service.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <utility>

#include "tutti/cluster/rpc/bell.h"
#include "tutti/coordinator/remote_workers.h"
#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/distribute/current_worker.h"
#include "tutti/distribute/servers/message.h"
#include "tutti/tensor/remote_reads.h"

namespace tutti::coordinator {
namespace {

using servers::Kind;
using servers::Link;
using servers::ServedTraining;

// How often a server looks whether workers have come again: when some are lost, and when none is known to be.
constexpr std::chrono::milliseconds kLookForLost(10), kLookForOthers(1000);

Bytes failed_answer(const std::exception_ptr& error, const std::string& whose) {
  ByteWriter writer = servers::message_of(Kind::failed);
  servers::write_error(writer, error, whose);
  return writer.bytes();
}

// What workers and servers have in common.
class TaskService {
 public:
  TaskService(ServedTraining& training, const NamedFunctions& named)
      : training_(training), named_(named), coordinator_(*training.links().coordinators()[0]) {
    training_.settle();
    training_.begin_functions();
  }
  ~TaskService() { training_.end_functions(); }
  TaskService(const TaskService&) = delete;
  TaskService& operator=(const TaskService&) = delete;

 protected:
  // Over another connection where one is lost, as long as the coordinator can be reached. That knows a task that comes
  // again by its place alone, and tells of all runs that are over.
  void connect_again(const Error& lost) {
    try {
      training_.renew_coordinator();
    } catch (const Error& error) {
      throw Error(ErrorCode::unavailable, str(lost.what(), ", and cannot be reached again: ", error.what()));
    }
    num_known_ends_ = training_.num_runs();
    warn(str(own_name(), ": ", lost.what(), "; it has connected again"));
  }
  std::string own_name() const {
    const bool is_worker = training_.links().role() == servers::Role::worker;
    return str(is_worker ? "worker " : "ps ", training_.links().position());
  }

  // The coordinator's other messages. Returns its result at the end.
  std::optional<Bytes> answer(Kind kind, ByteReader& reader) {
    if (kind == Kind::end && num_known_ends_ > 0) {
      --num_known_ends_;
      return {};
    }
    if (kind == Kind::end) {
      ++training_.num_runs();
      if (reader.number_in(0, 1) == 0) rethrow_as_cancelled(servers::read_error(reader));
      const std::string result = reader.text();
      reader.finish();
      return Bytes(result.begin(), result.end());
    }
    if (kind != Kind::begin) reader.damaged(str("message ", static_cast<int64_t>(kind), " is none for ", own_name()));
    std::vector<std::string> lines(static_cast<size_t>(reader.count(sizeof(int64_t))));
    for (std::string& line : lines) line = reader.text();
    reader.finish();
    try {
      require_equal_definitions(named_.describe(training_.state()), lines, own_name(), coordinator_.name());
    } catch (...) {
      coordinator_.send(failed_answer(std::current_exception(), own_name()));
      throw;
    }
    coordinator_.send(servers::message_of(Kind::done).bytes());
    return {};
  }

  ServedTraining& training_;
  const NamedFunctions& named_;
  Link& coordinator_;

 private:
  int64_t num_known_ends_ = 0;  // that are told once more

  [[noreturn]] static void rethrow_as_cancelled(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& thrown) {
      throw Error(ErrorCode::cancelled, str("ClusterCoordinator::run: the coordinator's part threw: ", thrown.what()));
    }
  }
};

// Answers that travel together.
class Answers {
 public:
  explicit Answers(Link& coordinator) : coordinator_(coordinator) {}

  // `what` of an answer follows its kind.
  void add(Kind kind, const Bytes& what = {}) {
    ++count_;
    writer_.number(static_cast<int64_t>(sizeof(int64_t) + what.size()));
    writer_.number(static_cast<int64_t>(kind));
    writer_.raw(what.data(), what.size());
    if (writer_.bytes().size() > kMostBytes) send();
  }
  void add_failed(const std::exception_ptr& error, const std::string& whose) {
    ByteWriter what;
    servers::write_error(what, error, whose);
    add(Kind::failed, what.bytes());
  }
  void send() {
    if (count_ == 0) return;
    ByteWriter message = servers::message_of(Kind::answers);
    message.number(std::exchange(count_, 0));
    message.raw(writer_.bytes().data(), writer_.bytes().size());
    coordinator_.send(message.bytes());
    writer_ = {};
  }

 private:
  static constexpr size_t kMostBytes = size_t{64} << 10;

  Link& coordinator_;
  ByteWriter writer_;
  int64_t count_ = 0;
};

class WorkerService : TaskService {
 public:
  using TaskService::TaskService;

  Bytes run() {
    while (true) {
      const servers::Incoming message = receive();
      ByteReader reader(message, "a message of the coordinator");
      const Kind kind = servers::read_kind(reader);
      if (kind == Kind::call)
        call_all(reader);
      else if (auto result = answer(kind, reader))
        return *std::move(result);
    }
  }

 private:
  // The next message. The coordinator calls others for what was under way here over a connection that is lost, and
  // waits for no answers of before.
  servers::Incoming receive() {
    while (true) {
      try {
        return coordinator_.receive();
      } catch (const Error& error) {
        connect_again(error);
      }
    }
  }

  struct Call {
    servers::WorkerCopies::Call is;
    std::span<const uint8_t> arguments;
  };
  Call read_call(ByteReader& reader) const {
    Call call;
    call.is.number = reader.number();
    call.is.function = static_cast<int>(reader.number_in(0, static_cast<int64_t>(named_.functions.size()) - 1));
    const auto size = static_cast<size_t>(reader.count(1));
    call.arguments = {reader.raw(size), size};
    return call;
  }

  void call_all(ByteReader& reader) {
    const int64_t first_open = reader.number();
    bool has_failed = false;
    Answers answers(coordinator_);
    const WorkerGuard guard(training_.links().position());
    const RemoteReadsGuard reads(training_.worker());
    const auto begun = Link::Clock::now();
    auto sent = begun, now = begun;
    std::optional<Call> next;
    int64_t left = reader.count(3 * sizeof(int64_t));
    if (left > 0) next = read_call(reader);
    for (int64_t i = 0; next; ++i) {
      const Call one = *next;
      next.reset();
      if (--left > 0) next = read_call(reader);
      const int function = one.is.function;
      if (has_failed || (i >= static_cast<int64_t>(kWindow) && now - begun > kLongBatch)) {
        answers.add(has_failed ? Kind::skipped : Kind::postponed);
        continue;
      }
      auto& took = took_[static_cast<size_t>(function)];
      // What a function has changed shall be known to have been: where its worker is lost before, it is called again,
      // and its result is that of a second call.
      if (took > kQuick || now - sent > kLongestWait) {
        answers.send();
        sent = now;
      }
      try {
        answers.add(Kind::done, call(one, first_open, next).bytes());
      } catch (const servers::ServerLost&) {
        answers.add_failed(std::current_exception(), "");
        answers.send();
        require_coordinator();
        throw;
      } catch (...) {
        has_failed = true;
        training_.worker().abandon();
        const std::string& name = named_.functions[static_cast<size_t>(function)].name;
        answers.add_failed(std::current_exception(), str(own_name(), ": function '", name, '\''));
      }
      const auto begin = std::exchange(now, Link::Clock::now());
      took = now - begin;
    }
    reader.finish();
    answers.send();
  }

  // Servers end when the coordinator is lost, and that is the cause then. Else it says something, about the loss.
  void require_coordinator() {
    try {
      coordinator_.receive(Link::Clock::now() + std::chrono::seconds(2));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unavailable) throw;
    }
  }

  ByteWriter call(const Call& one, int64_t first_open, const std::optional<Call>& next) {
    ByteReader reader(one.arguments, "arguments");  // so short that it takes no memory
    training_.worker().begin(one.is, first_open, next ? std::optional(next->is) : std::nullopt);
    const auto& named = named_.functions[static_cast<size_t>(one.is.function)];
    ByteWriter result = named.call(reader, *named_.values, training_.links().position());
    training_.worker().finish();
    return result;
  }

  static constexpr std::chrono::microseconds kQuick{100}, kLongestWait{200};  // of an answer that could travel
  // After which a batch that was to end at once is too many functions, and the rest is given back: when another one
  // fails, they are cancelled.
  static constexpr std::chrono::milliseconds kLongBatch{10};
  // The last call of each function.
  std::vector<Link::Clock::duration> took_ =
      std::vector<Link::Clock::duration>(named_.functions.size(), Link::Clock::duration::max());
};

class ServerService : TaskService {
 public:
  ServerService(ServedTraining& training, const NamedFunctions& named) : TaskService(training, named) {
    const size_t num_bells = 2 + training.links().workers().size();
    const bool waits_for_bells = num_bells <= rpc::kMostBells && rpc::can_wait_for_several();
    for_each_link([&](Link& link) { link.on_event([this] { rpc::ring(news_, rpc::kMessages); }, waits_for_bells); });
  }
  ~ServerService() {
    for_each_link([](Link& link) { link.on_event(nullptr); });
  }

  Bytes run() {
    const auto since = Link::Clock::now();
    while (true) {
      look_at_bells();
      bool has_come = false;
      if (const auto message = take_of_coordinator()) {
        has_come = true;
        if (auto result = answer_coordinator(*message)) return *std::move(result);
      }
      for (size_t i = 0; i < training_.links().workers().size(); ++i) has_come |= answer_worker(i);
      if (Link::Clock::now() >= look_at_) take_in_workers();
      if (has_come || bells_.empty()) continue;
      rpc::wait_past_any(bells_, look_at_);
      if (!coordinator_.is_new()) coordinator_.check_silence(since);
    }
  }

 private:
  template <class F>
  void for_each_link(const F& f) {
    f(coordinator_);
    for (const auto& worker : training_.links().workers()) f(*worker);
  }

  void look_at_bells() {
    bells_.clear();
    const auto look_at = [&](rpc::Bell* bell) {
      if (bell) bells_.push_back({bell, bell->count.load(std::memory_order_seq_cst)});
    };
    look_at(&news_);
    for_each_link([&](Link& link) { look_at(link.bell()); });
  }

  // The coordinator takes another connection when it next asks something, which may be long after.
  std::optional<servers::Incoming> take_of_coordinator() {
    try {
      return coordinator_.take();
    } catch (const Error& error) {
      bells_.clear();
      connect_again(error);
      return {};
    }
  }

  std::optional<Bytes> answer_coordinator(const servers::Incoming& message) {
    ByteReader reader(message, "a message of the coordinator");
    const Kind kind = servers::read_kind(reader);
    if (kind == Kind::begin || kind == Kind::end) return answer(kind, reader);
    coordinator_.send(training_.server().answer(message));
    return {};
  }

  // Those who have come again, whether or not it is known here that their connections were lost.
  void take_in_workers() {
    bells_.clear();
    for (size_t i = 0; i < lost_.size(); ++i)
      if (training_.renew_worker(static_cast<int>(i))) lost_[i] = false;
    const bool misses = std::ranges::find(lost_, true) != lost_.end();
    look_at_ = Link::Clock::now() + (misses ? kLookForLost : kLookForOthers);
  }

  // One that is lost is the coordinator's affair, which may have let it go.
  bool answer_worker(size_t index) {
    if (lost_[index]) return false;
    Link& link = *training_.links().workers()[index];
    try {
      const auto message = link.take();
      if (message) link.send(training_.server().answer(*message));
      return message.has_value();
    } catch (const Error& error) {
      bells_.clear();
      link.cut(error.what());
      lost_[index] = true;
      look_at_ = Link::Clock::now();
      return false;
    }
  }

  rpc::Bell news_;                                        // of connections without one
  std::vector<rpc::SeenBell> bells_;                      // empty where a connection, and its bell, may be gone
  Link::Clock::time_point look_at_ = Link::Clock::now();  // for workers that have come again
  std::vector<bool> lost_ = std::vector<bool>(training_.links().workers().size());
};

}  // namespace

Bytes serve_run(ServedTraining& training, const NamedFunctions& named) {
  if (training.links().role() == servers::Role::server) return ServerService(training, named).run();
  return WorkerService(training, named).run();
}

}  // namespace tutti::coordinator
