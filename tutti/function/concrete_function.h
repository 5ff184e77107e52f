#pragma once

#include <memory>
#include <string>

namespace tutti {

struct Program;

// One recording of a function.
class ConcreteFunction {
 public:
  // Throws: not_found if there is no program.
  explicit ConcreteFunction(std::shared_ptr<const Program> program);

  // What it does: its values, and a line for each call with what that reads and gives.
  const Program& graph() const { return *program_; }
  size_t num_calls() const;

 private:
  std::shared_ptr<const Program> program_;
};

}  // namespace tutti
