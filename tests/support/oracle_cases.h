#pragma once

#include <set>
#include <string>

#include "tests/support/oracle.h"
#include "tutti/core/error.h"
#include "tutti/core/function_ref.h"

namespace tutti::oracle {

// Whether a failure is of the family that was recorded: {"class": "ValueError"} is invalid_argument, and so on.
bool same_family(ErrorCode code, const Json& recorded_error);

// Runs every case of a file. `holds` says whether a case gave what was recorded, and throws what the case throws: a
// tutti::Error of the recorded family is what a case with "error" must do. Cases of the kinds `elsewhere` belong to
// another test; cases that match an entry of exceptions.json, by members or by JSON pointers, are not run. Prints the
// count of each; the rest must hold.
void run_cases(const std::string& file, FunctionRef<bool(const Json& test)> holds,
               const std::set<std::string>& elsewhere = {});

}  // namespace tutti::oracle
