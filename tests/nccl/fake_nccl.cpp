// A libnccl.so.2 for tests, in the memory of one process, whose members are threads. It is like NCCL in what a caller
// may build on: its calls return before anything was done, and are taken over later; what they move is moved on the
// stream that they were given and on no other; sums are taken in another order than that of the ranks, and 16-bit
// numbers rounded at each step; a member that is gone leaves the others waiting. What NCCL would be undone by, it
// complains of: see fake_nccl_complaint. It chooses no way, and says nothing of how fast or exact NCCL is.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/nccl/fake_sums.h"
#include "tests/support/nccl_fault.h"
#include "tests/support/simulated_stream.h"
#include "tutti/collectives/local/half.h"
#include "tutti/collectives/nccl/abi.h"

namespace tutti::nccl::abi {
namespace {

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, send, receive };
constexpr const char* kNames[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast", "Send", "Recv"};

struct Request {
  Kind kind = Kind::all_reduce;
  const void* input = nullptr;
  void* output = nullptr;
  size_t count = 0;
  DataType type = DataType::uint8;
  Reduction reduction = kSum;
  int peer = 0;
  SimulatedStream* stream = nullptr;
};

// One collective of all members.
struct Meeting {
  std::vector<const Request*> requests = {};  // by rank
  std::vector<double> scales = {};
  int num_arrived = 0, num_left = 0;
  bool is_done = false, is_broken = false;  // a member was aborted in it
};
struct Transfer {
  const void* from = nullptr;
  void* to = nullptr;
  size_t size = 0;
  bool is_done = false;
};
struct Channel {
  std::deque<Transfer*> sends = {}, receives = {};
};

// The members that were given one id.
struct Clique {
  int size = 0;
  std::vector<Communicator*> members = {};  // that have joined; by rank
  int num_joined = 0;
  std::map<uint64_t, Meeting> meetings = {};
  std::map<std::pair<int, int>, Channel> channels = {};  // by sender and receiver
};

}  // namespace

struct Communicator {
  std::shared_ptr<Clique> clique;
  int rank = 0, device = 0;
  Result state = Result::success;
  bool is_aborted = false, is_finalized = false;
  std::vector<Request> begun = {};  // not on the stream yet
  int looks_left = 0;               // until it is put there
  int num_running = 0;              // on the stream, of which the stream has come to
  int num_inside = 0;
  uint64_t num_collectives = 0;
  std::map<Reduction, double> scales = {};
  Reduction last_reduction = 100;
  uint64_t caller = 0;  // the thread that last called for it outside of a group
};

namespace {

// Of everything here; no call is so short that it would matter.
struct Fake {
  std::mutex mutex;
  std::condition_variable changed;
  NcclFault fault = NcclFault::none;
  int fault_rank = -1, version = 22907;
  int (*ask_device)() = nullptr;
  void* (*see)(const void*) = nullptr;  // what lies in a device's memory
  int (*place)(const void*) = nullptr;  // the device whose memory it is; -1: the host's
  uint64_t num_ids = 0;
  std::map<uint64_t, std::shared_ptr<Clique>> cliques;
  std::map<Communicator*, std::shared_ptr<Communicator>> alive;
  int num_aborted = 0;
  std::string complaint, calls, last_error;

