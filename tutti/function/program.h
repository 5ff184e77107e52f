#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/function/call_place.h"
#include "tutti/function/geometry.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/components.h"
#include "tutti/tensor/leaf_hooks.h"
#include "tutti/tensor/mesh_gradient.h"
#include "tutti/tensor/spec.h"

namespace tutti {

class ProgramCompiler;

// What a function did when it ran: calls in their order, on values that lie in buffers. Plain data.
struct Program {
  struct Buffer {
    enum class Kind {
      argument,   // memory of an argument: bound at each call
      captured,   // memory that somebody outside of the function has: a parameter, an optimizer's state
      replica,    // what a replica, in which the function is called, has of a mesh tensor: bound at each call
      gradient,   // what grad() of a captured leaf holds when the function is entered: bound at each call
      constant,   // written by C++ while the function was recorded, and kept as it was then
      temporary,  // made by a call of the program
    };
    Kind kind;
    int64_t bytes;
    c10::Device device = c10::kCPU;
    bool written = false;       // by a call of the program
    int maker = -1;             // temporary: the number of the call that made it
    int index = -1;             // argument: its number. gradient: of `leaves`. replica: of `meshes`
    int piece = 0;              // gradient: of those that its value lies in
    c10::Storage storage = {};  // captured and constant
    Tensor origin = {};         // captured: the tensor as it was first seen, and what it was then
    std::optional<Geometry> origin_geometry = {};
    bool origin_requires_grad = false;
  };

  struct Value {
    int buffer;
    Geometry geometry;
  };

  // An argument or a result of a call.
  struct Operand {
    enum class Kind { constant, tensor, tensors, optional_tensors };
    Kind kind = Kind::constant;
    at::IValue constant = {};              // a number, a list of sizes, a generator, an undefined tensor
    c10::SmallVector<int, 1> values = {};  // numbers of values; -1: an undefined tensor
  };

  // A part of what a call may run: a branch, the body of a loop.
  struct Part {
    std::string name;
    std::shared_ptr<const Program> program;
  };

  struct Call {
    std::optional<c10::OperatorHandle> op;  // of a call of LibTorch's
    HostStep host_step = {};                // else what runs, by its name
    // Of "cond": what runs if argument 0 is true, and if it is false; it gives the results. Of "while_loop": what tells
    // whether it goes on, and what makes the next state. Argument 0 is the initial state, the last one the greatest
    // number of iterations; the state is the first arguments of each part, and the results.
    // The memory that part i works on is argument 1 + i, a list of tensors in it.
    std::vector<Part> parts = {};
    std::string name;
    std::vector<Operand> arguments;
    std::vector<Operand> results;
    c10::SmallVector<int, 2> reads;  // numbers of buffers
    c10::SmallVector<int, 2> writes;
    bool is_view = false;             // gives nothing but other views of its arguments' buffers
    bool draws = false;               // random numbers
    bool gives_fresh_memory = false;  // without a value: empty()
    bool one_thread = false;          // LibTorch's kernels had one thread, and more where the function was called
    bool grad_mode = false;           // gradients were recorded, which some kernels ask for
    int gpu = -1;                     // the thread's current one
    int replica = -1;                 // of a run in the function: whose call it is; -1: of none, or of all
    CallPlace place = {};             // in a program that is compiled: where it was made

    // Whether a result is a list of tensors.
    bool makes_lists() const;
  };

  struct Result {
    int value;  // -1: an undefined tensor
    bool requires_grad = false;
    bool is_origin = false;  // a captured tensor itself, not another one on its memory
    int argument = -1;       // whose tensor itself it is, in a call that gradients go through
    int same_as = -1;        // the earlier result that is this tensor, too
    bool is_view = false;    // as LibTorch knows it, of the tensor outside or the first result on its memory
  };

  // What one of the calls communicates.
  struct Sent {
    CommunicationCounter* counter;
    int64_t bytes;
  };

  // A captured tensor that may have a gradient, and what the function makes of that.
  struct Leaf {
    Tensor tensor;
    bool is_known = false;                        // from the start, as a leaf of an earlier recording
    bool had_gradient = false;                    // when the function was entered; else when it first used the tensor
    std::vector<int> entry_buffers = {};          // of the pieces of that gradient, if a call uses them
    std::vector<Geometry> entry_geometries = {};  // of these pieces
    bool changes = false;                         // whether the function leaves another gradient than it found
    std::vector<int> exit_values = {};            // that one's pieces, -1: in another process; empty: it leaves none
    const Spec* exit_spec = nullptr;              // of a gradient that is a mesh tensor
    at::DimVector exit_strides = {};              // of the whole of it
    bool needs_none = false;  // it found none: whether it would use one, reset it or let it be is not known
    HookCount hooks = {};     // when the function ended: they ran in its backward passes, and are calls of the program

    // Of a gradient in one piece; -1: it leaves none.
    int exit_value() const { return exit_values.empty() ? -1 : exit_values[0]; }
  };

  // A mesh tensor from outside. Its value lies in captured buffers.
  struct MeshValue {
    Tensor tensor;
    Components components;       // as they were when the function was recorded
    bool requires_grad = false;  // as it was
    bool read = false;           // in global view
    bool written = false;        // likewise
    bool shared = false;         // replicas that run in the function see the value itself
  };

  // Another tensor from outside on the memory of a captured one, as it was first seen.
  struct Alias {
    Tensor tensor;
    c10::Storage storage;
    Geometry geometry;
    bool requires_grad;
  };

  std::string name;  // of the function, in errors
  std::vector<Buffer> buffers;
  std::vector<Value> values;
  std::vector<Call> calls;
  std::vector<Result> results;
  size_t num_saved = 0;  // of the results, the last ones: for the backward pass through a call
  std::vector<Leaf> leaves;
  std::vector<MeshValue> meshes;
  std::vector<Alias> aliases;
  bool runs_replicas = false;
  std::shared_ptr<ProgramCompiler> compiler = {};  // makes what runs the program; null: LibTorch does
  ParallelCall on_replicas = {};  // calls a function on several threads, where the program runs replicas
  bool leaves_shares = false;     // a replica wrote to a value that it shared until then: the next recording differs
  std::vector<Sent> sent = {};    // by calls that are no part's
  std::vector<std::shared_ptr<GradientGroup>> unreduced;  // whose replicas ran, of all processes, and left gradients
  std::vector<c10::VariableVersion> written_versions;     // of tensors from outside, one for each write

  // One line for each call: "%7 = aten::mm(%2, %5)  float32 [64, 10]"; below it, indented, its parts.
  std::string to_string() const;
};

// Whether all that the call reads and writes lies in host memory.
bool is_on_host(const Program& program, const Program::Call& call);
// A leaf's grad() as it is, where to ask for it would be a reduction that all processes make together.
const Tensor& gradient_of(const Tensor& leaf);
// What a leaf's gradient lies in: itself, or the components of a mesh tensor, undefined in other processes; empty where
// there is none. Valid as long as it has that gradient.
at::ArrayRef<Tensor> gradient_pieces(const Tensor& leaf);
// What a buffer that is a gradient's is bound to now; null where the gradient has no such piece.
const Tensor* gradient_piece(const Program& program, const Program::Buffer& gradient);

// "argument", "captured", …
std::string_view name_of(Program::Buffer::Kind kind);
// "aten::add.Tensor", as the dispatcher knows it.
std::string name_of(const c10::OperatorHandle& op);

}  // namespace tutti
