#pragma once

#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "tutti/core/function_ref.h"
#include "tutti/device/gpu_graph.h"
#include "tutti/function/geometry.h"

namespace tutti {

// Steps of a replay that follow each other on one GPU, as one launch. In the first runs they stay steps; then a graph
// is made of them. What lies elsewhere in each run is copied to where the graph has it, and back. Threads: one at a
// time.
class GraphedSteps {
 public:
  // Of a buffer, by what the steps do with it. Buffers that nobody else sees are the graph's own affair.
  enum class Role {
    fixed,   // it lies somewhere: a graph is of one place
    copied,  // it lies elsewhere in each run
    made,    // the steps make it, for later ones
    given,   // the same, for who called the function, who keeps it
  };
  struct Use {
    Role role;
    c10::Storage storage;
    int64_t bytes;
    bool is_written = false;
    bool is_freed = false;  // by the steps
  };
  GraphedSteps(c10::Device gpu, std::vector<Use> uses);

  // Whether that is faster: a graph is one launch, and what is copied before it and behind is two more.
  static bool pays(size_t num_steps, const std::vector<Use>& uses);
  // For tests: whether it is said to pay in any case.
  static void always_pays(bool always);

  // Does what they do, in a run; a graph is made of what `steps` gives the GPU. Returns false where they have to be run
  // as steps, and nothing was done.
  bool launch(FunctionRef<void()> steps);
  // Why no graph can be made of them, which stay steps then; null: one can, as far as that is known.
  std::exception_ptr failure() const { return failure_; }

 private:
  struct Part {
    Use use;
    Tensor here;                  // its bytes, where it lies in a run
    c10::Storage in_graph = {};   // where the graph has it, unless that works on it here
    const void* place = nullptr;  // fixed: where it lies
  };
  struct Copies {
    std::vector<Tensor> to = {}, from = {};
  };

  void end_shares();
  bool is_in_place() const;
  bool overlaps() const;
  void copy_there();
  bool make_graph(FunctionRef<void()> steps);
  void plan_copies_back();
  void copy_back();

  const c10::Device gpu_;
  std::vector<Part> parts_;
  Copies before_, after_;  // the graph
  std::unique_ptr<GpuGraph> graph_;
  std::exception_ptr failure_;
  int num_runs_ = 0, num_graphs_ = 0;
};

}  // namespace tutti
