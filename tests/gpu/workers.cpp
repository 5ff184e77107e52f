// Processes that train by NCCL on one GPU, each as if it were on a host of its own.
//
//   gpu_workers look    nothing trains: whether there is a GPU
//   gpu_workers train   two processes train; the losses and weights are those of one process with two replicas
//   gpu_workers die     the second kills itself in a step; the first is told who is lost, in time
//
// Exits with 77 where there is no GPU.
#include <signal.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

using namespace tutti;
using namespace std::chrono_literals;
namespace nn = torch::nn;

constexpr int kWorkers = 2, kSteps = 8, kNoGpu = 77;
constexpr auto kTimeout = 20s;

// Prints the losses and the sum of each weight.
void train(Strategy& strategy, int64_t rows, int dies_at_step) {
  torch::manual_seed(4);
  auto net = strategy.build([] { return nn::Sequential(nn::Linear(16, 32), nn::ReLU(), nn::Linear(32, 4)); },
                            {.gradients = ReduceOp::mean});
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int step = 0; step < kSteps; ++step) {
    if (step == dies_at_step) kill(getpid(), SIGKILL);
    torch::manual_seed(100 + step);
    const Tensor all = torch::randn({2 * rows, 16}), labels = torch::randint(4, {2 * rows}, torch::kLong);
    optimizer.zero_grad();
    const auto losses = strategy.run([&] {
      const int64_t replica = get_replica_context().replica_id_in_sync_group();
      const Tensor x = all.narrow(0, replica * rows, rows).cuda(), y = labels.narrow(0, replica * rows, rows).cuda();
      const Tensor loss = torch::cross_entropy_loss(net->forward(x), y);
      loss.backward();
      return loss.detach();
    });
    optimizer.step();
    std::printf("loss %.5f\n", strategy.reduce(ReduceOp::mean, losses).item<double>());
  }
  for (const Tensor& weight : net->parameters()) std::printf("weight %.4f\n", weight.sum().item<double>());
  std::fflush(stdout);
}

// In a worker process, of which nothing has asked for a GPU before.
int work(int rank, int first_port, bool dies) {
  std::string workers;
  for (int i = 0; i < kWorkers; ++i) workers += str(i ? "," : "", "\"127.0.0.1:", first_port + i, '"');
  const std::string config =
      str(R"({"cluster": {"worker": [)", workers, R"(]}, "task": {"type": "worker", "index": )", rank, "}}");
  setenv("TF_CONFIG", config.c_str(), 1);
  setenv("NCCL_HOSTID", str("host ", rank).c_str(), 1);
  const auto begin = std::chrono::steady_clock::now();
  try {
    MultiWorkerMirroredStrategy strategy(
        {.devices = {"GPU:0"},
         .communication_options = {.timeout = kTimeout, .implementation = CommunicationImplementation::nccl}});
    train(strategy, 8, dies && rank == 1 ? 3 : -1);
  } catch (const Error& error) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::printf("after %.1f s %s\n", seconds.count(), error.what());
    std::fflush(stdout);
    return 1;
  }
  return 0;
}

struct Ended {
  std::string said;
  int status = 0;
};

// What f prints in a process of its own.
template <class F>
std::pair<pid_t, int> start(F f) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    const int status = f();
    std::fflush(stdout);
    _exit(status);
  }
  close(ends[1]);
  return {child, ends[0]};
}

Ended end_of(std::pair<pid_t, int> process) {
  Ended ended;
  char buffer[4096];
  for (ssize_t n; (n = read(process.second, buffer, sizeof buffer)) > 0;)
    ended.said.append(buffer, static_cast<size_t>(n));
  close(process.second);
  waitpid(process.first, &ended.status, 0);
  return ended;
}

}  // namespace

int main(int argc, char** argv) {
  const bool dies = argc > 1 && std::string(argv[1]) == "die";
  const Ended look = end_of(start([] { return list_physical_devices(DeviceType::gpu).empty() ? kNoGpu : 0; }));
  if (WEXITSTATUS(look.status) == kNoGpu) {
    std::puts("not run: needs a GPU");
    return kNoGpu;
  }
  if (argc > 1 && std::string(argv[1]) == "look") return look.status == 0 ? 0 : 1;
  const int port = 20000 + getpid() % 20000;
  std::vector<std::pair<pid_t, int>> started;
  for (int rank = 0; rank < kWorkers; ++rank) started.push_back(start([=] { return work(rank, port, dies); }));
  std::vector<Ended> workers;
  for (const auto& process : started) workers.push_back(end_of(process));
  if (dies) {
    std::fputs(workers[0].said.c_str(), stdout);
    const bool named = workers[0].said.find("worker 1") != std::string::npos && WEXITSTATUS(workers[0].status) == 1;
    std::puts(named ? "the lost worker was named" : "FAILED: the lost worker was not named");
    return named ? 0 : 1;
  }
  const Ended alone = end_of(start([] {
    MirroredStrategy strategy({.devices = configure_logical_devices("GPU:0", {{}, {}})});
    train(strategy, 8, -1);
    return 0;
  }));
  std::fputs(alone.said.c_str(), stdout);
  bool equal = !alone.said.empty();
  for (const Ended& worker : workers)
    if (worker.said != alone.said) equal = (std::printf("FAILED: a worker said\n%s", worker.said.c_str()), false);
  if (equal) std::puts("two processes gave the numbers of one");
  return equal ? 0 : 1;
}
