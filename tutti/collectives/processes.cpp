#include "tutti/collectives/processes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include "tutti/cluster/launch_record.h"
#include "tutti/cluster/roles.h"
#include "tutti/collectives/cluster_group.h"
#include "tutti/collectives/nccl/nccl_group.h"
#include "tutti/collectives/shared_memory/launched_group.h"
#include "tutti/collectives/shared_memory/shared_memory_group.h"
#include "tutti/core/bytes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/gpu.h"

namespace tutti {
namespace {

// What of a gathered text travels at once with its length, so that short ones need one round.
constexpr int64_t kShortBytes = 1024;

// For the leader to learn how a process has ended.
constexpr auto kTimeOfCause = std::chrono::milliseconds(700);

struct Program {
  std::mutex mutex;
  bool joined = false;
  CommunicationOptions options;
  std::optional<int> gpu;
  std::shared_ptr<Processes> processes;
};

Program& program() {
  static Program program;
  return program;
}

void require_gpu(CommunicationImplementation implementation, std::optional<int> gpu) {
  if (implementation == CommunicationImplementation::nccl && !gpu)
    throw Error(
        ErrorCode::invalid_argument,
        "CommunicationImplementation::nccl adds in the memory of GPUs, and what communicates here has none; take "
        "auto_, which adds in shared memory on one host, and over the ring between hosts");
}

// Whether `tutti launch` gave this process memory that it shares with all the others.
bool has_launched_memory() {
  const auto environment = cluster::Environment::of_process();
  return environment.has("TUTTI_CLUSTER") &&
         cluster::LaunchRecord::parse(environment.text("TUTTI_CLUSTER")).memory >= 0;
}

ClusterGroupOptions group_options(const CommunicationOptions& options) {
  using Way = ClusterGroupOptions::Way;
  ClusterGroupOptions result;
  if (options.timeout) result.timeout = *options.timeout;
  if (options.implementation == CommunicationImplementation::ring) result.way = Way::ring;
  if (options.implementation == CommunicationImplementation::shared_memory) result.way = Way::shared_memory;
  if (options.implementation == CommunicationImplementation::mpi) result.way = Way::mpi;
  return result;
}

// Of this process alone.
std::unique_ptr<Group> group_of_one() { return shared_memory_group(create_group_memory(1).number(), 0, {}); }

std::unique_ptr<Group> group_of(cluster::Cluster& cluster, const CommunicationOptions& options) {
  if (cluster.is_newcomer()) return group_of_one();
  const ClusterGroupOptions found = group_options(options);
  const bool may_share_memory =
      found.way == ClusterGroupOptions::Way::automatic || found.way == ClusterGroupOptions::Way::shared_memory;
  if (may_share_memory && has_launched_memory()) return launched_group({.timeout = found.timeout});
  return cluster_group(cluster, found);
}

// With a GPU, this member of a group of host memory as one that moves that GPU's memory too.
std::unique_ptr<Group> with_gpu(std::unique_ptr<Group> group, std::optional<int> gpu,
                                const CommunicationOptions& options) {
  if (!gpu) return group;
  return nccl_group(std::move(group), gpu_device(*gpu), {.timeout = group_options(options).timeout});
}

bool is_loss(ErrorCode code) {
  return code == ErrorCode::unavailable || code == ErrorCode::deadline_exceeded || code == ErrorCode::cancelled;
}

bool names_others(ErrorCode code) { return is_loss(code) || code == ErrorCode::failed_precondition; }

}  // namespace

Processes::Processes(std::unique_ptr<Group> group, std::shared_ptr<cluster::Cluster> cluster,
                     CommunicationOptions options, std::optional<int> gpu)
    : cluster_(std::move(cluster)), group_(std::move(group)), options_(options), gpu_(gpu) {
  if (cluster_ && cluster_->is_newcomer())
    tasks_ = {cluster_->task()};
  else if (cluster_)
    tasks_ = cluster::training_tasks(cluster_->spec());
  if (cluster_) cluster_->ask_place([this] { return place_.text(); });
}

Processes::~Processes() {
  if (cluster_) cluster_->ask_place({});
}

void Processes::Place::enter(const Collective& entered) {
  const std::lock_guard lock(mutex);
  call = entered;
  name[std::string_view(entered.name).copy(name, sizeof name - 1)] = '\0';  // the caller's may end with the call
  call.name = name;
  ++number;
  is_in = true;
}

void Processes::Place::leave() {
  const std::lock_guard lock(mutex);
  is_in = false;
}

std::string Processes::Place::text() {
  const std::lock_guard lock(mutex);
  return is_in ? str("in call ", number, ", ", to_string(call)) : std::string();
}

std::shared_ptr<Processes> Processes::join(const CommunicationOptions& options,
                                           std::chrono::milliseconds connect_timeout, std::optional<int> gpu) {
  require_gpu(options.implementation, gpu);
  Program& own = program();
  const std::lock_guard lock(own.mutex);
  if (own.joined) {
    if (own.options != options || own.gpu != gpu)
      throw Error(
          ErrorCode::failed_precondition,
          "the processes of this program have met with other CommunicationOptions, or with another first GPU for "
          "NCCL; give every strategy the same");
    return own.processes;
  }
  const auto cluster = cluster::Cluster::join({.connect_timeout = connect_timeout});
  if (cluster::worker_count(cluster->spec(), cluster->task().type) > 1) {
    auto group = group_of(*cluster, options);
    if (!cluster->is_newcomer()) group = with_gpu(std::move(group), gpu, options);
    own.processes = std::make_shared<Processes>(std::move(group), cluster, options, gpu);
  }
  if (options.implementation == CommunicationImplementation::mpi || gpu)
    std::atexit([] { program().processes.reset(); });  // goodbye before MPI and CUDA end, which they do at exit as well
  own.options = options;
  own.gpu = gpu;
  own.joined = true;
  return own.processes;
}

std::shared_ptr<Processes> Processes::of_program() {
  const std::lock_guard lock(program().mutex);
  return program().processes;
}

std::string Processes::task_name(int rank) const {
  return tasks_.empty() ? str("process ", rank) : to_string(tasks_.at(static_cast<size_t>(rank)));
}

void Processes::run(const Collective& call) {
  const std::lock_guard lock(turn_);
  struct Entered {
    Place& place;
    ~Entered() { place.leave(); }
  } entered{place_};
  place_.enter(call);
  try {
    group_->run(call);
  } catch (const Error& error) {
    if (!names_others(error.code())) throw;
    has_lost_ = has_lost_ || is_loss(error.code());
    throw Error(error.code(), str(error.what(), fates(error.code())), error.location());
  }
}

std::vector<std::string> Processes::regroup(const std::string& brought, int fewest, std::chrono::milliseconds timeout) {
  const std::lock_guard lock(turn_);
  has_lost_ = false;  // where no group is formed, there is nothing to be done again
  cluster::Regrouping formed = cluster_->regroup(brought, fewest, timeout);
  has_lost_ = true;  // until its members have met
  ClusterGroupOptions options = group_options(options_);
  options.name = str("training ", formed.number);
  options.members = formed.members;
  auto group = with_gpu(cluster_group(*cluster_, options), gpu_, options_);
  ++num_regroupings_;
  group_ = std::move(group);  // the last one ends when nobody is in one of its calls any more
  tasks_ = std::move(formed.members);
  has_lost_ = false;
  return std::move(formed.brought);
}

// Who the ranks are, and what became of them, for messages.
std::string Processes::fates(ErrorCode code) {
  std::string text;
  for (int rank = 0; rank < size(); ++rank)
    text += str(rank == 0 ? "; rank " : ", rank ", rank, " is ", task_name(rank));
  if (!cluster_) return text;
  try {
    if (code == ErrorCode::unavailable)
      cluster_->barrier("why a process is lost", kTimeOfCause);  // is told, and throws
    if (code != ErrorCode::deadline_exceeded) return text;
    std::string members = cluster_->describe_members();
    while (members.ends_with('\n')) members.pop_back();
    for (const char c : "; " + members) text += c == '\n' ? ", " : std::string(1, c);
  } catch (const Error& error) {
    text += str("; ", error.what());
  }
  return text;
}

void Processes::sum(std::span<int64_t> numbers, const char* name, Location where) {
  run({.kind = CollectiveKind::all_reduce,
       .dtype = Dtype::int64,
       .count = static_cast<int64_t>(numbers.size()),
       .input = numbers.data(),
       .output = numbers.data(),
       .name = name,
       .where = where});
}

std::vector<std::vector<uint8_t>> Processes::gather(std::span<const uint8_t> own, const char* name, Location where) {
  const auto ranks = static_cast<size_t>(size());
  const auto all_gather = [&](std::vector<uint8_t> part, size_t bytes) {
    std::vector<uint8_t> all(ranks * bytes);
    part.resize(bytes);
    run({.kind = CollectiveKind::all_gather,
         .dtype = Dtype::uint8,
         .count = static_cast<int64_t>(bytes),
         .input = part.data(),
         .output = all.data(),
         .name = name,
         .where = where});
    return all;
  };
  ByteWriter head;
  head.number(static_cast<int64_t>(own.size()));
  const size_t in_head = std::min<size_t>(own.size(), kShortBytes);
  head.raw(own.data(), in_head);
  const size_t head_bytes = sizeof(int64_t) + kShortBytes;
  const std::vector<uint8_t> heads = all_gather(head.bytes(), head_bytes);
  std::vector<std::vector<uint8_t>> all;
  size_t longest = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    ByteReader reader({heads.data() + rank * head_bytes, head_bytes}, name);
    const auto bytes = static_cast<size_t>(reader.number());
    all.emplace_back(bytes);
    std::copy_n(heads.data() + rank * head_bytes + sizeof(int64_t), std::min<size_t>(bytes, kShortBytes),
                all.back().data());
    longest = std::max(longest, bytes);
  }
  if (longest <= kShortBytes) return all;
  const size_t rest = longest - kShortBytes;
  const std::vector<uint8_t> rests = all_gather({own.begin() + static_cast<std::ptrdiff_t>(in_head), own.end()}, rest);
  for (size_t rank = 0; rank < ranks; ++rank)
    if (all[rank].size() > kShortBytes)
      std::copy_n(rests.data() + rank * rest, all[rank].size() - kShortBytes, all[rank].data() + kShortBytes);
  return all;
}

std::string Processes::on_chief(const char* name, FunctionRef<std::string()> f, Location where) {
  std::string text;
  std::optional<ErrorCode> failed;
  std::exception_ptr thrown;
  if (is_chief()) try {
      text = f();
    } catch (const Error& error) {
      thrown = std::current_exception();
      failed = error.code();
      text = error.what();
    } catch (const std::exception& error) {
      thrown = std::current_exception();
      failed = ErrorCode::cancelled;
      text = error.what();
    }
  ByteWriter writer;
  if (is_chief()) {
    writer.number(failed ? static_cast<int64_t>(*failed) : -1);
    writer.text(text);
  }
  const std::vector<uint8_t> told = gather(writer.bytes(), name, where)[0];
  if (thrown) std::rethrow_exception(thrown);
  ByteReader reader(told, name);
  const int64_t code = reader.number();
  text = reader.text();
  if (code >= 0) throw Error(static_cast<ErrorCode>(code), str(task_name(0), " failed: ", text), where);
  return text;
}

std::string on_chief(const std::shared_ptr<Processes>& processes, const char* name, FunctionRef<std::string()> f,
                     std::source_location where) {
  return processes ? processes->on_chief(name, f, where) : f();
}

}  // namespace tutti
