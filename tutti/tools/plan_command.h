#pragma once

#include <iosfwd>

#include "tutti/cluster/environment.h"

// `tutti plan`: how a program will understand what it is started with.
namespace tutti::tools {

// Which of the launchers' variables are taken for the cluster, which are absent or shadowed, and who this process then
// is. Status: 1 if a program would refuse them.
int plan_environment(const cluster::Environment& environment, std::ostream& out);

}  // namespace tutti::tools
