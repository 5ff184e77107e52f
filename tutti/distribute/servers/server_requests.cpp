#include "tutti/distribute/servers/server_requests.h"

#include <exception>
#include <utility>

#include "tutti/core/log.h"
#include "tutti/core/str.h"

namespace tutti::servers {
void ServerRequests::ask(FunctionRef<std::optional<Bytes>(int server)> write,
                         FunctionRef<void(int server, ByteReader& reader)> read) {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<int, std::shared_ptr<const Bytes>>> asked;
  for (int server = 0; server < num_servers(); ++server)
    if (auto request = write(server)) {
      asked.emplace_back(server, std::make_shared<const Bytes>(*std::move(request)));
      servers_[static_cast<size_t>(server)]->send(asked.back().second);
    }
  std::exception_ptr failure;  // all answers are taken, so that the next request gets its own
  for (const auto& [server, request] : asked) {
    const Bytes answer = receive(server, request);
    try {
      ByteReader reader(answer, "the answer of a server");
      require_done(reader);
      read(server, reader);
      reader.finish();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

// The answer to what was sent, over as many connections as it takes, as long as there is a new one. A server that has
// answered nothing in kMaxRenewals of them gets no more.
Bytes ServerRequests::receive(int server, const std::shared_ptr<const Bytes>& request) {
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

void pull_tensors(ServerRequests& requests, const ServedState& state, KnownVersions& known,
                  std::span<const int> tensors, FunctionRef<char*(int tensor)> memory) {
  const auto on = [&](int server) {
    std::vector<int> here;
    for (const int tensor : tensors)
      for (const Shard& shard : state[tensor].shards)
        if (shard.server == server) {
          here.push_back(tensor);
          break;
        }
    return here;
  };
  const auto write = [&](int server) -> std::optional<Bytes> {
    const auto here = on(server);
    if (here.empty()) return {};
    ByteWriter writer = message_of(Kind::pull);
    writer.number(static_cast<int64_t>(here.size()));
    for (const int tensor : here) {
      writer.number(tensor);
      writer.number(static_cast<int64_t>(known.of(tensor, server)));
    }
    return writer.bytes();
  };
  const auto read = [&](int server, ByteReader& reader) {
    for (const int tensor : on(server)) {
      const auto version = static_cast<uint64_t>(reader.number());
      if (version == known.of(tensor, server)) continue;
      if (state.bytes_on(tensor, server) > reader.left()) reader.damaged("a value ends too early");
      state.take(reader, tensor, server, memory(tensor));
      known.of(tensor, server) = version;
    }
  };
  requests.ask(write, read);
}

}  // namespace tutti::servers
