// What an answer costs: clients on connections that stay ask a small model, over HTTP on this host and so on the same
// cores.
//
//   ./dev bench serving
//
//   Predict             each asks for the next answer as soon as it has one
//   PredictAtRate       requests come at times of their own, which do not wait for answers, and go over the connection
//                       that is free: what is sent or answered late for its time counts as slow
//   PredictAtHalfLoad   first as Predict, for the rate; then half of that rate at times of their own
//   items_per_second    predictions; as many as were asked for where the rate is given
//   full_per_second     the rate that was halved
//   p50_ms, p99_ms      from a request, or the time it is due, to its answer
//   arguments: connections, rows of the largest batch, requests per second
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <poll.h>
#include <sys/socket.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace tutti::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;

std::filesystem::path saved_model_folder() {
  const auto folder = std::filesystem::temp_directory_path() / ("bench_serving_" + std::to_string(getpid()));
  const keras::Sequential model({keras::layers::Dense({.units = 64, .activation = keras::activations::relu}),
                                 keras::layers::Dense({.units = 4})});
  model.build({kUnknown, 16});
  saved_model::save(
      folder, {.signatures = {{"serving_default",
                               saved_model::Signature(
                                   [&](const Tensor& x) { return model(x); },
                                   {.inputs = {saved_model::TensorSpec({.name = "x", .shape = {kUnknown, 16}})}})}}});
  return folder;
}

class Client {
 public:
  explicit Client(int port) : file_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_well_ = connect(file_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    std::string body = R"({"instances": [[0.5)";
    for (int i = 1; i < 16; ++i) body += ", 0." + std::to_string(i);
    body += "]]}";
    request_ = "POST /v1/models/m:predict HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) +
               "\r\n\r\n" + body;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { close(file_); }

  int file() const { return file_; }

  // Both false where the server has gone, now or before.
  bool send_request() {
    answer_.clear();
    return is_well_ = is_well_ && send(file_, request_.data(), request_.size(), MSG_NOSIGNAL) ==
                                      static_cast<ssize_t>(request_.size());
  }
  // Waits for some of the answer.
  bool receive() {
    std::array<char, 4096> piece;
    const ssize_t length = is_well_ ? recv(file_, piece.data(), piece.size(), 0) : 0;
    if (length > 0) answer_.append(piece.data(), static_cast<size_t>(length));
    return is_well_ = length > 0 && answer_.substr(0, 12) == std::string("HTTP/1.1 200").substr(0, answer_.size());
  }
  bool has_answer() const { return answer_.ends_with("}\n"); }

 private:
  int file_;
  bool is_well_ = false;
  std::string request_, answer_;
};

struct Load {
  int num_clients = 1;
  int num_answers = 2000;  // for each client
  double rate = 0;         // requests per second, of all clients; 0: as soon as the one before is answered
};
struct Measured {
  std::vector<double> seconds;  // from a request, or the time it is due, to its answer; none: one had no answer
  double rate = 0;              // answers per second
};

double seconds_since(Clock::time_point time) { return std::chrono::duration<double>(Clock::now() - time).count(); }

// One client's part.
std::vector<double> ask(int port, int num_answers) {
  Client client(port);
  std::vector<double> seconds;
  while (static_cast<int>(seconds.size()) < num_answers) {
    const auto begin = Clock::now();
    if (!client.send_request()) return {};
    while (!client.has_answer())
      if (!client.receive()) return {};
    seconds.push_back(seconds_since(begin));
  }
  return seconds;
}

Measured measure_clients(int port, const Load& load) {
  const auto begin = Clock::now();
  std::vector<std::vector<double>> of_clients(static_cast<size_t>(load.num_clients));
  std::vector<std::thread> clients;
  for (auto& own : of_clients) clients.emplace_back([&] { own = ask(port, load.num_answers); });
  for (std::thread& client : clients) client.join();
  Measured measured;
  for (const auto& own : of_clients) {
    if (own.empty()) return {};
    measured.seconds.insert(measured.seconds.end(), own.begin(), own.end());
  }
  measured.rate = static_cast<double>(measured.seconds.size()) / seconds_since(begin);
  return measured;
}

// Requests at times of their own. One thread sends and reads them all, so that few threads want the server's cores.
class Arrivals {
 public:
  Arrivals(int port, const Load& load)
      : gap_(load.rate), num_requests_(static_cast<size_t>(load.num_clients) * static_cast<size_t>(load.num_answers)) {
    for (int i = 0; i < load.num_clients; ++i) {
      free_.push_back(clients_.size());
      clients_.push_back(std::make_unique<Client>(port));
    }
    dues_.resize(clients_.size());
  }

