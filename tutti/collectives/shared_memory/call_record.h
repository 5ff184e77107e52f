#pragma once

#include <string>

#include "tutti/collectives/shared_memory/group_memory.h"

namespace tutti {

// `buffer`: of a call in shared memory.
void write_record(CallRecord& record, const Collective& call, uint64_t buffer = 0);

// "all_reduce of 12 float32 'gradients' at train.cpp:41", as to_string of the call, with a name of at most 63 bytes.
std::string to_string(const CallRecord& record);

// Whether two members make the same call; whether a send and a receive are of one another.
bool agree(const CallRecord& a, const CallRecord& b);
bool agree_as_pair(const CallRecord& send, const CallRecord& receive);

}  // namespace tutti
