// A program of LibTorch calls as data, so that it can run on plain tensors and on a mesh, be shortened and be printed.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::fuzz {

using Tensor = at::Tensor;
using Sizes = std::vector<int64_t>;

// Values are fractions with few bits, so that sums of them are exact in every order.
enum class Elements : uint8_t { any, positive, fractions, indices, definite };
// Of the plain tensor that is placed, which is dense: views make the other strides.
enum class Strides : uint8_t { row_major, transposed, channels_last };

struct Input {
  int slot = 0;
  Sizes sizes;
  at::ScalarType dtype = at::kFloat;
  Elements elements = Elements::any;
  int64_t below = 2;  // of indices
  int64_t step = 7, start = 3, scale = 1;
  Strides strides = Strides::row_major;
  bool requires_grad = false;
  bool plain = false;     // stays off the mesh
  std::vector<int> axes;  // for each axis a mesh dimension or -1
  int unreduced = -1;     // a mesh dimension over which its terms are not yet summed
};

struct Argument {
  enum class Kind : uint8_t { constant, tensor, tensors };
  Kind kind = Kind::constant;
  std::vector<int> slots = {};  // of tensors; -1 is none
  at::IValue constant = {};
};

struct Statement {
  enum class Kind : uint8_t { call, backward, gradient, hook, read_gradient, zero_gradients, optimizer_step };
  Kind kind = Kind::call;
  std::optional<c10::OperatorHandle> op = {};  // of a call
  // Of a call as in the schema; of backward the results, of gradient those and the inputs, else the tensor.
  std::vector<Argument> arguments = {};
  int result = 0;  // the slot of the first result, the others follow
  bool no_grad = false;
  int optimizer = 0;  // which, of optimizer_step
};

// Where a program's inputs lie.
enum class Place : uint8_t { merged, separate, in_parts, replicas, recorded, recorded_merged, recorded_separate };
inline bool is_recorded(Place place) { return place >= Place::recorded; }

struct Program {
  static constexpr int kResults = 64;  // slots of a statement

  std::vector<int64_t> mesh{2};  // its sizes; one for replicas
  Place place = Place::merged;
  std::vector<Input> inputs;
  std::vector<Statement> statements;
  int next_slot = 0;

  int64_t num_devices() const;
};

// Thrown for a program whose statements use slots that none fills: a shortened program may be none.
struct Invalid {};

std::string to_string(Place place);
// "add.Tensor"
std::string op_name(const c10::OperatorHandle& op);
// Whether the argument is written, and whether it is an out= argument.
bool is_written(const c10::Argument& argument);

// The plain value of an input, without requires_grad.
Tensor make_value(const Input& input);

}  // namespace tutti::fuzz
