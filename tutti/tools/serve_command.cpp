#include "tutti/tools/serve_command.h"

#include <poll.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <mutex>
#include <ostream>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tools/signal_watch.h"

namespace tutti::tools {
namespace {

serving::ServedFolder parse_served(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return {.folder = text};
  return {.name = text.substr(0, equals), .folder = text.substr(equals + 1)};
}

std::string read_token(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string token;
  if (!std::getline(in, token) || token.empty())
    throw Error(ErrorCode::not_found, str("--token-file: '", file.string(), "' has no first line, or is not there"));
  return token;
}

// Whether a signal to end comes before the time is over; without a time, until one does.
bool wait_for_end(SignalWatch& signals, int timeout_ms) {
  while (true) {
    pollfd file{.fd = signals.file(), .events = POLLIN, .revents = 0};
    if (poll(&file, 1, timeout_ms) == 0) return false;
    for (const int signal : signals.take())
      if (signal != SIGCHLD) return true;
  }
}

}  // namespace

int serve(ServeOptions options, std::ostream& out) {
  SignalWatch signals;  // before there are threads, which then leave the signals to it
  std::mutex mutex;
  options.server.log = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    out << line << std::endl;
  };
  for (const std::string& folder : options.folders) options.server.models.push_back(parse_served(folder));
  if (!options.token_file.empty()) options.server.token = read_token(options.token_file);
  serving::Server server(options.server);
  const char* const s = options.server.tls_certificate.empty() ? "" : "s";
  if (options.server.grpc_port)
    options.server.log(str("at grpc", s, "://", options.server.host, ':', server.grpc_port()));
  options.server.log(str("at http", s, "://", options.server.host, ':', server.port()));
  wait_for_end(signals, -1);
  options.server.log("ending: requests that are here are answered");
  constexpr int kLookMs = 20;
  auto stopped = std::async(std::launch::async, [&] { return server.stop(options.grace); });
  while (stopped.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    if (wait_for_end(signals, kLookMs)) server.hurry();
  const bool all_answered = stopped.get();
  options.server.log(all_answered ? "ended" : "ended; some requests had no answer");
  if (!all_answered) std::_Exit(1);  // what still computes can't be stopped, and nobody waits for it
  return 0;
}

}  // namespace tutti::tools
