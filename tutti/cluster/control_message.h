#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti::cluster {

constexpr size_t kMaxControlBytes = 64 * 1024;  // of a message, as it is sent
constexpr int64_t kControlVersion = 3;

// What a member and the leader of a cluster say to each other. A value; each kind uses some of the fields.
struct ControlMessage {
  enum class Kind : uint8_t {
    // a member's          name      value     number
    hello,      // the task            the protocol's version
    heartbeat,  // its place
    barrier,    // its name            milliseconds to wait
    insert,     // the key   the value
    get,        // the key             milliseconds to wait
    gather,     // its name  the value milliseconds to wait
    members,    //
    failure,    // the cause
    goodbye,    //
    // the leader's, to the request of that number
    done,   //           the answer
    error,  // the text            the ErrorCode
    // the leader's own
    joiner,  //                     the group that somebody waits to join
    // a member's, since version 2: the kinds above keep their numbers, by which a refusal is understood
    regroup,  // fewest    what it brings  milliseconds to wait
  };
  Kind kind = Kind::heartbeat;
  uint64_t request = 0;
  std::string name = {}, value = {};
  int64_t number = 0;

  bool operator==(const ControlMessage&) const = default;
};

// Throws: invalid_argument for a message that is too long.
std::vector<uint8_t> encode(const ControlMessage& message);
// For bytes from anywhere. Throws: data_loss for what is no message.
ControlMessage decode_control_message(std::span<const uint8_t> bytes);

}  // namespace tutti::cluster
