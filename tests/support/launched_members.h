#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/group_members.h"

namespace tutti {

// Members that are processes which mpirun has started, and which run the same tests in the same order. In each the
// groups have one member that can be used, its own.
int num_launched();
Groups groups_by_mpi(int size, std::chrono::milliseconds timeout);

// Calls f for this process's member; returns what each process's call threw, when all have returned.
std::vector<std::string> in_launched_processes(const Groups& groups, const std::function<std::string(Group&)>& f);

}  // namespace tutti
