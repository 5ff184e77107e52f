#include "tutti/serving/api.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <charconv>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/serving/content_coding.h"
#include "tutti/serving/rest_v1.h"
#include "tutti/serving/rest_v2.h"

namespace tutti::serving {
namespace {

using saved_model::Outputs;
using Clock = std::chrono::steady_clock;

constexpr int kNumReaders = 2;

// What LibTorch refuses is the inputs' fault: an index outside of a table, sizes that do not fit.
HttpResponse response_to(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const HttpError& error) {
    return error_response(error.status(), error.what());
  } catch (const Error& error) {
    HttpResponse response = error_response(http_status(error.code()), error.what());
    if (response.status == 429) response.headers.emplace_back("Retry-After", "1");
    return response;
  } catch (const c10::Error& error) {
    return error_response(400, str("the model refuses these inputs: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return error_response(500, error.what());
  }
}

// A job whose outputs become an answer by `form`, as does what goes wrong.
template <class Form>
std::function<void(Outputs, std::exception_ptr)> answering(const Reply& reply, Form form) {
  return [reply, form = std::move(form)](const Outputs& outputs, const std::exception_ptr& error) {
    HttpResponse response;
    try {
      if (error) std::rethrow_exception(error);
      response = form(outputs);
    } catch (...) {
      response = response_to(std::current_exception());
    }
    reply(std::move(response));
  };
}

HttpResponse method_not_allowed(const char* allowed) {
  HttpResponse response = error_response(405, str("the method must be ", allowed));
  response.headers.emplace_back("Allow", allowed);
  return response;
}

// Takes as long for any token of one length.
bool same_secret(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < one.size(); ++i)
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  return difference == 0;
}

// Takes `prefix` off the front.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

Api::Api(const ModelRepository& repository, Metrics& metrics, const ApiOptions& options)
    : repository_(repository),
      metrics_(metrics),
      options_(options),
      readers_(std::make_shared<BackgroundThreads>(kNumReaders)) {}

Api::~Api() { readers_->end(); }

void Api::handle(HttpRequest request, Reply reply) {
  reply = counted(request.path, std::move(reply));
  if (accepts_gzip(request)) reply = compressed(std::move(reply));
  if (request.body.size() <= kReadAtOnce && !request.header("content-encoding")) return answer(request, reply);
  readers_->run([this, shared = std::make_shared<HttpRequest>(std::move(request)), reply] { answer(*shared, reply); });
}

Reply Api::compressed(Reply reply) const {
  return [readers = readers_, reply = std::move(reply)](HttpResponse response) {
    if (!is_worth_gzip(response)) return reply(std::move(response));
    readers->run([reply, shared = std::make_shared<HttpResponse>(std::move(response))] {
      encode_by_gzip(*shared);
      reply(std::move(*shared));
    });
  };
}

std::shared_ptr<const void> Api::hold(uint64_t num_bytes) const {
  const std::shared_ptr<const uint64_t> held(new uint64_t(num_bytes), [count = num_inflated_](const uint64_t* own) {
    *count -= *own;
    delete own;
  });
  const uint64_t num_here = *num_inflated_ += num_bytes;
  if (num_here > options_.max_inflated_bytes)
    throw Error(ErrorCode::unavailable, "no memory is left for what this request was compressed from; try again");
  return held;
}

Reply Api::counted(const std::string& path, Reply reply) const {
  const auto target = target_of(path);
  const bool is_known = target && std::ranges::count(repository_.names(), target->model) > 0;
  return [&metrics = metrics_, begin = Clock::now(), model = is_known ? target->model : std::string(),
          verb = is_known ? target->verb : std::string(), reply = std::move(reply)](HttpResponse response) {
    metrics.add_request(model, verb, std::to_string(response.status), Clock::now() - begin);
    reply(std::move(response));
  };
}

void Api::answer(HttpRequest& request, const Reply& reply) {
  try {
    if (auto response = answer_at_once(request)) return reply(std::move(*response));
    const std::string* const authorization = request.header("authorization");
    if (!may_enter(authorization ? *authorization : "")) {
      HttpResponse response = error_response(401, "the request must bear this server's token: Authorization: Bearer …");
      response.headers.emplace_back("WWW-Authenticate", "Bearer");
      return reply(std::move(response));
    }
    if (request.path == "/metrics" || request.path == "/monitoring/prometheus/metrics")
      return reply({.body = metrics_.text(), .content_type = "text/plain; version=0.0.4"});
    const auto target = target_of(request.path);
    if (!target) return reply(error_response(404, str("there is nothing at ", request.path)));
    const bool is_inference =
        target->verb == "infer" || target->verb == "predict" || target->verb == "classify" || target->verb == "regress";
    if (request.method != (is_inference ? "POST" : "GET"))
      return reply(method_not_allowed(is_inference ? "POST" : "GET"));
    if (!is_inference) return reply(describe(*target));
    const bool is_compressed = request.header("content-encoding") != nullptr;
    decode_body(request, options_.max_body_bytes);
    const auto held = is_compressed ? hold(request.body.size()) : nullptr;
    const Reply last = held ? [held, reply](HttpResponse response) { reply(std::move(response)); } : reply;
    target->is_v2 ? infer_v2(request, *target, last) : infer_v1(request, *target, last);
  } catch (...) {
    reply(response_to(std::current_exception()));
  }
}

// Health, which needs no token.
std::optional<HttpResponse> Api::answer_at_once(const HttpRequest& request) const {
  const bool is_live = request.path == "/v2/health/live", is_ready = request.path == "/v2/health/ready";
  if (!is_live && !is_ready && request.path != "/v2") return std::nullopt;
  if (request.method != "GET") return method_not_allowed("GET");
  if (request.path == "/v2") return HttpResponse{.body = v2_server_metadata()};
  if (is_ready && !is_ready_) return error_response(503, "the server is ending");
  return HttpResponse{.body = is_live ? "{\"live\": true}\n" : "{\"ready\": true}\n"};
}

bool Api::may_enter(std::string_view authorization) const {
  return options_.token.empty() || (take(authorization, "Bearer ") && same_secret(authorization, options_.token));
}

std::optional<Api::Target> Api::target_of(std::string_view path) {
  Target target;
  if (take(path, "/v2/models/"))
    target.is_v2 = true;
  else if (!take(path, "/v1/models/"))
    return std::nullopt;
  const auto until = [&](std::string_view ends) {
    const std::string_view part = path.substr(0, path.find_first_of(ends));
    path.remove_prefix(part.size());
    return part;
  };
  target.model = until("/:");
  if (take(path, "/versions/")) {
    const std::string_view digits = until("/:");
    int64_t version = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), version);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    target.version = version;
  }
  if (path.empty()) return target;
  target.verb = path.substr(1);
  const bool is_known = target.is_v2
                            ? path == "/infer" || path == "/ready"
                            : path == "/metadata" || path == ":predict" || path == ":classify" || path == ":regress";
  if (!is_known) return std::nullopt;
  return target;
}

