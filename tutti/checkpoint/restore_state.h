#pragma once

#include <string>
#include <vector>

#include "tutti/checkpoint/reader.h"
#include "tutti/checkpoint/save_state.h"

namespace tutti::checkpoint {

// How the names of a checkpoint and those of the objects differ.
struct Differences {
  std::vector<std::string> missing;  // in the checkpoint
  std::vector<std::string> extra;    // in the checkpoint, and nowhere in the objects
  bool none() const { return missing.empty() && extra.empty(); }
  // "The checkpoint lacks …; nothing takes its …"; empty for none.
  std::string to_string() const;
};

// Finds out how the checkpoint fits the objects; changes nothing. In global view.
// Throws: failed_precondition for tensors of another shape or dtype and numbers of another type, all of them in one
// message.
Differences compare(const Reader& reader, const std::vector<NamedTrackable>& objects);

// Gives all objects the state that the checkpoint, which was compared, has for them. Tensors take it in their own mesh
// and layout. In global view. Throws: failed_precondition, before anything is changed, where an iterator does not take
// its state; data_loss for damage, and for nothing else; what an object throws. Some objects may then be restored and
// others not.
void restore(const Reader& reader, const std::vector<NamedTrackable>& objects);

}  // namespace tutti::checkpoint
