// Runs programs.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "program.h"
#include "tutti/mesh/mesh.h"

namespace tutti::fuzz {

// What is seen of a slot, or of the gradient of an input, after a program.
struct Seen {
  int slot;
  bool is_gradient;
  Tensor value;          // plain, of its own memory; undefined where the tensor is
  Sizes sizes, strides;  // what the tensor itself says
  at::ScalarType dtype;
  bool requires_grad;
  int same_as = -1;  // the first slot that has the same tensor, not one like it
};

struct Failure {
  size_t statement;
  std::string text;
  bool is_torch = false;    // a c10::Error
  bool is_refusal = false;  // a tutti::Error that is not internal
};

struct Outcome {
  std::vector<Seen> seen;
  std::optional<Failure> failure;
  bool writes_overlap = false;  // a call wrote to elements that share places, with each other or with what it read
};

// How a run on plain tensors differs from the plain one.
struct Variation {
  double noise = 0;  // by how many units of the last place inputs, and what comes of integers, are changed, at random
  uint64_t seed = 0;
  bool row_major = false;    // what calls read is copied to row-major memory, but for views
  bool wide = false;         // what would have 16 or 32 bits has 64: inputs, and results whose type nobody names
  bool other_zeros = false;  // zeros that are sums have the other sign
};

class Optimizers;

// The slots of a program that runs.
class Machine {
 public:
  explicit Machine(const Program& program, const Variation& variation = {});
  ~Machine();

  // What calls f gets: each result with a fraction of a call that was given none.
  void change_first_fractions(std::function<Tensor(const Tensor&)> f) { change_ = std::move(f); }
  void set(int slot, Tensor tensor) { slots_[slot] = std::move(tensor); }
  const std::map<int, Tensor>& slots() const { return slots_; }
  void restore(std::map<int, Tensor> slots) { slots_ = std::move(slots); }
  // Throws Invalid, and what the statement throws.
  void run(const Statement& statement);
  // Runs all statements up to the first that throws, and looks at all slots by `plain_of`. Throws Invalid.
  Outcome run_all(const std::function<Tensor(const Tensor&)>& plain_of);

 private:
  const Tensor& at(int slot) const;
  std::vector<Tensor> leaves() const;
  void call(const Statement& statement);
  void backward(const Statement& statement);
  void gradient(const Statement& statement);
  int first_with(const Tensor& tensor) const;
  Seen look(int slot, bool is_gradient, const Tensor& tensor, const std::function<Tensor(const Tensor&)>& plain_of);

  const Program& program_;
  const bool row_major_, other_zeros_;
  std::function<Tensor(const Tensor&)> change_;
  std::map<int, Tensor> slots_;
  std::unique_ptr<Optimizers> optimizers_;
  bool writes_overlap_ = false;
};

// Calls f and tells what it threw.
std::optional<Failure> failure_of(const std::function<void()>& f);

// On plain tensors.
Outcome run_plain(const Program& program, const Variation& variation = {});
// In global view.
Outcome run_on_mesh(const Program& program);
// Where such a program's inputs lie, and an input there, without requires_grad.
Mesh mesh_of(const Program& program);
Tensor on_mesh(const Input& input, const Mesh& mesh);

struct ReplicaOutcomes {
  std::vector<Outcome> replicas;
  Outcome after;  // the inputs and their gradients in global view
};
ReplicaOutcomes run_in_replicas(const Program& program);

}  // namespace tutti::fuzz
