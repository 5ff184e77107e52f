#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace tutti::cluster {

// Variables of an environment: those of this process, or others that a test gives. A value. What they say is checked
// where it is read; messages name the variable.
class Environment {
 public:
  using Variables = std::map<std::string, std::string, std::less<>>;

  Environment() = default;
  Environment(Variables variables) : variables_(std::move(variables)) {}
  // Reads all of them, which no other thread may change at that time.
  static Environment of_process();

  bool has(std::string_view name) const { return variables_.contains(name); }
  // Throws: failed_precondition for a variable that is not set.
  const std::string& text(std::string_view name) const;
  // Throws also invalid_argument for what is no whole number from `low` to `high`.
  int integer(std::string_view name, int low, int high) const;

 private:
  Variables variables_;
};

// A text of somebody else's, in quotation marks, cut and made visible for a message.
std::string visible(std::string_view text);

}  // namespace tutti::cluster
