#include "tests/support/oracle_cases.h"

#include <gtest/gtest.h>

#include <iostream>
#include <map>

namespace tutti::oracle {
namespace {

bool matches(const Json& exception, const std::string& file, const Json& test) {
  if (exception.at("file") != file || exception.at("kind") != test.at("kind")) return false;
  for (const auto& [member, value] : exception.at("match").items()) {
    const Json::json_pointer place(member[0] == '/' ? member : '/' + member);
    if (!test.contains(place) || test.at(place) != value) return false;
  }
  return true;
}

// Why a case is not run; empty if it is.
std::string exemption(const Json& exceptions, const std::string& file, const Json& test) {
  for (const Json& exception : exceptions)
    if (matches(exception, file, test)) return exception.at("reason");
  return {};
}

void run_case(const Json& test, FunctionRef<bool(const Json& test)> holds) {
  try {
    const bool held = holds(test);
    EXPECT_FALSE(test.contains("error")) << "was to fail: " << test.dump();
    EXPECT_TRUE(held) << test.dump();
  } catch (const Error& error) {
    EXPECT_TRUE(test.contains("error") && same_family(error.code(), test.at("error")))
        << to_string(error.code()) << ": " << error.what() << "\n  in " << test.dump();
  }
}

}  // namespace

bool same_family(ErrorCode code, const Json& recorded_error) {
  static const std::map<std::string, ErrorCode> families{
      {"RuntimeError", ErrorCode::failed_precondition}, {"FailedPreconditionError", ErrorCode::failed_precondition},
      {"UnimplementedError", ErrorCode::unimplemented}, {"NotImplementedError", ErrorCode::unimplemented},
      {"NotFoundError", ErrorCode::not_found},          {"DataLossError", ErrorCode::data_loss},
  };
  const auto family = families.find(recorded_error.at("class"));
  if (family != families.end()) return code == family->second;
  return code == ErrorCode::invalid_argument || code == ErrorCode::out_of_range;  // ValueError, TypeError, …
}

void run_cases(const std::string& file, FunctionRef<bool(const Json& test)> holds,
               const std::set<std::string>& elsewhere) {
  // The exceptions are the project's own, whichever cases are run.
  const Json exceptions = own_document("exceptions.json").at("exceptions");
  int num_run = 0;
  std::map<std::string, int> not_run;
  for (const Json& test : cases(file)) {
    const std::string kind = test.at("kind");
    const std::string reason =
        elsewhere.contains(kind) ? kind + ", in another test" : exemption(exceptions, file, test);
    if (!reason.empty()) {
      ++not_run[reason];
      continue;
    }
    ++num_run;
    run_case(test, holds);
  }
  std::cout << file << ": " << num_run << " cases run\n";
  for (const auto& [reason, count] : not_run) std::cout << "  not run: " << count << " x " << reason << '\n';
  EXPECT_GT(num_run, 0);
}

}  // namespace tutti::oracle
