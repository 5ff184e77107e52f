#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/cluster/cluster_spec.h"
#include "tutti/cluster/rpc/proof.h"
#include "tutti/cluster/task.h"

namespace tutti::cluster {

constexpr int64_t kPeerVersion = 3;           // of what processes of several hosts say to each other
constexpr size_t kMaxHelloBytes = 64 * 1024;  // of anything that is said before both are known
constexpr size_t kMaxSpecText = 32 * 1024;

// Who a process says it is, before anything else. A value.
struct PeerHello {
  int64_t version = kPeerVersion;
  Task task = {};
  std::string program = {};  // its build; empty: not known
  std::string spec = {};     // the cluster as it knows it, or its fingerprint where that is long
  std::string purpose = {};  // "leader", "group gradients"
  int64_t attempt = 0;       // how often the launcher has started it again
  rpc::Digest nonce = {};
  std::string memory = {};  // rpc::SharedMemory's offer; empty: none

  bool operator==(const PeerHello&) const = default;
};
std::vector<uint8_t> encode(const PeerHello& hello);
// For bytes from anywhere. Throws: data_loss for what is none.
PeerHello decode_peer_hello(std::span<const uint8_t> bytes);

// What follows, by turns: the listener's challenge, the dialler's proof, the listener's verdict.
struct Challenge {
  rpc::Digest nonce, proof;
};
std::vector<uint8_t> encode(const Challenge& challenge);
Challenge decode_challenge(std::span<const uint8_t> bytes);
std::vector<uint8_t> encode(const rpc::Digest& proof);
rpc::Digest decode_proof(std::span<const uint8_t> bytes);

struct Verdict {
  bool is_welcome = false;
  int64_t code = 0;            // the ErrorCode of a refusal
  std::string text = {};       // of a refusal, or why the memory that was offered cannot be shared
  bool shares_memory = false;  // which carries what follows
};
std::vector<uint8_t> encode(const Verdict& verdict);
Verdict decode_verdict(std::span<const uint8_t> bytes);

// A cluster as greetings have it: its JSON text, or the fingerprint of a long one.
std::string spec_text(const ClusterSpec& spec);

// How two descriptions of one cluster differ, for an error: "worker 1 is b:1 here and c:1 there".
std::string spec_difference(const std::string& here, const std::string& there);

// The build of the running program: its linker's build id; empty where there is none.
std::string program_build();

}  // namespace tutti::cluster
