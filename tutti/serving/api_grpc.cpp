// Calls of inference.GRPCInferenceService.
#include <c10/util/Exception.h>

#include <algorithm>
#include <charconv>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/serving/api.h"
#include "tutti/serving/grpc_v2.h"
#include "tutti/serving/inference_message.h"
#include "tutti/serving/json_values.h"
#include "tutti/serving/v2_tensors.h"

namespace tutti::serving {
namespace {

using saved_model::Outputs;
using Clock = std::chrono::steady_clock;

// What LibTorch refuses is the inputs' fault.
GrpcAnswer answer_to(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return {.code = grpc_code(error.code()), .error = error.what()};
  } catch (const c10::Error& error) {
    return {.code = GrpcCode::invalid_argument,
            .error = str("the model refuses these inputs: ", error.what_without_backtrace())};
  } catch (const std::exception& error) {
    return {.code = GrpcCode::internal, .error = error.what()};
  }
}

// "" is the newest.
std::optional<int64_t> version_in(const std::string& text) {
  if (text.empty()) return std::nullopt;
  int64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || end != text.data() + text.size())
    refuse_request(str("the version '", text, "' is no number"));
  return version;
}

// "ModelInfer"; "" for a method of another service.
std::string_view method_of(const GrpcCall& call) {
  constexpr std::string_view kService = "/inference.GRPCInferenceService/";
  const std::string_view path = call.method;
  return path.starts_with(kService) ? path.substr(kService.size()) : std::string_view();
}

}  // namespace

void Api::handle(GrpcCall call, GrpcReply reply) {
  const auto model = std::make_shared<std::string>();  // that the call turns out to be for
  reply = [&metrics = metrics_, begin = Clock::now(), model, method = std::string(method_of(call)),
           reply = std::move(reply)](GrpcAnswer answer) {
    metrics.add_request(*model, model->empty() ? "" : method, to_string(answer.code), Clock::now() - begin);
    reply(std::move(answer));
  };
  const bool is_compressed = call.compression != Compression::none;
  if (!is_compressed && call.message.size() <= kReadAtOnce) return answer(call, *model, reply);
  if (is_compressed) reply = compressed(std::move(reply));
  readers_->run([this, shared = std::make_shared<GrpcCall>(std::move(call)), model, reply = std::move(reply)] {
    answer(*shared, *model, reply);
  });
}

// What answers a compressed call is compressed too, by a thread that has time for it.
GrpcReply Api::compressed(GrpcReply reply) const {
  return [readers = readers_, reply = std::move(reply)](GrpcAnswer answer) {
    if (answer.message.size() < kMinCompressed) return reply(std::move(answer));
    answer.is_compressed = true;
    readers->run([reply, shared = std::make_shared<GrpcAnswer>(std::move(answer))] { reply(std::move(*shared)); });
  };
}

// `model` becomes the name of one that is served; the message what it was before it was compressed.
void Api::answer(GrpcCall& call, std::string& model, const GrpcReply& reply) const {
  const auto find = [&](const std::string& name, const std::string& version) {
    if (std::ranges::count(repository_.names(), name) > 0) model = name;
    return repository_.find(name, version_in(version));
  };
  try {
    const std::string_view method = method_of(call);
    if (method == "ServerLive") return reply({.message = state_message(true)});
    if (method == "ServerReady") return reply({.message = state_message(is_ready_)});
    if (method == "ServerMetadata") return reply({.message = server_metadata_message(kServerName, kServerVersion)});
    if (!may_enter(call.authorization))
      return reply({.code = GrpcCode::unauthenticated,
                    .error = "the call must bear this server's token in its metadata: authorization: Bearer ..."});
    std::shared_ptr<const void> held;
    if (call.compression != Compression::none) {
      call.message = inflated(call.message, call.compression, options_.max_body_bytes);
      held = hold(call.message.size());
    }
    if (method == "ModelInfer") {
      const InferenceRequest request = read_inference_request(call.message);
      const GrpcReply last = held ? [held, reply](GrpcAnswer answer) { reply(std::move(answer)); } : reply;
      return infer(*find(request.model, request.version), request, call.deadline, last);
    }
    if (method != "ModelReady" && method != "ModelMetadata")
      return reply({.code = GrpcCode::unimplemented, .error = str("there is no method ", call.method)});
    const ModelRequest request = read_model_request(call.message);
    try {
      const auto found = find(request.name, request.version);
      reply({.message = method == "ModelReady" ? state_message(true)
                                               : grpc_v2_metadata(*found, repository_.status(request.name))});
    } catch (const Error& error) {
      if (method != "ModelReady" || error.code() != ErrorCode::not_found) throw;
      reply({.message = state_message(false)});
    }
  } catch (...) {
    reply(answer_to(std::current_exception()));
  }
}

void Api::infer(const ServedModel& model, const InferenceRequest& request, Clock::time_point deadline,
                const GrpcReply& reply) const {
  const ServedSignature& signature = model.signature(request.signature_name).second;
  const GrpcV2Question question{.id = request.id, .outputs = request.outputs, .is_raw = request.is_raw};
  const auto done = [question, name = model.name(), version = model.version(), reply](const Outputs& outputs,
                                                                                      const std::exception_ptr& error) {
    GrpcAnswer answer;
    try {
      if (error) std::rethrow_exception(error);
      answer.message = grpc_v2_answer(question, name, version, outputs);
    } catch (...) {
      answer = answer_to(std::current_exception());
    }
    reply(std::move(answer));
  };
  signature.batcher->submit({.inputs = grpc_v2_inputs(request, signature.inputs),
                             .deadline = std::min(deadline, Clock::now() + options_.queue_timeout),
                             .done = done});
}

}  // namespace tutti::serving
