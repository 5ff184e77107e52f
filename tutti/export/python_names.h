#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace tutti::saved_model {

// `name` with '_' for each byte that is no letter of ASCII and no digit.
std::string with_underscores(std::string_view name);

// Identifiers of Python's, each given once. None is a keyword, "self", or a name that the code of torch.fx has a
// meaning for.
class PythonNames {
 public:
  // The name with '_' for what an identifier does not take, and a number behind it where it is taken.
  std::string add(std::string_view name);

 private:
  std::set<std::string, std::less<>> taken_;
  std::map<std::string, int, std::less<>> counts_;
};

}  // namespace tutti::saved_model
