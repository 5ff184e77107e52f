#pragma once

#include <string>
#include <string_view>

#include "tutti/cluster/cluster_spec.h"

// Addresses as launchers tell them, checked where they are read, before anybody waits for a host that cannot be there.
namespace tutti::cluster {

// Throws: invalid_argument, with the variable, the task and the address, for what is no "host:port" with a port from
// `lowest_port` to 65535.
void check_told_address(std::string_view variable, const Task& task, const std::string& address, int lowest_port = 1);

// The same of all tasks, none of which may be without an address. Port 0, any that is free, is one of those that do not
// lead: they tell the others which it is.
void check_told_addresses(std::string_view variable, const ClusterSpec& spec);

}  // namespace tutti::cluster
