// What an answer costs: clients on connections that stay ask a small model, over HTTP on this host and so on the same
// cores.
//
//   ./dev bench serving
//
//   Predict             each asks for the next answer as soon as it has one
//   PredictAtHalfLoad   first so, for the rate; then all together at half of that rate, each at times of its own, which
//                       do not wait for answers: what comes late for its time counts as slow
//   items_per_second    predictions; of half the load where that is offered
//   full_per_second     the rate that was halved
//   p50_ms, p99_ms      from a request, or the time it is due, to its answer
//   arguments: clients, rows of the largest batch
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <sys/socket.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
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

  // False where there is no answer, now or before.
  bool ask() {
    std::array<char, 4096> piece;
    std::string answer;
    is_well_ = is_well_ &&
               send(file_, request_.data(), request_.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request_.size());
    while (is_well_ && !answer.ends_with("}\n")) {
      const ssize_t length = recv(file_, piece.data(), piece.size(), 0);
      is_well_ = length > 0;
      if (is_well_) answer.append(piece.data(), static_cast<size_t>(length));
    }
    return is_well_ = is_well_ && answer.starts_with("HTTP/1.1 200");
  }

 private:
  int file_;
  bool is_well_ = false;
  std::string request_;
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

// One client's part. The gaps between its times are random, so that those of all clients are as independent as people.
std::vector<double> ask(int port, const Load& load, unsigned seed) {
  Client client(port);
  std::mt19937 random(seed);
  std::exponential_distribution<double> gap(load.rate > 0 ? load.rate / load.num_clients : 1);
  std::vector<double> seconds;
  auto due = Clock::now();
  while (static_cast<int>(seconds.size()) < load.num_answers) {
    if (load.rate > 0) {
      due += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(gap(random)));
      std::this_thread::sleep_until(due);
    } else {
      due = Clock::now();
    }
    if (!client.ask()) return {};
    seconds.push_back(std::chrono::duration<double>(Clock::now() - due).count());
  }
  return seconds;
}

Measured measure(int port, const Load& load) {
  const auto begin = Clock::now();
  std::vector<std::vector<double>> of_clients(static_cast<size_t>(load.num_clients));
  std::vector<std::thread> clients;
  for (auto& own : of_clients)
    clients.emplace_back([&, seed = static_cast<unsigned>(clients.size())] { own = ask(port, load, seed); });
  for (std::thread& client : clients) client.join();
  Measured measured;
  for (const auto& own : of_clients) {
    if (own.empty()) return {};
    measured.seconds.insert(measured.seconds.end(), own.begin(), own.end());
  }
  measured.rate =
      static_cast<double>(measured.seconds.size()) / std::chrono::duration<double>(Clock::now() - begin).count();
  return measured;
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
BENCHMARK(PredictAtHalfLoad)->Args({16, 64})->Args({64, 64})->UseManualTime();

}  // namespace
}  // namespace tutti::benchmarks

BENCHMARK_MAIN();
