#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tutti/cluster/peer_hello.h"
#include "tutti/cluster/rpc/shared_memory.h"
#include "tutti/cluster/rpc/transport.h"
#include "tutti/cluster/security.h"
#include "tutti/core/error.h"

namespace tutti::cluster {

// Where the other tasks of a cluster reach this process: who comes has to prove that it belongs here before anything of
// it is believed, and then waits until it is taken. Strangers cost little: what they send is bounded, and they are gone
// after 5 s.
class Door {
 public:
  struct Visitor {
    PeerHello hello;
    std::unique_ptr<rpc::Stream> stream;
  };
  // Why a visitor that has proved itself is not let in after all; called by the door's own thread.
  using Judge = std::function<std::optional<Error>(const PeerHello& hello)>;
  using Clock = std::chrono::steady_clock;

  // Throws what rpc::Server throws.
  Door(const std::string& address, Security security, Judge judge);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  int port() const { return server_->port(); }
  // The next visitor for that purpose. Absent: none came before the deadline.
  std::optional<Visitor> take(const std::string& purpose, Clock::time_point deadline);
  // The same of one task.
  std::optional<Visitor> take(const Task& task, const std::string& purpose, Clock::time_point deadline);

 private:
  // One that has not proved itself, or was sent away and may still read why.
  struct Guest {
    std::unique_ptr<rpc::Stream> stream;
    Clock::time_point leaves_at;
    enum class Stage { greets, proves, leaves } stage = Stage::greets;
    PeerHello hello = {};
    std::vector<uint8_t> said = {};  // all that was, for the proofs
  };
  using IsWanted = std::function<bool(const PeerHello& hello)>;

  std::optional<Visitor> take(const IsWanted& is_wanted, Clock::time_point deadline);
  void meet(std::unique_ptr<rpc::Stream> stream);
  void run();
  bool stays(Guest& guest);
  void greet(Guest& guest, const rpc::Message& message);
  bool judge(Guest& guest, const rpc::Message& message);
  static std::unique_ptr<rpc::SharedMemory> open_memory(const PeerHello& hello, Verdict& verdict);
  static void send_away(Guest& guest, const Error& error);

  const Security security_;
  const Judge judge_;
  std::mutex mutex_;  // guards the next four; streams are not called under it
  std::condition_variable changed_;
  bool has_news_ = false, ends_ = false;
  std::vector<std::unique_ptr<rpc::Stream>> arrivals_;
  std::list<Visitor> visitors_;
  std::list<Guest> guests_;  // the thread's own
  std::unique_ptr<rpc::Server> server_;
  std::thread thread_;
};

// Goes to the door at that address, again and again while nobody is there, and proves who this process is; `whom` names
// it in messages. Throws: deadline_exceeded with what went wrong last, and what the door says of one that it refuses.
std::unique_ptr<rpc::Stream> knock(const std::string& address, const std::string& whom, const PeerHello& hello,
                                   const Security& security, std::chrono::milliseconds timeout,
                                   rpc::Carriage over = rpc::Carriage::sockets);

}  // namespace tutti::cluster
