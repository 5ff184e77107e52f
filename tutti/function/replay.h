#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/core/function_ref.h"
#include "tutti/function/control_flow_step.h"
#include "tutti/function/graphed_steps.h"
#include "tutti/function/joined_calls.h"
#include "tutti/function/laid_out.h"
#include "tutti/function/memory_plan.h"
#include "tutti/function/native_kernel.h"
#include "tutti/function/pointwise_groups.h"
#include "tutti/function/program.h"
#include "tutti/function/program_runner.h"
#include "tutti/function/replay_memory.h"
#include "tutti/function/surroundings.h"

namespace tutti {

// Runs a program again: its calls with the memory, the views and the arguments of calls prepared. Views cost nothing,
// temporaries lie in one block, and where LibTorch's kernel can write its result there, it does. What lies on a GPU has
// the memory that LibTorch's kernels allocate, and the thread's current streams do the work; if asked for, what one GPU
// does in a row is a graph, which is launched at once.
// Threads: one at a time.
class Replay final : public ProgramRunner {
 public:
  // While it runs its temporaries are in `memory`; null: in memory of its own.
  // `gpu_graphs`: requires GpuGraph::require() where the program uses a GPU.
  explicit Replay(std::shared_ptr<const Program> program, std::shared_ptr<ReplayMemory> memory = nullptr,
                  bool gpu_graphs = false);
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  bool fits() const override { return surroundings_fit(*program_); }
  // Throws what its calls throw; then what they wrote so far is written, and the next run starts afresh.
  Tensors run(at::ArrayRef<Tensor> arguments) override;

  const std::shared_ptr<const Program>& program() const override { return program_; }
  // The bytes of temporaries that were planned into one block.
  int64_t planned_bytes() const { return planned_bytes_; }

  struct StepTime {
    std::string calls;  // the names of its calls, joined by " + "
    double seconds;
  };
  // Runs the program `runs` times with a clock beside each step. The least time of each, in their order.
  std::vector<StepTime> step_times(at::ArrayRef<Tensor> arguments, int runs);

 private:
  enum class Form { in_place, functional, out, fresh_memory, host_step, joined, control_flow };
  struct Step {
    std::vector<const Program::Call*> calls;  // one, or several that are joined
    Form form = Form::in_place;
    bool proven = false;              // out: whether it was seen to give the bits of the functional form
    c10::DispatchKeySet device = {};  // whose kernel is called, past the other keys; empty: the dispatcher finds it
    std::optional<c10::OperatorHandle> out_op = {};
    NativeKernel native = nullptr;  // in the place of out_op
    std::unique_ptr<JoinedCalls> joined = nullptr;
    std::unique_ptr<ControlFlowStep> control_flow = nullptr;
    Stack arguments = {};
    Stack out_arguments = {};
    std::vector<Tensor> inputs = {};  // of a host step
    Stack stack = {};
    c10::SmallVector<int, 2> makes = {};       // buffers
    c10::SmallVector<int, 2> also_reads = {};  // buffers that its calls do not read
    c10::SmallVector<int, 2> frees = {};       // buffers that no later step needs
    bool stays_alone = false;                  // a graph cannot have it

    const Program::Call& call() const { return *calls[0]; }
  };
  // Steps in a row that a GPU is given at once.
  struct Graphed {
    size_t begin, end;
    std::unique_ptr<GraphedSteps> steps;
    size_t last_begun;  // step, when a graph was made of them; `end`: all were
  };
  // Steps in a row of one replica, or of none.
  struct Segment {
    size_t begin, end;
    std::vector<Graphed> graphs = {};
  };
  // Segments of which none needs what another makes. Where they are worth the waking of threads, they run at once.
  struct Phase {
    std::vector<Segment> segments;
    c10::SmallVector<int, 2> frees = {};  // buffers of several segments that no later phase needs
    int num_runs = 0;                     // until it is known
    double least_seconds = 1e9;
    bool at_once = false;
  };
  // Whose memory a buffer has.
  enum class Place {
    kept,   // somebody's: of a captured tensor or a constant
    bound,  // an argument's or a gradient's: set at each run
    block,  // a part of the one block
    own,    // what the call that makes it has allocated
    given,  // goes to the caller at the end of a run
  };

  std::vector<const Program::Call*> calls_to_run();
  bool is_folded(const Program::Call& call) const;
  void fold(const Program::Call& call);
  void choose_places();
  void make_values();
  void make_steps(const std::vector<CallGroup>& groups);
  Step make_step(const CallGroup& group);
  void choose_form(Step& step);
  c10::DispatchKeySet device_of(const Program::Call& call) const;
  void make_phases();
  Lifetime widened(Lifetime lifetime) const;
  void plan_block();
  std::optional<c10::Device> gpu_of(const Step& step) const;
  std::vector<GraphedSteps::Use> uses_in(size_t begin, size_t end) const;
  void make_graphs(Segment& segment);
  void make_other_graphs(Segment& segment);
  void take_block();
  void enter_meshes();
  void leave_meshes();
  Tensors run_with(at::ArrayRef<Tensor> arguments, FunctionRef<void()> steps);
  void run_phases();
  void run_phase(Phase& phase);
  void run_at_once(Phase& phase);
  void run_segment(Segment& segment);
  void run_steps(size_t begin, size_t end, size_t* last_begun = nullptr);
  void free_memory(int buffer);
  void bind(at::ArrayRef<Tensor> arguments);
  void find_allocated();
  void allocate_results();
  void run_step(Step& step);
  void call(Step& step, const c10::OperatorHandle& op, const Stack& arguments);
  void run_functional(Step& step);
  void take_fresh_memory(const Step& step);
  void run_control_flow(Step& step);
  void run_out(Step& step);
  void prove(Step& step);
  void take_results(Step& step);
  void take(int value, const Tensor& made);
  bool gave_the_same(const Step& step) const;
  const c10::Storage& give(int buffer);
  Tensor result(int value, at::ArrayRef<Tensor> arguments);
  void set_gradients(at::ArrayRef<Tensor> arguments);
  at::IValue build(const Program::Operand& operand) const;

  const Program::Buffer& buffer(int number) const { return program_->buffers[static_cast<size_t>(number)]; }
  const Program::Value& value(int number) const { return program_->values[static_cast<size_t>(number)]; }
  bool on_host(const Program::Call& call) const { return is_on_host(*program_, call); }
  Place& place(int buffer) { return places_[static_cast<size_t>(buffer)]; }
  c10::StorageImpl& storage(int buffer) const { return *storages_[static_cast<size_t>(buffer)].unsafeGetStorageImpl(); }

  std::shared_ptr<const Program> program_;
  bool is_on_host_;                     // all of it
  std::vector<Place> places_;           // of buffers
  std::vector<c10::Storage> storages_;  // of buffers: somebody's, or one whose pointer is set
  std::vector<c10::Storage> given_;     // of buffers, at the end of a run
  std::vector<int> allocated_;          // buffers that are given, and whose makers do not allocate them
  std::vector<Tensor> values_;
  std::vector<Step> steps_;
  std::vector<Phase> phases_;
  struct Planned {
    int buffer;
    int64_t offset;
  };
  std::vector<Planned> planned_;  // buffers in the block
  int64_t planned_bytes_ = 0;
  std::shared_ptr<ReplayMemory> memory_;
  ReplayMemory::Block block_;       // during a run
  const void* bound_to_ = nullptr;  // the block of the last run
};

}  // namespace tutti
