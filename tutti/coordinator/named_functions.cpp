#include "tutti/coordinator/named_functions.h"

#include <c10/util/Type.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::coordinator {

std::vector<std::string> NamedFunctions::describe(const servers::ServedState& state) const {
  std::vector<std::string> lines = state.describe();
  for (const std::string& line : values->describe()) lines.push_back(line);
  for (const NamedFunction& function : functions)
    lines.push_back(str("function '", function.name, "', ", c10::demangle(function.type.name()), ", made at ",
                        to_string(function.location)));
  return lines;
}

void require_equal_definitions(const std::vector<std::string>& here, const std::vector<std::string>& there,
                               const std::string& task_here, const std::string& task_there) {
  for (size_t i = 0; i < std::max(here.size(), there.size()); ++i) {
    const std::string nothing = "nothing more";
    const std::string &mine = i < here.size() ? here[i] : nothing, &theirs = i < there.size() ? there[i] : nothing;
    if (mine != theirs)
      throw Error(ErrorCode::failed_precondition,
                  str("the tasks have not made the same: ", task_here, " has ", mine, " where ", task_there, " has ",
                      theirs, "; every task makes the same variables, optimizers, values and functions in one order"));
  }
}

}  // namespace tutti::coordinator
