#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/structure.h"
#include "tutti/function/laid_out.h"
#include "tutti/function/loop.h"
#include "tutti/function/outside_tensors.h"
#include "tutti/function/program.h"
#include "tutti/function/replica_leaf.h"
#include "tutti/function/seed_watch.h"
#include "tutti/function/sub_program.h"
#include "tutti/function/undo_log.h"
#include "tutti/tensor/call_recorder.h"

namespace tutti {

class KeptShares;

// What becomes of a function that cannot be recorded.
enum class Unrecordable {
  error,    // the error is thrown in the function
  goes_on,  // the function runs to its end as if nothing were recorded
};

// Makes a program of the calls of one run of a function. While it lives, the memory of what the function makes and of
// its arguments is for recorded calls only: where C++ asks for it, the function cannot be recorded, as the program
// would not know of it. Threads: the one that runs the function.
class Recorder final : public CallRecorder {
 public:
  // `leaves`: captured tensors of an earlier recording, whose gradients are known by this when the function is entered.
  // Requires: memory_can_be_watched().
  Recorder(std::string name, const std::vector<Program::Leaf>& leaves, Unrecordable unrecordable);
  ~Recorder() override;

  // What the function is to be called with: the arguments' values in storages of their own on the same memory.
  // Throws: unimplemented for tensors that are not dense on the CPU, or that need a gradient.
  Tensors take_arguments(at::ArrayRef<Tensor> arguments);
  // The same of an element that the function takes of an iterator, whose tensors are further arguments. Nothing where
  // that ends the recording.
  std::optional<Tensors> take_element(const TakenApart& element);

  void call(const c10::OperatorHandle& op, const OperatorInfo& info, Stack& stack) override;
  void host_step(const char* name, at::ArrayRef<Tensor> inputs, at::ArrayRef<Tensor> written, HostStep step) override;
  void global_view(MeshTensorImpl& tensor, bool writes) override;
  void gives_data(const Tensor& tensor) override;
  void communicates(CommunicationCounter& counter, int64_t bytes) override;
  Tensor replica_view(const Tensor& tensor, const Tensor& global, FunctionRef<Tensor()> look) override;
  bool has_written(const Tensor& tensor) const override;
  void replicas_run(ParallelCall on_replicas) override;
  bool in_part() const override { return !parts_.empty(); }
  // The program is one for the devices of this compiler. Throws: unimplemented where it is one for others already, or
  // has calls with parts.
  void compile_by(std::shared_ptr<ProgramCompiler> compiler);

  using FlatTensors = structure::Flat<Tensor>;
  using RunPart = FunctionRef<FlatTensors()>;
  // See tutti::cond. Nothing where the recording ended, and what is taken was not called yet.
  std::optional<FlatTensors> cond(const Tensor& predicate, RunPart if_true, RunPart if_false);
  // See tutti::while_loop. Runs the loop to its end, or to where the recording ended.
  void while_loop(Loop& loop);

  void refuse(const Error& why) override;
  bool is_over() const override { return why_over_.has_value(); }
  // Why the recording ended before the function did.
  const std::optional<Error>& why_over() const { return why_over_; }
  // Does a part of the recording, which may find that it cannot be made. Returns whether it goes on.
  bool attempt(FunctionRef<void()> part);

  // Whether it is a mesh tensor that the function used and did not make.
  bool is_from_outside(const Tensor& tensor) const;
  // Whether all of its calls are on plain tensors of one thread of the host.
  bool is_plain() const { return program_.meshes.empty() && !program_.runs_replicas && !program_.compiler; }
  // Whether the function made the tensor: its memory, or another tensor on an argument's.
  bool has_made(const Tensor& tensor) const;
  // Whether it is a tensor from outside, and the first one that was seen on its memory.
  bool is_origin(const Tensor& tensor);
  // The function has ended, and its replicas left gradients: makes calls, as the function does.
  void reduce_gradients_of_replicas();
  // The function has ended, leaves these, and its graph saved those. Returns whether it could be recorded.
  bool take_end(at::ArrayRef<Tensor> results, std::vector<Tensor> saved = {});
  // Requires: take_end() with these results, which become what the caller gets, without a graph. Behind them come the
  // values that were saved.
  Program finish(Tensors& results);
  // Tensors that the function made and that something outside of it holds on to, besides results and gradients, with
  // the call that made them: "float32 [3] of aten::add.Tensor". Valid after finish().
  const std::vector<std::string>& kept_outside() const { return kept_outside_; }

