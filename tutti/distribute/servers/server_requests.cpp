#include "tutti/distribute/servers/server_requests.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "tutti/core/log.h"
#include "tutti/core/str.h"

namespace tutti::servers {

void ServerRequests::ask(FunctionRef<std::optional<LongMessage>(int server)> write,
                         FunctionRef<void(int server, ByteReader& reader)> read) {
  ask(write, [&](int server, ByteReader& reader, const Incoming&) { read(server, reader); });
}

void ServerRequests::ask(FunctionRef<std::optional<LongMessage>(int server)> write,
                         FunctionRef<void(int server, ByteReader& reader, const Incoming& answer)> read) {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<int, LongMessage>> asked;
  for (int server = 0; server < num_servers(); ++server)
    if (auto request = write(server)) {
      asked.emplace_back(server, *std::move(request));
      servers_[static_cast<size_t>(server)]->send(asked.back().second);
    }
  std::exception_ptr failure;  // all answers are taken, so that the next request gets its own
  for (const auto& [server, request] : asked) {
    const Incoming answer = receive(server, request);
    try {
      ByteReader reader(answer, "the answer of a server");
      require_done(reader);
      read(server, reader, answer);
      reader.finish();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

// The answer to what was sent, over as many connections as it takes, as long as there is a new one. A server that has
// answered nothing in kMaxRenewals of them gets no more.
Incoming ServerRequests::receive(int server, const LongMessage& request) {
  Link& link = *servers_[static_cast<size_t>(server)];
  for (int renewals = 0;; ++renewals) {
    try {
      return link.receive();
    } catch (const Error& error) {
      if (renewals == kMaxRenewals)
        throw ServerLost(Error(error.code(), str(error.what(), ", as after each of ", renewals, " new connections")));
      connect_again(renew_, server, error);
    }
    link.send(request);
  }
}

void connect_again(const ServerRequests::Renew& renew, int server, const Error& lost) {
  try {
    renew(server);
  } catch (const Error& why) {
    throw ServerLost(Error(lost.code(), str(lost.what(), " (it cannot be reached again: ", why.what(), ')')));
  }
  warn(str(lost.what(), "; it is connected to again"));
}

bool is_on(const ServedState& state, int tensor, int server) {
  return std::ranges::any_of(state[tensor].shards, [&](const Shard& shard) { return shard.server == server; });
}

bool has_any(const ServedState& state, std::span<const int> tensors, int server) {
  return std::ranges::any_of(tensors, [&](int tensor) { return is_on(state, tensor, server); });
}

void write_pull(LongMessage& message, const ServedState& state, KnownVersions& known, std::span<const int> tensors,
                int server) {
  message.number(std::ranges::count_if(tensors, [&](int tensor) { return is_on(state, tensor, server); }));
  for (const int tensor : tensors) {
    if (!is_on(state, tensor, server)) continue;
    message.number(tensor);
    message.number(static_cast<int64_t>(known.of(tensor, server)));
  }
}

void read_pull(ByteReader& reader, const ServedState& state, KnownVersions& known, std::span<const int> tensors,
               int server, FunctionRef<char*(int tensor)> memory) {
  for (const int tensor : tensors) {
    if (!is_on(state, tensor, server)) continue;
    const auto version = static_cast<uint64_t>(reader.number());
    if (version == known.of(tensor, server)) continue;
    if (state.bytes_on(tensor, server) > reader.left()) reader.damaged("a value ends too early");
    state.take(reader, tensor, server, memory(tensor));
    known.of(tensor, server) = version;
  }
}

}  // namespace tutti::servers
