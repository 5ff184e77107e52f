#pragma once

#include <optional>

#include "tutti/cluster/rpc/message.h"

namespace tutti {

// What carries the messages of a ring's calls where the streams between its members do not. Streams then tell of ends,
// failures and goodbyes alone. It does its work when it is called, by one thread at a time, and never blocks.
class RingCarrier {
 public:
  virtual ~RingCarrier() = default;

  // All throw unavailable where nothing can be carried any more, data_loss for what is no message.
  virtual void send(int peer, const rpc::Outgoing& message) = 0;
  // The next message of a member that has come.
  virtual std::optional<rpc::Message> take(int peer) = 0;
  // Whether all that was sent to a member is out of this process's hands.
  virtual bool has_sent(int peer) = 0;
  // The group has failed: what is on its way may never come. Any thread.
  virtual void give_up() = 0;
};

}  // namespace tutti
