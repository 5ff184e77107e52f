#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "tutti/core/function_ref.h"
#include "tutti/distribute/servers/long_message.h"
#include "tutti/distribute/servers/message.h"
#include "tutti/distribute/servers/served_state.h"

namespace tutti::servers {

// What a worker or the coordinator asks of the servers. Threads: any; requests go one after the other.
//
// Where `renew` connects to a server again whose connection was lost, the request is sent once more: nobody knows
// whether it, or its answer, was lost. A server that gets one twice makes its update once.
class ServerRequests {
 public:
  using Renew = std::function<void(int server)>;  // throws what went wrong
  static constexpr int kMaxRenewals = 100;        // of one server, which answers nothing in them

  ServerRequests(const std::vector<std::unique_ptr<Link>>& servers, Renew renew)
      : servers_(servers), renew_(std::move(renew)) {}

  int num_servers() const { return static_cast<int>(servers_.size()); }
  // Sends what `write` makes for each server, at once, and gives what each answers to `read`, which reads all of it.
  // Nothing is sent where `write` makes nothing. The parts of messages stay until then. Throws: ServerLost; the first
  // error that a server answers, once all have.
  void ask(FunctionRef<std::optional<LongMessage>(int server)> write,
           FunctionRef<void(int server, ByteReader& reader)> read);
  // The same; `read` may keep an answer.
  void ask(FunctionRef<std::optional<LongMessage>(int server)> write,
           FunctionRef<void(int server, ByteReader& reader, const Incoming& answer)> read);

 private:
  Incoming receive(int server, const LongMessage& request);

  const std::vector<std::unique_ptr<Link>>& servers_;
  const Renew renew_;
  std::mutex mutex_;
};

// Connects to a server again, whose connection was lost by that. Throws: ServerLost where it cannot be reached.
void connect_again(const ServerRequests::Renew& renew, int server, const Error& lost);

// The versions that a task knows of the tensors of each server; 0: none.
class KnownVersions {
 public:
  uint64_t& of(int tensor, int server) {
    const auto place = static_cast<size_t>(tensor);
    if (versions_.size() <= place) versions_.resize(place + 1);
    auto& versions = versions_[place];
    if (versions.size() <= static_cast<size_t>(server)) versions.resize(static_cast<size_t>(server) + 1, 0);
    return versions[static_cast<size_t>(server)];
  }
  void forget(int tensor) {
    if (static_cast<size_t>(tensor) < versions_.size()) versions_[static_cast<size_t>(tensor)].clear();
  }

 private:
  std::vector<std::vector<uint64_t>> versions_;
};

// What a pull asks of a server: those of the tensors that it has rows of, unless it is the known version that it has.
void write_pull(LongMessage& message, const ServedState& state, KnownVersions& known, std::span<const int> tensors,
                int server);
// What a server answers to that: calls `memory(tensor)`, for tensors that changed, for where they go.
void read_pull(ByteReader& reader, const ServedState& state, KnownVersions& known, std::span<const int> tensors,
               int server, FunctionRef<char*(int tensor)> memory);
// Whether a server has rows of a tensor; of any.
bool is_on(const ServedState& state, int tensor, int server);
bool has_any(const ServedState& state, std::span<const int> tensors, int server);

}  // namespace tutti::servers
