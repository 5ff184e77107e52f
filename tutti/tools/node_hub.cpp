#include "tutti/tools/node_hub.h"

#include <algorithm>
#include <utility>

#include "tutti/core/str.h"

namespace tutti::tools {
namespace {

using namespace std::chrono_literals;
using cluster::Task;

constexpr auto kLook = 20ms;

Task task_of(int worker) { return {"worker", worker}; }

}  // namespace

NodeHub::NodeHub(cluster::NetworkLeader& leader, LaunchPlaces& places, int num_nodes, int per_node)
    : leader_(leader), places_(places), per_node_(per_node), nodes_(static_cast<size_t>(num_nodes)) {}

NodeHub::~NodeHub() { close(); }

void NodeHub::open(cluster::Door& door) {
  thread_ = std::thread([this, &door] { run(door); });
}

void NodeHub::close() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
}

bool NodeHub::has_nodes() {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(nodes_, [](const Node& node) { return node.stream != nullptr; });
}

std::optional<Error> NodeHub::admit(const cluster::PeerHello& hello) {
  const std::lock_guard lock(mutex_);
  const int rank = hello.task.index;
  if (rank < 1 || rank >= static_cast<int>(nodes_.size()))
    return Error(ErrorCode::invalid_argument, str("there is no host ", rank, " of ", nodes_.size(), " to start"));
  if (node(rank).stream)
    return Error(ErrorCode::unavailable,
                 str("the command of host ", rank, " is here, or was until a moment ago: is it started twice?"));
  return {};
}

void NodeHub::run(cluster::Door& door) {
  while (!ends_) {
    auto visitor = door.take(kNodePurpose, cluster::Door::Clock::now() + kLook);
    const std::lock_guard lock(mutex_);
    if (visitor) welcome(std::move(*visitor));
    for (int rank = 1; rank < static_cast<int>(nodes_.size()); ++rank)
      if (node(rank).stream) hear(rank);
  }
}

void NodeHub::welcome(cluster::Door::Visitor visitor) {
  const int rank = visitor.hello.task.index;
  Node& from = node(rank);
  if (from.stream) return;  // two came at once: this one's stream ends here
  from.stream = std::move(visitor.stream);
  for (int i = 0; i < per_node_; ++i) from.workers[rank * per_node_ + i] = false;
  if (std::exchange(from.was_lost, false)) places_.note_start(per_node_);
}

// What a command has said since it was last looked at.
void NodeHub::hear(int rank) {
  Node& from = node(rank);
  for (auto& [worker, is_told] : from.workers)
    if (!is_told && leader_.is_given_up(task_of(worker))) {
      from.stream->send({encode(NodeOrder{.worker = worker})});
      is_told = true;
    }
  try {
    while (const auto message = from.stream->take()) note(rank, decode_node_report(message->bytes(kMaxNodeMessage)));
    if (from.stream->end()) lose(from, "was on a host whose launcher has ended");
  } catch (const Error& error) {
    lose(from, str("was on a host whose launcher says what cannot be: ", error.what()));
  }
}

void NodeHub::note(int rank, const NodeReport& report) {
  Node& from = node(rank);
  const Task task = task_of(report.worker);
  const bool runs = from.workers.contains(report.worker);
  if (report.worker / per_node_ != rank || runs == report.wants_verdict)
    throw Error(ErrorCode::data_loss, str("host ", rank, " tells of ", to_string(task), " what it cannot know"));
  if (report.wants_verdict) {
    const Verdict verdict = places_.judge(leader_.takes_part(task));
    if (verdict.kind == Verdict::Kind::starts_again) from.workers[report.worker] = false;
    return from.stream->send({encode(NodeOrder{.worker = report.worker, .verdict = verdict})});
  }
  from.workers.erase(report.worker);
  places_.note_end(report.exit_code == 0);
  if (report.exit_code == 0)
    leader_.finish(task);
  else
    leader_.lose(task, report.how);
}

void NodeHub::lose(Node& node, const std::string& why) {
  for (const auto& [worker, is_told] : std::exchange(node.workers, {})) {
    places_.note_end(/*has_finished=*/false);
    leader_.lose(task_of(worker), why);
    node.was_lost = true;
  }
  node.stream.reset();
}

}  // namespace tutti::tools
