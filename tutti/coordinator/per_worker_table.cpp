#include "tutti/coordinator/per_worker_table.h"

#include <c10/util/Type.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::coordinator {

void* PerWorkerTable::at(int64_t number, std::type_index type, int worker) const {
  if (number < 0 || number >= static_cast<int64_t>(values_.size()))
    throw Error(ErrorCode::failed_precondition,
                str("PerWorker value ", number,
                    " was not made here; make it before the coordinator's run, where every "
                    "task does"));
  const Value& value = values_[static_cast<size_t>(number)];
  if (value.type != type)
    throw Error(ErrorCode::data_loss, str("PerWorker value ", number, " is of another type than the function's"));
  if (void* const found = value.at(worker)) return found;
  throw Error(ErrorCode::failed_precondition,
              str("PerWorker value ", number, " was let go here; keep it until the run is over, in every task"));
}

std::vector<std::string> PerWorkerTable::describe() const {
  std::vector<std::string> lines;
  for (const Value& value : values_)
    lines.push_back(str("PerWorker value ", lines.size(), ": ", c10::demangle(value.type.name()), ", made at ",
                        to_string(value.made)));
  return lines;
}

}  // namespace tutti::coordinator
