#pragma once

namespace tutti::fuzz {

// From here on each tensor's memory ends where a page ends that nobody may touch, and is given back to the system when
// it is freed: a kernel that reads or writes past its end, or what is freed, ends by signal 11 at that instruction. The
// last bytes of tensors whose size is no multiple of 16 bytes are not watched.
void guard_memory();

}  // namespace tutti::fuzz
