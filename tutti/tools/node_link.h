#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tutti/cluster/door.h"
#include "tutti/tools/child_process.h"
#include "tutti/tools/node_message.h"

namespace tutti::tools {

// The way from this host's `tutti launch` to the first host's, which decides what becomes of processes that fail. It
// goes there on a thread of its own, as the first host may start later. For one thread.
class NodeLink {
 public:
  NodeLink(std::string leader, const cluster::PeerHello& hello, const cluster::Security& security);
  ~NodeLink();  // what was reported still arrives, for 2 s at most
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  void note_end(int worker, const ChildProcess& process);
  // What is to be done about one that has failed: an end where the first host does not answer for 30 s.
  Verdict judge(int worker, const ChildProcess& process);
  // Whether the others go on without it, though its process may be there.
  bool is_given_up(int worker);

 private:
  void report(int worker, const ChildProcess& process, bool wants_verdict);
  void hear(const rpc::Message& message);
  rpc::Stream* stream(std::chrono::steady_clock::time_point deadline);

  std::mutex mutex_;  // guards the next four
  std::condition_variable changed_;
  std::unique_ptr<rpc::Stream> stream_;      // null: not there yet
  std::vector<std::vector<uint8_t>> early_;  // reports from before that
  std::string failure_;                      // why it is not there
  std::atomic<bool> ends_ = false;
  std::set<int> given_up_;
  std::map<int, Verdict> verdicts_;
  std::thread thread_;
};

}  // namespace tutti::tools
