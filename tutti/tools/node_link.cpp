#include "tutti/tools/node_link.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kAnswerTime = 30s, kTimeToLeave = 2s, kVisit = 1s;

}  // namespace

NodeLink::NodeLink(std::string leader, const cluster::PeerHello& hello, const cluster::Security& security)
    : thread_([this, leader = std::move(leader), hello, security] {
        while (!ends_) try {
            auto stream = cluster::knock(leader, "the launcher of the first host", hello, security, kVisit);
            const std::lock_guard lock(mutex_);
            stream_ = std::move(stream);
            for (auto& report : early_) stream_->send({std::move(report)});
            return changed_.notify_all();
          } catch (const Error& error) {
            const std::lock_guard lock(mutex_);
            failure_ = error.what();
            if (error.code() != ErrorCode::deadline_exceeded) return;
          }
      }) {}

NodeLink::~NodeLink() {
  ends_ = true;
  thread_.join();
  if (stream_) stream_->close(kTimeToLeave);
}

// Null: it is not there by then.
rpc::Stream* NodeLink::stream(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [&] { return stream_ != nullptr; });
  return stream_.get();
}

void NodeLink::report(int worker, const ChildProcess& process, bool wants_verdict) {
  std::vector<uint8_t> bytes = encode(NodeReport{.worker = worker,
                                                 .exit_code = process.exit_code(),
                                                 .how = process.how_it_ended(),
                                                 .wants_verdict = wants_verdict});
  const std::lock_guard lock(mutex_);
  if (stream_)
    stream_->send({std::move(bytes)});
  else
    early_.push_back(std::move(bytes));
}

void NodeLink::hear(const rpc::Message& message) {
  NodeOrder order = decode_node_order(message.bytes(kMaxNodeMessage));
  if (order.verdict)
    verdicts_[order.worker] = std::move(*order.verdict);
  else
    given_up_.insert(order.worker);
}

void NodeLink::note_end(int worker, const ChildProcess& process) {
  given_up_.erase(worker);
  report(worker, process, /*wants_verdict=*/false);
}

Verdict NodeLink::judge(int worker, const ChildProcess& process) {
  report(worker, process, /*wants_verdict=*/true);
  const auto deadline = std::chrono::steady_clock::now() + kAnswerTime;
  try {
    if (rpc::Stream* first_host = stream(deadline))
      while (true) {
        if (auto found = verdicts_.extract(worker)) return std::move(found.mapped());
        hear(first_host->receive(deadline));
      }
  } catch (const Error& error) {  // it has ended, or is cut off: so is what it leads
    return {.why = str("the launcher of the first host does not say what is to be done: ", error.what())};
  }
  const std::lock_guard lock(mutex_);
  return {.why = str("the launcher of the first host cannot be asked: ", failure_)};
}

bool NodeLink::is_given_up(int worker) {
  if (rpc::Stream* first_host = stream({}))
    while (const auto message = first_host->take()) hear(*message);
  return given_up_.contains(worker);
}

}  // namespace tutti::tools
