#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "tutti/core/function_ref.h"
#include "tutti/function/call_elements.h"
#include "tutti/function/function_graph.h"
#include "tutti/function/function_options.h"
#include "tutti/function/program.h"
#include "tutti/function/program_runner.h"
#include "tutti/function/signature.h"

namespace tutti {

class GradientReads;
class Recorder;

// The recordings of one function, and which of them a call takes. Threads: any number may call at once; one records.
class Traces {
 public:
  explicit Traces(FunctionOptions options);

  // Runs the function on tensors in the places of the arguments', and gives its results' tensors.
  using Body = FunctionRef<Tensors(at::ArrayRef<Tensor> arguments)>;
  // After the body: the result's structure without its tensors, which is kept with the recording.
  using Form = FunctionRef<std::shared_ptr<void>()>;
  struct Outcome {
    Tensors tensors;
    std::shared_ptr<void> form;
  };
  // Throws: failed_precondition where the function cannot be recorded, or differs from recording to recording;
  // unimplemented for what cannot be recorded yet; what the function or its calls throw.
  Outcome call(std::type_index types, const FlatArguments& arguments, Body body, Form form);

  // How many times the function was recorded. TF: experimental_get_tracing_count.
  int64_t tracing_count() const { return tracing_count_; }
  // The signatures of the recordings, a line each.
  std::string signatures() const;
  // The recorded program for such arguments; null if there is none yet.
  std::shared_ptr<const Program> find_program(std::type_index types, const FlatArguments& arguments) const;

 private:
  // Of a function that found gradients in one way: some, none, or at some variables.
  struct Recording {
    std::shared_ptr<const Program> program = {};  // the last one
    bool made_state = false;                      // whether that made tensors that something outside keeps
    bool found_unreduced = false;                 // gradients of before, which later ones find reduced
    int num_recordings = 0;
    bool ready = false;  // two recordings in a row agreed
    std::vector<std::unique_ptr<ProgramRunner>> free = {};
    std::shared_ptr<void> form = {};
    LaidOutValues results = {};
    FunctionGraph graph = {};  // of the last recording, if gradients go through a call
  };
  struct Trace {
    Signature signature;
    Recording now = {};
    std::vector<Recording> set_aside = {};  // until gradients are found again as they were then
    int num_misfits = 0;                    // in a row: what it uses from outside was replaced
    bool gave_up = false;                   // such calls run as they are

    const std::shared_ptr<const Program>& latest_program() const;
    void put_aside(Recording recording);
    bool turn_to_gradients();
  };
  // What a call was given, and where it runs.
  struct Call {
    TakenApart arguments;  // behind them, at last, the elements
    Body body;
    Form form;
    CallElements& elements;
  };

  Signature signature_of(std::type_index types, const FlatArguments& arguments, const TakenApart& tensors) const;
  Trace* find(const Signature& signature) const;
  std::optional<std::vector<int>> iterators_taken(const Signature& signature) const;
  Trace& find_or_add(Signature signature);
  bool has_given_up(const Trace& trace) const;
  bool gives_up_after_misfit(Trace& trace);
  std::unique_ptr<ProgramRunner> make_runner(const std::shared_ptr<const Program>& program) const;
  std::unique_ptr<ProgramRunner> take_replay(Trace& trace, Outcome& outcome, LaidOutValues& results,
                                             FunctionGraph& graph);
  std::unique_ptr<ProgramRunner> take_fitting(Recording& recording) const;
  void give_back(Trace& trace, std::unique_ptr<ProgramRunner> replay);
  void fetch_elements(const Signature& signature, CallElements& elements, std::unique_lock<std::mutex>& recording);
  Outcome record(Trace& trace, Call& call);
  void finish_recording(Trace& trace, const Call& call, bool previous_fitted, Recorder& recorder,
                        std::shared_ptr<InnerGraph> graph, Outcome& outcome);
  FunctionGraph graph_of(Trace& trace, const Program& program, std::shared_ptr<InnerGraph> inner);
  void reduce_gradients_of_before();
  void learn_of_reductions(Trace& trace, const GradientReads& gradients);
  void give_up(const Error& why, const Trace* trace = nullptr);
  bool attempt(FunctionRef<void()> part, Trace* const& trace);
  void take_elements(Trace& trace, Call& call);
  void accept(Trace& trace, Program program, Recording made, const std::vector<std::string>& kept_outside,
              bool previous_fitted);
  void end_graph(Tensor& result) const;
  Tensors finish_results(const Program& program, const FunctionGraph& graph, at::ArrayRef<Tensor> arguments,
                         Tensors plain, at::ArrayRef<LaidOut> layouts) const;
  void refuse_written_meshes(const Program& program, at::ArrayRef<LaidOut> layouts) const;

  FunctionOptions options_;
  mutable std::mutex mutex_;  // of traces_ and their lists of free replays
  std::mutex recording_;      // one thread records
  std::vector<std::unique_ptr<Trace>> traces_;
  std::vector<std::shared_ptr<GradientGroup>> reduced_;  // whose gradients it reads, of processes; guarded by mutex_
  std::atomic<int64_t> tracing_count_{0};
  std::atomic<bool> gave_up_{false};  // it cannot be recorded, and runs as it is
  std::atomic<bool> told_{false};     // that some call could not be recorded
};

}  // namespace tutti
