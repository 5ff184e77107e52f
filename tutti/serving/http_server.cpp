#include "tutti/serving/http_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "tutti/core/file_descriptor.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/serving/rpc/socket_stream.h"

namespace tutti::serving {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTick{100};       // how often deadlines are looked at
constexpr milliseconds kLinger{1000};    // for requests that are on their way when the server stops
constexpr milliseconds kFarewell{1000};  // for the other side to close, too
constexpr uint64_t kListener = 0, kWaker = 1, kFirstConnection = 2;

// Answers on their way to the server's thread.
struct Outbox {
  struct Answer {
    uint64_t connection;
    HttpResponse response;
  };

  void push(Answer answer) {
    bool is_first = false;
    {
      const std::lock_guard lock(mutex);
      is_first = answers.empty();
      answers.push_back(std::move(answer));
    }
    if (is_first && std::this_thread::get_id() != server_thread) wake();
  }
  std::vector<Answer> take() {
    const std::lock_guard lock(mutex);
    return std::exchange(answers, {});
  }
  void wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = write(waker.number(), &one, sizeof one);
  }

  std::mutex mutex;
  std::vector<Answer> answers;
  FileDescriptor waker{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  std::atomic<std::thread::id> server_thread{};
};

// What a Reply shares: one answer, whatever happens.
struct PendingAnswer {
  PendingAnswer(std::shared_ptr<Outbox> to, uint64_t from) : outbox(std::move(to)), connection(from) {}
  PendingAnswer(const PendingAnswer&) = delete;
  PendingAnswer& operator=(const PendingAnswer&) = delete;
  ~PendingAnswer() { give(error_response(500, "the request was dropped; this is a defect of the server")); }

  void give(HttpResponse response) {
    if (!is_given.exchange(true)) outbox->push({connection, std::move(response)});
  }

  std::shared_ptr<Outbox> outbox;
  uint64_t connection;
  std::atomic<bool> is_given = false;
};

struct Connection {
  enum class State { receiving, answering, sending, parting };

  Connection(FileDescriptor socket, const TlsContext* tls, HttpLimits limits)
      : stream(std::move(socket), tls), parser(limits) {}

  SocketStream stream;
  HttpParser parser;
  State state = State::receiving;
  uint32_t events = EPOLLIN;  // that epoll tells of
  uint64_t num_bytes = 0;     // held for it
  bool is_within_request = false;
  bool is_open = false;  // and no longer in the handshake of TLS
  bool keeps = true;
  std::string out = {};
  size_t num_sent = 0;
  Clock::time_point deadline = {};
};

FileDescriptor listen_at(const std::string& host, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV | AI_NUMERICHOST;  // a name's look-up would have no deadline
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
    throw Error(ErrorCode::invalid_argument, str("serving: '", host, "' is no address (", gai_strerror(error),
                                                 "); give one of this host in numbers, such as 127.0.0.1 or ::"));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  FileDescriptor listener(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (!listener || bind(listener.number(), found->ai_addr, found->ai_addrlen) != 0 ||
      listen(listener.number(), SOMAXCONN) != 0)
    throw Error(ErrorCode::unavailable, str("serving: can't listen at ", host, ':', port, ": ", std::strerror(errno),
                                            ". Give another port, or end the process that has it"));
  return listener;
}

int port_of(const FileDescriptor& listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

}  // namespace

// All but the outbox and the flags belong to the thread.
class HttpServer::Loop {
 public:
  Loop(const HttpServerOptions& options, Handler handler);
  ~Loop() { stop(milliseconds(0)); }

  bool stop(milliseconds grace);
  void hurry() { must_hurry_ = true; }
  int port() const { return port_; }

 private:
  using State = Connection::State;
  using Connections = std::map<uint64_t, Connection>;

  void run();
  void serve(uint64_t id, uint32_t events);
  void accept_all();
  void listen_again(bool listens);
  void receive(uint64_t id, Connection& connection);
  void take_requests(uint64_t id, Connection& connection);
  void hand_over(uint64_t id, Connection& connection, HttpRequest request);
  void answer(const Outbox::Answer& answer);
  void respond(uint64_t id, Connection& connection, const HttpResponse& response, bool keeps);
  void send_rest(uint64_t id, Connection& connection);
  void part(Connection& connection);
  void end_overdue();
  void watch(uint64_t id, Connection& connection, uint32_t events);
  void count_bytes(Connection& connection, uint64_t in_flight);
  void close(uint64_t id);
  void begin_stop();

  const HttpServerOptions options_;
  const Handler handler_;
  const std::unique_ptr<const TlsContext> tls_;  // null: plain
  std::shared_ptr<Outbox> outbox_ = std::make_shared<Outbox>();
  FileDescriptor listener_;
  FileDescriptor epoll_{epoll_create1(EPOLL_CLOEXEC)};
  int port_ = 0;
  Connections connections_;
  uint64_t next_connection_ = kFirstConnection;
  uint64_t num_bytes_ = 0;  // of all connections
  bool is_listening_ = true, is_stopping_ = false;
  Clock::time_point linger_end_ = {}, stop_deadline_ = {};
  std::atomic<bool> must_stop_ = false, must_hurry_ = false;
  std::atomic<milliseconds> grace_{milliseconds(0)};
  std::atomic<bool> ended_well_ = true;
  std::mutex stop_mutex_;
  std::thread thread_;
};

HttpServer::Loop::Loop(const HttpServerOptions& options, Handler handler)
    : options_(options),
      handler_(std::move(handler)),
      tls_(options.tls.is_empty() ? nullptr : std::make_unique<const TlsContext>(options.tls)),
      listener_(listen_at(options.host, options.port)) {
  port_ = port_of(listener_);
  if (!epoll_ || !outbox_->waker)
    throw Error(ErrorCode::resource_exhausted, str("serving: epoll: ", std::strerror(errno)));
  for (const auto& [file, id] : {std::pair(listener_.number(), kListener), {outbox_->waker.number(), kWaker}}) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
    epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, file, &event);
  }
  thread_ = std::thread([this] { run(); });
}

bool HttpServer::Loop::stop(milliseconds grace) {
  const std::lock_guard lock(stop_mutex_);
  if (!thread_.joinable()) return ended_well_;
  grace_ = grace;
  must_stop_ = true;
  outbox_->wake();
  thread_.join();
  return ended_well_;
}

void HttpServer::Loop::run() {
  outbox_->server_thread = std::this_thread::get_id();
  std::array<epoll_event, 256> events;
  auto next_look = Clock::now() + kTick;
  while (!is_stopping_ || (!connections_.empty() && !must_hurry_ && Clock::now() < stop_deadline_)) {
    const int count = epoll_wait(epoll_.number(), events.data(), static_cast<int>(events.size()),
                                 is_stopping_ ? 10 : static_cast<int>(kTick.count()));
    if (must_stop_ && !is_stopping_) begin_stop();
    for (int i = 0; i < count; ++i)
      serve(events[static_cast<size_t>(i)].data.u64, events[static_cast<size_t>(i)].events);
    // Answering can take the next request of a connection, which can be answered at once.
    for (auto answers = outbox_->take(); !answers.empty(); answers = outbox_->take())
      for (const Outbox::Answer& answer : answers) this->answer(answer);
    if (is_stopping_ || Clock::now() >= next_look) {
      end_overdue();
      next_look = Clock::now() + kTick;
    }
  }
  for (const auto& [id, connection] : connections_)
    if (connection.is_within_request && connection.state != State::parting) ended_well_ = false;
  connections_.clear();
}

void HttpServer::Loop::begin_stop() {
  accept_all();
  listener_.reset();
  is_stopping_ = true;
  linger_end_ = Clock::now() + std::min(kLinger, grace_.load());
  stop_deadline_ = Clock::now() + grace_.load();
}

