#include "tutti/serving/server.h"

#include <future>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/serving/api.h"
#include "tutti/serving/http_server.h"
#include "tutti/serving/metrics.h"
#include "tutti/serving/model_repository.h"
#include "tutti/serving/rpc/grpc_server.h"
#include "tutti/serving/rpc/tls.h"

namespace tutti::serving {
namespace {

void check(const ServerOptions& options) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::invalid_argument, str("serving: ", what)); };
  for (const int port : {options.port, options.grpc_port.value_or(0)})
    if (port < 0 || port > 65535) refuse(str("the port is ", port, "; it must be of 0 to 65535"));
  if (options.max_batch < 1) refuse(str("max_batch is ", options.max_batch, "; it must be at least 1"));
  if (options.max_queued < 1) refuse(str("max_queued is ", options.max_queued, "; it must be at least 1"));
  if (options.num_versions < 1) refuse(str("num_versions is ", options.num_versions, "; it must be at least 1"));
  if (options.max_connections < 1) refuse("max_connections must be at least 1");
  if (options.batch_delay.count() < 0 || options.request_timeout.count() <= 0 || options.poll_interval.count() <= 0)
    refuse("a time is negative, or 0 where that can't be");
}

RepositoryOptions repository_options(const ServerOptions& options) {
  return {.num_versions = options.num_versions,
          .poll_interval = options.poll_interval,
          .log = options.log,
          .batch = {.max_rows = options.max_batch, .delay = options.batch_delay, .max_queued = options.max_queued}};
}

HttpServerOptions http_options(const ServerOptions& options, const TlsCredentials& tls) {
  return {.host = options.host,
          .port = options.port,
          .limits = {.body_bytes = options.max_request_bytes},
          .max_connections = options.max_connections,
          .max_bytes = options.max_bytes,
          .answer_timeout = 2 * options.request_timeout,
          .tls = tls};
}

GrpcServerOptions grpc_options(const ServerOptions& options, const TlsCredentials& tls) {
  return {.host = options.host,
          .port = *options.grpc_port,
          .max_message_bytes = options.max_request_bytes,
          .max_bytes = options.max_bytes,
          .max_calls = options.max_connections,
          .answer_timeout = 2 * options.request_timeout,
          .tls = tls};
}

std::vector<ModelSource> sources_of(const ServerOptions& options) {
  std::vector<ModelSource> sources;
  for (const ServedFolder& model : options.models) sources.push_back({model.name, model.folder});
  return sources;
}

}  // namespace

// They end in the order from the last: no request comes, those that wait are read, and then computed.
struct Server::Parts {
  explicit Parts(const ServerOptions& options)
      : tls(read_tls_files(options.tls_certificate, options.tls_key, options.tls_client_ca)),
        repository(sources_of(options), repository_options(options), metrics),
        api(repository, metrics,
            {.token = options.token,
             .queue_timeout = options.request_timeout,
             .max_body_bytes = options.max_request_bytes,
             .max_inflated_bytes = options.max_bytes}),
        http(http_options(options, tls),
             [this](HttpRequest request, Reply reply) { api.handle(std::move(request), std::move(reply)); }) {
    if (options.grpc_port)
      grpc = std::make_unique<GrpcServer>(grpc_options(options, tls), [this](GrpcCall call, GrpcReply reply) {
        api.handle(std::move(call), std::move(reply));
      });
  }

  TlsCredentials tls;
  Metrics metrics;
  ModelRepository repository;
  Api api;
  HttpServer http;
  std::unique_ptr<GrpcServer> grpc;
};

Server::Server(const ServerOptions& options) {
  check(options);
  parts_ = std::make_unique<Parts>(options);
}

Server::~Server() { stop(); }

int Server::port() const { return parts_->http.port(); }

int Server::grpc_port() const { return parts_->grpc ? parts_->grpc->port() : 0; }

bool Server::stop(std::chrono::milliseconds grace) {
  parts_->api.set_ready(false);
  auto grpc = std::async(std::launch::async, [&] { return !parts_->grpc || parts_->grpc->stop(grace); });
  const bool all_of_http = parts_->http.stop(grace);
  return grpc.get() && all_of_http;
}

void Server::hurry() {
  parts_->http.hurry();
  if (parts_->grpc) parts_->grpc->hurry();
}

}  // namespace tutti::serving
