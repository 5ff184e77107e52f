#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/checkpoint/trackable.h"

namespace tutti::checkpoint {

// An object by the name that a checkpoint has for it.
struct NamedTrackable {
  std::string name;
  Trackable object;
};

// The name of the random numbers' state, which every checkpoint has.
inline constexpr const char* kRandomState = "random_state";

// A visitor that knows the names of the objects that it is in.
class GraphVisitor : public StateVisitor {
 public:
  void object(const std::string& name, Savable& part) final;
  // As tensor(), of one whose rows lie in several tensors, one after another: it is saved as one, and so is restored
  // from and into any number of them.
  virtual void shards(const std::string& name, const std::vector<Tensor>& shards) = 0;
  // The whole number that was saved under this name, before it is restored too. Saving, there is none.
  virtual std::optional<int64_t> saved_number(const std::string&) const { return {}; }

 protected:
  // "object/part/NAME"
  std::string path_of(const std::string& name) const { return path_ + name; }

 private:
  std::string path_;
};

// Has the visitor see the state of all objects, and of the random numbers. In global view.
void visit_all(const std::vector<NamedTrackable>& objects, GraphVisitor& visitor);

}  // namespace tutti::checkpoint
