#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tutti::serving {

struct ServedFolder {
  std::string name = {};         // letters, digits, '_', '-', '.'; the folder's where it is empty
  std::filesystem::path folder;  // a saved model, which is version 1; or of subfolders 1, 2, …, its versions
};

struct ServerOptions {
  std::vector<ServedFolder> models = {};
  std::string host = "127.0.0.1";  // an address of this host; "0.0.0.0": all
  int port = 8501;                 // 0: one that is free
  std::optional<int> grpc_port{};  // none: no gRPC; 0: one that is free
  std::string token = {};          // that requests must bear; none where it is empty
  // PEM files: of a certificate and its key, for TLS and nothing else by HTTP and by gRPC; empty: no TLS. With those of
  // `tls_client_ca`, clients must have a certificate of one of these authorities.
  std::filesystem::path tls_certificate = {}, tls_key = {}, tls_client_ca = {};
  // Batches: requests that wait are one call, up to `max_batch` rows; 1: none share a call.
  int64_t max_batch = 64;
  std::chrono::microseconds batch_delay{0};  // that a call waits for more
  int64_t max_queued = 1024;                 // requests for a signature; more are answered with 429
  std::chrono::milliseconds request_timeout{30'000};
  int num_versions = 1;                           // the newest ones
  std::chrono::milliseconds poll_interval{1000};  // how often folders are looked at for others
  uint64_t max_request_bytes = 64 << 20;
  uint64_t max_bytes = 1 << 30;                      // of all requests that are here, by HTTP and by gRPC each
  int max_connections = 1024;                        // of HTTP; and calls of gRPC that are here
  std::function<void(const std::string&)> log = {};  // what is served from now on, and what no more
};

// Serves saved models over HTTP, by TensorFlow Serving's REST and the Open Inference Protocol, and by the latter over
// gRPC, as docs/serving.md tells. It runs on threads of its own, from its construction on. TF: TensorFlow Serving
class Server {
 public:
  // Loads all models. Throws: invalid_argument for options; not_found, data_loss and unimplemented for a model that
  // can't be loaded; unavailable and already_exists for a port that is taken; failed_precondition for files of TLS that
  // can't be used.
  explicit Server(const ServerOptions& options);
  // stop() with 30 s of grace.
  ~Server();

  int port() const;
  // 0 without gRPC.
  int grpc_port() const;
  // Refuses new connections, answers the requests that it has and those that are on their way on connections that it
  // has, and ends. False where some had no answer after `grace`. Later calls do nothing.
  bool stop(std::chrono::milliseconds grace = std::chrono::seconds(30));
  // Ends the grace of a stop() on another thread.
  void hurry();

 private:
  struct Parts;

  std::unique_ptr<Parts> parts_;
};

}  // namespace tutti::serving