void HttpServer::Loop::serve(uint64_t id, uint32_t events) {
  if (id == kListener) {
    if (listener_) accept_all();
    return;
  }
  if (id == kWaker) {
    uint64_t count = 0;
    [[maybe_unused]] const auto got = read(outbox_->waker.number(), &count, sizeof count);
    return;
  }
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (events & (EPOLLERR | EPOLLHUP)) return close(id);
  if (connection.state == State::answering) return watch(id, connection, 0);  // it waits for its turn
  if (connection.state == State::sending) return send_rest(id, connection);
  receive(id, connection);
}

void HttpServer::Loop::accept_all() {
  while (true) {
    FileDescriptor socket(accept4(listener_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE) listen_again(false);
      return;
    }
    const int yes = 1;
    setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    const uint64_t id = next_connection_++;
    epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
    epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, socket.number(), &event);
    Connection& connection =
        connections_.emplace(id, Connection(std::move(socket), tls_.get(), options_.limits)).first->second;
    connection.is_open = !tls_;
    connection.deadline = Clock::now() + (tls_ ? options_.receive_timeout : options_.idle_timeout);
    const bool is_one_too_many = connections_.size() > static_cast<size_t>(options_.max_connections);
    if (is_one_too_many && tls_) close(id);  // a handshake would be work for nothing
    if (is_one_too_many && !tls_)
      respond(id, connection, error_response(503, str("there are ", options_.max_connections, " connections")), false);
  }
}

// Where no file descriptors are left, connections wait for the next look.
void HttpServer::Loop::listen_again(bool listens) {
  if (!listener_ || std::exchange(is_listening_, listens) == listens) return;
  if (!listens) warn("serving: no file descriptors are left; connections wait");
  epoll_event event{.events = listens ? EPOLLIN : 0U, .data = {.u64 = kListener}};
  epoll_ctl(epoll_.number(), EPOLL_CTL_MOD, listener_.number(), &event);
}

void HttpServer::Loop::receive(uint64_t id, Connection& connection) {
  constexpr int kMaxPieces = 16;  // then others have their turn
  thread_local std::array<char, 65536> piece;
  bool has_more = false;
  for (int i = 0; i < kMaxPieces; ++i) {
    const SocketStream::Moved moved = connection.stream.receive(piece);
    if (moved.state == SocketStream::State::ended) return close(id);
    if (moved.state != SocketStream::State::moved) {
      watch(id, connection, moved.state == SocketStream::State::waits_to_send ? EPOLLOUT : EPOLLIN);
      break;
    }
    has_more = true;
    if (connection.state == State::parting) continue;
    connection.parser.add({piece.data(), moved.num_bytes});
    if (moved.num_bytes < piece.size()) break;
  }
  const bool has_opened =
      connection.stream.is_open() && !std::exchange(connection.is_open, connection.stream.is_open());
  if (!has_more && !has_opened) return;  // TLS's own words, for which its deadline stands
  if (connection.state == State::parting) return;
  count_bytes(connection, 0);
  if (num_bytes_ > options_.max_bytes)
    return respond(id, connection, error_response(503, "no memory is left for this request; try again"), false);
  take_requests(id, connection);
}

void HttpServer::Loop::take_requests(uint64_t id, Connection& connection) {
  try {
    std::optional<HttpRequest> request = connection.parser.next();
    if (request) return hand_over(id, connection, std::move(*request));
  } catch (const HttpError& error) {
    return respond(id, connection, error_response(error.status(), error.what()), false);
  }
  if (connection.parser.take_expects_continue()) {
    constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
    connection.stream.send(kGoOn);  // where that does not go, the client sends its body anyway
  }
  const bool was_within = std::exchange(connection.is_within_request, connection.parser.is_within_request());
  if (connection.is_within_request && !was_within) connection.deadline = Clock::now() + options_.receive_timeout;
  if (!connection.is_within_request) connection.deadline = Clock::now() + options_.idle_timeout;
  watch(id, connection, EPOLLIN);
}

void HttpServer::Loop::hand_over(uint64_t id, Connection& connection, HttpRequest request) {
  connection.state = State::answering;
  connection.is_within_request = true;
  connection.keeps = request.keeps_connection;
  connection.deadline = Clock::now() + options_.answer_timeout;
  count_bytes(connection, request.body.size());
  const auto pending = std::make_shared<PendingAnswer>(outbox_, id);
  try {
    handler_(std::move(request), [pending](HttpResponse response) { pending->give(std::move(response)); });
  } catch (const std::exception& error) {
    pending->give(error_response(500, error.what()));
  }
}

void HttpServer::Loop::answer(const Outbox::Answer& answer) {
  const auto found = connections_.find(answer.connection);
  // It may have gone, or have been told that it took too long.
  if (found == connections_.end() || found->second.state != State::answering) return;
  respond(answer.connection, found->second, answer.response, found->second.keeps && !is_stopping_);
}

void HttpServer::Loop::respond(uint64_t id, Connection& connection, const HttpResponse& response, bool keeps) {
  connection.keeps = keeps;
  connection.out = to_bytes(response, keeps);
  connection.num_sent = 0;
  connection.state = State::sending;
  connection.deadline = Clock::now() + options_.send_timeout;
  count_bytes(connection, connection.out.size());
  send_rest(id, connection);
}

void HttpServer::Loop::send_rest(uint64_t id, Connection& connection) {
  while (connection.num_sent < connection.out.size()) {
    const SocketStream::Moved moved =
        connection.stream.send(std::string_view(connection.out).substr(connection.num_sent));
    if (moved.state == SocketStream::State::ended) return close(id);
    if (moved.state != SocketStream::State::moved)
      return watch(id, connection, moved.state == SocketStream::State::waits_to_send ? EPOLLOUT : EPOLLIN);
    connection.num_sent += moved.num_bytes;
  }
  connection.out = {};
  count_bytes(connection, 0);
  connection.is_within_request = false;
  if (!connection.keeps) {
    part(connection);
    return watch(id, connection, EPOLLIN);
  }
  connection.state = State::receiving;
  take_requests(id, connection);
}

// Closing at once would take the answer back from a sender that has not read it.
void HttpServer::Loop::part(Connection& connection) {
  connection.state = State::parting;
  connection.deadline = Clock::now() + kFarewell;
  connection.stream.end_sending();
}

void HttpServer::Loop::end_overdue() {
  const auto now = Clock::now();
  listen_again(true);
  for (auto next = connections_.begin(); next != connections_.end();) {
    const uint64_t id = next->first;
    Connection& connection = (next++)->second;
    const bool is_idle = connection.state == State::receiving && !connection.is_within_request;
    if (now < connection.deadline && !(is_stopping_ && is_idle && now >= linger_end_)) continue;
    if (connection.state == State::receiving && connection.is_within_request)
      respond(id, connection, error_response(408, "the request did not arrive in time"), false);
    else if (connection.state == State::answering)
      respond(id, connection, error_response(504, "there was no answer in time"), false);
    else
      close(id);
  }
}

void HttpServer::Loop::watch(uint64_t id, Connection& connection, uint32_t events) {
  if (std::exchange(connection.events, events) == events) return;
  epoll_event event{.events = events, .data = {.u64 = id}};
  epoll_ctl(epoll_.number(), EPOLL_CTL_MOD, connection.stream.number(), &event);
}

void HttpServer::Loop::count_bytes(Connection& connection, uint64_t in_flight) {
  const uint64_t held = connection.parser.num_bytes() + in_flight;
  num_bytes_ += held - connection.num_bytes;
  connection.num_bytes = held;
}

void HttpServer::Loop::close(uint64_t id) {
  const auto found = connections_.find(id);
  num_bytes_ -= found->second.num_bytes;
  connections_.erase(found);
}

HttpServer::HttpServer(const HttpServerOptions& options, Handler handler)
    : loop_(std::make_shared<Loop>(options, std::move(handler))) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return loop_->port(); }
bool HttpServer::stop(milliseconds grace) { return loop_->stop(grace); }
void HttpServer::hurry() { loop_->hurry(); }

}  // namespace tutti::serving
