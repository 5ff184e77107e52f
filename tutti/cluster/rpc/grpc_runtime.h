#pragma once

namespace tutti::rpc {

// Before anything of gRPC is used, again and from any thread. What gRPC has to say comes as the end of a call;
// GRPC_VERBOSITY brings its own log back.
void begin_grpc();

}  // namespace tutti::rpc