 private:
  // What is known of a buffer while its program is recorded.
  struct State {
    c10::Storage storage;
    bool fresh = false;  // nothing was written yet that the recorder saw
    std::vector<int> values;
    int part = 0;         // temporary: the number of the part of the function in which it was made; 0: of none
    std::string made_by;  // temporary: the name of the call
  };
  // A part of the function that a call of the program runs, as it is recorded.
  struct Part {
    std::string what;  // "the branch of cond for true"
    int number;        // parts in it have higher ones
    int end = 0;       // more than the highest one
    std::vector<Program::Call> calls = {};
    std::vector<Program::Sent> sent = {};
    std::vector<c10::VariableVersion> written_versions = {};
    std::optional<UndoLog> undo = {};           // what it does is undone
    std::vector<Tensor> written_in_graph = {};  // in place, while gradients were recorded, and made before it
    std::vector<std::pair<Tensor, Tensor>> gradients = {};  // of variables, as it found them
    FlatTensors returned = {};
    TakenApart results = {};  // of what it returned
    std::vector<int> values = {};
  };
  // A part is recorded until the end of the block.
  class PartScope {
   public:
    PartScope(Recorder& recorder, Part& part);
    ~PartScope();
    PartScope(const PartScope&) = delete;
    PartScope& operator=(const PartScope&) = delete;
    void finish() { finished_ = true; }  // else an exception ends it

   private:
    void undo();
    void tell_of_exception();

    Recorder& recorder_;
    Part& part_;
    bool finished_ = false;
  };
  struct LoopParts;
  // A replica's share of a value, in a storage of its own on the memory of a buffer.
  struct Share {
    int buffer;
    c10::weak_intrusive_ptr<c10::StorageImpl> place;  // keeps the address, not the share
  };
  class Readable;

  std::vector<Program::Call>& calls() { return parts_.empty() ? program_.calls : parts_.back()->calls; }
  // Of the innermost part.
  std::vector<c10::VariableVersion>& written_versions();
  bool is_made_in(const Part& part, int number) const;
  bool is_made_outside(int number) const { return !parts_.empty() && !is_made_in(*parts_.back(), number); }
  // Whether what is done now is undone: then the recording cannot end, only fail.
  bool is_undone() const;
  bool throws() const { return unrecordable_ == Unrecordable::error || is_undone(); }
  bool is_in_sight(int number) const;
  void refuse_tensor_of_part(int number) const;
  void refuse_parts(const char* what) const;
  void note_write_in_parts(const Tensor& tensor);
  void note_draw_in_parts(at::ArrayRef<at::IValue> arguments);
  void note_leaf(const Tensor& tensor);
  void take_gradient(size_t leaf);
  void note_gradient_in_parts(const Tensor& tensor);
  void note_alias(const Tensor& tensor, int number);
  Tensor source_of_data(const Tensor& tensor) const;
  void note_seed();
  void clear_unwritten(const Program::Call& host_step);
  bool read_flag(const Tensor& predicate);
  void settle_fresh_memory();
  void record_part(Part& part, RunPart run);
  void record_undone(Part& part, RunPart run);
  void end_part(Part& part);
  void refuse_changed_gradients(const Part& part) const;
  void refuse_written_graphs(const Part& part) const;
  void refuse_other_results(const Part& one, const Part& other) const;
  SubProgram program_of(Part& part, std::vector<int> inputs = {});
  void add_part(Program::Call& call, const char* name, SubProgram part, size_t num_bound = 0);
  void begin_loop(LoopParts& parts, Loop& loop);
  bool record_iteration(LoopParts& parts, Loop& loop);
  std::vector<int> take_state(at::ArrayRef<Tensor> state);
  void record_condition(Part& condition, Loop& loop);
  void take_next_state(LoopParts& parts, Loop& loop, at::ArrayRef<Tensor> next);
  void take_part(LoopParts& parts, size_t index, const std::vector<int>& state, Part& part);
  void refuse_gradients_through(const std::string& what, at::ArrayRef<Tensor> values) const;
  Tensors own_values(at::ArrayRef<Tensor> values);
  Tensors make_results(Program::Call& call, at::ArrayRef<Tensor> values);

