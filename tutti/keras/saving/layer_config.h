#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/keras/shape.h"

namespace tutti::keras {

// The options of a layer in a .keras file, by Keras's names for them. What a layer's maker does not take is an error,
// but for options that are null and initializers, as every weight is in the file. Throws, from every member that takes
// an option: data_loss for one of another type; unimplemented for one that is not there.
class LayerConfig {
 public:
  // `json` is an object; `layer` begins messages: "m.keras: the layer dense (Dense)".
  LayerConfig(std::string_view json, std::string layer);

  bool has(const std::string& option) const;  // and it is not null
  int64_t integer(const std::string& option);
  double number(const std::string& option);
  bool boolean(const std::string& option);
  std::string text(const std::string& option);
  Shape shape(const std::string& option);                    // null is kUnknown
  std::string json(const std::string& option);               // as it is
  std::vector<std::string> list(const std::string& option);  // of elements as they are

  // Takes options that this layer has in one value alone, and that older files may lack: {{"unroll", "false"}}.
  // Throws: unimplemented for another value.
  void require(const std::map<std::string, std::string>& values);
  // Takes options that change nothing here.
  void skip(std::initializer_list<const char*> options);

  // Throws: unimplemented, by name, for options that nothing took.
  void finish() const;

  const std::string& layer() const { return layer_; }
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const std::string& take(const std::string& option);

  std::string layer_;
  std::map<std::string, std::string> options_;  // by name, their JSON
  std::set<std::string> taken_;
};

// The members of a JSON object, and the elements of an array, as they are. `source` begins messages. Throws: data_loss.
std::map<std::string, std::string> json_members(std::string_view object, std::string_view source);
std::vector<std::string> json_elements(std::string_view array, std::string_view source);

}  // namespace tutti::keras
