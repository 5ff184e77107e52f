#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tutti/cluster/network.h"
#include "tutti/tools/node_message.h"

namespace tutti::tools {

// On the first host of an elastic run: hears of the processes of the others, on a thread of its own, and tells their
// commands what is to be done.
class NodeHub {
 public:
  // Workers are numbered over all hosts, `per_node` on each.
  NodeHub(cluster::NetworkLeader& leader, LaunchPlaces& places, int num_nodes, int per_node);
  ~NodeHub();
  NodeHub(const NodeHub&) = delete;
  NodeHub& operator=(const NodeHub&) = delete;

  // Why another host's command may not come: there is no such host, or it is here already. One that was lost may come
  // again, with new processes. Any thread.
  std::optional<Error> admit(const cluster::PeerHello& hello);
  // Lets in who comes, until close(), which is to be called before the door is destroyed.
  void open(cluster::Door& door);
  void close();
  // Whether some that came have not left yet.
  bool has_nodes();

 private:
  struct Node {
    std::unique_ptr<rpc::Stream> stream = {};  // null: it has not come, or is gone
    bool was_lost = false;
    std::map<int, bool> workers = {};  // that run; whether it is told to kill them
  };

  void run(cluster::Door& door);
  void welcome(cluster::Door::Visitor visitor);
  void hear(int rank);
  void note(int rank, const NodeReport& report);
  void lose(Node& node, const std::string& why);
  Node& node(int rank) { return nodes_[static_cast<size_t>(rank)]; }

  cluster::NetworkLeader& leader_;
  LaunchPlaces& places_;
  const int per_node_;
  std::mutex mutex_;
  std::vector<Node> nodes_;  // by rank
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace tutti::tools