  static void add_number(c10::SmallVector<int, 2>& numbers, int number);
  int add_buffer(Program::Buffer buffer, c10::Storage storage);
  int known_buffer(const Tensor& tensor) const;
  int capture(const Tensor& tensor);
  size_t mesh_value(const Tensor& tensor);
  int buffer_of(const Tensor& tensor);
  int value_of(const Tensor& tensor);
  Program::Operand operand_of(const at::IValue& argument);
  void take_operands(const OperatorInfo& info, at::ArrayRef<at::IValue> arguments, Program::Call& call);
  void take_results(const OperatorInfo& info, Stack& stack, Program::Call& call);
  void keep_shares(at::ArrayRef<at::IValue> arguments, const Program::Call& call, KeptShares& kept) const;
  void note_write(const Tensor& tensor);
  void note_write_in_graph(const Tensor& tensor);
  void refuse_new_geometry(const OperatorInfo& info, const Tensor& tensor);
  void take_new_sizes(const OperatorInfo& info, at::ArrayRef<at::IValue> arguments, Program::Call& call);
  void take_new_size(const OperatorInfo& info, const Tensor& tensor, int value_before);
  void keep_what_cpp_wrote(int buffer);
  void add_call(Program::Call call);
  void take_replica_view(const Tensor& tensor, const Tensor& global, const Tensor& own);
  void close(int buffer);
  void open_all();
  void free_unused(size_t from = 0);
  void refuse_resized_arguments();
  void refuse_gradients_of_replicas() const;
  void note_unreduced();
  void refuse_kept_graphs() const;
  void refuse_compiled_gpus() const;
  void take_result(const Tensor& result);
  void relate_results(at::ArrayRef<Tensor> results);
  void take_leaves();
  void take_new_gradient(Program::Leaf& leaf);
  void forget_unused_gradients();
  void find_constants();
  void take_aliases();
  void find_kept_outside();

  Program::Buffer& buffer(int number) { return program_.buffers[static_cast<size_t>(number)]; }
  State& state(int number) { return states_[static_cast<size_t>(number)]; }

  std::string name_;
  Unrecordable unrecordable_;
  uint64_t unseen_accesses_;  // before
  std::optional<Error> why_over_;
  Program program_;
  std::vector<State> states_;  // of program_.buffers
  std::unordered_map<const c10::StorageImpl*, int> buffer_of_;
  std::unordered_map<const c10::StorageImpl*, Share> shares_;  // of replicas that run in the function
  // By the first memory of a tensor from outside, which no call has used: the one whose data() the function made.
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>>
      sources_;
  std::unordered_map<int, size_t> mesh_of_;  // of captured buffers, the mesh tensor's number
  std::vector<ReplicaLeaf> replica_leaves_;
  bool in_replica_;  // whether the function is called in a replica's
  int num_threads_;  // of LibTorch's kernels, where the function is called
  SeedWatch seeds_;
  std::vector<std::string> kept_outside_;
  std::vector<Part*> parts_;  // that are being recorded, the outermost first
  int num_parts_ = 0;
  std::optional<Error> failed_part_;  // an exception ended a part, so that the program lacks what that did
  OutsideTensors outside_;
  std::vector<std::pair<Tensor, bool>> leaves_;  // met so far, that may have a gradient, and had one then
  Tensors written_in_graph_;                     // of outside, or what is written is a view of it
  Tensors arguments_;                            // as the function got them
  std::vector<bool> given_out_;                  // by buffer: results and gradients
};

}  // namespace tutti
