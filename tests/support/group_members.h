#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/collectives/group.h"

namespace tutti {

using Groups = std::vector<std::unique_ptr<Group>>;

enum class MembersAre { threads, processes, launched };  // by mpirun

// Calls f(group) for each member, on a thread or in a process of its own, which is forked or was launched; what each
// threw, as "code: text".
// What a process does to other memory than a SharedArray is lost with it; its failed expectations count here.
std::vector<std::string> on_all_members(const Groups& groups, MembersAre members, const std::function<void(Group&)>& f);

}  // namespace tutti
