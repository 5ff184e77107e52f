#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "tutti/serving/background_threads.h"
#include "tutti/serving/grpc_message.h"
#include "tutti/serving/http_server.h"
#include "tutti/serving/inference_message.h"
#include "tutti/serving/metrics.h"
#include "tutti/serving/model_repository.h"

namespace tutti::serving {

struct ApiOptions {
  std::string token = {};  // that requests must bear; none where it is empty
  std::chrono::milliseconds queue_timeout{30'000};
  size_t max_body_bytes = 64 << 20;       // of a request, without its compression
  uint64_t max_inflated_bytes = 1 << 30;  // of all requests that were compressed and are here
};

// What each request means, over HTTP and gRPC: its path leads to a model, its body becomes a job, and outputs an
// answer. Large bodies are read on threads of its own.
class Api {
 public:
  Api(const ModelRepository& repository, Metrics& metrics, const ApiOptions& options);
  // What waits to be read is answered.
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // Do not block.
  void handle(HttpRequest request, Reply reply);
  void handle(GrpcCall call, GrpcReply reply);
  // What /v2/health/ready says.
  void set_ready(bool is_ready) { is_ready_ = is_ready; }

 private:
  // "/v1/models/flowers/versions/3:predict" and "/v2/models/flowers/versions/3/infer".
  struct Target {
    bool is_v2 = false;
    std::string model;
    std::optional<int64_t> version;
    std::string verb;  // "predict", "infer", "metadata", ""
  };

  void answer(HttpRequest& request, const Reply& reply);
  std::optional<HttpResponse> answer_at_once(const HttpRequest& request) const;
  bool may_enter(std::string_view authorization) const;
  static std::optional<Target> target_of(std::string_view path);
  HttpResponse describe(const Target& target) const;
  void infer_v1(const HttpRequest& request, const Target& target, const Reply& reply) const;
  void infer_v2(const HttpRequest& request, const Target& target, const Reply& reply) const;
  Reply counted(const std::string& path, Reply reply) const;
  void answer(GrpcCall& call, std::string& model, const GrpcReply& reply) const;
  void infer(const ServedModel& model, const InferenceRequest& request, std::chrono::steady_clock::time_point deadline,
             const GrpcReply& reply) const;
  Reply compressed(Reply reply) const;
  GrpcReply compressed(GrpcReply reply) const;
  // Counts bytes that came out of a compressed request, for as long as a copy of what it returns lives. Throws:
  // unavailable where they are too many.
  std::shared_ptr<const void> hold(uint64_t num_bytes) const;

  static constexpr size_t kReadAtOnce = 64 << 10;  // bytes whose reading holds nobody up

  const ModelRepository& repository_;
  Metrics& metrics_;
  const ApiOptions options_;
  std::atomic<bool> is_ready_ = true;
  const std::shared_ptr<std::atomic<uint64_t>> num_inflated_ = std::make_shared<std::atomic<uint64_t>>(0);
  const std::shared_ptr<BackgroundThreads> readers_;  // shared, as a reply may outlive this
};

}  // namespace tutti::serving