  bool has(NcclFault asked, int rank) const { return fault == asked && (fault_rank == -1 || fault_rank == rank); }
  Result complain(const std::string& text) {
    if (complaint.empty()) complaint = text;
    return Result::invalid_usage;
  }
  std::shared_ptr<Communicator> find(Communicator* handle) {
    const auto found = alive.find(handle);
    if (found != alive.end()) return found->second;
    complain("a communicator is used that is not there");
    return nullptr;
  }
};

Fake& fake() {
  static auto& all = *new Fake;  // streams go on while the process ends
  return all;
}

// What the calling thread has begun in a group.
struct Group {
  int depth = 0;
  std::map<Communicator*, std::vector<Request>> requests = {};
  std::string names = {};
};
thread_local Group group;

// A thread that waited for one member's call would not come to make the other's.
bool is_called_for_two(Communicator& member) {
  static std::atomic<uint64_t> num_threads = 0;
  thread_local const uint64_t number = ++num_threads;
  if (group.depth > 0) return false;
  member.caller = number;
  for (const Communicator* other : member.clique->members)
    if (other && other != &member && other->caller == number) return true;
  return false;
}
constexpr const char* kCalledForTwo = "a thread calls for two members outside of a group";

// All have come, and nobody goes on before this is done.
void compute(const Meeting& meeting) {
  const Request& first = *meeting.requests[0];
  for (const Request* each : meeting.requests)
    if (each->kind != first.kind || each->count != first.count || each->type != first.type ||
        (each->reduction == kSum) != (first.reduction == kSum) || each->peer != first.peer) {
      fake().complain("members make different calls");
      return;
    }
  const size_t bytes = first.count * size_of(first.type), members = meeting.requests.size();
  std::vector<Summand> summands;
  for (size_t rank = 0; rank < members; ++rank)
    summands.push_back({meeting.requests[rank]->input, meeting.scales[rank]});
  std::vector<std::vector<std::byte>> results(members);  // no output is written while another's input is still read
  for (size_t rank = 0; rank < members; ++rank) {
    const auto input = [&](size_t member) { return static_cast<const std::byte*>(meeting.requests[member]->input); };
    results[rank].resize(first.kind == Kind::all_gather ? bytes * members : bytes);
    std::byte* const result = results[rank].data();
    if (first.kind == Kind::all_reduce && rank > 0) results[rank] = results[0];
    if (first.kind == Kind::all_reduce && rank == 0) sum(summands, first.type, 0, first.count, result);
    if (first.kind == Kind::reduce_scatter) sum(summands, first.type, rank * first.count, first.count, result);
    if (first.kind == Kind::broadcast) std::memcpy(result, input(static_cast<size_t>(first.peer)), bytes);
    for (size_t member = 0; first.kind == Kind::all_gather && member < members; ++member)
      std::memcpy(result + member * bytes, input(member), bytes);
  }
  for (size_t rank = 0; rank < members; ++rank)
    std::memcpy(meeting.requests[rank]->output, results[rank].data(), results[rank].size());
}

void match(Channel& channel) {
  while (!channel.sends.empty() && !channel.receives.empty()) {
    Transfer &send = *channel.sends.front(), &receive = *channel.receives.front();
    channel.sends.pop_front();
    channel.receives.pop_front();
    if (send.size != receive.size) fake().complain("a receive is of another size than its send");
    std::memcpy(receive.to, send.from, std::min(send.size, receive.size));
    send.is_done = receive.is_done = true;
  }
}

using Lock = std::unique_lock<std::mutex>;

void meet(Lock& lock, Communicator& member, const Request& request) {
  Clique& clique = *member.clique;
  const auto rank = static_cast<size_t>(member.rank);
  const uint64_t number = member.num_collectives++;
  Meeting& meeting = clique.meetings[number];
  meeting.requests.resize(static_cast<size_t>(clique.size));
  meeting.scales.resize(meeting.requests.size(), 1);
  meeting.requests[rank] = &request;
  if (request.reduction != kSum) meeting.scales[rank] = member.scales.at(request.reduction);
  if (++meeting.num_arrived == clique.size && !meeting.is_broken) {
    compute(meeting);
    meeting.is_done = true;
    fake().changed.notify_all();
  }
  fake().changed.wait(lock, [&] { return meeting.is_done || member.is_aborted; });
  if (!meeting.is_done) meeting.is_broken = true;
  if (++meeting.num_left == clique.size) clique.meetings.erase(number);
}

// What a member has begun at once.
struct Work {
  std::shared_ptr<Communicator> member;
  std::vector<Request> requests;
};

void run(Lock& lock, const Work& work) {
  Communicator& member = *work.member;
  std::deque<Transfer> transfers;
  for (const Request& request : work.requests) {
    const size_t bytes = request.count * size_of(request.type);
    if (request.kind == Kind::send) {
      Channel& channel = member.clique->channels[{member.rank, request.peer}];
      channel.sends.push_back(&transfers.emplace_back(Transfer{.from = request.input, .size = bytes}));
      match(channel);
    } else if (request.kind == Kind::receive) {
      Channel& channel = member.clique->channels[{request.peer, member.rank}];
      channel.receives.push_back(&transfers.emplace_back(Transfer{.to = request.output, .size = bytes}));
      match(channel);
    } else {
      meet(lock, member, request);
    }
  }
  fake().changed.notify_all();
  const auto are_done = [&] {
    for (const Transfer& transfer : transfers)
      if (!transfer.is_done) return false;
    return true;
  };
  fake().changed.wait(lock, [&] { return are_done() || member.is_aborted; });
  for (auto& [ends, channel] : member.clique->channels)
    for (const Transfer& transfer : transfers) {
      std::erase(channel.sends, &transfer);
      std::erase(channel.receives, &transfer);
    }
}

void run_on_stream(void* argument) {
  const std::unique_ptr<Work> work(static_cast<Work*>(argument));
  Lock lock(fake().mutex);
  Communicator& member = *work->member;
  ++member.num_inside;
  if (fake().has(NcclFault::failed_on_device, member.rank)) member.state = Result::remote_error;
  if (fake().has(NcclFault::failed_on_device, member.rank) || fake().has(NcclFault::endless_call, member.rank))
    fake().changed.wait(lock, [&] { return member.is_aborted; });
  else if (!member.is_aborted)
    run(lock, *work);
  --member.num_inside;
  --member.num_running;
  fake().changed.notify_all();
}

// Where this library finds what a device has in its memory. Returns whether it is the member's own device.
bool find_memory(const Communicator& member, const void*& pointer) {
  const int device = pointer && fake().place ? fake().place(pointer) : -1;
  if (device >= 0) pointer = fake().see(pointer);
  return device < 0 || device == member.device;
}

Result begin(Communicator& member, std::vector<Request> requests) {
  if (member.clique->num_joined < member.clique->size) return fake().complain("a call before all have joined");
  if (!member.begun.empty()) return fake().complain("a call before the last one was taken over");
  for (Request& request : requests) {
    const void* output = request.output;
    if (!find_memory(member, request.input) || !find_memory(member, output))
      return fake().complain("a call with another device's memory");
    request.output = const_cast<void*>(output);
    if (!request.stream) return fake().complain("a call on no stream");
    if (request.stream->device != member.device) return fake().complain("a call on another device's stream");
    if (request.stream != requests[0].stream) return fake().complain("a group of calls on several streams");
    if (!request.input && !request.output) return fake().complain("a call without memory");
    if (request.peer < 0 || request.peer >= member.clique->size) return fake().complain("a call to nobody");
  }
  if (fake().has(NcclFault::failed_call, member.rank)) {
    fake().last_error = "Call to ibv_reg_mr failed";
    return Result::system_error;
  }
  member.begun = std::move(requests);
  member.looks_left = 2;
  return Result::in_progress;
}

Result start(Communicator* handle, const Request& request) {
  const std::string name = std::string(" nccl") + kNames[static_cast<size_t>(request.kind)];
  const Lock lock(fake().mutex);
  const auto member = fake().find(handle);
  if (!member) return Result::invalid_argument;
  if (group.depth > 0) {
    group.names += name;
    group.requests[handle].push_back(request);
    return Result::success;
  }
  if (is_called_for_two(*member)) return fake().complain(kCalledForTwo);
  if (member->rank == 0) fake().calls += name;
  return begin(*member, {request});
}

void take_over(const std::shared_ptr<Communicator>& member) {
  SimulatedStream* const stream = member->begun[0].stream;
  ++member->num_running;
  auto work = std::make_unique<Work>(Work{member, std::exchange(member->begun, {})});
  stream->enqueue(stream, run_on_stream, work.release());
}

Result state_of(const std::shared_ptr<Communicator>& member) {
  const Clique& clique = *member->clique;
  if (member->state != Result::success) return member->state;
  if (fake().has(NcclFault::failed_join, member->rank)) return Result::system_error;
  if (clique.num_joined < clique.size || fake().has(NcclFault::endless_join, member->rank)) return Result::in_progress;
  if (!member->begun.empty()) {
    if (--member->looks_left > 0) return Result::in_progress;
    if (fake().has(NcclFault::failed_settling, member->rank)) return member->state = Result::unhandled_cuda_error;
    take_over(member);
    return Result::in_progress;
  }
  if (member->is_finalized && fake().has(NcclFault::endless_leave, member->rank)) return Result::in_progress;
  return Result::success;
}

// Two members on one device: none of them can go on.
void find_duplicates(Clique& clique, const Communicator& joining) {
  for (const Communicator* other : clique.members) {
    if (!other || other == &joining || other->device != joining.device) continue;
    std::ostringstream text;
    text << "Duplicate GPU detected : rank " << joining.rank << " and rank " << other->rank << " both on CUDA device "
         << joining.device;
    fake().last_error = text.str();
    for (Communicator* each : clique.members)
      if (each) each->state = Result::invalid_usage;
  }
}

Result end(Communicator* handle, bool aborts) {
  Lock lock(fake().mutex);
  const auto member = fake().find(handle);
  if (!member) return Result::invalid_argument;
  if (!aborts && !member->is_finalized) fake().complain("a communicator is destroyed that was not finalized");
  if (!aborts && member->num_running > 0) fake().complain("a communicator is destroyed while it works");
  member->is_aborted = true;
  member->begun.clear();
  member->clique->members[static_cast<size_t>(member->rank)] = nullptr;
  fake().num_aborted += aborts ? 1 : 0;
  fake().alive.erase(handle);
  fake().changed.notify_all();
  fake().changed.wait(lock, [&] { return member->num_inside == 0; });  // what it had may be given back now
  return !aborts && fake().has(NcclFault::failed_destroy, member->rank) ? Result::internal_error : Result::success;
}

}  // namespace

extern "C" {

Result ncclGetVersion(int* version) {
  const Lock lock(fake().mutex);
  *version = fake().version;
  return Result::success;
}

Result ncclGetUniqueId(UniqueId* id) {
  const Lock lock(fake().mutex);
  if (fake().has(NcclFault::no_id, -1)) return Result::system_error;
  const uint64_t number = ++fake().num_ids;
  fake().cliques[number] = std::make_shared<Clique>();
  *id = {};
  std::memcpy(id->bytes, &number, sizeof number);
  return Result::success;
}

Result ncclCommInitRankConfig(Communicator** made, int size, UniqueId id, int rank, Config* config) {
  const Lock lock(fake().mutex);
  *made = nullptr;
  if (config->magic != 0xcafebeef || config->size != 24 || config->version < 21400 || config->blocking != 0)
    return fake().complain("a configuration that is not what this fake is for");
  if (fake().has(NcclFault::failed_start, rank)) return Result::unhandled_cuda_error;
  uint64_t number = 0;
  std::memcpy(&number, id.bytes, sizeof number);
  const auto found = fake().cliques.find(number);
  if (found == fake().cliques.end()) return fake().complain("an id that was not given");
  Clique& clique = *found->second;
  if (clique.size == 0) {
    clique.size = size;
    clique.members.resize(static_cast<size_t>(size));
  }
  if (clique.size != size || rank < 0 || rank >= size || clique.members[static_cast<size_t>(rank)])
    return fake().complain("a rank that does not fit");
  auto member = std::make_shared<Communicator>(Communicator{found->second, rank, fake().ask_device()});
  if (is_called_for_two(*member)) return fake().complain(kCalledForTwo);
  *made = clique.members[static_cast<size_t>(rank)] = member.get();
  ++clique.num_joined;
  find_duplicates(clique, *member);
  fake().alive[member.get()] = std::move(member);
  return Result::in_progress;
}

Result ncclCommGetAsyncError(Communicator* handle, Result* state) {
  const Lock lock(fake().mutex);
  const auto member = fake().find(handle);
  if (!member) return Result::invalid_argument;
  *state = state_of(member);
  return Result::success;
}

Result ncclCommFinalize(Communicator* handle) {
  const Lock lock(fake().mutex);
  const auto member = fake().find(handle);
  if (!member) return Result::invalid_argument;
  if (fake().has(NcclFault::failed_leave, member->rank)) return Result::system_error;
  if (std::exchange(member->is_finalized, true)) return fake().complain("a communicator is finalized twice");
  return Result::in_progress;
}

Result ncclCommDestroy(Communicator* handle) { return end(handle, false); }
Result ncclCommAbort(Communicator* handle) { return end(handle, true); }

const char* ncclGetErrorString(Result result) {
  switch (result) {
    case Result::unhandled_cuda_error: return "unhandled cuda error";
    case Result::system_error: return "unhandled system error";
    case Result::internal_error: return "internal error";
    case Result::invalid_usage: return "invalid usage";
    case Result::remote_error: return "remote process exited or there was a network error";
    default: return "another error";
  }
}
const char* ncclGetLastError(Communicator*) {
  thread_local std::string text;
  const Lock lock(fake().mutex);
  return (text = fake().last_error).c_str();
}

Result ncclAllReduce(const void* input, void* output, size_t count, DataType type, Reduction reduction,
                     Communicator* member, Stream stream) {
  return start(member, {.kind = Kind::all_reduce,
                        .input = input,
                        .output = output,
                        .count = count,
                        .type = type,
                        .reduction = reduction,
                        .stream = static_cast<SimulatedStream*>(stream)});
}
Result ncclReduceScatter(const void* input, void* output, size_t count, DataType type, Reduction reduction,
                         Communicator* member, Stream stream) {
  return start(member, {.kind = Kind::reduce_scatter,
                        .input = input,
                        .output = output,
                        .count = count,
                        .type = type,
                        .reduction = reduction,
                        .stream = static_cast<SimulatedStream*>(stream)});
}
Result ncclAllGather(const void* input, void* output, size_t count, DataType type, Communicator* member,
                     Stream stream) {
  return start(member, {.kind = Kind::all_gather,
                        .input = input,
                        .output = output,
                        .count = count,
                        .type = type,
                        .stream = static_cast<SimulatedStream*>(stream)});
}
Result ncclBroadcast(const void* input, void* output, size_t count, DataType type, int root, Communicator* member,
                     Stream stream) {
  return start(member, {.kind = Kind::broadcast,
                        .input = input,
                        .output = output,
                        .count = count,
                        .type = type,
                        .peer = root,
                        .stream = static_cast<SimulatedStream*>(stream)});
}
Result ncclSend(const void* input, size_t count, DataType type, int peer, Communicator* member, Stream stream) {
  return start(member, {.kind = Kind::send,
                        .input = input,
                        .count = count,
                        .type = type,
                        .peer = peer,
                        .stream = static_cast<SimulatedStream*>(stream)});
}
Result ncclRecv(void* output, size_t count, DataType type, int peer, Communicator* member, Stream stream) {
  return start(member, {.kind = Kind::receive,
                        .output = output,
                        .count = count,
                        .type = type,
                        .peer = peer,
                        .stream = static_cast<SimulatedStream*>(stream)});
}

Result ncclGroupStart() {
  if (group.depth++ == 0) group = {.depth = 1, .names = " ncclGroupStart"};
  return Result::success;
}
Result ncclGroupEnd() {
  const Lock lock(fake().mutex);
  if (group.depth == 0) return fake().complain("a group ends that was not begun");
  if (--group.depth > 0) return Result::success;
  Result result = Result::success;
  for (auto& [handle, requests] : std::exchange(group.requests, {})) {
    const auto member = fake().find(handle);
    if (!member) return Result::invalid_argument;
    if (member->rank == 0) fake().calls += group.names + " ncclGroupEnd";
    const Result begun = begin(*member, std::move(requests));
    if (result == Result::success || result == Result::in_progress) result = begun;
  }
  return result;
}

Result ncclRedOpCreatePreMulSum(Reduction* made, void* scalar, DataType type, Residence residence,
                                Communicator* handle) {
  const Lock lock(fake().mutex);
  const auto member = fake().find(handle);
  if (!member) return Result::invalid_argument;
  if (residence != Residence::host) return fake().complain("a scalar that this fake cannot read");
  double scale = 0;
  if (type == DataType::float64) scale = *static_cast<double*>(scalar);
  if (type == DataType::float32) scale = *static_cast<float*>(scalar);
  if (type == DataType::float16) scale = to_float(*static_cast<Half*>(scalar));
  if (type == DataType::bfloat16) scale = to_float(*static_cast<BFloat16*>(scalar));
  member->scales[*made = ++member->last_reduction] = scale;
  return Result::success;
}
Result ncclRedOpDestroy(Reduction, Communicator* handle) {
  const Lock lock(fake().mutex);
  return fake().find(handle) ? Result::success : Result::invalid_argument;
}

void fake_nccl_set(int fault, int rank) {
  const Lock lock(fake().mutex);
  fake().fault = static_cast<NcclFault>(fault);
  fake().fault_rank = rank;
}
void fake_nccl_set_version(int version) {
  const Lock lock(fake().mutex);
  fake().version = version;
}
void fake_nccl_show_devices(int (*ask_device)(), void* (*see)(const void*), int (*place)(const void*)) {
  fake().ask_device = ask_device;
  fake().see = see;
  fake().place = place;
}
int fake_nccl_num_alive() {
  const Lock lock(fake().mutex);
  return static_cast<int>(fake().alive.size());
}
int fake_nccl_num_aborted() {
  const Lock lock(fake().mutex);
  return fake().num_aborted;
}
// What was done wrong first; empty: nothing. To be freed, as the next one's result.
char* fake_nccl_complaint() {
  const Lock lock(fake().mutex);
  return strdup(fake().complaint.c_str());
}
void fake_nccl_forget_complaint() {
  const Lock lock(fake().mutex);
  fake().complaint.clear();
}
char* fake_nccl_calls() {
  const Lock lock(fake().mutex);
  return strdup(fake().calls.c_str());
}

}  // extern "C"

}  // namespace tutti::nccl::abi