HttpResponse Api::describe(const Target& target) const {
  if (target.is_v2 && target.verb == "ready") {
    repository_.find(target.model, target.version);
    return {.body = str("{\"name\": \"", target.model, "\", \"ready\": true}\n")};
  }
  if (target.is_v2)
    return {.body = v2_metadata(*repository_.find(target.model, target.version), repository_.status(target.model))};
  if (target.verb == "metadata") return {.body = v1_metadata(*repository_.find(target.model, target.version))};
  std::vector<VersionStatus> versions = repository_.status(target.model);
  if (target.version) {
    std::erase_if(versions, [&](const VersionStatus& status) { return status.version != *target.version; });
    if (versions.empty()) repository_.find(target.model, target.version);  // tells what there is
  }
  return {.body = v1_status(versions)};
}

void Api::infer_v1(const HttpRequest& request, const Target& target, const Reply& reply) const {
  const auto method = target.verb == "predict"    ? V1Method::predict
                      : target.verb == "classify" ? V1Method::classify
                                                  : V1Method::regress;
  const auto model = repository_.find(target.model, target.version);
  const ServedSignature& signature = model->signature(v1_signature_name(request.body)).second;
  V1Call call = read_v1(method, request.body, signature.inputs);
  const auto form = [method, rows = call.num_instances](const Outputs& outputs) {
    return HttpResponse{.body = v1_answer(method, outputs, rows)};
  };
  signature.batcher->submit({.inputs = std::move(call.inputs),
                             .deadline = Clock::now() + options_.queue_timeout,
                             .done = answering(reply, form)});
}

void Api::infer_v2(const HttpRequest& request, const Target& target, const Reply& reply) const {
  const auto model = repository_.find(target.model, target.version);
  const ServedSignature& signature = model->signature(v2_signature_name(request)).second;
  V2Call call = read_v2(request, signature.inputs);
  const auto form = [question = std::move(call.question), name = model->name(), version = model->version()](
                        const Outputs& outputs) { return v2_answer(question, name, version, outputs); };
  signature.batcher->submit({.inputs = std::move(call.inputs),
                             .deadline = Clock::now() + options_.queue_timeout,
                             .done = answering(reply, form)});
}

}  // namespace tutti::serving
