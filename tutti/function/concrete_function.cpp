#include "tutti/function/concrete_function.h"

#include "tutti/core/error.h"
#include "tutti/function/program.h"

namespace tutti {

ConcreteFunction::ConcreteFunction(std::shared_ptr<const Program> program) : program_(std::move(program)) {
  if (!program_)
    throw Error(ErrorCode::not_found, "get_concrete_function: the function was not called with such arguments yet");
}

size_t ConcreteFunction::num_calls() const { return program_->calls.size(); }

}  // namespace tutti
