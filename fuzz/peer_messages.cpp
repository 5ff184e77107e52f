// What other processes say before they are known, as members of a ring, and as launchers: the first byte says which
// message the rest is. What is taken has the same bytes again; what is not is data_loss.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tutti/cluster/control_message.h"
#include "tutti/cluster/peer_hello.h"
#include "tutti/collectives/ring/ring_message.h"
#include "tutti/core/error.h"
#include "tutti/tools/node_message.h"

namespace {

void read_ring_message(std::vector<uint8_t> bytes) {
  const auto owner = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
  const auto message = tutti::RingMessage::parse({owner, {std::as_bytes(std::span(*owner))}});
  if (message.kind() == tutti::RingMessageKind::failure) (void)message.error();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti::cluster;
  if (size == 0) return 0;
  const std::vector<uint8_t> bytes(data + 1, data + size);
  try {
    switch (data[0] % 8) {
      case 0: {
        const PeerHello hello = decode_peer_hello(bytes);
        if (hello.version == kPeerVersion && encode(hello) != bytes) std::abort();
        break;
      }
      case 1:
        if (encode(decode_challenge(bytes)) != bytes) std::abort();
        break;
      case 2:
        if (encode(decode_proof(bytes)) != bytes) std::abort();
        break;
      case 3:
        if (encode(decode_verdict(bytes)) != bytes) std::abort();
        break;
      case 4:
        if (encode(decode_control_message(bytes)) != bytes) std::abort();
        break;
      case 5: read_ring_message(bytes); break;
      case 6:
        if (tutti::tools::encode(tutti::tools::decode_node_report(bytes)) != bytes) std::abort();
        break;
      case 7:
        if (tutti::tools::encode(tutti::tools::decode_node_order(bytes)) != bytes) std::abort();
        break;
    }
  } catch (const tutti::Error& error) {
    if (error.code() != tutti::ErrorCode::data_loss && error.code() != tutti::ErrorCode::invalid_argument) std::abort();
  }
  return 0;
}
