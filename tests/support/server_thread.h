#pragma once

#include <unistd.h>

#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/cluster/rpc/memory_stream.h"
#include "tutti/cluster/rpc/transport.h"
#include "tutti/core/str.h"
#include "tutti/distribute/servers/variable_server.h"

namespace tutti::testing_support {

// A thread of this process that answers another task as a server does, over a connection to it.
class ServerThread {
 public:
  ServerThread(servers::VariableServer& server, const cluster::Task& client, rpc::Carriage carriage) : server_(server) {
    std::promise<std::unique_ptr<rpc::Stream>> met;
    const std::string address = str("unix-abstract:tutti-server-thread-", getpid(), '-', ++count_);
    door_.emplace(address, rpc::Credentials{},
                  [&](std::unique_ptr<rpc::Stream> stream) { met.set_value(std::move(stream)); });
    auto near = rpc::connect(address, {}), far = met.get_future().get();
    if (carriage == rpc::Carriage::shared_memory) {
      auto memory = rpc::SharedMemory::create();
      auto opened = rpc::SharedMemory::open(memory->offer());
      near = rpc::share_memory(std::move(near), std::move(memory), 0);
      far = rpc::share_memory(std::move(far), std::move(opened), 1);
    }
    constexpr std::chrono::seconds kSilence(20);
    links_.push_back(std::make_unique<servers::Link>(cluster::Task{"ps", 0}, std::move(near), kSilence));
    thread_ = std::thread([this, link = std::make_shared<servers::Link>(client, std::move(far), kSilence)] {
      try {
        while (true) answer(*link);
      } catch (const Error&) {  // the client has gone
      }
    });
  }
  ~ServerThread() {
    links_.clear();
    thread_.join();
  }
  ServerThread(const ServerThread&) = delete;
  ServerThread& operator=(const ServerThread&) = delete;

  // The client's.
  const std::vector<std::unique_ptr<servers::Link>>& links() const { return links_; }
  // The kinds of requests since it was last called.
  std::vector<servers::Kind> asked() {
    const std::lock_guard lock(mutex_);
    return std::exchange(kinds_, {});
  }
  // The answer to another client, which is no error.
  servers::Bytes answer_other(const servers::Bytes& request) {
    const std::lock_guard lock(mutex_);
    servers::Bytes answered = server_.answer(request).bytes();
    ByteReader reader(answered, "an answer");
    servers::require_done(reader);
    return answered;
  }

 private:
  void answer(servers::Link& link) {
    const servers::Incoming request = link.receive();
    ByteReader reader(request, "a request");
    const servers::Kind kind = servers::read_kind(reader);
    const std::lock_guard lock(mutex_);
    kinds_.push_back(kind);
    link.send(server_.answer(request));
  }

  static inline int count_ = 0;
  servers::VariableServer& server_;
  std::optional<rpc::Server> door_;
  std::vector<std::unique_ptr<servers::Link>> links_;
  std::mutex mutex_;  // of the server and the next
  std::vector<servers::Kind> kinds_;
  std::thread thread_;
};

}  // namespace tutti::testing_support
