#include "tutti/mesh/layout.h"

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {

Layout::Layout(const std::vector<std::string>& axes, Mesh mesh, const std::vector<std::string>& unreduced)
    : mesh_(std::move(mesh)) {
  DimensionMask used = 0;
  const auto take = [&](const std::string& name) {
    const int dimension = mesh_.dimension(name);
    if (used >> dimension & 1)
      throw Error(ErrorCode::invalid_argument,
                  str("Layout: mesh dimension \"", name, "\" is used twice; it can split one axis or hold one sum"));
    used |= DimensionMask{1} << dimension;
    return dimension;
  };
  for (const auto& name : axes) axes_.push_back(name == kUnsharded ? -1 : take(name));
  for (const auto& name : unreduced) unreduced_ |= DimensionMask{1} << take(name);
}

Layout Layout::replicated(const Mesh& mesh, int rank) {
  return Layout(mesh, std::vector<int>(static_cast<size_t>(rank), -1));
}

Layout Layout::batch_sharded(const Mesh& mesh, const std::string& dimension, int rank) {
  if (rank < 1)
    throw Error(ErrorCode::invalid_argument, str("Layout::batch_sharded: rank is ", rank, "; it must be at least 1"));
  std::vector<int> axes(static_cast<size_t>(rank), -1);
  axes[0] = mesh.dimension(dimension);
  return Layout(mesh, std::move(axes));
}

bool Layout::is_replicated() const {
  return !unreduced_ && std::all_of(axes_.begin(), axes_.end(), [](int dimension) { return dimension < 0; });
}

std::string Layout::to_string() const {
  const auto& dimensions = mesh_.dimensions();
  std::vector<std::string> names;
  for (const int dimension : axes_)
    names.push_back(dimension < 0 ? kUnsharded : dimensions[static_cast<size_t>(dimension)].name);
  std::string text = str_list(names);
  if (!unreduced_) return text;
  text += " unreduced={";
  bool first = true;
  for (size_t d = 0; d < dimensions.size(); ++d)
    if (unreduced_ >> d & 1) {
      text += (first ? "" : ", ") + dimensions[d].name;
      first = false;
    }
  return text + "}";
}

}  // namespace tutti
