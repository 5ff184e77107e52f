// How much slower the MNIST CNN's training step becomes when another process keeps one core busy: on two cores a
// factor of 2 for a loop that uses both, and no more if it hands work on to whoever has time.
//
//   ./dev bench busy_neighbour
//
// Fit: an epoch of Keras `fit` with a network of 1200, 48 and 2 units, in batches of 64, beside the neighbour: `raw_us`
// with the threads as they are set, `ours_us` with those that are free.
//
// replicas:0 is the plain LibTorch loop on all cores, whose threads wait for each other in every op. Here `raw_us` is
// the quiet step and `ours_us` the disturbed one, of the same program; read `ratio`.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include "training.h"

namespace tutti::benchmarks {
namespace {

// A process that computes without end, until it is paused.
class Neighbour {
 public:
  Neighbour() : pid_(fork()) {
    if (pid_ < 0) throw Error(ErrorCode::unavailable, "the neighbour process could not be started");
    if (pid_ > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(600);
    for (;;) benchmark::ClobberMemory();
  }
  ~Neighbour() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  void pause() const { kill(pid_, SIGSTOP); }
  void resume() const { kill(pid_, SIGCONT); }

 private:
  const pid_t pid_;
};

void Cnn(benchmark::State& state) {
  const int replicas = static_cast<int>(state.range(0));
  at::set_num_threads(static_cast<int>(std::thread::hardware_concurrency()));
  Training training(mnist_cnn(), replicas ? std::optional(replicas) : std::nullopt);
  const Neighbour neighbour;
  const auto quiet = [&] {
    neighbour.pause();
    training.step();
  };
  const auto disturbed = [&] {
    neighbour.resume();
    training.step();
  };
  compare(state, 5, quiet, disturbed);
}

BENCHMARK(Cnn)->ArgName("replicas")->Arg(0)->Arg(1)->Arg(2)->Arg(8)->Iterations(31)->UseManualTime();

void Fit(benchmark::State& state) {
  at::set_num_threads(static_cast<int>(std::thread::hardware_concurrency()));
  const keras::Sequential model({keras::layers::Dense({.units = 48, .activation = keras::activations::relu}),
                                 keras::layers::Dense({.units = 2})});
  model.compile({.optimizer = keras::optimizers::SGD({.learning_rate = 0.01}), .loss = "mse"});
  const Tensor x = torch::rand({64 * 2000, 1200}), y = torch::rand({64 * 2000, 2});
  const Neighbour neighbour;
  const auto train = [&](keras::FitThreads threads) {
    return [&, threads] {
      model.fit(x, y, {.batch_size = 64, .verbose = keras::Verbose::silent, .shuffle = false, .threads = threads});
    };
  };
  compare(state, 1, train(keras::FitThreads::as_set), train(keras::FitThreads::free));
}

BENCHMARK(Fit)->Iterations(11)->UseManualTime();

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) { tutti::benchmarks::run(argc, argv); }
