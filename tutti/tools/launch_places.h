#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace tutti::tools {

// What is done about a process that has failed.
struct Verdict {
  enum class Kind : int64_t { ends, goes_on, starts_again };  // the run ends; the others go on; it is started again
  Kind kind = Kind::ends;
  std::string why = {};  // for people, behind what happened: "the other 2 go on"; empty for an end
  int attempt = 0;       // of the process that is started again, from 1

  bool operator==(const Verdict&) const = default;
};

// How many processes of a run are left, on all hosts, and how many may be started again. Any thread.
class LaunchPlaces {
 public:
  // Of `num_processes`, at least `min_processes` have to be left for the others to go on.
  LaunchPlaces(int num_processes, int min_processes, int num_restarts);

  // A process has ended, others have come. The run is over once one has finished.
  void note_end(bool has_finished);
  void note_start(int count);
  // Of an elastic run (Elastic), where one has failed that `takes_part` in the group, or did.
  Verdict judge(bool takes_part);
  // A restart, where any are left.
  Verdict start_again();

 private:
  Verdict start_again_locked();

  const int min_processes_, num_restarts_;
  std::mutex mutex_;
  int num_left_, restarts_left_;
  bool has_finished_ = false;
};

}  // namespace tutti::tools