  Measured run() {
    const auto begin = Clock::now();
    next_due_ = begin;
    while (measured_.seconds.size() < num_requests_)
      if (!send_due() || !receive_some()) return {};
    measured_.rate = static_cast<double>(num_requests_) / seconds_since(begin);
    return std::move(measured_);
  }

 private:
  bool send_due() {
    for (; num_sent_ < num_requests_ && next_due_ <= Clock::now() && !free_.empty(); ++num_sent_) {
      const size_t client = free_.back();
      free_.pop_back();
      busy_.push_back(client);
      dues_[client] = next_due_;
      next_due_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(gap_(random_)));
      if (!clients_[client]->send_request()) return false;
    }
    return true;
  }

  // Waits for an answer, or until the next request is due and can be sent.
  bool receive_some() {
    polled_.clear();
    for (const size_t client : busy_)
      polled_.push_back({.fd = clients_[client]->file(), .events = POLLIN, .revents = 0});
    const bool waits_for_time = num_sent_ < num_requests_ && !free_.empty();
    const auto left = std::max<Clock::duration>(next_due_ - Clock::now(), Clock::duration::zero());
    const timespec timeout{.tv_sec = left / std::chrono::seconds(1),
                           .tv_nsec = (left % std::chrono::seconds(1)).count()};
    if (ppoll(polled_.data(), polled_.size(), waits_for_time ? &timeout : nullptr, nullptr) < 0) return false;
    for (size_t i = polled_.size(); i-- > 0;) {
      if (polled_[i].revents == 0) continue;
      const size_t client = busy_[i];
      if (!clients_[client]->receive()) return false;
      if (!clients_[client]->has_answer()) continue;
      measured_.seconds.push_back(seconds_since(dues_[client]));
      busy_.erase(busy_.begin() + static_cast<std::ptrdiff_t>(i));
      free_.push_back(client);
    }
    return true;
  }

  std::exponential_distribution<double> gap_;  // the times are as independent as people
  std::mt19937 random_;
  size_t num_requests_, num_sent_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<size_t> free_, busy_;
  std::vector<Clock::time_point> dues_;  // of each client's request
  Clock::time_point next_due_;
  std::vector<pollfd> polled_;
  Measured measured_;
};

Measured measure(int port, const Load& load) {
  return load.rate > 0 ? Arrivals(port, load).run() : measure_clients(port, load);
}

// Measures with loads that `load_of` makes of the server's port; its time is that of the loads.
template <class F>
void run(benchmark::State& state, F load_of) {
  const auto folder = saved_model_folder();
  serving::Server server({.models = {{.name = "m", .folder = folder}}, .port = 0, .max_batch = state.range(1)});
  std::vector<double> all;
  for (auto _ : state) {
    const auto begin = Clock::now();
    const Load load = load_of(server.port());
    const auto paused = Clock::now() - begin;
    const Measured measured = measure(server.port(), load);
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - begin - paused).count());
    if (measured.seconds.empty()) return state.SkipWithError("a request had no answer");
    all.insert(all.end(), measured.seconds.begin(), measured.seconds.end());
  }
  std::ranges::sort(all);
  state.SetItemsProcessed(static_cast<int64_t>(all.size()));
  state.counters["p50_ms"] = 1000 * all[all.size() / 2];
  state.counters["p99_ms"] = 1000 * all[all.size() * 99 / 100];
  server.stop();
  std::filesystem::remove_all(folder);
}

void Predict(benchmark::State& state) {
  run(state, [&](int) { return Load{.num_clients = static_cast<int>(state.range(0))}; });
}

void PredictAtRate(benchmark::State& state) {
  run(state, [&](int) {
    constexpr int64_t kSeconds = 5;
    const auto num_answers = static_cast<int>(kSeconds * state.range(2) / state.range(0));
    return Load{.num_clients = static_cast<int>(state.range(0)),
                .num_answers = num_answers,
                .rate = static_cast<double>(state.range(2))};
  });
}

void PredictAtHalfLoad(benchmark::State& state) {
  run(state, [&](int port) {
    Load load{.num_clients = static_cast<int>(state.range(0))};
    const double full = measure(port, load).rate;
    state.counters["full_per_second"] = full;
    load.rate = std::max(1.0, full / 2);
    return load;
  });
}

BENCHMARK(Predict)->Args({1, 64})->Args({4, 64})->Args({16, 64})->Args({64, 64})->Args({16, 1})->UseManualTime();
BENCHMARK(PredictAtRate)->Args({64, 64, 4000})->Args({64, 64, 8000})->Args({64, 64, 16000})->UseManualTime();
BENCHMARK(PredictAtHalfLoad)->Args({16, 64})->Args({64, 64})->UseManualTime();

}  // namespace
}  // namespace tutti::benchmarks

BENCHMARK_MAIN();
