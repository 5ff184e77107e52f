#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "tutti/checkpoint/checkpoint.h"
#include "tutti/distribute/multi_worker_mirrored_strategy.h"

namespace tutti {

struct ElasticOptions {
  int min_processes = 1;  // fewer wait for others; `tutti launch --min` may ask for more
  std::chrono::milliseconds wait_for_joiners = std::chrono::seconds(30);  // how long
  int max_changes = 100;                                                  // of the processes, in one run()
};

// Training that goes on in the same processes when some are lost or new ones come, under `tutti launch --min N`, on one
// host or several:
//
//   Elastic elastic(strategy, Checkpoint({{"net", net}, {"optimizer", optimizer}, {"step", step}}));
//   elastic.run([&] {
//     // datasets are distributed here: their parts depend on the number of processes
//     for (; step < steps; ++step) {
//       elastic.commit();
//       ...  // one step
//     }
//   });
//
// After each change `loop` is called again, in all processes, with the checkpoint's objects as they were at the last
// commit(): what was done since is done again, all else is done once, and no gradient is left. All that the loop goes
// on from has to be in the checkpoint. A process that comes in the place of a lost one runs the program from its
// beginning and is alone until run(), where it gets the others' state. Elsewhere run() calls `loop` once, and a lost
// process is an error as ever. TF: none. Horovod: hvd.elastic.run.
class Elastic {
 public:
  Elastic(MultiWorkerMirroredStrategy& strategy, Checkpoint state, const ElasticOptions& options = {});
  ~Elastic();
  Elastic(const Elastic&) = delete;
  Elastic& operator=(const Elastic&) = delete;

  // Throws: what `loop` throws, which is then this process's end; unavailable and deadline_exceeded when too few are
  // left; failed_precondition for objects that do not take the others' state.
  void run(const std::function<void()>& loop);
  // To be called in `loop` between two steps, by all processes: keeps a copy of the state in memory. Where processes
  // wait to join, it lets them in, and leaves `loop` by an exception that is none of std. Every so many steps will do.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti
